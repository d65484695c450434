//! Connections to backends, which make dynamic content.
//!
//! ```text
//!             joins a pipe                       both ends have passed
//!  Idle ────────────────────────▶ Exchange ─────────────────────────────▶ Idle
//!    └ closed, or too old              └ closed, invalid, too slow, or the client has left ─▶ Closed
//! ```
//!
//! A backend connection takes the messages of a request from its pipe and sends them; it adds those of the response. It knows nothing of
//! the client and its protocol.

#[cfg(feature = "sim")]
pub(crate) mod echo;
#[expect(dead_code, unused_imports, reason = "no exchange uses it yet")]
mod fastcgi;
mod frames;
pub(crate) mod servers;
#[cfg(feature = "sim")]
pub(crate) mod sim;

pub use frames::{FRAME_PREFIX_LEN, FrameKind, FramePrefix, InvalidFrame};
pub use servers::{
    BackendProtocol, BackendServers, BackendSettings, ExchangeEnd, FastCgiSettings, HashKey, PathRewrite,
    ServerEvent, ServerId,
};

use crate::{
    BufRange, Close, ConnResources, Input, Need, Tick,
    pipe::{MESSAGE_ROOM, Message, NoBuffer, PipeEnd, PipeId, Side, Unconnected, fields::MessageFields},
    pool::BUF_LEN,
    span::{Outbox, Span},
};
use tarpon_http::status::Status;

/// The name of a backend: its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BackendId(pub u16);

/// A route to a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackendRoute {
    /// The backend.
    pub backend: BackendId,
    /// The limits of its exchanges.
    pub limits: BackendLimits,
}

/// The limits of exchanges with a backend. Times are in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackendLimits {
    /// The maximum length of the content of a request, in bytes.
    pub content_len_max: u64,
    /// The time in which a client must send content: at least `min_content_rate` on average, or all of it.
    pub content_window_ms: u64,
    /// The minimum number of bytes of content per second that a client must send. 0 means at least one byte in the window.
    pub min_content_rate: u32,
    /// The time from the start of an exchange on a connection to the first byte of its response, while the client does not delay it.
    pub first_byte_ms: u64,
    /// The time in which the backend must take more of a request, or send more of its response.
    pub response_ms: u64,
    /// The time for the whole exchange.
    pub total_ms: u64,
    /// The time after which a tunnel closes on which nothing passes.
    pub tunnel_ms: u64,
    /// The time after which an idle connection to the backend closes. 0: a connection carries one exchange.
    pub idle_ms: u64,
    /// The maximum number of exchanges on a connection.
    pub requests_max: u32,
    /// How often an exchange is repeated whose server could not be reached, or whose connection closed before the response, if that is safe.
    pub retries_max: u8,
}

impl Default for BackendLimits {
    /// As nginx: 1 MiB of content, and a minute for a program to compute. As HAProxy's manual advises: an hour for a silent tunnel. Servers close idle connections after some seconds, and a request
    /// that crosses the close fails, so this side closes first.
    fn default() -> BackendLimits {
        BackendLimits {
            content_len_max: 1024 * 1024,
            content_window_ms: 30_000,
            min_content_rate: 500,
            first_byte_ms: 60_000,
            response_ms: 60_000,
            total_ms: u64::MAX,
            tunnel_ms: 3_600_000,
            idle_ms: 4_000,
            requests_max: u32::MAX,
            retries_max: 2,
        }
    }
}

impl BackendLimits {
    /// Returns the minimum number of bytes that a client must send in `content_window_ms`.
    pub(crate) fn content_len_min(&self) -> u64 {
        (u64::from(self.min_content_rate).saturating_mul(self.content_window_ms) / 1_000).max(1)
    }
}

/// A connection to a backend.
#[derive(Debug)]
pub(crate) struct BackendConnection {
    number: u32,
    server: ServerId,
    limits: BackendLimits,
    phase: BackendPhase,
    deadline: Tick,
    /// The server stops: the connection closes when it is idle.
    is_stopping: bool,
}

#[derive(Debug)]
enum BackendPhase {
    /// Waits for an exchange.
    Idle,
    Exchange(BackendExchange),
    Closed,
}

/// The state of an exchange.
#[derive(Debug)]
struct BackendExchange {
    pipe: PipeId,
    /// The end of the request is in the outbox or sent.
    is_request_sent: bool,
    response: ResponsePart,
    /// The rest of the data frame that is being received, in bytes.
    data_left: u32,
    /// The pipe has no room, so the connection does not read.
    is_blocked: bool,
}

/// The part of the response that the connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResponsePart {
    Head,
    Content,
    /// Trailers have passed; the end follows.
    End,
    /// The end has passed.
    Nothing,
}

/// The exchange cannot go on. The response of the client has this status if it has not begun.
struct ExchangeError(Status);

impl From<NoBuffer> for ExchangeError {
    fn from(NoBuffer: NoBuffer) -> ExchangeError {
        ExchangeError(Status::ServiceUnavailable)
    }
}

impl From<InvalidFrame> for ExchangeError {
    fn from(InvalidFrame: InvalidFrame) -> ExchangeError {
        ExchangeError(Status::BadGateway)
    }
}

impl BackendConnection {
    /// Creates the state of a connection that joins a pipe.
    pub(crate) fn new(
        cx: &mut ConnResources<'_>,
        number: u32,
        Unconnected { pipe, route, server, .. }: Unconnected,
    ) -> BackendConnection {
        cx.pipes.note(server, ServerEvent::Opened);
        let mut connection = BackendConnection {
            number,
            server,
            limits: route.limits,
            phase: BackendPhase::Idle,
            deadline: Tick::NEVER,
            is_stopping: false,
        };
        connection.begin(cx, pipe);
        connection
    }

    fn begin(&mut self, cx: &mut ConnResources<'_>, pipe: PipeId) {
        cx.pipes.join(pipe, self.number);
        self.deadline = cx.now.after(self.limits.response_ms);
        self.phase = BackendPhase::Exchange(BackendExchange {
            pipe,
            is_request_sent: false,
            response: ResponsePart::Head,
            data_left: 0,
            is_blocked: false,
        });
    }

    /// Handles messages that the client has added, or room that it has made.
    pub(crate) fn woken(&mut self, cx: &mut ConnResources<'_>, out: &mut Outbox) {
        if let BackendPhase::Idle = self.phase
            && let Some(pipe) = cx.pipes.idle().take_assigned(self.number)
        {
            self.begin(cx, pipe);
        } else if let BackendPhase::Idle = self.phase {
            // The pipe closed before this connection joined it.
            cx.pipes.idle().remove(self.number);
            cx.pipes.note(self.server, ServerEvent::IdleEnded);
            self.become_idle(cx);
        }
        if let BackendPhase::Exchange(exchange) = &mut self.phase {
            exchange.is_blocked = !cx.pipes.has_room(exchange.pipe, Side::Backend);
            if cx.pipes.has_other_left(exchange.pipe, Side::Backend) {
                return self.abort(cx, Status::BadGateway);
            }
        }
        self.fill(cx, out);
    }

    /// Handles the event that bytes of the outbox have been sent.
    #[inline(never)]
    pub(crate) fn sent(&mut self, cx: &mut ConnResources<'_>, out: &mut Outbox) {
        self.deadline = cx.now.after(self.limits.response_ms);
        self.fill(cx, out);
    }

    /// Queues the messages of the request.
    fn fill(&mut self, cx: &mut ConnResources<'_>, out: &mut Outbox) {
        let BackendPhase::Exchange(exchange) = &mut self.phase else { return };
        while out.has_room(1)
            && let Some(message) = cx.pipes.pop(exchange.pipe, Side::Backend)
        {
            match message {
                Message::Head(bytes) => queue_frame(cx, out, FrameKind::Head, bytes),
                Message::Interim(bytes) | Message::Redirect(bytes) => {
                    // No client sends one.
                    cx.pool.release(bytes.buf);
                }
                Message::Data(bytes) => queue_frame(cx, out, FrameKind::Data, bytes),
                Message::Trailers(bytes) => queue_frame(cx, out, FrameKind::Trailers, bytes),
                Message::End(PipeEnd::Complete) => {
                    let Some(buf) = cx.pool.take_for_response() else {
                        return self.abort(cx, Status::ServiceUnavailable);
                    };
                    let end = BufRange { buf, at: MESSAGE_ROOM as u32, len: 0 };
                    queue_frame(cx, out, FrameKind::End, end);
                    exchange.is_request_sent = true;
                }
                Message::End(PipeEnd::Aborted(status)) => return self.abort(cx, status),
            }
        }
        self.end_if_complete(cx);
    }

    /// Handles input. Returns how many bytes the connection consumed.
    #[inline(never)]
    pub(crate) fn received(&mut self, cx: &mut ConnResources<'_>, input: BufRange) -> usize {
        let mut used = 0;
        while used < input.len as usize {
            let BackendPhase::Exchange(exchange) = &mut self.phase else {
                // A backend that speaks without a request is out of step.
                self.abort(cx, Status::BadGateway);
                return input.len as usize;
            };
            match exchange.receive(cx, input.skip(used)) {
                Ok(0) => break,
                Ok(len) => used += len,
                Err(ExchangeError(status)) => {
                    self.abort(cx, status);
                    return input.len as usize;
                }
            }
            self.end_if_complete(cx);
        }
        if used > 0 && !matches!(self.phase, BackendPhase::Idle) {
            self.deadline = cx.now.after(self.limits.response_ms);
        }
        used
    }

    /// Ends the exchange if request and response have passed.
    fn end_if_complete(&mut self, cx: &mut ConnResources<'_>) {
        if let BackendPhase::Exchange(exchange) = &self.phase
            && exchange.response == ResponsePart::Nothing
        {
            let (pipe, is_request_sent) = (exchange.pipe, exchange.is_request_sent);
            cx.pipes.leave(cx.pool, pipe, Side::Backend);
            match is_request_sent {
                true => self.become_idle(cx),
                // The backend has responded early. The rest of the request does not arrive, so the connection cannot be used again.
                false => self.close(),
            }
        }
    }

    fn become_idle(&mut self, cx: &mut ConnResources<'_>) {
        let is_wanted =
            !self.is_stopping && self.limits.idle_ms > 0 && cx.pipes.add_idle(self.server, self.number);
        if !is_wanted {
            return self.close();
        }
        self.phase = BackendPhase::Idle;
        self.deadline = cx.now.after(self.limits.idle_ms);
    }

    /// Handles the end of the input.
    pub(crate) fn ended(&mut self, cx: &mut ConnResources<'_>) {
        self.abort(cx, Status::BadGateway);
    }

    /// Handles an end of the input that the server has not announced by the alert of TLS. A response that ends with the connection is cut off.
    pub(crate) fn cut(&mut self, cx: &mut ConnResources<'_>) {
        self.abort(cx, Status::BadGateway);
    }

    /// Handles the end of the deadline.
    pub(crate) fn expired(&mut self, cx: &mut ConnResources<'_>, out: &Outbox) {
        let waits_for_client = match &self.phase {
            BackendPhase::Exchange(exchange) => {
                exchange.is_blocked || out.is_empty() && !exchange.is_request_sent
            }
            BackendPhase::Idle | BackendPhase::Closed => false,
        };
        match waits_for_client {
            // The client has deadlines of its own.
            true => self.deadline = cx.now.after(self.limits.response_ms),
            false => self.abort(cx, Status::GatewayTimeout),
        }
    }

    /// Closes the connection when it is idle.
    pub(crate) fn stop(&mut self, cx: &mut ConnResources<'_>) {
        self.is_stopping = true;
        if let BackendPhase::Idle = self.phase {
            self.abort(cx, Status::ServiceUnavailable);
        }
    }

    /// Ends the exchange with this status, and closes the connection.
    pub(crate) fn abort(&mut self, cx: &mut ConnResources<'_>, status: Status) {
        match &self.phase {
            BackendPhase::Exchange(BackendExchange { pipe, response, .. }) => {
                if *response != ResponsePart::Nothing {
                    cx.pipes.push(*pipe, Side::Backend, Message::End(PipeEnd::Aborted(status)));
                }
                cx.pipes.leave(cx.pool, *pipe, Side::Backend);
            }
            BackendPhase::Idle => {
                if let Some(pipe) = cx.pipes.idle().remove(self.number) {
                    // It closed before it could take the request.
                    cx.pipes.reconnect(pipe);
                }
            }
            BackendPhase::Closed => {}
        }
        self.close();
    }

    fn close(&mut self) {
        self.phase = BackendPhase::Closed;
        self.deadline = Tick::NEVER;
    }

    pub(crate) fn closed(&mut self, cx: &mut ConnResources<'_>) {
        self.abort(cx, Status::BadGateway);
    }

    pub(crate) fn need(&self) -> Need {
        const READ: Input = Input::Bytes { max: BUF_LEN as u32 };
        match &self.phase {
            BackendPhase::Exchange(exchange) if exchange.is_blocked => {
                Need { input: Input::Pause, close: Close::No }
            }
            BackendPhase::Exchange(_) | BackendPhase::Idle => Need { input: READ, close: Close::No },
            BackendPhase::Closed => Need { input: Input::Pause, close: Close::Both },
        }
    }

    pub(crate) fn deadline(&self) -> Tick {
        self.deadline
    }

    /// Returns whether an exchange is in progress: its pipe may hold buffers.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self.phase, BackendPhase::Exchange(_))
    }
}

impl BackendExchange {
    /// Handles the front of the input. Returns how many bytes it has consumed; 0 if a frame is incomplete or the pipe has no room.
    fn receive(&mut self, cx: &mut ConnResources<'_>, input: BufRange) -> Result<usize, ExchangeError> {
        if self.data_left > 0 {
            let len = self.data_left.min(input.len);
            let added = cx.pipes.push_data(cx.pool, self.pipe, Side::Backend, BufRange { len, ..input })?;
            self.data_left -= added as u32;
            self.is_blocked = added < len as usize;
            return Ok(added);
        }
        let bytes = cx.pool.bytes(input);
        let Some(FramePrefix { kind, len }) = FramePrefix::decode(bytes)? else { return Ok(0) };
        if kind == FrameKind::Abort {
            return receive_abort(&bytes[FRAME_PREFIX_LEN..], len);
        }
        let next = match (kind, self.response) {
            (FrameKind::Interim, ResponsePart::Head) => ResponsePart::Head,
            (FrameKind::Head, ResponsePart::Head) => ResponsePart::Content,
            (FrameKind::Redirect, ResponsePart::Head) => ResponsePart::Nothing,
            (FrameKind::Data, ResponsePart::Content) => ResponsePart::Content,
            (FrameKind::Trailers, ResponsePart::Content) => ResponsePart::End,
            (FrameKind::End, ResponsePart::Content | ResponsePart::End) => ResponsePart::Nothing,
            _ => return Err(ExchangeError(Status::BadGateway)),
        };
        if kind == FrameKind::Data {
            self.data_left = len;
            return Ok(FRAME_PREFIX_LEN);
        }
        let frame_len = FRAME_PREFIX_LEN + len as usize;
        if bytes.len() < frame_len {
            return Ok(0);
        }
        if kind == FrameKind::End {
            cx.pipes.push(self.pipe, Side::Backend, Message::End(PipeEnd::Complete));
        } else {
            MessageFields::parse(&bytes[FRAME_PREFIX_LEN..frame_len]).ok_or(InvalidFrame)?;
            self.is_blocked = !cx.pipes.has_room(self.pipe, Side::Backend);
            if self.is_blocked {
                return Ok(0);
            }
            let list = BufRange { len, ..input.skip(FRAME_PREFIX_LEN) };
            let list = copy_to_message(cx, list)?;
            let message = match kind {
                FrameKind::Interim => Message::Interim(list),
                FrameKind::Trailers => Message::Trailers(list),
                FrameKind::Redirect => Message::Redirect(list),
                _ => Message::Head(list),
            };
            cx.pipes.push(self.pipe, Side::Backend, message);
            if kind == FrameKind::Redirect {
                cx.pipes.push(self.pipe, Side::Backend, Message::End(PipeEnd::Complete));
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
    Err(ExchangeError(code.and_then(Status::from_code).unwrap_or(Status::BadGateway)))
}

/// Copies bytes into a buffer for a message.
fn copy_to_message(cx: &mut ConnResources<'_>, bytes: BufRange) -> Result<BufRange, NoBuffer> {
    let buf = cx.pool.take_for_response().ok_or(NoBuffer)?;
    Ok(cx.pool.copy(bytes, buf, MESSAGE_ROOM as u32))
}

/// Queues the bytes of a message as a frame.
fn queue_frame(cx: &mut ConnResources<'_>, out: &mut Outbox, kind: FrameKind, bytes: BufRange) {
    let frame = cx.pool.prepend(bytes, &FramePrefix { kind, len: bytes.len }.encode());
    out.push(cx.sites, Span::Buf(frame));
}
