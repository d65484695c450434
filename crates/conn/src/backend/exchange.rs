//! The state of an exchange with a server, whatever its protocol.

use super::{
    FailureReason,
    fastcgi::{ErrorOutput, FastCgiExchange},
    framed::FramedExchange,
    http1::Http1Exchange,
};
use crate::{
    BufRange, ConnResources,
    pipe::{MESSAGE_ROOM, Message, NoBuffer, PipeEnd, PipeId, Side, content::ContentRoom},
    span::Outbox,
};
use tarpon_http::status::Status;

/// An exchange.
#[derive(Debug)]
pub(super) struct BackendExchange {
    pub(super) state: ExchangeState,
    protocol: ProtocolExchange,
}

/// What all protocols need to know of an exchange.
#[derive(Debug)]
pub(super) struct ExchangeState {
    pub(super) pipe: PipeId,
    /// The pipe has no room, so the connection does not read.
    pub(super) is_blocked: bool,
    /// The end of the request is in the outbox or sent.
    pub(super) is_request_sent: bool,
    /// The first byte of the response has arrived.
    pub(super) has_response_begun: bool,
    /// The end of the response has passed.
    pub(super) is_response_complete: bool,
    /// The code of the final response. 0: its head has not passed.
    pub(super) status: u16,
    /// Both directions carry bytes of another protocol.
    pub(super) is_tunnel: bool,
    /// The server allows another request on the connection.
    pub(super) persists: bool,
    /// The standard error of the program, as lines. `None`: it has written nothing there.
    pub(super) error_output: Option<Box<ErrorOutput>>,
}

#[derive(Debug)]
enum ProtocolExchange {
    Framed(FramedExchange),
    Http1(Box<Http1Exchange>),
    FastCgi(Box<FastCgiExchange>),
}

/// The head of a request that may be repeated, as it was in the pipe. Empty: it may not.
pub(super) type RepeatableHead = Vec<u8>;

/// The exchange cannot go on.
#[derive(Debug)]
pub(super) struct ExchangeError {
    /// The response of the client has this status if it has not begun.
    pub(super) status: Status,
    /// The server is at fault.
    pub(super) is_of_server: bool,
    /// What the log says. `None`: nothing, or what the state of the exchange tells.
    pub(super) reason: Option<FailureReason>,
}

impl ExchangeError {
    /// The server has broken its protocol.
    pub(super) const INVALID: ExchangeError =
        ExchangeError { status: Status::BadGateway, is_of_server: true, reason: None };

    /// The server has broken its protocol, for this reason.
    pub(super) fn invalid(reason: FailureReason) -> ExchangeError {
        ExchangeError { reason: Some(reason), ..ExchangeError::INVALID }
    }

    /// This server cannot go on.
    pub(super) fn here(status: Status) -> ExchangeError {
        ExchangeError { status, is_of_server: false, reason: None }
    }
}

impl From<NoBuffer> for ExchangeError {
    fn from(NoBuffer: NoBuffer) -> ExchangeError {
        let reason = Some(FailureReason::NoBuffer);
        ExchangeError { reason, ..ExchangeError::here(Status::ServiceUnavailable) }
    }
}

impl ExchangeState {
    /// Adds the end of the response.
    pub(super) fn end_response(&mut self, cx: &mut ConnResources<'_>) {
        cx.pipes.push(self.pipe, Side::Backend, Message::End(PipeEnd::Complete));
        self.is_response_complete = true;
    }

    /// Returns whether the pipe has room for a message. If not, the connection stops reading.
    pub(super) fn has_room(&mut self, cx: &mut ConnResources<'_>) -> bool {
        self.is_blocked = !cx.pipes.has_room(cx.pool, self.pipe, Side::Backend);
        !self.is_blocked
    }

    /// Adds a part of the content, as much as there is room for. Returns its length.
    pub(super) fn push_data(
        &mut self,
        cx: &mut ConnResources<'_>,
        data: BufRange,
    ) -> Result<usize, NoBuffer> {
        let added = cx.pipes.push_data(cx.pool, self.pipe, Side::Backend, data)?;
        self.is_blocked = added < data.len as usize;
        Ok(added)
    }
}

impl BackendExchange {
    /// Begins an exchange with a server that speaks frames.
    pub(super) fn framed(pipe: PipeId) -> BackendExchange {
        BackendExchange::new(pipe, ProtocolExchange::Framed(FramedExchange::default()))
    }

    /// Begins an exchange with a server that speaks HTTP/1.
    pub(super) fn http1(pipe: PipeId) -> BackendExchange {
        BackendExchange::new(pipe, ProtocolExchange::Http1(Box::default()))
    }

    /// Begins an exchange with a server that speaks FastCGI.
    pub(super) fn fastcgi(pipe: PipeId) -> BackendExchange {
        BackendExchange::new(pipe, ProtocolExchange::FastCgi(Box::default()))
    }

    fn new(pipe: PipeId, protocol: ProtocolExchange) -> BackendExchange {
        let state = ExchangeState {
            pipe,
            is_blocked: false,
            is_request_sent: false,
            has_response_begun: false,
            is_response_complete: false,
            status: 0,
            is_tunnel: false,
            persists: true,
            error_output: None,
        };
        BackendExchange { state, protocol }
    }

    /// Queues a message of the request. If the request may be repeated, copies its head to `repeatable`.
    pub(super) fn queue(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        message: Message,
        repeatable: &mut RepeatableHead,
    ) -> Result<(), ExchangeError> {
        match &mut self.protocol {
            ProtocolExchange::Framed(framed) => framed.queue(cx, out, &mut self.state, message),
            ProtocolExchange::Http1(http1) => http1.queue(cx, out, &mut self.state, message, repeatable),
            ProtocolExchange::FastCgi(fastcgi) => {
                fastcgi.queue(cx, out, &mut self.state, message, repeatable)
            }
        }
    }

    /// Queues as much of a content that was collected as there is room for.
    pub(super) fn queue_collected(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
    ) -> Result<(), ExchangeError> {
        match &mut self.protocol {
            ProtocolExchange::FastCgi(fastcgi) => fastcgi.queue_collected(cx, out, &mut self.state),
            ProtocolExchange::Framed(_) | ProtocolExchange::Http1(_) => Ok(()),
        }
    }

    /// Handles the front of the input. Returns how many bytes it has consumed; 0 if more bytes are needed or the pipe has no room.
    pub(super) fn receive(
        &mut self,
        cx: &mut ConnResources<'_>,
        input: BufRange,
    ) -> Result<usize, ExchangeError> {
        match &mut self.protocol {
            ProtocolExchange::Framed(framed) => framed.receive(cx, &mut self.state, input),
            ProtocolExchange::Http1(http1) => http1.receive(cx, &mut self.state, input),
            ProtocolExchange::FastCgi(fastcgi) => fastcgi.receive(cx, &mut self.state, input),
        }
    }

    /// Returns how many bytes of content follow, and nothing else before them. `None`: unknown.
    pub(super) fn content_left(&self) -> Option<u64> {
        match &self.protocol {
            ProtocolExchange::Http1(http1) => http1.content_left(),
            ProtocolExchange::Framed(_) | ProtocolExchange::FastCgi(_) => None,
        }
    }

    /// Handles content in the first `len` bytes of these buffers.
    pub(super) fn content_received(&mut self, cx: &mut ConnResources<'_>, room: ContentRoom, len: usize) {
        self.state.has_response_begun = true;
        let left = self.content_left().unwrap_or_default();
        // More than the content is no response to a request: the connection closes.
        self.state.persists &= len as u64 <= left;
        let len = left.min(len as u64) as usize;
        room.push(cx.pipes, cx.pool, self.state.pipe, Side::Backend, len);
        self.state.has_room(cx);
        if let ProtocolExchange::Http1(http1) = &mut self.protocol {
            http1.content_passed(cx, &mut self.state, len as u64);
        }
    }

    /// Handles the end of the input. `Err`: the response is incomplete.
    pub(super) fn ended(&mut self, cx: &mut ConnResources<'_>) -> Result<(), ExchangeError> {
        match &mut self.protocol {
            ProtocolExchange::Framed(_) | ProtocolExchange::FastCgi(_) => Err(ExchangeError::INVALID),
            ProtocolExchange::Http1(http1) => http1.ended(cx, &mut self.state),
        }
    }
}

/// Returns whether a request with this method has the same effect if it is repeated. RFC 9110, section 9.2.2.
pub(super) fn is_idempotent(method: &[u8]) -> bool {
    const METHODS: [&[u8]; 6] = [b"GET", b"HEAD", b"OPTIONS", b"PUT", b"DELETE", b"TRACE"];
    METHODS.contains(&method)
}

/// Copies bytes into a buffer for a message.
pub(super) fn copy_to_message(cx: &mut ConnResources<'_>, bytes: BufRange) -> Result<BufRange, NoBuffer> {
    let buf = cx.pool.take_for_response().ok_or(NoBuffer)?;
    Ok(cx.pool.copy(bytes, buf, MESSAGE_ROOM as u32))
}
