//! The frames that a server sends, as arrays of their length. RFC 9113, section 6.
//!
//! The frames with content or fields are headers here: [`data_header`], [`headers_header`], [`continuation_header`]; their payload follows from
//! wherever it lies. [`write_settings`](super::write_settings) and [`SETTINGS_ACK`](super::SETTINGS_ACK) write settings.

use super::frame_header::{FRAME_HEADER_LEN, FrameFlags, FrameHeader, FrameType, MAX_31_BITS};
use super::{CONNECTION, ErrorCode};

/// The length of a frame of RST_STREAM or WINDOW_UPDATE in bytes.
pub const SHORT_FRAME_LEN: usize = FRAME_HEADER_LEN + 4;

/// The length of a frame of PING, or of GOAWAY without debug data, in bytes.
pub const LONG_FRAME_LEN: usize = FRAME_HEADER_LEN + 8;

/// Returns the header of a frame of DATA with `len` bytes of content. `ends_stream`: the response ends with it.
#[must_use]
pub fn data_header(stream: u32, len: u32, ends_stream: bool) -> [u8; FRAME_HEADER_LEN] {
    let flags = if ends_stream { FrameFlags::END_STREAM } else { FrameFlags::NONE };
    FrameHeader::new(FrameType::Data, flags, stream, len).encode()
}

/// Returns the header of a frame of HEADERS with the first `len` bytes of a field block. `ends_block`: they are all of it. `ends_stream`: the
/// response ends with its fields.
#[must_use]
pub fn headers_header(stream: u32, len: u32, ends_block: bool, ends_stream: bool) -> [u8; FRAME_HEADER_LEN] {
    let of_block = if ends_block { FrameFlags::END_HEADERS } else { FrameFlags::NONE };
    let of_stream = if ends_stream { FrameFlags::END_STREAM } else { FrameFlags::NONE };
    FrameHeader::new(FrameType::Headers, of_block.with(of_stream), stream, len).encode()
}

/// Returns the header of a frame of CONTINUATION with the next `len` bytes of a field block. `ends_block`: they are the last.
#[must_use]
pub fn continuation_header(stream: u32, len: u32, ends_block: bool) -> [u8; FRAME_HEADER_LEN] {
    let flags = if ends_block { FrameFlags::END_HEADERS } else { FrameFlags::NONE };
    FrameHeader::new(FrameType::Continuation, flags, stream, len).encode()
}

/// Returns a frame that ends a stream.
#[must_use]
pub fn rst_stream(stream: u32, code: ErrorCode) -> [u8; SHORT_FRAME_LEN] {
    short_frame(FrameType::RstStream, stream, code.0)
}

/// Returns a frame that makes room for `increment` more bytes on a stream, or on the connection.
///
/// # Panics
///
/// Panics if the increment is not between 1 and [`MAX_31_BITS`].
#[must_use]
pub fn window_update(stream: u32, increment: u32) -> [u8; SHORT_FRAME_LEN] {
    assert!((1..=MAX_31_BITS).contains(&increment), "the increment is valid");
    short_frame(FrameType::WindowUpdate, stream, increment)
}

/// Returns the acknowledgement of a PING with these bytes.
#[must_use]
pub fn ping_ack(data: [u8; 8]) -> [u8; LONG_FRAME_LEN] {
    long_frame(FrameType::Ping, FrameFlags::ACK, data)
}

/// Returns a frame that ends the connection. `last_stream`: the last stream of the client that the server has processed, or may process.
#[must_use]
pub fn go_away(last_stream: u32, code: ErrorCode) -> [u8; LONG_FRAME_LEN] {
    assert!(last_stream <= MAX_31_BITS, "a stream has a number of 31 bits");
    let ([a, b, c, d], [e, f, g, h]) = (last_stream.to_be_bytes(), code.0.to_be_bytes());
    long_frame(FrameType::GoAway, FrameFlags::NONE, [a, b, c, d, e, f, g, h])
}

fn short_frame(frame_type: FrameType, stream: u32, value: u32) -> [u8; SHORT_FRAME_LEN] {
    let mut frame = [0; SHORT_FRAME_LEN];
    let (header, payload) = frame.split_at_mut(FRAME_HEADER_LEN);
    header.copy_from_slice(&FrameHeader::new(frame_type, FrameFlags::NONE, stream, 4).encode());
    payload.copy_from_slice(&value.to_be_bytes());
    frame
}

fn long_frame(frame_type: FrameType, flags: FrameFlags, data: [u8; 8]) -> [u8; LONG_FRAME_LEN] {
    let mut frame = [0; LONG_FRAME_LEN];
    let (header, payload) = frame.split_at_mut(FRAME_HEADER_LEN);
    header.copy_from_slice(&FrameHeader::new(frame_type, flags, CONNECTION, 8).encode());
    payload.copy_from_slice(&data);
    frame
}
