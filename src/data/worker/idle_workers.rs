//! Which workers of a server are free: for those that serve one connection at a time, and must know whether others can take a
//! client that waits.
//!
//! A word for each, which only its worker sets: where it is killed, whoever notices that clears the word.

use std::sync::atomic::{AtomicU64, Ordering};

/// Who is free. All may look, whenever they like; what they see may be over when they act upon it.
#[derive(Debug, Default)]
pub(crate) struct IdleWorkers {
    words: [AtomicU64; WORKER_COUNT_MAX / 64],
}

/// Of more workers than these, the others are taken for busy.
const WORKER_COUNT_MAX: usize = 1024;

impl IdleWorkers {
    /// So many workers are free: those that have not begun yet will soon.
    pub(crate) fn set_all_idle(&self, worker_count: usize) {
        (0..worker_count).for_each(|worker| self.set(worker, true));
    }

    /// Says of one worker whether it is free to take a client.
    pub(crate) fn set(&self, worker: usize, is_idle: bool) {
        let Some(word) = self.words.get(worker / 64) else { return };
        let bit = 1 << (worker % 64);
        match is_idle {
            true => word.fetch_or(bit, Ordering::Relaxed),
            false => word.fetch_and(!bit, Ordering::Relaxed),
        };
    }

    /// Whether anybody is free.
    #[inline]
    pub(crate) fn is_any_idle(&self) -> bool {
        self.words.iter().any(|word| word.load(Ordering::Relaxed) != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn somebody_is_idle_until_all_are_busy() {
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
        assert!(!idle_workers.is_any_idle(), "beyond those that have a word");
    }
}
