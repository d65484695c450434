//! The configured options of a listener: the addresses that may connect, and TCP Fast Open.

use tarpon_conn::AddressEntry;

/// Options of a listener.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListenerOptions {
    /// The addresses that may connect. If this or `deny` is set, both replace those of the server. Default: none.
    pub allow: Vec<AddressEntry>,
    /// The addresses whose connections are reset. Default: none.
    pub deny: Vec<AddressEntry>,
    /// How many connections may [send with their first packet](crate::Listener::set_fast_open) at a time. Default: `None`, as the kernel has it.
    pub fast_open: Option<u32>,
}
