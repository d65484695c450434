//! The status line, the fields and the framing of a response that a backend has made.

use crate::{
    BufRange, ConnResources,
    bounded_writer::BoundedWriter,
    pipe::fields::{MessageFields, belongs_to_connection},
    response_prefix::digits,
};
use tarpon_http::{head::Version, status::Status};

/// The framing of the content that is sent to the client. RFC 9112, section 6.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContentFraming {
    /// Never content: HEAD, 204, 304. The content of the backend is dropped.
    Nothing,
    Length {
        left: u64,
    },
    Chunked,
    UntilClose,
}

/// Writes bytes made from a list of fields into a new buffer, and releases the list.
///
/// # Errors
/// No buffer is free, or the bytes do not fit.
pub(super) fn write_from(
    cx: &mut ConnResources<'_>,
    list: BufRange,
    write: impl FnOnce(&[u8; 29], MessageFields<'_>, &mut BoundedWriter<'_>) -> Option<()>,
) -> Result<BufRange, Status> {
    let Some(buf) = cx.pool.take_for_response() else {
        cx.pool.release(list.buf);
        return Err(Status::ServiceUnavailable);
    };
    let (bytes, to) = cx.pool.split_mut(list, buf);
    let mut writer = BoundedWriter::new(to);
    let written = write(cx.prefixes.date(), MessageFields::known(bytes), &mut writer);
    let len = writer.len() as u32;
    cx.pool.release(list.buf);
    match written {
        Some(()) => Ok(BufRange { buf, at: 0, len }),
        None => {
            cx.pool.release(buf);
            Err(Status::BadGateway)
        }
    }
}

/// Returns the framing of the content of a final response. `None`: its Content-Length is invalid.
pub(super) fn framing(
    code: u16,
    list: MessageFields<'_>,
    with_content: bool,
    version: Version,
) -> Option<ContentFraming> {
    let length = list.content_length().ok()?;
    Some(match (length, version) {
        _ if !with_content || matches!(code, 204 | 304) => ContentFraming::Nothing,
        (Some(left), _) => ContentFraming::Length { left },
        (None, Version::Http11 | Version::Http2) => ContentFraming::Chunked,
        (None, Version::Http10) => ContentFraming::UntilClose,
    })
}

pub(in crate::h1) fn put_status_line(writer: &mut BoundedWriter<'_>, code: u16) -> Option<()> {
    writer.put(b"HTTP/1.1 ")?;
    writer.put(&digits(code))?;
    writer.put(b" ")?;
    // A client ignores the reason phrase: RFC 9112, section 4.
    writer.put(Status::reason_of(code).as_bytes())?;
    writer.put(b"\r\n")
}

/// Writes the fields that are neither pseudo-fields nor belong to a connection. Content-Length is written once at most.
pub(super) fn put_fields(
    writer: &mut BoundedWriter<'_>,
    list: MessageFields<'_>,
    mut with_length: bool,
) -> Option<()> {
    for (name, value) in list.iter() {
        let is_length = name == b"content-length";
        if name.starts_with(b":") || belongs_to_connection(name) || is_length && !with_length {
            continue;
        }
        with_length &= !is_length;
        writer.put(name)?;
        writer.put(b": ")?;
        writer.put(value)?;
        writer.put(b"\r\n")?;
    }
    Some(())
}

/// Returns the status that a response is counted as. A client treats an unknown code as the first one of its class: RFC 9110, section 15.
pub(crate) fn counted_as(code: u16) -> Status {
    Status::from_code(code).unwrap_or(match code / 100 {
        2 => Status::Ok,
        3 => Status::Found,
        4 => Status::BadRequest,
        _ => Status::InternalServerError,
    })
}
