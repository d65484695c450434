//! The head of a CGI program's response. RFC 3875, section 6.
//!
//! ```text
//! Status: 404 Not Found      a field of CGI, once at most
//! Content-Type: text/html    also a field of the response
//! Set-Cookie: a=b            a field of the response
//!                            an empty line; then content
//! ```
//!
//! A line ends with LF or CRLF. The status line of a program that wants to speak HTTP itself (`nph-`) is no field, and is refused.

use crate::{
    field::trim_ows,
    token::{TCHAR, VALUE, in_class},
};

/// The maximum length of a head in bytes: as long as that of a request, nearly.
pub const CGI_HEAD_LEN_MAX: usize = 12 * 1024;

/// A valid head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CgiHead<'a> {
    /// The lines, without the empty one.
    lines: &'a [u8],
    /// The code of Status, from 200 to 599. `None`: the program has sent none.
    pub status: Option<u16>,
    /// The value of Location, not empty.
    pub location: Option<&'a [u8]>,
    /// Whether the head has Content-Type.
    pub has_content_type: bool,
    /// The value of Content-Length.
    pub content_length: Option<u64>,
}

/// The reason to refuse a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgiHeadError {
    /// A line is not a name, a colon and a value. A line that begins with a space is one of them.
    Line,
    /// A value contains a control character.
    Value,
    /// Status, Location, Content-Type or Content-Length occurs twice.
    Repeated,
    /// Status is not a code from 200 to 599.
    Status,
    /// Location is empty.
    Location,
    /// Content-Length is not a number.
    ContentLength,
    /// There is none of Content-Type, Location and Status.
    NoCgiField,
    /// It is longer than [`CGI_HEAD_LEN_MAX`].
    TooLong,
}

/// What a program asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgiResponse<'a> {
    /// The response has this status.
    Response(u16),
    /// The server is to answer as if the client had asked for this path with its query: RFC 3875, section 6.2.2.
    LocalRedirect(&'a [u8]),
}

/// Parses the head at the start of `bytes`. Returns it with its length, including the empty line. `None`: more bytes are needed.
///
/// # Errors
/// The head is invalid, whatever follows.
pub fn parse(bytes: &[u8]) -> Result<Option<(CgiHead<'_>, usize)>, CgiHeadError> {
    let mut head =
        CgiHead { lines: &[], status: None, location: None, has_content_type: false, content_length: None };
    let mut at = 0;
    loop {
        let rest = &bytes[at..];
        let Some(end) = rest.iter().take(CGI_HEAD_LEN_MAX - at).position(|&byte| byte == b'\n') else {
            return if bytes.len() < CGI_HEAD_LEN_MAX { Ok(None) } else { Err(CgiHeadError::TooLong) };
        };
        let line = without_cr(&rest[..end]);
        if line.is_empty() {
            head.lines = &bytes[..at];
            let has_field = head.status.is_some() || head.location.is_some() || head.has_content_type;
            return if has_field { Ok(Some((head, at + end + 1))) } else { Err(CgiHeadError::NoCgiField) };
        }
        let (name, value) = split(line).ok_or(CgiHeadError::Line)?;
        head.add(name, value)?;
        at += end + 1;
    }
}

impl<'a> CgiHead<'a> {
    fn add(&mut self, name: &[u8], value: &'a [u8]) -> Result<(), CgiHeadError> {
        if !value.iter().all(|&byte| in_class(VALUE, byte)) {
            return Err(CgiHeadError::Value);
        }
        let is_repeated = if name.eq_ignore_ascii_case(b"status") {
            let status = status(value).ok_or(CgiHeadError::Status)?;
            self.status.replace(status).is_some()
        } else if name.eq_ignore_ascii_case(b"location") {
            if value.is_empty() {
                return Err(CgiHeadError::Location);
            }
            self.location.replace(value).is_some()
        } else if name.eq_ignore_ascii_case(b"content-type") {
            core::mem::replace(&mut self.has_content_type, true)
        } else if name.eq_ignore_ascii_case(b"content-length") {
            let length = number(value).ok_or(CgiHeadError::ContentLength)?;
            self.content_length.replace(length).is_some()
        } else {
            false
        };
        if is_repeated { Err(CgiHeadError::Repeated) } else { Ok(()) }
    }

    /// Returns the fields for the response, in order: all but Status.
    pub fn fields(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let lines = self.lines.split(|&byte| byte == b'\n').map(without_cr);
        lines.filter_map(split).filter(|(name, _)| !name.eq_ignore_ascii_case(b"status"))
    }

    /// Returns what the program asks for. A path in Location without any Status is a local redirect, unless it has a fragment, which
    /// only a client understands; any other Location without Status is a redirect of the client.
    pub fn response(&self) -> CgiResponse<'a> {
        match (self.status, self.location) {
            (Some(status), _) => CgiResponse::Response(status),
            (None, Some(location)) if location.starts_with(b"/") && !location.contains(&b'#') => {
                CgiResponse::LocalRedirect(location)
            }
            (None, Some(_)) => CgiResponse::Response(302),
            (None, None) => CgiResponse::Response(200),
        }
    }
}

/// Returns a line without the CR at its end.
fn without_cr(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Returns the name and the value of a line.
fn split(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = line.iter().position(|&byte| byte == b':')?;
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    let is_token = !name.is_empty() && name.iter().all(|&byte| in_class(TCHAR, byte));
    is_token.then(|| (name, trim_ows(value)))
}

/// Returns the code of a status: three digits, and perhaps a space and a reason phrase.
fn status(value: &[u8]) -> Option<u16> {
    let (digits, rest) = value.split_first_chunk::<3>()?;
    let code = number(digits)? as u16;
    ((200..600).contains(&code) && matches!(rest.first(), None | Some(b' '))).then_some(code)
}

fn number(digits: &[u8]) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    core::str::from_utf8(digits).ok().filter(|_| is_number)?.parse().ok()
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::{CgiHeadError::*, CgiResponse::*, *};
    use std::{string::String, vec::Vec};

    /// What a head asks for, and the number of its fields.
    type ParsedHead<'a> = Result<Option<(CgiResponse<'a>, usize)>, CgiHeadError>;

    #[test]
    #[rustfmt::skip]
    fn heads_are_parsed_at_every_cut() {
        let cases: &[(&str, &[u8], ParsedHead<'_>)] = &[
            // case                   output of the program                                     asked for, fields
            ("usual",                 b"Content-Type: text/plain\n\nhello",                      Ok(Some((Response(200), 1)))),
            ("CRLF",                  b"Content-Type: text/plain\r\nX: y\r\n\r\n",               Ok(Some((Response(200), 2)))),
            ("no space",              b"content-type:text/plain\n\n",                            Ok(Some((Response(200), 1)))),
            ("status",                b"Status: 404 Not Found\nContent-Type: a/b\n\n",           Ok(Some((Response(404), 1)))),
            ("status alone",          b"Status: 204\n\n",                                        Ok(Some((Response(204), 0)))),
            ("repeated field",        b"Status: 200\nSet-Cookie: a\nset-cookie: b\n\n",          Ok(Some((Response(200), 2)))),
            ("local redirect",        b"Location: /a?b\n\n",                                     Ok(Some((LocalRedirect(b"/a?b"), 1)))),
            ("redirect",              b"Location: https://example.org/\n\n",                     Ok(Some((Response(302), 1)))),
            ("with a fragment",       b"Location: /a#b\n\n",                                     Ok(Some((Response(302), 1)))),
            ("relative",              b"Location: a\n\n",                                        Ok(Some((Response(302), 1)))),
            ("status and location",   b"Status: 301\nLocation: /a\n\n",                          Ok(Some((Response(301), 1)))),
            ("length",                b"Content-Type: a/b\nContent-Length: 12\n\n",              Ok(Some((Response(200), 2)))),
            ("empty value",           b"Content-Type:\n\n",                                      Ok(Some((Response(200), 1)))),
            ("incomplete",            b"Content-Type: text/plain\n",                             Ok(None)),
            ("nothing",               b"",                                                       Ok(None)),
            ("empty line",            b"\n",                                                     Err(NoCgiField)),
            ("no field of CGI",       b"X: y\n\n",                                               Err(NoCgiField)),
            ("a status line",         b"HTTP/1.1 200 OK\n",                                      Err(Line)),
            ("text",                  b"hello\n",                                                Err(Line)),
            ("no name",               b": a\n",                                                  Err(Line)),
            ("space in a name",       b"Content Type: a/b\n",                                    Err(Line)),
            ("space before a colon",  b"Status : 200\n",                                         Err(Line)),
            ("folded",                b"Content-Type: a/b\n charset=x\n\n",                      Err(Line)),
            ("folded with a colon",   b"Content-Type: a/b\n x:y\n\n",                            Err(Line)),
            ("NUL",                   b"X: \0\n",                                                Err(Value)),
            ("CR in a value",         b"X: a\rSet-Cookie: b\n",                                  Err(Value)),
            ("status twice",          b"Status: 200\nStatus: 200\n",                             Err(Repeated)),
            ("location twice",        b"Location: /a\nlocation: /b\n",                           Err(Repeated)),
            ("type twice",            b"Content-Type: a/b\nContent-Type: a/b\n",                 Err(Repeated)),
            ("length twice",          b"Content-Length: 1\nContent-Length: 1\n",                 Err(Repeated)),
            ("status of an interim",  b"Status: 103\n",                                          Err(Status)),
            ("status too high",       b"Status: 600\n",                                          Err(Status)),
            ("status of four digits", b"Status: 2000\n",                                         Err(Status)),
            ("status of words",       b"Status: OK\n",                                           Err(Status)),
            ("empty location",        b"Location:\n",                                            Err(Location)),
            ("negative length",       b"Content-Length: -1\n",                                   Err(ContentLength)),
            ("length with a sign",    b"Content-Length: +1\n",                                   Err(ContentLength)),
            ("length beyond 64 bits", b"Content-Length: 99999999999999999999\n",                 Err(ContentLength)),
        ];
        for &(name, bytes, want) in cases {
            let found = parse(bytes).map(|head| head.map(|(head, _)| (head.response(), head.fields().count())));
            assert_eq!(found, want, "{name}");
            // A part of it waits for more, or has the same result.
            for cut in 0..bytes.len() {
                match parse(&bytes[..cut]) {
                    Ok(None) => {}
                    Ok(Some((head, len))) => assert_eq!(parse(bytes), Ok(Some((head, len))), "{name} at {cut}"),
                    Err(error) => assert_eq!(parse(bytes), Err(error), "{name} at {cut}"),
                }
            }
        }
    }

    #[test]
    fn head_ends_at_its_empty_line_and_has_a_limit() {
        let (head, len) = parse(b"Content-Type: a/b\nX-A:  1 \n\nhello\n\n").unwrap().unwrap();
        assert_eq!(len, 28);
        let fields: Vec<_> = head.fields().collect();
        assert_eq!(fields, [(&b"Content-Type"[..], &b"a/b"[..]), (b"X-A", b"1")]);
        let lines = |count: usize| {
            let text: String = (0..count).map(|_| "X: 1\n").collect();
            [b"Content-Type: a/b\n", text.as_bytes(), b"\n"].concat()
        };
        let most = (CGI_HEAD_LEN_MAX - 19) / 5;
        assert!(matches!(parse(&lines(most)), Ok(Some(_))));
        assert_eq!(parse(&lines(most + 1)), Err(TooLong));
        assert_eq!(parse(&[b'x'; CGI_HEAD_LEN_MAX - 1]), Ok(None));
        assert_eq!(parse(&[b'x'; CGI_HEAD_LEN_MAX]), Err(TooLong));
    }
}
