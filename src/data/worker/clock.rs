//! The clocks of a worker, and the longest wait.

use crate::sys::clock::{STEADY, WALL};
use rustix::time::{Timespec, clock_gettime};
use std::mem;
use tarpon_conn::Tick;

/// The steady clock since the start of a worker.
#[derive(Clone, Copy)]
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

    /// Reads the clock. Returns whether it has moved.
    #[inline]
    pub(super) fn advance(&mut self) -> bool {
        let now = clock_gettime(STEADY);
        now != mem::replace(&mut self.read_at, now)
    }

    /// Returns the time since the start that was read last.
    pub(super) fn now(&self) -> Tick {
        let (now, start) = (self.read_at, self.started_at);
        let elapsed_ms = (now.tv_sec - start.tv_sec) * 1_000 + (now.tv_nsec - start.tv_nsec) / 1_000_000;
        Tick(elapsed_ms.max(0) as u64)
    }
}

/// The time at which a process starts, as its parent has read it.
#[derive(Clone, Copy)]
pub(crate) struct StartTime {
    pub(super) steady: SteadyClock,
    pub(super) unix_ms: u64,
}

impl StartTime {
    /// Reads the clocks.
    pub(crate) fn now() -> StartTime {
        StartTime { steady: SteadyClock::start(), unix_ms: unix_ms() }
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
    let ms = ms.min(WAIT_MS_MAX) as i64;
    Timespec { tv_sec: ms / 1_000, tv_nsec: ms % 1_000 * 1_000_000 }
}
