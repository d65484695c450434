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
    functions::{CollectedContent, InlineContent, InlineResponse, NoBudget, inline_request},
    h1::counted_as,
    open_exchanges::NO_PLACE,
    plan,
    program_value::ProgramValue,
    request::{Client, Request},
    response_prefix::digits,
    send_pace::SendPace,
    span::Outbox,
};
use bytes::{Buf, Bytes};
use tarpon_http::{
    FieldName,
    h2::{
        ErrorCode, FRAME_HEADER_LEN, H2Request, data_header,
        hpack::{FieldSection, encode_field},
    },
    head::Version,
    status::Status,
};
use tarpon_site::hpack;

/// A request whose content is being collected for a function.
#[derive(Debug)]
pub(super) struct AwaitedContent {
    section: Box<FieldSection>,
    /// The bytes of the fields, and behind them the content.
    collected: CollectedContent,
    client: Client,
    route: BackendRoute,
    /// As Content-Length names it.
    pub(super) length: Option<u64>,
    pub(super) received: u64,
    pub(super) window: i32,
    pub(super) unreturned: i32,
    /// The bytes received in this period, in which the client must send enough, and its end.
    period_len: u64,
    pub(super) period_end: Tick,
}

impl AwaitedContent {
    /// Returns the maximum length of the content in bytes.
    pub(super) fn len_max(&self) -> u64 {
        self.route.limits.content_len_max
    }

    /// Adds a part of the content.
    pub(super) fn add(&mut self, content: &[u8]) -> Result<(), NoBudget> {
        self.period_len += content.len() as u64;
        self.collected.add(content)
    }

    /// Begins the next period. Returns `false` if the client has sent too little in this one.
    pub(super) fn begin_period(&mut self, now: Tick) -> bool {
        let (limits, len) = (self.route.limits, std::mem::take(&mut self.period_len));
        self.period_end = now.after(limits.content_window_ms);
        len >= limits.content_len_min()
    }
}

/// The function of a complete request.
#[derive(Clone, Copy)]
struct WorkerCall<'a> {
    stream: u32,
    request: &'a Request<'a>,
    method: &'a [u8],
    route: BackendRoute,
    content: &'a [u8],
}

impl Http2 {
    /// Calls a function, or begins to collect the content of its request.
    ///
    /// # Errors
    /// Returns the status of the response: the request is invalid, or there is no budget for it.
    #[cold]
    pub(super) fn begin_call(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        new: NewExchange<'_>,
        decoded: &BlockFields,
    ) -> Result<(), Status> {
        let NewExchange { stream, request, parts, site, route, .. } = new;
        let awaits_continue = request.fields.has(FieldName::Expect);
        if awaits_continue && !plan::expects_only_continue(request.fields) {
            return Err(Status::ExpectationFailed);
        }
        let upload = match new.ends_stream {
            true => Upload::Complete,
            false => {
                if new.content_length.is_some_and(|length| length > route.limits.content_len_max) {
                    return Err(Status::ContentTooLarge);
                }
                let mut collected = CollectedContent::new(cx.sites.functions().budget().clone());
                let fields = &decoded.bytes[..decoded.section.len()];
                collected.add(fields).map_err(|NoBudget| Status::ServiceUnavailable)?;
                if awaits_continue {
                    self.put_continue(cx, out, stream)?;
                }
                let period_end = cx.now.after(route.limits.content_window_ms);
                self.await_upload(period_end);
                Upload::Collected(Box::new(AwaitedContent {
                    section: Box::new(decoded.section.clone()),
                    collected,
                    client: request.client,
                    route,
                    length: new.content_length,
                    received: 0,
                    window: RECEIVE_WINDOW,
                    unreturned: 0,
                    period_len: 0,
                    period_end,
                }))
            }
        };
        self.note_begun(cx, site);
        let recorded_at = self.record_unanswered(cx, &new);
        self.streams.push(H2Stream {
            id: stream,
            priority: new.priority,
            window: self.initial_window,
            upload,
            body: Body::Awaited,
            pace: SendPace::begin(new.send_rate, cx.now),
            turn: 0,
            exchange: H2Exchange { site, begun_us: cx.now_us, recorded_at, content_len: 0 },
        });
        if new.ends_stream {
            self.call(cx, out, WorkerCall { stream, request, method: parts.method, route, content: &[] });
        }
        Ok(())
    }

    /// Calls the function of a stream whose content is complete.
    pub(super) fn call_collected(&mut self, cx: &mut ConnResources<'_>, out: &mut Outbox, id: u32) {
        let Some(index) = self.streams.find(id) else { return };
        let upload = std::mem::replace(&mut self.streams.at(index).upload, Upload::Complete);
        let Upload::Collected(awaited) = upload else { return };
        let AwaitedContent { section, collected, client, route, .. } = *awaited;
        let (fields, content) = collected.bytes().split_at(section.len());
        let Ok(parsed) = H2Request::parse(&section, fields, false) else { return };
        let request = super::begin::request(&parsed, client, fields);
        let method = RecordedParts::of(&parsed, fields).method;
        self.call(cx, out, WorkerCall { stream: id, request: &request, method, route, content });
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
        let (image, current) = cx.sites.current(self.streams.at(index).exchange.site);
        let plan = plan::page(current, status, true);
        if self.answer_stream(cx, out, id, image, &plan, &[]).is_err() {
            self.reset_stream(cx, id, ErrorCode::INTERNAL_ERROR);
        }
    }

    /// Calls a function and queues its response. The stream is open.
    fn call(&mut self, cx: &mut ConnResources<'_>, out: &mut Outbox, call: WorkerCall<'_>) {
        if let Err(status) = self.try_call(cx, out, call) {
            let Some(index) = self.streams.find(call.stream) else { return };
            let (image, current) = cx.sites.current(self.streams.at(index).exchange.site);
            let plan = plan::page(current, status, call.request.with_content());
            if self.answer_stream(cx, out, call.stream, image, &plan, &[]).is_err() {
                self.reset_stream(cx, call.stream, ErrorCode::INTERNAL_ERROR);
            }
        }
    }

    fn try_call(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        call: WorkerCall<'_>,
    ) -> Result<(), Status> {
        let WorkerCall { stream: id, request, method, route, content } = call;
        let function = cx.sites.functions().get(route.backend).ok_or(Status::InternalServerError)?;
        let InlineResponse { code, lines, content } =
            function.call(&inline_request(request, method, content)?);
        let content = match content {
            InlineContent::Bytes(content) => content,
            InlineContent::Later(payload) => {
                self.connect(cx, id, request, route, payload);
                return Ok(());
            }
        };
        let full_len = content.len();
        let rest = match request.with_content() && !matches!(code, 204 | 304) {
            true => content,
            false => ProgramValue::new(Bytes::new()),
        };
        let is_complete = rest.is_empty();
        self.put_lines(cx, out, id, code, &lines, full_len, is_complete)?;
        let Some(index) = self.streams.find(id) else { return Ok(()) };
        let stream = self.streams.at(index);
        stream.body = if is_complete { Body::Complete } else { Body::Bytes(rest) };
        let exchange = stream.exchange;
        cx.counters.responded(counted_as(code), Some(Version::Http2), Some(exchange.site.index()));
        if exchange.recorded_at != NO_PLACE {
            cx.records.open_exchange(exchange.recorded_at).status = code;
        }
        if is_complete {
            self.response_queued(out, exchange);
            self.streams.remove(index, false);
            self.stream_ended(cx);
        }
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
