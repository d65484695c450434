//! The length of a response: just enough of RFC 9112, sections 4 and 6.3, to count its bytes.
//!
//! ```text
//! HTTP/1.1 200 OK CRLF  fields CRLF CRLF  content
//! └──────────── head ─────────────────┘  └ Content-Length ┘
//! └──────────────────── len ──────────────────────────────┘
//! ```
//!
//! Accepts only status 200 with Content-Length: the lab times no other response.

use std::fmt;

/// The first bytes of every accepted response.
pub(crate) const OK: &[u8] = b"HTTP/1.1 200";

/// The lengths of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResponseSize {
    /// Bytes of the head, the final empty line included.
    pub(crate) head_len: usize,
    /// Bytes of the content.
    pub(crate) content_len: usize,
}

impl ResponseSize {
    /// Parses the head at the front of `wire`. Returns `None` while it is incomplete.
    pub(crate) fn parse(wire: &[u8]) -> Result<Option<ResponseSize>, ResponseError> {
        let prefix = wire.len().min(OK.len());
        if wire[..prefix] != OK[..prefix] {
            return Err(ResponseError::Status);
        }
        let Some(end) = wire.windows(4).position(|four| four == b"\r\n\r\n") else {
            return Ok(None);
        };
        let mut content_len = None;
        for line in wire[..end].split(|byte| *byte == b'\n').skip(1) {
            let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
            let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
            if name.eq_ignore_ascii_case(b"transfer-encoding") {
                return Err(ResponseError::Coded);
            }
            if name.eq_ignore_ascii_case(b"content-length") {
                let text = str::from_utf8(value).map_err(|_| ResponseError::Length)?;
                content_len = Some(text.parse().map_err(|_| ResponseError::Length)?);
            }
        }
        let content_len = content_len.ok_or(ResponseError::NoLength)?;
        Ok(Some(ResponseSize { head_len: end + 4, content_len }))
    }

    /// Returns the bytes of the complete response.
    pub(crate) fn len(self) -> usize {
        self.head_len + self.content_len
    }
}

/// The reason why a response cannot be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResponseError {
    /// The response does not begin with `HTTP/1.1 200`.
    Status,
    /// The response has no Content-Length.
    NoLength,
    /// Content-Length is not a number.
    Length,
    /// The response has a transfer coding.
    Coded,
}

impl fmt::Display for ResponseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ResponseError::Status => "the response does not begin with HTTP/1.1 200",
            ResponseError::NoLength => "the response has no Content-Length",
            ResponseError::Length => "Content-Length is not a number",
            ResponseError::Coded => "the response has a transfer coding",
        })
    }
}

impl std::error::Error for ResponseError {}

#[cfg(test)]
mod tests {
    use super::*;

    type ParsedLen = Result<Option<usize>, ResponseError>;

    #[test]
    fn length_follows_from_the_head() {
        #[rustfmt::skip]
        let cases: &[(&str, &[u8], ParsedLen)] = &[
            // case               on the wire                                                    length
            ("content",           b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",            Ok(Some(43))),
            ("content to come",   b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",                 Ok(Some(43))),
            ("any case",          b"HTTP/1.1 200 OK\r\ncontent-LENGTH:5 \r\nA: b\r\n\r\n",         Ok(Some(49))),
            ("half a status",     b"HTTP/1",                                                       Ok(None)),
            ("half a head",       b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n",                     Ok(None)),
            ("other status",      b"HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\n",          Err(ResponseError::Status)),
            ("not HTTP",          b"SSH-2.0",                                                      Err(ResponseError::Status)),
            ("no length",         b"HTTP/1.1 200 OK\r\nServer: a\r\n\r\n",                         Err(ResponseError::NoLength)),
            ("length of letters", b"HTTP/1.1 200 OK\r\nContent-Length: five\r\n\r\n",              Err(ResponseError::Length)),
            ("chunked",           b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",        Err(ResponseError::Coded)),
        ];
        for (name, wire, want) in cases {
            assert_eq!(ResponseSize::parse(wire).map(|size| size.map(ResponseSize::len)), *want, "{name}");
        }
    }

    #[test]
    fn partial_head_has_no_length() {
        let wire = b"HTTP/1.1 200 OK\r\nServer: a\r\nContent-Length: 1024\r\n\r\n";
        for cut in 0..wire.len() {
            assert_eq!(ResponseSize::parse(&wire[..cut]), Ok(None), "{cut} bytes");
        }
        assert_eq!(
            ResponseSize::parse(wire),
            Ok(Some(ResponseSize { head_len: wire.len(), content_len: 1024 }))
        );
    }
}
