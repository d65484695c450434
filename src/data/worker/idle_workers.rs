//! Which workers of a server are free: for those that serve one connection at a time, and must know whether others can take a
//! client that waits.
//!
//! A row for each, which only its worker sets: where it is killed, whoever notices that clears the row.

use std::sync::atomic::{AtomicU64, Ordering};

/// Who is free. All may look, whenever they like; what they see may be over when they act upon it.
#[derive(Debug, Default)]
pub(crate) struct IdleWorkers {
    rows: [AtomicU64; WORKER_COUNT_MAX / 64],
}

/// Of more workers than these, the others are taken for busy.
const WORKER_COUNT_MAX: usize = 1024;

impl IdleWorkers {
    /// So many workers are free: those that have not begun yet will soon.
    pub(crate) fn open(&self, worker_count: usize) {
        (0..worker_count).for_each(|worker| self.set(worker, true));
    }

    /// Says of one worker whether it is free to take a client.
    pub(crate) fn set(&self, worker: usize, is_free: bool) {
        let Some(row) = self.rows.get(worker / 64) else { return };
        let bit = 1 << (worker % 64);
        match is_free {
            true => row.fetch_or(bit, Ordering::Relaxed),
            false => row.fetch_and(!bit, Ordering::Relaxed),
        };
    }

    /// Whether anybody is free.
    #[inline]
    pub(crate) fn is_any_free(&self) -> bool {
        self.rows.iter().any(|row| row.load(Ordering::Relaxed) != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn somebody_is_free_until_all_are_busy() {
        let roster = IdleWorkers::default();
        let workers = [0, 63, 64, WORKER_COUNT_MAX - 1];
        assert!(!roster.is_any_free());
        workers.iter().for_each(|&worker| roster.set(worker, true));
        for worker in workers {
            assert!(roster.is_any_free());
            roster.set(worker, false);
        }
        assert!(!roster.is_any_free());
        roster.set(WORKER_COUNT_MAX, true);
        assert!(!roster.is_any_free(), "beyond those that have a row");
    }
}
