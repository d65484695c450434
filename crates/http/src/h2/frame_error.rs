//! The reasons to refuse a frame.

use super::{ErrorCode, ErrorScope};

/// The reason to refuse a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// The payload is longer than [`FRAME_PAYLOAD_LEN_MAX`](super::FRAME_PAYLOAD_LEN_MAX): RFC 9113, section 4.2. The section allows to end only
    /// the stream for some types; the connection ends for all, as up to 16 MiB would follow.
    TooLong,
    /// The length is none that the type allows, and the frame may change the state of the connection: RFC 9113, section 4.2 and, of each type,
    /// section 6.
    Length,
    /// The length is none that the type allows, and only the stream is concerned: of PRIORITY, RFC 9113, section 6.3; of DATA with the flag
    /// PADDED and no payload, section 4.2.
    StreamLength,
    /// The frame belongs to a stream, and its type to the connection: SETTINGS, PING, GOAWAY, PRIORITY_UPDATE. RFC 9113, sections 6.5, 6.7 and
    /// 6.8; RFC 9218, section 7.1.
    OnStream,
    /// The frame belongs to the connection, and its type to a stream: DATA, HEADERS, PRIORITY, RST_STREAM, CONTINUATION. RFC 9113, sections 6.1
    /// to 6.4 and 6.10.
    OnConnection,
    /// The padding is longer than the rest of the payload: RFC 9113, sections 6.1 and 6.2.
    Padding,
    /// A client has sent PUSH_PROMISE: RFC 9113, section 8.4.
    PushPromise,
    /// `SETTINGS_ENABLE_PUSH`, `SETTINGS_ENABLE_CONNECT_PROTOCOL` or `SETTINGS_NO_RFC7540_PRIORITIES` is neither 0 nor 1, or
    /// `SETTINGS_MAX_FRAME_SIZE` is not in its range: RFC 9113, section 6.5.2; RFC 8441, section 3; RFC 9218, section 2.1.
    SettingValue,
    /// `SETTINGS_INITIAL_WINDOW_SIZE` exceeds 31 bits: RFC 9113, section 6.5.2.
    SettingWindow,
    /// WINDOW_UPDATE adds 0 to the window of the connection: RFC 9113, section 6.9.
    ConnectionIncrement,
    /// WINDOW_UPDATE adds 0 to the window of a stream: RFC 9113, section 6.9.
    StreamIncrement,
    /// PRIORITY_UPDATE names the stream 0: RFC 9218, section 7.1.
    PrioritizedStream,
}

impl FrameError {
    /// Returns whether the error ends the connection, or only the stream of the frame.
    #[must_use]
    pub fn scope(self) -> ErrorScope {
        match self {
            FrameError::StreamLength | FrameError::StreamIncrement => ErrorScope::Stream,
            _ => ErrorScope::Connection,
        }
    }

    /// Returns the code to send in GOAWAY or RST_STREAM.
    #[must_use]
    pub fn code(self) -> ErrorCode {
        match self {
            FrameError::TooLong | FrameError::Length | FrameError::StreamLength => {
                ErrorCode::FRAME_SIZE_ERROR
            }
            FrameError::SettingWindow => ErrorCode::FLOW_CONTROL_ERROR,
            FrameError::OnStream
            | FrameError::OnConnection
            | FrameError::Padding
            | FrameError::PushPromise
            | FrameError::SettingValue
            | FrameError::ConnectionIncrement
            | FrameError::StreamIncrement
            | FrameError::PrioritizedStream => ErrorCode::PROTOCOL_ERROR,
        }
    }
}
