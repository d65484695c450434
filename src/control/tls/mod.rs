//! TLS: certificates, the policy of a listener, the keys of session tickets, and the trust in upstream servers.
//!
//! ```text
//! PEM files ─ pem ─▶ TlsCertificate ─▶ CertificateTable ─┐
//! ACME ─ AcmeTable ─▶ brought ───────────────────────────┤
//! [[listener]] ────▶ policy ─────────────────────────────┼─▶ TlsConfig ─▶ Listener ─▶ workers
//! supervisor ─ TicketSecret ─▶ TicketKeys ───────────────┘
//! ```
//!
//! The supervisor reads all files while it has the rights that it was started with. The server process inherits the result, so its user needs no
//! access to the keys. Workers choose a certificate and make tickets without a message to another process.
//!
//! | file | what |
//! |---|---|
//! | `pem` | reads certificates and keys from files |
//! | `certificate` | a certificate with its key, its names and its dates |
//! | `brought` | certificates that ACME brings, from memory that the supervisor shares |
//! | `table` | chooses a certificate by the name that the client asks for |
//! | `policy` | asked client certificates, versions and suites: what a handshake must satisfy |
//! | `tickets` | keys of session tickets, the same in all processes |
//! | `self_signed` | a certificate for development |
//! | `service` | the TLS of a whole service: files to configurations of its listeners |
//! | `upstream` | TLS to upstream servers: the certificates that are trusted |
//!
//! Knows nothing of connections and requests: rustls shakes hands, in the transport of the worker.

mod brought;
pub(crate) mod certificate;
pub(crate) mod pem;
pub(crate) mod policy;
#[cfg(feature = "program")]
pub(crate) mod self_signed;
#[cfg(feature = "program")]
pub(crate) mod service;
pub(crate) mod table;
#[cfg(all(test, feature = "program"))]
pub(crate) mod test_certificates;
pub(crate) mod tickets;
#[cfg(feature = "program")]
pub(crate) mod upstream;

pub(crate) use policy::TlsConfig;

use super::listeners::Listener;
use rustls::{CipherSuite, crypto::CryptoProvider};
use std::sync::{Arc, LazyLock};
use tickets::TicketKeys;

/// Returns the cryptography: aws-lc-rs, with its suites of TLS 1.3 and 1.2. All of them have forward secrecy and authenticated encryption.
///
/// # Panics
/// The kernel gives no random bytes.
pub(crate) fn provider() -> &'static Arc<CryptoProvider> {
    static PROVIDER: LazyLock<Arc<CryptoProvider>> = LazyLock::new(|| {
        // The first random bytes map a page that the kernel wipes in each fork: the sandbox of a server forbids that call.
        aws_lc_rs::rand::fill(&mut [0]).expect("the kernel gives random bytes");
        rustls::crypto::aws_lc_rs::default_provider().into()
    });
    &PROVIDER
}

impl Listener {
    /// Sets that clients must speak TLS. The example of [`TlsConfig`] serves HTTPS.
    #[must_use]
    pub fn with_tls(mut self, tls: &TlsConfig) -> Listener {
        self.tls = Some(tls.clone());
        self
    }

    /// Returns the keys of its session tickets. All listeners of a service share them.
    pub(crate) fn ticket_keys(&self) -> Option<&Arc<TicketKeys>> {
        self.tls.as_ref().map(TlsConfig::ticket_keys)
    }
}

/// Returns the name of a cipher suite, if rustls knows one.
pub(crate) fn suite_name(number: u16) -> Option<&'static str> {
    CipherSuite::from(number).as_str()
}
