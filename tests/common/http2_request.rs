//! The request of HTTP/2 that says the same as a request of HTTP/1.1.

use super::http2_client::{END_HEADERS, END_STREAM, block, frame};
use tarpon_http::h2::FrameType;

/// A request of HTTP/2.
pub(crate) struct Http2Request {
    /// The fields, after the pseudo-header fields.
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) content: Vec<u8>,
    /// The request of HTTP/1.1 has `Connection: close`, which HTTP/2 does not have.
    pub(crate) is_last: bool,
}

/// The longest payload that a server accepts unless it says more.
const PAYLOAD_LEN_MAX: usize = 16_384;

impl Http2Request {
    /// Converts the request at the front of the bytes. Returns it with the number of its bytes, or `None` if some are missing.
    ///
    /// # Errors
    /// HTTP/2 cannot express the request.
    pub(crate) fn split_first(bytes: &[u8]) -> Result<Option<(Http2Request, usize)>, &'static str> {
        let Some(end) = bytes.windows(4).position(|end| end == b"\r\n\r\n") else { return Ok(None) };
        let head = std::str::from_utf8(&bytes[..end]).map_err(|_| "the head is not UTF-8")?;
        let mut lines = head.split("\r\n");
        let words: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
        let [method, target, "HTTP/1.1"] = words[..] else {
            return Err("the request line is not one of HTTP/1.1");
        };
        if method == "CONNECT" || !(target.starts_with('/') || target == "*") || !target.is_ascii() {
            return Err("the target is not a path");
        }
        let (mut hosts, mut fields, mut len, mut is_last) = (Vec::new(), Vec::new(), 0, false);
        for line in lines {
            let (name, value) = line.split_once(':').ok_or("a line of the head is not a field")?;
            let (name, value) = (name.to_ascii_lowercase(), value.trim_matches([' ', '\t']));
            // RFC 9113, section 8.2.
            let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
            if name.is_empty() || !name.bytes().all(is_name) || value.contains(['\0', '\r', '\n']) {
                return Err("a field is malformed");
            }
            match &*name {
                "connection" if value == "close" => {
                    is_last = true;
                    continue;
                }
                "connection" | "keep-alive" | "proxy-connection" | "transfer-encoding" | "upgrade" | "te" => {
                    return Err("a field is about the connection");
                }
                "host" => {
                    hosts.push(value);
                    continue;
                }
                "content-length" => len = value.parse().map_err(|_| "Content-Length is not a number")?,
                _ => {}
            }
            fields.push((name, value.to_owned()));
        }
        let &[host] = &hosts[..] else { return Err("there is not one Host field") };
        let pseudo = [(":method", method), (":scheme", "http"), (":authority", host), (":path", target)];
        let pseudo = pseudo.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let fields = pseudo.into_iter().chain(fields).collect();
        let whole_len = end + 4 + len;
        let Some(content) = bytes.get(end + 4..whole_len) else { return Ok(None) };
        Ok(Some((Http2Request { fields, content: content.to_vec(), is_last }, whole_len)))
    }

    /// Returns the value of a field or a pseudo-header field.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(found, _)| found == name).map(|(_, value)| &**value)
    }

    pub(crate) fn is_head(&self) -> bool {
        self.field(":method") == Some("HEAD")
    }

    /// Returns the frames that send the request on a stream.
    pub(crate) fn frames(&self, stream: u32) -> Vec<u8> {
        let mut bytes = self.head_frames(stream);
        let mut parts = self.content.chunks(PAYLOAD_LEN_MAX).peekable();
        while let Some(part) = parts.next() {
            let ends = if parts.peek().is_none() { END_STREAM } else { 0 };
            bytes.extend(frame(FrameType::Data, ends, stream, part));
        }
        bytes
    }

    /// Returns the frames that send the fields.
    pub(crate) fn head_frames(&self, stream: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        let fields: Vec<_> = self.fields.iter().map(|(name, value)| (&**name, &**value)).collect();
        let ends = if self.content.is_empty() { END_STREAM } else { 0 };
        let parts = block(&fields);
        let mut parts = parts.chunks(PAYLOAD_LEN_MAX).enumerate().peekable();
        while let Some((number, part)) = parts.next() {
            let last = if parts.peek().is_none() { END_HEADERS } else { 0 };
            bytes.extend(match number {
                0 => frame(FrameType::Headers, ends | last, stream, part),
                _ => frame(FrameType::Continuation, last, stream, part),
            });
        }
        bytes
    }
}
