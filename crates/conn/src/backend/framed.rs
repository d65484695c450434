//! An exchange with a backend that speaks frames: it runs in this program or beside it.

use super::{
    exchange::{ExchangeError, ExchangeState, copy_to_message},
    frames::{FRAME_PREFIX_LEN, FrameKind, FramePrefix, InvalidFrame},
};
use crate::{
    BufRange, ConnResources,
    pipe::{MESSAGE_ROOM, Message, NoBuffer, Side, fields::MessageFields, request_len_max},
    span::{Outbox, Span},
};
use tarpon_http::status::Status;

/// What an exchange waits for.
#[derive(Debug, Default)]
pub(super) struct FramedExchange {
    response: FramedPart,
    /// The rest of the data frame that is being received, in bytes.
    data_left: u32,
}

/// The part of the response that the connection waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum FramedPart {
    #[default]
    Head,
    Content,
    /// Trailers have passed; the end follows.
    End,
    /// The end has passed.
    Nothing,
}

impl From<InvalidFrame> for ExchangeError {
    fn from(InvalidFrame: InvalidFrame) -> ExchangeError {
        ExchangeError::INVALID
    }
}

impl FramedExchange {
    pub(super) fn queue(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        state: &mut ExchangeState,
        message: Message,
    ) -> Result<(), ExchangeError> {
        match message {
            Message::Head(bytes) => queue_frame(cx, out, FrameKind::Head, bytes),
            Message::Data(bytes) => queue_frame(cx, out, FrameKind::Data, bytes),
            Message::Trailers(bytes) => queue_frame(cx, out, FrameKind::Trailers, bytes),
            Message::Interim(_) | Message::Redirect(_) => message.release(cx.pool),
            Message::End(_) => {
                let buf = cx.pool.take_for_response().ok_or(NoBuffer)?;
                queue_frame(cx, out, FrameKind::End, BufRange { buf, at: MESSAGE_ROOM as u32, len: 0 });
                state.is_request_sent = true;
            }
        }
        Ok(())
    }

    pub(super) fn receive(
        &mut self,
        cx: &mut ConnResources<'_>,
        state: &mut ExchangeState,
        input: BufRange,
    ) -> Result<usize, ExchangeError> {
        if self.data_left > 0 {
            let len = self.data_left.min(input.len);
            let added = state.push_data(cx, BufRange { len, ..input })?;
            self.data_left -= added as u32;
            return Ok(added);
        }
        let bytes = cx.pool.bytes(input);
        let Some(FramePrefix { kind, len }) = FramePrefix::decode(bytes)? else { return Ok(0) };
        if kind == FrameKind::Abort {
            return receive_abort(&bytes[FRAME_PREFIX_LEN..], len);
        }
        let next = match (kind, self.response) {
            (FrameKind::Interim, FramedPart::Head) => FramedPart::Head,
            (FrameKind::Head, FramedPart::Head) => FramedPart::Content,
            (FrameKind::Redirect, FramedPart::Head) => FramedPart::Nothing,
            (FrameKind::Data, FramedPart::Content) => FramedPart::Content,
            (FrameKind::Trailers, FramedPart::Content) => FramedPart::End,
            (FrameKind::End, FramedPart::Content | FramedPart::End) => FramedPart::Nothing,
            _ => return Err(ExchangeError::INVALID),
        };
        if kind == FrameKind::Data {
            self.data_left = len;
            return Ok(FRAME_PREFIX_LEN);
        }
        let frame_len = FRAME_PREFIX_LEN + len as usize;
        if len as usize > request_len_max(cx.pool) {
            return Err(ExchangeError::INVALID);
        }
        if bytes.len() < frame_len {
            return Ok(0);
        }
        if kind == FrameKind::End {
            state.end_response(cx);
        } else {
            MessageFields::parse(&bytes[FRAME_PREFIX_LEN..frame_len]).ok_or(InvalidFrame)?;
            if !state.has_room(cx) {
                return Ok(0);
            }
            let list = copy_to_message(cx, BufRange { len, ..input.skip(FRAME_PREFIX_LEN) })?;
            let message = match kind {
                FrameKind::Interim => Message::Interim(list),
                FrameKind::Trailers => Message::Trailers(list),
                FrameKind::Redirect => Message::Redirect(list),
                _ => Message::Head(list),
            };
            cx.pipes.push(state.pipe, Side::Backend, message);
            if kind == FrameKind::Redirect {
                state.end_response(cx);
            }
        }
        self.response = next;
        Ok(frame_len)
    }
}

/// Reads the status of an aborted exchange, which ends by it.
fn receive_abort(bytes: &[u8], len: u32) -> Result<usize, ExchangeError> {
    let Some(code) = bytes.get(..len as usize) else { return Ok(0) };
    let code = code.try_into().map(u16::from_le_bytes).ok();
    Err(ExchangeError::here(code.and_then(Status::from_code).unwrap_or(Status::BadGateway)))
}

/// Queues the bytes of a message as a frame.
fn queue_frame(cx: &mut ConnResources<'_>, out: &mut Outbox, kind: FrameKind, bytes: BufRange) {
    let frame = cx.pool.prepend(bytes, &FramePrefix { kind, len: bytes.len }.encode());
    out.push(cx.sites, Span::Buf(frame));
}
