//! Begins an exchange, in five steps.
//!
//! ```text
//! input ─ parse ─▶ Request ─ route ─▶ site ─ plan ─▶ Plan ─ admit ─▶ Persistence ─ emit ─▶ outbox
//!           │                                 │                └ the next phase
//!           └ more bytes, or refused          └ a page must be loaded, or the outbox has no room
//! ```
//!
//! Until a request is admitted nothing has changed: the engine offers the same input again.

use super::{
    Blocked, CONTENT_LEN_MAX, Ending, Http1, Http1Phase, RequestContent, emit, function, request::request,
    request_content,
};
use crate::{
    BufRange, ConnResources,
    backend::BackendRoute,
    passwords::PasswordVerdict,
    plan::{self, Plan, PlanOptions},
    plan_route::{self, PlannedRoute, plan_route},
    record::{ExchangeStart, HttpVersions},
    request::{Client, Request},
    response_prefix::Persistence,
    send_pace::SendRate,
    sites::{MissingPage, Route, SiteId, Sites},
    span::Outbox,
};
use tarpon_http::{
    h2::{PrefaceCheck, check_preface},
    head::{self, Head, Method, Version},
    persist,
    status::Status,
};

/// Where a request for a backend comes from and leads to, and how fast its response leaves.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoutedExchange {
    pub(super) client: Client,
    pub(super) site: SiteId,
    pub(super) route: BackendRoute,
    pub(super) send_rate: Option<SendRate>,
}

impl Http1 {
    /// Begins the exchange whose head is at the front of `input`. Returns how many bytes it has consumed; 0 if the head waits for more
    /// bytes, for room in the outbox, or for a page of an image.
    #[inline(never)]
    pub(super) fn begin(&mut self, cx: &mut ConnResources<'_>, out: &mut Outbox, input: BufRange) -> usize {
        let span_count = self.span_count();
        if !out.has_room(span_count) {
            self.blocked = Blocked::Room(span_count);
            return 0;
        }
        self.blocked = Blocked::No;

        // Parse.
        let (bytes, len_max) = (cx.pool.bytes(input), cx.pool.head_len_max());
        if self.request_count == 0 && self.may_have_preface(bytes) {
            return self.check_preface(cx, input);
        }
        if self.incomplete_len > 0 || bytes.first() == Some(&b'\r') {
            // Empty lines before a request line are skipped: RFC 9112, section 2.2.
            if let len @ 1.. = empty_lines_len(bytes) {
                self.incomplete_len = 0;
                return len;
            }
            if self.is_still_incomplete(bytes, len_max) {
                self.incomplete_len = input.len;
                return 0;
            }
        }
        // Head and plan are long: they are used where they were written.
        let mut head = Head::EMPTY;
        let head_len = match head::parse_into(&mut head, len_max, bytes) {
            Ok(Some(len)) => len,
            Ok(None) => {
                self.incomplete_len = input.len;
                self.receive_by.get_or_insert(cx.now.after(self.limits(cx).head_ms));
                return 0;
            }
            Err(error) => {
                return self.refuse(cx, out, input, self.fallback_site(cx), error.status());
            }
        };
        let head = &head;
        let host = match head.host() {
            Ok(host) => host,
            Err(error) => {
                return self.refuse(cx, out, input, self.fallback_site(cx), error.status());
            }
        };
        let mut client = self.finder.client(cx.sites, &head.fields);
        let mut request = Request { client, ..request(head, bytes, host) };

        let route = cx.sites.route(self.finder.accepted().routes, &request);
        let site = route.site();
        let (mut refusal, mut send_rate) = (None, None);
        if let Some(limits) = cx.sites.client_limits()
            && let Some(limits) = limits.of(&request, route)
        {
            send_rate = limits.send_rate();
            if self.limited_count != self.request_count + 1 {
                refusal = limits.check(&request, cx.now_us);
                self.limited_count = self.request_count + u32::from(refusal.is_none());
            }
            if refusal.is_none()
                && let Some(rule) = limits.password_rule(route)
            {
                client.password = Some(rule);
                request.client = client;
                let check = &mut self.password_check;
                match limits.check_password(rule, &request, check, cx.counters, cx.now_us) {
                    PasswordVerdict::Passes => {}
                    PasswordVerdict::Refused(because) => refusal = Some(because),
                    PasswordVerdict::Waits => {
                        self.blocked = Blocked::Password;
                        return 0;
                    }
                }
            }
        }
        if let Route::Backend(_, backend) = route
            && refusal.is_none()
        {
            // A response needs a buffer: without one the function is not called.
            if !cx.pool.has_for_response() {
                return self.refuse(cx, out, input, site, Status::ServiceUnavailable);
            }
            let exchange = RoutedExchange { client, site, route: backend, send_rate };
            let called = function::call(cx.sites, &backend, head, head_len, &request);
            if let (Some(paths), Some(path)) = (&mut cx.hot_paths, request.path()) {
                paths.requested(site, path);
            }
            return match called {
                None => self.begin_piped(cx, out, input, exchange),
                Some(called) => self.called(cx, out, input, exchange, called),
            };
        }
        let content = match RequestContent::of(head, CONTENT_LEN_MAX) {
            Ok(content) => content,
            Err(status) => return self.refuse(cx, out, input, site, status),
        };

        let options = PlanOptions { unix_s: cx.prefixes.unix_s(), with_ranges: cx.pool.has_for_response() };
        let is_stopping = self.ending == Ending::Stopping;
        let PlannedRoute { image, planned } = match refusal {
            None if client.password.is_some() => {
                plan_route(cx.sites, &request, route, options, is_stopping).into_private()
            }
            None => plan_route(cx.sites, &request, route, options, is_stopping),
            Some(refusal) => plan_route::refused(cx.sites, &request, site, refusal),
        };
        let plan = match &planned {
            Ok(plan) => plan,
            Err(missing) => {
                self.blocked = Blocked::Page(MissingPage::new(image, *missing));
                return 0;
            }
        };
        let span_count = emit::span_count(plan);
        if span_count > emit::USUAL_SPAN_COUNT && !out.has_room(span_count) {
            self.blocked = Blocked::Room(span_count);
            return 0;
        }

        if let (Some(paths), Some(path)) = (&mut cx.hot_paths, request.path()) {
            paths.requested(site, path);
        }
        if cx.records.is_on() {
            let is_logged = plan_route::is_logged(cx.sites, &request, route, plan);
            let start = self.exchange_start(cx, out, site, client, plan.status);
            let start = ExchangeStart { is_logged, ..start };
            cx.records.start_record(start, Some(head), &bytes[..head_len]);
        }
        if let Some(refusal) = refusal {
            refusal.count(cx.counters);
            self.password_check.answered();
        }
        let (version, with_content) = (head.version, request.with_content());
        let persistence = self.admit(cx.sites, head, site, content.is_some(), plan.status);
        if let (Http1Phase::Head, Some(content)) = (&self.phase, content) {
            self.receive_by = Some(cx.now.after(self.limits(cx).content_ms));
            self.phase = Http1Phase::Content(content);
        }

        let queued_len = out.len();
        match emit::emit(cx, out, image, plan, persistence, input) {
            Ok(()) => {
                self.responded(cx, out, plan, Some(version));
                if let Some(rate) = send_rate {
                    self.pace(cx, out, rate, out.len() - queued_len, plan.content_len());
                }
            }
            Err(status) => {
                let plan = self.respond_with_page(cx, out, site, status, with_content, Persistence::Close);
                self.responded(cx, out, &plan, Some(version));
            }
        }
        head_len
    }

    /// Admits a request: decides whether the connection persists, and sets the phase after the response.
    #[inline]
    fn admit(
        &mut self,
        sites: &Sites,
        head: &Head<'_>,
        site: SiteId,
        has_content: bool,
        status: Status,
    ) -> Persistence {
        (self.incomplete_len, self.receive_by) = (0, None);
        self.site = site;
        self.request_count += 1;
        let is_last =
            self.ending != Ending::No || self.request_count >= sites.limits(site).keepalive_requests.get();
        let client_persists = persist::persists(head.version, &head.fields);
        // A client that waits for 100 (Continue) and gets a final status may send its content or not, so the start of the next request is
        // uncertain: RFC 9110, section 10.1.1. So it is after CONNECT: what follows may be meant for the tunnel (RFC 9931).
        let is_uncertain =
            has_content && request_content::expects_continue(head) || head.method == Method::Connect;
        if !client_persists || is_last || is_uncertain || status == Status::BadRequest {
            self.phase = Http1Phase::LastResponse { linger: client_persists || has_content };
            return Persistence::Close;
        }
        match head.version {
            Version::Http10 => Persistence::KeepAlive,
            Version::Http11 | Version::Http2 => Persistence::Persist,
        }
    }

    /// Refuses the request at the front of `input` and all that follows: where the next request begins is unknown. Returns the length of
    /// the input, or 0 if the outbox has no room for the status page.
    #[cold]
    pub(super) fn refuse(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        input: BufRange,
        site: SiteId,
        status: Status,
    ) -> usize {
        if !out.has_room(emit::PAGE_SPAN_COUNT) {
            self.blocked = Blocked::Room(emit::PAGE_SPAN_COUNT);
            return 0;
        }
        let bytes = cx.pool.bytes(input);
        let head = head::parse_within(cx.pool.head_len_max(), bytes).ok().flatten().map(|(head, _)| head);
        // The method of an invalid head may be known: RFC 9110, section 9.3.2.
        let with_content = !bytes.starts_with(b"HEAD ");
        let version = head.map(|head| head.version);
        if cx.records.is_on() {
            let client = head.map_or(self.finder.peer(), |head| self.finder.client(cx.sites, &head.fields));
            let start = self.exchange_start(cx, out, site, client, status);
            cx.records.start_record(start, head.as_ref(), bytes);
        }
        let plan = self.respond_with_page(cx, out, site, status, with_content, Persistence::Close);
        self.responded(cx, out, &plan, version);
        input.len as usize
    }

    /// Queues a status page. It is the last response unless the connection persists.
    #[cold]
    pub(super) fn respond_with_page(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        site: SiteId,
        status: Status,
        with_content: bool,
        persistence: Persistence,
    ) -> Plan {
        let (image, current) = cx.sites.current(site);
        let plan = plan::page(current, status, with_content);
        self.phase = match persistence {
            Persistence::Close => Http1Phase::LastResponse { linger: true },
            Persistence::Persist | Persistence::KeepAlive => Http1Phase::Head,
        };
        emit::emit_planned(cx, out, image, &plan, persistence);
        plan
    }

    /// Returns whether the first bytes of a connection may be those of HTTP/2.
    #[inline]
    fn may_have_preface(&self, bytes: &[u8]) -> bool {
        let accepted = self.finder.accepted();
        let is_offered = accepted.versions == HttpVersions::All && !accepted.has_tls;
        is_offered && check_preface(bytes) != PrefaceCheck::Mismatch
    }

    /// Checks bytes that may be the preface of HTTP/2. Consumes none.
    #[cold]
    fn check_preface(&mut self, cx: &ConnResources<'_>, input: BufRange) -> usize {
        match check_preface(cx.pool.bytes(input)) {
            PrefaceCheck::Complete => self.phase = Http1Phase::Preface,
            PrefaceCheck::Incomplete | PrefaceCheck::Mismatch => self.incomplete_len = input.len,
        }
        0
    }

    /// Returns whether no line of the head has ended since it was parsed before and found incomplete. This keeps the cost of a head that
    /// arrives in small pieces linear.
    #[cold]
    fn is_still_incomplete(&self, bytes: &[u8], len_max: usize) -> bool {
        let parsed_len = self.incomplete_len as usize;
        parsed_len > 0 && bytes.len() < len_max && !bytes[parsed_len..].contains(&b'\n')
    }
}

/// Returns the length of the empty lines at the front of `bytes`.
#[cold]
fn empty_lines_len(bytes: &[u8]) -> usize {
    bytes.chunks_exact(2).take_while(|line| *line == b"\r\n").count() * 2
}
