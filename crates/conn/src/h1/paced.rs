//! A response that leaves at a limited rate: what may not leave yet stays out of the outbox.
//!
//! ```text
//! emit ─▶ outbox ─ take the end off ─▶ PacedResponse ─ room ─▶ outbox …
//!                                        └ no room, and the outbox is empty: waits for its deadline
//! ```
//!
//! The next request of the client waits until the whole response is queued.

use super::{Http1, Http1Phase};
use crate::{
    ConnResources, Tick,
    send_pace::{SendPace, SendRate},
    span::{Outbox, Span},
};

/// The rest of a response.
#[derive(Debug)]
pub(super) struct PacedResponse {
    /// The last one first. The response holds them.
    rest: Vec<Span>,
    pace: Box<SendPace>,
    /// The phase after the response.
    then: Http1Phase,
}

impl PacedResponse {
    /// Returns when the next part may be queued.
    pub(super) fn deadline(&self) -> Tick {
        self.pace.waits_until().unwrap_or(Tick::NEVER)
    }

    /// Returns whether a part of the rest lies in a buffer.
    pub(super) fn holds_buffers(&self) -> bool {
        self.rest.iter().any(|span| matches!(span, Span::Buf(_)))
    }

    /// Notes that the client has closed its sending side: no request follows.
    pub(super) fn client_ended(&mut self) {
        self.then = Http1Phase::LastResponseAfterEnd;
    }
}

impl Http1 {
    /// Takes off what may not leave yet of the last response in the outbox, whose length is `response_len`.
    #[cold]
    pub(super) fn pace(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        rate: SendRate,
        response_len: u64,
        content_len: u64,
    ) {
        let Some(mut pace) = SendPace::begin(Some(rate), cx.now) else { return };
        // The head leaves at once.
        let held_len = response_len.saturating_sub(pace.room()).min(content_len);
        if held_len == 0 {
            return;
        }
        pace.spend(response_len - held_len);
        let rest = out.take_end(held_len, cx.sites, cx.pool);
        let then = std::mem::replace(&mut self.phase, Http1Phase::Closed);
        self.phase = Http1Phase::Paced(Box::new(PacedResponse { rest, pace, then }));
    }

    /// Handles the event that bytes of the outbox have been sent.
    pub(super) fn paced_output_sent(&mut self, cx: &mut ConnResources<'_>, out: &mut Outbox) {
        if out.is_empty() {
            self.queue_paced(cx, out);
        }
    }

    /// Queues what may leave now, and enters the next phase if that is all. The outbox is empty.
    pub(super) fn queue_paced(&mut self, cx: &mut ConnResources<'_>, out: &mut Outbox) {
        let Http1Phase::Paced(paced) = &mut self.phase else { return };
        paced.pace.advance(cx.now);
        while !out.is_full()
            && let room @ 1.. = paced.pace.room()
            && let Some(next) = paced.rest.pop()
        {
            let (part, left) = next.split(room);
            if let Some(left) = left {
                part.hold(cx.sites, cx.pool);
                paced.rest.push(left);
            }
            paced.pace.spend(part.len());
            out.push_held(part);
        }
        if out.is_empty() {
            self.deadline = paced.deadline();
            return;
        }
        if paced.rest.is_empty() {
            self.phase = std::mem::replace(&mut paced.then, Http1Phase::Closed);
            if let Http1Phase::Content(_) = self.phase {
                self.receive_by = Some(cx.now.after(self.limits(cx).content_ms));
            }
        }
        self.deadline = cx.now.after(self.limits(cx).send_ms);
    }

    /// Drops the rest of a response.
    pub(super) fn drop_paced(&mut self, cx: &mut ConnResources<'_>) {
        if let Http1Phase::Paced(paced) = &mut self.phase {
            paced.rest.drain(..).for_each(|span| span.release(cx.sites, cx.pool));
        }
    }
}
