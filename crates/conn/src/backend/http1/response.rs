//! The head of a response as a list of fields.

use crate::{
    BufRange, ConnResources,
    backend::exchange::ExchangeError,
    pipe::{
        MESSAGE_LEN_MAX, MESSAGE_ROOM, NoBuffer,
        fields::{MessageFieldsWriter, belongs_to_connection},
    },
};
use tarpon_http::{
    field,
    response_head::{self, ResponseHead},
};

/// Returns whether the head of a response with the status 101 changes to this protocol, and to no other. RFC 9110, section 7.8.
pub(super) fn names_protocol(head: &ResponseHead<'_>, protocol: &[u8]) -> bool {
    let mut named = head.all("upgrade");
    field::has_token(head.all("connection"), b"upgrade")
        && named.next().is_some_and(|value| value.eq_ignore_ascii_case(protocol))
        && named.next().is_none()
}

/// Returns a list of the fields of a valid head, in a buffer for a message: without those that belong to the connection (RFC 9110,
/// section 7.6.1), and with Content-Length once at most.
pub(super) fn list_of(cx: &mut ConnResources<'_>, head: BufRange) -> Result<BufRange, ExchangeError> {
    let buf = cx.pool.take_for_response().ok_or(NoBuffer)?;
    let (bytes, to) = cx.pool.split_mut(head, buf);
    let written = match response_head::parse(bytes) {
        Ok(Some((head, _))) => write(&head, &mut to[MESSAGE_ROOM..][..MESSAGE_LEN_MAX]),
        _ => None,
    };
    match written {
        Some(len) => Ok(BufRange { buf, at: MESSAGE_ROOM as u32, len: len as u32 }),
        None => {
            cx.pool.release(buf);
            Err(ExchangeError::INVALID)
        }
    }
}

fn write(head: &ResponseHead<'_>, to: &mut [u8]) -> Option<usize> {
    let mut writer = MessageFieldsWriter::new(to);
    writer.put(b":status", &[100, 10, 1].map(|unit| b'0' + (head.status / unit % 10) as u8))?;
    if head.status == 101 {
        writer.put(b":upgrade", head.all("upgrade").next()?)?;
    }
    let mut has_length = false;
    for (name, value) in head.fields() {
        let is_length = name.eq_ignore_ascii_case(b"content-length");
        // A field that frames the content stays, whatever Connection names.
        let is_named = !is_length && field::has_token(head.all("connection"), name);
        if belongs_to_connection(name) || is_named || is_length && has_length {
            continue;
        }
        if is_length {
            has_length = true;
            let length = head.content_length().ok()??;
            writer.put(
                name,
                crate::bounded_writer::decimal(length, &mut [0; crate::bounded_writer::NUMBER_LEN_MAX]),
            )?;
        } else {
            writer.put(name, value)?;
        }
    }
    Some(writer.len())
}
