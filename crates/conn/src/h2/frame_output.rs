//! Writes frames to the outbox: what is made for this response into a buffer of the pool, and content by its place.
//!
//! ```text
//! buffer   [ header, fields, short content ][ header, fields ][ header ]        [ header ]
//! outbox   └──────────────── a span ──────────────────────────────────┘ content └ a span ┘ content
//! ```

use crate::{
    BUF_LEN, BufRange, ConnResources,
    pool::{BufId, Pool},
    span::{Outbox, Span},
};

/// The buffer that frames are written to. It is open during one event only.
#[derive(Debug, Default)]
pub(super) struct FrameOutput {
    buf: Option<BufId>,
    /// The end of what is in the outbox.
    queued: u32,
    end: u32,
}

/// The places in the outbox that a frame takes at most: a full buffer, the next buffer, and content by its place.
const PLACE_COUNT_MIN: usize = 3;

/// There is no room for a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoFrameBuffer;

impl FrameOutput {
    /// Makes room for `len` bytes in the buffer, or in a new one. Takes a place in the outbox.
    ///
    /// # Errors
    /// No buffer is free, or too few places are.
    #[inline]
    pub(super) fn reserve(
        &mut self,
        cx: &mut ConnResources<'_>,
        out: &mut Outbox,
        len: usize,
    ) -> Result<(), NoFrameBuffer> {
        if out.free_count() < PLACE_COUNT_MIN {
            return Err(NoFrameBuffer);
        }
        if self.buf.is_some() && self.end as usize + len <= BUF_LEN {
            return Ok(());
        }
        self.close(cx, out);
        self.buf = Some(cx.pool.take().ok_or(NoFrameBuffer)?);
        (self.queued, self.end) = (0, 0);
        Ok(())
    }

    /// Appends bytes, for which there is room.
    #[inline]
    pub(super) fn put(&mut self, pool: &mut Pool, bytes: &[u8]) {
        self.rest(pool)[..bytes.len()].copy_from_slice(bytes);
        self.end += bytes.len() as u32;
    }

    /// Returns the rest of the buffer, to write to its front and [`advance`](FrameOutput::advance).
    #[inline]
    pub(super) fn rest<'p>(&self, pool: &'p mut Pool) -> &'p mut [u8] {
        let buf = self.buf.expect("room was reserved");
        &mut pool.buf_mut(buf)[self.end as usize..]
    }

    /// Appends the bytes that were written to the front of the [rest](FrameOutput::rest).
    #[inline]
    pub(super) fn advance(&mut self, len: usize) {
        self.end += len as u32;
    }

    /// Adds what was written to the outbox. Takes a place in it.
    #[inline]
    pub(super) fn flush(&mut self, cx: &mut ConnResources<'_>, out: &mut Outbox) {
        if let Some(buf) = self.buf
            && self.end > self.queued
        {
            cx.pool.hold(buf);
            let range = BufRange { buf, at: self.queued, len: self.end - self.queued };
            out.push(cx.sites, Span::Buf(range));
            self.queued = self.end;
        }
    }

    /// Adds what was written to the outbox, and closes the buffer.
    #[inline]
    pub(super) fn close(&mut self, cx: &mut ConnResources<'_>, out: &mut Outbox) {
        self.flush(cx, out);
        if let Some(buf) = self.buf.take() {
            cx.pool.release(buf);
        }
    }

    /// Drops what is not in the outbox.
    pub(super) fn release(&mut self, pool: &mut Pool) {
        if let Some(buf) = self.buf.take() {
            pool.release(buf);
        }
    }

    /// Returns how many bytes are not in the outbox yet.
    #[inline]
    pub(super) fn pending_len(&self) -> u64 {
        if self.buf.is_some() { u64::from(self.end - self.queued) } else { 0 }
    }
}
