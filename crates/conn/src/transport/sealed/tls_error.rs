//! The errors of rustls, as reasons for which TLS with a server has failed.

use crate::transport::tls_failure::{TlsFailed, TlsFailure};
use rustls::{CertificateError, Error};

/// How many bytes of a detail are kept, at most: some names of a certificate.
const DETAIL_LEN_MAX: usize = 512;

impl TlsFailed {
    /// Returns the failure that is this error of rustls.
    pub(crate) fn of(error: &Error) -> TlsFailed {
        let (failure, detail) = match error {
            Error::InvalidCertificate(error) => of_certificate(error),
            Error::NoCertificatesPresented => (TlsFailure::Certificate, "it has sent none".to_owned()),
            Error::AlertReceived(alert) => (TlsFailure::Alert, format!("{alert:?}")),
            Error::PeerIncompatible(why) => (TlsFailure::Incompatible, format!("{why:?}")),
            Error::NoApplicationProtocol => {
                (TlsFailure::Incompatible, "it does not offer http/1.1".to_owned())
            }
            Error::InvalidMessage(why) => (TlsFailure::NotTls, format!("{why:?}")),
            error => (TlsFailure::Invalid, error.to_string()),
        };
        let len = (0..=detail.len().min(DETAIL_LEN_MAX)).rev().find(|&len| detail.is_char_boundary(len));
        TlsFailed { failure, detail: detail[..len.unwrap_or(0)].to_owned() }
    }
}

fn of_certificate(error: &CertificateError) -> (TlsFailure, String) {
    let (failure, detail) = match error {
        CertificateError::UnknownIssuer => (TlsFailure::UnknownIssuer, String::new()),
        CertificateError::NotValidForNameContext { presented, .. } => (
            TlsFailure::WrongName,
            format!(
                "it is for {}",
                presented.iter().map(|name| shown_name(name)).collect::<Vec<_>>().join(", ")
            ),
        ),
        CertificateError::NotValidForName => (TlsFailure::WrongName, String::new()),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            (TlsFailure::Expired, String::new())
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            (TlsFailure::NotYetValid, String::new())
        }
        CertificateError::Revoked => (TlsFailure::Revoked, String::new()),
        CertificateError::BadSignature => (TlsFailure::BadSignature, String::new()),
        other => (TlsFailure::Certificate, other.to_string()),
    };
    // webpki has this error for a certificate with the flag CA in the place of a server's.
    match failure == TlsFailure::Certificate && format!("{error:?}").contains("CaUsedAsEndEntity") {
        true => (TlsFailure::SelfSigned, String::new()),
        false => (failure, detail),
    }
}

/// Returns a name of a certificate without its kind, which rustls adds: `DnsName("a.test")`.
fn shown_name(name: &str) -> &str {
    let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    inner.map_or(name, |inner| inner.trim_matches('"'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::{AlertDescription, InvalidMessage, PeerIncompatible, PeerMisbehaved, pki_types::ServerName};

    #[test]
    #[rustfmt::skip]
    fn errors_have_their_failure_and_detail() {
        let wrong_name = |names: Vec<String>| CertificateError::NotValidForNameContext {
            expected: ServerName::try_from("a.test").unwrap(),
            presented: names,
        };
        let long = "x".repeat(2_000);
        let cases: &[(Error, TlsFailure, &str)] = &[
            // error                                                          failure                    detail
            (CertificateError::UnknownIssuer.into(),                          TlsFailure::UnknownIssuer, ""),
            (wrong_name(vec!["DnsName(\"b.test\")".into(), "\x1b[2J".into()]).into(),       TlsFailure::WrongName,     "it is for b.test, \x1b[2J"),
            (wrong_name(vec![long.clone()]).into(),                           TlsFailure::WrongName,     &("it is for ".to_owned() + &long)[..DETAIL_LEN_MAX]),
            (CertificateError::BadSignature.into(),                           TlsFailure::BadSignature,  ""),
            (CertificateError::Expired.into(),                                TlsFailure::Expired,       ""),
            (CertificateError::NotValidYet.into(),                            TlsFailure::NotYetValid,   ""),
            (CertificateError::Revoked.into(),                                TlsFailure::Revoked,       ""),
            (CertificateError::BadEncoding.into(),                            TlsFailure::Certificate,   &CertificateError::BadEncoding.to_string()),
            (Error::AlertReceived(AlertDescription::HandshakeFailure),        TlsFailure::Alert,         "HandshakeFailure"),
            (PeerIncompatible::NoCipherSuitesInCommon.into(),                 TlsFailure::Incompatible,  "NoCipherSuitesInCommon"),
            (InvalidMessage::InvalidContentType.into(),                       TlsFailure::NotTls,        "InvalidContentType"),
            (PeerMisbehaved::IllegalMiddleboxChangeCipherSpec.into(),                        TlsFailure::Invalid,       &Error::from(PeerMisbehaved::IllegalMiddleboxChangeCipherSpec).to_string()),
        ];
        for (error, failure, detail) in cases {
            let failed = TlsFailed::of(error);
            assert_eq!((failed.failure, &*failed.detail), (*failure, *detail), "{error:?}");
        }
    }
}
