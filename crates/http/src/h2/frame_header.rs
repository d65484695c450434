//! The header of a frame. RFC 9113, section 4.1.
//!
//! ```text
//! length  type  flags  R, stream │ payload
//!   3      1      1        4
//! ```

/// The length of the header of a frame in bytes.
pub const FRAME_HEADER_LEN: usize = 9;

/// The maximum length of the payload of a frame that this server receives, in bytes: the initial and least value of
/// `SETTINGS_MAX_FRAME_SIZE`, so no client has to learn it. A longer one would only delay the frames that follow. RFC 9113, section 4.2.
pub const FRAME_PAYLOAD_LEN_MAX: usize = 16_384;

/// The largest number of a stream, and the largest window: 31 bits. RFC 9113, sections 5.1.1 and 6.9.1.
pub const MAX_31_BITS: u32 = 0x7fff_ffff;

/// The number of the connection itself, as a stream. RFC 9113, section 5.1.1.
pub const CONNECTION: u32 = 0;

/// The type of a frame. RFC 9113, section 6; RFC 9218, section 7.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameType {
    /// Content. RFC 9113, section 6.1.
    Data = 0x0,
    /// The start of a field block. RFC 9113, section 6.2.
    Headers = 0x1,
    /// A priority of RFC 7540, which has no effect any more. RFC 9113, section 6.3.
    Priority = 0x2,
    /// The end of a stream. RFC 9113, section 6.4.
    RstStream = 0x3,
    /// Settings, or their acknowledgement. RFC 9113, section 6.5.
    Settings = 0x4,
    /// A request that a server answers unasked. RFC 9113, section 6.6.
    PushPromise = 0x5,
    /// A sign of life, or its acknowledgement. RFC 9113, section 6.7.
    Ping = 0x6,
    /// The end of a connection. RFC 9113, section 6.8.
    GoAway = 0x7,
    /// Room for more content. RFC 9113, section 6.9.
    WindowUpdate = 0x8,
    /// The continuation of a field block. RFC 9113, section 6.10.
    Continuation = 0x9,
    /// The priority of a response. RFC 9218, section 7.1.
    PriorityUpdate = 0x10,
}

impl FrameType {
    /// Returns the type with this number. `None`: the frame must be ignored; RFC 9113, section 4.1.
    #[inline]
    #[must_use]
    pub fn from_number(number: u8) -> Option<FrameType> {
        Some(match number {
            0x0 => FrameType::Data,
            0x1 => FrameType::Headers,
            0x2 => FrameType::Priority,
            0x3 => FrameType::RstStream,
            0x4 => FrameType::Settings,
            0x5 => FrameType::PushPromise,
            0x6 => FrameType::Ping,
            0x7 => FrameType::GoAway,
            0x8 => FrameType::WindowUpdate,
            0x9 => FrameType::Continuation,
            0x10 => FrameType::PriorityUpdate,
            _ => return None,
        })
    }
}

/// The flags of a frame. Each type of frame defines its own, and ignores all others. RFC 9113, section 4.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameFlags(pub u8);

impl FrameFlags {
    /// No flags.
    pub const NONE: FrameFlags = FrameFlags(0);
    /// The frame, SETTINGS or PING, is an acknowledgement.
    pub const ACK: FrameFlags = FrameFlags(0x1);
    /// The sender sends no more on the stream of this frame, DATA or HEADERS, except CONTINUATION.
    pub const END_STREAM: FrameFlags = FrameFlags(0x1);
    /// The field block ends with this frame, HEADERS or CONTINUATION.
    pub const END_HEADERS: FrameFlags = FrameFlags(0x4);
    /// The payload of this frame, DATA or HEADERS, has padding.
    pub const PADDED: FrameFlags = FrameFlags(0x8);
    /// The payload of this frame, HEADERS, has a priority of RFC 7540.
    pub const PRIORITY: FrameFlags = FrameFlags(0x20);

    /// Returns whether all of these flags are set.
    #[inline]
    #[must_use]
    pub fn has(self, flags: FrameFlags) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Returns these flags and others.
    #[inline]
    #[must_use]
    pub const fn with(self, flags: FrameFlags) -> FrameFlags {
        FrameFlags(self.0 | flags.0)
    }
}

/// The header of a frame. RFC 9113, section 4.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// The length of the payload in bytes: at most 24 bits.
    pub len: u32,
    /// The number of the type: see [`FrameType::from_number`].
    pub type_number: u8,
    /// The flags.
    pub flags: FrameFlags,
    /// The stream, or [`CONNECTION`]: at most [`MAX_31_BITS`].
    pub stream: u32,
}

impl FrameHeader {
    /// Returns the header of a frame to send. `len`: the length of the payload in bytes.
    #[inline]
    #[must_use]
    pub const fn new(frame_type: FrameType, flags: FrameFlags, stream: u32, len: u32) -> FrameHeader {
        FrameHeader { len, type_number: frame_type as u8, flags, stream }
    }

    /// Decodes the header at the front of `bytes`. The reserved bit is ignored. `None`: more bytes are needed.
    #[inline]
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<FrameHeader> {
        let &[high, mid, low, type_number, flags, a, b, c, d] = bytes.first_chunk::<FRAME_HEADER_LEN>()?;
        Some(FrameHeader {
            len: u32::from_be_bytes([0, high, mid, low]),
            type_number,
            flags: FrameFlags(flags),
            stream: u32::from_be_bytes([a, b, c, d]) & MAX_31_BITS,
        })
    }

    /// Returns the bytes of the header.
    ///
    /// # Panics
    ///
    /// Panics if the length does not fit in 24 bits, or the stream in 31.
    #[inline]
    #[must_use]
    pub const fn encode(&self) -> [u8; FRAME_HEADER_LEN] {
        assert!(self.len < 1 << 24 && self.stream <= MAX_31_BITS, "the header has room for its numbers");
        let ([_, high, mid, low], [a, b, c, d]) = (self.len.to_be_bytes(), self.stream.to_be_bytes());
        [high, mid, low, self.type_number, self.flags.0, a, b, c, d]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[rustfmt::skip]
    fn header_is_decoded_once_it_is_complete() {
        let cases: &[(&str, [u8; FRAME_HEADER_LEN], FrameHeader)] = &[
            // case                on the wire                             length, type, flags, stream
            ("a frame of DATA",    [0, 1, 2, 0, 1, 0, 0, 0, 5],            FrameHeader { len: 258, type_number: 0, flags: FrameFlags::END_STREAM, stream: 5 }),
            ("the most",           [255, 255, 255, 255, 255, 127, 255, 255, 255], FrameHeader { len: 0xff_ffff, type_number: 255, flags: FrameFlags(255), stream: MAX_31_BITS }),
            ("the reserved bit",   [0, 0, 0, 4, 0, 128, 0, 0, 0],          FrameHeader { len: 0, type_number: 4, flags: FrameFlags::NONE, stream: CONNECTION }),
        ];
        for (name, wire, want) in cases {
            for cut in 0..FRAME_HEADER_LEN {
                assert_eq!(FrameHeader::decode(&wire[..cut]), None, "{name}, {cut} bytes");
            }
            assert_eq!(FrameHeader::decode(wire), Some(*want), "{name}");
            let mut without_reserved = *wire;
            without_reserved[5] &= 0x7f;
            assert_eq!(want.encode(), without_reserved, "{name}");
        }
    }

    #[test]
    fn types_have_their_numbers() {
        let known = (0..=u8::MAX).filter_map(FrameType::from_number);
        assert!(known.map(|frame_type| frame_type as u8).eq((0..=9).chain([0x10])));
    }
}
