//! The formats of HTTP/2, without the state of a connection. RFC 9113.
//!
//! ```text
//! bytes ─ check_preface ─ FrameHeader ─ Frame ─┬─ field block ─ HpackDecoder ─▶ FieldSection ─ H2Request::parse ─▶ H2Request
//!                                              └─ content, settings, windows, …
//! ```
//!
//! | file | contents |
//! |---|---|
//! | `preface` | the first bytes of a client |
//! | `frame_header` | the nine bytes before each payload |
//! | `frame` | the frames that a client sends |
//! | `settings` | settings, read and written |
//! | `priority` | the priority of a response: RFC 9218 |
//! | `frame_writer` | the frames that a server sends |
//! | `frame_error` | the reasons to refuse a frame |
//! | `error_code` | the codes of errors |
//! | `field_class` | the meaning of a field for a request, or the rule that it breaks by itself |
//! | `request` | the parts of a request, and the rules about several fields |
//! | `malformed_request` | the reasons to refuse a request |
//! | [`hpack`] | the compression of fields: RFC 7541 |
//!
//! Nothing here allocates. Each limit is a constant.

mod error_code;
pub(crate) mod field_class;
mod frame;
mod frame_error;
mod frame_header;
#[cfg(test)]
mod frame_tests;
mod frame_writer;
pub mod hpack;
mod malformed_request;
mod preface;
mod priority;
mod request;
#[cfg(test)]
mod request_tests;
mod settings;

pub use error_code::{ErrorCode, ErrorScope};
pub use frame::{Frame, FrameParts};
pub use frame_error::FrameError;
pub use frame_header::{
    CONNECTION, FRAME_HEADER_LEN, FRAME_PAYLOAD_LEN_MAX, FrameFlags, FrameHeader, FrameType, MAX_31_BITS,
};
pub use frame_writer::{
    LONG_FRAME_LEN, SHORT_FRAME_LEN, continuation_header, data_header, go_away, headers_header, ping_ack,
    rst_stream, window_update,
};
pub use malformed_request::MalformedRequest;
pub use preface::{PREFACE, PREFACE_LEN, PrefaceCheck, check_preface};
pub use priority::Priority;
pub use request::{H2Request, parse_trailers};
pub use settings::{SETTING_LEN, SETTINGS_ACK, Setting, SettingName, SettingsPayload, write_settings};
