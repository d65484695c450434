//! Certificates and clients for tests, in memory.

use super::{certificate::TlsCertificate, policy::TlsConfig, provider};
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::{
    ClientConfig, ClientConnection, ConnectionCommon, Error, RootCertStore, ServerConnection,
    SupportedProtocolVersion,
    client::Resumption,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName},
};
use std::sync::Arc;

/// Returns a self-signed certificate with its key.
pub(crate) fn issue(names: &[&str]) -> (rcgen::Certificate, KeyPair) {
    let key = KeyPair::generate().expect("a key");
    (params(names).self_signed(&key).expect("a certificate"), key)
}

/// Returns what a certificate says.
pub(crate) fn params(names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    CertificateParams::new(names).expect("the names are valid")
}

/// Returns certificate and key as PEM.
pub(crate) fn pem_of((certificate, key): &(rcgen::Certificate, KeyPair)) -> (String, String) {
    (certificate.pem(), key.serialize_pem())
}

/// Returns a self-signed certificate as the server uses it.
pub(crate) fn certificate(names: &[&str]) -> TlsCertificate {
    let (certificate, key) = issue(names);
    TlsCertificate::from_der(vec![certificate.der().to_vec()], key.serialize_der()).expect("a certificate")
}

/// A certificate authority.
pub(crate) struct TestAuthority {
    issuer: Issuer<'static, KeyPair>,
    certificate: rcgen::Certificate,
}

/// The certificate of a client, and its key.
pub(crate) type ClientIdentity = (CertificateDer<'static>, Vec<u8>);

impl TestAuthority {
    pub(crate) fn new() -> TestAuthority {
        let key = KeyPair::generate().expect("a key");
        let mut params = params(&[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).expect("a certificate");
        TestAuthority { issuer: Issuer::new(params, key), certificate }
    }

    pub(crate) fn pem(&self) -> String {
        self.certificate.pem()
    }

    /// Issues a certificate for a server.
    pub(crate) fn issue(&self, names: &[&str]) -> TlsCertificate {
        let key = KeyPair::generate().expect("a key");
        let issued = params(names).signed_by(&key, &self.issuer).expect("a certificate");
        TlsCertificate::from_der(vec![issued.der().to_vec()], key.serialize_der()).expect("a certificate")
    }

    /// Issues a certificate for a client.
    pub(crate) fn issue_for_client(&self) -> ClientIdentity {
        let key = KeyPair::generate().expect("a key");
        let mut params = params(&["client"]);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let issued = params.signed_by(&key, &self.issuer).expect("a certificate");
        (issued.der().clone(), key.serialize_der())
    }
}

/// Returns a client that trusts an authority, and remembers its sessions.
pub(crate) fn client(
    trusted: &TestAuthority,
    versions: &[&'static SupportedProtocolVersion],
    identity: Option<&ClientIdentity>,
) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.certificate.der().clone()).expect("an authority");
    let builder = ClientConfig::builder_with_provider(Arc::clone(provider()));
    let builder = builder.with_protocol_versions(versions).expect("versions").with_root_certificates(roots);
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let key = PrivateKeyDer::try_from(key.clone()).expect("a key");
            builder.with_client_auth_cert(vec![certificate.clone()], key).expect("a certificate")
        }
    };
    config.alpn_protocols = vec![b"h2".into(), b"http/1.1".into()];
    config.resumption = Resumption::in_memory_sessions(8);
    Arc::new(config)
}

/// Shakes hands in memory.
///
/// # Errors
/// One of both sides refuses.
pub(crate) fn connect(
    tls: &TlsConfig,
    client: &Arc<ClientConfig>,
    host: &str,
) -> Result<ServerConnection, Error> {
    let name = ServerName::try_from(host.to_owned()).expect("a name");
    let mut client = ClientConnection::new(Arc::clone(client), name)?;
    let mut server = ServerConnection::new(Arc::clone(tls.server()))?;
    loop {
        let sent = pass(&mut client, &mut server)?;
        if pass(&mut server, &mut client)? + sent == 0 {
            return Ok(server);
        }
    }
}

/// Passes what one side has to send to the other side. Returns the number of bytes.
fn pass<F, T>(from: &mut ConnectionCommon<F>, to: &mut ConnectionCommon<T>) -> Result<usize, Error> {
    let mut wire = Vec::new();
    while from.wants_write() {
        from.write_tls(&mut wire).expect("memory has room");
    }
    let (len, mut rest) = (wire.len(), &wire[..]);
    while !rest.is_empty() {
        to.read_tls(&mut rest).expect("the side reads");
        to.process_new_packets()?;
    }
    Ok(len)
}
