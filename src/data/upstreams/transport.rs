//! The transport of a new connection to an upstream server.

use tarpon_conn::Transport;

/// What lies between the sockets of an upstream server and their connections.
#[derive(Clone, Debug, Default)]
pub(crate) enum UpstreamTransport {
    /// Nothing: `http`, and `fastcgi`.
    #[default]
    Plain,
}

impl UpstreamTransport {
    /// Returns the transport of a new connection.
    pub(crate) fn open(&self) -> Transport {
        match self {
            UpstreamTransport::Plain => Transport::Plain,
        }
    }
}
