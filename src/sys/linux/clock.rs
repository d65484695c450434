//! The clock of the date of responses: the coarse one, cheap and a few milliseconds late. clock_gettime(2).

use rustix::time::ClockId;

/// Wall clock.
pub(crate) const WALL: ClockId = ClockId::RealtimeCoarse;
