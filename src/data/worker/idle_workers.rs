//! Which workers are idle. Engines that serve one connection per worker use it to learn whether another worker can take a waiting
//! client.
//!
//! A word for each, which only its worker sets: if it is killed, the master clears the word.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bits of idle workers. Any worker may read them at any time; an answer may be out of date when the worker acts on it.
#[derive(Debug, Default)]
pub(crate) struct IdleWorkers {
    words: [AtomicU64; WORKER_COUNT_MAX / 64],
    /// Number of workers that have begun to stop.
    stopping_count: AtomicU64,
}

/// Workers beyond this number count as busy.
const WORKER_COUNT_MAX: usize = 1024;

impl IdleWorkers {
    /// Marks the first `worker_count` workers as idle: those that have not started yet will soon.
    pub(crate) fn set_all_idle(&self, worker_count: usize) {
        (0..worker_count).for_each(|worker| self.set(worker, true));
    }

    /// Sets whether a worker is idle.
    pub(crate) fn set(&self, worker: usize, is_idle: bool) {
        let Some(word) = self.words.get(worker / 64) else { return };
        let bit = 1 << (worker % 64);
        match is_idle {
            true => word.fetch_or(bit, Ordering::Relaxed),
            false => word.fetch_and(!bit, Ordering::Relaxed),
        };
    }

    /// Counts a worker that begins to stop. Returns whether it is the last of `worker_count`: then no other worker takes waiting clients.
    pub(crate) fn begin_stop(&self, worker_count: usize) -> bool {
        self.stopping_count.fetch_add(1, Ordering::Relaxed) + 1 == worker_count as u64
    }

    /// Returns whether any worker is idle.
    #[inline]
    pub(crate) fn is_any_idle(&self) -> bool {
        self.words.iter().any(|word| word.load(Ordering::Relaxed) != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_is_idle_until_all_are_busy() {
        let idle_workers = IdleWorkers::default();
        let workers = [0, 63, 64, WORKER_COUNT_MAX - 1];
        assert!(!idle_workers.is_any_idle());
        workers.iter().for_each(|&worker| idle_workers.set(worker, true));
        for worker in workers {
            assert!(idle_workers.is_any_idle());
            idle_workers.set(worker, false);
        }
        assert!(!idle_workers.is_any_idle());
        idle_workers.set(WORKER_COUNT_MAX, true);
        assert!(!idle_workers.is_any_idle(), "beyond the last word");
    }

    #[test]
    fn last_worker_that_stops_learns_it() {
        let idle_workers = IdleWorkers::default();
        assert_eq!([(); 3].map(|()| idle_workers.begin_stop(3)), [false, false, true]);
    }
}
