//! An exchange with a backend: the request goes into a pipe, and the response comes out of it.
//!
//! ```text
//! HEADERS, then DATA ─▶ pipe ─▶ backend
//! outbox ◀─ HEADERS, DATA, trailers ─ pipe ◀─ backend
//! ```
//!
//! Each stream has a pipe of its own. The window of a stream is returned as the backend takes its content, so a slow backend stops its stream and
//! no other.

use super::{
    Http2, RECEIVE_WINDOW, RETURNED_LEN_MIN,
    begin::NewExchange,
    frame_output::NoFrameBuffer,
    head::{HeadContent, UnqueuedHead},
    stream::{Body, H2Exchange, H2Stream, Upload},
    tunnel::{SWITCHING_PROTOCOLS, TunnelState, WEBSOCKET},
};
use crate::{
    BufRange, ConnResources, Tick,
    backend::{BackendLimits, BackendProtocol, BackendRoute, HashKey, http1::trailers::may_be_trailer},
    backend_request::{BackendRequest, write_as_head},
    bounded_writer::BoundedWriter,
    functions::Payload,
    h1::{counted_as, request as h1_request},
    open_exchanges::NO_PLACE,
    pipe::{
        MESSAGE_LEN_MAX, MESSAGE_ROOM, Message, NoBuffer, PipeEnd, PipeId, Side,
        fields::{MessageFields, MessageFieldsWriter, belongs_to_connection},
    },
    plan::{self, Plan, PlanOptions},
    plan_route::{PlannedRoute, plan_route},
    pool::BUF_LEN,
    proxy_trust::PeerAddress,
    request::{Client, Request},
    response_prefix::digits,
    send_pace::SendPace,
    sites::Route,
    span::Outbox,
};
use tarpon_http::{
    FieldName,
    fields::Fields,
    h2::{ErrorCode, FRAME_HEADER_LEN, FRAME_PAYLOAD_LEN_MAX, data_header, hpack::encode_field},
    head::{self, Version},
    status::Status,
};

/// The response of a backend, as far as it has passed.
#[derive(Debug)]
pub(super) struct PipedBody {
    pub(super) pipe: PipeId,
    limits: BackendLimits,
    client: Client,
    with_content: bool,
    redirect_count: u8,
    /// The backend speaks HTTP, and gets trailers.
    speaks_http: bool,
    state: PipedState,
    pub(super) tunnel: TunnelState,
    /// Content that has left the pipe and waits for a window.
    pub(super) front: Option<BufRange>,
    /// Nothing follows the content in `front`.
    is_last: bool,
}

/// The part of the response that the pipe has next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PipedState {
    /// The head.
    Head,
    /// Content: this much more, if the head names the length.
    Content { left: Option<u64> },
    /// Content that the client does not get: the response to HEAD, 204 and 304 have none.
    NoContent,
    /// The end, after trailers.
    End,
}

/// The content of a request for a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PipedUpload {
    /// As Content-Length names it.
    pub(super) length: Option<u64>,
    pub(super) received: u64,
    pub(super) len_max: u64,
    /// How much the client may send, and how much of what it has sent is to be returned.
    pub(super) window: i32,
    pub(super) unreturned: i32,
    /// The client waits for 100 (Continue) before it sends the content, and the backend does not answer Expect.
    awaits_continue: bool,
    /// The bytes received in this period, in which the client must send enough, and its end.
    period_len: u64,
    pub(super) period_end: Tick,
}

impl PipedBody {
    fn new(pipe: PipeId, route: BackendRoute, protocol: BackendProtocol, request: &Request<'_>) -> PipedBody {
        PipedBody {
            pipe,
            limits: route.limits,
            client: request.client,
            with_content: request.with_content(),
            redirect_count: 0,
            speaks_http: protocol == BackendProtocol::Http1,
            state: PipedState::Head,
            tunnel: TunnelState::No,
            front: None,
            is_last: false,
        }
    }
}

impl Http2 {
    /// Begins an exchange with a backend.
    ///
    /// # Errors
    /// Returns the status of the response: the request is not for a backend, or no buffer is free.
    #[cold]
    pub(super) fn begin_piped(
        &mut self,
        cx: &mut ConnResources<'_>,
        new: NewExchange<'_>,
    ) -> Result<(), Status> {
        let NewExchange {
            stream,
            ends_stream,
            content_length,
            request,
            parts,
            site,
            route,
            wants_tunnel,
            ..
        } = new;
        let len_max = route.limits.content_len_max;
        if content_length.is_some_and(|length| length > len_max) {
            return Err(Status::ContentTooLarge);
        }
        // Nothing but a head goes to the server before it agrees to a tunnel.
        let has_content = !ends_stream && !wants_tunnel;
        let protocol = cx.pipes.protocol(route.backend);
        let awaits_continue = has_content && request.fields.has(FieldName::Expect);
        let hash_key = cx.pipes.settings(route.backend).map_or_else(HashKey::default, |of| of.hash_key);
        let of_backend = BackendRequest {
            request,
            // An upgrade of HTTP/1: RFC 8441, section 5.
            method: if wants_tunnel { b"GET" } else { parts.method },
            version: Version::Http2,
            protocol,
            peer: self.finder.accepted().peer.and_then(PeerAddress::ip),
            upgrade: wants_tunnel.then_some(WEBSOCKET),
            websocket_key: wants_tunnel.then(|| cx.pipes.next_websocket_key()),
            awaits_continue,
            has_unknown_length: has_content && content_length.is_none(),
        };
        let buf = cx.pool.take_for_response().ok_or(Status::ServiceUnavailable)?;
        let to = &mut cx.pool.buf_mut(buf)[MESSAGE_ROOM..BUF_LEN - MESSAGE_ROOM];
        let len = match of_backend.write(to) {
            Ok(len) => len,
            Err(status) => {
                cx.pool.release(buf);
                return Err(status);
            }
        };
        let pipe = cx.pipes.open(self.finder.accepted().number, route, of_backend.key(hash_key), cx.now);
        let head = BufRange { buf, at: MESSAGE_ROOM as u32, len: len as u32 };
        cx.pipes.push(pipe, Side::Client, Message::Head(head));
        if ends_stream && !wants_tunnel {
            cx.pipes.push(pipe, Side::Client, Message::End(PipeEnd::Complete));
        }
        self.note_begun(cx, site);
        let recorded_at = self.record_unanswered(cx, &new);
        let upload = match ends_stream {
            true => Upload::Complete,
            false if wants_tunnel => Upload::Tunnel { window: RECEIVE_WINDOW, unreturned: 0 },
            false => {
                let period_end = cx.now.after(route.limits.content_window_ms);
                self.await_upload(period_end);
                Upload::Piped(PipedUpload {
                    length: content_length,
                    received: 0,
                    len_max,
                    window: RECEIVE_WINDOW,
                    unreturned: 0,
                    awaits_continue: awaits_continue && protocol != BackendProtocol::Http1,
                    period_len: 0,
                    period_end,
                })
            }
        };
        let tunnel = if wants_tunnel { TunnelState::Asked } else { TunnelState::No };
        self.streams.push(H2Stream {
            id: stream,
            priority: new.priority,
            window: self.initial_window,
            upload,
            body: Body::Piped(Box::new(PipedBody {
                tunnel,
                ..PipedBody::new(pipe, route, protocol, request)
            })),
            // A tunnel has none.
            pace: SendPace::begin(new.send_rate.filter(|_| !wants_tunnel), cx.now),
            turn: 0,
            exchange: H2Exchange { site, begun_us: cx.now_us, recorded_at, content_len: 0 },
        });
        Ok(())
    }

    /// Lets a backend make the response of a stream whose request is complete. `payload`: what it gets in the place of a head.
    pub(super) fn connect(
        &mut self,
        cx: &mut ConnResources<'_>,
        id: u32,
        request: &Request<'_>,
        route: BackendRoute,
        payload: Payload,
    ) {
        let Some(index) = self.streams.find(id) else { return };
        let pipe = cx.pipes.open_with(self.finder.accepted().number, route, payload, cx.now);
        cx.pipes.push(pipe, Side::Client, Message::End(PipeEnd::Complete));
        let body = PipedBody::new(pipe, route, cx.pipes.protocol(route.backend), request);
        self.streams.at(index).body = Body::Piped(Box::new(body));
    }

    /// Adds content to the pipe of a stream. The windows bound it.
    pub(super) fn forward(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        id: u32,
        content: BufRange,
    ) {
        let Some(index) = self.streams.find(id) else { return };
        let stream = self.streams.at(index);
        let Body::Piped(piped) = &stream.body else { return };
        let pipe = piped.pipe;
        if piped.tunnel == TunnelState::Asked && content.len > 0 {
            // The client must wait for the response: RFC 6455, section 4.1.
            return self.reset_stream(cx, id, ErrorCode::PROTOCOL_ERROR);
        }
        if let Upload::Piped(upload) = &mut stream.upload {
            upload.period_len += u64::from(content.len);
            upload.awaits_continue = false;
        }
        if let Err(NoBuffer) = cx.pipes.push_bounded_data(cx.pool, pipe, Side::Client, content) {
            self.end_piped_with(cx, out, id, Status::ServiceUnavailable);
        }
    }

    /// Returns the pipe and the content of a request for a backend.
    fn piped_upload(&mut self, id: u32) -> Option<(PipeId, &mut PipedUpload)> {
        let index = self.streams.find(id)?;
        match self.streams.at(index) {
            H2Stream { upload: Upload::Piped(upload), body: Body::Piped(piped), .. } => {
                Some((piped.pipe, upload))
            }
            _ => None,
        }
    }

    /// Ends the content of a request for a backend.
    pub(super) fn end_piped_upload(
        &mut self,
        cx: &mut ConnResources<'_>,
        id: u32,
        trailers: Option<&Fields<'_>>,
    ) {
        let Some(index) = self.streams.find(id) else { return };
        let stream = self.streams.at(index);
        stream.upload = Upload::Complete;
        if let Body::Piped(piped) = &stream.body {
            let (pipe, speaks_http) = (piped.pipe, piped.speaks_http);
            // One message more than there is room for: nothing but the end follows.
            if speaks_http && let Some(list) = trailers.and_then(|fields| write_trailers(cx, fields)) {
                cx.pipes.push(pipe, Side::Client, Message::Trailers(list));
            }
            cx.pipes.push(pipe, Side::Client, Message::End(PipeEnd::Complete));
        }
    }

    /// Checks the clients that send content for backends: each must send enough in its period. Returns when the next period ends.
    pub(super) fn check_piped_uploads(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
    ) -> Option<Tick> {
        let (mut late, mut next) = (Vec::new(), None);
        let is_read = self.receive_window > 0;
        for stream in self.streams.iter_mut() {
            let H2Stream { upload: Upload::Piped(upload), body: Body::Piped(piped), .. } = stream else {
                continue;
            };
            if upload.period_end <= cx.now {
                // Without a window the client cannot send.
                let may_send = upload.window > 0 && is_read;
                if may_send && upload.period_len < piped.limits.content_len_min() {
                    late.push(stream.id);
                    continue;
                }
                (upload.period_len, upload.period_end) = (0, cx.now.after(piped.limits.content_window_ms));
            }
            next = Some(next.map_or(upload.period_end, |next: Tick| next.min(upload.period_end)));
        }
        for id in late {
            self.end_piped_with(cx, out, id, Status::RequestTimeout);
        }
        next
    }

    /// Handles messages that backends have added, and room that they have made.
    pub(crate) fn woken(&mut self, cx: &mut ConnResources<'_>, out: &mut Outbox) {
        let piped: Vec<u32> =
            self.streams.iter().filter(|stream| stream.piped().is_some()).map(|s| s.id).collect();
        for id in piped {
            self.return_window(cx, id);
        }
        self.send(cx, out);
    }

    /// Returns the window of a stream whose content the backend has taken.
    fn return_window(&mut self, cx: &mut ConnResources<'_>, id: u32) {
        let Some(index) = self.streams.find(id) else { return };
        let Some((pipe, window, unreturned)) = self.streams.at(index).piped_window() else { return };
        // Until then the client may send as much.
        if *unreturned >= RETURNED_LEN_MIN && cx.pipes.is_drained(pipe, Side::Client) {
            let increment = std::mem::take(unreturned);
            *window += increment;
            if let H2Stream { upload: Upload::Piped(upload), body: Body::Piped(piped), .. } =
                self.streams.at(index)
            {
                // A period begins in which the client can send.
                (upload.period_len, upload.period_end) = (0, cx.now.after(piped.limits.content_window_ms));
            }
            self.replies.extend_from_slice(&tarpon_http::h2::window_update(id, increment as u32));
        }
    }

    /// Takes what the pipes of all streams have.
    pub(super) fn take_responses(&mut self, cx: &mut ConnResources<'_>, out: &mut Outbox) {
        // Most connections have no such stream.
        if self.streams.iter().all(|stream| stream.piped().is_none()) {
            return;
        }
        let ids: Vec<u32> =
            self.streams.iter().filter(|stream| stream.piped().is_some()).map(|s| s.id).collect();
        for id in ids {
            self.ask_for_content(cx, out, id);
            self.take_response(cx, out, id);
        }
    }

    /// Asks the client for the content of a request, if it waits for that and the backend has taken the head. RFC 9110, section 10.1.1.
    fn ask_for_content(&mut self, cx: &mut ConnResources<'_>, out: &mut Outbox, id: u32) {
        let is_wanted = self.piped(id).is_some_and(|piped| piped.state == PipedState::Head)
            && self.piped_upload(id).is_some_and(|(pipe, upload)| {
                upload.awaits_continue && cx.pipes.is_drained(pipe, Side::Client)
            });
        if is_wanted
            && self.has_room_for_output(cx.pool, out)
            && self.put_continue(cx, out, id).is_ok()
            && let Some((_, upload)) = self.piped_upload(id)
        {
            upload.awaits_continue = false;
        }
    }

    /// Queues 100 (Continue). RFC 9110, section 15.2.1.
    pub(super) fn put_continue(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        id: u32,
    ) -> Result<(), Status> {
        let (mut block, mut len) = ([0; CONTINUE_LEN_MAX], 0);
        encode_field(b":status", b"100", &mut |byte| {
            block[len] = byte;
            len += 1;
        });
        self.put_plain_block(cx, out, id, &block[..len], false)
    }

    /// Takes what the pipe of a stream has, until content waits for a window.
    pub(super) fn take_response(&mut self, cx: &mut ConnResources<'_>, out: &mut Outbox, id: u32) {
        while self.has_room_for_output(cx.pool, out)
            && let Some(index) = self.streams.find(id)
            && let Body::Piped(piped) = &mut self.streams.at(index).body
            && piped.front.is_none()
            && let Some(message) = cx.pipes.pop(cx.pool, piped.pipe, Side::Client)
        {
            let taken = match message {
                Message::Interim(list) => self.put_interim(cx, out, id, list),
                Message::Head(list) => self.put_backend_head(cx, out, id, list),
                Message::Redirect(list) => self.follow_redirect(cx, out, id, list),
                Message::Data(data) => self.take_data(cx, id, data),
                Message::Trailers(list) => self.put_trailers(cx, out, id, list),
                Message::End(PipeEnd::Complete) => self.put_end(cx, out, id),
                Message::End(PipeEnd::Aborted(status)) => Err(status),
            };
            if let Err(status) = taken {
                self.end_piped_with(cx, out, id, status);
            }
        }
    }

    fn piped(&mut self, id: u32) -> Option<&mut PipedBody> {
        let index = self.streams.find(id)?;
        match &mut self.streams.at(index).body {
            Body::Piped(piped) => Some(piped),
            _ => None,
        }
    }

    fn put_interim(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        id: u32,
        list: BufRange,
    ) -> Result<(), Status> {
        // HTTP/2 has no 101: RFC 9113, section 8.6.
        let code = MessageFields::known(cx.pool.bytes(list)).status();
        let code = code.filter(|code| (100..200).contains(code) && *code != SWITCHING_PROTOCOLS);
        let put = code
            .ok_or(Status::BadGateway)
            .and_then(|code| self.put_list(cx, out, id, list, Some(code), false, false));
        cx.pool.release(list.buf);
        put
    }

    fn put_backend_head(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        id: u32,
        list: BufRange,
    ) -> Result<(), Status> {
        let Some(piped) = self.piped(id) else { return Ok(()) };
        let (with_content, pipe, tunnel) = (piped.with_content, piped.pipe, piped.tunnel);
        let fields = MessageFields::known(cx.pool.bytes(list));
        let opens_tunnel = tunnel == TunnelState::Asked && fields.status() == Some(SWITCHING_PROTOCOLS);
        // RFC 8441, section 5.
        let code = if opens_tunnel { Some(Status::Ok.code()) } else { fields.status() };
        let code = code.filter(|code| (200..600).contains(code));
        let state = match opens_tunnel {
            true => Some(PipedState::Content { left: None }),
            false => code.and_then(|code| state_after_head(code, fields, with_content)),
        };
        let (Some(code), Some(state)) = (code, state) else {
            cx.pool.release(list.buf);
            return Err(Status::BadGateway);
        };
        piped.state = state;
        if tunnel == TunnelState::Asked {
            self.answer_tunnel(cx, id, opens_tunnel);
        }
        let is_empty = matches!(state, PipedState::NoContent | PipedState::Content { left: Some(0) });
        let ends = is_empty && cx.pipes.pop_end(pipe, Side::Client);
        let put = self.put_list(cx, out, id, list, Some(code), true, ends);
        cx.pool.release(list.buf);
        put?;
        let Some(index) = self.streams.find(id) else { return Ok(()) };
        let exchange = self.streams.at(index).exchange;
        let site = Some(exchange.site.index());
        cx.counters.responded(counted_as(code), Some(Version::Http2), site);
        if exchange.recorded_at != NO_PLACE {
            cx.records.open_exchange(exchange.recorded_at).status = code;
        }
        if ends {
            self.end_piped(cx, out, id);
        }
        Ok(())
    }

    fn take_data(&mut self, cx: &mut ConnResources<'_>, id: u32, data: BufRange) -> Result<(), Status> {
        let Some(piped) = self.piped(id) else { return Ok(()) };
        let len = u64::from(data.len);
        let is_wanted = match &mut piped.state {
            PipedState::Content { left: Some(left) } if *left >= len => {
                *left -= len;
                true
            }
            PipedState::Content { left: None } => true,
            PipedState::NoContent => false,
            PipedState::Content { .. } | PipedState::Head | PipedState::End => {
                cx.pool.release(data.buf);
                return Err(Status::BadGateway);
            }
        };
        if !is_wanted || len == 0 {
            cx.pool.release(data.buf);
            return Ok(());
        }
        let pipe = piped.pipe;
        piped.front = Some(data);
        let is_whole = matches!(piped.state, PipedState::Content { left: None | Some(0) });
        // The end of the stream goes with the end of the content, if that has arrived.
        piped.is_last = is_whole && cx.pipes.pop_end(pipe, Side::Client);
        Ok(())
    }

    /// Queues a frame of content that waits for a window. `len_max`: what the windows allow.
    pub(super) fn put_piped_content(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        id: u32,
        len_max: i32,
    ) -> Result<(), NoFrameBuffer> {
        let Some(piped) = self.piped(id) else { return Ok(()) };
        let Some(front) = piped.front else { return Ok(()) };
        let len = front.len.min(len_max as u32);
        let is_whole = len == front.len;
        let ends = is_whole && piped.is_last;
        piped.front = if is_whole { None } else { Some(front.skip(len as usize)) };
        if !is_whole {
            cx.pool.hold(front.buf);
        }
        self.output.put(cx.pool, &data_header(id, len, ends));
        self.output.flush(cx, out);
        out.push_held(crate::Span::Buf(BufRange { len, ..front }));
        self.sent_content(id, len);
        if ends {
            self.end_piped(cx, out, id);
        } else if is_whole {
            self.take_response(cx, out, id);
        }
        Ok(())
    }

    fn put_trailers(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        id: u32,
        list: BufRange,
    ) -> Result<(), Status> {
        let Some(piped) = self.piped(id) else { return Ok(()) };
        let is_allowed = matches!(piped.state, PipedState::Content { left: None | Some(0) });
        let pipe = piped.pipe;
        if !is_allowed {
            cx.pool.release(list.buf);
            return Ok(());
        }
        piped.state = PipedState::End;
        // They end the stream, and the end of the pipe follows.
        let put = self.put_list(cx, out, id, list, None, false, true);
        cx.pool.release(list.buf);
        put?;
        let _ = cx.pipes.pop_end(pipe, Side::Client);
        self.end_piped(cx, out, id);
        Ok(())
    }

    /// Ends a response whose last message has arrived.
    fn put_end(&mut self, cx: &mut ConnResources<'_>, out: &mut Outbox, id: u32) -> Result<(), Status> {
        let Some(piped) = self.piped(id) else { return Ok(()) };
        if matches!(piped.state, PipedState::Head | PipedState::Content { left: Some(1..) }) {
            return Err(Status::BadGateway);
        }
        self.output.reserve(cx, out, FRAME_HEADER_LEN).map_err(|_| Status::ServiceUnavailable)?;
        self.output.put(cx.pool, &data_header(id, 0, true));
        self.end_piped(cx, out, id);
        Ok(())
    }

    /// Ends an exchange whose response is queued. A content that the backend did not want is dropped.
    fn end_piped(&mut self, cx: &mut ConnResources<'_>, out: &mut Outbox, id: u32) {
        let Some(index) = self.streams.find(id) else { return };
        let stream = self.streams.at(index);
        stream.body.release(cx);
        let (exchange, is_complete) = (stream.exchange, stream.is_complete());
        self.response_queued(out, exchange);
        if is_complete {
            self.streams.remove(index, false);
            self.stream_ended(cx);
        } else {
            self.drop_upload(cx, id);
        }
    }

    /// Ends an exchange that cannot go on: with this status, or by a reset if the response has begun.
    pub(super) fn end_piped_with(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        id: u32,
        status: Status,
    ) {
        let Some(piped) = self.piped(id) else { return };
        if piped.state != PipedState::Head {
            let code = piped.tunnel.error_code();
            return self.reset_stream(cx, id, code);
        }
        let with_content = piped.with_content;
        let Some(index) = self.streams.find(id) else { return };
        let (image, current) = cx.sites.current(self.streams.at(index).exchange.site);
        let plan = plan::page(current, status, with_content);
        if self.answer_stream(cx, out, id, image, &plan, &[]).is_err() {
            self.reset_stream(cx, id, ErrorCode::INTERNAL_ERROR);
        }
    }

    /// Answers a stream from an image in place of its backend. `request`: the bytes that the plan names parts of.
    pub(super) fn answer_stream(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        id: u32,
        image: crate::ImageId,
        plan: &Plan,
        request: &[u8],
    ) -> Result<(), UnqueuedHead> {
        let content = self.put_head(cx, out, id, image, plan, request)?;
        let Some(index) = self.streams.find(id) else { return Ok(()) };
        let stream = self.streams.at(index);
        stream.body.release(cx);
        stream.body = Body::of(content, cx);
        let (exchange, is_answered) = (stream.exchange, matches!(stream.body, Body::Complete));
        let version = Some(Version::Http2);
        cx.counters.responded(plan.status, version, Some(exchange.site.index()));
        if exchange.recorded_at != NO_PLACE {
            cx.records.open_exchange(exchange.recorded_at).status = plan.status.code();
        }
        self.drop_upload(cx, id);
        if is_answered {
            self.response_queued(out, exchange);
            if self.streams.at(index).is_complete() {
                self.streams.remove(index, false);
                self.stream_ended(cx);
            }
        }
        Ok(())
    }

    /// Answers the request in a list of fields instead of that of the client: RFC 3875, section 6.2.2.
    #[cold]
    fn follow_redirect(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        id: u32,
        list: BufRange,
    ) -> Result<(), Status> {
        let mut text = [0; BUF_LEN];
        let mut writer = BoundedWriter::new(&mut text);
        let written =
            MessageFields::parse(cx.pool.bytes(list)).and_then(|list| write_as_head(list, &mut writer));
        let len = writer.len();
        let followed = match written {
            Some(()) => self.answer_instead(cx, out, id, list, &text[..len]),
            None => Err(Status::BadGateway),
        };
        match followed {
            Ok(true) => Ok(()),
            Ok(false) => {
                cx.pool.release(list.buf);
                Ok(())
            }
            Err(status) => {
                cx.pool.release(list.buf);
                Err(status)
            }
        }
    }

    /// Answers the request in `text`, or opens a pipe for it, which takes `list`: then returns `true`.
    fn answer_instead(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        id: u32,
        list: BufRange,
        text: &[u8],
    ) -> Result<bool, Status> {
        let number = self.finder.accepted().number;
        let routes = self.finder.accepted().routes;
        let index = self.streams.find(id).ok_or(Status::BadGateway)?;
        let stream = self.streams.at(index);
        let Body::Piped(piped) = &mut stream.body else { return Err(Status::BadGateway) };
        piped.redirect_count += 1;
        if piped.redirect_count > REDIRECT_COUNT_MAX
            || !stream.upload.is_complete()
            || piped.state != PipedState::Head
        {
            return Err(Status::BadGateway);
        }
        let (head, _) =
            head::parse_within(cx.pool.head_len_max(), text).ok().flatten().ok_or(Status::BadGateway)?;
        let host = head.host().map_err(|_| Status::BadGateway)?;
        let request = Request { client: piped.client, ..h1_request(&head, text, host) };
        let route = cx.sites.route(routes, &request);
        if let Some(limits) = cx.sites.client_limits()
            && let Some(limits) = limits.of(&request, route)
            && !limits.allow_redirect(&request, route)
        {
            return Err(Status::Forbidden);
        }
        if let Route::Backend(site, to) = route {
            let pipe = cx.pipes.open(number, to, 0, cx.now);
            cx.pipes.push(pipe, Side::Client, Message::Head(list));
            cx.pipes.push(pipe, Side::Client, Message::End(PipeEnd::Complete));
            let former = std::mem::replace(&mut piped.pipe, pipe);
            (piped.limits, stream.exchange.site) = (to.limits, site);
            piped.speaks_http = cx.pipes.protocol(to.backend) == BackendProtocol::Http1;
            cx.pipes.leave(cx.pool, former, Side::Client);
            return Ok(true);
        }
        let options = PlanOptions { unix_s: cx.prefixes.unix_s(), with_ranges: false };
        let PlannedRoute { image, planned } = plan_route(cx.sites, &request, route, options, false);
        // This does not wait for a page that is on disk: the next attempt may find it.
        let mut plan = planned.map_err(|_| Status::ServiceUnavailable)?;
        if request.client.password.is_some() {
            plan.make_private();
        }
        self.answer_stream(cx, out, id, image, &plan, text).map_err(|error| match error {
            UnqueuedHead::Missing(_) => Status::ServiceUnavailable,
            UnqueuedHead::Status(status) => status,
        })?;
        Ok(false)
    }

    /// Queues HEADERS with a list of fields.
    #[expect(clippy::too_many_arguments, reason = "the parts of one head")]
    fn put_list(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        id: u32,
        list: BufRange,
        code: Option<u16>,
        is_final: bool,
        ends_stream: bool,
    ) -> Result<(), Status> {
        let fields = MessageFields::known(cx.pool.bytes(list));
        // An entry of the list has 4 bytes besides name and value, and a field 7 at most.
        let len_max = START_LEN_MAX + list.len as usize + 3 * fields.iter().count();
        if len_max > FRAME_PAYLOAD_LEN_MAX {
            return Err(Status::BadGateway);
        }
        let mut block = Vec::with_capacity(len_max);
        let mut put = |name: &[u8], value: &[u8]| encode_field(name, value, &mut |byte| block.push(byte));
        if let Some(code) = code {
            put(b":status", &digits(code));
        }
        if is_final && fields.get(b"server").is_none() && !cx.prefixes.server().is_empty() {
            put(b"server", b"tarpon");
        }
        if is_final && fields.get(b"date").is_none() {
            put(b"date", cx.prefixes.date());
        }
        // A tunnel has no content, and its client has sent no key: RFC 9110, section 9.3.6; RFC 8441, section 5.
        let opens_tunnel = fields.status() == Some(SWITCHING_PROTOCOLS);
        let mut with_length = code != Some(204) && !opens_tunnel;
        for (name, value) in fields.iter() {
            let is_length = name == b"content-length";
            let is_accept = opens_tunnel && name == b"sec-websocket-accept";
            if name.starts_with(b":") || belongs_to_connection(name) || is_accept || is_length && !with_length
            {
                continue;
            }
            with_length &= !is_length;
            put(name, value);
        }
        self.put_plain_block(cx, out, id, &block, ends_stream)
    }
}

impl Body {
    /// Returns the content of a head that is queued.
    pub(super) fn of(content: HeadContent, cx: &mut ConnResources<'_>) -> Body {
        match content {
            HeadContent::None => Body::Complete,
            HeadContent::Place(span) => {
                span.hold(cx.sites, cx.pool);
                Body::Spans { front: span, rest: Vec::new() }
            }
            HeadContent::Held(mut spans) => match spans.pop() {
                None => Body::Complete,
                Some(front) => Body::Spans { front, rest: spans },
            },
        }
    }
}

/// Redirects of one exchange, at most: more are a loop.
const REDIRECT_COUNT_MAX: u8 = 5;

/// The most that a block begins with: `:status`, Server and Date.
const START_LEN_MAX: usize = 64;

/// The maximum length of the block of 100 (Continue): `:status` with an indexed name.
const CONTINUE_LEN_MAX: usize = 8;

/// Returns what follows a final head. `None`: its Content-Length is invalid.
fn state_after_head(code: u16, list: MessageFields<'_>, with_content: bool) -> Option<PipedState> {
    let left = list.content_length().ok()?;
    Some(match with_content && !matches!(code, 204 | 304) {
        true => PipedState::Content { left },
        false => PipedState::NoContent,
    })
}

/// Writes the fields that may be trailers to a new buffer. `None`: there are none, or no buffer is free.
fn write_trailers(cx: &mut ConnResources<'_>, fields: &Fields<'_>) -> Option<BufRange> {
    let mut kept = fields.iter().filter(|(name, _)| may_be_trailer(name)).peekable();
    kept.peek()?;
    let buf = cx.pool.take_for_response()?;
    let to = &mut cx.pool.buf_mut(buf)[MESSAGE_ROOM..][..MESSAGE_LEN_MAX];
    let mut writer = MessageFieldsWriter::new(to);
    for (name, value) in kept {
        let _ = writer.put(name, value);
    }
    Some(BufRange { buf, at: MESSAGE_ROOM as u32, len: writer.len() as u32 })
}
