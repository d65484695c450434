//! The clocks that a worker reads at each turn: those that cost least, and are a few milliseconds late. clock_gettime(2).

use rustix::time::ClockId;

/// Never set.
pub(crate) const STEADY: ClockId = ClockId::MonotonicCoarse;

/// The clock on the wall.
pub(crate) const WALL: ClockId = ClockId::RealtimeCoarse;
