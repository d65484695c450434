//! The monotonic clock of a driver. The machines that it drives read no clock: they get a tick with each event.

use std::time::{Duration, Instant};
use tarpon_conn::Tick;

/// A clock that counts milliseconds from its creation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MonotonicClock {
    start: Instant,
}

impl MonotonicClock {
    /// Returns a clock that starts at 0.
    pub(crate) fn new() -> MonotonicClock {
        MonotonicClock { start: Instant::now() }
    }

    /// Returns the time.
    pub(crate) fn now(&self) -> Tick {
        Tick(self.start.elapsed().as_millis() as u64)
    }

    /// Returns the time until a deadline, at least one millisecond unless it has passed: so that a wait never ends before its deadline.
    pub(crate) fn until(&self, deadline: Tick) -> Duration {
        let since = Duration::from_millis(deadline.0).saturating_sub(self.start.elapsed());
        if since.is_zero() { since } else { since.max(Duration::from_millis(1)) }
    }
}

/// Returns the time after a delay.
pub(crate) fn after(now: Tick, delay: Duration) -> Tick {
    now.after(u64::try_from(delay.as_millis()).unwrap_or(u64::MAX))
}

/// Returns a time in whole milliseconds, rounded up: a wait for it never ends before its deadline.
pub(crate) fn whole_ms(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// Returns the time between two ticks, or zero if the later one is not later.
pub(crate) fn between(earlier: Tick, later: Tick) -> Duration {
    Duration::from_millis(later.0.saturating_sub(earlier.0))
}
