//! HTTP/1.0 and HTTP/1.1 on one connection. RFC 9112.
//!
//! ```text
//!          head, no content                         last response sent
//!  Head ──────────────────────▶ Head   … Response ─────────────────────▶ Closed
//!    ├─ head with content ──▶ Content ─ all dropped ─▶ Head     │
//!    └─ refused, or the last ──────────────────────▶ Response   └▶ Lingering ─ ended, expired ─▶ Closed
//! ```
//!
//! Each state is named for what it awaits. Responses are queued whole, so that pipelined requests are answered
//! in order while earlier responses leave. Knows nothing of descriptors, and of time only what it is told.

use crate::{
    Close, Cx, Input, Limits, Need, Tick, kept,
    moved::Moved,
    partial::{self, Partial},
    plan::{self, Location, Own, Plan},
    pool::{BUF_LEN, BufId, Pool, Run},
    record::{Accepted, Begins, Sent},
    room::Room,
    ruled::Leads,
    sites::{Chosen, ImageId, SiteId, Sites, Wanted},
    span::{Outbox, SPAN_COUNT_MAX, Span},
    start::Fate,
};
use std::mem;
use tarpon_http::{
    chunked::ChunkedDecoder,
    framing::{self, Framing},
    head::{self, HEAD_LEN_MAX, Head, Method, Version},
    persist,
    range::RANGE_COUNT_MAX,
    status::Status,
};
use tarpon_site::{Content, Region};

#[derive(Debug)]
pub(crate) struct Http1 {
    accepted: Accepted,
    phase: Phase,
    /// Bytes at the front of the inbox in which no head was complete: they are not parsed again before another
    /// line ends. More than 0: a head has begun.
    seen: u32,
    /// When the head or the content being received must be complete. `None`: neither has begun, and it is not
    /// the first head.
    receive_by: Option<Tick>,
    deadline: Tick,
    /// Bytes that have left, of all responses.
    sent_len: u64,
    /// Those of them that had reached the client when the deadline of what it is owed last passed.
    reached_len: u64,
    /// Requests whose heads have been read.
    request_count: u32,
    /// Whose limits hold: the site of the last request.
    site: SiteId,
    /// Responses queued since nothing was owed.
    owed_count: u32,
    /// When the first of them was.
    owed_since: Tick,
    /// One of them is recorded.
    recorded: bool,
    /// Begin no exchange beyond the one whose head has begun.
    stopping: bool,
    /// The next response is the last one, and says so.
    draining: bool,
    /// Bytes wait in the inbox, not for more of them but for room in the outbox, or for what the connection wants.
    crowded: bool,
    /// Spans the next exchange may push: the usual number, unless the head that waits in the inbox needs more.
    room: usize,
    /// The end of the client's bytes has been told: there is nothing to read any more.
    ended: bool,
    /// What the head that waits in the inbox could not be answered without.
    wants: Option<Wanted>,
}

#[derive(Debug)]
enum Phase {
    /// A head, or the rest of one.
    Head,
    /// The rest of a request's content, which is dropped.
    Content(Incoming),
    /// That the last response has left. Nothing more is read as a request.
    Response { linger: bool },
    /// That the client closes too: what it still sends is dropped. RFC 9112, section 9.6.
    Lingering {
        /// However much it sends, not longer than until then.
        by: Tick,
    },
    /// Nothing.
    Closed,
}

/// Content of a request is read and dropped up to this many bytes, as nginx does; beyond it, closing costs
/// less than reading.
pub const CONTENT_LEN_MAX: u64 = 1024 * 1024;

/// Spans an exchange may push, as a rule: start, location, query, fields, content.
const SPANS_PER_EXCHANGE: usize = 5;

/// Spans that a response in so many parts pushes: start, two of fields; delimiter and part; the last delimiter.
const fn spans_in_parts(count: usize) -> usize {
    if count > 1 { 3 + 2 * count + 1 } else { 3 + count }
}
const _: () = assert!(spans_in_parts(1) <= SPANS_PER_EXCHANGE);
const _: () = assert!(spans_in_parts(RANGE_COUNT_MAX) <= SPAN_COUNT_MAX);

/// How long a closing connection waits for a client that sends nothing to close, in milliseconds: a round trip,
/// generously. One that sends on, as it has not seen the response yet, is waited for as long as content may take.
const LINGER_MS: u64 = 2_000;

impl Http1 {
    pub(crate) fn new(cx: &Cx<'_>, accepted: Accepted) -> Http1 {
        let site = cx.sites.fallback();
        let by = cx.now.after(cx.sites.limits(site).head_ms);
        Http1 {
            accepted,
            phase: Phase::Head,
            seen: 0,
            receive_by: Some(by),
            deadline: by,
            sent_len: 0,
            reached_len: 0,
            request_count: 0,
            site,
            owed_count: 0,
            owed_since: cx.now,
            recorded: false,
            stopping: false,
            draining: false,
            crowded: false,
            room: SPANS_PER_EXCHANGE,
            ended: false,
            wants: None,
        }
    }

    pub(crate) fn received(&mut self, cx: &mut Cx<'_>, out: &mut Outbox, input: Run) -> usize {
        let owed = !out.is_empty();
        let idle = !owed && self.is_idle();
        let mut used = 0;
        while used < input.len as usize {
            let rest = input.skip(used);
            let step = match &mut self.phase {
                Phase::Head => self.head(cx, out, rest),
                Phase::Content(incoming) => match incoming.skip(cx.pool.bytes(rest)) {
                    Ok(skipped) => {
                        if incoming.is_done() {
                            self.content_done();
                        }
                        skipped
                    }
                    Err(Refused) => {
                        self.phase = Phase::Response { linger: true };
                        continue;
                    }
                },
                Phase::Response { linger } => {
                    // More may follow, and would reset the connection if it came after the close.
                    *linger = true;
                    rest.len as usize
                }
                Phase::Lingering { .. } | Phase::Closed => rest.len as usize,
            };
            used += step;
            if step == 0 {
                break;
            }
        }
        match (owed, out.is_empty()) {
            (false, false) => self.deadline = cx.now.after(self.limits(cx).send_ms),
            // Empty lines are nothing: they buy no time.
            (_, true) if idle && self.is_idle() => {}
            (_, true) => self.drained(cx),
            // The client must take what it is owed, whatever it sends meanwhile.
            (true, false) => {}
        }
        if self.wants.is_some() && out.is_empty() {
            self.deadline = cx.now.after(self.limits(cx).send_ms);
        }
        used
    }

    pub(crate) fn ended(&mut self, cx: &mut Cx<'_>, out: &Outbox) {
        self.ended = true;
        self.phase = match self.phase {
            // A client that only closed its sending side still gets what it asked for.
            Phase::Head | Phase::Content(_) | Phase::Response { .. } => Phase::Response { linger: false },
            Phase::Lingering { .. } | Phase::Closed => Phase::Closed,
        };
        if out.is_empty() {
            self.drained(cx);
        }
    }

    #[inline]
    pub(crate) fn sent(&mut self, cx: &mut Cx<'_>, out: &Outbox, len: u64) {
        self.sent_len += len;
        cx.counters.sent_len.add(len);
        if out.is_empty() {
            self.completed(cx);
            self.drained(cx);
        } else if self.recorded && matches!(out.spans()[0], Span::Start(_)) {
            // Of several responses, some have left whole. A client that always asks for more is not waited for.
            self.record_sent(cx, false);
        }
    }

    pub(crate) fn expired(&mut self, cx: &mut Cx<'_>, out: &mut Outbox, unacked: u64) {
        let reached_len = self.sent_len.saturating_sub(unacked);
        let taken = reached_len.saturating_sub(self.reached_len) >= self.limits(cx).send_len_min();
        let serves_on = match &mut self.phase {
            // Closing would reset what has not reached the client, if that sends anything more. The first window began
            // when the response had left, and says nothing yet.
            Phase::Lingering { by } if unacked > 0 => mem::replace(by, cx.now) > cx.now || taken,
            _ => !out.is_empty() && taken,
        };
        if !serves_on {
            return self.give_up(cx, out);
        }
        self.reached_len = reached_len;
        self.deadline = cx.now.after(self.limits(cx).send_ms);
    }

    /// Waits no longer for what the state awaits.
    #[cold]
    pub(crate) fn give_up(&mut self, cx: &mut Cx<'_>, out: &mut Outbox) {
        match self.phase {
            Phase::Head if out.is_empty() && self.seen > 0 => {
                let (site, status) = (cx.sites.fallback(), Status::RequestTimeout);
                if cx.records.is_on() {
                    cx.records.begin(self.begins(cx.now, out, site, status), None, &[]);
                }
                self.turn_away(cx, out, None, site, status, true);
                self.deadline = cx.now.after(self.limits(cx).send_ms);
            }
            // The response has left, but a reset may still overtake it.
            Phase::Content(_) if out.is_empty() => {
                self.phase = Phase::Response { linger: true };
                self.drained(cx);
            }
            _ => self.abort(),
        }
    }

    pub(crate) fn stop(&mut self, cx: &mut Cx<'_>, out: &Outbox) {
        self.stopping = true;
        if out.is_empty() {
            self.drained(cx);
        }
    }

    /// The connection is gone.
    pub(crate) fn abandon(&mut self, cx: &mut Cx<'_>) {
        cx.counters.aborted.add(self.owed_count.into());
        if self.recorded {
            self.record_sent(cx, true);
        }
        self.abort();
    }

    pub(crate) fn drain(&mut self) {
        self.draining = true;
    }

    /// Whatever is still owed cannot be sent.
    pub(crate) fn abort(&mut self) {
        self.phase = Phase::Closed;
        self.deadline = Tick::NEVER;
    }

    #[inline]
    pub(crate) fn need(&self, out: &Outbox) -> Need {
        let (input, close) = match self.phase {
            Phase::Head if self.wants.is_some() || !out.has_room(self.room) => (Input::Pause, Close::No),
            // What would be dropped waits too: one law for all.
            Phase::Content(_) | Phase::Response { .. } if out.is_full() => (Input::Pause, Close::No),
            Phase::Head | Phase::Content(_) => (Input::Bytes { max: BUF_LEN as u32 }, Close::No),
            Phase::Response { .. } if self.ended => (Input::Pause, Close::No),
            // Read, to be dropped: bytes that nobody has read when the connection closes would reset it.
            Phase::Response { .. } => (Input::Bytes { max: BUF_LEN as u32 }, Close::No),
            Phase::Lingering { .. } => (Input::Bytes { max: BUF_LEN as u32 }, Close::Write),
            Phase::Closed => (Input::Pause, Close::Both),
        };
        Need { input, close }
    }

    #[inline]
    pub(crate) fn is_unused(&self, out: &Outbox) -> bool {
        matches!(self.phase, Phase::Head) && self.seen == 0 && out.is_empty() && self.wants.is_none()
    }

    #[inline]
    pub(crate) fn wants(&self) -> Option<Wanted> {
        self.wants
    }

    pub(crate) fn loaded(&mut self) {
        self.wants = None;
    }

    #[inline]
    pub(crate) fn deadline(&self) -> Tick {
        self.deadline
    }

    /// Begins the exchange whose head is at the front of `input`. Returns the length of the head; 0 asks for
    /// more of it, for room, or for what has to be in memory.
    #[inline]
    fn head(&mut self, cx: &mut Cx<'_>, out: &mut Outbox, input: Run) -> usize {
        self.crowded = !out.has_room(self.room);
        if self.crowded {
            return 0;
        }
        let wire = cx.pool.bytes(input);
        // Empty lines before a request-line are nothing: RFC 9112, section 2.2.
        if let empty @ 1.. = empty_lines(wire) {
            self.seen = 0;
            return empty;
        }
        if self.is_stale(wire) {
            self.seen = input.len;
            return 0;
        }
        let (head, len) = match head::parse(wire) {
            Ok(Some(parsed)) => parsed,
            Ok(None) => {
                self.seen = input.len;
                self.receive_by.get_or_insert(cx.now.after(self.limits(cx).head_ms));
                return 0;
            }
            Err(error) => {
                // Even of a head that is refused the method may be known: RFC 9110, section 9.3.2.
                let with_content = !wire.starts_with(b"HEAD ");
                let (site, status) = (cx.sites.fallback(), error.status());
                if cx.records.is_on() {
                    cx.records.begin(self.begins(cx.now, out, site, status), None, wire);
                }
                self.turn_away(cx, out, None, site, status, with_content);
                return input.len as usize;
            }
        };
        let version = head.version;
        let with_content = head.method != Method::Head;
        let host = match head.host() {
            Ok(host) => host,
            Err(error) => {
                let (site, status) = (cx.sites.fallback(), error.status());
                if cx.records.is_on() {
                    cx.records.begin(self.begins(cx.now, out, site, status), Some(&head), wire);
                }
                self.turn_away(cx, out, Some(version), site, status, with_content);
                return input.len as usize;
            }
        };
        let chosen = cx.sites.choose(&head, host);
        let site = chosen.site();
        let content = match incoming(&head) {
            Ok(content) => content,
            Err(status) => {
                if cx.records.is_on() {
                    cx.records.begin(self.begins(cx.now, out, site, status), Some(&head), wire);
                }
                self.turn_away(cx, out, Some(version), site, status, with_content);
                return input.len as usize;
            }
        };
        let with_ranges = cx.pool.is_plentiful();
        let (mut image, current) = cx.sites.current(site);
        let elsewhere = match chosen {
            Chosen::Site(_) => None,
            _ => self.health(cx.sites, &head).or_else(|| plan::elsewhere(&head, wire, current, host, chosen)),
        };
        let mut plan = match elsewhere {
            None => plan::plan(&head, wire, current, cx.starts.unix_s(), with_ranges),
            Some(plan) => plan,
        };
        if plan.missed {
            if let Some(health) = self.health(cx.sites, &head) {
                plan = health;
            } else if cx.sites.ask_earlier(site)
                && let Some(kept) = kept::plan(&head, cx.sites, site, cx.starts.unix_s(), with_ranges)
            {
                (image, plan) = kept;
            }
        }
        // The fields will be sent, and what is written for a response may be taken from them.
        cx.sites.image(image).is_resident(plan.fields);
        self.wants = cx.sites.wanted(site);
        self.crowded = self.wants.is_some();
        if self.crowded {
            return 0;
        }
        self.room = span_count(&plan);
        self.crowded = !out.has_room(self.room);
        if self.crowded {
            return 0;
        }
        self.room = SPANS_PER_EXCHANGE;
        let client_persists = persist::persists(&head);
        // A client that waits for 100 (Continue) and gets a final status may send its content or not: what
        // follows cannot be read with certainty. RFC 9110, section 10.1.1.
        // So is what follows CONNECT, unless it has been refused by then: it may be meant for the tunnel. RFC 9931.
        let unsure = content.is_some() && plan::expects_continue(&head) || head.method == Method::Connect;
        self.site = site;
        self.request_count += 1;
        let last =
            self.stopping || self.draining || self.request_count >= self.limits(cx).keepalive_requests.get();
        let persists = client_persists && !last && !unsure && plan.status != Status::BadRequest;
        let fate = match (persists, head.version) {
            (false, _) => Fate::Close,
            (true, Version::Http10) => Fate::PersistSaid,
            (true, Version::Http11) => Fate::Persist,
        };
        if cx.records.is_on() {
            cx.records.begin(self.begins(cx.now, out, site, plan.status), Some(&head), &wire[..len]);
        }
        self.seen = 0;
        self.receive_by = None;
        match content {
            _ if !persists => self.phase = Phase::Response { linger: client_persists || content.is_some() },
            Some(incoming) => {
                self.receive_by = Some(cx.now.after(self.limits(cx).content_ms));
                self.phase = Phase::Content(incoming);
            }
            None => {}
        }
        match plan.own {
            Own::Nothing => respond(cx, out, image, &plan, fate),
            Own::Location(location) => match keep_query(cx, location, input) {
                Ok(query) => redirect(cx, out, image, &plan, fate, location.target, query),
                Err(status) => (image, plan) = self.refuse(cx, out, site, status, plan.content.is_some()),
            },
            Own::Leads(leads) => match write_location(cx, image, &leads, input) {
                Ok(location) => respond_behind(cx, out, image, &plan, fate, location),
                Err(status) => (image, plan) = self.refuse(cx, out, site, status, plan.content.is_some()),
            },
            Own::Moved(moved) => match write_moved(cx, moved, input) {
                Ok(fields) => respond_behind(cx, out, image, &plan, fate, fields),
                Err(status) => (image, plan) = self.refuse(cx, out, site, status, with_content),
            },
            Own::Health(health) => match written(cx.pool, input, |_, to| health.write(to)) {
                Ok(all) => respond_behind(cx, out, image, &plan, fate, all),
                Err(status) => (image, plan) = self.refuse(cx, out, site, status, with_content),
            },
            Own::Parts(partial) => respond_in_parts(cx, out, image, &plan, fate, &partial),
            Own::Unsatisfied { of } => respond_without_parts(cx, out, image, &plan, fate, of),
        }
        self.responded(cx, out, image, &plan, Some(version));
        len
    }

    /// What is answered to a load balancer, if it is one that asks.
    #[cold]
    fn health(&self, sites: &Sites, head: &Head<'_>) -> Option<Plan> {
        plan::health(head, sites.health_path()?, self.stopping)
    }

    /// What the client is granted.
    #[inline]
    fn limits<'c>(&self, cx: &'c Cx<'_>) -> &'c Limits {
        cx.sites.limits(self.site)
    }

    /// Whether `wire` ends no line more than when it was parsed before: then the verdict of that time stands.
    /// This keeps the cost of a head that arrives in drops linear.
    #[inline]
    fn is_stale(&self, wire: &[u8]) -> bool {
        let seen = self.seen as usize;
        seen > 0 && wire.len() < HEAD_LEN_MAX && !wire[seen..].contains(&b'\n')
    }

    /// Whether the next request is awaited, and nothing of it has come.
    #[inline]
    fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Head) && self.receive_by.is_none() && !self.stopping
    }

    fn content_done(&mut self) {
        self.receive_by = None;
        self.phase = if self.stopping { Phase::Response { linger: true } } else { Phase::Head };
    }

    /// Answers what cannot be understood or served, and reads nothing more as a request.
    #[cold]
    fn refuse(
        &mut self,
        cx: &mut Cx<'_>,
        out: &mut Outbox,
        site: SiteId,
        status: Status,
        with_content: bool,
    ) -> (ImageId, Plan) {
        let (image, current) = cx.sites.current(site);
        let plan = plan::page(current, status, with_content);
        self.phase = Phase::Response { linger: true };
        respond(cx, out, image, &plan, Fate::Close);
        (image, plan)
    }

    /// The same, as all that a request gets.
    #[cold]
    fn turn_away(
        &mut self,
        cx: &mut Cx<'_>,
        out: &mut Outbox,
        version: Option<Version>,
        site: SiteId,
        status: Status,
        with_content: bool,
    ) {
        let (image, plan) = self.refuse(cx, out, site, status, with_content);
        self.responded(cx, out, image, &plan, version);
    }

    /// A response is queued, the last one there.
    #[inline]
    fn responded(
        &mut self,
        cx: &mut Cx<'_>,
        out: &Outbox,
        image: ImageId,
        plan: &Plan,
        version: Option<Version>,
    ) {
        cx.counters.responded(plan.status, version);
        if self.owed_count == 0 {
            self.owed_since = cx.now;
        }
        self.owed_count += 1;
        if cx.records.is_open() {
            self.record_response(cx, out, image, plan);
        }
    }

    /// Nothing is owed any more.
    #[inline]
    fn completed(&mut self, cx: &mut Cx<'_>) {
        cx.counters.completed(self.owed_count.into(), cx.now.0.saturating_sub(self.owed_since.0));
        self.owed_count = 0;
        if self.recorded {
            self.record_sent(cx, false);
            self.recorded = false;
        }
    }

    /// What a record says of an exchange whose response is about to be queued.
    fn begins(&self, now: Tick, out: &Outbox, site: SiteId, status: Status) -> Begins {
        Begins { accepted: self.accepted, site, now, at: self.sent_len + out.len(), status }
    }

    fn record_response(&mut self, cx: &mut Cx<'_>, out: &Outbox, image: ImageId, plan: &Plan) {
        let end = self.sent_len + out.len();
        let content_len = plan.content_len(cx.sites.image(image));
        if let Some(at) = cx.records.wants_head() {
            record_head(cx, out, at - self.sent_len, end - self.sent_len - content_len);
        }
        cx.records.answer(plan.status, end, content_len);
        self.recorded = true;
    }

    fn record_sent(&mut self, cx: &mut Cx<'_>, last: bool) {
        let (number, tick, len) = (self.accepted.number, cx.now, self.sent_len);
        cx.records.sent(Sent { number, tick, len, last });
    }

    /// Nothing is owed: goes on to what comes after the last response, and says how long it waits.
    #[inline]
    fn drained(&mut self, cx: &mut Cx<'_>) {
        self.deadline = match self.phase {
            Phase::Head if self.stopping && self.seen == 0 && !self.crowded => {
                self.phase = Phase::Closed;
                Tick::NEVER
            }
            Phase::Head | Phase::Content(_) => {
                self.receive_by.unwrap_or(cx.now.after(self.limits(cx).idle_ms))
            }
            Phase::Response { linger: true } => {
                let by = cx.now.after(self.limits(cx).content_ms.max(LINGER_MS));
                self.phase = Phase::Lingering { by };
                by.min(cx.now.after(LINGER_MS))
            }
            Phase::Response { linger: false } | Phase::Closed => {
                self.phase = Phase::Closed;
                Tick::NEVER
            }
            Phase::Lingering { by } => self.deadline.max(by.min(cx.now.after(LINGER_MS))),
        };
    }
}

/// Shows a record what lies between two places in the outbox: the head of the last response.
#[cold]
fn record_head(cx: &mut Cx<'_>, out: &Outbox, begin: u64, end: u64) {
    let mut at = 0;
    for span in out.spans() {
        let bytes = match *span {
            Span::Start(start) => cx.starts.bytes(start),
            Span::Buf(run) => cx.pool.bytes(run),
            Span::Site { image, at, len } => cx.sites.image(image).bytes(Region { at, len }),
            Span::File { .. } | Span::Archive { .. } => &[],
        };
        if at >= begin && at < end {
            cx.records.head(&bytes[..bytes.len().min((end - at) as usize)]);
        }
        at += span.len();
    }
}

/// Spans that the response will push, at most.
#[inline]
fn span_count(plan: &Plan) -> usize {
    match &plan.own {
        Own::Parts(partial) => spans_in_parts(partial.parts().len()),
        _ => SPANS_PER_EXCHANGE,
    }
}

/// Queues a whole response.
#[inline]
fn respond(cx: &mut Cx<'_>, out: &mut Outbox, image: ImageId, plan: &Plan, fate: Fate) {
    out.push(cx.sites, Span::Start(cx.starts.start(plan.status, fate)));
    push_rest(cx, out, image, plan);
}

/// Queues a redirect that keeps its query: `target` lies in the image, and the query in the pool.
#[cold]
fn redirect(
    cx: &mut Cx<'_>,
    out: &mut Outbox,
    image: ImageId,
    plan: &Plan,
    fate: Fate,
    target: Region,
    query: Run,
) {
    out.push(cx.sites, Span::Start(cx.starts.start(plan.status, fate)));
    out.push(cx.sites, site(image, target));
    out.push(cx.sites, Span::Buf(query));
    push_rest(cx, out, image, plan);
}

/// Queues status 206. All that is written for it lies in one buffer, which each of the spans there holds.
#[cold]
fn respond_in_parts(
    cx: &mut Cx<'_>,
    out: &mut Outbox,
    image: ImageId,
    plan: &Plan,
    fate: Fate,
    partial: &Partial,
) {
    let buf = take(cx.pool);
    let packed = cx.sites.image(image);
    let content = plan.content.expect("parts of a content");
    let pieces = partial.write(packed, cx.pool.buf_mut(buf));
    let mut pieces = pieces.ranges().map(|range| Run { buf, at: range.start, len: range.end - range.start });
    let mut push_piece = |cx: &mut Cx<'_>, out: &mut Outbox| {
        if let Some(piece) = pieces.next() {
            cx.pool.hold(buf);
            out.push(cx.sites, Span::Buf(piece));
        }
    };
    out.push(cx.sites, Span::Start(cx.starts.start(plan.status, fate)));
    push_piece(cx, out);
    out.push(cx.sites, site(image, plan.fields));
    for part in partial.parts() {
        push_piece(cx, out);
        out.push(cx.sites, span(image, content.part(part.at, part.len)));
    }
    push_piece(cx, out);
    cx.pool.release(buf);
}

/// Queues status 416, for a representation of `of` bytes.
#[cold]
fn respond_without_parts(
    cx: &mut Cx<'_>,
    out: &mut Outbox,
    image: ImageId,
    plan: &Plan,
    fate: Fate,
    of: u64,
) {
    let buf = take(cx.pool);
    let len = partial::write_unsatisfied(of, cx.pool.buf_mut(buf));
    respond_behind(cx, out, image, plan, fate, Run { buf, at: 0, len: len as u32 });
}

/// Queues a response whose first fields were written for it.
#[cold]
fn respond_behind(cx: &mut Cx<'_>, out: &mut Outbox, image: ImageId, plan: &Plan, fate: Fate, fields: Run) {
    out.push(cx.sites, Span::Start(cx.starts.start(plan.status, fate)));
    out.push(cx.sites, Span::Buf(fields));
    push_rest(cx, out, image, plan);
}

/// Fields and content.
#[inline]
fn push_rest(cx: &mut Cx<'_>, out: &mut Outbox, image: ImageId, plan: &Plan) {
    let fields = plan.fields;
    match plan.content {
        // The usual case: content that lies behind its fields leaves with them, as one stretch.
        Some(Content::Image(content)) if content.at == fields.at + fields.len => {
            out.push(cx.sites, site(image, Region { at: fields.at, len: fields.len + content.len }));
        }
        Some(content) => {
            out.push(cx.sites, site(image, fields));
            out.push(cx.sites, span(image, content));
        }
        None => out.push(cx.sites, site(image, fields)),
    }
}

#[inline]
fn site(image: ImageId, place: Region) -> Span {
    Span::Site { image, at: place.at, len: place.len }
}

#[inline]
fn span(image: ImageId, content: Content) -> Span {
    match content {
        Content::Image(place) => site(image, place),
        Content::File { number, at, len } => Span::File { image, number, at, len },
        Content::Archive(place) => Span::Archive { image, at: place.at, len: place.len },
    }
}

fn take(pool: &mut Pool) -> BufId {
    pool.take().expect("ranges are planned only while buffers are plentiful")
}

/// Copies a query out of the head, whose buffer will be read into again, and escapes what a Location may not have; or says
/// why that cannot be.
#[cold]
fn keep_query(cx: &mut Cx<'_>, location: Location, head: Run) -> Result<Run, Status> {
    let query = Run { buf: head.buf, at: head.at + location.query_at, len: location.query_len };
    written(cx.pool, query, |query, to| {
        let mut room = Room::new(to);
        room.put_escaped(query)?;
        Some(room.len())
    })
}

/// Writes where a rule leads, or says why that cannot be.
#[cold]
fn write_location(cx: &mut Cx<'_>, image: ImageId, leads: &Leads, head: Run) -> Result<Run, Status> {
    let rules = cx.sites.image(image).rules().expect("a rule leads there");
    written(cx.pool, head, |wire, to| leads.write(rules, wire, to))
}

/// Writes where an alias leads, or says why that cannot be.
#[cold]
fn write_moved(cx: &mut Cx<'_>, moved: Moved, head: Run) -> Result<Run, Status> {
    let canonical = cx.sites.canonical(moved.site());
    written(cx.pool, head, |wire, to| moved.write(canonical, wire, to))
}

/// What is made of a run, in another buffer. Where it does not fit, or there is no buffer, the redirect is refused with this
/// status.
fn written(
    pool: &mut Pool,
    from: Run,
    write: impl FnOnce(&[u8], &mut [u8]) -> Option<usize>,
) -> Result<Run, Status> {
    let buf = pool.take().ok_or(Status::ServiceUnavailable)?;
    let (wire, to) = pool.pair(from, buf);
    match write(wire, to) {
        Some(len) => Ok(Run { buf, at: 0, len: len as u32 }),
        None => {
            pool.release(buf);
            Err(Status::UriTooLong)
        }
    }
}

/// Length of the empty lines at the front of `wire`.
#[inline]
fn empty_lines(wire: &[u8]) -> usize {
    wire.chunks_exact(2).take_while(|line| *line == b"\r\n").count() * 2
}

/// Content of a request to a static resource: dropped, never mistaken for the next request.
#[derive(Debug)]
enum Incoming {
    Length { left: u64 },
    Chunked { decoder: ChunkedDecoder, left: u64 },
}

/// The content is malformed or too long: where it ends is not known, or not worth waiting for.
struct Refused;

impl Incoming {
    /// Drops what of the content is at the front of `wire`. Returns how many bytes that was.
    fn skip(&mut self, wire: &[u8]) -> Result<usize, Refused> {
        match self {
            Incoming::Length { left } => {
                let skipped = (*left).min(wire.len() as u64);
                *left -= skipped;
                Ok(skipped as usize)
            }
            Incoming::Chunked { decoder, left } => {
                let piece = decoder.decode(wire).map_err(|_| Refused)?;
                *left = left.checked_sub(piece.content.len() as u64).ok_or(Refused)?;
                Ok(piece.used)
            }
        }
    }

    fn is_done(&self) -> bool {
        match self {
            Incoming::Length { left } => *left == 0,
            Incoming::Chunked { decoder, .. } => decoder.is_done(),
        }
    }
}

/// What content follows the head, if the head is in order. RFC 9112, section 6.3.
#[inline]
fn incoming(head: &Head<'_>) -> Result<Option<Incoming>, Status> {
    match framing::framing(head).map_err(|error| error.status())? {
        Framing::None | Framing::Length(0) => Ok(None),
        Framing::Length(len) if len > CONTENT_LEN_MAX => Err(Status::ContentTooLarge),
        Framing::Length(left) => Ok(Some(Incoming::Length { left })),
        Framing::Chunked => {
            Ok(Some(Incoming::Chunked { decoder: ChunkedDecoder::default(), left: CONTENT_LEN_MAX }))
        }
    }
}
