//! A certificate with its key, as the server presents it.

use super::{pem, provider};
use crate::base::error::UserError;
use rustls::{
    Error, InconsistentKeys,
    pki_types::{CertificateDer, PrivateKeyDer},
    sign::CertifiedKey,
};
use std::{
    fmt,
    net::{Ipv4Addr, Ipv6Addr},
    path::Path,
    sync::Arc,
};
use tarpon_conn::HostName;
use tarpon_http::date;
use x509_parser::{extensions::GeneralName, prelude::X509Certificate, time::ASN1Time};

/// A certificate chain with its private key.
///
/// ```no_run
/// use tarpon::TlsCertificate;
///
/// let certificate = TlsCertificate::from_pem_files("fullchain.pem", "privkey.pem")?;
/// # let _ = certificate;
/// # Ok::<(), tarpon::UserError>(())
/// ```
#[derive(Clone)]
pub struct TlsCertificate {
    pub(super) key: Arc<CertifiedKey>,
    /// The DNS names and addresses of the certificate in lower case; some begin with `*.`.
    pub(super) names: Arc<[String]>,
    /// When it becomes valid and expires, in seconds since 1970.
    validity: (i64, i64),
}

/// Why a certificate and its key cannot be used. Its user knows which files they come from.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CertificateError {
    /// The first certificate of the chain is no X.509 certificate.
    Malformed(String),
    /// The key is of an algorithm or size that the provider does not support.
    UnsupportedKey(String),
    /// The key belongs to another certificate.
    KeyMismatch,
}

impl TlsCertificate {
    /// Reads a chain, the certificate of the server first, and its key from PEM files. One file may hold both.
    ///
    /// # Errors
    /// A file cannot be read, or has no certificate or no key; the key is encrypted, or does not fit the certificate.
    pub fn from_pem_files(
        chain: impl AsRef<Path>,
        key: impl AsRef<Path>,
    ) -> Result<TlsCertificate, UserError> {
        pem::read(chain.as_ref(), key.as_ref(), None)
    }

    /// Takes a chain, the certificate of the server first, and its key as DER: PKCS #8, PKCS #1 or SEC 1.
    ///
    /// # Errors
    /// The key does not fit the certificate, or one of the two is malformed.
    pub fn from_der(chain: Vec<Vec<u8>>, key: Vec<u8>) -> Result<TlsCertificate, UserError> {
        let chain = chain.into_iter().map(CertificateDer::from).collect();
        let made = PrivateKeyDer::try_from(key)
            .map_err(|why| CertificateError::UnsupportedKey(why.to_owned()))
            .and_then(|key| TlsCertificate::new(chain, key, None));
        made.map_err(|error| UserError::new("cannot use the certificate", error, "obtain another one"))
    }

    pub(super) fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        ocsp: Option<Vec<u8>>,
    ) -> Result<TlsCertificate, CertificateError> {
        let leaf =
            chain.first().ok_or_else(|| CertificateError::Malformed("the chain is empty".to_owned()))?;
        let (names, validity) = facts(leaf)?;
        let unsupported = |error: Error| CertificateError::UnsupportedKey(error.to_string());
        let key = provider().key_provider.load_private_key(key).map_err(unsupported)?;
        let mut certified = CertifiedKey::new(chain, key);
        match certified.keys_match() {
            Ok(()) | Err(Error::InconsistentKeys(InconsistentKeys::Unknown)) => {}
            Err(Error::InconsistentKeys(_)) => return Err(CertificateError::KeyMismatch),
            Err(error) => return Err(CertificateError::Malformed(error.to_string())),
        }
        certified.ocsp = ocsp;
        Ok(TlsCertificate { key: certified.into(), names: names.into(), validity })
    }

    /// Returns whether clients accept the certificate for this host. `*.example.org` of a site needs that of the certificate.
    pub(crate) fn covers(&self, host: &HostName) -> bool {
        let host = host.to_string();
        let parent = host.split_once('.').map(|(_, parent)| parent);
        self.names
            .iter()
            .any(|name| *name == host || name.strip_prefix("*.").is_some_and(|of| Some(of) == parent))
    }

    /// Returns why clients do not accept it at this time, in seconds since 1970.
    pub(crate) fn is_invalid_at(&self, unix_s: i64) -> Option<String> {
        let (from, until) = self.validity;
        let date = |unix_s: i64| match u64::try_from(unix_s) {
            Ok(time) if time <= date::UNIX_S_MAX => {
                let text = date::format_rfc3339(time).map(char::from);
                let (day, minute): (String, String) =
                    (text[..10].iter().collect(), text[11..16].iter().collect());
                format!("{day} {minute} UTC")
            }
            _ => format!("second {unix_s} of Unix time"),
        };
        match unix_s {
            _ if unix_s < from => Some(format!("it is not valid before {}", date(from))),
            _ if unix_s > until => Some(format!("it has expired at {}", date(until))),
            _ => None,
        }
    }

    /// Returns when it becomes valid and expires, in seconds since 1970.
    #[cfg(feature = "program")]
    pub(crate) fn validity(&self) -> (i64, i64) {
        self.validity
    }

    /// Returns the DNS names and addresses of the certificate in lower case; some begin with `*.`.
    #[cfg(feature = "program")]
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the DER of the certificate of the server.
    pub(crate) fn leaf(&self) -> &[u8] {
        &self.key.cert[0]
    }
}

/// Returns the names and the validity of a certificate.
fn facts(leaf: &[u8]) -> Result<(Vec<String>, (i64, i64)), CertificateError> {
    let malformed = |error: &dyn fmt::Display| CertificateError::Malformed(error.to_string());
    let (_, parsed) = x509_parser::parse_x509_certificate(leaf).map_err(|error| malformed(&error))?;
    let names = names(&parsed).map_err(|error| malformed(&error))?;
    let seconds = |time: &ASN1Time| time.timestamp();
    let validity = parsed.validity();
    Ok((names, (seconds(&validity.not_before), seconds(&validity.not_after))))
}

/// Clients ignore the common name: RFC 9525, section 2.
fn names(certificate: &X509Certificate<'_>) -> Result<Vec<String>, x509_parser::error::X509Error> {
    let names = certificate.subject_alternative_name()?;
    let names = names.iter().flat_map(|names| &names.value.general_names);
    let names = names.filter_map(|name| match *name {
        GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
        GeneralName::IPAddress(bytes) => match bytes.len() {
            4 => Some(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).to_string()),
            _ => Some(format!("[{}]", Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?))),
        },
        _ => None,
    });
    Ok(names.collect())
}

impl fmt::Display for CertificateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CertificateError::Malformed(why) => write!(f, "it is no X.509 certificate ({why})"),
            CertificateError::UnsupportedKey(why) => write!(f, "its key cannot be used ({why})"),
            CertificateError::KeyMismatch => f.write_str("the key does not fit the certificate"),
        }
    }
}

impl fmt::Debug for TlsCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsCertificate").field("names", &self.names).finish_non_exhaustive()
    }
}
