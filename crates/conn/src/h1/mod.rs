//! HTTP/1.0 and HTTP/1.1 on one connection. RFC 9112.
//!
//! ```text
//!          head, no content                         last response sent
//!  Head ──────────────────────▶ Head  …  LastResponse ──────────────────▶ Closed
//!    ├─ head with content ──▶ Content ─ all dropped ─▶ Head   │
//!    └─ refused, or the last ─────────────────▶ LastResponse  └▶ Lingering ─ end of input, time-out ─▶ Closed
//! ```
//!
//! A phase is named for what it waits for. Responses are queued whole, so pipelined requests are answered in order while earlier responses
//! leave.
//!
//! | file | what |
//! |---|---|
//! | `ready` | the usual exchange |
//! | `exchange` | begins an exchange: parse, route, plan, admit, emit |
//! | `request` | makes a request of a head |
//! | `proxy_header` | reads the PROXY header before the first request |
//! | `emit` | queues a response |
//! | `piped` | an exchange with a backend |
//! | `function` | an exchange with a function that the worker calls |
//! | `paced` | a response that leaves at a limited rate |
//! | `request_content` | the content of a request |
//! | `recorded_responses` | ends the recorded exchanges whose responses were sent |

mod emit;
mod exchange;
mod function;
mod paced;
mod piped;
mod proxy_header;
mod ready;
mod recorded_responses;
mod request;
mod request_content;

pub(crate) use piped::counted_as;
pub(crate) use request::request;
pub use request_content::CONTENT_LEN_MAX;

use crate::{
    BufRange, Close, ConnResources, DriveState, DriveStep, Input, Limits, Need, Tick, TlsSession,
    client_finder::ClientFinder,
    h2::Http2,
    passwords::{PasswordCheck, PasswordJob},
    plan::Plan,
    record::{AcceptedClient, ExchangeStart, HttpVersions},
    request::Client,
    sites::{MissingPage, SiteId},
    span::{Outbox, Span},
};
use function::FunctionPhase;
use paced::PacedResponse;
use piped::{OpenPipe, PipedExchange};
use recorded_responses::RecordedResponses;
use request_content::{InvalidContent, RequestContent};
use std::mem;
use tarpon_http::{head::Version, status::Status};
use tarpon_site::Region;

#[derive(Debug)]
pub(crate) struct Http1 {
    finder: ClientFinder,
    /// Set when the transport has completed its handshake.
    tls: Option<TlsSession>,
    /// Every request is for the first site, which answers it: no route, redirect or challenge depends on the request.
    has_only_site: bool,
    /// Some of its paths have limits of clients.
    has_path_limits: bool,
    phase: Http1Phase,
    /// The pipe of the exchange with a backend. The connection leaves it when the exchange ends or the connection closes.
    pipe: Option<OpenPipe>,
    /// Bytes at the front of the inbox in which no head was complete: they are not parsed again before another line ends. More than 0:
    /// a head has begun.
    incomplete_len: u32,
    /// When the head or the content being received must be complete. `None`: neither has begun, and it is not the first head.
    receive_by: Option<Tick>,
    deadline: Tick,
    /// Bytes sent, of all responses.
    sent_len: u64,
    /// The bytes that the client had received at the last deadline for output, as its transport counts them.
    acknowledged_len: u64,
    /// Requests whose heads were parsed.
    request_count: u32,
    /// The number of the last request that has passed the limits of clients: it may wait for room, and is offered again.
    limited_count: u32,
    /// The site whose limits apply: that of the last request.
    site: SiteId,
    /// Responses queued since the outbox was empty.
    queued_count: u32,
    /// When the request for the first of them had arrived.
    queued_since_us: u64,
    /// Those of them that are recorded and not sent whole.
    recorded: RecordedResponses,
    ending: Ending,
    blocked: Blocked,
    /// The password that the head in the inbox waits for.
    password_check: PasswordCheck,
}

#[derive(Debug)]
enum Http1Phase {
    /// Waits for a PROXY header, before the first head.
    ProxyHeader,
    /// Waits for a head, or for the rest of one.
    Head,
    /// The first bytes are the preface of HTTP/2, or must be: the connection changes to it.
    Preface,
    /// Waits for the rest of a request's content, which is dropped.
    Content(RequestContent),
    /// Waits for the content of a request or for its response, which pass through a pipe.
    Piped(Box<PipedExchange>),
    /// Waits for the rest of a request to a function of this worker, or for room for the rest of its response.
    Function(Box<FunctionPhase>),
    /// Waits until more of a response may leave.
    Paced(Box<PacedResponse>),
    /// Waits until the last response has been sent. No more input is parsed. `linger`: the client may send more, and closing now could
    /// reset the connection before the client has read the response.
    LastResponse {
        linger: bool,
    },
    /// As `LastResponse`, and the client has closed its sending side.
    LastResponseAfterEnd,
    /// Waits until the client closes too, and drops its input. RFC 9112, section 9.6.
    Lingering {
        /// The end of the wait, however much the client sends.
        by: Tick,
    },
    Closed,
}

/// Whether the connection accepts more requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    No,
    /// The next response is the last, and says so: another server takes over.
    Draining,
    /// No exchange begins but the one whose head has begun: the server stops.
    Stopping,
}

/// What the head in the inbox waits for, besides its own bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blocked {
    No,
    /// Room for this many spans in the outbox.
    Room(usize),
    /// A page of an image.
    Page(MissingPage),
    /// A password that another thread verifies.
    Password,
}

/// How long a closing connection waits for a silent client to close, in milliseconds: a long round trip. A client that still sends, as it
/// has not read the response, gets the time for content.
const LINGER_MS: u64 = 2_000;

impl Http1 {
    pub(crate) fn new(cx: &ConnResources<'_>, accepted: AcceptedClient) -> Http1 {
        let site = cx.sites.fallback(accepted.routes);
        let by = cx.now.after(cx.sites.limits(site).head_ms);
        let mut http = Http1 {
            finder: ClientFinder::new(cx.sites.proxy_trust(), accepted),
            tls: None,
            has_only_site: cx.sites.has_only_site(accepted.has_tls),
            has_path_limits: cx.sites.client_limits().is_some(),
            phase: Http1Phase::Head,
            pipe: None,
            incomplete_len: 0,
            receive_by: Some(by),
            deadline: by,
            sent_len: 0,
            acknowledged_len: 0,
            request_count: 0,
            limited_count: 0,
            site,
            queued_count: 0,
            queued_since_us: cx.now_us,
            recorded: RecordedResponses::new(),
            ending: Ending::No,
            blocked: Blocked::No,
            password_check: PasswordCheck::default(),
        };
        if accepted.expects_proxy_header {
            http.expect_proxy_header(cx);
        } else {
            http.phase = http.first_phase();
        }
        http
    }

    /// Returns the phase in which the connection waits for its first request.
    #[inline]
    fn first_phase(&self) -> Http1Phase {
        let AcceptedClient { versions, has_tls, .. } = *self.finder.accepted();
        // With TLS, the end of the handshake changes to HTTP/2.
        match versions == HttpVersions::OnlyHttp2 && !has_tls {
            true => Http1Phase::Preface,
            false => Http1Phase::Head,
        }
    }

    #[inline]
    pub(crate) fn received(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        input: BufRange,
    ) -> usize {
        match self.answer_ready(cx, out, input) {
            None => self.received_other(cx, out, input),
            Some(used) if used == input.len as usize => used,
            Some(used) => used + self.received_next(cx, out, input.skip(used)),
        }
    }

    /// Handles input after a request. There are few such calls in one another, as each adds to the outbox.
    #[inline(never)]
    fn received_next(&mut self, cx: &mut ConnResources<'_>, out: &mut Outbox, input: BufRange) -> usize {
        self.received(cx, out, input)
    }

    /// Handles input of which [`answer_ready`](Http1::answer_ready) has answered nothing.
    #[inline(never)]
    fn received_other(&mut self, cx: &mut ConnResources<'_>, out: &mut Outbox, input: BufRange) -> usize {
        let had_output = !out.is_empty();
        let was_idle = !had_output && self.is_idle();
        let mut used = 0;
        while used < input.len as usize {
            let rest = input.skip(used);
            let step = match self.phase {
                Http1Phase::Head => self.begin(cx, out, rest),
                Http1Phase::ProxyHeader => self.read_proxy_header(cx, rest),
                _ => self.received_content(cx, out, rest),
            };
            used += step;
            if step == 0 {
                break;
            }
        }
        match (had_output, out.is_empty()) {
            (false, false) => self.deadline = cx.now.after(self.limits(cx).send_ms),
            // Empty lines are no request: they extend no time.
            (_, true) if was_idle && self.is_idle() => {}
            (_, true) => self.output_empty(cx),
            // The client must receive its output, whatever it sends.
            (true, false) => {}
        }
        if self.awaits_other_thread() && out.is_empty() {
            self.deadline = cx.now.after(self.limits(cx).send_ms);
        }
        used
    }

    /// Handles input that is no head. Returns how many bytes the connection consumed.
    #[inline(never)]
    fn received_content(&mut self, cx: &mut ConnResources<'_>, out: &mut Outbox, input: BufRange) -> usize {
        match &mut self.phase {
            Http1Phase::Head | Http1Phase::Preface | Http1Phase::ProxyHeader => 0,
            Http1Phase::Piped(_) => self.forward_content(cx, out, input),
            Http1Phase::Function(_) => self.collect_content(cx, out, input),
            Http1Phase::Paced(_) => 0,
            Http1Phase::Content(content) => match content.decode(cx.pool.bytes(input)) {
                Ok(dropped) => {
                    if content.is_complete() {
                        self.content_complete();
                    }
                    dropped.used
                }
                Err(InvalidContent(_)) => {
                    self.phase = Http1Phase::LastResponse { linger: true };
                    input.len as usize
                }
            },
            Http1Phase::LastResponse { linger } => {
                // More may follow.
                *linger = true;
                input.len as usize
            }
            Http1Phase::LastResponseAfterEnd | Http1Phase::Lingering { .. } | Http1Phase::Closed => {
                input.len as usize
            }
        }
    }

    pub(crate) fn ended(&mut self, cx: &mut ConnResources<'_>, out: &mut Outbox) {
        match self.phase {
            Http1Phase::Piped(_) => return self.piped_input_ended(cx, out),
            Http1Phase::Function(_) => return self.function_input_ended(cx, out),
            Http1Phase::ProxyHeader => return self.proxy_header_missing(cx),
            Http1Phase::Paced(ref mut paced) => return paced.client_ended(),
            _ => {}
        }
        self.phase = match self.phase {
            // A client that has closed only its sending side still gets its responses.
            Http1Phase::Head
            | Http1Phase::Preface
            | Http1Phase::Content(_)
            | Http1Phase::LastResponse { .. }
            | Http1Phase::LastResponseAfterEnd => Http1Phase::LastResponseAfterEnd,
            Http1Phase::ProxyHeader
            | Http1Phase::Lingering { .. }
            | Http1Phase::Closed
            | Http1Phase::Piped(_)
            | Http1Phase::Function(_)
            | Http1Phase::Paced(_) => Http1Phase::Closed,
        };
        if out.is_empty() {
            self.output_empty(cx);
        }
    }

    #[inline]
    pub(crate) fn sent(&mut self, cx: &mut ConnResources<'_>, out: &mut Outbox, len: u64) {
        self.sent_len += len;
        cx.counters.sent_len.add(len);
        if !self.recorded.is_empty() {
            self.recorded.sent(cx.records, cx.now_us, self.sent_len);
        }
        if let Http1Phase::Piped(_) | Http1Phase::Function(_) | Http1Phase::Paced(_) = self.phase {
            self.streamed_output_sent(cx, out);
        } else if out.is_empty() {
            self.completed(cx);
            self.output_empty(cx);
        }
    }

    /// Goes on with a response that is made while it is sent.
    #[inline(never)]
    fn streamed_output_sent(&mut self, cx: &mut ConnResources<'_>, out: &mut Outbox) {
        match self.phase {
            Http1Phase::Function(_) => self.function_output_sent(cx, out),
            Http1Phase::Paced(_) => self.paced_output_sent(cx, out),
            _ => self.piped_output_sent(cx, out),
        }
    }

    pub(crate) fn expired(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        acknowledged_len: u64,
        unacknowledged: u64,
    ) {
        let received = acknowledged_len.saturating_sub(self.acknowledged_len);
        let is_fast_enough = received >= self.limits(cx).send_len_min();
        let goes_on = match &mut self.phase {
            // Closing would reset what has not reached the client, if it sends more. The first window began when the response had been
            // sent, so it shows nothing yet.
            Http1Phase::Lingering { by } if unacknowledged > 0 => {
                mem::replace(by, cx.now) > cx.now || is_fast_enough
            }
            Http1Phase::Piped(_) if out.is_empty() => return self.piped_deadline_passed(cx, out),
            Http1Phase::Function(_) if out.is_empty() => return self.function_deadline_passed(cx, out),
            Http1Phase::Paced(_) if out.is_empty() => return self.queue_paced(cx, out),
            _ => !out.is_empty() && is_fast_enough,
        };
        if !goes_on {
            return self.time_out(cx, out);
        }
        self.acknowledged_len = acknowledged_len;
        self.deadline = cx.now.after(self.limits(cx).send_ms);
    }

    /// Returns the site that responds while the site of a request is unknown.
    #[inline]
    fn fallback_site(&self, cx: &ConnResources<'_>) -> SiteId {
        cx.sites.fallback(self.finder.accepted().routes)
    }

    /// Ends the wait of the phase.
    #[cold]
    pub(crate) fn time_out(&mut self, cx: &mut ConnResources<'_>, out: &mut Outbox) {
        match self.phase {
            Http1Phase::Head if out.is_empty() && self.incomplete_len > 0 => {
                let (site, status) = (self.fallback_site(cx), Status::RequestTimeout);
                if cx.records.is_on() {
                    let start = self.exchange_start(cx, out, site, self.finder.peer(), status);
                    cx.records.start_record(start, None, &[]);
                }
                let plan = self.respond_with_page(cx, out, site, status, true, crate::Persistence::Close);
                self.responded(cx, out, &plan, None);
                self.deadline = cx.now.after(self.limits(cx).send_ms);
            }
            Http1Phase::ProxyHeader => self.proxy_header_missing(cx),
            // Other connections need its buffers.
            Http1Phase::Piped(_) if out.is_empty() => {
                self.end_piped_with(cx, out, Status::ServiceUnavailable);
            }
            Http1Phase::Function(_) if out.is_empty() => {
                self.end_collecting(cx, out, Status::ServiceUnavailable);
            }
            // The response was sent, but a reset could still overtake it.
            Http1Phase::Content(_) if out.is_empty() => {
                self.phase = Http1Phase::LastResponse { linger: true };
                self.output_empty(cx);
            }
            _ => self.abort(cx),
        }
    }

    pub(crate) fn stop(&mut self, cx: &mut ConnResources<'_>, out: &Outbox) {
        self.ending = Ending::Stopping;
        if out.is_empty() {
            self.output_empty(cx);
        }
    }

    pub(crate) fn drain(&mut self) {
        if self.ending == Ending::No {
            self.ending = Ending::Draining;
        }
    }

    pub(crate) fn closed(&mut self, cx: &mut ConnResources<'_>) {
        cx.counters.aborted.add(self.queued_count.into());
        self.recorded.closed(cx.records, cx.now_us, self.sent_len);
        self.close_pipe(cx);
        self.abort(cx);
    }

    /// Returns whether the client speaks HTTP/2.
    #[inline]
    pub(crate) fn has_preface(&self) -> bool {
        matches!(self.phase, Http1Phase::Preface)
    }

    /// Returns whether the next bytes must be the preface of HTTP/2, whatever they are: the client may speak nothing else.
    #[inline]
    pub(crate) fn speaks_only_http2(&self) -> bool {
        self.finder.accepted().versions == HttpVersions::OnlyHttp2
    }

    /// Returns the state of a client that speaks HTTP/2, from its preface on.
    #[cold]
    pub(crate) fn to_http2(&self, cx: &ConnResources<'_>) -> Http2 {
        let mut http = Http2::new(cx, self.finder, self.tls);
        if self.ending != Ending::No {
            http.announce_shutdown();
        }
        http
    }

    /// Handles the event that the transport has completed its handshake.
    #[inline]
    pub(crate) fn secured(&mut self, session: TlsSession) {
        self.tls = Some(session);
    }

    /// Ends the connection without a response: the transport sends what it has queued, and waits until the client closes too.
    #[cold]
    pub(crate) fn refuse_transport(&mut self, cx: &mut ConnResources<'_>, out: &Outbox) {
        if !out.is_empty() {
            return self.abort(cx);
        }
        self.phase = Http1Phase::LastResponse { linger: true };
        self.output_empty(cx);
    }

    /// Closes the connection. Pending output is not sent.
    pub(crate) fn abort(&mut self, cx: &mut ConnResources<'_>) {
        self.drop_paced(cx);
        self.enter_closed();
    }

    /// Closes a connection that sends no paced response.
    fn enter_closed(&mut self) {
        self.phase = Http1Phase::Closed;
        self.deadline = Tick::NEVER;
    }

    #[inline]
    pub(crate) fn need(&self, out: &Outbox) -> Need {
        match self.phase {
            Http1Phase::Head if !self.awaits_other_thread() && out.has_room(self.span_count()) => {
                Need { input: Input::Bytes, close: Close::No }
            }
            Http1Phase::Head => Need { input: Input::Pause, close: Close::No },
            _ => self.need_after_head(out),
        }
    }

    /// Returns the next step of a connection that receives one head after the other. `None`: see [`need`](Http1::need).
    #[inline(always)]
    pub(crate) fn usual_step(&self, out: &Outbox, slot: DriveState) -> Option<DriveStep> {
        let is_usual =
            matches!(self.phase, Http1Phase::Head) && self.blocked == Blocked::No && !slot.is_loading;
        match (is_usual, out.is_empty()) {
            (true, true) if slot.has_new_input => Some(DriveStep::Offer),
            (true, true) => Some(DriveStep::Read),
            (true, false) if slot.can_send => Some(DriveStep::Send),
            _ => None,
        }
    }

    /// Returns what a connection needs that waits for no head.
    #[inline(never)]
    fn need_after_head(&self, out: &Outbox) -> Need {
        let (input, close) = match self.phase {
            Http1Phase::Head | Http1Phase::Preface | Http1Phase::ProxyHeader => (Input::Bytes, Close::No),
            // Input that would be dropped waits too: the same bound in all phases.
            Http1Phase::Content(_)
            | Http1Phase::Piped(_)
            | Http1Phase::Function(_)
            | Http1Phase::LastResponse { .. }
                if out.is_full() =>
            {
                (Input::Pause, Close::No)
            }
            Http1Phase::Function(ref phase) => (phase.input(out), Close::No),
            Http1Phase::Piped(ref piped) if piped.wants_input() => (Input::Bytes, Close::No),
            Http1Phase::Piped(_) | Http1Phase::Paced(_) => (Input::Pause, Close::No),
            Http1Phase::Content(_) => (Input::Bytes, Close::No),
            Http1Phase::LastResponseAfterEnd => (Input::Pause, Close::No),
            // To be dropped: unread bytes would reset the connection when it closes.
            Http1Phase::LastResponse { .. } => (Input::Bytes, Close::No),
            Http1Phase::Lingering { .. } => (Input::Discard, Close::Write),
            Http1Phase::Closed => (Input::Pause, Close::Both),
        };
        Need { input, close }
    }

    #[inline]
    pub(crate) fn is_unused(&self, out: &Outbox) -> bool {
        matches!(self.phase, Http1Phase::Head | Http1Phase::ProxyHeader | Http1Phase::Preface)
            && self.incomplete_len == 0
            && out.is_empty()
            && !self.awaits_other_thread()
    }

    /// Returns whether nothing has arrived from the client, neither bytes nor their end.
    #[inline]
    pub(crate) fn is_silent(&self, out: &Outbox) -> bool {
        self.request_count == 0 && self.is_unused(out)
    }

    /// Returns whether the head in the inbox waits for what another thread does.
    #[inline]
    fn awaits_other_thread(&self) -> bool {
        matches!(self.blocked, Blocked::Page(_) | Blocked::Password)
    }

    #[inline]
    pub(crate) fn missing_page(&self) -> Option<MissingPage> {
        match self.blocked {
            Blocked::Page(page) => Some(page),
            Blocked::No | Blocked::Room(_) | Blocked::Password => None,
        }
    }

    pub(crate) fn loaded(&mut self) {
        self.blocked = Blocked::Room(emit::USUAL_SPAN_COUNT);
    }

    /// Returns the check of the next request's password.
    pub(crate) fn password_check(&mut self) -> &mut PasswordCheck {
        &mut self.password_check
    }

    #[inline]
    pub(crate) fn has_password_job(&self) -> bool {
        self.blocked == Blocked::Password && self.password_check.is_due()
    }

    /// Handles the end of the job that the head in the inbox waits for.
    #[cold]
    pub(crate) fn verified(&mut self, cx: &ConnResources<'_>, job: Box<PasswordJob>) {
        self.password_check.done(cx.counters, job);
        if self.blocked == Blocked::Password {
            self.loaded();
        }
    }

    #[inline]
    pub(crate) fn sent_len(&self) -> u64 {
        self.sent_len
    }

    #[inline]
    pub(crate) fn deadline(&self) -> Tick {
        self.deadline
    }

    /// Returns how many spans the next response needs: the usual number, unless the head in the inbox needs more.
    #[inline]
    fn span_count(&self) -> usize {
        match self.blocked {
            Blocked::Room(count) => count,
            Blocked::No | Blocked::Page(_) | Blocked::Password => emit::USUAL_SPAN_COUNT,
        }
    }

    /// Returns whether the rest of a response that leaves at a limited rate holds buffers.
    #[inline]
    pub(crate) fn holds_paced_buffers(&self) -> bool {
        matches!(&self.phase, Http1Phase::Paced(paced) if paced.holds_buffers())
    }

    /// Returns the limits that apply.
    #[inline]
    fn limits<'c>(&self, cx: &'c ConnResources<'_>) -> &'c Limits {
        cx.sites.limits(self.site)
    }

    /// Returns whether the connection waits for the next request, of which nothing has arrived.
    #[inline]
    fn is_idle(&self) -> bool {
        matches!(self.phase, Http1Phase::Head) && self.receive_by.is_none() && self.ending != Ending::Stopping
    }

    fn content_complete(&mut self) {
        self.receive_by = None;
        self.phase = match self.ending {
            Ending::Stopping => Http1Phase::LastResponse { linger: true },
            Ending::No | Ending::Draining => Http1Phase::Head,
        };
    }

    /// Counts the last response in the outbox.
    #[inline]
    fn responded(&mut self, cx: &mut ConnResources<'_>, out: &Outbox, plan: &Plan, version: Option<Version>) {
        self.queued(cx, plan.status, version);
        if cx.records.is_pending() {
            self.record_response(cx, out, plan);
        }
    }

    /// Counts a queued response.
    #[inline]
    fn queued(&mut self, cx: &ConnResources<'_>, status: Status, version: Option<Version>) {
        cx.counters.responded(status, version, Some(self.site.index()));
        self.begin_duration(cx);
        self.queued_count += 1;
    }

    /// Begins the duration of the responses in the outbox, unless it has begun.
    #[inline]
    fn begin_duration(&mut self, cx: &ConnResources<'_>) {
        // Such an exchange began before its response.
        let has_begun = matches!(self.phase, Http1Phase::Piped(_) | Http1Phase::Function(_));
        if self.queued_count == 0 && !has_begun {
            self.queued_since_us = cx.now_us;
        }
    }

    /// Counts the responses that have been sent: the outbox is empty.
    #[inline]
    fn completed(&mut self, cx: &mut ConnResources<'_>) {
        let duration_us = cx.now_us.saturating_sub(self.queued_since_us);
        cx.counters.completed(self.queued_count.into(), duration_us);
        self.queued_count = 0;
    }

    /// Enters the phase after the output, and sets its deadline.
    #[inline]
    fn output_empty(&mut self, cx: &mut ConnResources<'_>) {
        match self.phase {
            Http1Phase::Head if self.ending != Ending::Stopping => self.deadline = self.receive_deadline(cx),
            _ => self.output_empty_after_head(cx),
        }
    }

    /// Returns the deadline of a connection that waits for a head or for content.
    #[inline]
    fn receive_deadline(&self, cx: &ConnResources<'_>) -> Tick {
        match self.receive_by {
            Some(by) => by,
            None => cx.now.after(self.limits(cx).idle_ms),
        }
    }

    /// Does what [`Http1::output_empty`] does, if the connection waits for no head or stops.
    #[inline(never)]
    fn output_empty_after_head(&mut self, cx: &mut ConnResources<'_>) {
        self.deadline = match self.phase {
            Http1Phase::Head | Http1Phase::ProxyHeader | Http1Phase::Preface
                if self.ending == Ending::Stopping
                    && self.incomplete_len == 0
                    && self.blocked == Blocked::No =>
            {
                self.phase = Http1Phase::Closed;
                Tick::NEVER
            }
            // The backend connection has a deadline, and the content of the request a window.
            Http1Phase::Piped(ref piped) => piped.deadline(),
            Http1Phase::Function(ref phase) => phase.deadline(),
            Http1Phase::Paced(ref paced) => paced.deadline(),
            Http1Phase::ProxyHeader | Http1Phase::Head | Http1Phase::Preface | Http1Phase::Content(_) => {
                self.receive_deadline(cx)
            }
            // A client with TLS may announce its end at any time: RFC 8446, section 6.1.
            Http1Phase::LastResponse { linger } if linger || self.tls.is_some() => {
                let by = cx.now.after(self.limits(cx).content_ms.max(LINGER_MS));
                self.phase = Http1Phase::Lingering { by };
                by.min(cx.now.after(LINGER_MS))
            }
            Http1Phase::LastResponse { .. } | Http1Phase::LastResponseAfterEnd | Http1Phase::Closed => {
                self.phase = Http1Phase::Closed;
                Tick::NEVER
            }
            Http1Phase::Lingering { by } => self.deadline.max(by.min(cx.now.after(LINGER_MS))),
        };
    }

    /// Returns the start of an exchange, for its record: its response is about to be queued. Without a status, a backend will make it.
    fn exchange_start(
        &self,
        cx: &ConnResources<'_>,
        out: &Outbox,
        site: SiteId,
        client: Client,
        status: impl Into<Option<Status>>,
    ) -> ExchangeStart {
        if client.is_malformed {
            cx.counters.client_malformed.add(1);
        }
        ExchangeStart {
            connection: self.finder.accepted().number,
            client: client.address,
            tls: self.tls,
            site,
            now_us: cx.now_us,
            span_index: out.spans().len(),
            status: status.into(),
            is_logged: true,
            is_protected: client.password.is_some(),
        }
    }

    fn record_response(&mut self, cx: &mut ConnResources<'_>, out: &Outbox, plan: &Plan) {
        let content_len = plan.content_len();
        if let Some(index) = cx.records.response_head_index() {
            record_head(cx, &out.spans()[index..], content_len);
        }
        if let Some(place) = cx.records.finish_record(plan.status, content_len) {
            let end = self.sent_len + out.len();
            self.recorded.push(cx.records, place, end, content_len);
        }
    }
}

/// Adds the head of a response to its record. The content is the last part of the spans.
#[cold]
fn record_head(cx: &mut ConnResources<'_>, response: &[Span], content_len: u64) {
    let mut left = response.iter().map(Span::len).sum::<u64>().saturating_sub(content_len);
    for span in response {
        let bytes = match *span {
            Span::Prefix(prefix) => cx.prefixes.bytes(prefix),
            Span::Buf(range) => cx.pool.bytes(range),
            Span::Site { image, at, len } => cx.sites.image(image).bytes(Region { at, len }),
            Span::File { .. } | Span::Archive { .. } => &[],
        };
        cx.records.append_response_head(&bytes[..bytes.len().min(left as usize)]);
        left = left.saturating_sub(span.len());
    }
}
