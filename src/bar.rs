//! Shows how far a packing is: a bar on a terminal, a line for each step elsewhere.

use crate::say::Bytes;
use indicatif::{ProgressBar, ProgressStyle};
use std::{
    io::{IsTerminal, stderr},
    sync::mpsc::{RecvTimeoutError, channel},
    thread,
    time::Duration,
};
use tarpon::{Progress, Step};

/// Runs `work`, and shows how far it is.
pub(crate) fn during<T>(work: impl FnOnce(&Progress) -> T) -> T {
    let progress = Progress::default();
    thread::scope(|scope| {
        let (done, waits) = channel::<()>();
        let looked_at = &progress;
        scope.spawn(move || {
            let mut shown = Shown::new();
            while let Err(RecvTimeoutError::Timeout) = waits.recv_timeout(LOOK_EVERY) {
                shown.show(looked_at);
            }
            shown.end();
        });
        let worked = work(&progress);
        drop(done);
        worked
    })
}

/// How it is shown, and the step that was shown last.
struct Shown {
    bar: Option<ProgressBar>,
    last: Option<Step>,
}

impl Shown {
    fn new() -> Shown {
        Shown { bar: stderr().is_terminal().then(|| ProgressBar::new(0)), last: None }
    }

    fn show(&mut self, progress: &Progress) {
        let (step, done, total) = progress.now();
        let is_new = self.last.replace(step) != Some(step);
        match &self.bar {
            Some(bar) => {
                if is_new {
                    bar.set_style(style(step));
                    bar.reset();
                }
                bar.set_length(total);
                bar.set_position(done);
            }
            None if is_new => match step {
                Step::Reading => eprintln!("reading"),
                Step::Coding => eprintln!("compressing {}", Bytes(total)),
                Step::Writing => eprintln!("writing {}", Bytes(total)),
            },
            None => {}
        }
    }

    fn end(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

fn style(step: Step) -> ProgressStyle {
    let template = match step {
        Step::Reading => "reading     [{wide_bar}] {pos} of {len} files",
        Step::Coding => "compressing [{wide_bar}] {bytes} of {total_bytes}, {eta} left",
        Step::Writing => "writing     [{wide_bar}] {bytes} of {total_bytes}",
    };
    // Characters whose width no terminal doubts.
    ProgressStyle::with_template(template).expect("a template that was tried").progress_chars("=> ")
}

/// Often enough to look alive.
const LOOK_EVERY: Duration = Duration::from_millis(100);
