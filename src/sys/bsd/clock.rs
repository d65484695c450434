//! The clocks that a worker reads at each turn. clock_gettime(2).

use rustix::time::ClockId;

/// Never set.
pub(crate) const STEADY: ClockId = ClockId::Monotonic;

/// The clock on the wall.
pub(crate) const WALL: ClockId = ClockId::Realtime;
