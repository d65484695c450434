//! A client that speaks TLS and records the certificate that it sees.

use super::{
    TEST_TIMEOUT,
    client::{Stream, TestClient, get},
    kernel::TcpPair,
};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme, StreamOwned,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use std::{
    io,
    net::{Shutdown, SocketAddr, TcpStream},
    sync::{Arc, Mutex},
};
use x509_parser::prelude::{FromDer, X509Certificate};

/// Connects by TLS under one name. Its connections resume sessions, as those of a browser do.
#[derive(Clone)]
pub(crate) struct TlsConnector {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    seen: Arc<SeenCertificate>,
}

/// Accepts each certificate whose key has signed the handshake, as no test trusts the issuer, and keeps the last serial number.
#[derive(Debug)]
struct SeenCertificate {
    provider: Arc<CryptoProvider>,
    serial: Mutex<Option<String>>,
}

impl TlsConnector {
    pub(crate) fn new(name: &str) -> TlsConnector {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let seen = Arc::new(SeenCertificate { provider: Arc::clone(&provider), serial: Mutex::default() });
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions");
        let config = config.dangerous().with_custom_certificate_verifier(Arc::clone(&seen) as _);
        let name = ServerName::try_from(name.to_owned()).expect("a name");
        TlsConnector { config: Arc::new(config.with_no_client_auth()), name, seen }
    }

    /// Connects. The handshake follows with the first request.
    pub(crate) fn connect(
        &self,
        address: SocketAddr,
    ) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
        let stream = TcpStream::connect_timeout(&address, TEST_TIMEOUT)?;
        stream.set_read_timeout(Some(TEST_TIMEOUT))?;
        stream.set_nodelay(true)?;
        let connection = ClientConnection::new(Arc::clone(&self.config), self.name.clone());
        Ok(StreamOwned::new(connection.map_err(io::Error::other)?, stream))
    }

    /// Returns the serial number of the certificate that a client without a session gets.
    ///
    /// # Errors
    /// The handshake or the request failed.
    pub(crate) fn serial(address: SocketAddr, name: &str) -> io::Result<String> {
        let connector = TlsConnector::new(name);
        let mut client = TestClient::new(connector.connect(address)?);
        client.try_send(get("/"))?;
        client.try_response()?;
        Ok(connector.seen.serial.lock().expect("no client panics").clone().expect("a certificate"))
    }
}

impl ServerCertVerifier for SeenCertificate {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let (_, certificate) = X509Certificate::from_der(end_entity).expect("a certificate");
        *self.serial.lock().expect("no client panics") = Some(certificate.raw_serial_as_string());
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

impl Stream for StreamOwned<ClientConnection, TcpStream> {
    fn shutdown_write(&self) -> io::Result<()> {
        self.sock.shutdown(Shutdown::Write)
    }

    fn set_blocking(&self, blocking: bool) -> io::Result<()> {
        self.sock.set_nonblocking(!blocking)
    }

    fn tcp_pair(&self) -> Option<TcpPair> {
        TcpPair::of(&self.sock)
    }
}
