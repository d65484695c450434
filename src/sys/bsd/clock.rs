//! The clock of the date of responses. clock_gettime(2).

use rustix::time::ClockId;

/// Wall clock.
pub(crate) const WALL: ClockId = ClockId::Realtime;
