//! Why TLS with a server has failed, for the log.

use rustls::{CertificateError, Error};
use std::fmt;

/// The reason why TLS with a server has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsFailure {
    /// No trusted authority has issued the certificate.
    UnknownIssuer,
    /// The certificate is one of an authority, such as one that the server has signed itself, and is not trusted.
    SelfSigned,
    /// A signature of the certificate or of the handshake is wrong, such as that of an authority with the name of a trusted one.
    BadSignature,
    /// The certificate is for other names.
    WrongName,
    /// The certificate has expired.
    Expired,
    /// The certificate is not valid yet.
    NotYetValid,
    /// The certificate was revoked.
    Revoked,
    /// The certificate is not accepted for another reason.
    Certificate,
    /// The server has ended the handshake or the connection with an alert. RFC 8446, section 6.2.
    Alert,
    /// The two sides have no version or suite in common.
    Incompatible,
    /// The server has sent something else than TLS.
    NotTls,
    /// The server has broken the protocol.
    Invalid,
    /// The server has closed the connection within the handshake.
    ClosedWithinHandshake,
    /// The server has closed the connection without the alert that ends what it sends. RFC 8446, section 6.1.
    NoClosingAlert,
}

/// How many bytes of a detail are kept, at most: some names of a certificate.
const DETAIL_LEN_MAX: usize = 512;

/// A failure, with what the server has sent about it.
#[derive(Debug)]
pub(crate) struct TlsFailed {
    pub(crate) failure: TlsFailure,
    /// Text of the server. Empty: nothing.
    pub(crate) detail: String,
}

impl TlsFailed {
    /// A failure that needs no detail.
    pub(crate) fn new(failure: TlsFailure) -> TlsFailed {
        TlsFailed { failure, detail: String::new() }
    }

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

impl fmt::Display for TlsFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TlsFailure::UnknownIssuer => {
                "no trusted authority has issued its certificate; name the certificate of its authority with ca"
            }
            TlsFailure::SelfSigned => {
                "its certificate is signed by itself, and not trusted; name this certificate with ca"
            }
            TlsFailure::BadSignature => {
                "a signature of its certificate is wrong; name the certificate of its authority with ca"
            }
            TlsFailure::WrongName => {
                "its certificate is for another name; set tls-name to a name that the certificate is for"
            }
            TlsFailure::Expired => "its certificate has expired; renew it",
            TlsFailure::NotYetValid => "its certificate is not valid yet; check the clocks of both machines",
            TlsFailure::Revoked => "its certificate was revoked",
            TlsFailure::Certificate => "its certificate is not accepted",
            TlsFailure::Alert => "it has refused the connection with an alert",
            TlsFailure::Incompatible => "the two sides have nothing in common; tarpon has TLS 1.2 and 1.3",
            TlsFailure::NotTls => "it does not speak TLS at this port; check the scheme and the port of the server",
            TlsFailure::Invalid => "it has broken the protocol",
            TlsFailure::ClosedWithinHandshake => "it closed the connection within the handshake",
            TlsFailure::NoClosingAlert => {
                "it closed the connection without the alert that ends a response, so a part may be missing"
            }
        })
    }
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
