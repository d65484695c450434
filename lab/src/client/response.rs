//! The length of a response: just enough of RFC 9112, sections 4 and 6.3, to count its bytes.
//!
//! ```text
//! HTTP/1.1 200 OK CRLF  fields CRLF CRLF  content
//! └──────────── head ─────────────────┘  └ Content-Length ┘
//! └──────────────────── len ──────────────────────────────┘
//! ```
//!
//! [`ResponseSize`] accepts only status 200, as most clients of the lab time no other response, and [`ResponseSummary`] any status. Both need
//! Content-Length, or complete chunks: the length of these shows at their end.

use std::fmt;

/// The first bytes of every accepted response.
pub(crate) const OK: &[u8] = b"HTTP/1.1 200";

/// The lengths of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResponseSize {
    /// Bytes of the head, the final empty line included.
    pub(crate) head_len: usize,
    /// Bytes of the content on the wire: those that frame its chunks included.
    pub(crate) content_len: usize,
}

impl ResponseSize {
    /// Parses the head at the front of `wire`. Returns `None` while it, or content in chunks, is incomplete.
    pub(crate) fn parse(wire: &[u8]) -> Result<Option<ResponseSize>, ResponseError> {
        let prefix = wire.len().min(OK.len());
        if wire[..prefix] != OK[..prefix] {
            return Err(ResponseError::Status);
        }
        Ok(ResponseSummary::parse(wire)?.map(|head| head.size))
    }

    /// Returns the content of a complete response, without what frames its chunks.
    pub(crate) fn content(self, wire: &[u8]) -> Result<Vec<u8>, ResponseError> {
        let (head, content) = (&wire[..self.head_len], &wire[self.head_len..]);
        let is_chunked = head.windows(CHUNKED.len()).any(|field| field.eq_ignore_ascii_case(CHUNKED));
        let chunks = if is_chunked { parse_chunks(content)? } else { None };
        Ok(chunks.map_or_else(|| content.to_vec(), |(content, _)| content))
    }

    /// Returns the bytes of the complete response.
    pub(crate) fn len(self) -> usize {
        self.head_len + self.content_len
    }
}

/// A response with any status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResponseSummary {
    pub(crate) status: u16,
    pub(crate) size: ResponseSize,
}

impl ResponseSummary {
    /// Parses the head at the front of `wire`. Returns `None` while it is incomplete.
    pub(crate) fn parse(wire: &[u8]) -> Result<Option<ResponseSummary>, ResponseError> {
        let prefix = wire.len().min(VERSION.len());
        if wire[..prefix] != VERSION[..prefix] {
            return Err(ResponseError::Version);
        }
        let Some(end) = wire.windows(4).position(|four| four == b"\r\n\r\n") else {
            return Ok(None);
        };
        let status =
            wire[..end].get(VERSION.len()..VERSION.len() + 3).and_then(|code| str::from_utf8(code).ok());
        let status = status.and_then(|code| code.parse().ok()).ok_or(ResponseError::Version)?;
        // RFC 9110, section 15.4.5: its Content-Length is that of another response.
        let has_no_content = status == 304;
        let mut content_len = has_no_content.then_some(0);
        for line in wire[..end].split(|byte| *byte == b'\n').skip(1) {
            let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
            let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
            if name.eq_ignore_ascii_case(b"transfer-encoding") {
                if !value.eq_ignore_ascii_case(b"chunked") {
                    return Err(ResponseError::Coded);
                }
                let Some((_, len)) = parse_chunks(&wire[end + 4..])? else { return Ok(None) };
                content_len = Some(len);
            }
            if name.eq_ignore_ascii_case(b"content-length") && !has_no_content {
                let text = str::from_utf8(value).map_err(|_| ResponseError::Length)?;
                content_len = Some(text.parse().map_err(|_| ResponseError::Length)?);
            }
        }
        let content_len = content_len.ok_or(ResponseError::NoLength)?;
        let size = ResponseSize { head_len: end + 4, content_len };
        Ok(Some(ResponseSummary { status, size }))
    }
}

/// Returns the content of chunks without extensions and trailers, and the bytes that they take on the wire. `None`: they are incomplete.
/// RFC 9112, section 7.1.
fn parse_chunks(wire: &[u8]) -> Result<Option<(Vec<u8>, usize)>, ResponseError> {
    let (mut content, mut at) = (Vec::new(), 0);
    loop {
        let Some(line_len) = wire[at..].windows(2).position(|two| two == b"\r\n") else { return Ok(None) };
        let digits = str::from_utf8(&wire[at..at + line_len]).map_err(|_| ResponseError::Length)?;
        let len = usize::from_str_radix(digits, 16).map_err(|_| ResponseError::Length)?;
        at += line_len + 2;
        let Some(chunk) = wire.get(at..).and_then(|rest| rest.get(..len.checked_add(2)?)) else {
            return Ok(None);
        };
        let Some(chunk) = chunk.strip_suffix(b"\r\n") else { return Err(ResponseError::Length) };
        content.extend_from_slice(chunk);
        at += len + 2;
        if len == 0 {
            return Ok(Some((content, at)));
        }
    }
}

/// The field of content in chunks, as servers write it.
const CHUNKED: &[u8] = b"\r\nTransfer-Encoding: chunked\r\n";

/// The bytes in front of every status.
const VERSION: &[u8] = b"HTTP/1.1 ";

/// The reason why a response cannot be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResponseError {
    /// The response does not begin with `HTTP/1.1 200`.
    Status,
    /// The response does not begin with `HTTP/1.1` and a status.
    Version,
    /// The response has no Content-Length.
    NoLength,
    /// Content-Length, or the length of a chunk, is not a number.
    Length,
    /// The response has another transfer coding than chunked.
    Coded,
}

impl fmt::Display for ResponseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ResponseError::Status => "the response does not begin with HTTP/1.1 200",
            ResponseError::Version => "the response does not begin with HTTP/1.1 and a status",
            ResponseError::NoLength => "the response has no Content-Length",
            ResponseError::Length => "Content-Length, or the length of a chunk, is not a number",
            ResponseError::Coded => "the response has another transfer coding than chunked",
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
            ("chunks to come",    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",        Ok(None)),
            ("half a chunk",      b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\na",  Ok(None)),
            ("no last chunk",     b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n", Ok(None)),
            ("all chunks",        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", Ok(Some(58))),
            ("chunk too long",    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc", Err(ResponseError::Length)),
            ("no chunk",          b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhello\r\n", Err(ResponseError::Length)),
            ("other coding",      b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",           Err(ResponseError::Coded)),
        ];
        for (name, wire, want) in cases {
            assert_eq!(ResponseSize::parse(wire).map(|size| size.map(ResponseSize::len)), *want, "{name}");
        }
    }

    #[test]
    fn content_has_no_frames() {
        let content = |wire: &[u8]| ResponseSize::parse(wire).unwrap().unwrap().content(wire).unwrap();
        assert_eq!(content(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"), b"hello");
        let chunked =
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n";
        assert_eq!(content(chunked), b"hello");
    }

    #[test]
    fn any_status_is_accepted_with_a_length() {
        type ParsedStatus = Result<Option<(u16, usize)>, ResponseError>;
        #[rustfmt::skip]
        let cases: &[(&str, &[u8], ParsedStatus)] = &[
            // case           on the wire                                                          status, length
            ("200",           b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",               Ok(Some((200, 43)))),
            ("404",           b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",             Ok(Some((404, 45)))),
            ("304",           b"HTTP/1.1 304 Not Modified\r\n\r\n",                                 Ok(Some((304, 29)))),
            ("its length",    b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n",            Ok(Some((304, 48)))),
            ("no reason",     b"HTTP/1.1 431\r\nContent-Length: 0\r\n\r\n",                       Ok(Some((431, 35)))),
            ("half a status", b"HTTP/1.1 43",                                                      Ok(None)),
            ("letters",       b"HTTP/1.1 OK!\r\nContent-Length: 0\r\n\r\n",                       Err(ResponseError::Version)),
            ("two digits",    b"HTTP/1.1 43\r\n\r\n",                                            Err(ResponseError::Version)),
            ("not HTTP",      b"SSH-2.0",                                                          Err(ResponseError::Version)),
            ("no length",     b"HTTP/1.1 400 Bad Request\r\n\r\n",                               Err(ResponseError::NoLength)),
        ];
        for (name, wire, want) in cases {
            let head =
                ResponseSummary::parse(wire).map(|head| head.map(|head| (head.status, head.size.len())));
            assert_eq!(head, *want, "{name}");
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
