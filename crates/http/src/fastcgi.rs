//! The records of FastCGI 1.0, as a web server sends and receives them. FastCGI Specification, version 1.0, 29 April 1996.
//!
//! ```text
//! server ── BeginRequest, Params …, Params of length 0, Stdin …, Stdin of length 0 ─▶ application
//!        ◀─ Stdout …, Stderr …, EndRequest ──────────────────────────────────────────
//!
//! record:  version  kind  request  content  padding  reserved │ content │ padding
//!             1      1       2        2        1        1
//! ```
//!
//! A connection carries one request at a time: multiplexing is optional, and applications such as PHP-FPM do not support it. The decoder knows
//! nothing of the content: that of Stdout is a response of [CGI](crate::cgi).

use core::ops::Range;

/// The length of the header of a record. Section 8, `FCGI_HEADER_LEN`.
pub const FASTCGI_HEADER_LEN: usize = 8;

/// The maximum length of the content of a record: its field has two bytes. Section 3.3.
pub const FASTCGI_CONTENT_LEN_MAX: usize = 0xffff;

/// The number of each request: there is one at a time on a connection, and 0 is for records that belong to none. Section 3.3.
pub const FASTCGI_REQUEST: u16 = 1;

/// Section 8, `FCGI_VERSION_1`.
const VERSION: u8 = 1;

/// The length of the content of BeginRequest and EndRequest. Sections 5.1 and 5.5.
const BODY_LEN: usize = 8;

/// The length of a record that begins a request.
pub const FASTCGI_BEGIN_LEN: usize = FASTCGI_HEADER_LEN + BODY_LEN;

/// The kind of a record. Section 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FastCgiKind {
    /// A request begins. Section 5.1.
    BeginRequest = 1,
    /// A request is aborted. Section 5.4.
    AbortRequest = 2,
    /// A request has ended. Section 5.5.
    EndRequest = 3,
    /// A part of the parameters. Section 5.2.
    Params = 4,
    /// A part of the content of the request. Section 5.3.
    Stdin = 5,
    /// A part of the response. Section 5.3.
    Stdout = 6,
    /// A part of the messages about errors. Section 5.3.
    Stderr = 7,
}

/// The header of a record. Section 3.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastCgiHeader {
    /// The number of the kind. Those without a [`FastCgiKind`] are invalid between a server and an application that it has not asked for values.
    pub kind: u8,
    /// The request that the record belongs to. 0: none.
    pub request: u16,
    /// The length of the content in bytes.
    pub content_len: u16,
    /// The length of the padding behind the content in bytes.
    pub padding_len: u8,
}

impl FastCgiHeader {
    /// Returns the header of a record of the request, without padding.
    #[must_use]
    pub fn new(kind: FastCgiKind, content_len: u16) -> FastCgiHeader {
        FastCgiHeader { kind: kind as u8, request: FASTCGI_REQUEST, content_len, padding_len: 0 }
    }

    /// Returns the bytes of the header.
    #[must_use]
    pub fn encode(&self) -> [u8; FASTCGI_HEADER_LEN] {
        let [request_high, request_low] = self.request.to_be_bytes();
        let [content_high, content_low] = self.content_len.to_be_bytes();
        [VERSION, self.kind, request_high, request_low, content_high, content_low, self.padding_len, 0]
    }

    /// Decodes the header at the front of `bytes`. `None`: more bytes are needed.
    ///
    /// # Errors
    /// The version is not 1.
    pub fn decode(bytes: &[u8]) -> Result<Option<FastCgiHeader>, FastCgiError> {
        if bytes.first().is_some_and(|&version| version != VERSION) {
            return Err(FastCgiError::Version);
        }
        let Some(&[_, kind, request_high, request_low, content_high, content_low, padding_len, _]) =
            bytes.first_chunk::<FASTCGI_HEADER_LEN>()
        else {
            return Ok(None);
        };
        Ok(Some(FastCgiHeader {
            kind,
            request: u16::from_be_bytes([request_high, request_low]),
            content_len: u16::from_be_bytes([content_high, content_low]),
            padding_len,
        }))
    }
}

/// Returns the record that begins a request for a response. Section 5.1. `keeps_connection`: the application is not to close the connection
/// after it.
#[must_use]
pub fn begin_request(keeps_connection: bool) -> [u8; FASTCGI_BEGIN_LEN] {
    /// Section 8, `FCGI_RESPONDER`.
    const RESPONDER: u8 = 1;
    /// Section 8, `FCGI_KEEP_CONN`.
    const KEEP_CONNECTION: u8 = 1;
    let flags = if keeps_connection { KEEP_CONNECTION } else { 0 };
    let mut record = [0; FASTCGI_BEGIN_LEN];
    let (header, body) = record.split_at_mut(FASTCGI_HEADER_LEN);
    header.copy_from_slice(&FastCgiHeader::new(FastCgiKind::BeginRequest, BODY_LEN as u16).encode());
    body.copy_from_slice(&[0, RESPONDER, flags, 0, 0, 0, 0, 0]);
    record
}

/// Returns the record of length 0 that ends a stream: Params or Stdin. Section 3.3.
#[must_use]
pub fn end_of_stream(kind: FastCgiKind) -> [u8; FASTCGI_HEADER_LEN] {
    FastCgiHeader::new(kind, 0).encode()
}

/// The bytes of the length of a name or a value: one or four of them. Section 3.4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastCgiLength {
    bytes: [u8; 4],
    count: u8,
}

impl FastCgiLength {
    /// Encodes a length. `None`: it does not fit in 31 bits.
    #[must_use]
    pub fn new(len: usize) -> Option<FastCgiLength> {
        /// The bit that tells a length of four bytes.
        const LONG: u32 = 1 << 31;
        let len = u32::try_from(len).ok().filter(|len| *len < LONG)?;
        Some(match u8::try_from(len) {
            Ok(short @ ..=127) => FastCgiLength { bytes: [short, 0, 0, 0], count: 1 },
            _ => FastCgiLength { bytes: (len | LONG).to_be_bytes(), count: 4 },
        })
    }

    /// Returns the bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.count)]
    }
}

/// How an application has ended a request. Section 5.5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastCgiEnd {
    /// The exit status that the application would have as a program of CGI.
    pub app_status: u32,
    /// Whether it has responded at all.
    pub protocol_status: FastCgiProtocolStatus,
}

/// Whether an application has responded. Section 5.5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FastCgiProtocolStatus {
    /// It has.
    RequestComplete,
    /// It handles one request at a time on a connection.
    CannotMultiplex,
    /// It has no room for the request.
    Overloaded,
    /// It does not make responses, but something else.
    UnknownRole,
}

impl FastCgiEnd {
    /// Decodes the content of EndRequest.
    ///
    /// # Errors
    /// Its length or the protocol status is none of the specification.
    pub fn decode(content: &[u8]) -> Result<FastCgiEnd, FastCgiError> {
        let &[a, b, c, d, protocol_status, _, _, _] = content else { return Err(FastCgiError::End) };
        Ok(FastCgiEnd {
            app_status: u32::from_be_bytes([a, b, c, d]),
            protocol_status: match protocol_status {
                0 => FastCgiProtocolStatus::RequestComplete,
                1 => FastCgiProtocolStatus::CannotMultiplex,
                2 => FastCgiProtocolStatus::Overloaded,
                3 => FastCgiProtocolStatus::UnknownRole,
                _ => return Err(FastCgiError::End),
            },
        })
    }
}

/// The reason to refuse the records of an application. The server cannot tell what follows, so it must close the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FastCgiError {
    /// The version of a record is not 1.
    Version,
    /// A record is of a kind that no application sends on its own.
    Kind,
    /// A record belongs to another request.
    Request,
    /// The content of EndRequest is invalid.
    End,
    /// A record follows EndRequest.
    AfterEnd,
}

/// Decodes the records that an application sends for one request. Finds content where it lies on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FastCgiDecoder {
    state: DecoderState,
}

/// What the decoder expects next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DecoderState {
    Header,
    /// The content of Stdout or Stderr, then padding.
    Content {
        is_error: bool,
        left: u16,
        padding_len: u8,
    },
    Padding {
        left: u8,
    },
    /// The content of EndRequest with its padding.
    End {
        padding_len: u8,
    },
    /// Nothing.
    Done,
}

/// The result of one call to [`FastCgiDecoder::decode`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FastCgiDecoded {
    /// How many bytes at the front of the wire are used: headers and padding.
    pub used: usize,
    /// What follows them.
    pub part: FastCgiPart,
}

/// What lies behind the header of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FastCgiPart {
    /// More bytes are needed.
    Incomplete,
    /// Content of Stdout, not empty.
    Stdout(Range<usize>),
    /// Content of Stderr, not empty.
    Stderr(Range<usize>),
    /// EndRequest with its padding.
    End(Range<usize>, FastCgiEnd),
}

impl Default for FastCgiDecoder {
    fn default() -> FastCgiDecoder {
        FastCgiDecoder { state: DecoderState::Header }
    }
}

impl FastCgiDecoder {
    /// Decodes the start of `wire`. The caller [takes](FastCgiDecoder::take) as much of the part as it likes, and calls again with the bytes
    /// that are neither used nor taken, followed by newly received bytes. The content does not depend on how the input is split.
    ///
    /// # Errors
    /// A record is invalid.
    pub fn decode(&mut self, wire: &[u8]) -> Result<FastCgiDecoded, FastCgiError> {
        let mut used = 0;
        loop {
            let rest = &wire[used..];
            let part = match self.state {
                DecoderState::Header => match FastCgiHeader::decode(rest)? {
                    None => FastCgiPart::Incomplete,
                    Some(header) => {
                        self.state = DecoderState::behind(header)?;
                        used += FASTCGI_HEADER_LEN;
                        continue;
                    }
                },
                DecoderState::Content { left: 0, padding_len: left, .. } => {
                    self.state = DecoderState::Padding { left };
                    continue;
                }
                DecoderState::Content { is_error, left, .. } => match rest.len().min(left.into()) {
                    0 => FastCgiPart::Incomplete,
                    len if is_error => FastCgiPart::Stderr(used..used + len),
                    len => FastCgiPart::Stdout(used..used + len),
                },
                DecoderState::Padding { left } => {
                    let len = rest.len().min(left.into());
                    used += len;
                    let left = left - len as u8;
                    if left == 0 {
                        self.state = DecoderState::Header;
                        continue;
                    }
                    self.state = DecoderState::Padding { left };
                    FastCgiPart::Incomplete
                }
                DecoderState::End { padding_len } => match rest.get(..BODY_LEN + usize::from(padding_len)) {
                    None => FastCgiPart::Incomplete,
                    Some(record) => {
                        let end = FastCgiEnd::decode(&record[..BODY_LEN])?;
                        FastCgiPart::End(used..used + record.len(), end)
                    }
                },
                DecoderState::Done if rest.is_empty() => FastCgiPart::Incomplete,
                DecoderState::Done => return Err(FastCgiError::AfterEnd),
            };
            return Ok(FastCgiDecoded { used, part });
        }
    }

    /// Takes the first `len` bytes of the part that was decoded last; all of them, if it is the end.
    ///
    /// # Panics
    /// Panics if the part is shorter.
    pub fn take(&mut self, len: usize) {
        match &mut self.state {
            DecoderState::Content { left, .. } if len <= usize::from(*left) => *left -= len as u16,
            DecoderState::End { .. } => self.state = DecoderState::Done,
            _ => assert_eq!(len, 0, "a part has at least as many bytes as are taken"),
        }
    }

    /// Returns whether the end was taken.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.state == DecoderState::Done
    }
}

impl DecoderState {
    /// Returns what follows a header.
    fn behind(
        FastCgiHeader { kind, request, content_len, padding_len }: FastCgiHeader,
    ) -> Result<DecoderState, FastCgiError> {
        const STDOUT: u8 = FastCgiKind::Stdout as u8;
        const STDERR: u8 = FastCgiKind::Stderr as u8;
        const END: u8 = FastCgiKind::EndRequest as u8;
        let state = match kind {
            STDOUT | STDERR => {
                DecoderState::Content { is_error: kind == STDERR, left: content_len, padding_len }
            }
            END if usize::from(content_len) == BODY_LEN => DecoderState::End { padding_len },
            END => return Err(FastCgiError::End),
            _ => return Err(FastCgiError::Kind),
        };
        if request == FASTCGI_REQUEST { Ok(state) } else { Err(FastCgiError::Request) }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::{string::String, vec::Vec};

    #[test]
    #[rustfmt::skip]
    fn headers_are_encoded_and_decoded() {
        let cases: &[(&str, FastCgiHeader, [u8; 8])] = &[
            // case      header                                                                             bytes
            ("params",   FastCgiHeader::new(FastCgiKind::Params, 0x0102),                                   [1, 4, 0, 1, 1, 2, 0, 0]),
            ("stdin",    FastCgiHeader::new(FastCgiKind::Stdin, 0xffff),                                    [1, 5, 0, 1, 255, 255, 0, 0]),
            ("abort",    FastCgiHeader::new(FastCgiKind::AbortRequest, 0),                                  [1, 2, 0, 1, 0, 0, 0, 0]),
            ("padded",   FastCgiHeader { kind: 6, request: 0x0203, content_len: 1, padding_len: 7 },        [1, 6, 2, 3, 0, 1, 7, 0]),
        ];
        for (name, header, bytes) in cases {
            assert_eq!(header.encode(), *bytes, "{name}");
            assert_eq!(FastCgiHeader::decode(bytes), Ok(Some(*header)), "{name}");
            for cut in 0..bytes.len() {
                assert_eq!(FastCgiHeader::decode(&bytes[..cut]), Ok(None), "{name} at {cut}");
            }
        }
        assert_eq!(FastCgiHeader::decode(&[2]), Err(FastCgiError::Version));
        assert_eq!(end_of_stream(FastCgiKind::Stdin), [1, 5, 0, 1, 0, 0, 0, 0]);
        assert_eq!(begin_request(true), [1, 1, 0, 1, 0, 8, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0]);
        assert_eq!(begin_request(false), [1, 1, 0, 1, 0, 8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    #[rustfmt::skip]
    fn lengths_have_one_or_four_bytes() {
        let cases: &[(usize, Option<&[u8]>)] = &[
            (0,             Some(&[0])),
            (127,           Some(&[127])),
            (128,           Some(&[0x80, 0, 0, 128])),
            (255,           Some(&[0x80, 0, 0, 255])),
            (0x0102_0304,   Some(&[0x81, 2, 3, 4])),
            (0x7fff_ffff,   Some(&[255, 255, 255, 255])),
            (0x8000_0000,   None),
            (usize::MAX,    None),
        ];
        for (len, want) in cases {
            let found = FastCgiLength::new(*len);
            assert_eq!(found.as_ref().map(FastCgiLength::bytes), *want, "{len}");
        }
    }

    /// The content of Stdout and Stderr, and the end.
    type DecodedStreams = Result<(String, String, Option<FastCgiEnd>), FastCgiError>;

    fn record(kind: u8, content: &[u8], padding_len: u8) -> Vec<u8> {
        let header = FastCgiHeader { kind, request: 1, content_len: content.len() as u16, padding_len };
        [&header.encode()[..], content, &[0xff; 255][..padding_len.into()]].concat()
    }

    fn decode(wire: &[u8], cut: usize, take_max: usize) -> DecodedStreams {
        let (mut decoder, mut arrived, mut at) = (FastCgiDecoder::default(), 0, 0);
        let (mut stdout, mut stderr, mut end) = (Vec::new(), Vec::new(), None);
        loop {
            let bytes = &wire[at..arrived];
            let FastCgiDecoded { used, part } = decoder.decode(bytes)?;
            at += used;
            let len = match part {
                FastCgiPart::Incomplete if arrived == wire.len() => break,
                FastCgiPart::Incomplete => {
                    arrived = wire.len().min(arrived + cut);
                    continue;
                }
                FastCgiPart::Stdout(range) => {
                    let len = range.len().min(take_max);
                    stdout.extend_from_slice(&bytes[range][..len]);
                    len
                }
                FastCgiPart::Stderr(range) => {
                    let len = range.len().min(take_max);
                    stderr.extend_from_slice(&bytes[range][..len]);
                    len
                }
                FastCgiPart::End(range, found) => {
                    end = Some(found);
                    range.len()
                }
            };
            decoder.take(len);
            at += len;
            assert_eq!(decoder.is_done(), end.is_some());
        }
        let text = |bytes| String::from_utf8(bytes).expect("text");
        Ok((text(stdout), text(stderr), end))
    }

    #[test]
    #[rustfmt::skip]
    fn responses_are_decoded_at_every_cut() {
        let end = record(3, &[0; 8], 0);
        let status = |app_status, protocol_status| Some(FastCgiEnd { app_status, protocol_status });
        let complete = status(0, FastCgiProtocolStatus::RequestComplete);
        let ok = |stdout: &str, stderr: &str, end| Ok((stdout.into(), stderr.into(), end));
        let of_other = FastCgiHeader { request: 2, ..FastCgiHeader::new(FastCgiKind::Stdout, 0) }.encode();
        let of_none = FastCgiHeader { kind: 11, request: 0, content_len: 0, padding_len: 0 }.encode();
        let cases: &[(&str, Vec<u8>, DecodedStreams)] = &[
            // case                  records                                                                  stdout, stderr, end
            ("nothing",              Vec::new(),                                                              ok("", "", None)),
            ("output",               [record(6, b"hello", 3), end.clone()].concat(),                          ok("hello", "", complete)),
            ("in two records",       [record(6, b"hel", 0), record(6, b"lo", 255), end.clone()].concat(),     ok("hello", "", complete)),
            ("streams that end",     [record(6, b"a", 7), record(6, b"", 0), record(7, b"", 8), end.clone()].concat(), ok("a", "", complete)),
            ("errors between",       [record(6, b"a", 0), record(7, b"oh", 1), record(6, b"b", 0), end.clone()].concat(), ok("ab", "oh", complete)),
            ("no end",               record(6, b"hello", 0),                                                  ok("hello", "", None)),
            ("exit status",          record(3, &[0, 0, 1, 2, 0, 0, 0, 0], 9),                                 ok("", "", status(258, FastCgiProtocolStatus::RequestComplete))),
            ("cannot multiplex",     record(3, &[0, 0, 0, 0, 1, 0, 0, 0], 0),                                 ok("", "", status(0, FastCgiProtocolStatus::CannotMultiplex))),
            ("overloaded",           record(3, &[0, 0, 0, 0, 2, 0, 0, 0], 0),                                 ok("", "", status(0, FastCgiProtocolStatus::Overloaded))),
            ("unknown role",         record(3, &[0, 0, 0, 0, 3, 0, 0, 0], 0),                                 ok("", "", status(0, FastCgiProtocolStatus::UnknownRole))),
            ("unknown status",       record(3, &[0, 0, 0, 0, 4, 0, 0, 0], 0),                                 Err(FastCgiError::End)),
            ("end too short",        record(3, &[0; 7], 1),                                                   Err(FastCgiError::End)),
            ("end too long",         record(3, &[0; 9], 0),                                                   Err(FastCgiError::End)),
            ("after the end",        [&end[..], &record(6, b"a", 0)].concat(),                                Err(FastCgiError::AfterEnd)),
            ("two ends",             [&end[..], &end].concat(),                                               Err(FastCgiError::AfterEnd)),
            ("another version",      b"HTTP/1.1 400 Bad Request\r\n".to_vec(),                                Err(FastCgiError::Version)),
            ("another request",      of_other.to_vec(),                                                       Err(FastCgiError::Request)),
            ("of no request",        of_none.to_vec(),                                                        Err(FastCgiError::Kind)),
            ("a kind of the server", record(5, b"a", 0),                                                      Err(FastCgiError::Kind)),
        ];
        for (name, wire, want) in cases {
            for cut in 1..=wire.len().max(1) {
                for take_max in [1, 2, usize::MAX] {
                    assert_eq!(decode(wire, cut, take_max), *want, "{name}, {cut} bytes at a time");
                }
            }
        }
    }

    #[test]
    fn record_has_the_longest_content() {
        let content = [b'x'; FASTCGI_CONTENT_LEN_MAX];
        let wire = [record(6, &content, 1), record(3, &[0; 8], 0)].concat();
        for cut in [1_000, 65_535, 100_000] {
            assert_eq!(decode(&wire, cut, usize::MAX).unwrap().0.len(), content.len(), "{cut}");
        }
    }
}
