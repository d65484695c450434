//! Clocks that a worker reads at each iteration: the coarse ones, cheap and a few milliseconds late. clock_gettime(2).

use rustix::time::ClockId;

/// Monotonic clock.
pub(crate) const STEADY: ClockId = ClockId::MonotonicCoarse;

/// Wall clock.
pub(crate) const WALL: ClockId = ClockId::RealtimeCoarse;
