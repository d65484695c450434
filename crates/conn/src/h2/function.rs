//! An exchange with a function that the worker calls: its request is collected, and its response queued.

use super::{
    Http2, RECEIVE_WINDOW,
    begin::NewExchange,
    frame_output::NoFrameBuffer,
    h2_records::RecordedParts,
    section_buffer::BlockFields,
    stream::{Body, H2Exchange, H2Stream, Upload},
};
use crate::{
    ConnResources, Tick,
    backend::BackendRoute,
    functions::{CollectedContent, InlineContent, InlineResponse, inline_request},
    h1::counted_as,
    open_exchanges::NO_PLACE,
    plan,
    program_value::ProgramValue,
    request::Client,
    response_prefix::digits,
    sites::SiteId,
    span::Outbox,
};
use bytes::{Buf, Bytes};
use tarpon_http::{
    FieldName,
    h2::{ErrorCode, FRAME_HEADER_LEN, H2Request, Priority, data_header, hpack::encode_field},
    status::Status,
};
use tarpon_site::hpack;

/// A request whose content is being collected for a function.
#[derive(Debug)]
pub(super) struct AwaitedContent {
    decoded: Box<BlockFields>,
    client: Client,
    route: BackendRoute,
    /// As Content-Length names it.
    pub(super) length: Option<u64>,
    pub(super) content: CollectedContent,
    pub(super) window: i32,
    pub(super) unreturned: i32,
    pub(super) period_end: Tick,
}

impl AwaitedContent {
    /// Returns the maximum length of the content in bytes.
    pub(super) fn len_max(&self) -> u64 {
        self.route.limits.content_len_max
    }
}

impl Http2 {
    /// Calls a function, or begins to collect the content of its request.
    ///
    /// # Errors
    /// Returns the status of the response: the request is invalid.
    #[cold]
    pub(super) fn begin_call(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        new: NewExchange<'_>,
        decoded: &BlockFields,
    ) -> Result<(), Status> {
        let fields = new.request.fields;
        if fields.has(FieldName::Expect) && !plan::expects_only_continue(fields) {
            return Err(Status::ExpectationFailed);
        }
        if new.ends_stream {
            return self.call(cx, out, new, &[]);
        }
        if new.content_length.is_some_and(|length| length > new.route.limits.content_len_max) {
            return Err(Status::ContentTooLarge);
        }
        if fields.has(FieldName::Expect) {
            self.put_continue(cx, out, new.stream).map_err(|NoFrameBuffer| Status::ServiceUnavailable)?;
        }
        self.note_begun(cx, new.site);
        let period_end = cx.now.after(new.route.limits.content_window_ms);
        self.await_upload(period_end);
        self.streams.push(H2Stream {
            id: new.stream,
            priority: new.priority,
            window: self.initial_window,
            upload: Upload::Collected(Box::new(AwaitedContent {
                decoded: Box::new(decoded.clone()),
                client: new.request.client,
                route: new.route,
                length: new.content_length,
                content: CollectedContent::new(cx.sites.functions().budget().clone()),
                window: RECEIVE_WINDOW,
                unreturned: 0,
                period_end,
            })),
            body: Body::Awaited,
            turn: 0,
            exchange: H2Exchange {
                site: new.site,
                begun_us: cx.now_us,
                recorded_at: NO_PLACE,
                content_len: 0,
            },
        });
        Ok(())
    }

    /// Calls the function of a stream whose content is complete.
    pub(super) fn call_collected(&mut self, cx: &mut ConnResources<'_>, out: &mut Outbox, id: u32) {
        let Some(index) = self.streams.find(id) else { return };
        let stream = self.streams.at(index);
        let (priority, site) = (stream.priority, stream.exchange.site);
        let Upload::Collected(collected) = std::mem::replace(&mut stream.upload, Upload::Complete) else {
            return;
        };
        self.streams.remove(index, false);
        let AwaitedContent { decoded, client, route, content, .. } = *collected;
        let bytes = &decoded.bytes[..decoded.section.len()];
        let Ok(parsed) = H2Request::parse(&decoded.section, bytes, false) else { return };
        let request = super::begin::request(&parsed, client, bytes);
        let parts = RecordedParts::of(&parsed, bytes);
        let new = NewExchange {
            stream: id,
            ends_stream: true,
            content_length: None,
            priority,
            request: &request,
            parts: &parts,
            site,
            route,
            wants_tunnel: false,
        };
        if let Err(status) = self.call(cx, out, new, content.bytes()) {
            let (image, current) = cx.sites.current(site);
            let plan = plan::page(current, status, request.with_content());
            self.push_awaited(cx, id, priority, site);
            if self.answer_stream(cx, out, id, image, &plan, &[]).is_err() {
                self.reset_stream(cx, id, ErrorCode::INTERNAL_ERROR);
            }
        }
    }

    /// Ends an exchange whose content cannot be collected, with this status.
    pub(super) fn end_collecting(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        id: u32,
        status: Status,
    ) {
        let Some(index) = self.streams.find(id) else { return };
        let stream = self.streams.at(index);
        let Upload::Collected(collected) = &stream.upload else { return };
        let (length, window) = (collected.length, collected.window);
        let received = collected.content.bytes().len() as u64;
        stream.upload = Upload::Dropped { length, received, window, unreturned: 0 };
        let (image, current) = cx.sites.current(stream.exchange.site);
        let plan = plan::page(current, status, true);
        if self.answer_stream(cx, out, id, image, &plan, &[]).is_err() {
            self.reset_stream(cx, id, ErrorCode::INTERNAL_ERROR);
        }
    }

    fn push_awaited(&mut self, cx: &ConnResources<'_>, id: u32, priority: Priority, site: SiteId) {
        let exchange = H2Exchange { site, begun_us: cx.now_us, recorded_at: NO_PLACE, content_len: 0 };
        let window = self.initial_window;
        let (upload, body) = (Upload::Complete, Body::Awaited);
        self.streams.insert(H2Stream { id, priority, window, upload, body, turn: 0, exchange });
    }

    /// Calls a function and queues its response.
    fn call(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        new: NewExchange<'_>,
        content: &[u8],
    ) -> Result<(), Status> {
        let NewExchange { stream, priority, request, parts, site, route, .. } = new;
        let function = cx.sites.functions().get(route.backend).ok_or(Status::InternalServerError)?;
        let InlineResponse { code, lines, content } =
            function.call(&inline_request(request, parts.method, content)?);
        let content = match content {
            InlineContent::Bytes(content) => content,
            InlineContent::Later(payload) => {
                let new = NewExchange { ends_stream: true, content_length: None, ..new };
                return self.begin_piped(cx, new, Some(payload));
            }
        };
        let full_len = content.len();
        let rest = match request.with_content() && !matches!(code, 204 | 304) {
            true => content,
            false => ProgramValue::new(Bytes::new()),
        };
        self.put_lines(cx, out, stream, code, &lines, full_len, rest.is_empty())?;
        self.note_begun(cx, site);
        let mut exchange = H2Exchange { site, begun_us: cx.now_us, recorded_at: NO_PLACE, content_len: 0 };
        let status = counted_as(code);
        if cx.records.is_on() {
            self.start_record(cx, parts, request.client, site, Some(status), true);
        }
        self.responded(cx, &mut exchange, status, rest.len() as u64);
        if exchange.recorded_at != NO_PLACE && Status::from_code(code).is_none() {
            cx.records.open_exchange(exchange.recorded_at).status = code;
        }
        if rest.is_empty() {
            self.response_queued(out, exchange);
            self.streams.note_ended(stream, false);
            return Ok(());
        }
        let (window, body) = (self.initial_window, Body::Bytes(rest));
        let upload = Upload::Complete;
        self.streams.insert(H2Stream { id: stream, priority, window, upload, body, turn: 0, exchange });
        Ok(())
    }

    /// Queues HEADERS with field lines.
    #[expect(clippy::too_many_arguments, reason = "the parts of one head")]
    fn put_lines(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        stream: u32,
        code: u16,
        lines: &[u8],
        content_len: usize,
        ends_stream: bool,
    ) -> Result<(), Status> {
        let mut block = Vec::new();
        encode_field(b":status", &digits(code), &mut |byte| block.push(byte));
        block.extend_from_slice(cx.prefixes.hpack_fields());
        let encoded = hpack::encode(lines, &mut |byte| block.push(byte));
        encoded.ok_or(Status::InternalServerError)?;
        // RFC 9110, section 8.6.
        if !matches!(code, 204 | 304) {
            let mut digits = [0; crate::bounded_writer::NUMBER_LEN_MAX];
            let digits = crate::bounded_writer::decimal(content_len as u64, &mut digits);
            encode_field(b"content-length", digits, &mut |byte| block.push(byte));
        }
        self.put_plain_block(cx, out, stream, &block, ends_stream)
    }

    /// Queues a frame with content of a function. `len_max`: what the windows allow.
    pub(super) fn put_bytes(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        index: usize,
        len_max: i32,
    ) -> Result<(), NoFrameBuffer> {
        let stream = self.streams.at(index);
        let Body::Bytes(rest) = &mut stream.body else { return Ok(()) };
        let len = rest.len().min(len_max as usize);
        self.output.reserve(cx, out, FRAME_HEADER_LEN + len)?;
        let (id, ends) = (stream.id, len == rest.len());
        self.output.put(cx.pool, &data_header(id, len as u32, ends));
        rest.copy_to_slice(&mut self.output.rest(cx.pool)[..len]);
        self.output.advance(len);
        if ends {
            stream.body = Body::Complete;
        }
        self.sent_content(id, len as u32);
        if ends {
            let exchange = self.streams.at(index).exchange;
            self.response_queued(out, exchange);
            self.streams.remove(index, false);
            self.stream_ended(cx);
        }
        Ok(())
    }
}
