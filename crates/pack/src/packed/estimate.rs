//! Estimates the remaining time of compressing.
//!
//! ```text
//! waiting bytes of each kind of work × time per byte ─┐
//! remaining time of the running jobs ─────────────────┴─ / workers ─▶ raw ─ smoothed ─▶ shown
//! ```
//!
//! The time per byte of a kind begins as an approximate cost, scaled to the machine by the first jobs, and approaches the measured value. A
//! count of files or bytes would mislead, since the longest files come first, and one coding costs fifty times another.
//!
//! This module has no clock: each call passes the time.

use super::encode::Encoder;
use std::time::Duration;

/// A kind of work. The time per byte differs between kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkKind {
    /// Compresses a content with this encoder.
    Compress(Encoder),
    /// Compresses a content with this encoder and a dictionary.
    Delta(Encoder),
    /// Checks a variant of the previous archive.
    Check,
}

/// The remaining work, and the time per byte of each kind.
#[derive(Debug)]
pub(crate) struct Estimate {
    workers: usize,
    /// One for each kind of work.
    rates: Vec<WorkRate>,
    /// The current job of each worker.
    running: Vec<Option<RunningJob>>,
    /// The time of the last call of [`Estimate::shown`], and the end that it returned, in seconds.
    shown: Option<(Duration, f64)>,
}

/// The progress and speed of one kind of work.
#[derive(Debug)]
struct WorkRate {
    kind: WorkKind,
    /// Bytes of jobs that have not begun.
    waiting: f64,
    /// Bytes of finished jobs.
    done: f64,
    /// Seconds that the finished jobs took.
    took: f64,
}

/// The current job of a worker.
#[derive(Clone, Copy, Debug)]
struct RunningJob {
    kind: WorkKind,
    len: f64,
    began: Duration,
}

impl WorkKind {
    /// Returns the approximate CPU time per byte, in seconds.
    pub(crate) fn cost(self) -> f64 {
        let ns = match self {
            WorkKind::Compress(encoder) => encoder.cost_ns(),
            // The encoder reads the dictionary too.
            WorkKind::Delta(encoder) => 2 * encoder.cost_ns(),
            WorkKind::Check => 6,
        };
        ns as f64 / 1e9
    }
}

impl Estimate {
    pub(crate) fn new(workers: usize) -> Estimate {
        Estimate { workers, rates: Vec::new(), running: vec![None; workers], shown: None }
    }

    /// Adds an expected job.
    pub(crate) fn expect(&mut self, kind: WorkKind, len: u64) {
        self.rate(kind).waiting += weight(len);
    }

    /// Removes the expected jobs of a kind.
    pub(crate) fn forget(&mut self, kind: WorkKind) {
        self.rate(kind).waiting = 0.0;
    }

    /// Records that a worker begins an expected job.
    pub(crate) fn begin(&mut self, worker: usize, kind: WorkKind, len: u64, at: Duration) {
        let len = weight(len);
        let rate = self.rate(kind);
        rate.waiting = (rate.waiting - len).max(0.0);
        self.running[worker] = Some(RunningJob { kind, len, began: at });
    }

    /// Records that a worker has finished its job.
    pub(crate) fn end(&mut self, worker: usize, at: Duration) {
        let Some(RunningJob { kind, len, began }) = self.running[worker].take() else { return };
        let rate = self.rate(kind);
        rate.done += len;
        rate.took += at.saturating_sub(began).as_secs_f64();
    }

    /// Returns the finished and the total work, in microseconds of approximate cost.
    pub(crate) fn share(&self, at: Duration) -> (u64, u64) {
        let cost = |len: fn(&WorkRate) -> f64| {
            self.rates.iter().map(|rate| len(rate) * rate.kind.cost()).sum::<f64>()
        };
        let (waiting, done) = (cost(|rate| rate.waiting), cost(|rate| rate.done));
        let running = self.running.iter().flatten();
        let (run, all) = running.fold((0.0, 0.0), |(run, all), job| {
            let part = 1.0 - self.remaining(job, at) / (job.len * self.seconds_per_byte(job.kind));
            (run + part * job.len * job.kind.cost(), all + job.len * job.kind.cost())
        });
        let units = |seconds: f64| (seconds * 1e6) as u64;
        (units(done + run), units(done + all + waiting))
    }

    /// Returns the remaining seconds without smoothing. `None`: too little is known.
    fn raw(&self, at: Duration) -> Option<f64> {
        let (done, total) = self.share(at);
        if at < ESTIMATE_AFTER || (done as f64) < ESTIMATE_SHARE * total as f64 || self.took() == 0.0 {
            return None;
        }
        // Deltas come last, so no delta is done for a long time.
        let is_unknown = |rate: &WorkRate| {
            rate.waiting > 0.0 && rate.done == 0.0 && !matches!(rate.kind, WorkKind::Delta(_))
        };
        if at < ESTIMATE_BY_COST_AFTER && self.rates.iter().any(is_unknown) {
            return None;
        }
        let waiting: f64 =
            self.rates.iter().map(|rate| rate.waiting * self.seconds_per_byte(rate.kind)).sum();
        let remaining = || self.running.iter().flatten().map(|job| self.remaining(job, at));
        let even = (waiting + remaining().sum::<f64>()) / self.workers as f64;
        Some(remaining().fold(even, f64::max))
    }

    /// Returns the remaining time, smoothed: the estimated end moves in small steps.
    pub(crate) fn shown(&mut self, at: Duration) -> Option<Duration> {
        let raw = self.raw(at)?;
        let now = at.as_secs_f64();
        let end = match self.shown {
            None => now + raw,
            Some((then, end)) => {
                let passed = at.saturating_sub(then).as_secs_f64();
                end + (now + raw - end) * (1.0 - (-passed / SMOOTH_S).exp())
            }
        };
        self.shown = Some((at, end));
        Some(Duration::from_secs_f64((end - now).max(0.0)))
    }

    /// Returns the remaining seconds of a running job. A job that takes longer than expected stays nearly done.
    fn remaining(&self, job: &RunningJob, at: Duration) -> f64 {
        let total = job.len * self.seconds_per_byte(job.kind);
        (total - at.saturating_sub(job.began).as_secs_f64()).max(total / 50.0)
    }

    /// Returns the seconds per byte of a kind: a weighted mean of the measured value and the approximate cost, scaled to the speed of this
    /// machine.
    fn seconds_per_byte(&self, kind: WorkKind) -> f64 {
        let cost: f64 = self.rates.iter().map(|rate| rate.done * rate.kind.cost()).sum();
        let speed = if cost > 0.0 { self.took() / cost } else { 1.0 };
        let (done, took) = self
            .rates
            .iter()
            .find(|rate| rate.kind == kind)
            .map_or((0.0, 0.0), |rate| (rate.done, rate.took));
        (took + COST_LEN * kind.cost() * speed) / (done + COST_LEN)
    }

    fn took(&self) -> f64 {
        self.rates.iter().map(|rate| rate.took).sum()
    }

    fn rate(&mut self, kind: WorkKind) -> &mut WorkRate {
        let at = self.rates.iter().position(|rate| rate.kind == kind).unwrap_or_else(|| {
            self.rates.push(WorkRate { kind, waiting: 0.0, done: 0.0, took: 0.0 });
            self.rates.len() - 1
        });
        &mut self.rates[at]
    }
}

/// Returns the weight of a job in bytes: its length, with a surcharge for long contents, and the cost of its start.
fn weight(len: u64) -> f64 {
    let doublings = (len as f64 / CACHED_LEN).log2().max(0.0);
    len as f64 * (1.0 + doublings * SLOWER) + JOB_LEN
}

/// The cost of starting a job, in bytes: the encoder clears its tables, and the kernel opens a file.
const JOB_LEN: f64 = (2 << 10) as f64;
/// Above this length, the tables of an encoder exceed the caches of a core, and each byte takes longer.
const CACHED_LEN: f64 = (256 << 10) as f64;
/// The additional time per byte for each doubling of the length.
const SLOWER: f64 = 0.125;
/// The weight of the approximate cost, in measured bytes.
const COST_LEN: f64 = (256 << 10) as f64;
/// The first estimate comes after this time. A packing that takes less needs none.
const ESTIMATE_AFTER: Duration = Duration::from_secs(1);
/// Until this time, an estimate needs a finished job of each kind. After it, the approximate cost is enough.
const ESTIMATE_BY_COST_AFTER: Duration = Duration::from_secs(10);
/// The first estimate comes after this share of the work.
const ESTIMATE_SHARE: f64 = 0.02;
/// Time constant of the smoothing, in seconds.
const SMOOTH_S: f64 = 4.0;

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [WorkKind; 3] = [
        WorkKind::Compress(Encoder::Brotli(10)),
        WorkKind::Compress(Encoder::Libdeflate(10)),
        WorkKind::Compress(Encoder::Zstd(15)),
    ];

    type Row<'r> = (&'r str, [f64; 3], u64, &'r [u64], usize);

    #[test]
    fn remaining_time_hardly_rises_on_any_machine_and_content() {
        #[rustfmt::skip]
        let cases: &[Row<'_>] = &[
            // what it shows          time per byte / cost, ms to start a job,  a few large files,          reused
            ("as expected",           [1.0, 1.0, 1.0],      0,                  &[],                        0),
            ("a slow machine",        [3.0, 3.0, 3.0],      0,                  &[],                        0),
            ("a fast machine",        [0.4, 0.4, 0.4],      0,                  &[],                        0),
            ("text that repeats",     [0.5, 0.8, 1.6],      0,                  &[],                        0),
            ("text that does not",    [1.5, 2.0, 0.6],      0,                  &[],                        0),
            ("small files cost more", [1.0, 1.0, 1.0],      2,                  &[],                        0),
            ("a large file first",    [0.7, 1.0, 1.5],      0,                  &[4 << 20, 4 << 20, 2 << 20], 0),
            ("much is reused",        [3.0, 3.0, 3.0],      0,                  &[],                        200),
        ];
        for (name, factors, start, large, reused) in cases {
            let shown = simulate(factors, Duration::from_millis(*start), large, *reused);
            let total = shown.last().expect("samples").0;
            assert!(total > 8.0, "{name}: {total}");
            let estimates: Vec<_> = shown.iter().filter_map(|&(at, left, _)| Some((at, left?))).collect();
            assert!(estimates[0].0 < 0.1 * total + 2.0, "{name}: first at {}", estimates[0].0);
            let rise = rise(estimates.iter().map(|&(_, left)| left));
            assert!(rise < 0.02 * total + 0.5, "{name}: rises by {rise} s of {total} s");
            for &(at, left) in &estimates {
                let error = (total - at - left).abs();
                // The first jobs may differ from the others.
                let share = if at < 0.25 * total { 0.25 } else { 0.12 };
                assert!(error < share * total + 1.0, "{name}: {left} s left at {at} s of {total} s");
            }
            let share = shown.windows(2).map(|pair| pair[1].2 - pair[0].2).fold(0.0, f64::min);
            assert!(share > -0.01, "{name}: the share shrinks by {share}");
        }
    }

    #[test]
    fn forgotten_work_shortens_the_remaining_time() {
        let kind = WorkKind::Delta(Encoder::Zstd(15));
        let mut estimate = Estimate::new(1);
        (0..20).for_each(|_| estimate.expect(KINDS[0], 1 << 20));
        estimate.expect(kind, 50 << 20);
        for job in 0..10u64 {
            estimate.begin(0, KINDS[0], 1 << 20, Duration::from_secs(job));
            estimate.end(0, Duration::from_secs(job + 1));
        }
        let before = estimate.raw(Duration::from_secs(10)).expect("an estimate");
        estimate.forget(kind);
        let after = estimate.raw(Duration::from_secs(10)).expect("an estimate");
        assert!((after - 10.0).abs() < 1.0 && before > after + 20.0, "{before}, {after}");
    }

    #[test]
    fn no_estimate_before_enough_work_is_done() {
        let mut estimate = Estimate::new(1);
        assert_eq!(estimate.shown(Duration::from_secs(5)), None);
        (0..100).for_each(|_| estimate.expect(KINDS[0], 1 << 20));
        estimate.begin(0, KINDS[0], 1 << 20, Duration::ZERO);
        assert_eq!(estimate.shown(Duration::from_secs(500)), None);
        estimate.end(0, Duration::from_millis(500));
        assert_eq!(estimate.shown(Duration::from_millis(501)), None);
    }

    /// Simulates compressing a site on two workers, the longest content first, with ten estimates per second. The time per byte of a kind
    /// is its approximate cost times its factor, up to a third more or less for each job, and each job takes `start` to begin. After the
    /// first four contents, `reused` contents come from the previous archive. Returns the time, the remaining time and the finished share
    /// of each estimate.
    fn simulate(
        factors: &[f64; 3],
        start: Duration,
        large: &[u64],
        reused: usize,
    ) -> Vec<(f64, Option<f64>, f64)> {
        let small = (0..800u64).map(|at| (400_000.0 * 0.993f64.powi(at as i32)) as u64 + 500 + at % 7 * 300);
        let lens: Vec<u64> = large.iter().copied().chain(small).collect();
        let is_reused = |content: usize| (4..4 + reused).contains(&content);
        let jobs_of = |(content, &len): (usize, &u64)| {
            [0, 1, 2].map(|kind| match is_reused(content) {
                true => (WorkKind::Check, factors[0], len),
                false => (KINDS[kind], factors[kind], len),
            })
        };
        let jobs: Vec<_> = lens.iter().enumerate().flat_map(jobs_of).collect();
        let mut estimate = Estimate::new(2);
        jobs.iter().for_each(|&(kind, _, len)| estimate.expect(kind, len));
        let mut free = [(0.0, false); 2];
        let (mut shown, mut look, mut jobs) = (Vec::new(), 0.0, jobs.into_iter().enumerate());
        loop {
            let worker = usize::from(free[1].0 < free[0].0);
            let (at, is_running) = free[worker];
            while look < at {
                let time = Duration::from_secs_f64(look);
                let (done, total) = estimate.share(time);
                let left = estimate.shown(time).map(|left| left.as_secs_f64());
                shown.push((look, left, done as f64 / total as f64));
                look += 0.1;
            }
            if is_running {
                estimate.end(worker, Duration::from_secs_f64(at));
            }
            let Some((number, (kind, factor, len))) = jobs.next() else {
                free[worker] = (f64::INFINITY, false);
                match free {
                    [(one, _), (other, _)] if one.min(other) == f64::INFINITY => return shown,
                    _ => continue,
                }
            };
            estimate.begin(worker, kind, len, Duration::from_secs_f64(at));
            let noise = 0.67 + 0.66 * (number as f64 * 0.618_034).fract();
            // Measured on files of 16 KiB to 4 MiB.
            let slower = (len as f64 / CACHED_LEN).max(1.0).powf(0.15);
            let took = kind.cost() * len as f64 * slower * factor * noise;
            free[worker] = (at + took + start.as_secs_f64(), true);
        }
    }

    /// Returns by how much a time rises above the smallest earlier one.
    fn rise(times: impl Iterator<Item = f64>) -> f64 {
        let (mut least, mut rise) = (f64::INFINITY, 0.0f64);
        for time in times {
            rise = rise.max(time - least);
            least = least.min(time);
        }
        rise
    }
}
