//! Shows the progress of packing and verifying: a bar on a terminal; elsewhere a line at intervals, and when a step of packing begins.
//!
//! Verifying is often over at once: then neither appears.

use crate::program::output::messages::Bytes;
use crate::{PackStep, Progress, ProgressSnapshot};
use indicatif::{ProgressBar, ProgressStyle};
use std::{
    fmt,
    io::{IsTerminal, stderr},
    sync::mpsc::{RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

/// Runs `work` and shows its progress meanwhile.
pub(crate) fn show_during<T>(work: impl FnOnce(&Progress) -> T) -> T {
    let progress = Progress::default();
    thread::scope(|scope| {
        let (done, finished) = channel::<()>();
        let shared = &progress;
        scope.spawn(move || {
            let (started, mut view) = (Instant::now(), ProgressView::new(stderr().is_terminal()));
            while let Err(RecvTimeoutError::Timeout) = finished.recv_timeout(REFRESH_INTERVAL) {
                view.show(shared.now(), started.elapsed());
            }
            view.end();
        });
        let result = work(&progress);
        drop(done);
        result
    })
}

enum ProgressView {
    Bar { bar: ProgressBar, last: Option<PackStep> },
    Lines(Lines),
}

impl ProgressView {
    fn new(is_terminal: bool) -> ProgressView {
        match is_terminal {
            true => ProgressView::Bar { bar: ProgressBar::new(0), last: None },
            false => ProgressView::Lines(Lines::default()),
        }
    }

    fn show(&mut self, now: ProgressSnapshot, at: Duration) {
        match self {
            ProgressView::Bar { .. } if is_verifying(now.step) && at < BAR_DELAY => {}
            ProgressView::Bar { bar, last } => {
                if last.replace(now.step) != Some(now.step) {
                    bar.set_style(style(now.step));
                    bar.reset();
                }
                bar.set_message(now.remaining.map_or(String::new(), |left| format!(", {}", TimeLeft(left))));
                bar.set_length(now.total);
                bar.set_position(now.done);
            }
            ProgressView::Lines(lines) => {
                if let Some(line) = lines.line(now, at) {
                    eprintln!("{line}");
                }
            }
        }
    }

    fn end(self) {
        if let ProgressView::Bar { bar, .. } = self {
            bar.finish_and_clear();
        }
    }
}

/// The lines for outputs other than terminals.
#[derive(Default)]
struct Lines {
    step: Option<PackStep>,
    /// When the last line was written.
    last: Duration,
}

impl Lines {
    /// Returns the next line if it is due.
    fn line(&mut self, now: ProgressSnapshot, at: Duration) -> Option<String> {
        let is_new = self.step.replace(now.step) != Some(now.step) && !is_verifying(now.step);
        let is_due = at.saturating_sub(self.last) >= LINE_INTERVAL;
        let (len, percent) = (Bytes(now.len), 100 * now.done / now.total.max(1));
        let line = match (now.step, is_new) {
            (PackStep::Reading, true) => "reading".to_owned(),
            (PackStep::Compressing, true) => format!("compressing {len}"),
            (PackStep::Writing, true) => format!("writing {len}"),
            _ if !is_due => return None,
            (PackStep::Reading, _) if now.total == 0 => "reading: listing the files".to_owned(),
            (PackStep::Reading, _) => format!("reading: {} of {} files", now.done, now.total),
            (PackStep::Compressing, _) => {
                let left = now.remaining.map_or(String::new(), |left| format!(", {}", TimeLeft(left)));
                format!("compressing: {percent}%{left}")
            }
            (PackStep::Writing, _) => format!("writing: {percent}%"),
            (PackStep::Checksums, _) => format!("verifying checksums: {percent}%"),
            (PackStep::Contents, _) => format!("verifying contents: {} of {}", now.done, now.total),
            (PackStep::Members, _) => format!("verifying members: {percent}%"),
        };
        self.last = at;
        Some(line)
    }
}

/// Whether the step is one of verifying, not of packing.
fn is_verifying(step: PackStep) -> bool {
    matches!(step, PackStep::Checksums | PackStep::Contents | PackStep::Members)
}

/// A remaining time, as coarse as the estimate is.
struct TimeLeft(Duration);

impl fmt::Display for TimeLeft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let up_to = |unit: u64| (self.0.as_secs_f64() / unit as f64).ceil().max(1.0) as u64 * unit;
        match self.0.as_secs() {
            0..20 => write!(f, "{} s left", up_to(1)),
            20..100 => write!(f, "{} s left", up_to(5)),
            100..3600 => write!(f, "{} min left", up_to(60) / 60),
            _ => write!(f, "{} h {} min left", up_to(600) / 3600, up_to(600) / 60 % 60),
        }
    }
}

fn style(step: PackStep) -> ProgressStyle {
    let template = match step {
        PackStep::Reading => "reading     [{wide_bar}] {pos} of {len} files",
        PackStep::Compressing => "compressing [{wide_bar}] {percent}%{msg}",
        PackStep::Writing => "writing     [{wide_bar}] {bytes} of {total_bytes}",
        PackStep::Checksums => "checksums   [{wide_bar}] {bytes} of {total_bytes}",
        PackStep::Contents => "contents    [{wide_bar}] {pos} of {len}",
        PackStep::Members => "members     [{wide_bar}] {bytes} of {total_bytes}",
    };
    // All terminals agree on the width of these characters.
    ProgressStyle::with_template(template).expect("the template is valid").progress_chars("=> ")
}

/// The bar moves smoothly enough.
const REFRESH_INTERVAL: Duration = Duration::from_millis(100);
/// When a bar appears while a site is verified.
const BAR_DELAY: Duration = Duration::from_secs(1);
/// A log shows progress, but stays short.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_has_a_line_and_more_at_intervals() {
        let now = |step, done, left: Option<u64>| {
            let left = left.map(Duration::from_secs);
            ProgressSnapshot { step, done, total: 200, len: 64 << 20, remaining: left }
        };
        #[rustfmt::skip]
        let cases = [
            // s    progress                                  line
            (0.0,   now(PackStep::Reading, 0, None),              Some("reading")),
            (0.1,   now(PackStep::Reading, 100, None),            None),
            (0.2,   now(PackStep::Compressing, 0, None),               Some("compressing 64.0 MiB")),
            (10.1,  now(PackStep::Compressing, 20, Some(80)),          None),
            (10.3,  now(PackStep::Compressing, 21, Some(78)),          Some("compressing: 10%, 80 s left")),
            (20.2,  now(PackStep::Compressing, 50, Some(60)),          None),
            (20.4,  now(PackStep::Compressing, 51, None),              Some("compressing: 25%")),
            (30.5,  now(PackStep::Compressing, 199, Some(0)),          Some("compressing: 99%, 1 s left")),
            (31.0,  now(PackStep::Writing, 0, None),              Some("writing 64.0 MiB")),
            (40.9,  now(PackStep::Writing, 100, None),            None),
            (41.1,  now(PackStep::Writing, 110, None),            Some("writing: 55%")),
        ];
        let mut lines = Lines::default();
        for (at, now, want) in cases {
            assert_eq!(lines.line(now, Duration::from_secs_f64(at)).as_deref(), want, "at {at} s");
        }
        let listing = ProgressSnapshot { total: 0, ..now(PackStep::Reading, 0, None) };
        #[rustfmt::skip]
        let cases = [
            (0.0,   listing,                                      Some("reading")),
            (10.0,  listing,                                      Some("reading: listing the files")),
            (15.0,  now(PackStep::Reading, 9, None),              None),
            (20.0,  now(PackStep::Reading, 50, None),             Some("reading: 50 of 200 files")),
        ];
        let mut lines = Lines::default();
        for (at, now, want) in cases {
            assert_eq!(lines.line(now, Duration::from_secs_f64(at)).as_deref(), want, "at {at} s");
        }
    }

    #[test]
    fn verifying_has_lines_after_ten_seconds_only() {
        let now = |step, done| ProgressSnapshot { step, done, total: 200, len: 200, remaining: None };
        #[rustfmt::skip]
        let cases = [
            // s    progress                       line
            (0.1,   now(PackStep::Checksums, 0),   None),
            (9.9,   now(PackStep::Checksums, 30),  None),
            (10.0,  now(PackStep::Checksums, 50),  Some("verifying checksums: 25%")),
            (11.0,  now(PackStep::Contents, 0),    None),
            (20.0,  now(PackStep::Contents, 7),    Some("verifying contents: 7 of 200")),
            (29.0,  now(PackStep::Members, 100),   None),
            (30.0,  now(PackStep::Members, 150),   Some("verifying members: 75%")),
        ];
        let mut lines = Lines::default();
        for (at, now, want) in cases {
            assert_eq!(lines.line(now, Duration::from_secs_f64(at)).as_deref(), want, "at {at} s");
        }
    }

    #[test]
    fn remaining_times_are_rounded_up() {
        #[rustfmt::skip]
        let cases = [
            (0.0, "1 s left"), (7.2, "8 s left"), (20.1, "25 s left"), (61.0, "65 s left"), (99.0, "100 s left"),
            (100.5, "2 min left"), (121.0, "3 min left"), (3_599.0, "60 min left"), (4_000.0, "1 h 10 min left"),
        ];
        for (seconds, want) in cases {
            assert_eq!(TimeLeft(Duration::from_secs_f64(seconds)).to_string(), want);
        }
    }
}
