//! The head of a request, as far as the upstream server reads it.
//!
//! ```text
//! GET /api/1024?x HTTP/1.1 CRLF  …  Connection: close CRLF CRLF
//!          └──┘ segment             └─────────────── closes
//! ```
//!
//! Requests have no content. The proxies in front of the server have checked everything else.

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LabUpstreamRequest<'a> {
    /// The last segment of the path.
    pub(super) segment: &'a [u8],
    /// The connection ends with the response.
    pub(super) closes: bool,
    /// The bytes of the head, the final empty line included.
    pub(super) len: usize,
}

/// Reads the head at the front of `wire`. Returns `None` while it is incomplete.
pub(super) fn parse(wire: &[u8]) -> Option<LabUpstreamRequest<'_>> {
    let len = wire.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let head = &wire[..len];
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    let target = words.nth(1).unwrap_or_default();
    let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
    let segment = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let is_old = words.next() == Some(b"HTTP/1.0");
    Some(LabUpstreamRequest { segment, closes: is_old || has_close(&head[line.len()..]), len })
}

/// Returns whether a field `Connection: close` is among these. All proxies of the lab write exactly one space.
fn has_close(fields: &[u8]) -> bool {
    // A colon ends few windows: this compares names at those places only.
    let colons = fields.iter().enumerate().filter(|(_, byte)| **byte == b':').map(|(at, _)| at);
    colons.into_iter().any(|colon| {
        let is_connection =
            colon >= NAME.len() && fields[colon - NAME.len()..colon].eq_ignore_ascii_case(NAME);
        is_connection
            && fields[colon..].len() >= CLOSE.len()
            && fields[colon..][..CLOSE.len()].eq_ignore_ascii_case(CLOSE)
    })
}

/// The name of the field with the end of its line before, and its value with the end of its line.
const NAME: &[u8] = b"\nConnection";
const CLOSE: &[u8] = b": close\r";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_is_read_from_its_head() {
        #[rustfmt::skip]
        let cases: &[(&str, &[u8], &[u8], bool)] = &[
            // case              on the wire                                                         segment   closes
            ("no fields",        b"GET /1024 HTTP/1.1\r\n\r\n",                                      b"1024",  false),
            ("below a prefix",   b"GET /api/v1/1024 HTTP/1.1\r\nHost: a\r\n\r\n",                    b"1024",  false),
            ("query",            b"GET /1024?a/b HTTP/1.1\r\nHost: a\r\n\r\n",                       b"1024",  false),
            ("root",             b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",                               b"",      false),
            ("HTTP/1.0",         b"GET /1 HTTP/1.0\r\nHost: a\r\n\r\n",                              b"1",     true),
            ("close",            b"GET /1 HTTP/1.1\r\nHost: a\r\nconnection: Close\r\n\r\n",         b"1",     true),
            ("keep-alive",       b"GET /1 HTTP/1.1\r\nConnection: keep-alive\r\n\r\n",               b"1",     false),
            ("another name",     b"GET /1 HTTP/1.1\r\nX-Connection: close\r\n\r\n",                  b"1",     false),
            ("no target",        b"GET\r\n\r\n",                                                     b"",      false),
        ];
        for (name, wire, segment, closes) in cases {
            let want = LabUpstreamRequest { segment, closes: *closes, len: wire.len() };
            assert_eq!(parse(wire), Some(want), "{name}");
            for cut in 0..wire.len() {
                assert_eq!(parse(&wire[..cut]), None, "{name}, {cut} bytes");
            }
        }
    }
}
