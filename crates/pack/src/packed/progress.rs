//! How far the packing is: told by the packer, read by whoever draws it.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// How far the packing is. May be read at any time, from any thread.
#[derive(Debug, Default)]
pub struct Progress {
    step: AtomicU8,
    done: AtomicU64,
    total: AtomicU64,
}

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Files are listed and read.
    Reading,
    /// Variants are coded.
    Coding,
    /// The archive is written.
    Writing,
}

impl Progress {
    /// What is being done, and how many bytes of how many are through.
    pub fn now(&self) -> (Step, u64, u64) {
        let step = match self.step.load(Ordering::Relaxed) {
            0 => Step::Reading,
            1 => Step::Coding,
            _ => Step::Writing,
        };
        (step, self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed))
    }

    pub(crate) fn begin(&self, step: Step, total: u64) {
        // Whoever looks in between sees a mixture for one moment; nothing depends on it.
        self.done.store(0, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
        self.step.store(step as u8, Ordering::Relaxed);
    }

    pub(crate) fn add(&self, len: u64) {
        self.done.fetch_add(len, Ordering::Relaxed);
    }
}
