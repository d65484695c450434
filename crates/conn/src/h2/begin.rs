//! Begins an exchange, as HTTP/1 does.
//!
//! ```text
//! fields ─ H2Request ─▶ Request ─ route ─▶ site ─ plan ─▶ Plan ─▶ HEADERS, and a short content
//!                                                            └──▶ a stream with the rest
//! ```
//!
//! Until the head is queued nothing has changed: the last frame of the block is offered again.

use super::{
    Http2, RECEIVE_WINDOW, STREAM_COUNT_MAX,
    field_block::OpenBlock,
    h2_records::RecordedParts,
    head::{HeadContent, UnqueuedHead},
    stream::{Body, H2Exchange, H2Stream, Upload},
    tunnel::check_tunnel,
};
use crate::{
    ConnResources,
    backend::BackendRoute,
    h1::CONTENT_LEN_MAX,
    open_exchanges::NO_PLACE,
    passwords::PasswordVerdict,
    path_limits::Refusal,
    plan::{self, Plan, PlanOptions},
    plan_route::{self, PlannedRoute, plan_route},
    request::{Client, Request, Resource},
    send_pace::{SendPace, SendRate},
    sites::{ImageId, MissingPage, Route, SiteId},
    span::{Outbox, Span},
};
use tarpon_http::{
    h2::{ErrorCode, H2Request, Priority, data_header},
    status::Status,
    target::Target,
};
use tarpon_site::Region;

/// A content up to this length is copied behind its head, into the same send: two places in the outbox less.
const COPIED_LEN_MAX: u64 = 4 * 1024;

/// Frames that carry nothing which an exchange allows for.
const OVERHEAD_PER_EXCHANGE: u32 = 8;

/// What the rest of an exchange needs of a request.
#[derive(Clone, Copy)]
struct BegunRequest<'a> {
    stream: u32,
    ends_stream: bool,
    content_length: Option<u64>,
    priority: Priority,
    client: Client,
    site: SiteId,
    /// The bytes that a plan names parts of.
    bytes: &'a [u8],
    parts: &'a RecordedParts<'a>,
    is_logged: bool,
    send_rate: Option<SendRate>,
}

/// A request that an image does not answer.
#[derive(Clone, Copy)]
pub(super) struct NewExchange<'a> {
    pub(super) stream: u32,
    pub(super) ends_stream: bool,
    pub(super) content_length: Option<u64>,
    pub(super) priority: Priority,
    pub(super) request: &'a Request<'a>,
    pub(super) parts: &'a RecordedParts<'a>,
    pub(super) site: SiteId,
    pub(super) route: BackendRoute,
    pub(super) send_rate: Option<SendRate>,
    /// The client asks for a tunnel.
    pub(super) wants_tunnel: bool,
}

impl Http2 {
    /// Begins the exchange of a decoded block. Returns whether it has begun, or was refused. If not, it waits for room or a page.
    #[inline]
    pub(super) fn begin(&mut self, cx: &mut ConnResources<'_>, out: &mut Outbox, block: &OpenBlock) -> bool {
        let stream = block.stream;
        if self.streams.len() >= STREAM_COUNT_MAX as usize {
            self.reset_stream(cx, stream, ErrorCode::REFUSED_STREAM);
            return true;
        }
        let section = &block.decoded.section;
        let bytes = &block.decoded.bytes[..section.len()];
        if section.is_too_large() {
            return self.refuse_fields(cx, out, block);
        }
        let parsed = match H2Request::parse(section, bytes, true) {
            Ok(parsed) => parsed,
            Err(error) => {
                self.reset_stream(cx, stream, error.code());
                return true;
            }
        };
        if block.ends_stream && parsed.content_length.is_some_and(|length| length > 0) {
            self.reset_stream(cx, stream, ErrorCode::PROTOCOL_ERROR);
            return true;
        }
        let client = self.finder.client(cx.sites, &parsed.fields);
        let mut request = request(&parsed, client, bytes);
        let route = cx.sites.route(self.finder.accepted().routes, &request);
        let parts = RecordedParts::of(&parsed, bytes);
        let mut begun = BegunRequest {
            stream,
            ends_stream: block.ends_stream,
            content_length: parsed.content_length,
            priority: self.priority_of(&parsed, stream),
            client,
            site: route.site(),
            bytes,
            parts: &parts,
            is_logged: true,
            send_rate: None,
        };
        let with_content = request.with_content();
        if let Some(limits) = cx.sites.client_limits()
            && let Some(limits) = limits.of(&request, route)
        {
            begun.send_rate = limits.send_rate();
            if self.limited_stream != stream {
                match limits.check(&request, cx.now_us) {
                    None => self.limited_stream = stream,
                    Some(refusal) => return self.refuse_client(cx, out, &begun, &request, refusal),
                }
            }
            if let Some(rule) = limits.password_rule(route) {
                begun.client.password = Some(rule);
                request.client = begun.client;
                let check = &mut self.password_check;
                match limits.check_password(rule, &request, check, cx.counters, cx.now_us) {
                    PasswordVerdict::Passes => {}
                    PasswordVerdict::Refused(refusal) => {
                        return self.refuse_client(cx, out, &begun, &request, refusal);
                    }
                    PasswordVerdict::Waits => return false,
                }
            }
        }
        if parsed.protocol.is_some()
            && let Err(status) = check_tunnel(cx, &parsed, route)
        {
            return self.respond_with_page(cx, out, &begun, status, with_content);
        }
        if let Route::Backend(_, backend) = route {
            let new = NewExchange {
                stream,
                ends_stream: block.ends_stream,
                content_length: parsed.content_length,
                priority: begun.priority,
                request: &request,
                parts: &parts,
                site: begun.site,
                route: backend,
                send_rate: begun.send_rate,
                wants_tunnel: parsed.protocol.is_some(),
            };
            let began = match cx.sites.functions().get(backend.backend) {
                Some(_) => self.begin_call(cx, out, new, &block.decoded),
                None => self.begin_piped(cx, new),
            };
            count_path(cx, begun.site, &request);
            return match began {
                Ok(()) => true,
                Err(status) => self.respond_with_page(cx, out, &begun, status, with_content),
            };
        }
        if !block.ends_stream && parsed.content_length.is_some_and(|length| length > CONTENT_LEN_MAX) {
            return self.respond_with_page(cx, out, &begun, Status::ContentTooLarge, with_content);
        }
        let options = PlanOptions { unix_s: cx.prefixes.unix_s(), with_ranges: self.may_have_ranges(cx) };
        let mut planned = plan_route(cx.sites, &request, route, options, self.is_stopping());
        if begun.client.password.is_some() {
            planned = planned.into_private();
        }
        let PlannedRoute { image, planned } = planned;
        let plan = match planned {
            Ok(plan) => plan,
            Err(missing) => {
                self.missing = Some(MissingPage::new(image, missing));
                return false;
            }
        };
        if cx.records.is_on() {
            begun.is_logged = plan_route::is_logged(cx.sites, &request, route, &plan);
        }
        match self.respond(cx, out, &begun, image, &plan) {
            Ok(()) => {
                count_path(cx, begun.site, &request);
                true
            }
            Err(UnqueuedHead::Missing(page)) => {
                self.missing = Some(MissingPage::new(image, page));
                false
            }
            Err(UnqueuedHead::Status(status)) => {
                self.respond_with_page(cx, out, &begun, status, with_content)
            }
        }
    }

    /// Returns the priority of a response: as PRIORITY_UPDATE says, or the request.
    #[inline]
    fn priority_of(&self, parsed: &H2Request<'_>, stream: u32) -> Priority {
        let early = self.early_priorities.iter().find(|(id, _)| *id == stream);
        early.map_or_else(|| parsed.priority(), |(_, priority)| *priority)
    }

    /// Answers a request whose fields are too large.
    #[cold]
    fn refuse_fields(&mut self, cx: &mut ConnResources<'_>, out: &mut Outbox, block: &OpenBlock) -> bool {
        let begun = BegunRequest {
            stream: block.stream,
            ends_stream: block.ends_stream,
            content_length: None,
            priority: Priority::default(),
            client: self.finder.peer(),
            site: cx.sites.fallback(self.finder.accepted().routes),
            bytes: &[],
            parts: &RecordedParts::NONE,
            is_logged: true,
            send_rate: None,
        };
        self.respond_with_page(cx, out, &begun, Status::RequestHeaderFieldsTooLarge, true)
    }

    /// Answers a request that the limits of clients refuse. Returns whether that was possible.
    #[cold]
    fn refuse_client(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        begun: &BegunRequest<'_>,
        request: &Request<'_>,
        refusal: Refusal,
    ) -> bool {
        let (image, current) = cx.sites.current(begun.site);
        let plan = plan::refused(refusal, current, request.with_content());
        match self.respond(cx, out, begun, image, &plan) {
            Ok(()) => {
                refusal.count(cx.counters);
                self.password_check.answered();
                true
            }
            Err(UnqueuedHead::Missing(page)) => {
                self.missing = Some(MissingPage::new(image, page));
                false
            }
            Err(UnqueuedHead::Status(status)) => {
                self.respond_with_page(cx, out, begun, status, request.with_content())
            }
        }
    }

    /// Answers with the page of a status. Returns whether that was possible: pages are in memory, and short.
    #[cold]
    fn respond_with_page(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        begun: &BegunRequest<'_>,
        status: Status,
        with_content: bool,
    ) -> bool {
        let (image, current) = cx.sites.current(begun.site);
        let plan = plan::page(current, status, with_content);
        match self.respond(cx, out, begun, image, &plan) {
            Ok(()) => true,
            Err(UnqueuedHead::Missing(page)) => {
                self.missing = Some(MissingPage::new(image, page));
                false
            }
            Err(UnqueuedHead::Status(_)) => {
                self.reset_stream(cx, begun.stream, ErrorCode::INTERNAL_ERROR);
                true
            }
        }
    }

    /// Queues the head of a planned response, and its content if that is short. The rest becomes a stream.
    #[inline]
    fn respond(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        begun: &BegunRequest<'_>,
        image: ImageId,
        plan: &Plan,
    ) -> Result<(), UnqueuedHead> {
        let content = self.put_head(cx, out, begun.stream, image, plan, begun.bytes)?;
        if cx.records.is_on() {
            let (site, status) = (begun.site, Some(plan.status));
            self.start_record(cx, begun.parts, begun.client, site, status, begun.is_logged);
        }
        self.note_begun(cx, begun.site);
        let mut exchange =
            H2Exchange { site: begun.site, begun_us: cx.now_us, recorded_at: NO_PLACE, content_len: 0 };
        self.responded(cx, &mut exchange, plan.status, plan.content_len());
        let body = match content {
            HeadContent::Place(Span::Site { image, at, len })
                if self.put_short(cx, out, begun.stream, image, Region { at, len }) =>
            {
                exchange.content_len = len;
                Body::Complete
            }
            content => Body::of(content, cx),
        };
        if let Body::Complete = body {
            self.response_queued(out, exchange);
            if begun.ends_stream {
                self.streams.note_ended(begun.stream, false);
                return Ok(());
            }
        }
        let upload = match begun.ends_stream {
            true => Upload::Complete,
            false => {
                self.await_upload(cx.now.after(self.limits(cx).content_ms));
                let (length, window) = (begun.content_length, RECEIVE_WINDOW);
                Upload::Dropped { length, received: 0, window, unreturned: 0 }
            }
        };
        self.streams.push(H2Stream {
            id: begun.stream,
            priority: begun.priority,
            window: self.initial_window,
            upload,
            body,
            pace: SendPace::begin(begun.send_rate, cx.now),
            turn: 0,
            exchange,
        });
        Ok(())
    }

    /// Notes that an exchange of a site has begun.
    #[inline]
    pub(super) fn note_begun(&mut self, cx: &ConnResources<'_>, site: SiteId) {
        self.site = site;
        self.request_count += 1;
        self.overhead.earn(OVERHEAD_PER_EXCHANGE);
        let limits = self.limits(cx);
        let is_last = self.request_count >= limits.keepalive_requests.get();
        self.idle_by = cx.now.after(limits.idle_ms);
        if is_last {
            self.announce_shutdown();
        }
    }

    /// Queues a short content behind its head. Returns `false` if it is not short, not in memory, or a window has no room for it.
    #[inline]
    fn put_short(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        stream: u32,
        image: ImageId,
        content: Region,
    ) -> bool {
        let len = content.len;
        let window = i64::from(self.send_window.min(self.initial_window));
        if len > COPIED_LEN_MAX || (len as i64) > window {
            return false;
        }
        let header = data_header(stream, len as u32, true);
        if self.output.reserve(cx, out, header.len() + len as usize).is_err() {
            return false;
        }
        let Ok(bytes) = cx.sites.image(image).resident_bytes(content) else { return false };
        self.output.put(cx.pool, &header);
        self.output.put(cx.pool, bytes);
        self.send_window -= len as i32;
        true
    }
}

/// Returns a checked request as routes and plans read it.
#[inline]
pub(super) fn request<'a>(parsed: &'a H2Request<'a>, client: Client, bytes: &'a [u8]) -> Request<'a> {
    let resource = parsed.target.map(|target| match target {
        Target::Origin { path, query } => Resource::Path { path, query },
        Target::Asterisk => Resource::Server,
        Target::Authority(_) | Target::Absolute { .. } => Resource::Tunnel,
    });
    Request {
        method: parsed.method,
        client,
        // That of the client, whose connection with TLS may end at a proxy before this one.
        scheme: None,
        authority: Some(parsed.authority),
        resource,
        has_plain_path: parsed.has_plain_path,
        fields: &parsed.fields,
        bytes,
    }
}

/// Counts the path of a request among the most frequent ones.
#[inline]
fn count_path(cx: &mut ConnResources<'_>, site: SiteId, request: &Request<'_>) {
    if let (Some(paths), Some(path)) = (&mut cx.hot_paths, request.path()) {
        paths.requested(site, path);
    }
}
