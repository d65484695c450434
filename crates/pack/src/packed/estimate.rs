//! Estimates how long compressing will still take.
//!
//! ```text
//! bytes left of each kind × its pace ─┐
//! rest of the jobs that run ──────────┴─ / workers ─▶ raw ─ smoothed ─▶ shown
//! ```
//!
//! The pace of a kind begins as a rule of thumb, which the first jobs scale to the machine, and becomes what was measured.
//! A count of files or bytes would mislead: the longest files come first, and one coding costs fifty times another.
//!
//! Knows no clock: each call says when it is.

use super::encode::Encoder;
use std::time::Duration;

/// A kind of work, with a pace of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkKind {
    /// A content is compressed by this encoder.
    Compress(Encoder),
    /// The same with a dictionary.
    Difference(Encoder),
    /// A form that was made before is checked.
    Check,
}

/// The work that is left, and how fast each kind of it goes.
#[derive(Debug)]
pub(crate) struct Estimate {
    workers: usize,
    /// A handful at most.
    paces: Vec<WorkRate>,
    /// By worker: the job it is at.
    running: Vec<Option<RunningJob>>,
    /// The time of the last look, and the end that it showed, in seconds.
    shown: Option<(Duration, f64)>,
}

/// How fast one kind of work goes.
#[derive(Debug)]
struct WorkRate {
    kind: WorkKind,
    /// Bytes of jobs that have not begun.
    waiting: f64,
    /// Bytes of jobs that have ended.
    done: f64,
    /// Seconds that these took.
    took: f64,
}

#[derive(Clone, Copy, Debug)]
struct RunningJob {
    kind: WorkKind,
    len: f64,
    began: Duration,
}

impl WorkKind {
    /// Rule of thumb: seconds of a core for each byte.
    pub(crate) fn cost(self) -> f64 {
        let ns = match self {
            WorkKind::Compress(encoder) => encoder.cost_ns(),
            // The dictionary is read too.
            WorkKind::Difference(encoder) => 2 * encoder.cost_ns(),
            WorkKind::Check => 6,
        };
        ns as f64 / 1e9
    }
}

impl Estimate {
    pub(crate) fn new(workers: usize) -> Estimate {
        Estimate { workers, paces: Vec::new(), running: vec![None; workers], shown: None }
    }

    /// A job is to be done.
    pub(crate) fn expect(&mut self, kind: WorkKind, len: u64) {
        self.pace(kind).waiting += weight(len);
    }

    /// No job of this kind is to be done any more.
    pub(crate) fn forget(&mut self, kind: WorkKind) {
        self.pace(kind).waiting = 0.0;
    }

    /// A worker begins a job that was expected.
    pub(crate) fn begin(&mut self, worker: usize, kind: WorkKind, len: u64, at: Duration) {
        let len = weight(len);
        let pace = self.pace(kind);
        pace.waiting = (pace.waiting - len).max(0.0);
        self.running[worker] = Some(RunningJob { kind, len, began: at });
    }

    /// It has ended its job.
    pub(crate) fn end(&mut self, worker: usize, at: Duration) {
        let Some(RunningJob { kind, len, began }) = self.running[worker].take() else { return };
        let pace = self.pace(kind);
        pace.done += len;
        pace.took += at.saturating_sub(began).as_secs_f64();
    }

    /// Returns how much work is done, and how much there is.
    pub(crate) fn share(&self, at: Duration) -> (u64, u64) {
        let cost =
            |of: fn(&WorkRate) -> f64| self.paces.iter().map(|pace| of(pace) * pace.kind.cost()).sum::<f64>();
        let (waiting, done) = (cost(|pace| pace.waiting), cost(|pace| pace.done));
        let running = self.running.iter().flatten();
        let (run, all) = running.fold((0.0, 0.0), |(run, all), job| {
            let part = 1.0 - self.rest(job, at) / (job.len * self.seconds(job.kind));
            (run + part * job.len * job.kind.cost(), all + job.len * job.kind.cost())
        });
        let units = |seconds: f64| (seconds * 1e6) as u64;
        (units(done + run), units(done + all + waiting))
    }

    /// Returns the seconds left by what is known now. None: too little is known.
    fn raw(&self, at: Duration) -> Option<f64> {
        let (done, total) = self.share(at);
        if at < JUDGE_AFTER || (done as f64) < JUDGE_SHARE * total as f64 || self.took() == 0.0 {
            return None;
        }
        // Differences come last.
        let is_unknown = |pace: &WorkRate| {
            pace.waiting > 0.0 && pace.done == 0.0 && !matches!(pace.kind, WorkKind::Difference(_))
        };
        if at < JUDGE_BY_RULE_AFTER && self.paces.iter().any(is_unknown) {
            return None;
        }
        let waiting: f64 = self.paces.iter().map(|pace| pace.waiting * self.seconds(pace.kind)).sum();
        let rests = || self.running.iter().flatten().map(|job| self.rest(job, at));
        let even = (waiting + rests().sum::<f64>()) / self.workers as f64;
        Some(rests().fold(even, f64::max))
    }

    /// Returns the time left, smoothed: new knowledge moves the end step by step.
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

    /// Returns the seconds left of a running job. A job that takes longer than expected stays nearly done.
    fn rest(&self, job: &RunningJob, at: Duration) -> f64 {
        let whole = job.len * self.seconds(job.kind);
        (whole - at.saturating_sub(job.began).as_secs_f64()).max(whole / 50.0)
    }

    /// Returns the seconds for each byte of a kind: a mean of the measured pace and of the rule of thumb, which this
    /// machine's speed scales.
    fn seconds(&self, kind: WorkKind) -> f64 {
        let cost: f64 = self.paces.iter().map(|pace| pace.done * pace.kind.cost()).sum();
        let speed = if cost > 0.0 { self.took() / cost } else { 1.0 };
        let (done, took) = self
            .paces
            .iter()
            .find(|pace| pace.kind == kind)
            .map_or((0.0, 0.0), |pace| (pace.done, pace.took));
        (took + RULE_LEN * kind.cost() * speed) / (done + RULE_LEN)
    }

    fn took(&self) -> f64 {
        self.paces.iter().map(|pace| pace.took).sum()
    }

    fn pace(&mut self, kind: WorkKind) -> &mut WorkRate {
        let at = self.paces.iter().position(|pace| pace.kind == kind).unwrap_or_else(|| {
            self.paces.push(WorkRate { kind, waiting: 0.0, done: 0.0, took: 0.0 });
            self.paces.len() - 1
        });
        &mut self.paces[at]
    }
}

/// Returns the bytes that a job counts for: its own, more of them if it is long, and those that its start is worth.
fn weight(len: u64) -> f64 {
    let doublings = (len as f64 / CACHED_LEN).log2().max(0.0);
    len as f64 * (1.0 + doublings * SLOWER) + JOB_LEN
}

/// The start of a job, in bytes: the encoder clears its tables, the kernel opens a file.
const JOB_LEN: f64 = (2 << 10) as f64;
/// Above this length the tables of an encoder outgrow the caches of a core, and each byte takes longer.
const CACHED_LEN: f64 = (256 << 10) as f64;
/// How much longer, for each doubling of the length.
const SLOWER: f64 = 0.125;
/// The weight of the rule of thumb, in measured bytes.
const RULE_LEN: f64 = (256 << 10) as f64;
/// The first estimate comes after this time: a packing of a few seconds needs none.
const JUDGE_AFTER: Duration = Duration::from_secs(1);
/// Until this time an estimate needs one finished job of each kind; afterwards the rule of thumb stands in for a kind.
const JUDGE_BY_RULE_AFTER: Duration = Duration::from_secs(10);
/// The first estimate comes after this share of the work.
const JUDGE_SHARE: f64 = 0.02;
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
    fn the_time_left_does_not_rise_whatever_the_machine_and_the_content() {
        #[rustfmt::skip]
        let cases: &[Row<'_>] = &[
            // what it shows          pace precompressed the rule, ms to start a job,  a few large files,          reused
            ("as the rule says",      [1.0, 1.0, 1.0],      0,                  &[],                        0),
            ("a slow machine",        [3.0, 3.0, 3.0],      0,                  &[],                        0),
            ("a fast one",            [0.4, 0.4, 0.4],      0,                  &[],                        0),
            ("text that repeats",     [0.5, 0.8, 1.6],      0,                  &[],                        0),
            ("text that does not",    [1.5, 2.0, 0.6],      0,                  &[],                        0),
            ("small files cost more", [1.0, 1.0, 1.0],      2,                  &[],                        0),
            ("a large file first",    [0.7, 1.0, 1.5],      0,                  &[4 << 20, 4 << 20, 2 << 20], 0),
            ("much is reused",        [3.0, 3.0, 3.0],      0,                  &[],                        200),
        ];
        for (name, factors, start, large, reused) in cases {
            let shown = simulate(factors, Duration::from_millis(*start), large, *reused);
            let whole = shown.last().expect("samples").0;
            assert!(whole > 8.0, "{name}: {whole}");
            let said: Vec<_> = shown.iter().filter_map(|&(at, left, _)| Some((at, left?))).collect();
            assert!(said[0].0 < 0.1 * whole + 2.0, "{name}: first at {}", said[0].0);
            let rise = rise(said.iter().map(|&(_, left)| left));
            assert!(rise < 0.02 * whole + 0.5, "{name}: rises by {rise} s of {whole} s");
            for &(at, left) in &said {
                let error = (whole - at - left).abs();
                // The first jobs need not be like the others.
                let share = if at < 0.25 * whole { 0.25 } else { 0.12 };
                assert!(error < share * whole + 1.0, "{name}: {left} s left at {at} s of {whole} s");
            }
            let share = shown.windows(2).map(|pair| pair[1].2 - pair[0].2).fold(0.0, f64::min);
            assert!(share > -0.01, "{name}: the share shrinks by {share}");
        }
    }

    #[test]
    fn work_that_turns_out_not_to_be_there_only_shortens_it() {
        let kind = WorkKind::Difference(Encoder::Zstd(15));
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
    fn nothing_is_said_before_there_is_something_to_judge_by() {
        let mut estimate = Estimate::new(1);
        assert_eq!(estimate.shown(Duration::from_secs(5)), None);
        (0..100).for_each(|_| estimate.expect(KINDS[0], 1 << 20));
        estimate.begin(0, KINDS[0], 1 << 20, Duration::ZERO);
        assert_eq!(estimate.shown(Duration::from_secs(500)), None);
        estimate.end(0, Duration::from_millis(500));
        assert_eq!(estimate.shown(Duration::from_millis(501)), None);
    }

    /// Compresses a site on two workers, the longest content first, looked at ten times a second. Each kind takes the rule
    /// of thumb times its factor, each job up to a third more or less, and a time to start; of the contents behind the first
    /// four, so many are reused. Returns when it was looked at, what was then said to be left, and the share that was done.
    fn simulate(
        factors: &[f64; 3],
        start: Duration,
        large: &[u64],
        reused: usize,
    ) -> Vec<(f64, Option<f64>, f64)> {
        let small = (0..800u64).map(|at| (400_000.0 * 0.993f64.powi(at as i32)) as u64 + 500 + at % 7 * 300);
        let lens: Vec<u64> = large.iter().copied().chain(small).collect();
        let is_reused = |content: usize| (4..4 + reused).contains(&content);
        let of = |(content, &len): (usize, &u64)| {
            [0, 1, 2].map(|kind| match is_reused(content) {
                true => (WorkKind::Check, factors[0], len),
                false => (KINDS[kind], factors[kind], len),
            })
        };
        let jobs: Vec<_> = lens.iter().enumerate().flat_map(of).collect();
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
            // As it was measured on files of 16 KiB to 4 MiB.
            let slower = (len as f64 / CACHED_LEN).max(1.0).powf(0.15);
            let took = kind.cost() * len as f64 * slower * factor * noise;
            free[worker] = (at + took + start.as_secs_f64(), true);
        }
    }

    /// By how much a time rises above the least that was said before.
    fn rise(times: impl Iterator<Item = f64>) -> f64 {
        let (mut least, mut rise) = (f64::INFINITY, 0.0f64);
        for time in times {
            rise = rise.max(time - least);
            least = least.min(time);
        }
        rise
    }
}
