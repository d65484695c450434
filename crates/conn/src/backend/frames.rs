//! Messages as frames on a byte stream: the protocol of backends that run in this program or beside it.
//!
//! ```text
//! [ kind, 1 ][ length, 4 ][ bytes ]        numbers are little-endian
//! ```

use crate::{
    pipe::{MESSAGE_LEN_MAX, MESSAGE_ROOM},
    pool::BUF_LEN_MAX,
};

/// The length of what precedes the bytes of a frame.
pub const FRAME_PREFIX_LEN: usize = 5;

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// The head of a request or of a final response: a list of fields.
    Head = 1,
    /// The head of an interim response.
    Interim = 2,
    /// A part of the content, of any length.
    Data = 3,
    /// The trailers: a list of fields.
    Trailers = 4,
    /// The end of the message, without bytes.
    End = 5,
    /// The backend cannot answer: instead of its head, the status of the response in two bytes. The pages of the site respond.
    Abort = 6,
    /// The server is to answer this request instead: the head of a request. Nothing follows.
    Redirect = 7,
}

/// The maximum length of the head of a request in a frame, without the prefix: a worker may take the longest heads. One that takes shorter heads
/// refuses a longer frame.
pub const REQUEST_FRAME_LEN_MAX: usize = BUF_LEN_MAX - 2 * MESSAGE_ROOM;

/// The length of the bytes of [`FrameKind::Abort`].
const ABORT_LEN: u32 = 2;

/// What precedes the bytes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FramePrefix {
    /// The kind.
    pub kind: FrameKind,
    /// The number of bytes that follow.
    pub len: u32,
}

/// The error that bytes are no frame, or that a frame which must be whole is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidFrame;

impl FramePrefix {
    /// Returns the bytes of the prefix.
    pub fn encode(self) -> [u8; FRAME_PREFIX_LEN] {
        let [a, b, c, d] = self.len.to_le_bytes();
        [self.kind as u8, a, b, c, d]
    }

    /// Decodes the prefix at the start of `bytes`. `None`: more bytes are needed.
    ///
    /// # Errors
    /// The kind is unknown, or a frame other than [`FrameKind::Data`] is too long.
    pub fn decode(bytes: &[u8]) -> Result<Option<FramePrefix>, InvalidFrame> {
        let Some(&[kind, a, b, c, d]) = bytes.first_chunk() else { return Ok(None) };
        let len = u32::from_le_bytes([a, b, c, d]);
        let (kind, len_max) = match kind {
            1 => (FrameKind::Head, REQUEST_FRAME_LEN_MAX as u32),
            2 => (FrameKind::Interim, MESSAGE_LEN_MAX as u32),
            3 => (FrameKind::Data, u32::MAX),
            4 => (FrameKind::Trailers, MESSAGE_LEN_MAX as u32),
            5 => (FrameKind::End, 0),
            6 => (FrameKind::Abort, ABORT_LEN),
            7 => (FrameKind::Redirect, REQUEST_FRAME_LEN_MAX as u32),
            _ => return Err(InvalidFrame),
        };
        if len > len_max { Err(InvalidFrame) } else { Ok(Some(FramePrefix { kind, len })) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_survives_the_round_trip() {
        for (kind, len) in [
            (FrameKind::Head, 7),
            (FrameKind::Interim, 0),
            (FrameKind::Data, u32::MAX),
            (FrameKind::Trailers, MESSAGE_LEN_MAX as u32),
            (FrameKind::End, 0),
            (FrameKind::Abort, 2),
            (FrameKind::Redirect, 7),
        ] {
            let prefix = FramePrefix { kind, len };
            assert_eq!(FramePrefix::decode(&prefix.encode()), Ok(Some(prefix)));
            assert_eq!(FramePrefix::decode(&prefix.encode()[..4]), Ok(None));
        }
    }

    #[test]
    fn invalid_prefixes_are_refused() {
        let long = [(FrameKind::Head, REQUEST_FRAME_LEN_MAX), (FrameKind::Trailers, MESSAGE_LEN_MAX)];
        let [head, trailers] = long.map(|(kind, len)| FramePrefix { kind, len: len as u32 + 1 }.encode());
        for bytes in [[0; 5], [9, 0, 0, 0, 0], [5, 1, 0, 0, 0], [6, 3, 0, 0, 0], head, trailers] {
            assert_eq!(FramePrefix::decode(&bytes), Err(InvalidFrame), "{bytes:?}");
        }
    }
}
