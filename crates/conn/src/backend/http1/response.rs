//! The head of a response as a list of fields.

use crate::{
    backend::{FailureReason, exchange::ExchangeError},
    bounded_writer::{NUMBER_LEN_MAX, decimal},
    pipe::fields::{MessageFieldsWriter, belongs_to_connection},
};
use tarpon_http::{
    field,
    response_head::{self, ResponseFraming, ResponseHead},
};

/// What a connection keeps of a head.
pub(super) struct ReceivedHead {
    pub(super) head_len: usize,
    /// The length of the list of fields.
    pub(super) list_len: usize,
    pub(super) status: u16,
    pub(super) persists: bool,
    pub(super) framing: ResponseFraming,
}

/// Reads the head at the start of `bytes`, and writes its fields as a list to the front of `to`: without those that belong to the connection
/// (RFC 9110, section 7.6.1), and with Content-Length once at most. `to_head`: the request was HEAD. `upgrade`: the protocol that the client
/// has asked for besides HTTP/1; empty: none. `Ok(None)`: the head is incomplete.
///
/// # Errors
/// The head is invalid.
pub(super) fn read(
    bytes: &[u8],
    to_head: bool,
    upgrade: &[u8],
    to: &mut [u8],
) -> Result<Option<ReceivedHead>, ExchangeError> {
    let Some((head, head_len)) = response_head::parse(bytes)? else { return Ok(None) };
    let framing = head.framing(to_head)?;
    if head.status == 101 && (upgrade.is_empty() || !names_protocol(&head, upgrade)) {
        return Err(ExchangeError::invalid(FailureReason::Upgrade));
    }
    let list_len = write(&head, to).ok_or(ExchangeError::invalid(FailureReason::HeadTooLong))?;
    let (status, persists) = (head.status, head.persists());
    Ok(Some(ReceivedHead { head_len, list_len, status, persists, framing }))
}

/// Returns whether the head of a response with the status 101 changes to this protocol, and to no other. RFC 9110, section 7.8.
fn names_protocol(head: &ResponseHead<'_>, protocol: &[u8]) -> bool {
    let mut named = head.all("upgrade");
    field::has_token(head.all("connection"), b"upgrade")
        && named.next().is_some_and(|value| value.eq_ignore_ascii_case(protocol))
        && named.next().is_none()
}

fn write(head: &ResponseHead<'_>, to: &mut [u8]) -> Option<usize> {
    let mut writer = MessageFieldsWriter::new(to);
    writer.put(b":status", &[100, 10, 1].map(|unit| b'0' + (head.status / unit % 10) as u8))?;
    if head.status == 101 {
        writer.put(b":upgrade", head.all("upgrade").next()?)?;
    }
    let has_options = head.all("connection").next().is_some();
    let mut has_length = false;
    for (name, value) in head.fields() {
        // A field that frames the content stays, whatever Connection names.
        if name.eq_ignore_ascii_case(b"content-length") {
            if !has_length {
                let length = head.content_length().ok()??;
                writer.put(name, decimal(length, &mut [0; NUMBER_LEN_MAX]))?;
            }
            has_length = true;
            continue;
        }
        let is_named = has_options && field::has_token(head.all("connection"), name);
        if !belongs_to_connection(name) && !is_named {
            writer.put(name, value)?;
        }
    }
    Some(writer.len())
}
