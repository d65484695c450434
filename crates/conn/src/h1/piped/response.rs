//! Queues the messages of a backend's response as HTTP/1.1.
//!
//! ```text
//! Interim   a head                       not for clients of HTTP/1.0
//! Head      status line, fields          Content-Length of the backend, or chunks, or the end of the connection
//! Redirect  the response to another request, or another pipe
//! Data      the bytes, or a chunk        in the buffer of the message
//! Trailers  the last chunk with fields   only after chunks
//! End       the last chunk
//! ```

use super::{
    PipedResponse, ProtocolChange,
    head::{ContentFraming, counted_as, framing, put_fields, put_status_line, write_from},
};
use crate::{
    BufRange, ConnResources,
    chunk::{LAST_CHUNK, put_chunk},
    h1::{Ending, Http1, Http1Phase, emit},
    pipe::{Message, PipeEnd, Side, fields::MessageFields},
    response_prefix::Persistence,
    span::{Outbox, Span},
};
use tarpon_http::{head::Version, status::Status};

impl Http1 {
    /// Queues what the pipe has of the response.
    pub(super) fn take_response(&mut self, cx: &mut ConnResources<'_>, out: &mut Outbox) {
        if let Http1Phase::Piped(piped) = &mut self.phase
            && let Some(pace) = &mut piped.pace
        {
            pace.advance(cx.now);
        }
        while self.has_room_for_message(cx, out)
            && let Http1Phase::Piped(piped) = &mut self.phase
            && let Some(message) = cx.pipes.pop(cx.pool, piped.pipe, Side::Client)
        {
            let taken = match message {
                Message::Interim(list) => self.queue_interim(cx, out, list),
                Message::Head(list) => self.queue_head(cx, out, list),
                Message::Redirect(list) => self.follow_redirect(cx, out, list),
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

    /// Returns whether the next message finds room: a redirect may bring a whole response.
    fn has_room_for_message(&self, cx: &ConnResources<'_>, out: &Outbox) -> bool {
        match &self.phase {
            Http1Phase::Piped(piped) if piped.pace_deadline().is_some() => false,
            Http1Phase::Piped(piped) if piped.response == PipedResponse::Head => {
                out.has_room(emit::SPAN_COUNT)
            }
            _ => out.has_room_for_message(cx.pool),
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
            let code = list.status().filter(|code| (100..200).contains(code) && *code != 101)?;
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
        let fields = MessageFields::known(cx.pool.bytes(list));
        if piped.upgrade == ProtocolChange::Asked && fields.status() == Some(101) {
            return self.queue_switch(cx, out, list);
        }
        let framed = fields
            .status()
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
            Version::Http11 | Version::Http2 => Persistence::Persist,
        };
        piped.client_persists &= !closes;
        if piped.upgrade == ProtocolChange::Asked {
            // The backend does not agree: the request is complete.
            piped.upgrade = ProtocolChange::No;
            cx.pipes.push(piped.pipe, Side::Client, Message::End(PipeEnd::Complete));
        }
        piped.response = PipedResponse::Content(framing);
        let version = piped.version;
        let server = cx.prefixes.server();
        let head = write_from(cx, list, |date, list, writer| {
            put_status_line(writer, code)?;
            if list.get(b"server").is_none() {
                writer.put(server)?;
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
        cx.counters.responded(counted_as(code), Some(version), Some(self.site.index()));
        self.update_record(cx, |record| record.status = code);
        self.queued_count += 1;
        Ok(())
    }

    /// Queues the head of a response that changes the protocol. RFC 9110, section 15.2.2.
    fn queue_switch(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        list: BufRange,
    ) -> Result<(), Status> {
        let Http1Phase::Piped(piped) = &mut self.phase else { return Ok(()) };
        piped.client_persists = false;
        piped.upgrade = ProtocolChange::Tunnel;
        piped.response = PipedResponse::Content(ContentFraming::UntilClose);
        let head = write_from(cx, list, |_, list, writer| {
            writer.put(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ")?;
            writer.put(list.get(b":upgrade")?)?;
            writer.put(b"\r\n")?;
            put_fields(writer, list, false)?;
            writer.put(b"\r\n")
        })?;
        out.push(cx.sites, Span::Buf(head));
        self.update_record(cx, |record| record.status = 101);
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
        if let Some(pace) = &mut piped.pace {
            pace.spend(len);
        }
        let (response, pipe) = (piped.response, piped.pipe);
        self.update_record(cx, |record| record.content_len += len);
        // The last chunk goes with the end of the content, if that has arrived.
        if response == PipedResponse::Content(ContentFraming::Chunked) && cx.pipes.pop_end(pipe, Side::Client)
        {
            let data = cx.pool.append(data, LAST_CHUNK);
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
                let last = cx.pool.append(BufRange { buf, at: 0, len: 0 }, LAST_CHUNK);
                out.push(cx.sites, Span::Buf(last));
            }
            PipedResponse::Content(_) => {}
        }
        self.end_piped(cx, out);
        Ok(())
    }
}
