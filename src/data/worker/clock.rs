//! The clocks of a worker, and the longest wait.

use crate::sys::{
    self,
    clock::{STEADY, WALL},
};
use rustix::time::{Timespec, clock_gettime};
use std::time::Duration;
use tarpon_conn::Tick;

/// The steady clock since the start of a worker.
pub(super) struct SteadyClock {
    started_at: Timespec,
    /// The last time that was read.
    read_at: Timespec,
}

impl SteadyClock {
    pub(super) fn start() -> SteadyClock {
        let now = clock_gettime(STEADY);
        SteadyClock { started_at: now, read_at: now }
    }

    /// Reads the clock. Returns the time since the start, or `None` if it is the same as at the last call.
    #[inline]
    pub(super) fn advance(&mut self) -> Option<Tick> {
        let now = clock_gettime(STEADY);
        if now == self.read_at {
            return None;
        }
        self.read_at = now;
        let elapsed_s = now.tv_sec - self.started_at.tv_sec;
        let elapsed_ms = elapsed_s * 1_000 + (now.tv_nsec - self.started_at.tv_nsec) / 1_000_000;
        Some(Tick(elapsed_ms.max(0) as u64))
    }
}

/// Returns the wall clock in milliseconds since 1970.
pub(super) fn unix_ms() -> u64 {
    let now = clock_gettime(WALL);
    now.tv_sec.max(0) as u64 * 1_000 + now.tv_nsec as u64 / 1_000_000
}

/// Longest single wait in milliseconds: the limit of `epoll_wait`.
pub(crate) const WAIT_MS_MAX: u64 = i32::MAX as u64;

/// Converts a wait in milliseconds, shortened to the longest single wait.
pub(crate) fn timespec(ms: u64) -> Timespec {
    sys::io::timespec(Duration::from_millis(ms.min(WAIT_MS_MAX)))
}
