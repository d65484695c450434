//! Queues the response of a function.
//!
//! ```text
//! [ prefix ][ field lines, Content-Length, empty line, content ]  [ the rest of a longer content ] …
//!             in a buffer                                           in buffers, as the client receives
//! ```

use super::{FunctionPhase, call::InlineCall};
use crate::{
    BufRange, ConnResources, Tick,
    bounded_writer::BoundedWriter,
    functions::{InlineContent, InlineResponse},
    h1::{
        Ending, Http1, Http1Phase,
        exchange::RoutedExchange,
        piped::{LaterResponse, counted_as, put_status_line},
        record_head,
    },
    pool::BUF_LEN,
    program_value::ProgramValue,
    response_prefix::{Persistence, ResponsePrefixes},
    send_pace::SendPace,
    span::{Outbox, Span},
};
use bytes::{Buf, Bytes};
use tarpon_http::{head::Version, status::Status};

/// The part of a response that was not queued yet.
#[derive(Debug)]
pub(in crate::h1) struct UnsentContent {
    rest: ProgramValue<Bytes>,
    /// The connection closes after it.
    closes: bool,
    client_persists: bool,
    /// The client has closed its sending side.
    has_client_ended: bool,
    /// `None`: it leaves as fast as the client takes it.
    pace: Option<Box<SendPace>>,
}

impl UnsentContent {
    /// Returns when more may be queued.
    pub(super) fn deadline(&self) -> Tick {
        self.pace.as_ref().and_then(|pace| pace.waits_until()).unwrap_or(Tick::NEVER)
    }

    pub(super) fn client_ended(&mut self) {
        self.has_client_ended = true;
    }
}

impl InlineResponse {
    /// Returns the status that the response is counted as. `None`: a backend makes it.
    pub(super) fn status(&self) -> Option<Status> {
        matches!(self.content, InlineContent::Bytes(_)).then(|| counted_as(self.code))
    }
}

impl Http1 {
    /// Queues a response, and enters the next phase.
    pub(super) fn respond(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        exchange: RoutedExchange,
        call: InlineCall,
        InlineResponse { code, lines, content }: InlineResponse,
    ) {
        (self.incomplete_len, self.receive_by) = (0, None);
        self.site = exchange.site;
        self.request_count += 1;
        let InlineCall { version, client_persists, with_content, .. } = call;
        let content = match content {
            InlineContent::Bytes(content) => content,
            InlineContent::Later(payload) => {
                let later = LaterResponse { payload, exchange, version, client_persists, with_content };
                return self.respond_later(cx, later);
            }
        };
        let keepalive_requests = cx.sites.limits(exchange.site).keepalive_requests.get();
        let closes =
            !client_persists || self.ending != Ending::No || self.request_count >= keepalive_requests;
        let persistence = match version {
            _ if closes => Persistence::Close,
            Version::Http10 => Persistence::KeepAlive,
            Version::Http11 | Version::Http2 => Persistence::Persist,
        };
        self.phase = after_response(closes, client_persists);
        let full_len = content.len();
        let mut rest = match with_content && !matches!(code, 204 | 304) {
            true => content,
            false => ProgramValue::new(Bytes::new()),
        };
        let status = Status::from_code(code);
        let queued = cx.pool.take_for_response().ok_or(Status::ServiceUnavailable).and_then(|buf| {
            let to = &mut cx.pool.buf_mut(buf)[..BUF_LEN];
            let head = FunctionHead { code, status, lines: &lines, content_len: full_len, persistence };
            match head.write(cx.prefixes, to) {
                Some(len) => Ok((buf, len)),
                None => {
                    cx.pool.release(buf);
                    Err(Status::InternalServerError)
                }
            }
        });
        let (buf, head_len) = match queued {
            Ok(queued) => queued,
            Err(status) => {
                let plan = self.respond_with_page(
                    cx,
                    out,
                    exchange.site,
                    status,
                    with_content,
                    crate::Persistence::Close,
                );
                return self.responded(cx, out, &plan, Some(version));
            }
        };
        let content_len = rest.len() as u64;
        let len = rest.len().min(BUF_LEN - head_len);
        rest.copy_to_slice(&mut cx.pool.buf_mut(buf)[head_len..][..len]);
        if let Some(status) = status {
            out.push(cx.sites, Span::Prefix(cx.prefixes.prefix(status, persistence)));
        }
        out.push(cx.sites, Span::Buf(BufRange { buf, at: 0, len: (head_len + len) as u32 }));
        let counted = status.unwrap_or_else(|| counted_as(code));
        self.queued(cx, counted, Some(version));
        if cx.records.is_pending() {
            if let Some(index) = cx.records.response_head_index() {
                record_head(cx, &out.spans()[index..], len as u64);
            }
            if let Some(place) = cx.records.finish_record(counted, content_len) {
                if status.is_none() {
                    cx.records.open_exchange(place).status = code;
                }
                let end = self.sent_len + out.len() + rest.len() as u64;
                self.recorded.push(cx.records, place, end, content_len);
            }
        }
        if !rest.is_empty() {
            let mut pace = SendPace::begin(exchange.send_rate, cx.now);
            if let Some(pace) = &mut pace {
                pace.spend(len as u64);
            }
            let unsent = UnsentContent { rest, closes, client_persists, has_client_ended: false, pace };
            self.phase = Http1Phase::Function(Box::new(FunctionPhase::Sending(unsent)));
            self.send_rest(cx, out);
        }
    }

    /// Queues the rest of a response, as much as there is room for.
    pub(super) fn send_rest(&mut self, cx: &mut ConnResources<'_>, out: &mut Outbox) {
        let Http1Phase::Function(phase) = &mut self.phase else { return };
        let FunctionPhase::Sending(unsent) = &mut **phase else { return };
        if let Some(pace) = &mut unsent.pace {
            pace.advance(cx.now);
        }
        while !unsent.rest.is_empty() && out.has_room(1) {
            let room = unsent.pace.as_ref().map_or(u64::MAX, |pace| pace.room());
            if room == 0 {
                break;
            }
            let Some(buf) = cx.pool.take_for_response() else { break };
            let len = unsent.rest.len().min(BUF_LEN).min(room.try_into().unwrap_or(usize::MAX));
            if let Some(pace) = &mut unsent.pace {
                pace.spend(len as u64);
            }
            unsent.rest.copy_to_slice(&mut cx.pool.buf_mut(buf)[..len]);
            out.push(cx.sites, Span::Buf(BufRange { buf, at: 0, len: len as u32 }));
        }
        if unsent.rest.is_empty() {
            let closes = unsent.closes || self.ending == Ending::Stopping;
            self.phase = match unsent.has_client_ended {
                true => Http1Phase::LastResponseAfterEnd,
                false => after_response(closes, unsent.client_persists),
            };
        } else if out.is_empty() && unsent.deadline() == Tick::NEVER {
            // Without a buffer nothing would send the rest.
            self.abort(cx);
        }
    }
}

/// Returns the phase after a response.
fn after_response(closes: bool, client_persists: bool) -> Http1Phase {
    match closes {
        true => Http1Phase::LastResponse { linger: client_persists },
        false => Http1Phase::Head,
    }
}

/// The head of a response.
struct FunctionHead<'l> {
    code: u16,
    /// `None`: no response prefix has the code.
    status: Option<Status>,
    lines: &'l [u8],
    content_len: usize,
    persistence: Persistence,
}

impl FunctionHead<'_> {
    /// Writes what follows the response prefix. Returns its length; `None` if it does not fit.
    fn write(&self, prefixes: &ResponsePrefixes, to: &mut [u8]) -> Option<usize> {
        let mut writer = BoundedWriter::new(to);
        if self.status.is_none() {
            put_status_line(&mut writer, self.code)?;
            writer.put(prefixes.server())?;
            writer.put(b"Date: ")?;
            writer.put(prefixes.date())?;
            writer.put(match self.persistence {
                Persistence::Persist => b"\r\n",
                Persistence::KeepAlive => b"\r\nConnection: keep-alive\r\n",
                Persistence::Close => b"\r\nConnection: close\r\n",
            })?;
        }
        writer.put(self.lines)?;
        // RFC 9110, section 8.6.
        if !matches!(self.code, 204 | 304) {
            writer.put(b"Content-Length: ")?;
            writer.put_number(self.content_len as u64)?;
            writer.put(b"\r\n")?;
        }
        writer.put(b"\r\n")?;
        Some(writer.len())
    }
}
