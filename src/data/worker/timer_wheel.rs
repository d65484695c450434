//! Timer wheel: one timer for each connection of a worker, re-armed lazily.
//!
//! ```text
//! bucket   now+1   now+2   …   now+255
//!            │       └─ 7 ⇄ 2             slots, doubly linked
//!            └─ 4 ⇄ 9 ⇄ 1
//! ```
//!
//! Each request moves a connection's deadline, but not its timer. A timer fires at or before its deadline; the worker then compares
//! the deadline and arms the timer again. So a request costs one comparison.

use tarpon_conn::Tick;

/// Timers, by slot number.
pub(crate) struct TimerWheel {
    /// First timer of each bucket.
    buckets: [u32; BUCKET_COUNT],
    timers: Vec<Timer>,
    /// Bucket time up to which all fired timers were taken.
    taken_until: u64,
    /// Lower bound of the times of all armed timers. [`Tick::NEVER`]: no timer is armed.
    earliest: Tick,
}

#[derive(Clone, Copy)]
pub(super) struct Timer {
    /// Bucket time of the timer; `UNARMED` if it is not armed.
    at: u64,
    /// Neighbours in the bucket, or `NONE`.
    previous: u32,
    next: u32,
}

/// Number of buckets, a power of two. With the width of a bucket the horizon is 16 seconds; a timer beyond it fires at the horizon
/// and is armed again.
const BUCKET_COUNT: usize = 256;
/// Width of a bucket in milliseconds, as a power of two: 64 ms is fine enough for timeouts of seconds.
const BUCKET_SHIFT: u32 = 6;
const NONE: u32 = u32::MAX;
const UNARMED: u64 = u64::MAX;

impl TimerWheel {
    pub(crate) fn new() -> TimerWheel {
        TimerWheel {
            buckets: [NONE; BUCKET_COUNT],
            timers: Vec::new(),
            taken_until: 0,
            earliest: Tick::NEVER,
        }
    }

    /// Allocates the memory for the timers of this many slots.
    pub(super) fn reserve(&mut self, count: usize) {
        self.timers.reserve(count);
    }

    /// Arms an unarmed timer of a slot to fire at or before a deadline.
    pub(crate) fn arm(&mut self, slot: u32, deadline: Tick) {
        if self.timers.len() <= slot as usize {
            self.timers.resize(slot as usize + 1, Timer { at: UNARMED, previous: NONE, next: NONE });
        }
        let horizon = self.taken_until + BUCKET_COUNT as u64 - 1;
        // Rounded up: an early timer would have to be armed again.
        let at = deadline.0.div_ceil(1 << BUCKET_SHIFT).clamp(self.taken_until + 1, horizon);
        let first = std::mem::replace(&mut self.buckets[bucket(at)], slot);
        if first != NONE {
            self.timers[first as usize].previous = slot;
        }
        debug_assert_eq!(self.timers[slot as usize].at, UNARMED);
        self.timers[slot as usize] = Timer { at, previous: NONE, next: first };
        self.earliest = self.earliest.min(time(at));
    }

    /// Moves the timer of a slot if the deadline is now earlier than the timer.
    #[inline]
    pub(crate) fn move_earlier(&mut self, slot: u32, deadline: Tick) {
        let at = self.timers[slot as usize].at;
        if deadline < time(at - 1) {
            self.rearm(slot, deadline);
        }
    }

    #[cold]
    fn rearm(&mut self, slot: u32, deadline: Tick) {
        self.disarm(slot);
        self.arm(slot, deadline);
    }

    /// Disarms the timer of a slot.
    pub(crate) fn disarm(&mut self, slot: u32) {
        let Timer { at, previous, next } = self.timers[slot as usize];
        if at == UNARMED {
            return;
        }
        match previous {
            NONE => self.buckets[bucket(at)] = next,
            _ => self.timers[previous as usize].next = next,
        }
        if next != NONE {
            self.timers[next as usize].previous = previous;
        }
        self.timers[slot as usize].at = UNARMED;
    }

    /// Returns whether a timer may have fired.
    #[inline]
    pub(crate) fn is_due(&self, now: Tick) -> bool {
        self.earliest <= now
    }

    /// Takes a fired timer, which is then disarmed. Returns its slot.
    pub(crate) fn take(&mut self, now: Tick) -> Option<u32> {
        let now = now.0 >> BUCKET_SHIFT;
        while self.taken_until < now {
            // No timer lies beyond the horizon, so one revolution empties the wheel.
            let at = (self.taken_until + 1).max(now.saturating_sub(BUCKET_COUNT as u64));
            let slot = self.buckets[bucket(at)];
            if slot != NONE {
                self.disarm(slot);
                return Some(slot);
            }
            self.taken_until = at;
        }
        let armed = (now + 1..now + BUCKET_COUNT as u64).find(|&at| self.buckets[bucket(at)] != NONE);
        self.earliest = armed.map_or(Tick::NEVER, time);
        None
    }

    /// Returns the time at which a timer may fire, at the earliest. [`Tick::NEVER`]: no timer is armed.
    #[inline]
    pub(crate) fn earliest(&self) -> Tick {
        self.earliest
    }
}

/// Returns the time at which the timers of a bucket fire.
#[inline]
fn time(at: u64) -> Tick {
    Tick(at << BUCKET_SHIFT)
}

fn bucket(at: u64) -> usize {
    at as usize % BUCKET_COUNT
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes all timers that have fired by `ms`, in slot order.
    fn fired(wheel: &mut TimerWheel, ms: u64) -> Vec<u32> {
        let mut slots: Vec<u32> = std::iter::from_fn(|| wheel.take(Tick(ms))).collect();
        slots.sort_unstable();
        slots
    }

    #[test]
    fn timer_fires_within_a_bucket_of_its_deadline() {
        let mut wheel = TimerWheel::new();
        for (slot, ms) in [(0, 100), (1, 128), (2, 1_000), (3, 15_000)] {
            wheel.arm(slot, Tick(ms));
        }
        #[rustfmt::skip]
        let cases: &[(u64, &[u32])] = &[
            (99, &[]), (127, &[]), (128, &[0, 1]), (128, &[]), (999, &[]), (1_024, &[2]), (20_000, &[3]), (90_000, &[]),
        ];
        for &(now, want) in cases {
            assert_eq!(fired(&mut wheel, now), want, "at {now} ms");
        }
        assert_eq!(wheel.earliest(), Tick::NEVER);
    }

    #[test]
    fn timer_beyond_the_horizon_fires_at_the_horizon() {
        let mut wheel = TimerWheel::new();
        wheel.arm(0, Tick(75_000));
        assert_eq!(fired(&mut wheel, 16_000), [0; 0]);
        assert_eq!(fired(&mut wheel, 16_400), [0]);
    }

    #[test]
    fn disarmed_timer_does_not_fire_but_its_neighbours_do() {
        let mut wheel = TimerWheel::new();
        for slot in 0..5 {
            wheel.arm(slot, Tick(640));
        }
        for slot in [0, 2, 4] {
            wheel.disarm(slot);
        }
        assert_eq!(fired(&mut wheel, 10_000), [1, 3]);
    }

    #[test]
    fn earlier_deadline_moves_the_timer_and_later_one_does_not() {
        let mut wheel = TimerWheel::new();
        wheel.arm(0, Tick(10_000));
        wheel.move_earlier(0, Tick(20_000));
        wheel.move_earlier(0, Tick(2_000));
        assert_eq!(fired(&mut wheel, 1_900), [0; 0]);
        assert_eq!(fired(&mut wheel, 2_048), [0]);
    }

    #[test]
    fn wait_ends_when_the_first_timer_may_fire() {
        let mut wheel = TimerWheel::new();
        assert_eq!(wheel.earliest(), Tick::NEVER);
        wheel.arm(0, Tick(6_400));
        wheel.arm(1, Tick(640));
        assert_eq!(wheel.earliest(), Tick(640));
        assert!(!wheel.is_due(Tick(639)) && wheel.is_due(Tick(640)));
        assert_eq!(fired(&mut wheel, 640), [1]);
        assert_eq!(wheel.earliest(), Tick(6_400));
    }

    #[test]
    fn long_sleep_skips_no_timer() {
        let mut wheel = TimerWheel::new();
        for slot in 0..200 {
            wheel.arm(slot, Tick(slot as u64 * 80));
        }
        assert_eq!(fired(&mut wheel, 10_000_000).len(), 200);
    }
}
