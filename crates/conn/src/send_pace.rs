//! How fast the content of a response leaves: a bucket that fills with time, and that content empties.
//!
//! ```text
//! time ─▶ [ room, at most that of a second ] ─▶ content that is queued
//!           └ none: the rest waits until there is room for a step
//! ```

use crate::Tick;
use std::num::NonZeroU32;

/// The maximum number of bytes per second of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendRate(pub NonZeroU32);

/// How much of a response may be queued now.
#[derive(Debug)]
pub(crate) struct SendPace {
    rate: SendRate,
    /// In thousandths of a byte, so that each millisecond adds a whole number. Below 0: more was queued than there was room for.
    room: i64,
    /// There was no room: nothing is queued before there is room for a step, whatever else happens.
    is_waiting: bool,
    counted_at: Tick,
}

/// Content leaves so often in a second: rarely enough for long sends, and often enough that a client sees progress.
const STEPS_PER_S: u32 = 8;

/// A step is not shorter than this, unless it takes longer than a second: each costs a wake-up and a packet.
const STEP_LEN_MIN: u32 = 4096;

impl SendRate {
    /// Returns the length of a step in bytes.
    fn step_len(self) -> u32 {
        let SendRate(per_s) = self;
        (per_s.get() / STEPS_PER_S).max(STEP_LEN_MIN.min(per_s.get()))
    }
}

impl SendPace {
    /// Returns the pace of a response that begins now, with room for a step. `None`: it has no limit.
    pub(crate) fn begin(rate: Option<SendRate>, now: Tick) -> Option<Box<SendPace>> {
        let rate = rate?;
        let room = i64::from(rate.step_len()) * 1_000;
        Some(Box::new(SendPace { rate, room, is_waiting: false, counted_at: now }))
    }

    /// Returns the rate.
    pub(crate) fn rate(&self) -> SendRate {
        self.rate
    }

    /// Adds the room of the time that has passed.
    pub(crate) fn advance(&mut self, now: Tick) {
        let SendRate(per_s) = self.rate;
        let per_s = i64::from(per_s.get());
        let passed_ms = now.0.saturating_sub(self.counted_at.0);
        let added = per_s.saturating_mul(i64::try_from(passed_ms).unwrap_or(i64::MAX));
        self.room = self.room.saturating_add(added).min(per_s * 1_000);
        self.is_waiting &= self.room < self.step();
        self.counted_at = now;
    }

    /// Returns how many bytes may be queued.
    pub(crate) fn room(&self) -> u64 {
        if self.is_waiting { 0 } else { self.room.unsigned_abs() / 1_000 }
    }

    /// Notes that bytes were queued, perhaps more than there was room for.
    pub(crate) fn spend(&mut self, len: u64) {
        let len = i64::try_from(len.saturating_mul(1_000)).unwrap_or(i64::MAX);
        self.room = self.room.saturating_sub(len);
        self.is_waiting = self.room < 1_000;
    }

    /// Returns when there is room for a step. `None`: some content may be queued now.
    pub(crate) fn waits_until(&self) -> Option<Tick> {
        if !self.is_waiting {
            return None;
        }
        let SendRate(per_s) = self.rate;
        let missing = (self.step() - self.room).unsigned_abs();
        Some(self.counted_at.after(missing.div_ceil(u64::from(per_s.get()))))
    }

    /// Returns the room for a step.
    fn step(&self) -> i64 {
        i64::from(self.rate.step_len()) * 1_000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_leaves_in_steps_at_the_rate() {
        for (per_s, step_len, step_ms) in [
            (1, 1, 1_000),
            (1_000, 1_000, 1_000),
            (4_096, 4_096, 1_000),
            (8_192, 4_096, 500),
            (80_000, 10_000, 125),
            (u32::MAX, u32::MAX / 8, 125),
        ] {
            let rate = SendRate(NonZeroU32::new(per_s).expect("a rate"));
            let mut pace = SendPace::begin(Some(rate), Tick(5)).expect("a pace");
            assert_eq!((pace.room(), pace.waits_until()), (u64::from(step_len), None), "{per_s}");
            let (mut now, mut sent_len) = (Tick(5), 0);
            for _ in 0..100 {
                sent_len += pace.room();
                pace.spend(pace.room());
                let next = pace.waits_until().expect("nothing may be queued");
                assert!(next.0 - now.0 <= step_ms + 1, "{per_s}");
                // Earlier, less than a step has come.
                pace.advance(Tick(next.0 - 1));
                assert_eq!(pace.room(), 0, "{per_s}");
                now = next;
                pace.advance(now);
            }
            let allowed = u64::from(step_len) + u64::from(per_s) * (now.0 - 5) / 1_000;
            assert!(
                sent_len <= allowed && sent_len * 100 >= allowed * 98,
                "{per_s}: {sent_len} of {allowed}"
            );
        }
    }

    #[test]
    fn a_debt_is_paid_and_idle_time_is_not_saved() {
        let rate = SendRate(NonZeroU32::new(80_000).expect("a rate"));
        let mut pace = SendPace::begin(Some(rate), Tick(0)).expect("a pace");
        pace.spend(50_000);
        assert_eq!((pace.room(), pace.waits_until()), (0, Some(Tick(625))));
        pace.advance(Tick(500));
        assert_eq!((pace.room(), pace.waits_until()), (0, Some(Tick(625))));
        pace.advance(Tick(1_000_000));
        assert_eq!(pace.room(), 80_000);
        assert!(SendPace::begin(None, Tick(0)).is_none());
    }
}
