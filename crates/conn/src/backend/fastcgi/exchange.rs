//! An exchange with a server that speaks FastCGI. FastCGI Specification 1.0, section 6.2.
//!
//! ```text
//! pipe ── Head, Data …, End ─▶ BeginRequest, Params, Stdin …, end of Stdin
//!      ◀─ Head, Data …, End ── Stdout …, EndRequest
//! ```
//!
//! The parameters name the length of the content. If the client has not, the content is collected first.

use super::{
    FastCgiEvent, FastCgiReceived, FastCgiReceiver, FastCgiRefusal, FastCgiResponseError, content_length,
    request_len_max, write_request,
};
use crate::{
    BufRange, ConnResources,
    backend::{
        BackendSettings, FailureReason,
        exchange::{ExchangeError, ExchangeState, RepeatableHead, is_idempotent},
    },
    functions::{CollectedContent, NoBudget},
    pipe::{MESSAGE_LEN_MAX, MESSAGE_ROOM, Message, NoBuffer, Side, fields::MessageFields},
    pool::BUF_LEN,
    span::{Outbox, SPAN_COUNT_MAX, Span},
};
use tarpon_http::{
    fastcgi::{FastCgiError, FastCgiHeader, FastCgiKind, end_of_stream},
    head::{HEAD_LEN_MAX, HEAD_LEN_USUAL},
    status::Status,
};

/// The state of an exchange.
#[derive(Debug)]
pub(in crate::backend) struct FastCgiExchange {
    /// The content that is still to be sent, in bytes.
    content_left: u64,
    /// A request whose length is known only when all of it has arrived.
    collected: Option<Box<CollectedUpload>>,
    receiver: FastCgiReceiver,
}

/// A request whose content is collected.
#[derive(Debug)]
struct CollectedUpload {
    /// The list of fields.
    list: Vec<u8>,
    content: CollectedContent,
    /// The part of the content that is in the outbox or sent. `None`: the content is not complete.
    sent_len: Option<usize>,
}

/// How many bytes of a content without a length are collected, at most: as for CGI programs.
const UPLOAD_LEN_MAX: usize = 64 * 1024;

/// Buffers that the start of a request takes, with heads of any length: each buffer is longer than a head.
const START_SPAN_COUNT: usize = request_len_max(HEAD_LEN_USUAL).div_ceil(BUF_LEN);
const _: () = assert!(START_SPAN_COUNT < SPAN_COUNT_MAX);
const _: () = assert!(request_len_max(HEAD_LEN_MAX).div_ceil(HEAD_LEN_MAX) <= START_SPAN_COUNT);

impl Default for FastCgiExchange {
    fn default() -> FastCgiExchange {
        FastCgiExchange { content_left: 0, collected: None, receiver: FastCgiReceiver::new(false) }
    }
}

impl From<FastCgiRefusal> for ExchangeError {
    fn from(refusal: FastCgiRefusal) -> ExchangeError {
        ExchangeError::here(refusal.status())
    }
}

impl From<FastCgiResponseError> for ExchangeError {
    fn from(error: FastCgiResponseError) -> ExchangeError {
        ExchangeError { status: error.status(), ..ExchangeError::invalid(FailureReason::FastCgi(error)) }
    }
}

impl FastCgiExchange {
    pub(in crate::backend) fn queue(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        state: &mut ExchangeState,
        message: Message,
        repeatable: &mut RepeatableHead,
    ) -> Result<(), ExchangeError> {
        match message {
            Message::Head(list) => {
                let queued = self.queue_start(cx, out, state, list, repeatable);
                cx.pool.release(list.buf);
                queued
            }
            Message::Data(data) if self.collected.is_some() => {
                let collected = self.collect(cx.pool.bytes(data));
                cx.pool.release(data.buf);
                collected
            }
            Message::End(_) if self.collected.is_some() => self.queue_collected_start(cx, out, state),
            Message::Data(data) if u64::from(data.len) <= self.content_left => {
                self.content_left -= u64::from(data.len);
                let header = FastCgiHeader::new(FastCgiKind::Stdin, data.len as u16);
                let record = cx.pool.prepend(data, &header.encode());
                out.push(cx.sites, Span::Buf(record));
                Ok(())
            }
            Message::End(_) if self.content_left == 0 => {
                let buf = cx.pool.take_for_response().ok_or(NoBuffer)?;
                let end = cx.pool.append(BufRange { buf, at: 0, len: 0 }, &end_of_stream(FastCgiKind::Stdin));
                out.push(cx.sites, Span::Buf(end));
                state.is_request_sent = true;
                Ok(())
            }
            // More content than was announced, or less.
            Message::Data(_) | Message::End(_) => {
                message.release(cx.pool);
                Err(ExchangeError::here(Status::BadRequest))
            }
            Message::Trailers(_) | Message::Interim(_) | Message::Redirect(_) => {
                message.release(cx.pool);
                Ok(())
            }
        }
    }

    /// Adds a part of a content without a length.
    fn collect(&mut self, part: &[u8]) -> Result<(), ExchangeError> {
        let Some(upload) = &mut self.collected else { return Ok(()) };
        if upload.content.bytes().len() + part.len() > UPLOAD_LEN_MAX {
            return Err(FastCgiRefusal::LengthRequired.into());
        }
        upload.content.add(part).map_err(|NoBudget| NoBuffer.into())
    }

    /// Queues the start of a request whose content is complete now.
    fn queue_collected_start(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        state: &mut ExchangeState,
    ) -> Result<(), ExchangeError> {
        let Some(mut upload) = self.collected.take() else { return Ok(()) };
        let buf = cx.pool.take_for_response().ok_or(NoBuffer)?;
        let list = cx.pool.append(BufRange { buf, at: 0, len: 0 }, &upload.list);
        // As for a request whose end has arrived with its head.
        let length = Some(upload.content.bytes().len() as u64).filter(|length| *length > 0);
        let queued = write_start(cx, out, state, list, length);
        cx.pool.release(buf);
        queued?;
        match length {
            // The end is there already.
            None => state.is_request_sent = true,
            Some(_) => {
                upload.sent_len = Some(0);
                self.collected = Some(upload);
                self.queue_collected(cx, out, state)?;
            }
        }
        Ok(())
    }

    /// Queues as much of a collected content as there is room for.
    pub(in crate::backend) fn queue_collected(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        state: &mut ExchangeState,
    ) -> Result<(), ExchangeError> {
        while let Some(upload) = &mut self.collected
            && let Some(sent_len) = &mut upload.sent_len
            && out.has_room_for_message(cx.pool)
        {
            let rest = &upload.content.bytes()[*sent_len..];
            let part = &rest[..rest.len().min(MESSAGE_LEN_MAX)];
            let is_last = part.len() == rest.len();
            let buf = match cx.pool.take_for_response() {
                Some(buf) => buf,
                // It goes on when these have been sent.
                None if !out.is_empty() => return Ok(()),
                None => return Err(NoBuffer.into()),
            };
            *sent_len += part.len();
            let header = FastCgiHeader::new(FastCgiKind::Stdin, part.len() as u16);
            let record = cx.pool.append(BufRange { buf, at: 0, len: 0 }, &header.encode());
            let mut record = cx.pool.append(record, part);
            if is_last {
                record = cx.pool.append(record, &end_of_stream(FastCgiKind::Stdin));
                (self.collected, state.is_request_sent) = (None, true);
            }
            out.push(cx.sites, Span::Buf(record));
        }
        Ok(())
    }

    /// Queues the start of the request.
    fn queue_start(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        state: &mut ExchangeState,
        list: BufRange,
        repeatable: &mut RepeatableHead,
    ) -> Result<(), ExchangeError> {
        repeatable.clear();
        // A request without content ends right behind its head.
        state.is_request_sent = cx.pipes.pop_end(state.pipe, Side::Backend);
        let bytes = cx.pool.bytes(list);
        let fields = MessageFields::parse(bytes).ok_or(FastCgiRefusal::Malformed)?;
        let method = fields.get(b":method").unwrap_or_default();
        self.receiver = FastCgiReceiver::new(method == b"HEAD");
        let length = match content_length(fields, state.is_request_sent) {
            Err(FastCgiRefusal::LengthRequired) => {
                let (list, content) = (bytes.to_vec(), CollectedContent::new(cx.pipes.budget().clone()));
                self.collected = Some(Box::new(CollectedUpload { list, content, sent_len: None }));
                return Ok(());
            }
            length => length?,
        };
        self.content_left = length.unwrap_or(0);
        if state.is_request_sent && is_idempotent(method) {
            repeatable.extend_from_slice(bytes);
        }
        write_start(cx, out, state, list, length)
    }

    pub(in crate::backend) fn receive(
        &mut self,
        cx: &mut ConnResources<'_>,
        state: &mut ExchangeState,
        input: BufRange,
    ) -> Result<usize, ExchangeError> {
        if !state.has_room(cx) {
            return Ok(0);
        }
        let FastCgiReceived { used, event } = self.receiver.receive(cx.pool.bytes(input))?;
        match event {
            // A record that fills a buffer and is incomplete is too long.
            FastCgiEvent::Incomplete if used == 0 && input.len as usize >= BUF_LEN => {
                Err(FastCgiResponseError::Record(FastCgiError::End).into())
            }
            FastCgiEvent::Incomplete => Ok(used),
            FastCgiEvent::ErrorText { at, len } => {
                let text = &cx.pool.bytes(input)[at..at + len];
                state.error_output.get_or_insert_default().add(text);
                Ok(used)
            }
            FastCgiEvent::Head => {
                let buf = cx.pool.take_for_response().ok_or(NoBuffer)?;
                let to = &mut cx.pool.buf_mut(buf)[MESSAGE_ROOM..][..MESSAGE_LEN_MAX];
                let (len, status) = match self.receiver.write_head(to) {
                    Ok(written) => written,
                    Err(error) => {
                        cx.pool.release(buf);
                        return Err(error.into());
                    }
                };
                state.status = status;
                let list = BufRange { buf, at: MESSAGE_ROOM as u32, len: len as u32 };
                cx.pipes.push(state.pipe, Side::Backend, Message::Head(list));
                self.pass_on(cx, state, input.skip(used), used)
            }
            FastCgiEvent::Content(len) => {
                let content = BufRange { len: len as u32, ..input.skip(used) };
                let added = state.push_data(cx, content)?;
                self.receiver.take(added);
                Ok(used + added)
            }
            FastCgiEvent::End => {
                state.end_response(cx);
                Ok(used)
            }
        }
    }

    /// Goes on behind a head: what ends the response may have been used already.
    fn pass_on(
        &mut self,
        cx: &mut ConnResources<'_>,
        state: &mut ExchangeState,
        rest: BufRange,
        used: usize,
    ) -> Result<usize, ExchangeError> {
        self.receive(cx, state, rest).map(|more| used + more)
    }
}

/// Queues the start of a request with a content of this length.
fn write_start(
    cx: &mut ConnResources<'_>,
    out: &mut Outbox,
    state: &ExchangeState,
    list: BufRange,
    length: Option<u64>,
) -> Result<(), ExchangeError> {
    let route = cx.pipes.route_of(state.pipe);
    let keeps_connection = route.limits.idle_ms > 0 && route.limits.requests_max > 1;
    let default = BackendSettings::default();
    let settings = cx.pipes.settings(route.backend).unwrap_or(&default);
    let buf = cx.pool.take_for_response().ok_or(NoBuffer)?;
    let (bytes, to) = cx.pool.split_mut(list, buf);
    let fields = MessageFields::parse(bytes).ok_or(FastCgiRefusal::Malformed)?;
    match write_request(fields, settings, length, keeps_connection, to) {
        Ok(len) => {
            out.push(cx.sites, Span::Buf(BufRange { buf, at: 0, len: len as u32 }));
            return Ok(());
        }
        Err(FastCgiRefusal::TooLong) => cx.pool.release(buf),
        Err(refusal) => {
            cx.pool.release(buf);
            return Err(refusal.into());
        }
    }
    // Rare: it takes several buffers.
    let mut start = vec![0; request_len_max(cx.pool.head_len_max())];
    let fields = MessageFields::parse(cx.pool.bytes(list)).ok_or(FastCgiRefusal::Malformed)?;
    let len = write_request(fields, settings, length, keeps_connection, &mut start)?;
    if out.spans().len() + START_SPAN_COUNT > SPAN_COUNT_MAX {
        return Err(NoBuffer.into());
    }
    for part in start[..len].chunks(cx.pool.buf_len()) {
        let buf = cx.pool.take_for_response().ok_or(NoBuffer)?;
        cx.pool.buf_mut(buf)[..part.len()].copy_from_slice(part);
        out.push(cx.sites, Span::Buf(BufRange { buf, at: 0, len: part.len() as u32 }));
    }
    Ok(())
}
