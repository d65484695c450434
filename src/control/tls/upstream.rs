//! TLS to upstream servers: whose certificates are accepted.
//!
//! ```text
//! certificates of `ca`, or of the system ─▶ ClientConfig ─▶ Transport of a connection
//! `tls-name`, or the host of the address ─▶ ServerName ───┘
//! ```
//!
//! The supervisor reads the certificates while it has the rights that it was started with.

use super::{pem, policy::FRAGMENT_LEN_MAX, provider};
use crate::base::{
    error::UserError,
    upstream_config::{UpstreamAddress, UpstreamTls},
};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::ParsedCertificate,
    version::{TLS12, TLS13},
};
use std::sync::Arc;
use tarpon_site::Printable;
use x509_parser::{
    prelude::{FromDer, X509Certificate},
    time::ASN1Time,
};

/// The only protocol above TLS: RFC 7301, section 6.
const ALPN: &[u8] = b"http/1.1";

/// Returns the configuration of connections to the servers of an upstream. It has TLS 1.3 and 1.2, and resumes sessions.
///
/// # Errors
/// The file of certificates cannot be read or used, or the system has none.
pub(crate) fn client_config(upstream: &str, tls: &UpstreamTls) -> Result<Arc<ClientConfig>, UserError> {
    let builder = ClientConfig::builder_with_provider(Arc::clone(provider()));
    let builder =
        builder.with_protocol_versions(&[&TLS13, &TLS12]).expect("the provider has suites of both versions");
    let verifier: Arc<dyn ServerCertVerifier> = match tls.accepts_any {
        true => Arc::new(AcceptAnyCertificate),
        false => Arc::new(UpstreamVerifier::new(upstream, tls)?),
    };
    let mut client = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
    client.alpn_protocols = vec![ALPN.into()];
    client.max_fragment_size = Some(FRAGMENT_LEN_MAX);
    // Data before the end of the handshake can be replayed: RFC 8446, section 8.
    client.enable_early_data = false;
    client.enable_secret_extraction = false;
    Ok(client.into())
}

/// Returns the name that the certificate of a server must be for.
///
/// # Errors
/// It is no name, or there is none: the server has a socket of the Unix domain.
pub(crate) fn server_name(
    upstream: &str,
    tls: &UpstreamTls,
    address: &UpstreamAddress,
) -> Result<ServerName<'static>, UserError> {
    let what = || format!("cannot check the certificates of upstream {upstream}");
    let hint = "set tls-name to the name that the certificate is for";
    let name = match (&tls.name, address) {
        (Some(name), _) => name,
        (None, UpstreamAddress::Tcp { host, .. }) => host,
        (None, UpstreamAddress::Unix(path)) => {
            let why = format!("the socket {} names no host", path.printable());
            return Err(UserError::new(what(), why, hint));
        }
    };
    ServerName::try_from(name.clone())
        .map_err(|_| UserError::new(what(), format_args!("{name} is no name of a host"), hint))
}

/// Accepts certificates that a trusted authority has issued, and the trusted certificates themselves: a server with a certificate that it has
/// signed itself is trusted by naming that certificate.
#[derive(Debug)]
struct UpstreamVerifier {
    issued: Arc<WebPkiServerVerifier>,
    /// The certificates of `ca`. Those of the system are authorities only.
    trusted: Vec<CertificateDer<'static>>,
}

impl UpstreamVerifier {
    fn new(upstream: &str, tls: &UpstreamTls) -> Result<UpstreamVerifier, UserError> {
        let what = format!("cannot check the certificates of upstream {upstream}");
        let mut roots = RootCertStore::empty();
        let trusted = match &tls.ca {
            None => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
                Vec::new()
            }
            Some(path) => {
                let trusted = pem::read_certificates(path).map_err(|error| error.about("ca"))?;
                for root in &trusted {
                    roots.add(root.clone()).map_err(|error| {
                        let why = format!("{} has a certificate that is invalid: {error}", path.printable());
                        UserError::new(&what, why, "name the certificates of authorities with ca").about("ca")
                    })?;
                }
                trusted
            }
        };
        let verifier = WebPkiServerVerifier::builder_with_provider(roots.into(), Arc::clone(provider()));
        let issued = verifier.build().map_err(|_| {
            let hint = "install ca-certificates, or name a file of certificates with ca";
            UserError::new(&what, "the system trusts no authority", hint)
        })?;
        Ok(UpstreamVerifier { issued, trusted })
    }
}

impl ServerCertVerifier for UpstreamVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if !self.trusted.iter().any(|trusted| trusted == end_entity) {
            return self.issued.verify_server_cert(end_entity, intermediates, name, ocsp, now);
        }
        verify_server_name(&ParsedCertificate::try_from(end_entity)?, name)?;
        verify_dates(end_entity, now)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.issued.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.issued.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.issued.supported_verify_schemes()
    }
}

/// Checks that a certificate is valid now: RFC 5280, section 4.1.2.5.
fn verify_dates(certificate: &CertificateDer<'_>, now: UnixTime) -> Result<(), Error> {
    let (_, parsed) = X509Certificate::from_der(certificate).map_err(|_| CertificateError::BadEncoding)?;
    let now = i64::try_from(now.as_secs()).ok().and_then(|now_s| ASN1Time::from_timestamp(now_s).ok());
    let now = now.ok_or(CertificateError::BadEncoding)?;
    let validity = parsed.validity();
    if now < validity.not_before {
        return Err(CertificateError::NotValidYet.into());
    }
    if now > validity.not_after {
        return Err(CertificateError::Expired.into());
    }
    Ok(())
}

/// Accepts any certificate, also an unreadable one: any server at the address is trusted. The signature of the handshake
/// would only show that the server has the key of a certificate, and any certificate is as good.
#[derive(Debug)]
struct AcceptAnyCertificate;

impl ServerCertVerifier for AcceptAnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::tls::{
        certificate::TlsCertificate,
        policy::TlsConfig,
        test_certificates::{TestAuthority, connect, params},
    };
    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, date_time_ymd};
    use rustls::HandshakeKind;
    use std::fs;

    /// Returns a certificate that its owner has signed as an authority, as `openssl req -x509` makes it, and its PEM.
    fn self_signed(mut params: CertificateParams) -> (TlsCertificate, String) {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let made = params.self_signed(&key).unwrap();
        let certificate = TlsCertificate::from_der(vec![made.der().to_vec()], key.serialize_der());
        (certificate.unwrap(), made.pem())
    }

    #[test]
    #[rustfmt::skip]
    fn servers_are_trusted_as_the_options_say() {
        let dir = tempfile::tempdir().unwrap();
        let (ca, stranger) = (TestAuthority::new(), TestAuthority::new());
        let (own, own_pem) = self_signed(params(&["a.test"]));
        let mut expired = params(&["a.test"]);
        expired.not_after = date_time_ymd(2020, 1, 1);
        let (old, old_pem) = self_signed(expired);
        let mut later = params(&["a.test"]);
        later.not_before = date_time_ymd(3000, 1, 1);
        let (early, early_pem) = self_signed(later);
        let (_, other_pem) = self_signed(params(&["a.test"]));
        for (name, pem) in [("ca", &ca.pem()), ("own", &own_pem), ("old", &old_pem), ("early", &early_pem), ("other", &other_pem)] {
            fs::write(dir.path().join(name), pem).unwrap();
        }
        let issued = ca.issue(&["a.test", "127.0.0.1"]);
        #[allow(clippy::type_complexity, reason = "the type of a test table documents its columns")]
        let cases: &[(&str, Option<&str>, &TlsCertificate, &str, Option<&str>)] = &[
            // case                    ca             certificate   name         error
            ("issued",                 Some("ca"),    &issued,      "a.test",    None),
            ("an address",             Some("ca"),    &issued,      "127.0.0.1", None),
            ("another name",           Some("ca"),    &issued,      "b.test",    Some("not valid for name")),
            ("another address",        Some("ca"),    &issued,      "127.0.0.2", Some("not valid for name")),
            ("of a stranger",          Some("ca"),    &stranger.issue(&["a.test"]), "a.test", Some("invalid peer certificate")),
            ("self-signed, unknown",   Some("ca"),    &own,         "a.test",    Some("invalid peer certificate")),
            ("self-signed",            Some("own"),   &own,         "a.test",    None),
            ("self-signed, another name", Some("own"), &own,        "b.test",    Some("not valid for name")),
            ("of the same name",       Some("other"), &own,         "a.test",    Some("invalid peer certificate")),
            ("self-signed, expired",   Some("old"),   &old,         "a.test",    Some("Expired")),
            ("self-signed, too early", Some("early"), &early,       "a.test",    Some("NotValidYet")),
            ("any, of a stranger",     None,          &stranger.issue(&["b.test"]), "a.test", None),
            ("any, expired",           None,          &old,         "a.test",    None),
        ];
        for (name, file, certificate, host, want) in cases {
            let tls = UpstreamTls {
                ca: file.map(|file| dir.path().join(file)),
                name: None,
                accepts_any: file.is_none(),
            };
            let client = client_config("api", &tls).expect(name);
            let server = TlsConfig::new(&[(*certificate).clone()]).unwrap();
            let error = connect(&server, &client, host).err().map(|error| error.to_string());
            match want {
                None => assert_eq!(error, None, "{name}"),
                Some(want) => assert!(error.as_ref().is_some_and(|error| error.contains(want)), "{name}: {error:?}"),
            }
            if want.is_none() {
                let again = connect(&server, &client, host).unwrap();
                assert_eq!(again.handshake_kind(), Some(HandshakeKind::Resumed), "{name}");
                assert_eq!(again.alpn_protocol(), Some(ALPN), "{name}");
            }
        }
    }

    #[test]
    fn broken_files_get_their_message() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("empty"), "").unwrap();
        fs::write(at("odd"), "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n").unwrap();
        #[rustfmt::skip]
        let cases = [
            // file   error
            ("none",  "cannot read certificate DIR/none: no such file or directory; create it"),
            ("empty", "cannot read certificate DIR/empty: the file has no -----BEGIN CERTIFICATE-----;"),
            ("odd",   "cannot check the certificates of upstream api: DIR/odd has a certificate that is invalid:"),
        ];
        for (name, want) in cases {
            let tls = UpstreamTls { ca: Some(at(name)), ..UpstreamTls::default() };
            let error = client_config("api", &tls).unwrap_err().to_string();
            let error = error.replace(&dir.path().printable().to_string(), "DIR");
            assert!(error.starts_with(want), "{name}: {error}");
        }
    }

    #[test]
    fn certificates_are_for_the_configured_name_or_the_host() {
        let tcp = |host: &str| UpstreamAddress::Tcp { host: host.to_owned(), port: 443 };
        let unix = || UpstreamAddress::Unix("/run/a.sock".into());
        #[rustfmt::skip]
        let cases = [
            // tls-name        address             name, or error
            (None,             tcp("b.test"),      Ok("b.test")),
            (None,             tcp("127.0.0.1"),   Ok("127.0.0.1")),
            (None,             tcp("::1"),         Ok("::1")),
            (Some("a.test"),   tcp("127.0.0.1"),   Ok("a.test")),
            (Some("a.test"),   unix(),             Ok("a.test")),
            (None,             unix(),             Err("the socket /run/a.sock names no host")),
            (Some("a b"),      unix(),             Err("a b is no name of a host")),
        ];
        for (name, address, want) in cases {
            let tls = UpstreamTls { name: name.map(str::to_owned), ..UpstreamTls::default() };
            let found = server_name("api", &tls, &address);
            match want {
                Ok(want) => assert_eq!(found.unwrap().to_str(), want),
                Err(why) => assert_eq!(
                    found.unwrap_err().to_string(),
                    format!(
                        "cannot check the certificates of upstream api: {why}; set tls-name to the name that the certificate is for"
                    )
                ),
            }
        }
    }
}
