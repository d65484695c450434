//! An exchange with a server that speaks HTTP/1.1. RFC 9112; RFC 9110, section 7.
//!
//! ```text
//! pipe ── Head, Data …, Trailers, End ─▶ request head, content by length or in chunks
//!      ◀─ Interim …, Head, Data …, Trailers, End ── response: parsed strictly, and written anew
//! ```
//!
//! Nothing is copied from one side to the other: what a connection sends is built from what was parsed.
//!
//! | file | what |
//! |---|---|
//! | `request` | writes the head of a request |
//! | `client_fields` | the fields that name the client: Forwarded and its like |
//! | `response` | the head of a response as a list of fields |
//! | `trailers` | trailers, in both directions |

pub(super) mod client_fields;
mod request;
mod response;
pub(crate) mod trailers;

use super::{
    FailureReason,
    exchange::{ExchangeError, ExchangeState, RepeatableHead},
};
use crate::{
    BufRange, ConnResources,
    chunk::{LAST_CHUNK, put_chunk},
    pipe::{MESSAGE_LEN_MAX, MESSAGE_ROOM, Message, NoBuffer, Side},
    pool::BUF_LEN,
    span::{Outbox, Span},
};
use request::{ContentToSend, WrittenRequest};
use response::ReceivedHead;
use tarpon_http::{
    chunked::ChunkedDecoder,
    response_head::{ResponseFraming, ResponseHeadError},
    status::Status,
};
use trailers::CollectedTrailers;

/// The state of an exchange.
#[derive(Debug, Default)]
pub(super) struct Http1Exchange {
    /// The request was HEAD.
    is_head: bool,
    /// The protocol that the client has asked for besides HTTP/1. Empty: none.
    upgrade: Box<[u8]>,
    content: ContentToSend,
    response: Http1Part,
    interim_count: u32,
}

/// The part of the response that the connection waits for.
#[derive(Debug, Default)]
enum Http1Part {
    #[default]
    Head,
    Length {
        left: u64,
    },
    Chunked(Box<ChunkedResponse>),
    UntilClose,
    /// The bytes of another protocol.
    Tunnel,
    /// The end has passed.
    Nothing,
}

#[derive(Debug, Default)]
struct ChunkedResponse {
    decoder: ChunkedDecoder,
    trailers: CollectedTrailers,
}

/// Interim responses of one exchange, at most: a server that sends more would keep the client waiting for ever.
const INTERIM_COUNT_MAX: u32 = 100;

impl From<ResponseHeadError> for ExchangeError {
    fn from(error: ResponseHeadError) -> ExchangeError {
        ExchangeError::invalid(FailureReason::Head(error))
    }
}

impl Http1Exchange {
    pub(super) fn queue(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        state: &mut ExchangeState,
        message: Message,
        repeatable: &mut RepeatableHead,
    ) -> Result<(), ExchangeError> {
        let bytes = match message {
            Message::Head(list) => {
                let head = self.write_head(cx, state, list, repeatable);
                cx.pool.release(list.buf);
                head?
            }
            Message::Data(data) => self.frame_content(cx, data)?,
            Message::Trailers(list) if self.content == ContentToSend::Chunked => {
                self.content = ContentToSend::Nothing;
                let written = trailers::write(cx, list);
                cx.pool.release(list.buf);
                written?
            }
            Message::Trailers(_) | Message::Interim(_) | Message::Redirect(_) => {
                message.release(cx.pool);
                return Ok(());
            }
            Message::End(_) => {
                let is_complete = matches!(
                    self.content,
                    ContentToSend::Nothing | ContentToSend::Chunked | ContentToSend::Tunnel
                );
                let last = std::mem::replace(&mut self.content, ContentToSend::Nothing);
                state.is_request_sent = is_complete;
                match last {
                    ContentToSend::Chunked => {
                        let buf = cx.pool.take_for_response().ok_or(NoBuffer)?;
                        cx.pool.append(BufRange { buf, at: 0, len: 0 }, LAST_CHUNK)
                    }
                    ContentToSend::Length { .. } => return Err(ExchangeError::here(Status::BadRequest)),
                    _ => return Ok(()),
                }
            }
        };
        out.push(cx.sites, Span::Buf(bytes));
        Ok(())
    }

    /// Writes the head of the request into a buffer.
    fn write_head(
        &mut self,
        cx: &mut ConnResources<'_>,
        state: &mut ExchangeState,
        list: BufRange,
        repeatable: &mut RepeatableHead,
    ) -> Result<BufRange, ExchangeError> {
        repeatable.clear();
        // A request without content ends right behind its head.
        let is_complete = cx.pipes.pop_end(state.pipe, Side::Backend);
        let route = cx.pipes.route_of(state.pipe);
        let buf = cx.pool.take_for_response().ok_or(NoBuffer)?;
        let (bytes, to) = cx.pool.split_mut(list, buf);
        let written = request::write(bytes, cx.pipes.settings(route.backend), &route.limits, is_complete, to);
        let Some(WrittenRequest { len, is_head, upgrade, is_repeatable, content }) = written else {
            cx.pool.release(buf);
            return Err(ExchangeError::here(Status::RequestHeaderFieldsTooLarge));
        };
        if is_repeatable {
            repeatable.extend_from_slice(bytes);
        }
        let wants_upgrade = upgrade.is_some();
        self.upgrade = upgrade.unwrap_or_default().into();
        (self.is_head, self.content) = (is_head, content);
        // Of a request for another protocol nothing follows until the server agrees.
        state.is_request_sent = is_complete || wants_upgrade;
        Ok(BufRange { buf, at: 0, len: len as u32 })
    }

    fn frame_content(
        &mut self,
        cx: &mut ConnResources<'_>,
        data: BufRange,
    ) -> Result<BufRange, ExchangeError> {
        match &mut self.content {
            ContentToSend::Length { left } if *left >= u64::from(data.len) => {
                *left -= u64::from(data.len);
                if *left == 0 {
                    self.content = ContentToSend::Nothing;
                }
                Ok(data)
            }
            ContentToSend::Chunked => Ok(put_chunk(cx, data)),
            ContentToSend::Tunnel => Ok(data),
            // Never more than was announced.
            ContentToSend::Length { .. } | ContentToSend::Nothing => {
                cx.pool.release(data.buf);
                Err(ExchangeError::here(Status::BadRequest))
            }
        }
    }

    pub(super) fn receive(
        &mut self,
        cx: &mut ConnResources<'_>,
        state: &mut ExchangeState,
        input: BufRange,
    ) -> Result<usize, ExchangeError> {
        match &self.response {
            Http1Part::Head => self.receive_head(cx, state, input),
            Http1Part::Length { left } => {
                let len = (*left).min(input.len.into()) as u32;
                let added = state.push_data(cx, BufRange { len, ..input })?;
                self.content_passed(cx, state, added as u64);
                Ok(added)
            }
            Http1Part::Chunked(_) => self.receive_chunked(cx, state, input),
            Http1Part::UntilClose | Http1Part::Tunnel => Ok(state.push_data(cx, input)?),
            // More than one response.
            Http1Part::Nothing => Err(ExchangeError::INVALID),
        }
    }

    /// Returns how many bytes of content follow, and nothing else before them. `None`: unknown.
    pub(super) fn content_left(&self) -> Option<u64> {
        match self.response {
            Http1Part::Length { left } => Some(left),
            Http1Part::UntilClose | Http1Part::Tunnel => Some(u64::MAX),
            Http1Part::Head | Http1Part::Chunked(_) | Http1Part::Nothing => None,
        }
    }

    /// Notes that this much content has passed.
    pub(super) fn content_passed(&mut self, cx: &mut ConnResources<'_>, state: &mut ExchangeState, len: u64) {
        if let Http1Part::Length { left } = &mut self.response {
            *left -= len;
            if *left == 0 {
                self.end_response(cx, state);
            }
        }
    }

    fn receive_head(
        &mut self,
        cx: &mut ConnResources<'_>,
        state: &mut ExchangeState,
        input: BufRange,
    ) -> Result<usize, ExchangeError> {
        if !state.has_room(cx) {
            return Ok(0);
        }
        let buf = cx.pool.take_for_response().ok_or(NoBuffer)?;
        let (bytes, to) = cx.pool.split_mut(input, buf);
        let to = &mut to[MESSAGE_ROOM..][..MESSAGE_LEN_MAX];
        let received = match response::read(bytes, self.is_head, &self.upgrade, to) {
            // A head that fills a buffer and is incomplete is too long.
            Ok(None) if input.len as usize >= BUF_LEN => {
                Err(ExchangeError::invalid(FailureReason::HeadTooLong))
            }
            received => received,
        };
        let ReceivedHead { head_len, list_len, status, persists, framing } = match received {
            Ok(Some(head)) => head,
            Ok(None) => {
                cx.pool.release(buf);
                return Ok(0);
            }
            Err(error) => {
                cx.pool.release(buf);
                return Err(error);
            }
        };
        let list = BufRange { buf, at: MESSAGE_ROOM as u32, len: list_len as u32 };
        let is_interim = status < 200 && status != 101;
        if is_interim {
            self.interim_count += 1;
            if self.interim_count > INTERIM_COUNT_MAX {
                cx.pool.release(list.buf);
                return Err(ExchangeError::invalid(FailureReason::InterimCount));
            }
            cx.pipes.push(state.pipe, Side::Backend, Message::Interim(list));
            return Ok(head_len);
        }
        state.status = status;
        state.persists = persists && status != 101 && framing != ResponseFraming::UntilClose;
        cx.pipes.push(state.pipe, Side::Backend, Message::Head(list));
        self.response = match framing {
            _ if status == 101 => {
                (self.content, state.is_tunnel, state.is_request_sent) = (ContentToSend::Tunnel, true, false);
                Http1Part::Tunnel
            }
            ResponseFraming::Nothing | ResponseFraming::Length(0) => {
                self.end_response(cx, state);
                return Ok(head_len);
            }
            ResponseFraming::Length(left) => Http1Part::Length { left },
            ResponseFraming::Chunked => Http1Part::Chunked(Box::default()),
            ResponseFraming::UntilClose => Http1Part::UntilClose,
        };
        Ok(head_len)
    }

    fn receive_chunked(
        &mut self,
        cx: &mut ConnResources<'_>,
        state: &mut ExchangeState,
        input: BufRange,
    ) -> Result<usize, ExchangeError> {
        let Http1Part::Chunked(chunked) = &mut self.response else { return Ok(0) };
        // Room for a message, so that trailers find some too.
        if !state.has_room(cx) {
            return Ok(0);
        }
        let room = cx.pipes.room(cx.pool, state.pipe, Side::Backend).min(input.len as usize);
        let bytes = cx.pool.bytes(BufRange { len: room as u32, ..input });
        let decoded =
            chunked.decoder.decode(bytes).map_err(|_| ExchangeError::invalid(FailureReason::Chunks))?;
        chunked.trailers.add(&bytes[decoded.trailers]);
        let data = BufRange { len: decoded.content.end as u32, ..input }.skip(decoded.content.start);
        if data.len > 0 {
            state.push_data(cx, data)?;
        }
        if chunked.decoder.is_done() {
            let list = chunked.trailers.to_list(cx)?;
            if let Some(list) = list {
                cx.pipes.push(state.pipe, Side::Backend, Message::Trailers(list));
            }
            self.end_response(cx, state);
        }
        Ok(decoded.used)
    }

    fn end_response(&mut self, cx: &mut ConnResources<'_>, state: &mut ExchangeState) {
        self.response = Http1Part::Nothing;
        state.end_response(cx);
    }

    pub(super) fn ended(
        &mut self,
        cx: &mut ConnResources<'_>,
        state: &mut ExchangeState,
    ) -> Result<(), ExchangeError> {
        state.persists = false;
        match self.response {
            Http1Part::UntilClose | Http1Part::Tunnel => {
                self.end_response(cx, state);
                Ok(())
            }
            _ => Err(ExchangeError::INVALID),
        }
    }
}
