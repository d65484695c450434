//! The reasons to refuse a head.

use crate::status::Status;

/// The reason to refuse a head. The server cannot tell where the next request begins, so it must close the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadError {
    /// The request line does not begin with a token and one SP: RFC 9112, section 3; RFC 9110, section 9.1.
    Method,
    /// The target is empty, contains a forbidden byte, or is not followed by SP: RFC 9112, section 3.2.
    Target,
    /// The request line does not end in `HTTP/`, digit, `.`, digit and CRLF: RFC 9112, section 2.3.
    VersionSyntax,
    /// The major version is not 1: RFC 9110, sections 2.5 and 15.6.6.
    Version,
    /// A field line does not begin with a token and `:`: RFC 9112, section 5.1.
    FieldName,
    /// A field value contains a control byte: RFC 9110, section 5.5.
    FieldValue,
    /// A line begins with SP or HTAB: obs-fold, RFC 9112, section 5.2.
    Fold,
    /// A CR without LF, or an LF without CR: RFC 9112, section 2.2.
    LineEnd,
    /// More than [`FIELD_COUNT_MAX`](super::FIELD_COUNT_MAX) field lines: RFC 9110, section 5.4; RFC 6585, section 5.
    FieldCount,
    /// The request line is not complete within the limit of the length: RFC 9112, section 3.
    UriTooLong,
    /// The head is not complete within the limit of the length: RFC 9110, section 5.4; RFC 6585, section 5.
    TooLarge,
    /// The Host field is missing, repeated or invalid: RFC 9112, section 3.2.
    Host,
}

impl HeadError {
    /// The status to answer with.
    pub fn status(self) -> Status {
        match self {
            HeadError::Version => Status::HttpVersionNotSupported,
            HeadError::UriTooLong => Status::UriTooLong,
            HeadError::TooLarge | HeadError::FieldCount => Status::RequestHeaderFieldsTooLarge,
            HeadError::Method
            | HeadError::Target
            | HeadError::VersionSyntax
            | HeadError::FieldName
            | HeadError::FieldValue
            | HeadError::Fold
            | HeadError::LineEnd
            | HeadError::Host => Status::BadRequest,
        }
    }
}
