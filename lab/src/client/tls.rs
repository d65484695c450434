//! TLS of the clients: one version, one suite and one group, so that all servers do the same cryptography.

use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use rustls::client::{ClientSessionStore, Resumption, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::crypto::aws_lc_rs::{cipher_suite, default_provider, kx_group};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::version::TLS13;
use rustls::{ClientConfig, ClientConnection, HandshakeKind, NamedGroup, RootCertStore, StreamOwned};

use super::{ClientError, connect};

/// A blocking connection with TLS.
pub(crate) type LoadTlsStream = StreamOwned<ClientConnection, TcpStream>;

/// What a client offers and trusts: TLS 1.3 with TLS_AES_128_GCM_SHA256 and X25519, ALPN `http/1.1`, and one certificate. A server
/// cannot choose anything else.
#[derive(Clone)]
pub(crate) struct TlsOffer {
    config: Arc<ClientConfig>,
}

impl TlsOffer {
    /// Trusts this certificate alone. With `resumes`, each connection after the first resumes with a ticket of an earlier one.
    pub(crate) fn new(trusted: &CertificateDer<'static>, resumes: bool) -> Result<TlsOffer, ClientError> {
        let mut provider = default_provider();
        provider.cipher_suites = vec![cipher_suite::TLS13_AES_128_GCM_SHA256];
        provider.kx_groups = vec![kx_group::X25519];
        let mut roots = RootCertStore::empty();
        roots.add(trusted.clone())?;
        let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[&TLS13])?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.resumption = if resumes {
            Resumption::store(Arc::new(TicketStore::default()))
        } else {
            Resumption::disabled()
        };
        Ok(TlsOffer { config: Arc::new(config) })
    }

    /// Offers `h2` alone by ALPN.
    pub(crate) fn for_http2(mut self) -> TlsOffer {
        Arc::make_mut(&mut self.config).alpn_protocols = vec![b"h2".to_vec()];
        self
    }

    /// Returns a new session, which has sent nothing.
    pub(crate) fn session(&self) -> Result<ClientConnection, ClientError> {
        let name = ServerName::try_from(SERVER_NAME).expect("the name is a DNS name");
        Ok(ClientConnection::new(Arc::clone(&self.config), name)?)
    }

    /// Connects, and completes the handshake.
    pub(crate) fn connect(
        &self,
        server: SocketAddr,
        read_timeout: Duration,
    ) -> Result<LoadTlsStream, ClientError> {
        let mut stream = StreamOwned::new(self.session()?, connect(server, read_timeout)?);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(stream)
    }
}

/// The tickets of one server. The store of rustls keeps eight: with more connections, it loses tickets that the connections need.
#[derive(Debug, Default)]
struct TicketStore(Mutex<Vec<Tls13ClientSessionValue>>);

impl TicketStore {
    fn tickets(&self) -> MutexGuard<'_, Vec<Tls13ClientSessionValue>> {
        self.0.lock().expect("no client panics with the lock")
    }
}

impl ClientSessionStore for TicketStore {
    fn set_kx_hint(&self, _: ServerName<'static>, _: NamedGroup) {}

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        None
    }

    fn set_tls12_session(&self, _: ServerName<'static>, _: Tls12ClientSessionValue) {}

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        None
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {}

    fn insert_tls13_ticket(&self, _: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        let mut tickets = self.tickets();
        if tickets.len() < TICKETS_MAX {
            tickets.push(ticket);
        }
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.tickets().pop()
    }
}

/// Returns the kind of a completed handshake. Fails if it differs from that of other servers in more than its certificate.
pub(crate) fn handshake_kind(session: &ClientConnection) -> Result<HandshakeKind, ClientError> {
    if session.alpn_protocol() != Some(ALPN) {
        return Err(ClientError::Handshake("the server did not choose http/1.1 by ALPN"));
    }
    match session.handshake_kind() {
        Some(kind @ (HandshakeKind::Full | HandshakeKind::Resumed)) => Ok(kind),
        _ => Err(ClientError::Handshake("the handshake took an additional round trip")),
    }
}

/// Returns the Host of a request to this server.
pub(crate) fn host(server: SocketAddr) -> String {
    format!("{SERVER_NAME}:{}", server.port())
}

/// The name in every certificate, in SNI and in Host.
pub(crate) const SERVER_NAME: &str = "localhost";

const ALPN: &[u8] = b"http/1.1";

/// Tickets that are kept: more than there are connections.
const TICKETS_MAX: usize = 4096;
