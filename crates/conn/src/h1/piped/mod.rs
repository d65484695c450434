//! An exchange with a backend: the request goes into a pipe, and the response comes out of it.
//!
//! ```text
//! input ─ head, then decoded content ─▶ pipe ─▶ backend
//! outbox ◀─ status line, fields, chunks ─ pipe ◀─ backend
//! ```
//!
//! The next request of the client waits until the exchange has ended.
//!
//! | file | what |
//! |---|---|
//! | `request` | writes the head of a request for the pipe |
//! | `response` | queues the messages of a response |
//! | `redirect` | answers another request, as the backend asks for |
//! | `head` | the status line, the fields and the framing of a response |

mod head;
mod redirect;
mod request;
mod response;

use super::{Ending, Http1, Http1Phase, InvalidContent, RequestContent, emit, exchange::RoutedExchange};
use crate::{
    BufRange, ConnResources, Tick,
    backend::{BackendLimits, BackendProtocol, HashKey, http1::trailers::CollectedTrailers},
    functions::Payload,
    open_exchanges::{NO_PLACE, OpenExchange},
    pipe::{MESSAGE_ROOM, Message, NoBuffer, PipeEnd, PipeId, Side, request_len_max},
    proxy_trust::PeerAddress,
    request::Client,
    response_prefix::Persistence,
    send_pace::SendPace,
    sites::SiteId,
    span::{Outbox, Span},
};
pub(crate) use head::counted_as;
pub(super) use head::put_status_line;

use head::ContentFraming;
use request::{PipedRequest, PipedTarget};
use tarpon_http::{
    head::{self as http_head, Version},
    status::Status,
};

/// The pipe of an exchange, and the place of the exchange among those that are recorded.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenPipe {
    id: PipeId,
    /// [`NO_PLACE`]: the exchange is not recorded.
    recorded_at: u32,
}

/// The state of the exchange.
#[derive(Debug)]
pub(super) struct PipedExchange {
    pipe: PipeId,
    limits: BackendLimits,
    /// The site whose pages respond if the backend does not.
    site: SiteId,
    client: Client,
    version: Version,
    client_persists: bool,
    /// Local redirects so far.
    redirect_count: u8,
    /// The response has content, as the method is not HEAD.
    with_content: bool,
    /// The client waits for 100 (Continue) before it sends the content.
    awaits_continue: bool,
    /// The backend answers Expect and gets trailers. Otherwise this server sends 100 (Continue), when the backend takes content.
    speaks_http: bool,
    /// The rest of the content. `None`: the whole request is in the pipe.
    content: Option<RequestContent>,
    upgrade: ProtocolChange,
    /// The connection reads while it waits for the response, to learn that the client leaves.
    watches_client: bool,
    /// Those of the content so far.
    trailers: CollectedTrailers,
    /// The pipe has no room for content.
    is_blocked: bool,
    /// The client has closed its sending side.
    has_client_ended: bool,
    /// `None`: the response leaves as fast as the client takes it.
    pace: Option<Box<SendPace>>,
    /// The bytes of content received in this window, and the end of the window.
    window_len: u64,
    window_end: Tick,
    response: PipedResponse,
}

/// A response that a backend sends to a request that the worker has answered by a payload.
pub(super) struct LaterResponse {
    pub(super) payload: Payload,
    pub(super) exchange: RoutedExchange,
    pub(super) version: Version,
    pub(super) client_persists: bool,
    pub(super) with_content: bool,
}

/// Whether the connection changes to another protocol. RFC 9110, section 7.8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProtocolChange {
    No,
    /// The client has asked for it; the backend has not answered.
    Asked,
    /// Bytes pass as they are, until the client ends them.
    Tunnel,
    /// The client sends no more.
    HalfClosed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PipedResponse {
    /// The head has not passed.
    Head,
    Content(ContentFraming),
}

/// The response that asks for the content: RFC 9110, section 15.2.1.
pub(super) const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

impl PipedExchange {
    /// Returns whether the connection reads content for the backend.
    pub(super) fn wants_content(&self) -> bool {
        (self.content.is_some() || self.upgrade == ProtocolChange::Tunnel) && !self.is_blocked
    }

    /// Returns whether the connection reads.
    pub(super) fn wants_input(&self) -> bool {
        let is_before_tunnel = matches!(self.upgrade, ProtocolChange::No | ProtocolChange::Asked);
        let waits_for_response = self.content.is_none() && is_before_tunnel && !self.has_client_ended;
        self.wants_content() || self.watches_client && waits_for_response
    }

    /// Returns the deadline while the outbox is empty.
    pub(super) fn deadline(&self) -> Tick {
        let window_end = (self.wants_content() && self.content.is_some()).then_some(self.window_end);
        [window_end, self.pace_deadline()].into_iter().flatten().min().unwrap_or(Tick::NEVER)
    }

    /// Returns when more of the response may leave. `None`: now. A tunnel has no pace.
    fn pace_deadline(&self) -> Option<Tick> {
        let is_response = matches!(self.upgrade, ProtocolChange::No | ProtocolChange::Asked);
        self.pace.as_ref().filter(|_| is_response)?.waits_until()
    }
}

impl Http1 {
    /// Begins the exchange with a backend whose head is at the front of `input`. Returns how many bytes it has consumed.
    #[cold]
    pub(super) fn begin_piped(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        input: BufRange,
        RoutedExchange { client, site, route, send_rate }: RoutedExchange,
    ) -> usize {
        let Some(buf) = cx.pool.take_for_response() else {
            return self.refuse(cx, out, input, site, Status::ServiceUnavailable);
        };
        let target = PipedTarget {
            client,
            peer: self.finder.accepted().peer.and_then(PeerAddress::ip),
            content_len_max: route.limits.content_len_max,
            hash_key: cx.pipes.settings(route.backend).map_or_else(HashKey::default, |of| of.hash_key),
            protocol: cx.pipes.protocol(route.backend),
        };
        let len_max = request_len_max(cx.pool);
        let (bytes, to) = cx.pool.split_mut(input, buf);
        let to = &mut to[MESSAGE_ROOM..][..len_max];
        let request = match PipedRequest::write(bytes, &target, to) {
            Ok(request) => request,
            Err(status) => {
                cx.pool.release(buf);
                return self.refuse(cx, out, input, site, status);
            }
        };
        let pipe = cx.pipes.open(self.finder.accepted().number, route, request.key, cx.now);
        let head = BufRange { buf, at: MESSAGE_ROOM as u32, len: request.list_len as u32 };
        cx.pipes.push(pipe, Side::Client, Message::Head(head));
        if request.content.is_none() && !request.wants_upgrade {
            cx.pipes.push(pipe, Side::Client, Message::End(PipeEnd::Complete));
        }
        (self.incomplete_len, self.receive_by) = (0, None);
        self.site = site;
        self.request_count += 1;
        let recorded_at = self.start_piped_record(cx, out, input, client, site);
        self.pipe = Some(OpenPipe { id: pipe, recorded_at });
        let PipedRequest { version, client_persists, with_content, awaits_continue, wants_upgrade, .. } =
            request;
        self.begin_duration(cx);
        self.phase = Http1Phase::Piped(Box::new(PipedExchange {
            pipe,
            limits: route.limits,
            site,
            client,
            version,
            client_persists,
            redirect_count: 0,
            with_content,
            awaits_continue,
            speaks_http: target.protocol == BackendProtocol::Http1,
            content: request.content,
            upgrade: if wants_upgrade { ProtocolChange::Asked } else { ProtocolChange::No },
            watches_client: target.protocol != BackendProtocol::Frames,
            trailers: CollectedTrailers::default(),
            is_blocked: false,
            has_client_ended: false,
            pace: SendPace::begin(send_rate, cx.now),
            window_len: 0,
            window_end: cx.now.after(route.limits.content_window_ms),
            response: PipedResponse::Head,
        }));
        request.head_len
    }

    /// Begins an exchange whose request is complete and known to the backend by a payload.
    #[cold]
    pub(super) fn respond_later(&mut self, cx: &mut ConnResources<'_>, later: LaterResponse) {
        let LaterResponse { payload, exchange, version, client_persists, with_content } = later;
        let RoutedExchange { client, site, route, send_rate } = exchange;
        let pipe = cx.pipes.open_with(self.finder.accepted().number, route, payload, cx.now);
        cx.pipes.push(pipe, Side::Client, Message::End(PipeEnd::Complete));
        let recorded_at = finish_piped_record(cx);
        self.pipe = Some(OpenPipe { id: pipe, recorded_at });
        self.begin_duration(cx);
        self.phase = Http1Phase::Piped(Box::new(PipedExchange {
            pipe,
            limits: route.limits,
            site,
            client,
            version,
            client_persists,
            redirect_count: 0,
            with_content,
            awaits_continue: false,
            speaks_http: false,
            content: None,
            upgrade: ProtocolChange::No,
            watches_client: false,
            trailers: CollectedTrailers::default(),
            is_blocked: false,
            has_client_ended: false,
            pace: SendPace::begin(send_rate, cx.now),
            window_len: 0,
            window_end: cx.now.after(route.limits.content_window_ms),
            response: PipedResponse::Head,
        }));
    }

    /// Records the start of an exchange whose head is at the front of `input`. Returns its place.
    fn start_piped_record(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &Outbox,
        input: BufRange,
        client: Client,
        site: SiteId,
    ) -> u32 {
        if !cx.records.is_on() {
            return NO_PLACE;
        }
        let bytes = cx.pool.bytes(input);
        let Ok(Some((head, head_len))) = http_head::parse(bytes) else { return NO_PLACE };
        let start = self.exchange_start(cx, out, site, client, None);
        cx.records.start_record(start, Some(&head), &bytes[..head_len]);
        finish_piped_record(cx)
    }

    /// Changes the record of the exchange.
    fn update_record(&self, cx: &mut ConnResources<'_>, update: impl FnOnce(&mut OpenExchange)) {
        if let Some(OpenPipe { recorded_at, .. }) = self.pipe.filter(|pipe| pipe.recorded_at != NO_PLACE) {
            update(cx.records.open_exchange(recorded_at));
        }
    }

    /// Adds content at the front of `input` to the pipe. Returns how many bytes it has consumed.
    pub(super) fn forward_content(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        input: BufRange,
    ) -> usize {
        let Http1Phase::Piped(piped) = &mut self.phase else { return 0 };
        if piped.upgrade == ProtocolChange::Tunnel {
            return self.forward_tunnel(cx, out, input);
        }
        let Some(content) = &mut piped.content else {
            // The next request: the client has not left.
            piped.watches_client = false;
            return 0;
        };
        // The client does not wait any more, or never did: RFC 9110, section 10.1.1.
        piped.awaits_continue = false;
        let room = cx.pipes.room(cx.pool, piped.pipe, Side::Client);
        piped.is_blocked = room == 0;
        let len = input.len.min(room as u32);
        let bytes = cx.pool.bytes(BufRange { len, ..input });
        let decoded = match content.decode(bytes) {
            Ok(decoded) => decoded,
            Err(InvalidContent(status)) => {
                self.end_piped_with(cx, out, status);
                return input.len as usize;
            }
        };
        if piped.speaks_http {
            piped.trailers.add(&bytes[decoded.trailers.clone()]);
        }
        // The room is less than a line that frames a chunk. The backend makes more when it takes a message.
        piped.is_blocked |= decoded.used == 0 && len < input.len;
        let data = BufRange { len: decoded.content.end as u32, ..input }.skip(decoded.content.start);
        piped.window_len += data.len as u64;
        if cx.pipes.push_data(cx.pool, piped.pipe, Side::Client, data).is_err() {
            self.end_piped_with(cx, out, Status::ServiceUnavailable);
            return input.len as usize;
        }
        if content.is_complete() {
            piped.content = None;
            // One message more than there is room for: nothing but the end follows.
            if let Ok(Some(list)) = piped.trailers.to_list(cx) {
                cx.pipes.push(piped.pipe, Side::Client, Message::Trailers(list));
            }
            cx.pipes.push(piped.pipe, Side::Client, Message::End(PipeEnd::Complete));
        }
        decoded.used
    }

    /// Adds bytes of another protocol to the pipe. Returns how many bytes it has consumed.
    fn forward_tunnel(&mut self, cx: &mut ConnResources<'_>, out: &mut Outbox, input: BufRange) -> usize {
        let Http1Phase::Piped(piped) = &mut self.phase else { return 0 };
        match cx.pipes.push_data(cx.pool, piped.pipe, Side::Client, input) {
            Ok(added) => {
                piped.is_blocked = cx.pipes.room(cx.pool, piped.pipe, Side::Client) == 0;
                added
            }
            Err(NoBuffer) => {
                self.end_piped_with(cx, out, Status::ServiceUnavailable);
                input.len as usize
            }
        }
    }

    /// Handles messages that the backend has added, or room that it has made.
    pub(crate) fn woken(&mut self, cx: &mut ConnResources<'_>, out: &mut Outbox) {
        let had_output = !out.is_empty();
        let Http1Phase::Piped(piped) = &mut self.phase else { return };
        let was_blocked =
            std::mem::replace(&mut piped.is_blocked, cx.pipes.room(cx.pool, piped.pipe, Side::Client) == 0);
        if was_blocked && !piped.is_blocked {
            (piped.window_len, piped.window_end) = (0, cx.now.after(piped.limits.content_window_ms));
        }
        if piped.awaits_continue
            && !piped.speaks_http
            && out.has_room(1)
            && cx.pipes.is_drained(piped.pipe, Side::Client)
            && let Some(buf) = cx.pool.take_for_response()
        {
            piped.awaits_continue = false;
            cx.pool.buf_mut(buf)[..CONTINUE.len()].copy_from_slice(CONTINUE);
            out.push(cx.sites, Span::Buf(BufRange { buf, at: 0, len: CONTINUE.len() as u32 }));
        }
        self.take_response(cx, out);
        self.update_piped_deadline(cx, out, had_output);
    }

    /// Handles the event that bytes of the outbox have been sent.
    #[inline(never)]
    pub(super) fn piped_output_sent(&mut self, cx: &mut ConnResources<'_>, out: &mut Outbox) {
        self.take_response(cx, out);
        self.update_piped_deadline(cx, out, false);
    }

    fn update_piped_deadline(&mut self, cx: &mut ConnResources<'_>, out: &Outbox, had_output: bool) {
        match (out.is_empty(), had_output) {
            (true, _) => {
                if !matches!(self.phase, Http1Phase::Piped(_)) {
                    self.completed(cx);
                }
                self.output_empty(cx);
            }
            (false, false) => self.deadline = cx.now.after(self.limits(cx).send_ms),
            (false, true) => {}
        }
    }

    /// Handles the end of the client's input.
    pub(super) fn piped_input_ended(&mut self, cx: &mut ConnResources<'_>, out: &mut Outbox) {
        let Http1Phase::Piped(piped) = &mut self.phase else { return };
        piped.has_client_ended = true;
        if piped.upgrade == ProtocolChange::Tunnel {
            piped.upgrade = ProtocolChange::HalfClosed;
            cx.pipes.push(piped.pipe, Side::Client, Message::End(PipeEnd::Complete));
        } else if piped.watches_client {
            // A client that sends no more has left: there is no telling it from one that waits for the rest.
            self.abort(cx);
        } else if piped.content.is_some() {
            // The content is incomplete: RFC 9112, section 8.
            self.end_piped_with(cx, out, Status::BadRequest);
        }
    }

    /// Handles the end of the deadline while the outbox is empty.
    pub(super) fn piped_deadline_passed(&mut self, cx: &mut ConnResources<'_>, out: &mut Outbox) {
        let Http1Phase::Piped(piped) = &mut self.phase else { return };
        if piped.pace_deadline().is_some_and(|at| at <= cx.now) {
            return self.piped_output_sent(cx, out);
        }
        if piped.window_len < piped.limits.content_len_min() {
            return self.end_piped_with(cx, out, Status::RequestTimeout);
        }
        (piped.window_len, piped.window_end) = (0, cx.now.after(piped.limits.content_window_ms));
        self.deadline = piped.deadline();
    }

    /// Ends an exchange whose response is queued, and enters the next phase.
    fn end_piped(&mut self, cx: &mut ConnResources<'_>, out: &Outbox) {
        self.leave_pipe(cx, self.sent_len + out.len(), 0);
        let Http1Phase::Piped(piped) = &mut self.phase else { return };
        let content = piped.content.take();
        let closes = !piped.client_persists || self.ending == Ending::Stopping;
        self.phase = match content {
            _ if piped.has_client_ended => Http1Phase::LastResponseAfterEnd,
            Some(_) if closes => Http1Phase::LastResponse { linger: true },
            None if closes => Http1Phase::LastResponse { linger: false },
            // The backend did not want all of it.
            Some(content) => {
                self.receive_by = Some(cx.now.after(cx.sites.limits(self.site).content_ms));
                Http1Phase::Content(content)
            }
            None => Http1Phase::Head,
        };
    }

    /// Ends an exchange that cannot go on: with this status, or by closing the connection if the response has begun.
    pub(super) fn end_piped_with(&mut self, cx: &mut ConnResources<'_>, out: &mut Outbox, status: Status) {
        let keepalive_requests = self.limits(cx).keepalive_requests.get();
        let is_last = self.ending != Ending::No || self.request_count >= keepalive_requests;
        let Http1Phase::Piped(piped) = &mut self.phase else { return };
        let (site, version, with_content) = (piped.site, piped.version, piped.with_content);
        // The request is complete, so the next one can follow.
        let persists = !is_last
            && piped.client_persists
            && !piped.has_client_ended
            && piped.content.is_none()
            && piped.upgrade == ProtocolChange::No;
        let persistence = match piped.version {
            _ if !persists => Persistence::Close,
            Version::Http10 => Persistence::KeepAlive,
            Version::Http11 | Version::Http2 => Persistence::Persist,
        };
        let (has_begun, has_client_ended) = (piped.response != PipedResponse::Head, piped.has_client_ended);
        let ends_with_connection = piped.response == PipedResponse::Content(ContentFraming::UntilClose);
        if ends_with_connection || !has_begun && !out.has_room(emit::SPAN_COUNT) {
            return self.abort(cx);
        }
        if has_begun {
            // One byte that is never sent: the exchange ends as an aborted one.
            self.leave_pipe(cx, self.sent_len + out.len() + 1, 1);
            // The rest is missing, and its framing shows that: RFC 9112, section 8.
            cx.counters.aborted.add(1);
            self.queued_count = self.queued_count.saturating_sub(1);
            self.phase = Http1Phase::LastResponse { linger: false };
            return self.update_piped_deadline(cx, out, true);
        }
        let had_output = !out.is_empty();
        let plan = self.respond_with_page(cx, out, site, status, with_content, persistence);
        self.responded(cx, out, &plan, Some(version));
        self.update_record(cx, |record| record.status = plan.status.code());
        self.leave_pipe(cx, self.sent_len + out.len(), plan.content_len());
        if has_client_ended {
            self.phase = Http1Phase::LastResponseAfterEnd;
        }
        if !had_output {
            self.deadline = cx.now.after(self.limits(cx).send_ms);
        }
    }

    /// Leaves the pipe of an exchange whose response ends at `response_end` in the bytes of the connection, with this much more content
    /// than has passed.
    fn leave_pipe(&mut self, cx: &mut ConnResources<'_>, response_end: u64, content_len: u64) {
        let Some(OpenPipe { id, recorded_at }) = self.pipe.take() else { return };
        if recorded_at != NO_PLACE {
            let content_len = cx.records.open_exchange(recorded_at).content_len + content_len;
            self.recorded.push(cx.records, recorded_at, response_end, content_len);
        }
        cx.pipes.leave(cx.pool, id, Side::Client);
    }

    /// Leaves the pipe of a connection that has closed, if it has one.
    pub(super) fn close_pipe(&mut self, cx: &mut ConnResources<'_>) {
        self.leave_pipe(cx, self.sent_len + 1, 1);
        self.recorded.closed(cx.records, cx.now_us, self.sent_len);
    }

    /// Returns the pipe of the exchange with a backend that is in progress.
    #[inline]
    pub(crate) fn pipe(&self) -> Option<PipeId> {
        self.pipe.map(|pipe| pipe.id)
    }
}

/// Finishes the start record of an exchange whose response is not known. Returns its place.
fn finish_piped_record(cx: &mut ConnResources<'_>) -> u32 {
    let place = cx.records.finish_record(Status::Ok, 0).unwrap_or(NO_PLACE);
    if place != NO_PLACE {
        cx.records.open_exchange(place).content_len = 0;
    }
    place
}
