//! A connection of HTTP/2, with prior knowledge, for tests that write and read HTTP/1.1.
//!
//! ```text
//! request as text  ─ Http2Request ─▶ HEADERS, DATA on the next stream ─▶ socket
//! response as text ◀─ in the order of the requests ◀─ HEADERS, DATA of each stream ◀─┘
//! ```
//!
//! The text of a response has the status line and the names of fields as HTTP/1.1 has them. Content without a length is in chunks. After
//! the response to a request with `Connection: close` the text ends. If a stream ends early, so does its text, with an error.

use super::{
    client::Stream,
    http2_client::{END_STREAM, Http2Client, StreamReceived, frame, preface},
    http2_request::Http2Request,
    kernel::TcpPair,
};
use std::{
    collections::VecDeque,
    io::{self, ErrorKind, Read, Write},
};
use tarpon_http::{h2::FrameType, status::Status};

/// The client's end of a connection.
pub(crate) struct Http2Stream<S> {
    socket: S,
    client: Http2Client,
    /// All bytes that were received.
    wire: Vec<u8>,
    /// The start of a request.
    unsent: Vec<u8>,
    /// The number of the next stream.
    next: u32,
    /// The content that was sent on all streams, in bytes.
    content_len: u64,
    /// The requests whose responses were not read.
    waiting: VecDeque<AwaitedResponse>,
    /// The text of responses.
    text: VecDeque<u8>,
    /// No more text follows.
    has_ended: bool,
    /// The error that follows the text.
    error: Option<io::Error>,
}

/// A request whose response was not read.
struct AwaitedResponse {
    stream: u32,
    is_head: bool,
    is_last: bool,
}

/// The initial windows. RFC 9113, section 6.9.2.
const WINDOW: u64 = 65_535;

/// Content is sent in parts of this length, so that each is soon on its way.
const PART_LEN: usize = 16_384;

impl<S: Stream> Http2Stream<S> {
    /// Sends the preface.
    pub(crate) fn new(mut socket: S) -> Http2Stream<S> {
        socket.write_all(&preface(&[])).expect("a server that listens");
        Http2Stream {
            socket,
            client: Http2Client::default(),
            wire: Vec::new(),
            unsent: Vec::new(),
            next: 1,
            content_len: 0,
            waiting: VecDeque::new(),
            text: VecDeque::new(),
            has_ended: false,
            error: None,
        }
    }

    /// Sends a request on a stream of its own.
    fn send(&mut self, request: &Http2Request) -> io::Result<()> {
        let stream = self.next;
        self.next += 2;
        let (is_head, is_last) = (request.is_head(), request.is_last);
        self.waiting.push_back(AwaitedResponse { stream, is_head, is_last });
        self.socket.write_all(&request.head_frames(stream))?;
        let mut sent = 0;
        while sent < request.content.len() && !self.is_over(stream) {
            let room = self.window(stream, sent as u64).min(self.window(0, self.content_len));
            let rest = &request.content[sent..];
            let len = rest.len().min(PART_LEN).min(room as usize);
            if len == 0 {
                if self.receive()? == 0 {
                    return Err(ErrorKind::BrokenPipe.into());
                }
                continue;
            }
            let ends = if len == rest.len() { END_STREAM } else { 0 };
            self.socket.write_all(&frame(FrameType::Data, ends, stream, &rest[..len]))?;
            sent += len;
            self.content_len += len as u64;
        }
        Ok(())
    }

    /// Returns how much content the window of a stream, or of the connection, allows after `sent` bytes.
    fn window(&self, stream: u32, sent: u64) -> u64 {
        let updates = self.client.window_updates.iter().filter(|(of, _)| *of == stream);
        WINDOW + updates.map(|(_, len)| u64::from(*len)).sum::<u64>() - sent
    }

    /// Returns whether the server sends no more on a stream.
    fn is_over(&self, stream: u32) -> bool {
        self.client.streams.get(&stream).is_some_and(|got| got.is_complete || got.reset.is_some())
    }

    /// Receives frames, and sends the replies. Returns the number of bytes.
    fn receive(&mut self) -> io::Result<usize> {
        let mut bytes = [0; 64 * 1024];
        let len = self.socket.read(&mut bytes)?;
        self.wire.extend_from_slice(&bytes[..len]);
        let replies = self.client.read(&self.wire);
        match self.socket.write_all(&replies) {
            // What the server sent before it closed still counts.
            Err(error) if !super::is_disconnect(&error) => Err(error),
            _ => Ok(len),
        }
    }

    /// Adds the response to the first request to the text, if it is complete or nothing more comes.
    fn take_response(&mut self, is_end: bool) {
        let Some(awaited) = self.waiting.front() else { return };
        let stream = awaited.stream;
        if !self.is_over(stream) && !is_end {
            return;
        }
        let got = self.client.streams.remove(&stream).unwrap_or_default();
        self.text.extend(response_text(&got, awaited));
        if !got.is_complete {
            self.error = got.reset.map(|code| {
                let why = format!("the server ended stream {stream} with error code {code}");
                io::Error::new(ErrorKind::ConnectionReset, why)
            });
            self.has_ended = got.reset.is_none();
        }
        self.has_ended |= awaited.is_last;
        self.waiting.pop_front();
    }
}

/// Returns the text of the sections and the content of a stream.
fn response_text(got: &StreamReceived, awaited: &AwaitedResponse) -> Vec<u8> {
    let (mut text, mut trailers) = (String::new(), String::new());
    let (mut has_chunks, mut has_content, mut len) = (false, false, None);
    for section in &got.sections {
        let status = section.iter().find(|(name, _)| name == ":status").map(|(_, value)| &**value);
        let fields = section.iter().filter(|(name, _)| name != ":status");
        let lines: String =
            fields.map(|(name, value)| format!("{}: {value}\r\n", name_of_http1(name))).collect();
        let Some(status) = status else {
            trailers = lines;
            continue;
        };
        let code = status.parse().expect("a status");
        text += &format!("HTTP/1.1 {status} {}\r\n{lines}", Status::reason_of(code));
        if code >= 200 {
            let value = section.iter().find(|(name, _)| name == "content-length").map(|(_, value)| value);
            len = value.map(|value| value.parse::<usize>().expect("a length"));
            has_content = !awaited.is_head && code != 204 && code != 304;
            has_chunks = has_content && len.is_none();
            text += if has_chunks { "Transfer-Encoding: chunked\r\n" } else { "" };
            text += if awaited.is_last { "Connection: close\r\n" } else { "" };
        }
        text += "\r\n";
    }
    let mut bytes = text.into_bytes();
    if !has_content {
        assert!(got.content.is_empty(), "content of a response that has none: {got:?}");
    } else if has_chunks {
        if !got.content.is_empty() {
            bytes.extend_from_slice(format!("{:x}\r\n", got.content.len()).as_bytes());
            bytes.extend_from_slice(&got.content);
            bytes.extend_from_slice(b"\r\n");
        }
        if got.is_complete {
            bytes.extend_from_slice(format!("0\r\n{trailers}\r\n").as_bytes());
        }
    } else {
        // RFC 9113, section 8.1.1.
        let is_exact = len == Some(got.content.len());
        assert!(is_exact || !got.is_complete, "the length of the content is not {len:?}: {:?}", got.sections);
        bytes.extend_from_slice(&got.content);
    }
    bytes
}

/// Returns the name of a field as HTTP/1 spells it.
fn name_of_http1(name: &str) -> String {
    if name == "etag" {
        return "ETag".to_owned();
    }
    let words = name.split('-').map(|word| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_ascii_uppercase() + rest
    });
    words.collect::<Vec<_>>().join("-")
}

impl<S: Stream> Write for Http2Stream<S> {
    /// # Panics
    /// HTTP/2 cannot express the request.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.unsent.extend_from_slice(bytes);
        loop {
            let split = Http2Request::split_first(&self.unsent);
            match split.unwrap_or_else(|why| {
                panic!("HTTP/2 cannot express the request, {why}: {}", self.unsent.escape_ascii())
            }) {
                None => return Ok(bytes.len()),
                Some((request, len)) => {
                    self.unsent.drain(..len);
                    self.send(&request)?;
                }
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

impl<S: Stream> Read for Http2Stream<S> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.text.is_empty() {
                return self.text.read(to);
            }
            if let Some(error) = self.error.take() {
                return Err(error);
            }
            if self.has_ended {
                return Ok(0);
            }
            self.take_response(false);
            if self.text.is_empty() && self.error.is_none() {
                let is_incomplete = self.waiting.is_empty() && !self.unsent.is_empty();
                assert!(!is_incomplete, "the rest of a request is missing: {}", self.unsent.escape_ascii());
                let is_end = self.receive()? == 0;
                self.take_response(is_end);
                self.has_ended |= is_end && self.waiting.is_empty();
            }
        }
    }
}

impl<S: Stream> Stream for Http2Stream<S> {
    fn send_close_notify(&mut self) -> io::Result<()> {
        self.socket.send_close_notify()
    }

    fn shutdown_write(&self) -> io::Result<()> {
        self.socket.shutdown_write()
    }

    fn set_blocking(&self, blocking: bool) -> io::Result<()> {
        self.socket.set_blocking(blocking)
    }

    fn tcp_pair(&self) -> Option<TcpPair> {
        self.socket.tcp_pair()
    }
}
