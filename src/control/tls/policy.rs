//! The policy of a listener: what a handshake must satisfy before a request is answered, and the configuration of rustls that enforces it.
//!
//! All connections of a listener have the same policy, whatever name a client asks for. So no request can reach a site under a weaker policy than
//! that of its listeners, and no name in a handshake has to be compared with that of a request. A site that asks for certificates of clients names
//! its listeners; the routes of the others do not lead to it.

use super::{
    brought::CHALLENGE_PROTOCOL,
    certificate::TlsCertificate,
    pem, provider,
    table::CertificateTable,
    tickets::{TicketKeys, TicketSecret, Ticketer},
};
use crate::base::{
    error::UserError,
    tls_config::{TlsPolicy, TlsPolicyId},
};
use rustls::{
    RootCertStore, ServerConfig, SupportedProtocolVersion,
    pki_types::CertificateDer,
    server::{NoServerSessionStorage, WebPkiClientVerifier},
    version::{TLS12, TLS13},
};
use std::{fmt, sync::Arc};
use tarpon_site::Printable;

/// The TLS of listeners: certificates, and what is asked of clients.
///
/// ```no_run
/// use std::net::TcpListener;
/// use tarpon::{Listener, Server, Settings, Site, TlsCertificate, TlsConfig};
///
/// let certificate = TlsCertificate::from_pem_files("fullchain.pem", "privkey.pem")?;
/// let tls = TlsConfig::new(&[certificate])?;
/// let listener = Listener::try_from(TcpListener::bind("0.0.0.0:443")?)?.with_tls(&tls);
/// let server = Server::start(&Settings::default(), vec![listener], Site::from_dir("public")?)?;
/// // When the certificate was renewed, from any thread:
/// tls.replace(&[TlsCertificate::from_pem_files("fullchain.pem", "privkey.pem")?]);
/// # server.join()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct TlsConfig {
    server: Arc<ServerConfig>,
    certificates: Arc<CertificateTable>,
    ticket_keys: Arc<TicketKeys>,
    policy: TlsPolicyId,
}

/// The protocols above TLS, the preferred one first: RFC 7301, section 6.
const ALPN: [&[u8]; 2] = [b"http/1.1", b"http/1.0"];

/// Tickets after a full handshake. A client uses each once (RFC 8446, appendix C.4), and a browser opens more than one connection at a time.
const TICKET_COUNT: usize = 2;

impl TlsConfig {
    /// Returns the configuration of a server that asks for no certificate of clients. It has TLS 1.3 and 1.2, prefers a key exchange that resists
    /// quantum computers, and resumes sessions by tickets whose keys rotate every 8 hours. A client that asks for an unknown name gets the
    /// first certificate.
    ///
    /// # Errors
    /// There is no certificate.
    pub fn new(certificates: &[TlsCertificate]) -> Result<TlsConfig, UserError> {
        if certificates.is_empty() {
            let why = "there is no certificate";
            return Err(UserError::new("cannot configure TLS", why, "pass at least one TlsCertificate"));
        }
        let table = Arc::new(CertificateTable::new(certificates, false));
        TlsConfig::with_policy(&TlsPolicy::default(), table, &TicketKeys::new(TicketSecret::random()))
    }

    /// Replaces all certificates, also while a server uses them. No connection is closed.
    pub fn replace(&self, certificates: &[TlsCertificate]) {
        self.certificates.replace(certificates);
    }

    /// Returns the configuration of rustls.
    pub(crate) fn server(&self) -> &Arc<ServerConfig> {
        &self.server
    }

    /// Returns the keys of session tickets.
    pub(crate) fn ticket_keys(&self) -> &Arc<TicketKeys> {
        &self.ticket_keys
    }

    /// Returns what it asks of clients.
    pub(crate) fn policy(&self) -> TlsPolicyId {
        self.policy
    }

    /// Returns the configuration of the listeners with a policy.
    ///
    /// # Errors
    /// The certificates of the authorities of clients cannot be read.
    pub(super) fn with_policy(
        policy: &TlsPolicy,
        certificates: Arc<CertificateTable>,
        keys: &Arc<TicketKeys>,
    ) -> Result<TlsConfig, UserError> {
        let versions: &[&SupportedProtocolVersion] =
            if policy.requires_tls13 { &[&TLS13] } else { &[&TLS13, &TLS12] };
        let builder =
            ServerConfig::builder_with_provider(Arc::clone(provider())).with_protocol_versions(versions);
        let builder = builder.expect("the provider has suites of both versions");
        let authorities = policy.client_ca.as_deref().map(pem::read_certificates).transpose();
        let authorities = authorities.map_err(|error| error.about("tls-client-ca"))?;
        let id = identity(policy, authorities.as_deref());
        let builder = match authorities {
            None => builder.with_no_client_auth(),
            Some(authorities) => {
                let mut roots = RootCertStore::empty();
                let added = authorities.into_iter().try_for_each(|authority| roots.add(authority));
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(roots.into(), Arc::clone(provider()));
                let verifier =
                    if policy.is_client_auth_optional { verifier.allow_unauthenticated() } else { verifier };
                let built = added.map_err(|error| error.to_string());
                let built = built.and_then(|()| verifier.build().map_err(|error| error.to_string()));
                let path = policy
                    .client_ca
                    .as_deref()
                    .unwrap_or_else(|| unreachable!("the authorities come from a file"));
                builder.with_client_cert_verifier(built.map_err(|error| {
                    let what = format!("cannot use {} to check certificates of clients", path.printable());
                    UserError::new(
                        what,
                        error,
                        "name the certificates of the authorities that sign those of clients",
                    )
                    .about("tls-client-ca")
                })?)
            }
        };
        let mut server = builder.with_cert_resolver(Arc::clone(&certificates) as _);
        // In order of preference.
        let challenges = certificates.has_challenges().then_some(CHALLENGE_PROTOCOL);
        server.alpn_protocols = ALPN.into_iter().chain(challenges).map(Vec::from).collect();
        server.max_fragment_size = Some(FRAGMENT_LEN_MAX);
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.ticketer = Arc::new(Ticketer { keys: Arc::clone(keys), policy: id });
        server.send_tls13_tickets = TICKET_COUNT;
        // Data before the end of the handshake can be replayed: RFC 8446, section 8.
        server.max_early_data_size = 0;
        // For the kernel alone: `Transport::give_keys`.
        server.enable_secret_extraction = true;
        Ok(TlsConfig { server: server.into(), certificates, ticket_keys: Arc::clone(keys), policy: id })
    }
}

/// The longest record with its header: rustls counts both. So each record that leaves fits in a send buffer.
pub(super) const FRAGMENT_LEN_MAX: usize = tarpon_conn::RECORD_PLAIN_LEN_MAX + 5;

/// Returns what a session is bound to: the authorities, whether a certificate is required, and the versions. The suites are the same for all
/// listeners; a change of them changes [`LABEL`].
fn identity(policy: &TlsPolicy, authorities: Option<&[CertificateDer<'_>]>) -> TlsPolicyId {
    let mut hash = aws_lc_rs::digest::Context::new(&aws_lc_rs::digest::SHA256);
    hash.update(LABEL);
    hash.update(&[
        policy.requires_tls13.into(),
        policy.is_client_auth_optional.into(),
        authorities.is_some().into(),
    ]);
    for authority in authorities.unwrap_or_default() {
        hash.update(&(authority.len() as u64).to_be_bytes());
        hash.update(authority);
    }
    TlsPolicyId(hash.finish().as_ref().try_into().expect("SHA-256 has 32 bytes"))
}

const LABEL: &[u8] = b"tarpon TLS policy 1\0";

impl fmt::Debug for TlsConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsConfig").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::tls::test_certificates::{ClientIdentity, TestAuthority, client, connect};
    use rustls::{
        HandshakeKind::{Full, Resumed},
        NamedGroup, ProtocolVersion,
    };
    use std::{fs, path::PathBuf};

    fn policy(client_ca: Option<PathBuf>, is_client_auth_optional: bool, requires_tls13: bool) -> TlsPolicy {
        TlsPolicy { client_ca, is_client_auth_optional, requires_tls13 }
    }

    #[test]
    #[rustfmt::skip]
    fn clients_are_accepted_as_the_policy_says() {
        let dir = tempfile::tempdir().unwrap();
        let (ca, other) = (TestAuthority::new(), TestAuthority::new());
        let ca_file = dir.path().join("ca.pem");
        fs::write(&ca_file, ca.pem()).unwrap();
        let (known, stranger) = (ca.issue_for_client(), other.issue_for_client());
        let none = policy(None, false, false);
        let required = policy(Some(ca_file.clone()), false, false);
        let optional = policy(Some(ca_file), true, false);
        let new_only = policy(None, false, true);
        let table = Arc::new(CertificateTable::new(&[ca.issue(&["localhost"])], true));
        let keys = TicketKeys::new(TicketSecret::random());
        let v13: &[&SupportedProtocolVersion] = &[&TLS13];
        let v12: &[&SupportedProtocolVersion] = &[&TLS12];
        type Client<'a> = (&'a [&'static SupportedProtocolVersion], Option<&'a ClientIdentity>, &'a str);
        let cases: &[(&str, &TlsPolicy, Client<'_>, bool)] = &[
            // case                       policy     versions client's certificate    name          accepted
            ("1.3",                       &none,     (v13,     None,            "localhost"),  true),
            ("1.2",                       &none,     (v12,     None,            "localhost"),  true),
            ("unknown name",              &none,     (v13,     None,            "example.org"), false),
            ("1.3 required, 1.3",         &new_only, (v13,     None,            "localhost"),  true),
            ("1.3 required, 1.2",         &new_only, (v12,     None,            "localhost"),  false),
            ("a certificate",             &required, (v13,     Some(&known),    "localhost"),  true),
            ("a certificate, 1.2",        &required, (v12,     Some(&known),    "localhost"),  true),
            ("none",                      &required, (v13,     None,            "localhost"),  false),
            ("none, 1.2",                 &required, (v12,     None,            "localhost"),  false),
            ("that of a stranger",        &required, (v13,     Some(&stranger), "localhost"),  false),
            ("optional, one",             &optional, (v13,     Some(&known),    "localhost"),  true),
            ("optional, none",            &optional, (v13,     None,            "localhost"),  true),
            ("optional, of a stranger",   &optional, (v13,     Some(&stranger), "localhost"),  false),
        ];
        for (name, policy, (versions, certificate, host), is_accepted) in cases {
            let tls = TlsConfig::with_policy(policy, Arc::clone(&table), &keys).expect(name);
            let found = connect(&tls, &client(&ca, versions, *certificate), host);
            assert_eq!(found.is_ok(), *is_accepted, "{name}: {found:?}");
            if let Ok(server) = found {
                assert_eq!(server.alpn_protocol(), Some(ALPN[0]), "{name}");
                assert_eq!(server.peer_certificates().is_some(), certificate.is_some(), "{name}");
                let group = server.negotiated_key_exchange_group().map(|group| group.name());
                let is_13 = server.protocol_version() == Some(ProtocolVersion::TLSv1_3);
                assert_eq!(group == Some(NamedGroup::X25519MLKEM768), is_13, "{name}: {group:?}");
            }
        }
    }

    #[test]
    #[rustfmt::skip]
    fn session_resumes_under_its_policy_only() {
        let dir = tempfile::tempdir().unwrap();
        let (ca, other) = (TestAuthority::new(), TestAuthority::new());
        let (ca_file, others) = (dir.path().join("ca.pem"), dir.path().join("others.pem"));
        fs::write(&ca_file, ca.pem()).unwrap();
        fs::write(&others, other.pem() + &ca.pem()).unwrap();
        let table = Arc::new(CertificateTable::new(&[ca.issue(&["localhost", "b.test"])], false));
        let secret = TicketSecret::random();
        let none = policy(None, false, false);
        let asks = policy(Some(ca_file.clone()), true, false);
        let requires = policy(Some(ca_file.clone()), false, false);
        let asks_others = policy(Some(others), true, false);
        let new_only = policy(None, false, true);
        let renamed = dir.path().join("renamed.pem");
        fs::copy(&ca_file, &renamed).unwrap();
        let same_authorities = policy(Some(renamed), true, false);
        let cases: &[(&str, &TlsPolicy, &TlsPolicy, &str, bool)] = &[
            // case                     first   then               name         resumes
            ("the same",                &none,  &none,             "localhost", true),
            ("the same, asked",         &asks,  &asks,             "localhost", true),
            ("another file",            &asks,  &same_authorities, "localhost", true),
            ("another name",            &none,  &none,             "b.test",    false),
            ("none to asked",           &none,  &asks,             "localhost", false),
            ("asked to required",       &asks,  &requires,         "localhost", false),
            ("other authorities",       &asks,  &asks_others,      "localhost", false),
            ("older versions allowed",  &new_only, &none,          "localhost", false),
        ];
        for versions in [&[&TLS13][..], &[&TLS12]] {
            for (name, first, then, host, resumes) in cases {
                if first.requires_tls13 && versions == [&TLS12] {
                    continue;
                }
                // Another process derives the same keys.
                let keys = [(); 2].map(|()| TicketKeys::new(secret.clone()));
                let config = |policy, keys| TlsConfig::with_policy(policy, Arc::clone(&table), keys).expect(name);
                let client = client(&ca, versions, Some(&ca.issue_for_client()));
                let server = connect(&config(first, &keys[0]), &client, "localhost").expect(name);
                assert_eq!(server.handshake_kind(), Some(Full), "{name}");
                let server = connect(&config(then, &keys[1]), &client, host).expect(name);
                assert_eq!(server.handshake_kind(), Some(if *resumes { Resumed } else { Full }), "{name}, {versions:?}");
                assert_eq!(server.peer_certificates().is_some(), then.client_ca.is_some(), "{name}, {versions:?}");
            }
        }
    }

    #[test]
    fn replaced_certificates_are_used_at_once() {
        let ca = TestAuthority::new();
        let tls = TlsConfig::new(&[ca.issue(&["a.test"])]).unwrap();
        let client = client(&ca, &[&TLS13], None);
        assert!(connect(&tls, &client, "b.test").is_err(), "no certificate covers b.test");
        tls.replace(&[ca.issue(&["b.test"])]);
        connect(&tls, &client, "b.test").unwrap();
        assert!(TlsConfig::new(&[]).unwrap_err().to_string().contains("pass at least one TlsCertificate"));
    }
}
