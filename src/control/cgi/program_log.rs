//! What programs write to standard error, and what the helper says of them, as events: a line each, bounded in length and number.

use crate::sys::io::output_has_room;
use std::{
    mem,
    time::{Duration, Instant},
};
use tarpon_site::Printable;

/// The maximum length of a line in bytes. The rest of a longer one is dropped.
const LINE_LEN_MAX: usize = 1024;

/// The maximum number of lines of all programs in an interval: a program in a loop fills no disk.
const LINE_COUNT_MAX: u32 = 100;

/// The interval.
const INTERVAL: Duration = Duration::from_secs(1);

/// The events of a helper.
#[derive(Debug)]
pub(super) struct ProgramLog {
    interval_end: Instant,
    /// The lines of this interval.
    line_count: u32,
    suppressed_count: u64,
}

/// The lines of one program.
#[derive(Debug, Default)]
pub(super) struct ProgramLines {
    line: Vec<u8>,
    is_cut: bool,
}

impl ProgramLog {
    pub(super) fn new(now: Instant) -> ProgramLog {
        ProgramLog { interval_end: now + INTERVAL, line_count: 0, suppressed_count: 0 }
    }

    /// Emits an event about the program with this path.
    pub(super) fn emit(&mut self, now: Instant, program: &[u8], text: &str) {
        if now >= self.interval_end {
            self.end_interval(now);
        }
        self.line_count += 1;
        // A reader of the output that stands still must not stop the helper.
        if self.line_count > LINE_COUNT_MAX || !output_has_room() {
            self.suppressed_count += 1;
            return;
        }
        let program = program.printable().to_string();
        tracing::warn!(program, "CGI program {program}: {text}");
    }

    fn end_interval(&mut self, now: Instant) {
        (self.interval_end, self.line_count) = (now + INTERVAL, 0);
        let count = mem::take(&mut self.suppressed_count);
        if count > 0 && output_has_room() {
            tracing::warn!(count, "{count} more messages of CGI programs are not shown");
        }
    }
}

impl ProgramLines {
    /// Adds bytes that a program has written, and emits the lines that they complete.
    pub(super) fn add(&mut self, log: &mut ProgramLog, now: Instant, program: &[u8], bytes: &[u8]) {
        for part in bytes.split_inclusive(|&byte| byte == b'\n') {
            let (text, is_complete) = match part.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (part, false),
            };
            let room = LINE_LEN_MAX - self.line.len();
            self.is_cut |= text.len() > room;
            self.line.extend_from_slice(&text[..text.len().min(room)]);
            if is_complete {
                self.finish(log, now, program);
            }
        }
    }

    /// Emits what is left without an end of line.
    pub(super) fn finish(&mut self, log: &mut ProgramLog, now: Instant, program: &[u8]) {
        let line = mem::take(&mut self.line);
        let mark = if mem::take(&mut self.is_cut) { "…" } else { "" };
        let line = line.strip_suffix(b"\r").unwrap_or(&line);
        if !line.is_empty() {
            log.emit(now, program, &format!("{}{mark}", line.printable()));
        }
    }
}
