//! A backend for tests: it responds with the content of the request.
//!
//! Fields of the request change its behaviour:
//!
//! | field | effect |
//! |---|---|
//! | `x-status` | the status of the response; 200 without it |
//! | `x-interim` | an interim response with this status comes first |
//! | `x-length` | the Content-Length of the response |
//! | `x-trailer` | the response has a trailer `x-trailer` with this value |
//! | `x-size` | that many bytes of content, and not the content of the request |
//! | `x-abort` | the connection closes after that many bytes of content |
//! | `x-early` | the whole response comes before the content of the request is read |
//! | `x-silent` | no response |
//! | `x-refuse` | the exchange is aborted with this status after the request |
//! | `x-redirect` | the server is to answer a GET request for this path; with `x-loop`, one with the same fields |
//! | `x-close` | the connection closes after the response |

use super::frames::{FRAME_PREFIX_LEN, FrameKind, FramePrefix};
use crate::pipe::fields::{MessageFields, MessageFieldsWriter};

/// One connection of the backend.
#[derive(Debug, Default)]
pub struct EchoBackend {
    input: Vec<u8>,
    request: Option<EchoRequest>,
    /// The connection is closed.
    is_closed: bool,
    /// The number of requests whose end has arrived.
    pub request_count: usize,
}

#[derive(Debug, Default)]
struct EchoRequest {
    /// Names and values.
    fields: Vec<(Vec<u8>, Vec<u8>)>,
    sent_len: usize,
    has_ended: bool,
}

/// The bytes in each frame of a content of `x-size`.
const PIECE_LEN: usize = 10_000;

impl EchoRequest {
    fn get(&self, name: &str) -> Option<&[u8]> {
        self.fields.iter().find(|(found, _)| found == name.as_bytes()).map(|(_, value)| &**value)
    }

    fn number(&self, name: &str) -> Option<usize> {
        str::from_utf8(self.get(name)?).ok()?.parse().ok()
    }
}

impl EchoBackend {
    /// Returns whether the backend has closed the connection.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Handles bytes from the server, and returns the bytes of the response.
    pub fn received(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.input.extend_from_slice(bytes);
        let mut output = Vec::new();
        while !self.is_closed
            && let Some(FramePrefix { kind, len }) = FramePrefix::decode(&self.input).expect("a valid frame")
            && let end = FRAME_PREFIX_LEN + len as usize
            && self.input.len() >= end
        {
            let content = self.input[FRAME_PREFIX_LEN..end].to_vec();
            self.input.drain(..end);
            self.handle(kind, &content, &mut output);
        }
        output
    }

    fn handle(&mut self, kind: FrameKind, content: &[u8], output: &mut Vec<u8>) {
        match kind {
            FrameKind::Head => {
                assert!(self.request.is_none(), "a request begins after the end of the one before");
                let list = MessageFields::parse(content).expect("a valid list");
                let fields = list.iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
                self.request = Some(EchoRequest { fields, ..EchoRequest::default() });
                self.respond(output);
            }
            FrameKind::Data => self.echo(content, output),
            FrameKind::End => self.end(output),
            FrameKind::Interim | FrameKind::Trailers | FrameKind::Abort | FrameKind::Redirect => {
                panic!("{kind:?} in a request")
            }
        }
    }

    /// Sends the head, and what comes before it.
    fn respond(&mut self, output: &mut Vec<u8>) {
        let request = self.request.as_ref().expect("a request");
        if ["x-silent", "x-refuse", "x-redirect"].iter().any(|name| request.get(name).is_some()) {
            return;
        }
        if let Some(status) = request.get("x-interim") {
            put_list(output, FrameKind::Interim, &[(b":status", status), (b"link", b"</a.css>")]);
        }
        let path = request.get(":path").expect("a path").to_vec();
        let mut head: Vec<(&[u8], &[u8])> = vec![
            (b":status", request.get("x-status").unwrap_or(b"200")),
            (b"content-type", b"application/octet-stream"),
            (b"x-path", &path),
            (b"x-method", request.get(":method").expect("a method")),
            (b"x-authority", request.get(":authority").expect("an authority")),
        ];
        if let Some(len) = request.get("x-length") {
            head.push((b"content-length", len));
        }
        put_list(output, FrameKind::Head, &head);
        let is_early = request.get("x-early").is_some();
        if let Some(mut left) = request.number("x-size") {
            while left > 0 && !self.is_closed {
                let len = left.min(PIECE_LEN);
                self.send(&vec![b'x'; len], output);
                left -= len;
            }
        }
        if is_early {
            self.finish(output);
        }
    }

    fn echo(&mut self, content: &[u8], output: &mut Vec<u8>) {
        let request = self.request.as_ref().expect("content belongs to a request");
        let is_dropped = ["x-size", "x-early", "x-silent", "x-refuse", "x-redirect"]
            .iter()
            .any(|name| request.get(name).is_some());
        if !is_dropped {
            self.send(content, output);
        }
    }

    fn send(&mut self, content: &[u8], output: &mut Vec<u8>) {
        let request = self.request.as_mut().expect("a request");
        let left = request.number("x-abort").map_or(usize::MAX, |len| len.saturating_sub(request.sent_len));
        let content = &content[..content.len().min(left)];
        request.sent_len += content.len();
        put_frame(output, FrameKind::Data, content);
        self.is_closed |= content.len() == left;
    }

    fn end(&mut self, output: &mut Vec<u8>) {
        self.request_count += 1;
        let request = self.request.as_ref().expect("a request");
        if let Some(status) = request.number("x-refuse") {
            put_frame(output, FrameKind::Abort, &(status as u16).to_le_bytes());
            self.is_closed = true;
        } else if let Some(path) = request.get("x-redirect") {
            let mut fields: Vec<(&[u8], &[u8])> =
                vec![(b":method", b"GET"), (b":path", path), (b":authority", b"a")];
            if request.get("x-loop").is_some() {
                let same = request.fields.iter().filter(|(name, _)| name.starts_with(b"x"));
                fields.extend(same.map(|(name, value)| (&**name, &**value)));
            }
            put_list(output, FrameKind::Redirect, &fields);
            self.request = None;
        } else if request.has_ended {
            self.request = None;
        } else if request.get("x-silent").is_none() {
            self.finish(output);
            self.request = None;
        }
    }

    /// Ends the response.
    fn finish(&mut self, output: &mut Vec<u8>) {
        if self.is_closed {
            return;
        }
        let request = self.request.as_mut().expect("a request");
        request.has_ended = true;
        if let Some(value) = request.get("x-trailer") {
            put_list(output, FrameKind::Trailers, &[(b"x-trailer", value)]);
        }
        put_frame(output, FrameKind::End, b"");
        self.is_closed |= request.get("x-close").is_some();
    }
}

fn put_list(output: &mut Vec<u8>, kind: FrameKind, fields: &[(&[u8], &[u8])]) {
    let mut bytes = vec![0; fields.iter().map(|(name, value)| 4 + name.len() + value.len()).sum()];
    let mut writer = MessageFieldsWriter::new(&mut bytes);
    for (name, value) in fields {
        writer.put(name, value).expect("room for the list");
    }
    let len = writer.len();
    put_frame(output, kind, &bytes[..len]);
}

fn put_frame(output: &mut Vec<u8>, kind: FrameKind, content: &[u8]) {
    output.extend(FramePrefix { kind, len: content.len() as u32 }.encode());
    output.extend(content);
}
