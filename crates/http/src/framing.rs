//! Determines where the content of a request ends. RFC 9112, section 6.
//!
//! The rules are strict: request smuggling relies on two servers that disagree about the end of a request.

use crate::field::{elements, trim_ows};
use crate::field_name::FieldName;
use crate::fields::Fields;
use crate::head::{Head, Version};
use crate::status::Status;
use crate::token::{TCHAR, prefix_len};

/// How the content of a request is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// The request has no content.
    None,
    /// The content has this many bytes.
    Length(u64),
    /// The content is chunked; decode it with [`crate::chunked`].
    Chunked,
}

/// Determines the framing of the content that follows `head`.
///
/// # Errors
///
/// Returns an error if the fields are invalid, ambiguous or unsupported: RFC 9112, sections 6.1 and 6.3. The end of the content is
/// unknown then.
#[inline]
pub fn framing(head: &Head<'_>) -> Result<Framing, FramingError> {
    match (head.fields.has(FieldName::TransferEncoding), head.fields.has(FieldName::ContentLength)) {
        (false, false) => Ok(Framing::None),
        (false, true) => content_length(&head.fields).map(Framing::Length),
        (true, true) => Err(FramingError::LengthAndCoding),
        (true, false) => codings(head).map(|()| Framing::Chunked),
    }
}

/// The reason to refuse the framing of a request. The server cannot tell where the request ends, so it must close the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FramingError {
    /// Content-Length is not 1*DIGIT, or a list of them: RFC 9110, section 8.6.
    Length,
    /// Content-Length does not fit in 64 bits. The field is well formed, so the status is 413 and not 400.
    LengthOverflow,
    /// Several Content-Length values differ: RFC 9112, section 6.3.
    LengthConflict,
    /// The request has both Transfer-Encoding and Content-Length: RFC 9112, sections 6.1 and 6.3.
    LengthAndCoding,
    /// An HTTP/1.0 request has Transfer-Encoding: RFC 9112, section 6.1.
    CodingInHttp10,
    /// A transfer coding is missing, or is not a token with optional parameters: RFC 9112, section 7.
    Coding,
    /// `chunked` is missing, repeated, not the last transfer coding, or has parameters: RFC 9112, sections 6.3 and 7.1.
    NotChunkedLast,
    /// The request has a transfer coding other than chunked, which this crate does not implement: RFC 9112, section 6.1.
    CodingUnknown,
}

impl FramingError {
    /// The status to answer with.
    pub fn status(self) -> Status {
        match self {
            FramingError::LengthOverflow => Status::ContentTooLarge,
            FramingError::CodingUnknown => Status::NotImplemented,
            FramingError::Length
            | FramingError::LengthConflict
            | FramingError::LengthAndCoding
            | FramingError::CodingInHttp10
            | FramingError::Coding
            | FramingError::NotChunkedLast => Status::BadRequest,
        }
    }
}

/// Parses Content-Length. RFC 9110, section 8.6: a recipient may accept a list if all its members are valid and equal. An empty
/// member is an error here, because no sender has a reason to generate one.
#[cold]
pub(crate) fn content_length(fields: &Fields<'_>) -> Result<u64, FramingError> {
    let mut values = fields
        .all(FieldName::ContentLength)
        .flat_map(|value| value.split(|&byte| byte == b',').map(|member| digits(trim_ows(member))));
    let first = values.next().unwrap_or(Err(FramingError::Length))?;
    for value in values {
        if value? != first {
            return Err(FramingError::LengthConflict);
        }
    }
    Ok(first)
}

/// Parses 1*DIGIT. RFC 9110, section 8.6, asks for "a decimal non-negative integer", so leading zeros are valid.
fn digits(text: &[u8]) -> Result<u64, FramingError> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return Err(FramingError::Length);
    }
    text.iter()
        .try_fold(0_u64, |sum, digit| sum.checked_mul(10)?.checked_add(u64::from(digit - b'0')))
        .ok_or(FramingError::LengthOverflow)
}

/// Checks that the only transfer coding is chunked. RFC 9112, sections 6.1 and 7. An empty member is an error here, too: other
/// servers take `,chunked` for an unknown coding and read no content.
#[cold]
fn codings(head: &Head<'_>) -> Result<(), FramingError> {
    // RFC 9112, section 6.1: in HTTP/1.0 "treat the message as if the framing is faulty".
    if head.version == Version::Http10 {
        return Err(FramingError::CodingInHttp10);
    }
    let (mut chunked, mut others) = (false, false);
    for coding in head.fields.all(FieldName::TransferEncoding).flat_map(elements) {
        let name = &coding[..prefix_len(TCHAR, coding)];
        let behind = trim_ows(&coding[name.len()..]);
        if name.is_empty() || !matches!(behind.first(), None | Some(b';')) {
            return Err(FramingError::Coding);
        }
        if chunked {
            return Err(FramingError::NotChunkedLast);
        }
        // RFC 9112, section 7.1: chunked has no parameters, and any "SHOULD be treated as an error".
        chunked = name.eq_ignore_ascii_case(b"chunked");
        if chunked && !behind.is_empty() {
            return Err(FramingError::NotChunkedLast);
        }
        others |= !chunked;
    }
    match (chunked, others) {
        (true, false) => Ok(()),
        (true, true) => Err(FramingError::CodingUnknown),
        (false, _) => Err(FramingError::NotChunkedLast),
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::format;

    use super::*;
    use crate::head::parse;

    #[test]
    fn framing_is_determined_or_refused() {
        use FramingError::*;
        #[rustfmt::skip]
        let cases: &[(&str, &str, Result<Framing, FramingError>)] = &[
            // case                   fields                                                      framing
            ("neither",               "",                                                         Ok(Framing::None)),
            ("length",                "Content-Length: 42\r\n",                                   Ok(Framing::Length(42))),
            ("zero",                  "Content-Length: 0\r\n",                                    Ok(Framing::Length(0))),
            ("most",                  "Content-Length: 18446744073709551615\r\n",                 Ok(Framing::Length(u64::MAX))),
            ("same in a list",        "Content-Length: 42, 42\r\n",                               Ok(Framing::Length(42))),
            ("same in two lines",     "Content-Length: 42\r\ncontent-length: 42\r\n",             Ok(Framing::Length(42))),
            ("one more than most",    "Content-Length: 18446744073709551616\r\n",                 Err(LengthOverflow)),
            ("differ in a list",      "Content-Length: 42, 43\r\n",                               Err(LengthConflict)),
            ("differ in lines",       "Content-Length: 42\r\nContent-Length: 43\r\n",             Err(LengthConflict)),
            ("third differs",         "Content-Length: 1\r\nContent-Length: 1\r\nContent-Length: 2\r\n", Err(LengthConflict)),
            ("second malformed",      "Content-Length: 42\r\nContent-Length: x\r\n",              Err(Length)),
            ("space around",          "Content-Length: \t 42 \t\r\n",                           Ok(Framing::Length(42))),
            ("zeros before",          "Content-Length: 042\r\n",                                   Ok(Framing::Length(42))),
            ("two zeros",             "Content-Length: 00\r\n",                                    Ok(Framing::Length(0))),
            ("zeros before, in 2nd",  "Content-Length: 42, 042\r\n",                               Ok(Framing::Length(42))),
            ("zeros, more than 20",   "Content-Length: 000000000000000000000000000042\r\n",        Ok(Framing::Length(42))),
            ("zeros, others differ",  "Content-Length: 010, 8\r\n",                                Err(LengthConflict)),
            ("zeros, then overflow",  "Content-Length: 00018446744073709551616\r\n",               Err(LengthOverflow)),
            ("far more than most",    "Content-Length: 99999999999999999999999999999999999999\r\n", Err(LengthOverflow)),
            ("overflow, then text",   "Content-Length: 18446744073709551616x\r\n",               Err(Length)),
            ("octal prefix",          "Content-Length: 0o5\r\n",                                 Err(Length)),
            ("underscore",            "Content-Length: 1_0\r\n",                                 Err(Length)),
            ("fraction",              "Content-Length: 5.0\r\n",                                 Err(Length)),
            ("exponent",              "Content-Length: 1e1\r\n",                                 Err(Length)),
            ("negative zero",         "Content-Length: -0\r\n",                                  Err(Length)),
            ("quoted",                "Content-Length: \"5\"\r\n",                               Err(Length)),
            ("other digits",          "Content-Length: \u{ff15}\r\n",                           Err(Length)),
            ("semicolon",             "Content-Length: 5;6\r\n",                                 Err(Length)),
            ("empty",                 "Content-Length:\r\n",                                      Err(Length)),
            ("empty member",          "Content-Length: 42,\r\n",                                  Err(Length)),
            ("sign",                  "Content-Length: +42\r\n",                                  Err(Length)),
            ("negative",              "Content-Length: -1\r\n",                                   Err(Length)),
            ("hexadecimal",           "Content-Length: 0x2a\r\n",                                 Err(Length)),
            ("space within",          "Content-Length: 4 2\r\n",                                  Err(Length)),
            ("chunked",               "Transfer-Encoding: chunked\r\n",                           Ok(Framing::Chunked)),
            ("chunked in any case",   "TRANSFER-ENCODING:CHUNKED\r\n",                            Ok(Framing::Chunked)),
            ("empty member before",   "Transfer-Encoding: ,chunked\r\n",                         Err(Coding)),
            ("empty member after",    "Transfer-Encoding: chunked,\r\n",                         Err(Coding)),
            ("empty line before",     "Transfer-Encoding:\r\nTransfer-Encoding: chunked\r\n",    Err(Coding)),
            ("both",                  "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n",      Err(LengthAndCoding)),
            ("both, other order",     "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n",      Err(LengthAndCoding)),
            ("another before",        "Transfer-Encoding: gzip, chunked\r\n",                     Err(CodingUnknown)),
            ("another line before",   "Transfer-Encoding: gzip;q=\"a,b\"\r\nTransfer-Encoding: chunked\r\n", Err(CodingUnknown)),
            ("another after",         "Transfer-Encoding: chunked, gzip\r\n",                     Err(NotChunkedLast)),
            ("another line after",    "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n",   Err(NotChunkedLast)),
            ("another alone",         "Transfer-Encoding: gzip\r\n",                              Err(NotChunkedLast)),
            ("identity",              "Transfer-Encoding: identity\r\n",                          Err(NotChunkedLast)),
            ("no coding",             "Transfer-Encoding:\r\n",                                   Err(Coding)),
            ("only commas",           "Transfer-Encoding: ,,\r\n",                               Err(Coding)),
            ("space, then another",   "Transfer-Encoding: chunked x\r\n",                        Err(Coding)),
            ("parameter, no name",    "Transfer-Encoding: ;chunked\r\n",                         Err(Coding)),
            ("identity before",       "Transfer-Encoding: identity, chunked\r\n",                Err(CodingUnknown)),
            ("chunked, no parameter", "Transfer-Encoding: chunked;\r\n",                         Err(NotChunkedLast)),
            ("chunked after a quote", "Transfer-Encoding: x;a=\"b, chunked\r\n",                 Err(NotChunkedLast)),
            ("chunked twice",         "Transfer-Encoding: chunked, chunked\r\n",                  Err(NotChunkedLast)),
            ("chunked in two lines",  "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", Err(NotChunkedLast)),
            ("parameter of chunked",  "Transfer-Encoding: chunked;a=b\r\n",                       Err(NotChunkedLast)),
            ("longer than chunked",   "Transfer-Encoding: xchunked\r\n",                          Err(NotChunkedLast)),
            ("space in chunked",      "Transfer-Encoding: chun ked\r\n",                          Err(Coding)),
            ("quoted chunked",        "Transfer-Encoding: \"chunked\"\r\n",                       Err(Coding)),
            ("control-like byte",     "Transfer-Encoding: \u{80}chunked\r\n",                     Err(Coding)),
        ];
        for (name, fields, want) in cases {
            assert_eq!(of("1.1", fields), *want, "{name}");
        }
    }

    #[test]
    fn any_length_with_a_coding_is_refused() {
        for length in ["0", "x", "+5", ""] {
            let fields = format!("Content-Length: {length}\r\nTransfer-Encoding: chunked\r\n");
            assert_eq!(of("1.1", &fields), Err(FramingError::LengthAndCoding), "{length}");
        }
    }

    #[test]
    fn http_1_0_allows_a_length_but_no_coding() {
        assert_eq!(of("1.0", "Content-Length: 1\r\n"), Ok(Framing::Length(1)));
        assert_eq!(of("1.0", "Transfer-Encoding: chunked\r\n"), Err(FramingError::CodingInHttp10));
    }

    fn of(version: &str, fields: &str) -> Result<Framing, FramingError> {
        let wire = format!("POST / HTTP/{version}\r\n{fields}\r\n");
        framing(&parse(wire.as_bytes()).unwrap().unwrap().0)
    }
}
