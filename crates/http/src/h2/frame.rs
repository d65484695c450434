//! The frames that a client sends, checked by themselves. RFC 9113, section 6.
//!
//! ```text
//! nine bytes ─ FrameHeader::decode ─▶ header ─ check ─▶ payload ─ Frame::parse ─▶ Frame
//!                                               └ DATA, HEADERS: FrameParts::decode, before the payload is complete
//! ```
//!
//! The module does not know the state of a connection: it cannot tell whether a stream may have a frame.

use core::ops::Range;

use super::frame_header::{FrameFlags, FrameHeader, FrameType, MAX_31_BITS};
use super::{CONNECTION, ErrorCode, FRAME_PAYLOAD_LEN_MAX, FrameError, Priority, SettingsPayload};

/// A frame from a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// Content of a request. The flow-control windows count the whole payload: RFC 9113, section 6.1.
    Data {
        /// The content, without padding.
        content: &'a [u8],
        /// Whether the request ends.
        ends_stream: bool,
    },
    /// The start of a field block. It may have a priority of RFC 7540, which has no effect: RFC 9113, section 5.3.2.
    Headers {
        /// The part of the block.
        block: &'a [u8],
        /// Whether the request ends with its fields.
        ends_stream: bool,
        /// Whether the block is complete. If not, the next frame is [`Frame::Continuation`].
        ends_block: bool,
    },
    /// A priority of RFC 7540, to be ignored: RFC 9113, section 5.3.2.
    Priority,
    /// The end of a stream.
    RstStream(ErrorCode),
    /// Settings of the client.
    Settings(SettingsPayload<'a>),
    /// The client has applied the settings of the server.
    SettingsAck,
    /// A sign of life, to be [acknowledged](super::ping_ack) with the same bytes.
    Ping([u8; 8]),
    /// The acknowledgement of a PING of the server.
    PingAck([u8; 8]),
    /// The end of a connection: the client accepts no new streams of the server.
    GoAway {
        /// The last stream of the server that the client has processed.
        last_stream: u32,
        /// The reason.
        code: ErrorCode,
    },
    /// Room for more content, in bytes: 1 to [`MAX_31_BITS`].
    WindowUpdate(u32),
    /// The continuation of a field block.
    Continuation {
        /// The part of the block.
        block: &'a [u8],
        /// Whether the block is complete.
        ends_block: bool,
    },
    /// The priority of a response.
    PriorityUpdate {
        /// The stream of the response: not 0.
        stream: u32,
        /// The priority.
        priority: Priority,
    },
    /// A frame of an unknown type, to be ignored: RFC 9113, section 4.1.
    Unknown,
}

impl FrameHeader {
    /// Checks the length and the stream, before the payload arrives.
    ///
    /// # Errors
    ///
    /// Returns the first rule that the header breaks. If the type is unknown, the only rule is the maximum length.
    pub fn check(&self) -> Result<(), FrameError> {
        if self.len as usize > FRAME_PAYLOAD_LEN_MAX {
            return Err(FrameError::TooLong);
        }
        let Some(frame_type) = FrameType::from_number(self.type_number) else { return Ok(()) };
        match frame_type {
            FrameType::Data | FrameType::Headers | FrameType::Continuation => {
                self.check_on_stream()?;
                FrameParts::check(self)
            }
            FrameType::Priority => {
                self.check_on_stream()?;
                if self.len == 5 { Ok(()) } else { Err(FrameError::StreamLength) }
            }
            FrameType::RstStream => {
                self.check_on_stream()?;
                self.check_len(self.len == 4)
            }
            FrameType::Settings => {
                self.check_on_connection()?;
                self.check_len(if self.is_ack() { self.len == 0 } else { self.len.is_multiple_of(6) })
            }
            FrameType::PushPromise => Err(FrameError::PushPromise),
            FrameType::Ping => {
                self.check_on_connection()?;
                self.check_len(self.len == 8)
            }
            FrameType::GoAway => {
                self.check_on_connection()?;
                self.check_len(self.len >= 8)
            }
            FrameType::WindowUpdate => self.check_len(self.len == 4),
            FrameType::PriorityUpdate => {
                self.check_on_connection()?;
                self.check_len(self.len >= 4)
            }
        }
    }

    fn check_on_stream(&self) -> Result<(), FrameError> {
        if self.stream == CONNECTION { Err(FrameError::OnConnection) } else { Ok(()) }
    }

    fn check_on_connection(&self) -> Result<(), FrameError> {
        if self.stream == CONNECTION { Ok(()) } else { Err(FrameError::OnStream) }
    }

    fn check_len(&self, is_valid: bool) -> Result<(), FrameError> {
        if is_valid { Ok(()) } else { Err(FrameError::Length) }
    }

    /// Returns whether a frame of SETTINGS or PING is an acknowledgement.
    fn is_ack(&self) -> bool {
        self.flags.has(FrameFlags::ACK)
    }
}

/// The parts of the payload of DATA, HEADERS or CONTINUATION: known as soon as its first byte has arrived, so content can leave before all of
/// it is there. RFC 9113, sections 6.1, 6.2 and 6.10.
///
/// ```text
/// length of the padding │ priority │ content or field block │ padding
///     1, if PADDED      │ 5, if PRIORITY
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameParts {
    /// The length in bytes of what comes before the content: 0, 1, 5 or 6.
    pub prefix_len: u8,
    /// The length of the content or of the part of the field block in bytes.
    pub content_len: u16,
    /// The length of the padding in bytes.
    pub padding_len: u8,
}

impl FrameParts {
    /// Decodes the parts of a payload of which the bytes `received` have arrived. `header`: that of DATA, HEADERS or CONTINUATION, after
    /// [`FrameHeader::check`]. `None`: the first byte is needed.
    ///
    /// # Errors
    ///
    /// Returns an error if the padding is longer than the rest of the payload, or the payload shorter than its prefix.
    #[inline]
    pub fn decode(header: &FrameHeader, received: &[u8]) -> Result<Option<FrameParts>, FrameError> {
        FrameParts::check(header)?;
        let prefix_len = FrameParts::prefix_len(header);
        let padding_len = match received.first() {
            _ if !FrameParts::is_padded(header) => 0,
            Some(&len) => len,
            None => return Ok(None),
        };
        let rest = (header.len as usize).min(FRAME_PAYLOAD_LEN_MAX) - usize::from(prefix_len);
        let content_len = rest.checked_sub(padding_len.into()).ok_or(FrameError::Padding)? as u16;
        Ok(Some(FrameParts { prefix_len, content_len, padding_len }))
    }

    /// Returns where the content lies in the payload.
    #[inline]
    #[must_use]
    pub fn content(&self) -> Range<usize> {
        let at = usize::from(self.prefix_len);
        at..at + usize::from(self.content_len)
    }

    /// Checks that the payload is as long as its prefix.
    fn check(header: &FrameHeader) -> Result<(), FrameError> {
        match header.len >= FrameParts::prefix_len(header).into() {
            true => Ok(()),
            false if header.type_number == FrameType::Data as u8 => Err(FrameError::StreamLength),
            false => Err(FrameError::Length),
        }
    }

    fn prefix_len(header: &FrameHeader) -> u8 {
        let has_priority =
            header.type_number == FrameType::Headers as u8 && header.flags.has(FrameFlags::PRIORITY);
        u8::from(FrameParts::is_padded(header)) + if has_priority { 5 } else { 0 }
    }

    fn is_padded(header: &FrameHeader) -> bool {
        header.type_number != FrameType::Continuation as u8 && header.flags.has(FrameFlags::PADDED)
    }
}

impl<'a> Frame<'a> {
    /// Parses a frame with its whole payload.
    ///
    /// # Errors
    ///
    /// Returns the first rule that the frame breaks: of the header, then of the payload.
    ///
    /// # Panics
    ///
    /// Panics if the payload has another length than the header says, and the header passes its check.
    ///
    /// ```
    /// use tarpon_http::h2::{ErrorCode, Frame, FrameHeader};
    ///
    /// let wire = b"\0\0\x04\x03\0\0\0\0\x05\0\0\0\x08";
    /// let header = FrameHeader::decode(wire).expect("nine bytes");
    /// assert_eq!(Frame::parse(&header, &wire[9..]), Ok(Frame::RstStream(ErrorCode::CANCEL)));
    /// ```
    pub fn parse(header: &FrameHeader, payload: &'a [u8]) -> Result<Frame<'a>, FrameError> {
        header.check()?;
        assert_eq!(payload.len(), header.len as usize, "the payload is complete");
        let Some(frame_type) = FrameType::from_number(header.type_number) else { return Ok(Frame::Unknown) };
        let (ends_stream, ends_block) =
            (header.flags.has(FrameFlags::END_STREAM), header.flags.has(FrameFlags::END_HEADERS));
        let first_word = || payload.first_chunk().map_or(0, |word| u32::from_be_bytes(*word));
        let content = || {
            let parts = FrameParts::decode(header, payload)?.ok_or(FrameError::Length)?;
            Ok(&payload[parts.content()])
        };
        Ok(match frame_type {
            FrameType::Data => Frame::Data { content: content()?, ends_stream },
            FrameType::Headers => Frame::Headers { block: content()?, ends_stream, ends_block },
            FrameType::Priority => Frame::Priority,
            FrameType::RstStream => Frame::RstStream(ErrorCode(first_word())),
            FrameType::Settings if header.is_ack() => Frame::SettingsAck,
            FrameType::Settings => Frame::Settings(SettingsPayload::parse(payload)?),
            FrameType::PushPromise => return Err(FrameError::PushPromise),
            FrameType::Ping => {
                let &data = payload.first_chunk().ok_or(FrameError::Length)?;
                if header.is_ack() { Frame::PingAck(data) } else { Frame::Ping(data) }
            }
            FrameType::GoAway => {
                let &[_, _, _, _, a, b, c, d] = payload.first_chunk().ok_or(FrameError::Length)?;
                let code = ErrorCode(u32::from_be_bytes([a, b, c, d]));
                Frame::GoAway { last_stream: first_word() & MAX_31_BITS, code }
            }
            FrameType::WindowUpdate => match first_word() & MAX_31_BITS {
                0 if header.stream == CONNECTION => return Err(FrameError::ConnectionIncrement),
                0 => return Err(FrameError::StreamIncrement),
                increment => Frame::WindowUpdate(increment),
            },
            FrameType::Continuation => Frame::Continuation { block: payload, ends_block },
            FrameType::PriorityUpdate => match first_word() & MAX_31_BITS {
                0 => return Err(FrameError::PrioritizedStream),
                stream => Frame::PriorityUpdate { stream, priority: Priority::parse(&payload[4..]) },
            },
        })
    }
}
