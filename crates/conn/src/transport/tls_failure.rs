//! Why TLS with a server has failed, for the log.

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
