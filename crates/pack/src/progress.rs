//! The progress of packing, reading or verifying a site, which other threads can read.

use crate::packed::estimate::{Estimate, WorkKind};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The progress of packing, reading or verifying a site. Any thread may read it at any time.
#[derive(Debug)]
pub struct Progress {
    began: Instant,
    state: Mutex<ProgressState>,
}

/// The progress at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProgressSnapshot {
    /// The current step.
    pub step: PackStep,
    /// The finished part of the step, in the unit of the step.
    pub done: u64,
    /// The whole step, in the same unit.
    pub total: u64,
    /// Compressing: the total length of the contents. Writing: the length of the archive.
    pub len: u64,
    /// The remaining time of compressing, if there is an estimate.
    pub remaining: Option<Duration>,
}

/// A step of packing or verifying a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackStep {
    /// Lists and reads files. The unit is a file.
    Reading,
    /// Compresses contents. The unit is a microsecond of estimated work.
    Compressing,
    /// Writes the archive. The unit is a byte.
    Writing,
    /// Verifies the checksums of the archive. The unit is a byte.
    Checksums,
    /// Verifies contents and decodes their variants. The unit is a content.
    Contents,
    /// Compares the members of the archive with what the server sends. The unit is a byte.
    Members,
}

#[derive(Debug)]
struct ProgressState {
    step: PackStep,
    done: u64,
    total: u64,
    len: u64,
    estimate: Estimate,
}

/// Ends the job of a worker on drop.
pub(crate) struct JobGuard<'p> {
    progress: &'p Progress,
    worker: usize,
}

impl Default for Progress {
    fn default() -> Progress {
        let estimate = Estimate::new(1);
        let state = ProgressState { step: PackStep::Reading, done: 0, total: 0, len: 0, estimate };
        Progress { began: Instant::now(), state: Mutex::new(state) }
    }
}

impl Progress {
    /// Returns the current progress.
    pub fn now(&self) -> ProgressSnapshot {
        let at = self.began.elapsed();
        let ProgressState { step, done, total, len, estimate } = &mut *self.state();
        match step {
            PackStep::Compressing => {
                let (done, total) = estimate.share(at);
                ProgressSnapshot { step: *step, done, total, len: *len, remaining: estimate.shown(at) }
            }
            _ => ProgressSnapshot { step: *step, done: *done, total: *total, len: *len, remaining: None },
        }
    }

    /// Begins a step other than [`PackStep::Compressing`].
    pub(crate) fn begin(&self, step: PackStep, total: u64) {
        let mut state = self.state();
        (state.step, state.done, state.total, state.len) = (step, 0, total, total);
    }

    /// Begins [`PackStep::Compressing`] for contents of `len` bytes, with the expected work.
    pub(crate) fn begin_compressing(
        &self,
        workers: usize,
        len: u64,
        work: impl IntoIterator<Item = (WorkKind, u64)>,
    ) {
        let mut state = self.state();
        let mut estimate = Estimate::new(workers);
        work.into_iter().for_each(|(kind, len)| estimate.expect(kind, len));
        (state.step, state.len, state.estimate) = (PackStep::Compressing, len, estimate);
    }

    /// Replaces the expected work of some kinds. None of it may have begun.
    pub(crate) fn replace_expected(
        &self,
        kinds: &[WorkKind],
        work: impl IntoIterator<Item = (WorkKind, u64)>,
    ) {
        let estimate = &mut self.state().estimate;
        kinds.iter().for_each(|&kind| estimate.forget(kind));
        work.into_iter().for_each(|(kind, len)| estimate.expect(kind, len));
    }

    /// Begins an expected job of a worker, which ends when the returned guard is dropped.
    pub(crate) fn run(&self, worker: usize, kind: WorkKind, len: u64) -> JobGuard<'_> {
        let at = self.began.elapsed();
        self.state().estimate.begin(worker, kind, len, at);
        JobGuard { progress: self, worker }
    }

    pub(crate) fn add(&self, len: u64) {
        self.state().done += len;
    }

    fn state(&self) -> MutexGuard<'_, ProgressState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for JobGuard<'_> {
    fn drop(&mut self) {
        let at = self.progress.began.elapsed();
        self.progress.state().estimate.end(self.worker, at);
    }
}
