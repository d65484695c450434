//! The configuration of TLS: the files of certificates, and the policies of listeners.

use super::address::Address;
use std::path::{Path, PathBuf};

/// The files of one certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate chain in PEM, the certificate of the server first.
    pub chain: PathBuf,
    /// The private key in PEM. `None`: it is in the file of the chain.
    pub key: Option<PathBuf>,
    /// A response of OCSP in DER, which the server staples to the certificate.
    pub ocsp: Option<PathBuf>,
}

impl CertificateFiles {
    /// Returns a certificate without other files yet.
    pub(crate) fn of_chain(chain: PathBuf) -> CertificateFiles {
        CertificateFiles { chain, key: None, ocsp: None }
    }

    /// Adds a key to the first certificate without one. One too many is lost: its configuration is rejected.
    pub(crate) fn add_key(certificates: &mut [CertificateFiles], key: PathBuf) {
        if let Some(certificate) = certificates.iter_mut().find(|certificate| certificate.key.is_none()) {
            certificate.key = Some(key);
        }
    }

    /// Adds a response of OCSP to the first certificate without one. One too many is lost, too.
    pub(crate) fn add_ocsp(certificates: &mut [CertificateFiles], ocsp: PathBuf) {
        if let Some(certificate) = certificates.iter_mut().find(|certificate| certificate.ocsp.is_none()) {
            certificate.ocsp = Some(ocsp);
        }
    }

    /// Returns the file of the key.
    pub(crate) fn key_file(&self) -> &Path {
        self.key.as_deref().unwrap_or(&self.chain)
    }
}

/// What a listener with TLS asks of its clients. Its connections share one policy, and a session resumes only under the policy that it was
/// established under.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsPolicy {
    /// The file with the certificates of the authorities that sign certificates of clients, in PEM. `None`: the server asks for no certificate.
    /// Default: `None`.
    pub client_ca: Option<PathBuf>,
    /// Whether a client may also come without a certificate. Default: `false`.
    pub is_client_auth_optional: bool,
    /// Whether clients must use TLS 1.3. Default: `false`.
    pub requires_tls13: bool,
}

/// Identifies a policy by what it demands: two listeners with the same one ask the same of their clients. A digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TlsPolicyId(pub(crate) [u8; 32]);

/// The TLS of a service.
#[derive(Clone, Debug, Default)]
pub struct ServiceTls {
    /// The addresses that have TLS, with the policy of each. Default: none.
    pub listeners: Vec<(Address, TlsPolicy)>,
    /// The certificates of the server. Its sites may have [others](crate::config::SiteConfig::certificates). A client that asks for no name, or for
    /// an unknown one, gets the first of all. Default: none.
    pub certificates: Vec<CertificateFiles>,
    /// Whether the server makes a certificate for the hosts of its sites and for localhost. For development: no client trusts it by itself.
    /// Default: `false`.
    pub is_self_signed: bool,
}
