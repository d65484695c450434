//! The clocks of a worker, and the longest wait.

use crate::sys::clock::WALL;
use rustix::time::{ClockId, Timespec, clock_gettime};
use tarpon_conn::Tick;

/// The steady clock since the start of a worker.
#[derive(Clone, Copy)]
pub(super) struct SteadyClock {
    started_at: Timespec,
    /// Microseconds from the start to the last reading.
    now_us: u64,
    /// When the next step begins.
    next_step_at_us: u64,
}

impl SteadyClock {
    pub(super) fn start() -> SteadyClock {
        SteadyClock { started_at: clock_gettime(ClockId::Monotonic), now_us: 0, next_step_at_us: STEP_US }
    }

    /// Returns the start in microseconds of a clock that all processes share.
    pub(super) fn start_us(&self) -> u64 {
        let Timespec { tv_sec, tv_nsec } = self.started_at;
        (tv_sec * 1_000_000 + tv_nsec / 1_000).max(0) as u64
    }

    /// Reads the clock. Returns whether it has moved by a step.
    #[inline]
    pub(super) fn advance(&mut self) -> bool {
        let (now, start) = (clock_gettime(ClockId::Monotonic), self.started_at);
        let elapsed_us = (now.tv_sec - start.tv_sec) * 1_000_000 + (now.tv_nsec - start.tv_nsec) / 1_000;
        self.now_us = elapsed_us.max(0) as u64;
        let has_moved = self.now_us >= self.next_step_at_us;
        if has_moved {
            self.next_step_at_us = self.now_us + STEP_US;
        }
        has_moved
    }

    /// Returns the time since the start that was read last.
    pub(super) fn now(&self) -> Tick {
        Tick(self.now_us / 1_000)
    }

    /// Returns the same time in microseconds.
    #[inline]
    pub(super) fn now_us(&self) -> u64 {
        self.now_us
    }
}

/// How often deadlines, the date and the log get another time, in microseconds: as often as the coarse clocks of Linux tick. Only durations are
/// finer.
const STEP_US: u64 = 4_000;

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

    /// Returns the time in microseconds of a clock that all processes share.
    pub(crate) fn us(self) -> u64 {
        self.steady.start_us()
    }
}

/// Returns the CPU time of this thread, in microseconds.
pub(super) fn thread_cpu_us() -> u64 {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    used.tv_sec.max(0) as u64 * 1_000_000 + used.tv_nsec as u64 / 1_000
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
