//! A certificate with its key, as a directory has issued it and as a file has it: parsed, and checked before it is used.

use super::{
    message::{CHAIN_LEN_MAX, KEY_LEN_MAX},
    vocabulary::Validity,
};
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD, Engine as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use std::{error::Error, fmt};
use x509_parser::prelude::{FromDer, GeneralName, ParsedExtension, X509Certificate};

/// A chain with the private key of its first certificate.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Certificate {
    chain_pem: String,
    key_pem: String,
    validity: Validity,
}

/// Why a certificate is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AcmeCertificateError {
    /// There is no certificate in PEM.
    NoChain,
    /// There is no private key in PEM.
    NoKey,
    /// The first certificate cannot be parsed.
    Malformed,
    /// The key does not belong to the certificate, or is of an unknown kind.
    KeyMismatch,
    /// A name is missing in the certificate.
    NameMissing,
    /// The chain or the key is longer than any of use.
    TooLong,
}

impl Certificate {
    /// Parses a chain and a key, which may lie in one text.
    ///
    /// # Errors
    /// One of them is missing or damaged, they do not fit, or a name is missing.
    pub(crate) fn from_pem(
        chain: &str,
        key: &str,
        names: &[String],
    ) -> Result<Certificate, AcmeCertificateError> {
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(chain.as_bytes())
            .collect::<Result<_, _>>()
            .map_err(|_| AcmeCertificateError::Malformed)?;
        let first = chain.first().ok_or(AcmeCertificateError::NoChain)?;
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|_| AcmeCertificateError::NoKey)?;
        let (_, parsed) = X509Certificate::from_der(first).map_err(|_| AcmeCertificateError::Malformed)?;
        let has_name = |name: &String| {
            parsed.extensions().iter().any(|extension| match extension.parsed_extension() {
                ParsedExtension::SubjectAlternativeName(found) => found.general_names.iter().any(
                    |found| matches!(found, GeneralName::DNSName(dns) if dns.eq_ignore_ascii_case(name)),
                ),
                _ => false,
            })
        };
        if !names.iter().all(has_name) {
            return Err(AcmeCertificateError::NameMissing);
        }
        let seconds = |time: x509_parser::time::ASN1Time| u64::try_from(time.timestamp()).unwrap_or(0);
        let validity = Validity {
            not_before_s: seconds(parsed.validity().not_before),
            not_after_s: seconds(parsed.validity().not_after),
        };
        let signing = rustls::crypto::aws_lc_rs::sign::any_supported_type(&key)
            .map_err(|_| AcmeCertificateError::KeyMismatch)?;
        rustls::sign::CertifiedKey::new(chain.clone(), signing)
            .keys_match()
            .map_err(|_| AcmeCertificateError::KeyMismatch)?;
        // Written anew, so that a file has nothing else in it.
        let chain_pem: String = chain.iter().map(|der| pem("CERTIFICATE", der)).collect();
        let label = match &key {
            PrivateKeyDer::Pkcs1(_) => "RSA PRIVATE KEY",
            PrivateKeyDer::Sec1(_) => "EC PRIVATE KEY",
            _ => "PRIVATE KEY",
        };
        let certificate = Certificate { chain_pem, key_pem: pem(label, key.secret_der()), validity };
        // Their lines may have been longer before, so they were shorter.
        if certificate.chain_pem.len() > CHAIN_LEN_MAX || certificate.key_pem.len() > KEY_LEN_MAX {
            return Err(AcmeCertificateError::TooLong);
        }
        Ok(certificate)
    }

    /// Returns the chain, the first certificate first.
    pub(crate) fn chain_pem(&self) -> &str {
        &self.chain_pem
    }

    /// Returns the private key.
    pub(crate) fn key_pem(&self) -> &str {
        &self.key_pem
    }

    /// Returns from when until when the certificate is valid.
    pub(crate) fn validity(&self) -> Validity {
        self.validity
    }
}

impl fmt::Debug for Certificate {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate").field("validity", &self.validity).finish_non_exhaustive()
    }
}

impl fmt::Display for AcmeCertificateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AcmeCertificateError::NoChain => "it has no certificate",
            AcmeCertificateError::NoKey => "it has no private key",
            AcmeCertificateError::Malformed => "its certificate cannot be read",
            AcmeCertificateError::KeyMismatch => "its key does not belong to its certificate",
            AcmeCertificateError::NameMissing => "its certificate lacks a name",
            AcmeCertificateError::TooLong => "its certificate or key is too long",
        })
    }
}

impl Error for AcmeCertificateError {}

/// Returns bytes as PEM: RFC 7468.
fn pem(label: &str, der: &[u8]) -> String {
    let mut text = format!("-----BEGIN {label}-----\n");
    for line in der.chunks(48) {
        text += &BASE64_STANDARD.encode(line);
        text.push('\n');
    }
    text += &format!("-----END {label}-----\n");
    text
}

/// Decodes base64url, such as the key of an external account: RFC 4648, section 5, with padding or without. `None`: it is something else.
pub(crate) fn from_base64url(text: &str) -> Option<Vec<u8>> {
    BASE64_URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok()
}

#[cfg(test)]
pub(crate) mod testing {
    use super::Certificate;

    /// Returns a self-signed certificate.
    pub(crate) fn certificate(names: &[String]) -> Certificate {
        let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
        Certificate::from_pem(&made.cert.pem(), &made.signing_key.serialize_pem(), names).expect("it is good")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The case, the chain, the key, the wanted names, and the error.
    type CertificateCase<'a> = (&'a str, &'a str, &'a str, &'a [&'a str], Option<AcmeCertificateError>);

    #[test]
    fn certificates_are_checked() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let good = testing::certificate(&names(&["a.example", "*.b.example"]));
        let other = testing::certificate(&names(&["a.example"]));
        let (chain, key) = (&*good.chain_pem, &*good.key_pem);
        let broken = chain.replacen("MII", "MIA", 1);
        #[rustfmt::skip]
        let cases: &[CertificateCase<'_>] = &[
            ("good",          chain,        key,            &["a.example", "*.b.example"], None),
            ("one name",      chain,        key,            &["A.example"],                None),
            ("another name",  chain,        key,            &["c.example"],                Some(AcmeCertificateError::NameMissing)),
            ("no wildcard",   chain,        key,            &["x.b.example"],              Some(AcmeCertificateError::NameMissing)),
            ("another key",   chain,        &other.key_pem, &["a.example"],                Some(AcmeCertificateError::KeyMismatch)),
            ("no chain",      "",           key,            &["a.example"],                Some(AcmeCertificateError::NoChain)),
            ("no key",        chain,        "",             &["a.example"],                Some(AcmeCertificateError::NoKey)),
            ("broken",        &broken,      key,            &["a.example"],                Some(AcmeCertificateError::Malformed)),
        ];
        for (name, chain, key, wanted, want) in cases {
            assert_eq!(Certificate::from_pem(chain, key, &names(wanted)).err(), *want, "{name}");
        }
        assert!(!format!("{good:?}").contains("PRIVATE"));
        let long = chain.repeat(CHAIN_LEN_MAX / chain.len() + 1);
        assert_eq!(Certificate::from_pem(&long, key, &names(&[])).err(), Some(AcmeCertificateError::TooLong));
    }

    #[test]
    fn certificates_that_end_early_are_refused() {
        let names = ["a.example".to_owned()];
        let good = testing::certificate(&names);
        let whole = format!("{}{}", good.key_pem, good.chain_pem);
        for cut in 0..whole.len() - 1 {
            let part = &whole[..cut];
            assert!(Certificate::from_pem(part, part, &names).is_err(), "{cut} bytes");
        }
        // Each byte changed: refused, or the same key still fits.
        for at in 0..whole.len() {
            let mut bytes = whole.clone().into_bytes();
            bytes[at] ^= 1;
            let changed = String::from_utf8_lossy(&bytes);
            let _ = Certificate::from_pem(&changed, &changed, &names);
        }
    }

    #[test]
    fn keys_of_external_accounts_are_base64url() {
        assert_eq!(
            ["Zg", "Zg==", "-_8"].map(from_base64url),
            [Some(vec![b'f']), Some(vec![b'f']), Some(vec![0xfb, 0xff])]
        );
        assert_eq!(["A", "+/8", "a b", "\u{e9}"].map(from_base64url), [None, None, None, None]);
    }
}
