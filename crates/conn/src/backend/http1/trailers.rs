//! Trailers, in both directions. RFC 9110, section 6.5.

use crate::{
    BufRange, ConnResources,
    backend::exchange::ExchangeError,
    bounded_writer::BoundedWriter,
    pipe::{
        MESSAGE_LEN_MAX, MESSAGE_ROOM, NoBuffer,
        fields::{MessageFields, MessageFieldsWriter, belongs_to_connection},
    },
};
use tarpon_http::{field, status::Status};

/// Trailers of a chunked content as they arrive: whole field lines. The decoder limits and checks them.
#[derive(Debug, Default)]
pub(crate) struct CollectedTrailers(Vec<u8>);

impl CollectedTrailers {
    /// Adds field lines.
    pub(crate) fn add(&mut self, lines: &[u8]) {
        self.0.extend_from_slice(lines);
    }

    /// Returns the list of the fields that may be trailers, in a buffer for a message. `None`: there are none.
    pub(crate) fn to_list(&self, cx: &mut ConnResources<'_>) -> Result<Option<BufRange>, NoBuffer> {
        let lines = || {
            self.0.split(|&byte| byte == b'\n').filter_map(|line| {
                let colon = line.iter().position(|&byte| byte == b':')?;
                let value = line[colon + 1..].strip_suffix(b"\r").unwrap_or(&line[colon + 1..]);
                Some((&line[..colon], value.trim_ascii())).filter(|(name, _)| may_be_trailer(name))
            })
        };
        if lines().next().is_none() {
            return Ok(None);
        }
        let buf = cx.pool.take_for_response().ok_or(NoBuffer)?;
        let to = &mut cx.pool.buf_mut(buf)[MESSAGE_ROOM..][..MESSAGE_LEN_MAX];
        let mut writer = MessageFieldsWriter::new(to);
        for (name, value) in lines() {
            // The lines are shorter than a message.
            let _ = writer.put(name, value);
        }
        Ok(Some(BufRange { buf, at: MESSAGE_ROOM as u32, len: writer.len() as u32 }))
    }
}

/// Writes the last chunk with the trailers in a list.
pub(super) fn write(cx: &mut ConnResources<'_>, list: BufRange) -> Result<BufRange, ExchangeError> {
    let buf = cx.pool.take_for_response().ok_or(NoBuffer)?;
    let (bytes, to) = cx.pool.split_mut(list, buf);
    let mut writer = BoundedWriter::new(to);
    let mut write = || {
        writer.put(b"0\r\n")?;
        for (name, value) in MessageFields::known(bytes).iter() {
            for part in [name, b": ", value, b"\r\n"] {
                writer.put(part)?;
            }
        }
        writer.put(b"\r\n")
    };
    let written = write();
    let len = writer.len() as u32;
    if written.is_none() {
        cx.pool.release(buf);
        return Err(ExchangeError::here(Status::RequestHeaderFieldsTooLarge));
    }
    Ok(BufRange { buf, at: 0, len })
}

/// Returns whether a field may be a trailer. Fields for framing, routing, authentication or the processing of content may not. RFC 9110, section 6.5.1.
pub(crate) fn may_be_trailer(name: &[u8]) -> bool {
    const FORBIDDEN: [&[u8]; 16] = [
        b"authorization",
        b"cache-control",
        b"content-encoding",
        b"content-length",
        b"content-range",
        b"content-type",
        b"cookie",
        b"expect",
        b"host",
        b"location",
        b"max-forwards",
        b"proxy-authorization",
        b"range",
        b"set-cookie",
        b"trailer",
        b"www-authenticate",
    ];
    !belongs_to_connection(name)
        && !super::client_fields::names_client(name)
        && !field::has_token(FORBIDDEN, name)
}
