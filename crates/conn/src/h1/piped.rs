//! An exchange with a backend: the request goes into a pipe, and the response comes out of it.
//!
//! ```text
//! input ─ head, then decoded content ─▶ pipe ─▶ backend
//! outbox ◀─ status line, fields, chunks ─ pipe ◀─ backend
//! ```
//!
//! The next request of the client waits until the exchange has ended.

use super::{
    Ending, Http1, Http1Phase, InvalidContent, RequestContent, emit, request::request,
    request_content::expects_continue,
};
use crate::{
    BufRange, ConnResources, Tick,
    backend::{BackendLimits, BackendRoute},
    bounded_writer::BoundedWriter,
    open_exchanges::{NO_PLACE, OpenExchange},
    pipe::{
        MESSAGE_ROOM, Message, PipeEnd, PipeId, Side,
        fields::{FieldList, FieldListWriter, belongs_to_connection},
    },
    plan,
    pool::BUF_LEN,
    request::{Request, Resource},
    response_prefix::Persistence,
    sites::SiteId,
    span::{Outbox, Span},
};
use tarpon_http::{
    FieldName, field,
    head::{self, Head, Version},
    persist,
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
    version: Version,
    client_persists: bool,
    /// The response has content, as the method is not HEAD.
    with_content: bool,
    /// The client waits for 100 (Continue) before it sends the content.
    awaits_continue: bool,
    /// The rest of the content. `None`: the whole request is in the pipe.
    content: Option<RequestContent>,
    /// The pipe has no room for content.
    is_blocked: bool,
    /// The client has closed its sending side.
    has_client_ended: bool,
    /// The bytes of content received in this window, and the end of the window.
    window_len: u64,
    window_end: Tick,
    response: PipedResponse,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PipedResponse {
    /// The head has not passed.
    Head,
    Content(ContentFraming),
}

/// The framing of the content that is sent to the client. RFC 9112, section 6.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ContentFraming {
    /// Never content: HEAD, 204, 304. What the backend sends is dropped.
    Nothing,
    Length {
        left: u64,
    },
    Chunked,
    UntilClose,
}

/// The response that asks for the content: RFC 9110, section 15.2.1.
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

impl PipedExchange {
    /// Returns whether the connection reads content for the backend.
    pub(super) fn wants_content(&self) -> bool {
        self.content.is_some() && !self.is_blocked
    }

    /// Returns the deadline while the outbox is empty.
    pub(super) fn deadline(&self) -> Tick {
        if self.wants_content() { self.window_end } else { Tick::NEVER }
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
        site: SiteId,
        route: BackendRoute,
    ) -> usize {
        let Some(buf) = cx.pool.take_for_response() else {
            return self.refuse(cx, out, input, site, Status::ServiceUnavailable);
        };
        let (bytes, to) = cx.pool.split_mut(input, buf);
        let to = &mut to[MESSAGE_ROOM..BUF_LEN - MESSAGE_ROOM];
        let request = match PipedRequest::write(bytes, to, route.limits.content_len_max) {
            Ok(request) => request,
            Err(status) => {
                cx.pool.release(buf);
                return self.refuse(cx, out, input, site, status);
            }
        };
        let pipe = cx.pipes.open(self.accepted.number, route);
        let head = BufRange { buf, at: MESSAGE_ROOM as u32, len: request.list_len as u32 };
        cx.pipes.push(pipe, Side::Client, Message::Head(head));
        if request.content.is_none() {
            cx.pipes.push(pipe, Side::Client, Message::End(PipeEnd::Complete));
        }
        (self.incomplete_len, self.receive_by) = (0, None);
        self.site = site;
        self.request_count += 1;
        self.pipe = Some(OpenPipe { id: pipe, recorded_at: self.start_piped_record(cx, out, input, site) });
        let PipedRequest { version, client_persists, with_content, awaits_continue, content, .. } = request;
        self.phase = Http1Phase::Piped(Box::new(PipedExchange {
            pipe,
            limits: route.limits,
            site,
            version,
            client_persists,
            with_content,
            awaits_continue,
            content,
            is_blocked: false,
            has_client_ended: false,
            window_len: 0,
            window_end: cx.now.after(route.limits.content_window_ms),
            response: PipedResponse::Head,
        }));
        request.head_len
    }

    /// Records the start of an exchange whose head is at the front of `input`. Returns its place.
    fn start_piped_record(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &Outbox,
        input: BufRange,
        site: SiteId,
    ) -> u32 {
        if !cx.records.is_on() {
            return NO_PLACE;
        }
        let bytes = cx.pool.bytes(input);
        let Ok(Some((head, head_len))) = head::parse(bytes) else { return NO_PLACE };
        let start = self.exchange_start(cx.now, out, site, Status::Ok);
        cx.records.start_record(start, Some(&head), &bytes[..head_len]);
        let place = cx.records.finish_record(Status::Ok, 0).unwrap_or(NO_PLACE);
        if place != NO_PLACE {
            cx.records.open_exchange(place).content_len = 0;
        }
        place
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
        let Some(content) = &mut piped.content else { return 0 };
        // The client does not wait any more, or never did: RFC 9110, section 10.1.1.
        piped.awaits_continue = false;
        let room = cx.pipes.room(piped.pipe, Side::Client);
        piped.is_blocked = room == 0;
        let len = input.len.min(room as u32);
        let decoded = match content.decode(cx.pool.bytes(BufRange { len, ..input })) {
            Ok(decoded) => decoded,
            Err(InvalidContent(status)) => {
                self.end_piped_with(cx, out, status);
                return input.len as usize;
            }
        };
        let data = BufRange { len: decoded.content.end as u32, ..input }.skip(decoded.content.start);
        piped.window_len += data.len as u64;
        if cx.pipes.push_data(cx.pool, piped.pipe, Side::Client, data).is_err() {
            self.end_piped_with(cx, out, Status::ServiceUnavailable);
            return input.len as usize;
        }
        if content.is_complete() {
            piped.content = None;
            cx.pipes.push(piped.pipe, Side::Client, Message::End(PipeEnd::Complete));
        }
        decoded.used
    }

    /// Handles messages that the backend has added, or room that it has made.
    pub(crate) fn woken(&mut self, cx: &mut ConnResources<'_>, out: &mut Outbox) {
        let had_output = !out.is_empty();
        let Http1Phase::Piped(piped) = &mut self.phase else { return };
        let was_blocked =
            std::mem::replace(&mut piped.is_blocked, cx.pipes.room(piped.pipe, Side::Client) == 0);
        if was_blocked && !piped.is_blocked {
            (piped.window_len, piped.window_end) = (0, cx.now.after(piped.limits.content_window_ms));
        }
        if piped.awaits_continue
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
        if piped.content.is_some() {
            // The content is incomplete: RFC 9112, section 8.
            self.end_piped_with(cx, out, Status::BadRequest);
        }
    }

    /// Handles the end of the window in which the client must send content.
    pub(super) fn piped_window_ended(&mut self, cx: &mut ConnResources<'_>, out: &mut Outbox) {
        let Http1Phase::Piped(piped) = &mut self.phase else { return };
        if piped.window_len < piped.limits.content_len_min() {
            return self.end_piped_with(cx, out, Status::RequestTimeout);
        }
        (piped.window_len, piped.window_end) = (0, cx.now.after(piped.limits.content_window_ms));
        self.deadline = piped.deadline();
    }

    /// Queues what the pipe has of the response.
    fn take_response(&mut self, cx: &mut ConnResources<'_>, out: &mut Outbox) {
        while out.has_room(1)
            && let Http1Phase::Piped(piped) = &mut self.phase
            && let Some(message) = cx.pipes.pop(piped.pipe, Side::Client)
        {
            let taken = match message {
                Message::Interim(list) => self.queue_interim(cx, out, list),
                Message::Head(list) => self.queue_head(cx, out, list),
                Message::Data(data) => self.queue_data(cx, out, data),
                Message::Trailers(list) => self.queue_trailers(cx, out, list),
                Message::End(PipeEnd::Complete) => self.queue_end(cx, out),
                Message::End(PipeEnd::Aborted(status)) => Err(status),
            };
            if let Err(status) = taken {
                self.end_piped_with(cx, out, status);
            }
        }
    }

    fn queue_interim(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        list: BufRange,
    ) -> Result<(), Status> {
        let Http1Phase::Piped(piped) = &mut self.phase else { return Ok(()) };
        // RFC 9110, section 15.2.
        if piped.version == Version::Http10 {
            cx.pool.release(list.buf);
            return Ok(());
        }
        piped.awaits_continue = false;
        let head = write_from(cx, list, |_, list, writer| {
            let code = status_code(list).filter(|code| (100..200).contains(code) && *code != 101)?;
            put_status_line(writer, code)?;
            put_fields(writer, list, false)?;
            writer.put(b"\r\n")
        })?;
        out.push(cx.sites, Span::Buf(head));
        Ok(())
    }

    fn queue_head(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        list: BufRange,
    ) -> Result<(), Status> {
        let keepalive_requests = self.limits(cx).keepalive_requests.get();
        let is_last = self.ending != Ending::No || self.request_count >= keepalive_requests;
        let Http1Phase::Piped(piped) = &mut self.phase else { return Ok(()) };
        let fields = FieldList::parse(cx.pool.bytes(list)).ok_or(Status::BadGateway)?;
        let framed = status_code(fields)
            .filter(|code| (200..600).contains(code))
            .and_then(|code| Some((code, framing(code, fields, piped.with_content, piped.version)?)));
        let Some((code, framing)) = framed else {
            cx.pool.release(list.buf);
            return Err(Status::BadGateway);
        };
        // A client that waits for 100 (Continue) may send its content or not.
        let closes = is_last
            || !piped.client_persists
            || piped.awaits_continue
            || piped.has_client_ended
            || framing == ContentFraming::UntilClose;
        let persistence = match piped.version {
            _ if closes => Persistence::Close,
            Version::Http10 => Persistence::KeepAlive,
            Version::Http11 => Persistence::Persist,
        };
        piped.client_persists &= !closes;
        piped.response = PipedResponse::Content(framing);
        let version = piped.version;
        let head = write_from(cx, list, |date, list, writer| {
            put_status_line(writer, code)?;
            if list.get(b"server").is_none() {
                writer.put(b"Server: tarpon\r\n")?;
            }
            if list.get(b"date").is_none() {
                writer.put(b"Date: ")?;
                writer.put(date)?;
                writer.put(b"\r\n")?;
            }
            // RFC 9110, section 8.6.
            put_fields(writer, list, code != 204)?;
            writer.put(match framing {
                ContentFraming::Chunked => b"Transfer-Encoding: chunked\r\n",
                _ => b"",
            })?;
            writer.put(match persistence {
                Persistence::Persist => b"\r\n",
                Persistence::KeepAlive => b"Connection: keep-alive\r\n\r\n",
                Persistence::Close => b"Connection: close\r\n\r\n",
            })
        })?;
        out.push(cx.sites, Span::Buf(head));
        cx.counters.responded(counted_as(code), Some(version));
        self.update_record(cx, |record| record.status = code);
        self.queued_since = cx.now;
        self.queued_count += 1;
        Ok(())
    }

    fn queue_data(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        data: BufRange,
    ) -> Result<(), Status> {
        let Http1Phase::Piped(piped) = &mut self.phase else { return Ok(()) };
        let len = data.len as u64;
        let data = match &mut piped.response {
            PipedResponse::Content(ContentFraming::Length { left }) if *left >= len => {
                *left -= len;
                data
            }
            PipedResponse::Content(ContentFraming::UntilClose) => data,
            PipedResponse::Content(ContentFraming::Chunked) if len > 0 => put_chunk(cx, data),
            // There is no content, or more than its Content-Length.
            PipedResponse::Content(ContentFraming::Nothing | ContentFraming::Chunked) => {
                cx.pool.release(data.buf);
                return Ok(());
            }
            PipedResponse::Content(ContentFraming::Length { .. }) | PipedResponse::Head => {
                cx.pool.release(data.buf);
                return Err(Status::BadGateway);
            }
        };
        let (response, pipe) = (piped.response, piped.pipe);
        self.update_record(cx, |record| record.content_len += len);
        // The last chunk goes with the end of the content, if that has arrived.
        if response == PipedResponse::Content(ContentFraming::Chunked) && cx.pipes.pop_end(pipe, Side::Client)
        {
            let data = cx.pool.append(data, b"0\r\n\r\n");
            out.push(cx.sites, Span::Buf(data));
            self.end_piped(cx, out);
            return Ok(());
        }
        out.push(cx.sites, Span::Buf(data));
        Ok(())
    }

    fn queue_trailers(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        list: BufRange,
    ) -> Result<(), Status> {
        let Http1Phase::Piped(piped) = &mut self.phase else { return Ok(()) };
        if piped.response != PipedResponse::Content(ContentFraming::Chunked) {
            // Without chunks there is no place for trailers: RFC 9110, section 6.5.
            cx.pool.release(list.buf);
            return Ok(());
        }
        // Nothing follows but the end.
        piped.response = PipedResponse::Content(ContentFraming::Nothing);
        let trailers = write_from(cx, list, |_, list, writer| {
            writer.put(b"0\r\n")?;
            put_fields(writer, list, false)?;
            writer.put(b"\r\n")
        })?;
        out.push(cx.sites, Span::Buf(trailers));
        Ok(())
    }

    /// Ends a response whose last message has arrived.
    fn queue_end(&mut self, cx: &mut ConnResources<'_>, out: &mut Outbox) -> Result<(), Status> {
        let Http1Phase::Piped(piped) = &mut self.phase else { return Ok(()) };
        match piped.response {
            PipedResponse::Head | PipedResponse::Content(ContentFraming::Length { left: 1.. }) => {
                return Err(Status::BadGateway);
            }
            PipedResponse::Content(ContentFraming::Chunked) => {
                let buf = cx.pool.take_for_response().ok_or(Status::ServiceUnavailable)?;
                let last = cx.pool.append(BufRange { buf, at: 0, len: 0 }, b"0\r\n\r\n");
                out.push(cx.sites, Span::Buf(last));
            }
            PipedResponse::Content(_) => {}
        }
        self.end_piped(cx, out);
        Ok(())
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
        let Http1Phase::Piped(piped) = &mut self.phase else { return };
        let (site, version, with_content) = (piped.site, piped.version, piped.with_content);
        let (has_begun, has_client_ended) = (piped.response != PipedResponse::Head, piped.has_client_ended);
        let ends_with_connection = piped.response == PipedResponse::Content(ContentFraming::UntilClose);
        if ends_with_connection || !has_begun && !out.has_room(emit::SPAN_COUNT) {
            return self.abort();
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
        let plan = self.respond_with_page(cx, out, site, status, with_content);
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
        self.recorded.closed(cx.records, cx.now, self.sent_len);
    }

    /// Returns whether an exchange with a backend is in progress: its pipe may hold buffers.
    #[inline]
    pub(crate) fn has_pipe(&self) -> bool {
        self.pipe.is_some()
    }
}

/// What a connection keeps of a request for a backend.
struct PipedRequest {
    version: Version,
    client_persists: bool,
    with_content: bool,
    awaits_continue: bool,
    content: Option<RequestContent>,
    /// The length of the head in the input.
    head_len: usize,
    /// The length of the list of fields.
    list_len: usize,
}

impl PipedRequest {
    /// Writes the head at the start of `bytes` as a list of fields.
    ///
    /// # Errors
    /// Returns the status of the response: the request is invalid, or not for a backend.
    fn write(bytes: &[u8], to: &mut [u8], content_len_max: u64) -> Result<PipedRequest, Status> {
        let (head, head_len) = head::parse(bytes).ok().flatten().ok_or(Status::BadRequest)?;
        let host = head.host().map_err(|error| error.status())?;
        let content = RequestContent::of(&head, content_len_max)?;
        if head.fields.has(FieldName::Expect) && !plan::expects_only_continue(&head.fields) {
            return Err(Status::ExpectationFailed);
        }
        let request = request(&head, bytes, host);
        let method = bytes.trim_ascii_start().split(|&byte| byte == b' ').next().unwrap_or_default();
        Ok(PipedRequest {
            version: head.version,
            client_persists: persist::persists(&head),
            with_content: request.with_content(),
            awaits_continue: content.is_some() && expects_continue(&head),
            content,
            head_len,
            list_len: write_request(&request, &head, method, to)?,
        })
    }
}

/// Writes a request as a list of fields. Returns the length of the list.
fn write_request(
    request: &Request<'_>,
    head: &Head<'_>,
    method: &[u8],
    to: &mut [u8],
) -> Result<usize, Status> {
    let path = match request.resource {
        // From the path to the end: an empty path stands for the root.
        Ok(Resource::Path { path, .. }) => {
            let at = path.as_ptr().addr().checked_sub(head.target.as_ptr().addr());
            at.and_then(|at| head.target.get(at..)).unwrap_or(path)
        }
        Ok(Resource::Server) => b"*",
        // Tunnels are not for backends.
        Ok(Resource::Tunnel) => return Err(Status::MethodNotAllowed),
        Err(error) => return Err(error.status()),
    };
    let mut writer = FieldListWriter::new(to);
    let mut write = || {
        writer.put(b":method", method)?;
        writer.put(b":scheme", b"http")?;
        writer.put(b":authority", request.authority.unwrap_or_default())?;
        writer.put(b":path", path)?;
        let nominated = |name: &[u8]| field::has_token(head.fields.all(FieldName::Connection), name);
        for (name, value) in head.fields.iter() {
            let is_replaced = name.eq_ignore_ascii_case(b"host") || name.eq_ignore_ascii_case(b"expect");
            if !is_replaced && !belongs_to_connection(name) && !nominated(name) {
                writer.put(name, value)?;
            }
        }
        Some(writer.len())
    };
    write().ok_or(Status::RequestHeaderFieldsTooLarge)
}

/// Writes bytes made from a list of fields into a new buffer, and releases the list.
///
/// # Errors
/// No buffer is free, or the bytes do not fit.
fn write_from(
    cx: &mut ConnResources<'_>,
    list: BufRange,
    write: impl FnOnce(&[u8; 29], FieldList<'_>, &mut BoundedWriter<'_>) -> Option<()>,
) -> Result<BufRange, Status> {
    let Some(buf) = cx.pool.take_for_response() else {
        cx.pool.release(list.buf);
        return Err(Status::ServiceUnavailable);
    };
    let (bytes, to) = cx.pool.split_mut(list, buf);
    let mut writer = BoundedWriter::new(to);
    let written = FieldList::parse(bytes).and_then(|list| write(cx.prefixes.date(), list, &mut writer));
    let len = writer.len() as u32;
    cx.pool.release(list.buf);
    match written {
        Some(()) => Ok(BufRange { buf, at: 0, len }),
        None => {
            cx.pool.release(buf);
            Err(Status::BadGateway)
        }
    }
}

/// Returns the code of `:status`, three digits.
fn status_code(list: FieldList<'_>) -> Option<u16> {
    let digits: [u8; 3] = list.get(b":status")?.try_into().ok()?;
    std::str::from_utf8(&digits)
        .ok()
        .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?
        .parse()
        .ok()
}

/// Returns the framing of the content of a final response. `None`: its Content-Length is invalid.
fn framing(code: u16, list: FieldList<'_>, with_content: bool, version: Version) -> Option<ContentFraming> {
    let mut lengths = list.iter().filter(|(name, _)| *name == b"content-length").map(|(_, value)| value);
    let length = match lengths.next() {
        None => None,
        Some(value) => {
            let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
            let text = std::str::from_utf8(value).ok().filter(|_| is_number)?;
            // A repeated field may only repeat the value: RFC 9112, section 6.3.
            lengths.all(|other| other == value).then_some(())?;
            Some(text.parse().ok()?)
        }
    };
    Some(match (length, version) {
        _ if !with_content || matches!(code, 204 | 304) => ContentFraming::Nothing,
        (Some(left), _) => ContentFraming::Length { left },
        (None, Version::Http11) => ContentFraming::Chunked,
        (None, Version::Http10) => ContentFraming::UntilClose,
    })
}

fn put_status_line(writer: &mut BoundedWriter<'_>, code: u16) -> Option<()> {
    writer.put(b"HTTP/1.1 ")?;
    writer.put(&[100, 10, 1].map(|unit| b'0' + (code / unit % 10) as u8))?;
    writer.put(b" ")?;
    // A client ignores the reason phrase: RFC 9112, section 4.
    writer.put(Status::from_code(code).map_or("", Status::reason).as_bytes())?;
    writer.put(b"\r\n")
}

/// Writes the fields that are neither pseudo-fields nor belong to a connection. Content-Length is written once at most.
fn put_fields(writer: &mut BoundedWriter<'_>, list: FieldList<'_>, mut with_length: bool) -> Option<()> {
    for (name, value) in list.iter() {
        let is_length = name == b"content-length";
        if name.starts_with(b":") || belongs_to_connection(name) || is_length && !with_length {
            continue;
        }
        with_length &= !is_length;
        writer.put(name)?;
        writer.put(b": ")?;
        writer.put(value)?;
        writer.put(b"\r\n")?;
    }
    Some(())
}

/// Turns content into a chunk, in the room that messages have: RFC 9112, section 7.1.
fn put_chunk(cx: &mut ConnResources<'_>, data: BufRange) -> BufRange {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    // The maximum length of a message has four digits.
    let mut line = *b"0000\r\n";
    for (place, digit) in line[..4].iter_mut().enumerate() {
        *digit = DIGITS[(data.len >> (12 - 4 * place)) as usize & 15];
    }
    let chunk = cx.pool.prepend(data, &line);
    cx.pool.append(chunk, b"\r\n")
}

/// Returns the status that a response is counted as. A client treats an unknown code as the first one of its class: RFC 9110, section 15.
fn counted_as(code: u16) -> Status {
    Status::from_code(code).unwrap_or(match code / 100 {
        2 => Status::Ok,
        3 => Status::Found,
        4 => Status::BadRequest,
        _ => Status::InternalServerError,
    })
}
