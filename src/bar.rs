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

/// What was shown last.
enum Shown {
    Bar(ProgressBar),
    Lines(Option<Step>),
}

impl Shown {
    fn new() -> Shown {
        match stderr().is_terminal() {
            true => Shown::Bar(ProgressBar::new(0)),
            false => Shown::Lines(None),
        }
    }

    fn show(&mut self, progress: &Progress) {
        let (step, done, total) = progress.now();
        match self {
            Shown::Bar(bar) => {
                let template = match step {
                    Step::Reading => "reading     {wide_bar} {pos} of {len} files",
                    Step::Coding => "compressing {wide_bar} {bytes} of {total_bytes}, {eta} left",
                    Step::Writing => "writing     {wide_bar} {bytes} of {total_bytes}",
                };
                bar.set_style(ProgressStyle::with_template(template).expect("a template that was tried"));
                bar.set_length(total);
                bar.set_position(done);
            }
            Shown::Lines(last) if *last == Some(step) => {}
            Shown::Lines(last) => {
                *last = Some(step);
                match step {
                    Step::Reading => eprintln!("reading"),
                    Step::Coding => eprintln!("compressing {}", Bytes(total)),
                    Step::Writing => eprintln!("writing {}", Bytes(total)),
                }
            }
        }
    }

    fn end(self) {
        if let Shown::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}

/// Often enough to look alive.
const LOOK_EVERY: Duration = Duration::from_millis(100);
