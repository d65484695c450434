//! The transport of a new connection to an upstream server.

use rustls::{ClientConfig, pki_types::ServerName};
use std::sync::Arc;
use tarpon_conn::{Transport, TransportError};

/// What lies between the sockets of an upstream server and their connections.
#[derive(Clone, Debug, Default)]
pub(crate) enum UpstreamTransport {
    /// Nothing: `http`, and `fastcgi`.
    #[default]
    Plain,
    /// TLS: `https`.
    Tls {
        /// Which certificates are trusted. All connections with it share sessions to resume.
        config: Arc<ClientConfig>,
        /// The name that the certificate of the server must be for.
        name: ServerName<'static>,
    },
}

impl UpstreamTransport {
    /// Returns the transport of a new connection.
    ///
    /// # Errors
    /// The configuration cannot be used.
    pub(crate) fn open(&self) -> Result<Transport, TransportError> {
        match self {
            UpstreamTransport::Plain => Ok(Transport::Plain),
            UpstreamTransport::Tls { config, name } => Transport::tls_client(config, name.clone()),
        }
    }

    /// Returns whether connections begin with a handshake.
    pub(crate) fn has_tls(&self) -> bool {
        matches!(self, UpstreamTransport::Tls { .. })
    }
}
