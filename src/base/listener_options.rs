//! What a listener asks of the kernel and of the addresses of clients, as it is configured.

use tarpon_conn::AddressEntry;

/// Options of a listener.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListenerOptions {
    /// The addresses that may connect. If this or `deny` is set, both replace those of the server. Default: none.
    pub allow: Vec<AddressEntry>,
    /// The addresses whose connections are reset. Default: none.
    pub deny: Vec<AddressEntry>,
    /// How many connections may [send with their first packet](crate::Listener::set_fast_open) at a time. Default: 0.
    pub fast_open: u32,
}
