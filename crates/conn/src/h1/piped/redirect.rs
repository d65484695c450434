//! A local redirect: the backend has the server answer as if the client had asked for another path (RFC 3875, section 6.2.2).
//!
//! ```text
//! Redirect ─ route ─┬─ a backend ─▶ another pipe
//!                   └─ a site ────▶ plan, response
//! ```
//!
//! The message has the head of the new request, which is routed as that of any client.

use super::PipedResponse;
use crate::{
    BufRange, ConnResources,
    backend_request::write_as_head,
    bounded_writer::BoundedWriter,
    h1::{Ending, Http1, Http1Phase, emit, request::request},
    pipe::{Message, PipeEnd, Side, fields::MessageFields},
    plan::{self, PlanOptions},
    request::Request,
    response_prefix::Persistence,
    sites::Route,
    span::Outbox,
};
use std::mem;
use tarpon_http::{
    head::{self as http_head, Version},
    status::Status,
};

/// Redirects of one exchange, at most: more are a loop.
const REDIRECT_COUNT_MAX: u8 = 5;

impl Http1 {
    /// Answers the request in a list of fields instead of that of the client.
    ///
    /// # Errors
    /// Returns the status of the response: there are too many redirects, the content of the client's request is incomplete, or the list is
    /// no request.
    pub(super) fn follow_redirect(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        list: BufRange,
    ) -> Result<(), Status> {
        let Http1Phase::Piped(piped) = &mut self.phase else { return Ok(()) };
        piped.redirect_count += 1;
        let may_follow = piped.redirect_count <= REDIRECT_COUNT_MAX
            && piped.content.is_none()
            && piped.response == PipedResponse::Head;
        let buf = if may_follow { cx.pool.take_for_response() } else { None };
        let Some(buf) = buf else {
            cx.pool.release(list.buf);
            return Err(if may_follow { Status::ServiceUnavailable } else { Status::BadGateway });
        };
        let (bytes, to) = cx.pool.split_mut(list, buf);
        let mut writer = BoundedWriter::new(to);
        let written = MessageFields::parse(bytes).and_then(|list| write_as_head(list, &mut writer));
        let head = BufRange { buf, at: 0, len: writer.len() as u32 };
        let followed = match written {
            Some(()) => self.answer_instead(cx, out, list, head),
            None => Err(Some(Status::BadGateway)),
        };
        cx.pool.release(buf);
        followed.or_else(|status| {
            cx.pool.release(list.buf);
            status.map_or(Ok(()), Err)
        })
    }

    /// Answers the request in `head`, or opens a pipe for it, which takes `list`. `Err`: the list is not taken; with a status if there is no
    /// response.
    fn answer_instead(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        list: BufRange,
        input: BufRange,
    ) -> Result<(), Option<Status>> {
        let is_last =
            self.ending != Ending::No || self.request_count >= self.limits(cx).keepalive_requests.get();
        let Http1Phase::Piped(piped) = &mut self.phase else { return Err(None) };
        let bytes = cx.pool.bytes(input);
        let parsed = http_head::parse_within(cx.pool.head_len_max(), bytes).ok().flatten();
        let (head, _) = parsed.ok_or(Some(Status::BadGateway))?;
        let host = head.host().map_err(|_| Some(Status::BadGateway))?;
        let request = Request { client: piped.client, ..request(&head, bytes, host) };
        let route = cx.sites.route(self.finder.accepted().routes, &request);
        let site = route.site();
        if let Some(limits) = cx.sites.client_limits()
            && let Some(limits) = limits.of(&request, route)
            && !limits.allow_redirect(&request, route)
        {
            return Err(Some(Status::Forbidden));
        }
        if let Route::Backend(_, to) = route {
            let pipe = cx.pipes.open(self.finder.accepted().number, to, 0, cx.now);
            cx.pipes.push(pipe, Side::Client, Message::Head(list));
            cx.pipes.push(pipe, Side::Client, Message::End(PipeEnd::Complete));
            let former = mem::replace(&mut piped.pipe, pipe);
            (piped.limits, piped.site) = (to.limits, site);
            if let Some(open) = &mut self.pipe {
                open.id = pipe;
            }
            cx.pipes.leave(cx.pool, former, Side::Client);
            return Ok(());
        }
        let below_mount;
        let site_request = match route {
            Route::Mount(_, rest) => {
                below_mount = request.with_path(rest);
                &below_mount
            }
            _ => &request,
        };
        let (image, current) = cx.sites.current(site);
        let options = PlanOptions { unix_s: cx.prefixes.unix_s(), with_ranges: false };
        let planned = match route {
            Route::Site(_) | Route::Mount(..) => plan::plan(site_request, current, options),
            _ => plan::other_host(&request, current, route).ok_or(Some(Status::BadGateway)).map(Ok)?,
        };
        // This does not wait for a page that is on disk: the next attempt may find it.
        let mut plan = planned.map_err(|_| Some(Status::ServiceUnavailable))?;
        if piped.client.password.is_some() {
            plan.make_private();
        }
        let closes = is_last || !piped.client_persists || piped.awaits_continue || piped.has_client_ended;
        let (version, has_client_ended) = (piped.version, piped.has_client_ended);
        let persistence = match version {
            _ if closes => Persistence::Close,
            Version::Http10 => Persistence::KeepAlive,
            Version::Http11 | Version::Http2 => Persistence::Persist,
        };
        let send_rate = piped.pace.as_ref().map(|pace| pace.rate());
        let queued_len = out.len();
        emit::emit(cx, out, image, &plan, persistence, input).map_err(Some)?;
        self.responded(cx, out, &plan, Some(version));
        self.update_record(cx, |record| record.status = plan.status.code());
        self.leave_pipe(cx, self.sent_len + out.len(), plan.content_len());
        self.phase = match closes {
            _ if has_client_ended => Http1Phase::LastResponseAfterEnd,
            true => Http1Phase::LastResponse { linger: true },
            false => Http1Phase::Head,
        };
        if let Some(rate) = send_rate {
            self.pace(cx, out, rate, out.len() - queued_len, plan.content_len());
        }
        Err(None)
    }
}
