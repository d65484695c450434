//! Notices a flood of connections, so that the kernel accepts few of them at a time.
//!
//! An accept that goes on takes every client of the queue in one call, and those that connect during it, up to the length of the completion queue:
//! clients that connect as fast as the kernel accepts keep the worker in that call for 30 ms. During a flood accepts take one client each, as many as
//! other engines [accept in a row](ACCEPT_MAX).

use crate::data::engine::accept::ACCEPT_MAX;
use tarpon_conn::Tick;

/// Connections that arrive in one batch of completions at which a flood begins: accepting them took a millisecond.
const BURST_COUNT: usize = 128;

/// How long accepts take one client each after the last burst: the change takes a whole queue of them once.
const CALM_MS: u64 = 10_000;

/// Whether there is a flood of connections.
#[derive(Default)]
pub(super) struct AcceptFlood {
    until: Option<Tick>,
    /// Connections of this batch.
    count: usize,
}

impl AcceptFlood {
    /// Returns whether accepts take one client each.
    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.until.is_some()
    }

    /// Counts a connection.
    #[inline]
    pub(super) fn count(&mut self) {
        self.count += 1;
    }

    /// Ends a batch of completions. Returns whether a flood has begun.
    #[inline]
    pub(super) fn end_batch(&mut self, now: Tick) -> bool {
        let count = std::mem::take(&mut self.count);
        if count == 0 && self.until.is_none() {
            return false;
        }
        let (was_on, is_burst) = (self.is_on(), count >= if self.is_on() { ACCEPT_MAX } else { BURST_COUNT });
        if is_burst {
            self.until = Some(now.after(CALM_MS));
        }
        self.until = self.until.filter(|&until| until > now);
        self.is_on() && !was_on
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_begins_a_flood_and_calm_ends_it() {
        let cases = [
            // milliseconds, connections of the batch, begins, is on
            (0, 0, false, false),
            (1, BURST_COUNT - 1, false, false),
            (2, BURST_COUNT, true, true),
            (10_001, ACCEPT_MAX, false, true),
            (20_000, ACCEPT_MAX - 1, false, true),
            (20_001, 0, false, false),
            (20_002, ACCEPT_MAX, false, false),
            (20_003, BURST_COUNT, true, true),
        ];
        let mut flood = AcceptFlood::default();
        for (ms, count, begins, is_on) in cases {
            (0..count).for_each(|_| flood.count());
            assert_eq!((flood.end_batch(Tick(ms)), flood.is_on()), (begins, is_on), "{ms} ms");
        }
    }
}
