//! The progress of reading a site at the start: a bar on a terminal; elsewhere a line every ten seconds.
//!
//! Most sites are read before either appears.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::{
    io::{IsTerminal, stderr},
    sync::Mutex,
    time::{Duration, Instant},
};

/// The site that is read now.
static CURRENT: Mutex<Option<Loading>> = Mutex::new(None);

/// The progress of one site.
struct Loading {
    since: Instant,
    /// When a line is due.
    line_at: Duration,
    /// `None`: the bar has not appeared, or there is no terminal.
    bar: Option<ProgressBar>,
}

/// What to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    Nothing,
    Bar,
    Line,
}

/// Shows how many files were read. A total of 0: they are being listed. `as_lines`: never a bar. Returns whether the caller is to print a line.
pub(crate) fn update(done: u64, total: u64, as_lines: bool) -> bool {
    let Ok(mut current) = CURRENT.lock() else { return false };
    let new = || Loading { since: Instant::now(), line_at: LINE_INTERVAL, bar: None };
    let loading = current.get_or_insert_with(new);
    match step(loading.since.elapsed(), &mut loading.line_at, !as_lines && stderr().is_terminal()) {
        Shown::Nothing => false,
        Shown::Line => true,
        Shown::Bar => {
            let bar = loading.bar.get_or_insert_with(new_bar);
            bar.set_length(total.max(1));
            bar.set_position(done);
            false
        }
    }
}

/// Removes the bar: the site was read, or cannot be.
pub(crate) fn end() {
    let loading = CURRENT.lock().ok().and_then(|mut current| current.take());
    if let Some(bar) = loading.and_then(|loading| loading.bar) {
        bar.finish_and_clear();
    }
}

/// Returns what to show at this time after the start.
fn step(at: Duration, line_at: &mut Duration, is_terminal: bool) -> Shown {
    if is_terminal {
        return if at < BAR_DELAY { Shown::Nothing } else { Shown::Bar };
    }
    if at < *line_at {
        return Shown::Nothing;
    }
    *line_at = at + LINE_INTERVAL;
    Shown::Line
}

fn new_bar() -> ProgressBar {
    let style = ProgressStyle::with_template("reading the site [{wide_bar}] {pos} of {len} files");
    let style = style.expect("the template is valid").progress_chars("=> ");
    ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_style(style)
}

/// When a bar appears.
const BAR_DELAY: Duration = Duration::from_millis(500);
/// A log shows progress, but stays short.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_get_a_bar_soon_and_logs_a_line_now_and_then() {
        let mut line_at = LINE_INTERVAL;
        #[rustfmt::skip]
        let cases = [
            // ms     terminal  shown
            (   200,  true,     Shown::Nothing),
            (   600,  true,     Shown::Bar),
            (60_000,  true,     Shown::Bar),
            (   600,  false,    Shown::Nothing),
            (10_100,  false,    Shown::Line),
            (10_300,  false,    Shown::Nothing),
            (20_000,  false,    Shown::Nothing),
            (20_200,  false,    Shown::Line),
        ];
        for (ms, is_terminal, want) in cases {
            assert_eq!(step(Duration::from_millis(ms), &mut line_at, is_terminal), want, "{ms} ms");
        }
    }
}
