//! Error codes: why a stream or a connection ends. RFC 9113, section 7.

/// An error code. A peer may send any number; unknown ones have no effect of their own: RFC 9113, section 7.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorCode(pub u32);

impl ErrorCode {
    /// `NO_ERROR`: the end is no error.
    pub const NO_ERROR: ErrorCode = ErrorCode(0x0);
    /// `PROTOCOL_ERROR`: the peer has broken a rule that has no code of its own.
    pub const PROTOCOL_ERROR: ErrorCode = ErrorCode(0x1);
    /// `INTERNAL_ERROR`: the sender of the code has failed.
    pub const INTERNAL_ERROR: ErrorCode = ErrorCode(0x2);
    /// `FLOW_CONTROL_ERROR`: the peer has sent more than a window allows, or has made a window too large.
    pub const FLOW_CONTROL_ERROR: ErrorCode = ErrorCode(0x3);
    /// `SETTINGS_TIMEOUT`: the peer has not acknowledged settings.
    pub const SETTINGS_TIMEOUT: ErrorCode = ErrorCode(0x4);
    /// `STREAM_CLOSED`: a frame arrived after its stream was closed.
    pub const STREAM_CLOSED: ErrorCode = ErrorCode(0x5);
    /// `FRAME_SIZE_ERROR`: a frame has a length that its type does not allow.
    pub const FRAME_SIZE_ERROR: ErrorCode = ErrorCode(0x6);
    /// `REFUSED_STREAM`: the stream was not processed; the client may repeat its request.
    pub const REFUSED_STREAM: ErrorCode = ErrorCode(0x7);
    /// `CANCEL`: the stream is no longer needed.
    pub const CANCEL: ErrorCode = ErrorCode(0x8);
    /// `COMPRESSION_ERROR`: a field block cannot be decoded.
    pub const COMPRESSION_ERROR: ErrorCode = ErrorCode(0x9);
    /// `CONNECT_ERROR`: the tunnel of a CONNECT request has failed.
    pub const CONNECT_ERROR: ErrorCode = ErrorCode(0xa);
    /// `ENHANCE_YOUR_CALM`: the peer causes too much load.
    pub const ENHANCE_YOUR_CALM: ErrorCode = ErrorCode(0xb);
    /// `INADEQUATE_SECURITY`: TLS does not meet the requirements of RFC 9113, section 9.2.
    pub const INADEQUATE_SECURITY: ErrorCode = ErrorCode(0xc);
    /// `HTTP_1_1_REQUIRED`: the request needs HTTP/1.1.
    pub const HTTP_1_1_REQUIRED: ErrorCode = ErrorCode(0xd);
}

/// What an error ends. RFC 9113, section 5.4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorScope {
    /// The connection, with GOAWAY.
    Connection,
    /// The stream of the frame, with RST_STREAM. The connection may end instead: RFC 9113, section 5.4.1.
    Stream,
}
