//! Parses the head of a response from a server, as a gateway does. RFC 9112, sections 4 to 6.
//!
//! ```text
//! version SP status [ SP reason ] CRLF  *( name ":" OWS value OWS CRLF )  CRLF
//! ```
//!
//! The parser is as strict as that of requests: a gateway that guesses where a response ends may send a client the response to another one.

use crate::field::{has_token, trim_ows};
use crate::head::{FIELD_COUNT_MAX, HEAD_LEN_USUAL, Version, field_line, field_lines};
use crate::token::{VALUE, prefix_len};

/// The maximum length of a head in bytes: that of a request by default.
pub const RESPONSE_HEAD_LEN_MAX: usize = HEAD_LEN_USUAL;

/// A valid head. Borrows the bytes that it was parsed from.
#[derive(Clone, Copy, Debug)]
pub struct ResponseHead<'a> {
    /// The version.
    pub version: Version,
    /// The code of the status, from 100 to 599.
    pub status: u16,
    /// The field lines.
    lines: &'a [u8],
}

/// How the content of a response is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseFraming {
    /// The response has no content.
    Nothing,
    /// The content has this many bytes.
    Length(u64),
    /// The content is chunked; decode it with [`crate::chunked`].
    Chunked,
    /// The content ends with the connection.
    UntilClose,
}

/// The reason to refuse a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseHeadError {
    /// The first line is not that of a response of HTTP/1.
    StatusLine,
    /// A line is not a field line.
    Field,
    /// More than [`RESPONSE_HEAD_LEN_MAX`] bytes, or more than [`FIELD_COUNT_MAX`] fields.
    TooLarge,
    /// The end of the content is unknown: Content-Length is invalid or has several values, stands beside Transfer-Encoding, or the transfer
    /// coding is not `chunked` alone.
    Framing,
}

/// Parses the head at the start of `input`. Returns it with its length. `None`: it is incomplete.
///
/// # Errors
/// The head is invalid or too large.
///
/// ```
/// use tarpon_http::response_head::{self, ResponseFraming};
///
/// let input = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
/// let (head, len) = response_head::parse(input)?.expect("a complete head");
/// assert_eq!((head.status, head.framing(false)?, &input[len..]), (200, ResponseFraming::Length(5), &b"hello"[..]));
/// # Ok::<(), tarpon_http::response_head::ResponseHeadError>(())
/// ```
pub fn parse(input: &[u8]) -> Result<Option<(ResponseHead<'_>, usize)>, ResponseHeadError> {
    const START: &[u8] = b"HTTP/1.";
    let seen = &input[..input.len().min(RESPONSE_HEAD_LEN_MAX)];
    if !START.starts_with(&seen[..seen.len().min(START.len())]) {
        return Err(ResponseHeadError::StatusLine);
    }
    let Some(line_end) = seen.iter().position(|&byte| byte == b'\n') else { return incomplete(seen) };
    let (version, status) = status_line(&seen[..line_end])?;
    let lines = &seen[line_end + 1..];
    let mut rest = lines;
    for _ in 0..=FIELD_COUNT_MAX {
        match rest {
            [b'\r', b'\n', ..] => {
                let lines = &lines[..lines.len() - rest.len()];
                let len = seen.len() - rest.len() + 2;
                return Ok(Some((ResponseHead { version, status, lines }, len)));
            }
            _ if !rest.contains(&b'\n') => return incomplete(seen),
            _ => {}
        }
        let line = field_line(rest).map_err(|_| ResponseHeadError::Field)?;
        rest = &rest[line.len()..];
    }
    Err(ResponseHeadError::TooLarge)
}

fn incomplete<T>(seen: &[u8]) -> Result<Option<T>, ResponseHeadError> {
    if seen.len() < RESPONSE_HEAD_LEN_MAX { Ok(None) } else { Err(ResponseHeadError::TooLarge) }
}

/// Parses the first line, without its LF. RFC 9112, section 4. Servers send the SP before a missing reason, and do not.
fn status_line(line: &[u8]) -> Result<(Version, u16), ResponseHeadError> {
    let parsed = || {
        let line = line.strip_suffix(b"\r")?.strip_prefix(b"HTTP/1.")?;
        let [minor @ b'0'..=b'9', b' ', a @ b'1'..=b'5', b @ b'0'..=b'9', c @ b'0'..=b'9', reason @ ..] =
            line
        else {
            return None;
        };
        let is_valid = matches!(reason, [] | [b' ', ..]) && prefix_len(VALUE, reason) == reason.len();
        let status = [a, b, c].iter().fold(0, |sum, digit| sum * 10 + u16::from(**digit - b'0'));
        let version = if *minor == b'0' { Version::Http10 } else { Version::Http11 };
        is_valid.then_some((version, status))
    };
    parsed().ok_or(ResponseHeadError::StatusLine)
}

impl<'a> ResponseHead<'a> {
    /// Returns name and value of every field, in order; values have no whitespace around them. Names are in any case.
    pub fn fields(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone + use<'a> {
        field_lines(self.lines)
    }

    /// Returns the values of the fields with this name, which is in lower case.
    pub fn all(&self, name: &'static str) -> impl Iterator<Item = &'a [u8]> + Clone + use<'a> {
        self.fields()
            .filter(move |(found, _)| found.eq_ignore_ascii_case(name.as_bytes()))
            .map(|(_, value)| value)
    }

    /// Returns how the content is delimited. `to_head`: the request was HEAD. RFC 9112, section 6.3.
    ///
    /// # Errors
    /// The end of the content is unknown.
    pub fn framing(&self, to_head: bool) -> Result<ResponseFraming, ResponseHeadError> {
        let mut codings = self.all("transfer-encoding");
        let length = self.content_length()?;
        let framing = match (codings.next(), length) {
            (None, Some(len)) => ResponseFraming::Length(len),
            (None, None) => ResponseFraming::UntilClose,
            (Some(coding), None)
                if codings.next().is_none()
                    && coding.eq_ignore_ascii_case(b"chunked")
                    && self.version == Version::Http11 =>
            {
                ResponseFraming::Chunked
            }
            (Some(_), _) => return Err(ResponseHeadError::Framing),
        };
        let has_none = to_head || matches!(self.status, 100..=199 | 204 | 304);
        Ok(if has_none { ResponseFraming::Nothing } else { framing })
    }

    /// Returns the value of Content-Length. `None`: the field is absent.
    ///
    /// # Errors
    /// It is invalid, or there are several values.
    pub fn content_length(&self) -> Result<Option<u64>, ResponseHeadError> {
        let values =
            self.all("content-length").flat_map(|value| value.split(|&byte| byte == b',').map(trim_ows));
        let mut found = None;
        for value in values {
            let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
            let text = core::str::from_utf8(value).ok().filter(|_| is_number);
            let len = text.and_then(|text| text.parse::<u64>().ok()).ok_or(ResponseHeadError::Framing)?;
            // Equal values may be repeated: RFC 9110, section 8.6.
            if found.is_some_and(|before| before != len) {
                return Err(ResponseHeadError::Framing);
            }
            found = Some(len);
        }
        Ok(found)
    }

    /// Returns whether the server allows another request on this connection. RFC 9112, section 9.3.
    pub fn persists(&self) -> bool {
        let has_option = |option| has_token(self.all("connection"), option);
        !has_option(b"close") && (self.version == Version::Http11 || has_option(b"keep-alive"))
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::{format, vec::Vec};

    use super::*;
    use ResponseFraming::*;
    use ResponseHeadError::*;

    #[test]
    #[rustfmt::skip]
    fn head_is_parsed_or_refused() {
        let cases: &[(&str, &str, Result<Option<(u16, usize)>, ResponseHeadError>)] = &[
            // case                  head                                               status, number of fields
            ("usual",                "HTTP/1.1 200 OK\r\nA: b\r\nC: d\r\n\r\n",         Ok(Some((200, 2)))),
            ("no fields",            "HTTP/1.1 204 No Content\r\n\r\n",                 Ok(Some((204, 0)))),
            ("no reason",            "HTTP/1.1 200 \r\n\r\n",                           Ok(Some((200, 0)))),
            ("nor its space",        "HTTP/1.1 200\r\n\r\n",                            Ok(Some((200, 0)))),
            ("HTTP/1.0",             "HTTP/1.0 404 x\r\n\r\n",                          Ok(Some((404, 0)))),
            ("unknown code",         "HTTP/1.1 599 x\r\n\r\n",                          Ok(Some((599, 0)))),
            ("interim",              "HTTP/1.1 103 Early Hints\r\n\r\n",                Ok(Some((103, 0)))),
            ("incomplete line",      "HTTP/1.1 200",                                    Ok(None)),
            ("incomplete field",     "HTTP/1.1 200 OK\r\nA: b",                         Ok(None)),
            ("incomplete end",       "HTTP/1.1 200 OK\r\nA: b\r\n\r",                   Ok(None)),
            ("nothing",              "",                                                Ok(None)),
            ("start of another",     "S",                                               Err(StatusLine)),
            ("HTTP/2",               "HTTP/2 200 OK\r\n\r\n",                           Err(StatusLine)),
            ("HTTP/0.9",             "<html>",                                          Err(StatusLine)),
            ("two digits",           "HTTP/1.1 20 OK\r\n\r\n",                          Err(StatusLine)),
            ("four digits",          "HTTP/1.1 2000 OK\r\n\r\n",                        Err(StatusLine)),
            ("code 600",             "HTTP/1.1 600 x\r\n\r\n",                          Err(StatusLine)),
            ("code 099",             "HTTP/1.1 099 x\r\n\r\n",                          Err(StatusLine)),
            ("two spaces",           "HTTP/1.1  200 OK\r\n\r\n",                        Err(StatusLine)),
            ("bare LF",              "HTTP/1.1 200 OK\n\n",                             Err(StatusLine)),
            ("CR in the reason",     "HTTP/1.1 200 O\rK\r\n\r\n",                       Err(StatusLine)),
            ("bare LF in a field",   "HTTP/1.1 200 OK\r\nA: b\n\r\n",                   Err(Field)),
            ("space before colon",   "HTTP/1.1 200 OK\r\nA : b\r\n\r\n",                Err(Field)),
            ("folded",               "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",           Err(Field)),
            ("NUL",                  "HTTP/1.1 200 OK\r\nA: \0\r\n\r\n",                Err(Field)),
            ("no colon",             "HTTP/1.1 200 OK\r\nA\r\n\r\n",                    Err(Field)),
        ];
        for (name, head, want) in cases {
            let found = parse(head.as_bytes());
            let found = found.map(|head| head.map(|(head, _)| (head.status, head.fields().count())));
            assert_eq!(&found, want, "{name}");
        }
    }

    #[test]
    fn head_is_limited() {
        let long = format!("HTTP/1.1 200 OK\r\nA: {}", "b".repeat(RESPONSE_HEAD_LEN_MAX));
        assert_eq!(parse(long.as_bytes()).unwrap_err(), TooLarge);
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: b\r\n".repeat(FIELD_COUNT_MAX + 1));
        assert_eq!(parse(many.as_bytes()).unwrap_err(), TooLarge);
        let most = format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: b\r\n".repeat(FIELD_COUNT_MAX));
        assert!(parse(most.as_bytes()).unwrap().is_some());
    }

    #[test]
    fn result_depends_on_complete_lines_alone() {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nA: b\r\n\r\nhello";
        let want = head.len() - "hello".len();
        for len in 0..=head.len() {
            let found = parse(&head.as_bytes()[..len]).unwrap().map(|(_, len)| len);
            assert_eq!(found, (len >= want).then_some(want), "{len} bytes");
        }
    }

    #[test]
    #[rustfmt::skip]
    fn end_of_the_content_is_certain() {
        let cases: &[(&str, &str, Result<ResponseFraming, ResponseHeadError>)] = &[
            // case                        head                                                                        framing
            ("length",                     "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n",                                 Ok(Length(5))),
            ("repeated length",            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\ncontent-length: 5\r\n",            Ok(Length(5))),
            ("list of lengths",            "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n",                              Ok(Length(5))),
            ("two lengths",                "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n",            Err(Framing)),
            ("negative",                   "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n",                                Err(Framing)),
            ("with a sign",                "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n",                                Err(Framing)),
            ("empty length",               "HTTP/1.1 200 OK\r\nContent-Length:\r\n",                                   Err(Framing)),
            ("too long",                   "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n",              Err(Framing)),
            ("chunked",                    "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n",                        Ok(Chunked)),
            ("both",                       "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n",   Err(Framing)),
            ("another coding",             "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n",                  Err(Framing)),
            ("chunked twice",              "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", Err(Framing)),
            ("not quite",                  "HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n",                       Err(Framing)),
            ("chunked in HTTP/1.0",        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n",                        Err(Framing)),
            ("neither",                    "HTTP/1.1 200 OK\r\n",                                                      Ok(UntilClose)),
            ("204",                        "HTTP/1.1 204 x\r\nContent-Length: 5\r\n",                                  Ok(Nothing)),
            ("304",                        "HTTP/1.1 304 x\r\nContent-Length: 5\r\n",                                  Ok(Nothing)),
            ("304 chunked",                "HTTP/1.1 304 x\r\nTransfer-Encoding: chunked\r\n",                         Ok(Nothing)),
        ];
        for (name, head, want) in cases {
            let bytes = format!("{head}\r\n");
            let (head, _) = parse(bytes.as_bytes()).unwrap().unwrap();
            assert_eq!(head.framing(false), *want, "{name}");
        }
        let (head, _) = parse(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n").unwrap().unwrap();
        assert_eq!(head.framing(true), Ok(Nothing));
    }

    #[test]
    fn persistence_follows_version_and_field() {
        let cases = [
            ("HTTP/1.1 200 OK\r\n\r\n", true),
            ("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", false),
            ("HTTP/1.1 200 OK\r\nConnection: x, Close\r\n\r\n", false),
            ("HTTP/1.0 200 OK\r\n\r\n", false),
            ("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\n", true),
        ];
        for (head, want) in cases {
            assert_eq!(parse(head.as_bytes()).unwrap().unwrap().0.persists(), want, "{head}");
        }
        let fields: Vec<_> =
            parse(b"HTTP/1.1 200 OK\r\nA:  b \r\n\r\n").unwrap().unwrap().0.fields().collect();
        assert_eq!(fields, [(&b"A"[..], &b"b"[..])]);
    }
}
