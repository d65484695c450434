//! Queues replies and content.
//!
//! A frame of content is chosen when the outbox has room, so an urgent response that begins now leaves before the rest of one that does not
//! matter.

use super::{
    Http2, Http2Phase, REPLIES_LEN_MAX,
    frame_output::NoFrameBuffer,
    shutdown::Shutdown,
    stream::{Body, H2Stream},
};
use crate::{BUF_LEN, ConnResources, pool::Pool, span::Outbox};
use tarpon_http::h2::{FRAME_HEADER_LEN, FRAME_PAYLOAD_LEN_MAX, data_header};

/// The length of the outbox with which no more content is queued, if the pool has free buffers: as much as a send takes.
const OUTPUT_LEN_MAX: u64 = 64 * 1024;

/// The buffers that a full outbox of short responses takes.
const OUTPUT_BUF_COUNT: usize = OUTPUT_LEN_MAX as usize / BUF_LEN + 1;

/// The free places in the outbox without which no frame begins. A request takes up to three, and a reply and the end of the buffer one each.
const SPANS_PER_FRAME: usize = 5;

/// Frames that carry nothing which a frame of content allows for: a client may widen two windows for each.
const OVERHEAD_PER_FRAME: u32 = 4;

impl Http2 {
    /// Returns whether the outbox has room for another frame of any kind.
    #[inline]
    pub(super) fn has_room(&self, cx: &ConnResources<'_>, out: &Outbox) -> bool {
        self.replies.len() < REPLIES_LEN_MAX && self.has_room_for_output(cx.pool, out)
    }

    #[inline]
    pub(super) fn has_room_for_output(&self, pool: &Pool, out: &Outbox) -> bool {
        let len_max = pool.share(OUTPUT_BUF_COUNT) as u64 * OUTPUT_LEN_MAX / OUTPUT_BUF_COUNT as u64;
        out.free_count() >= SPANS_PER_FRAME && out.len() + self.output.pending_len() < len_max
    }

    /// Queues what may leave, and sets the deadlines. The last step of each event.
    #[inline]
    pub(super) fn send(&mut self, cx: &mut ConnResources<'_>, out: &mut Outbox) {
        self.return_connection_window();
        if self.put_all(cx, out).is_err() {
            self.output.close(cx, out);
            return self.abort();
        }
        self.output.close(cx, out);
        if self.is_blocked && self.has_room(cx, out) {
            self.is_blocked = false;
        }
        if self.has_ended && self.waits_for_windows(out) {
            return self.abort();
        }
        self.update_phase(cx, out);
        let is_waiting = !out.is_empty() || self.streams.iter().any(|stream| stream.has_content());
        match self.send_by {
            Some(_) if !is_waiting => self.send_by = None,
            None if is_waiting => self.send_by = Some(cx.now.after(self.limits(cx).send_ms)),
            _ => {}
        }
    }

    /// Returns whether nothing can leave before the client opens a window.
    #[cold]
    fn waits_for_windows(&self, out: &Outbox) -> bool {
        let is_full = |stream: &H2Stream| self.send_window <= 0 || stream.window <= 0;
        let waits = |stream: &H2Stream| stream.has_content() && is_full(stream);
        out.is_empty() && !self.streams.is_empty() && self.streams.iter().all(waits)
    }

    fn put_all(&mut self, cx: &mut ConnResources<'_>, out: &mut Outbox) -> Result<(), NoFrameBuffer> {
        self.put_replies(cx, out)?;
        if matches!(self.phase, Http2Phase::LastFrame | Http2Phase::Lingering { .. } | Http2Phase::Closed) {
            return Ok(());
        }
        self.take_responses(cx, out);
        self.streams.advance_paces(cx.now);
        // A page is read once the outbox is empty. Input that has waited for room comes first: it may be an urgent request, or end a stream.
        while self.missing.is_none()
            && !self.input_is_next
            && self.send_window > 0
            && self.has_room_for_output(cx.pool, out)
            && let Some(index) = self.streams.next_to_send()
        {
            self.put_content(cx, out, index)?;
        }
        self.paced_by = self.streams.next_pace();
        // A backend that has failed resets its stream.
        self.put_replies(cx, out)
    }

    /// Queues the replies.
    pub(super) fn put_replies(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
    ) -> Result<(), NoFrameBuffer> {
        if !self.replies.is_empty() && out.free_count() >= SPANS_PER_FRAME {
            self.output.reserve(cx, out, self.replies.len())?;
            self.output.put(cx.pool, &self.replies);
            self.replies.clear();
        }
        Ok(())
    }

    /// Queues a frame with content of a stream.
    fn put_content(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        index: usize,
    ) -> Result<(), NoFrameBuffer> {
        self.output.reserve(cx, out, FRAME_HEADER_LEN)?;
        let payload_len_max = self.payload_len_max.min(FRAME_PAYLOAD_LEN_MAX as u32) as i32;
        let stream = self.streams.at(index);
        let mut len_max = payload_len_max.min(self.send_window).min(stream.window);
        if let Some(pace) = &stream.pace {
            len_max = i64::from(len_max).min(pace.room() as i64) as i32;
        }
        let id = stream.id;
        match &stream.body {
            Body::Piped(_) => return self.put_piped_content(cx, out, id, len_max),
            Body::Bytes(_) => return self.put_bytes(cx, out, index, len_max),
            _ => {}
        }
        let Some((part, is_last)) = stream.body.take(cx.sites, cx.pool, len_max as u64) else {
            return Ok(());
        };
        let len = part.len() as u32;
        self.sent_content(id, len);
        let stream = self.streams.at(index);
        let (exchange, is_complete) = (stream.exchange, stream.is_complete());
        self.output.put(cx.pool, &data_header(id, len, is_last));
        self.output.flush(cx, out);
        out.push_held(part);
        if is_last {
            self.response_queued(out, exchange);
        }
        if is_complete {
            self.streams.remove(index, false);
            self.stream_ended(cx);
        }
        Ok(())
    }

    /// Notes that content of a stream was queued.
    #[inline]
    pub(super) fn sent_content(&mut self, id: u32, len: u32) {
        if let Some(index) = self.streams.find(id) {
            let stream = self.streams.at(index);
            stream.window -= len as i32;
            if let Some(pace) = &mut stream.pace {
                pace.spend(len.into());
            }
            stream.exchange.content_len += u64::from(len);
        }
        self.send_window -= len as i32;
        self.overhead.earn(OVERHEAD_PER_FRAME);
    }

    /// Enters the phases at the end of the connection.
    #[inline]
    fn update_phase(&mut self, cx: &ConnResources<'_>, out: &Outbox) {
        let is_last = matches!(self.shutdown, Shutdown::Last { .. })
            && self.streams.is_empty()
            && self.phase == Http2Phase::Open;
        if is_last {
            self.phase = Http2Phase::LastFrame;
        }
        if self.phase == Http2Phase::LastFrame && out.is_empty() && self.replies.is_empty() {
            self.linger(cx);
        }
    }
}
