//! A client of HTTP/2 that sends the fields of a test, valid or not, and reads the frames of the server.
//!
//! ```text
//! fields ─ literals ─▶ HEADERS, DATA, trailers ─▶ server ─ frames ─▶ Http2Answer
//! ```
//!
//! It has no windows to give: contents must be shorter than the first ones.

use crate::common::client::connected;
use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
};
use tarpon_http::h2::{
    FRAME_HEADER_LEN, FrameFlags, FrameHeader, FrameType, PREFACE,
    hpack::{FieldSection, HpackDecoder, SECTION_SIZE_MAX},
};

/// The name and the value of a field, as they are sent.
pub(super) type RawField<'a> = (&'a str, &'a str);

/// A connection without TLS.
pub(super) struct FieldClient {
    stream: TcpStream,
    decoder: HpackDecoder,
    received: Vec<u8>,
    next_stream: u32,
    answers: BTreeMap<u32, Http2Answer>,
    /// The server has said that the connection ends, or has closed it.
    has_ended: bool,
}

/// The frames of the server on a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Http2Answer {
    /// The status of the response, without those of interim responses.
    pub(super) status: Option<u16>,
    pub(super) content: Vec<u8>,
    /// The response is complete.
    pub(super) is_complete: bool,
    pub(super) is_reset: bool,
}

/// How the fields of a request become bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldCoding {
    /// As literals, which the dynamic table gets too.
    Literals,
    /// As the indexes that the table has after a request with the same fields as literals.
    Indexes,
}

impl FieldClient {
    pub(super) fn connect(address: SocketAddr) -> FieldClient {
        let mut client = FieldClient {
            stream: connected(address),
            decoder: HpackDecoder::new(),
            received: Vec::new(),
            next_stream: 1,
            answers: BTreeMap::new(),
            has_ended: false,
        };
        client.send(&[&PREFACE[..], &frame(FrameType::Settings, 0, 0, b"")].concat());
        client
    }

    /// Sends a request, and reads what the server answers on its stream. `trailers`: as literals.
    pub(super) fn ask(
        &mut self,
        fields: &[RawField<'_>],
        coding: FieldCoding,
        parts: &[&str],
        trailers: &[RawField<'_>],
    ) -> Http2Answer {
        let stream = self.next_stream;
        self.next_stream += 2;
        let block = match coding {
            FieldCoding::Literals => literals(fields),
            // The first one after the 61 of the static table is the last that was added.
            FieldCoding::Indexes => (0..fields.len()).rev().map(|at| 0x80 | (62 + at) as u8).collect(),
        };
        let end = |is_last: bool| if is_last { FrameFlags::END_STREAM.0 } else { 0 };
        let has_trailers = !trailers.is_empty();
        let ends = end(parts.is_empty() && !has_trailers) | FrameFlags::END_HEADERS.0;
        let mut wire = frame(FrameType::Headers, ends, stream, &block);
        for (index, part) in parts.iter().enumerate() {
            let ends = end(index + 1 == parts.len() && !has_trailers);
            wire.extend(frame(FrameType::Data, ends, stream, part.as_bytes()));
        }
        if has_trailers {
            let ends = FrameFlags::END_STREAM.0 | FrameFlags::END_HEADERS.0;
            wire.extend(frame(FrameType::Headers, ends, stream, &literals(trailers)));
        }
        self.send(&wire);
        loop {
            let answer = self.answers.get(&stream).cloned().unwrap_or_default();
            if answer.is_complete || answer.is_reset || self.has_ended {
                return answer;
            }
            self.read_frame();
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    fn send(&mut self, bytes: &[u8]) {
        // Fails if the server has closed the connection.
        let _ = self.stream.write_all(bytes);
    }

    fn read_frame(&mut self) {
        let Some(header) = self.bytes(FRAME_HEADER_LEN).and_then(|bytes| FrameHeader::decode(&bytes)) else {
            self.has_ended = true;
            return;
        };
        let Some(payload) = self.bytes(header.len as usize) else {
            self.has_ended = true;
            return;
        };
        let answer = self.answers.entry(header.stream).or_default();
        match FrameType::from_number(header.type_number).expect("a known type") {
            FrameType::Settings if !header.flags.has(FrameFlags::ACK) => {
                self.send(&frame(FrameType::Settings, FrameFlags::ACK.0, 0, b""));
            }
            FrameType::Headers => {
                let (mut section, mut bytes) = (FieldSection::new(), [0; SECTION_SIZE_MAX]);
                self.decoder.decode(&payload, true, &mut section, &mut bytes).expect("a valid block");
                let status = section.iter(&bytes).find(|(name, _)| *name == b":status");
                let status = status.and_then(|(_, value)| str::from_utf8(value).ok()?.parse().ok());
                answer.status = status.filter(|status| *status >= 200).or(answer.status);
                answer.is_complete |= header.flags.has(FrameFlags::END_STREAM);
            }
            FrameType::Data => {
                answer.content.extend(payload);
                answer.is_complete |= header.flags.has(FrameFlags::END_STREAM);
            }
            // A response may be complete before its request.
            FrameType::RstStream => answer.is_reset |= !answer.is_complete,
            FrameType::GoAway => self.has_ended = true,
            _ => {}
        }
    }

    /// Reads this many bytes. `None`: the connection ends before.
    fn bytes(&mut self, len: usize) -> Option<Vec<u8>> {
        let mut block = [0; 16 * 1024];
        while self.received.len() < len {
            match self.stream.read(&mut block) {
                Ok(0) => return None,
                Ok(read) => self.received.extend(&block[..read]),
                Err(error) if crate::common::is_disconnect(&error) => return None,
                Err(error) => panic!("no frame: {error}"),
            }
        }
        Some(self.received.drain(..len).collect())
    }
}

fn frame(kind: FrameType, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let header = FrameHeader::new(kind, FrameFlags(flags), stream, payload.len() as u32);
    [&header.encode()[..], payload].concat()
}

/// Returns literals with incremental indexing and new names: RFC 7541, section 6.2.1. Names keep their case.
fn literals(fields: &[RawField<'_>]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0x40);
        for text in [name, value] {
            // RFC 7541, section 5.1, with a prefix of 7 bits.
            match text.len().checked_sub(127) {
                None => block.push(text.len() as u8),
                Some(mut rest) => {
                    block.push(127);
                    while rest >= 128 {
                        block.push(rest as u8 | 128);
                        rest >>= 7;
                    }
                    block.push(rest as u8);
                }
            }
            block.extend(text.as_bytes());
        }
    }
    block
}
