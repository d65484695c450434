//! The numbers of CGI programs, in memory that all processes of a service share: the helpers write them, the admin listener reads them.

use crate::{control::metrics::CgiMetrics, sys::shared::SharedArray};
use std::{
    io,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// The numbers of all helpers of a service.
#[derive(Debug)]
pub(crate) struct CgiStats(SharedArray<AtomicU64>);

/// A number of [`CgiStats`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum CgiCount {
    /// Programs that run now.
    Running,
    /// Requests that wait for a free place now.
    Queued,
    /// Programs that were started.
    Started,
    /// Programs that gave no valid response, or only a part of one.
    Failed,
    /// Programs that were killed because they took too long.
    TimedOut,
    /// Requests that got 503 because too many waited.
    Refused,
}

/// The number of numbers.
const COUNT: usize = 6;

impl CgiStats {
    pub(crate) fn new() -> io::Result<CgiStats> {
        SharedArray::zeros(COUNT).map(CgiStats)
    }

    pub(crate) fn add(&self, count: CgiCount) {
        self.0[count as usize].fetch_add(1, Relaxed);
    }

    /// Subtracts from a number of what is so now. A helper that was killed leaves its part: see [`reset`](CgiStats::reset).
    pub(crate) fn subtract(&self, count: CgiCount, difference: u64) {
        let place = &self.0[count as usize];
        let _ = place.fetch_update(Relaxed, Relaxed, |now| Some(now.saturating_sub(difference)));
    }

    /// Forgets what was so: the only helper has exited.
    pub(crate) fn reset(&self) {
        for count in [CgiCount::Running, CgiCount::Queued] {
            self.0[count as usize].store(0, Relaxed);
        }
    }

    pub(crate) fn metrics(&self) -> CgiMetrics {
        let of = |count: CgiCount| self.0[count as usize].load(Relaxed);
        CgiMetrics {
            running: of(CgiCount::Running),
            queued: of(CgiCount::Queued),
            started: of(CgiCount::Started),
            failed: of(CgiCount::Failed),
            timed_out: of(CgiCount::TimedOut),
            refused: of(CgiCount::Refused),
        }
    }
}
