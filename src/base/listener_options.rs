//! The configured options of a listener: the addresses that may connect, TCP Fast Open, and HTTP/2.

use super::settings::Http2Use;
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
    /// Whether clients may speak HTTP/2, or must. Default: `None`, [as everywhere](crate::Settings::http2).
    pub http2: Option<Http2Use>,
}
