//! Collects the content of a request that arrives after its head.

use super::{
    FunctionPhase,
    call::{IncompleteRequest, InlineCall, method},
};
use crate::{
    BufRange, ConnResources, Tick,
    functions::{CollectedContent, inline_request},
    h1::{
        Http1, Http1Phase, InvalidContent, RequestContent, emit, exchange::RoutedExchange, piped::CONTINUE,
        request::request,
    },
    request::Request,
    span::{Outbox, Span},
};
use tarpon_http::{head, status::Status};

/// A request whose content is being collected.
#[derive(Debug)]
pub(in crate::h1) struct CollectedRequest {
    exchange: RoutedExchange,
    head: Box<[u8]>,
    /// The rest of the content.
    rest: RequestContent,
    content: CollectedContent,
    /// The bytes of content received in this window, and the end of the window.
    window_len: u64,
    window_end: Tick,
}

/// Returns whether a response fits into the outbox: that of the function, or a page.
pub(super) fn has_room(out: &Outbox) -> bool {
    out.has_room(emit::PAGE_SPAN_COUNT)
}

impl CollectedRequest {
    pub(super) fn window_end(&self) -> Tick {
        self.window_end
    }
}

impl Http1 {
    /// Begins to collect the content of the request whose head is at the front of `input`. Returns the length of the head.
    #[cold]
    pub(super) fn collect(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        input: BufRange,
        exchange: RoutedExchange,
        IncompleteRequest { content, awaits_continue, head_len }: IncompleteRequest,
    ) -> usize {
        if awaits_continue {
            let Some(buf) = cx.pool.take_for_response() else {
                return self.refuse(cx, out, input, exchange.site, Status::ServiceUnavailable);
            };
            cx.pool.buf_mut(buf)[..CONTINUE.len()].copy_from_slice(CONTINUE);
            out.push(cx.sites, Span::Buf(BufRange { buf, at: 0, len: CONTINUE.len() as u32 }));
        }
        (self.incomplete_len, self.receive_by) = (0, None);
        self.site = exchange.site;
        let request = CollectedRequest {
            exchange,
            head: cx.pool.bytes(input)[..head_len].into(),
            rest: content,
            content: CollectedContent::new(cx.sites.functions().budget().clone()),
            window_len: 0,
            window_end: cx.now.after(exchange.route.limits.content_window_ms),
        };
        self.begin_duration(cx);
        self.phase = Http1Phase::Function(Box::new(FunctionPhase::Collecting(request)));
        head_len
    }

    /// Collects content at the front of `input`, and calls the function if it is complete. Returns how many bytes it has consumed.
    #[inline(never)]
    pub(in crate::h1) fn collect_content(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        input: BufRange,
    ) -> usize {
        let Http1Phase::Function(phase) = &mut self.phase else { return 0 };
        let FunctionPhase::Collecting(request) = &mut **phase else { return 0 };
        if !has_room(out) {
            return 0;
        }
        let bytes = cx.pool.bytes(input);
        let added = match request.rest.decode(bytes) {
            Ok(decoded) => {
                request.window_len += decoded.content.len() as u64;
                let added = request.content.add(&bytes[decoded.content.clone()]);
                added.map(|()| decoded.used).map_err(|_| Status::ServiceUnavailable)
            }
            Err(InvalidContent(status)) => Err(status),
        };
        match added {
            Err(status) => {
                self.end_collecting(cx, out, status);
                input.len as usize
            }
            Ok(used) => {
                if request.rest.is_complete() {
                    self.call_collected(cx, out);
                }
                used
            }
        }
    }

    /// Calls the function for a request that is complete.
    fn call_collected(&mut self, cx: &mut ConnResources<'_>, out: &mut Outbox) {
        let phase = std::mem::replace(&mut self.phase, Http1Phase::Head);
        let Http1Phase::Function(phase) = phase else { return };
        let FunctionPhase::Collecting(collected) = *phase else { return };
        let CollectedRequest { exchange, head: bytes, content, .. } = collected;
        let (head, len) = head::parse(&bytes).ok().flatten().expect("it was parsed before");
        let host = head.host().expect("it was valid before");
        let request = Request { client: exchange.client, ..request(&head, &bytes, host) };
        let function = cx.sites.functions().get(exchange.route.backend).expect("it was found before");
        // A response needs a buffer: without one the function is not called.
        let request_of_function = match cx.pool.has_for_response() {
            true => inline_request(&request, method(&request), content.bytes()),
            false => Err(Status::ServiceUnavailable),
        };
        let response = match request_of_function {
            Ok(request) => function.call(&request),
            Err(status) => return self.end_request(cx, out, &bytes, exchange, status),
        };
        if cx.records.is_on() {
            let start = self.exchange_start(cx, out, exchange.site, exchange.client, response.status());
            cx.records.start_record(start, Some(&head), &bytes[..len]);
        }
        self.respond(cx, out, exchange, InlineCall::new(&head, &request, 0), response);
    }

    /// Ends an exchange whose request cannot be completed.
    #[inline(never)]
    pub(in crate::h1) fn end_collecting(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        status: Status,
    ) {
        let phase = std::mem::replace(&mut self.phase, Http1Phase::LastResponse { linger: true });
        let Http1Phase::Function(phase) = phase else { return };
        let FunctionPhase::Collecting(CollectedRequest { exchange, head, .. }) = *phase else { return };
        self.end_request(cx, out, &head, exchange, status);
    }

    /// Responds with a page of the site, as the last response.
    fn end_request(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        bytes: &[u8],
        RoutedExchange { client, site, .. }: RoutedExchange,
        status: Status,
    ) {
        if !has_room(out) {
            return self.abort(cx);
        }
        let head = head::parse(bytes).ok().flatten().map(|(head, _)| head);
        if cx.records.is_on() {
            let start = self.exchange_start(cx, out, site, client, status);
            cx.records.start_record(start, head.as_ref(), bytes);
        }
        let was_empty = out.is_empty();
        let plan = self.respond_with_page(
            cx,
            out,
            site,
            status,
            !bytes.starts_with(b"HEAD "),
            crate::Persistence::Close,
        );
        self.responded(cx, out, &plan, head.map(|head| head.version));
        if was_empty {
            self.deadline = cx.now.after(self.limits(cx).send_ms);
        }
    }

    /// Handles the end of the window in which the client must send content.
    pub(super) fn collecting_window_ended(&mut self, cx: &mut ConnResources<'_>, out: &mut Outbox) {
        let Http1Phase::Function(phase) = &mut self.phase else { return };
        let FunctionPhase::Collecting(request) = &mut **phase else { return self.abort(cx) };
        let limits = request.exchange.route.limits;
        if request.window_len < limits.content_len_min() {
            return self.end_collecting(cx, out, Status::RequestTimeout);
        }
        (request.window_len, request.window_end) = (0, cx.now.after(limits.content_window_ms));
        self.deadline = request.window_end;
    }
}
