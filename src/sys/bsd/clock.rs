//! Clocks that a worker reads at each iteration. clock_gettime(2).

use rustix::time::ClockId;

/// Monotonic clock.
pub(crate) const STEADY: ClockId = ClockId::Monotonic;

/// Wall clock.
pub(crate) const WALL: ClockId = ClockId::Realtime;
