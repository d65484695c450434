//! Where the content of a request ends. RFC 9112, section 6.
//!
//! Strict wherever two readers could come to two answers: that is how requests are smuggled.

use crate::field::{elements, trim_ows};
use crate::head::{FieldName, Head, Version};
use crate::status::Status;
use crate::token::{TCHAR, prefix_len};

/// How the content of a request is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// There is none.
    None,
    /// So many bytes.
    Length(u64),
    /// To be read with [`crate::chunked`].
    Chunked,
}

/// How the content behind `head` is delimited.
///
/// # Errors
///
/// Those of RFC 9112, sections 6.1 and 6.3. Where the content ends is then unknown.
#[inline]
pub fn framing(head: &Head<'_>) -> Result<Framing, FramingError> {
    match (head.has(FieldName::TransferEncoding), head.has(FieldName::ContentLength)) {
        (false, false) => Ok(Framing::None),
        (false, true) => length(head).map(Framing::Length),
        (true, true) => Err(FramingError::LengthAndCoding),
        (true, false) => codings(head).map(|()| Framing::Chunked),
    }
}

/// Why the framing of a request is refused. Its end is unknown, so the connection closes too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FramingError {
    /// Content-Length is not 1*DIGIT, or a list of them: RFC 9110, section 8.6.
    Length,
    /// Content-Length does not fit in 64 bits. Well formed, so not a bad request but too large.
    LengthOverflow,
    /// Content-Lengths differ: RFC 9112, section 6.3.
    LengthConflict,
    /// Transfer-Encoding beside Content-Length: RFC 9112, sections 6.1 and 6.3.
    LengthAndCoding,
    /// Transfer-Encoding in HTTP/1.0: RFC 9112, section 6.1.
    CodingInHttp10,
    /// A transfer coding is not a token with parameters, or there is none where one should be: RFC 9112,
    /// section 7.
    Coding,
    /// `chunked` is not the last transfer coding, or not there, or there twice, or has parameters: RFC
    /// 9112, sections 6.3 and 7.1.
    NotChunkedLast,
    /// A transfer coding besides chunked, which we do not have: RFC 9112, section 6.1.
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

/// RFC 9110, section 8.6: a list is taken for a length only if all its members are valid and the
/// same. Empty members are not skipped here: a sender has no reason to make them.
#[cold]
fn length(head: &Head<'_>) -> Result<u64, FramingError> {
    let mut values = head
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

/// RFC 9110, section 8.6: "a decimal non-negative integer", so zeros before it change nothing.
fn digits(text: &[u8]) -> Result<u64, FramingError> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return Err(FramingError::Length);
    }
    text.iter()
        .try_fold(0_u64, |sum, digit| sum.checked_mul(10)?.checked_add(u64::from(digit - b'0')))
        .ok_or(FramingError::LengthOverflow)
}

/// RFC 9112, sections 6.1 and 7: chunked is the last coding, and applied once. Empty members of the list are
/// not skipped here, either: others take `,chunked` for a coding they do not know, and read no content.
#[cold]
fn codings(head: &Head<'_>) -> Result<(), FramingError> {
    // RFC 9112, section 6.1: in HTTP/1.0 "treat the message as if the framing is faulty".
    if head.version == Version::Http10 {
        return Err(FramingError::CodingInHttp10);
    }
    let (mut chunked, mut others) = (false, false);
    for coding in head.all(FieldName::TransferEncoding).flat_map(elements) {
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
    fn content_ends_where_the_fields_say_or_the_request_is_refused() {
        use FramingError::*;
        #[rustfmt::skip]
        let cases: &[(&str, &str, Result<Framing, FramingError>)] = &[
            // what it shows          fields                                                      framing
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
            ("octal, said so",        "Content-Length: 0o5\r\n",                                 Err(Length)),
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
            ("empty member behind",   "Transfer-Encoding: chunked,\r\n",                         Err(Coding)),
            ("empty line before",     "Transfer-Encoding:\r\nTransfer-Encoding: chunked\r\n",    Err(Coding)),
            ("both",                  "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n",      Err(LengthAndCoding)),
            ("both, other order",     "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n",      Err(LengthAndCoding)),
            ("another before",        "Transfer-Encoding: gzip, chunked\r\n",                     Err(CodingUnknown)),
            ("another line before",   "Transfer-Encoding: gzip;q=\"a,b\"\r\nTransfer-Encoding: chunked\r\n", Err(CodingUnknown)),
            ("another behind",        "Transfer-Encoding: chunked, gzip\r\n",                     Err(NotChunkedLast)),
            ("another line behind",   "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n",   Err(NotChunkedLast)),
            ("another alone",         "Transfer-Encoding: gzip\r\n",                              Err(NotChunkedLast)),
            ("identity",              "Transfer-Encoding: identity\r\n",                          Err(NotChunkedLast)),
            ("no coding",             "Transfer-Encoding:\r\n",                                   Err(Coding)),
            ("only commas",           "Transfer-Encoding: ,,\r\n",                               Err(Coding)),
            ("space, then another",   "Transfer-Encoding: chunked x\r\n",                        Err(Coding)),
            ("parameter, no name",    "Transfer-Encoding: ;chunked\r\n",                         Err(Coding)),
            ("identity before",       "Transfer-Encoding: identity, chunked\r\n",                Err(CodingUnknown)),
            ("chunked, no parameter", "Transfer-Encoding: chunked;\r\n",                         Err(NotChunkedLast)),
            ("chunked behind a quote","Transfer-Encoding: x;a=\"b, chunked\r\n",                 Err(NotChunkedLast)),
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
    fn a_length_beside_a_coding_is_refused_whatever_it_says() {
        for length in ["0", "x", "+5", ""] {
            let fields = format!("Content-Length: {length}\r\nTransfer-Encoding: chunked\r\n");
            assert_eq!(of("1.1", &fields), Err(FramingError::LengthAndCoding), "{length}");
        }
    }

    #[test]
    fn http_1_0_has_lengths_but_no_codings() {
        assert_eq!(of("1.0", "Content-Length: 1\r\n"), Ok(Framing::Length(1)));
        assert_eq!(of("1.0", "Transfer-Encoding: chunked\r\n"), Err(FramingError::CodingInHttp10));
    }

    fn of(version: &str, fields: &str) -> Result<Framing, FramingError> {
        let wire = format!("POST / HTTP/{version}\r\n{fields}\r\n");
        framing(&parse(wire.as_bytes()).unwrap().unwrap().0)
    }
}
