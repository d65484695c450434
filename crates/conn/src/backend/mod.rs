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
//!
//! | file | what |
//! |---|---|
//! | `servers` | the servers of backends, and which of them gets an exchange |
//! | `exchange` | the state of an exchange, whatever its protocol |
//! | `framed`, `frames` | backends that run in this program or beside it |
//! | `http1/` | servers that speak HTTP/1.1 |
//! | `fastcgi/` | servers that speak FastCGI |
//! | `report` | why an exchange has failed, for the log |

#[cfg(feature = "sim")]
pub(crate) mod echo;
mod exchange;
mod fastcgi;
mod framed;
mod frames;
pub(crate) mod http1;
mod report;
pub(crate) mod servers;
#[cfg(feature = "sim")]
pub(crate) mod sim;

pub use fastcgi::{ERROR_LINE_LEN_MAX, FastCgiResponseError};
pub use frames::{FRAME_PREFIX_LEN, FrameKind, FramePrefix, InvalidFrame, REQUEST_FRAME_LEN_MAX};
pub use report::{FailureReason, REPORTED_REQUEST_LEN_MAX, ServerReport};
pub use servers::{
    BackendProtocol, BackendServers, BackendSettings, FastCgiSettings, HashKey, PathRewrite, ServerEvent,
    ServerId, ServerOutcome,
};

use crate::{
    Close, ConnResources, Input, Need, Tick,
    pipe::{MESSAGE_ROOM, Message, NoBuffer, PipeEnd, PipeId, Side, Unconnected, content::ContentRoom},
    pool::BufRange,
    span::Outbox,
    transport::{TlsFailed, TlsFailure},
};
use exchange::{BackendExchange, ExchangeError, RepeatableHead};
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

/// Less content than this, in bytes, is read as other input: buffers of its own would not pay.
const CONTENT_LEN_MIN: u64 = 4 * 1024;

/// A connection to a backend.
#[derive(Debug)]
pub(crate) struct BackendConnection {
    number: u32,
    server: ServerId,
    limits: BackendLimits,
    phase: BackendPhase,
    /// The end of the wait for progress.
    deadline: Tick,
    /// The end of the exchange, whatever its progress.
    total_deadline: Tick,
    /// The exchanges so far.
    exchange_count: u32,
    repeatable: RepeatableHead,
    /// The method and the path of the request, for the log.
    request: Vec<u8>,
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
            total_deadline: Tick::NEVER,
            exchange_count: 0,
            repeatable: Vec::new(),
            request: Vec::new(),
            is_stopping: false,
        };
        connection.begin(cx, pipe);
        connection
    }

    fn begin(&mut self, cx: &mut ConnResources<'_>, pipe: PipeId) {
        cx.pipes.join(pipe, self.number);
        cx.pipes.note(self.server, ServerEvent::ExchangeBegan);
        let route = cx.pipes.route_of(pipe);
        self.limits = route.limits;
        self.exchange_count += 1;
        self.repeatable.clear();
        self.total_deadline = cx.now.after(self.limits.total_ms);
        self.phase = BackendPhase::Exchange(match cx.pipes.protocol(route.backend) {
            BackendProtocol::Frames => BackendExchange::framed(pipe),
            BackendProtocol::Http1 => BackendExchange::http1(pipe),
            BackendProtocol::FastCgi => BackendExchange::fastcgi(pipe),
        });
        self.progressed(cx);
    }

    /// Handles messages that the client has added, or room that it has made.
    pub(crate) fn woken(&mut self, cx: &mut ConnResources<'_>, out: &mut Outbox) {
        if let BackendPhase::Idle = self.phase {
            let assigned = cx.pipes.idle().take_assigned(self.number);
            cx.pipes.note(self.server, ServerEvent::IdleEnded);
            match assigned {
                Some(pipe) => self.begin(cx, pipe),
                // The pipe closed before this connection joined it.
                None => {
                    cx.pipes.idle().remove(self.number);
                    self.become_idle(cx);
                }
            }
        }
        if let BackendPhase::Exchange(BackendExchange { state, .. }) = &mut self.phase {
            state.is_blocked = !cx.pipes.has_room(cx.pool, state.pipe, Side::Backend);
            if cx.pipes.has_other_left(state.pipe, Side::Backend) {
                return self.abort(cx, Status::BadGateway);
            }
        }
        self.fill(cx, out);
    }

    /// Handles the event that bytes of the outbox have been sent.
    #[inline(never)]
    pub(crate) fn sent(&mut self, cx: &mut ConnResources<'_>, out: &mut Outbox) {
        self.progressed(cx);
        self.fill(cx, out);
    }

    /// Queues the messages of the request.
    fn fill(&mut self, cx: &mut ConnResources<'_>, out: &mut Outbox) {
        let BackendPhase::Exchange(exchange) = &mut self.phase else { return };
        if let Err(error) = exchange.queue_collected(cx, out) {
            return self.fail(cx, error);
        }
        while out.has_room_for_message(cx.pool)
            && let Some(message) = cx.pipes.pop(cx.pool, exchange.state.pipe, Side::Backend)
        {
            if let (Message::Head(list), Some(_)) = (message, self.server.upstream_number()) {
                report::write_request(cx.pool.bytes(list), &mut self.request);
            }
            let queued = match message {
                Message::End(PipeEnd::Aborted(status)) => Err(ExchangeError::here(status)),
                message => exchange.queue(cx, out, message, &mut self.repeatable),
            };
            if let Err(error) = queued {
                return self.fail(cx, error);
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
            exchange.state.has_response_begun = true;
            let received = exchange.receive(cx, input.skip(used));
            if exchange.state.error_output.is_some() {
                self.report_error_output(cx, false);
            }
            match received {
                Ok(0) => break,
                Ok(len) => used += len,
                Err(error) => {
                    self.fail(cx, error);
                    return input.len as usize;
                }
            }
            self.end_if_complete(cx);
        }
        if used > 0 && matches!(self.phase, BackendPhase::Exchange(_)) {
            self.progressed(cx);
        }
        used
    }

    /// Takes buffers for content.
    pub(crate) fn content_room(&mut self, cx: &mut ConnResources<'_>) -> Option<ContentRoom> {
        let BackendPhase::Exchange(exchange) = &mut self.phase else { return None };
        // The pipe may have less room than before: the pool has fewer free buffers.
        if !exchange.state.has_room(cx) {
            return None;
        }
        // One byte more shows whether the server sends more than the content.
        let len = exchange.content_left()?.saturating_add(1);
        let room = ContentRoom::take(cx.pipes, cx.pool, exchange.state.pipe, Side::Backend, len);
        if room.is_none() {
            self.fail(cx, NoBuffer.into());
        }
        room
    }

    /// Handles content in the first `len` bytes of these buffers.
    pub(crate) fn content_received(&mut self, cx: &mut ConnResources<'_>, room: ContentRoom, len: usize) {
        let BackendPhase::Exchange(exchange) = &mut self.phase else { return room.release(cx.pool) };
        if len == 0 {
            return room.release(cx.pool);
        }
        exchange.content_received(cx, room, len);
        self.end_if_complete(cx);
        self.progressed(cx);
    }

    /// Moves the end of the wait for progress.
    fn progressed(&mut self, cx: &mut ConnResources<'_>) {
        let BackendLimits { first_byte_ms, response_ms, tunnel_ms, idle_ms, .. } = self.limits;
        self.deadline = cx.now.after(match &self.phase {
            BackendPhase::Exchange(BackendExchange { state, .. }) if state.is_tunnel => tunnel_ms,
            BackendPhase::Exchange(BackendExchange { state, .. }) if state.status == 0 => first_byte_ms,
            BackendPhase::Exchange(_) => response_ms,
            BackendPhase::Idle => idle_ms,
            BackendPhase::Closed => u64::MAX,
        });
    }

    /// Ends the exchange if request and response have passed.
    fn end_if_complete(&mut self, cx: &mut ConnResources<'_>) {
        let BackendPhase::Exchange(BackendExchange { state, .. }) = &self.phase else { return };
        if !state.is_response_complete {
            return;
        }
        // If the backend has responded early, the rest of the request does not arrive, and the connection cannot be used again.
        let persists = state.persists && state.is_request_sent;
        let (pipe, end) = (state.pipe, ServerOutcome::Responded(state.status));
        if state.error_output.is_some() {
            self.report_error_output(cx, true);
        }
        cx.pipes.leave(cx.pool, pipe, Side::Backend);
        cx.pipes.note(self.server, ServerEvent::ExchangeEnded(end));
        match persists {
            true => self.become_idle(cx),
            false => self.close(),
        }
    }

    fn become_idle(&mut self, cx: &mut ConnResources<'_>) {
        let BackendLimits { idle_ms, requests_max, .. } = self.limits;
        let is_wanted = !self.is_stopping
            && idle_ms > 0
            && self.exchange_count < requests_max
            && cx.pipes.add_idle(self.server, self.number);
        if !is_wanted {
            return self.close();
        }
        self.phase = BackendPhase::Idle;
        self.total_deadline = Tick::NEVER;
        self.progressed(cx);
    }

    /// Handles the end of the input.
    pub(crate) fn ended(&mut self, cx: &mut ConnResources<'_>) {
        let BackendPhase::Exchange(exchange) = &mut self.phase else {
            return self.abort(cx, Status::BadGateway);
        };
        match exchange.ended(cx) {
            Ok(()) => self.end_if_complete(cx),
            Err(error) => {
                let reason =
                    Some(FailureReason::closed(exchange.state.has_response_begun, exchange.state.status));
                self.fail(cx, ExchangeError { reason, ..error });
            }
        }
    }

    /// Handles an end of the input that the server has not announced by the alert of TLS, or a failure of TLS. A response that ends with the
    /// connection is cut off.
    pub(crate) fn cut(&mut self, cx: &mut ConnResources<'_>, TlsFailed { failure, detail }: &TlsFailed) {
        let reason = match &self.phase {
            BackendPhase::Exchange(BackendExchange { state, .. })
                if *failure == TlsFailure::NoClosingAlert && state.status == 0 =>
            {
                FailureReason::closed(state.has_response_begun, 0)
            }
            _ => FailureReason::Tls(*failure),
        };
        self.fail_with(cx, ExchangeError::invalid(reason), detail.as_bytes());
    }

    /// Handles the end of the deadline.
    pub(crate) fn expired(&mut self, cx: &mut ConnResources<'_>, out: &Outbox) {
        let waits_for_client = match &self.phase {
            BackendPhase::Exchange(BackendExchange { state, .. }) => {
                !state.is_tunnel && (state.is_blocked || out.is_empty() && !state.is_request_sent)
            }
            BackendPhase::Idle | BackendPhase::Closed => false,
        };
        match waits_for_client && cx.now < self.total_deadline {
            // The client has deadlines of its own.
            true => self.progressed(cx),
            false => {
                if let BackendPhase::Exchange(BackendExchange { state, .. }) = &self.phase
                    && !state.is_tunnel
                {
                    let (is_total, status) = (cx.now >= self.total_deadline, state.status);
                    let reason = FailureReason::timed_out(&self.limits, is_total, status, !out.is_empty());
                    self.report_failure(cx, reason, b"");
                }
                self.end_exchange(cx, Status::GatewayTimeout, ServerOutcome::TimedOut);
            }
        }
    }

    /// Closes the connection when it is idle.
    pub(crate) fn stop(&mut self, cx: &mut ConnResources<'_>) {
        self.is_stopping = true;
        if let BackendPhase::Idle = self.phase {
            self.abort(cx, Status::ServiceUnavailable);
        }
    }

    /// Ends an exchange that cannot go on, or has it repeated on another connection.
    fn fail(&mut self, cx: &mut ConnResources<'_>, error: ExchangeError) {
        self.fail_with(cx, error, b"");
    }

    /// As [`fail`](BackendConnection::fail). `detail`: what the server has sent about the reason.
    fn fail_with(&mut self, cx: &mut ConnResources<'_>, error: ExchangeError, detail: &[u8]) {
        let ExchangeError { status, is_of_server, reason } = error;
        // An idle connection or a tunnel may end in any way.
        let is_usual = match &self.phase {
            BackendPhase::Exchange(BackendExchange { state, .. }) => state.is_tunnel,
            BackendPhase::Idle | BackendPhase::Closed => true,
        };
        let is_repeated = is_of_server && self.repeat(cx);
        // A server may close an idle connection at any time: a repetition is no news.
        let is_expected = is_usual || is_repeated && self.exchange_count > 1;
        if let Some(reason) = reason.filter(|_| !is_expected) {
            self.report_failure(cx, reason, detail);
        }
        if is_repeated {
            return self.close();
        }
        let end = if is_of_server { ServerOutcome::Failed } else { ServerOutcome::Abandoned };
        self.end_exchange(cx, status, end);
    }

    #[cold]
    fn report_failure(&mut self, cx: &mut ConnResources<'_>, reason: FailureReason, detail: &[u8]) {
        // The output of the program may tell more, and comes first.
        self.report_error_output(cx, true);
        cx.pipes.report(self.server, ServerReport::Failed { reason, detail, request: &self.request });
    }

    /// Reports the lines that the program has written to its standard error. `is_end`: also a last one without an end.
    #[cold]
    fn report_error_output(&mut self, cx: &mut ConnResources<'_>, is_end: bool) {
        let BackendPhase::Exchange(BackendExchange { state, .. }) = &mut self.phase else { return };
        let Some(output) = &mut state.error_output else { return };
        if is_end {
            output.finish();
        }
        for line in output.take() {
            cx.pipes.report(self.server, ServerReport::ErrorOutput { line: &line, request: &self.request });
        }
    }

    /// Has the exchange repeated on another connection, if that is safe: the method is idempotent, the whole request is kept, and the client
    /// has received nothing. RFC 9110, section 9.2.2. Returns whether it is.
    fn repeat(&mut self, cx: &mut ConnResources<'_>) -> bool {
        let BackendPhase::Exchange(BackendExchange { state, .. }) = &self.phase else { return false };
        let is_safe = !self.repeatable.is_empty() && !state.has_response_begun && state.is_request_sent;
        if !is_safe {
            return false;
        }
        // A new connection to the same server may do, if that has closed this one while it was idle.
        let excluded = (self.exchange_count == 1).then_some(self.server);
        let pipe = state.pipe;
        if !cx.pipes.may_repeat(pipe, excluded, cx.now) {
            return false;
        }
        let Some(buf) = cx.pool.take_for_response() else { return false };
        cx.pool.buf_mut(buf)[MESSAGE_ROOM..][..self.repeatable.len()].copy_from_slice(&self.repeatable);
        let head = BufRange { buf, at: MESSAGE_ROOM as u32, len: self.repeatable.len() as u32 };
        cx.pipes.repeat(pipe, Message::Head(head));
        let end = if excluded.is_some() { ServerOutcome::Failed } else { ServerOutcome::Abandoned };
        cx.pipes.note(self.server, ServerEvent::ExchangeEnded(end));
        self.phase = BackendPhase::Closed;
        true
    }

    /// Ends the exchange with this status, and closes the connection.
    pub(crate) fn abort(&mut self, cx: &mut ConnResources<'_>, status: Status) {
        self.end_exchange(cx, status, ServerOutcome::Abandoned);
    }

    fn end_exchange(&mut self, cx: &mut ConnResources<'_>, status: Status, end: ServerOutcome) {
        match &self.phase {
            BackendPhase::Exchange(BackendExchange { state, .. }) => {
                if !state.is_response_complete {
                    cx.pipes.push(state.pipe, Side::Backend, Message::End(PipeEnd::Aborted(status)));
                }
                cx.pipes.leave(cx.pool, state.pipe, Side::Backend);
                cx.pipes.note(self.server, ServerEvent::ExchangeEnded(end));
            }
            BackendPhase::Idle => {
                cx.pipes.note(self.server, ServerEvent::IdleEnded);
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
        (self.deadline, self.total_deadline) = (Tick::NEVER, Tick::NEVER);
    }

    pub(crate) fn closed(&mut self, cx: &mut ConnResources<'_>) {
        if let BackendPhase::Exchange(_) = &self.phase {
            // The socket has failed, or the server has stopped.
            let reason = (!self.is_stopping).then_some(FailureReason::Broken);
            self.fail(cx, ExchangeError { reason, ..ExchangeError::INVALID });
        }
        self.abort(cx, Status::BadGateway);
        cx.pipes.note(self.server, ServerEvent::Closed);
    }

    pub(crate) fn need(&self, out: &Outbox) -> Need {
        match &self.phase {
            BackendPhase::Exchange(exchange) => {
                let state = &exchange.state;
                let input = match exchange.content_left() {
                    _ if state.is_blocked => Input::Pause,
                    Some(CONTENT_LEN_MIN..) => Input::Content,
                    _ => Input::Bytes,
                };
                // The client of a tunnel sends no more.
                let is_half_closed = state.is_tunnel && state.is_request_sent && out.is_empty();
                Need { input, close: if is_half_closed { Close::Write } else { Close::No } }
            }
            BackendPhase::Idle => Need { input: Input::Bytes, close: Close::No },
            BackendPhase::Closed => Need { input: Input::Pause, close: Close::Both },
        }
    }

    pub(crate) fn deadline(&self) -> Tick {
        self.deadline.min(self.total_deadline)
    }

    /// Returns the pipe of the exchange in progress.
    pub(crate) fn pipe(&self) -> Option<PipeId> {
        match &self.phase {
            BackendPhase::Exchange(BackendExchange { state, .. }) => Some(state.pipe),
            BackendPhase::Idle | BackendPhase::Closed => None,
        }
    }
}
