//! Compresses contents of a site on threads of low priority, while the site is served without them.
//!
//! ```text
//! build ─ CompressionBatch ─▶ threads: some jobs after others ─ variants ─▶ report ─▶ build again, with them
//!                             └── a newer batch replaces the rest of the one before
//! ```

use super::builder::CompressionBatch;
use crate::sys::process::lower_thread_priority;
use std::{
    collections::{HashSet, VecDeque},
    io, mem,
    num::NonZero,
    sync::mpsc::{Receiver, Sender, TryRecvError, channel},
    thread,
    time::{Duration, Instant},
};
use tarpon_pack::{BackgroundCompression, CompressionEffort, CompressionJob, JobFiles, MadeVariant};

/// The handle of the thread. Dropping it ends the thread after its current job.
pub(super) struct Compressor {
    batches: Sender<CompressionBatch>,
}

impl Compressor {
    /// Starts the thread. It calls `report` with variants that the next build of the site is to use.
    ///
    /// # Errors
    /// The thread cannot be created.
    pub(super) fn start(
        options: BackgroundCompression,
        report: impl FnMut(Vec<MadeVariant>) + Send + 'static,
    ) -> io::Result<Compressor> {
        let (batches, received) = channel();
        let run = move || {
            lower_thread_priority();
            run(options, &received, report);
        };
        thread::Builder::new().name("compress".to_owned()).spawn(run)?;
        Ok(Compressor { batches })
    }

    /// Compresses the contents of a batch, and no others of earlier batches.
    pub(super) fn compress(&self, batch: CompressionBatch) {
        // A failed send means that the thread has panicked: the site is served uncompressed.
        let _ = self.batches.send(batch);
    }
}

/// Runs until the sender of the batches is dropped.
fn run(
    options: BackgroundCompression,
    batches: &Receiver<CompressionBatch>,
    mut report: impl FnMut(Vec<MadeVariant>),
) {
    // Contents of earlier batches: a newer batch may ask for them, if its build began before their variants were reported.
    let mut done = HashSet::new();
    let (mut made, mut made_len) = (Vec::new(), 0);
    let workers = thread::available_parallelism().map_or(1, NonZero::get).min(WORKERS_MAX);
    let mut next = batches.recv().ok();
    while let Some(batch) = next.take() {
        let asked: HashSet<_> = batch.jobs.iter().map(|job| job.hash()).collect();
        done.retain(|hash| asked.contains(hash));
        let (mut reported, mut interval) = (Instant::now(), REPORT_AFTER);
        let mut jobs: VecDeque<_> =
            batch.jobs.into_iter().filter(|job| !done.contains(&job.hash())).collect();
        loop {
            let some = take_some(&mut jobs, workers, options.content_len_max());
            if some.is_empty() {
                break;
            }
            match batches.try_recv() {
                Ok(newer) => next = Some(newer),
                Err(TryRecvError::Disconnected) => return,
                Err(TryRecvError::Empty) => {}
            }
            if next.is_some() {
                break;
            }
            done.extend(some.iter().map(|job| job.hash()));
            let variants = run_all(&some, &batch.files, options.effort);
            made_len += variants.iter().map(MadeVariant::len).sum::<u64>();
            made.extend(variants);
            if made_len >= options.waiting_len_max() || reported.elapsed() >= interval {
                report(mem::take(&mut made));
                (made_len, reported, interval) = (0, Instant::now(), REPORT_EVERY_MAX.min(2 * interval));
            }
        }
        if next.is_none() {
            if !made.is_empty() {
                report(mem::take(&mut made));
                made_len = 0;
            }
            next = batches.recv().ok();
        }
    }
}

/// Takes the next jobs: one for each worker, or fewer if their contents have more bytes than `len_max` together. A single one may be longer.
fn take_some(jobs: &mut VecDeque<CompressionJob>, workers: usize, len_max: u64) -> Vec<CompressionJob> {
    let (mut some, mut len) = (Vec::new(), 0);
    let fits = |job: &CompressionJob, len: u64| len == 0 || len + job.content_len() <= len_max;
    while some.len() < workers && jobs.front().is_some_and(|job| fits(job, len)) {
        let Some(job) = jobs.pop_front() else { break };
        len += job.content_len();
        some.push(job);
    }
    some
}

/// Runs each job on a thread of its own, which has the priority of this one.
fn run_all(jobs: &[CompressionJob], files: &JobFiles, effort: CompressionEffort) -> Vec<MadeVariant> {
    // A content that cannot be read, or that has changed, is served uncompressed.
    let run = |job: &CompressionJob| job.run(files, effort).unwrap_or_default();
    let Some((own, others)) = jobs.split_first() else { return Vec::new() };
    thread::scope(|scope| {
        let others: Vec<_> = others.iter().map(|job| scope.spawn(move || run(job))).collect();
        let mut made = run(own);
        made.extend(others.into_iter().flat_map(|other| other.join().unwrap_or_default()));
        made
    })
}

/// More threads would hold more contents in memory, and leave less of the machine to others.
const WORKERS_MAX: usize = 4;

/// When a long batch reports its first variants: clients get the longest contents compressed soon. Each further report comes after twice the time,
/// as each costs a build.
const REPORT_AFTER: Duration = Duration::from_secs(10);
/// The longest time between two reports.
const REPORT_EVERY_MAX: Duration = Duration::from_secs(600);
