//! How far the packing is: told by the packer, read by whatever draws it.

use super::estimate::{Estimate, WorkKind};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How far the packing is. May be read at any time, from any thread.
#[derive(Debug)]
pub struct Progress {
    began: Instant,
    state: Mutex<ProgressState>,
}

/// How far it is at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProgressSnapshot {
    /// The current step.
    pub step: PackStep,
    /// How much of it: files, work or bytes, by the step.
    pub done: u64,
    /// How much it is in all.
    pub total: u64,
    /// Bytes of the contents it is done with.
    pub len: u64,
    /// How long compressing will still take, once there is something to judge by.
    pub remaining: Option<Duration>,
}

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackStep {
    /// Files are listed and read. Progress counts files.
    Reading,
    /// Variants are coded. Progress counts work: bytes, each weighed by what its coding costs.
    Coding,
    /// The archive is written. Progress counts bytes.
    Writing,
}

#[derive(Debug)]
struct ProgressState {
    step: PackStep,
    done: u64,
    total: u64,
    len: u64,
    estimate: Estimate,
}

/// A job that a worker is at; over when this is dropped.
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
    /// Returns how far it is.
    pub fn now(&self) -> ProgressSnapshot {
        let at = self.began.elapsed();
        let ProgressState { step, done, total, len, estimate } = &mut *self.state();
        match step {
            PackStep::Coding => {
                let (done, total) = estimate.share(at);
                ProgressSnapshot { step: *step, done, total, len: *len, remaining: estimate.shown(at) }
            }
            _ => ProgressSnapshot { step: *step, done: *done, total: *total, len: *len, remaining: None },
        }
    }

    /// Begins a step other than coding.
    pub(crate) fn begin(&self, step: PackStep, total: u64) {
        let mut state = self.state();
        (state.step, state.done, state.total, state.len) = (step, 0, total, total);
    }

    /// Begins coding contents of `len` bytes, with all the work that is expected.
    pub(crate) fn begin_coding(
        &self,
        workers: usize,
        len: u64,
        work: impl IntoIterator<Item = (WorkKind, u64)>,
    ) {
        let mut state = self.state();
        let mut estimate = Estimate::new(workers);
        work.into_iter().for_each(|(kind, len)| estimate.expect(kind, len));
        (state.step, state.len, state.estimate) = (PackStep::Coding, len, estimate);
    }

    /// Replaces what was expected of one kind, when it is known better and none of it has begun.
    pub(crate) fn expect_instead(&self, kinds: &[WorkKind], work: impl IntoIterator<Item = (WorkKind, u64)>) {
        let estimate = &mut self.state().estimate;
        kinds.iter().for_each(|&kind| estimate.forget(kind));
        work.into_iter().for_each(|(kind, len)| estimate.expect(kind, len));
    }

    /// A worker is at a job that was expected, until the result is dropped.
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
