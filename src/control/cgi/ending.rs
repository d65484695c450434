//! A program that has answered, or is to end: it runs until it exits or its time is over, and leaves no process of its group.

use super::{
    program_log::{ProgramLines, ProgramLog},
    stats::{CgiCount, CgiStats},
};
use crate::sys::spawn::{ProgramEnd, Spawned};
use rustix::io::{Errno, read};
use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::{Duration, Instant},
};

/// The time that a program has after its client has left: the program gets EOF and SIGPIPE at once, and SIGKILL after this.
pub(super) const GRACE_TIME: Duration = Duration::from_secs(2);

/// How long the helper waits for the exit of a program that it has killed, before it tries again.
const KILL_INTERVAL: Duration = Duration::from_secs(1);

/// Bytes of standard error that are read in one turn.
const ERROR_READ_LEN: usize = 4096;

/// A program that runs, with its standard error.
#[derive(Debug)]
pub(super) struct RunningProcess {
    spawned: Option<Spawned>,
    /// The path of its URI, for the log.
    pub(super) name: Vec<u8>,
    error: Option<OwnedFd>,
    lines: ProgramLines,
}

/// A program that is to end.
#[derive(Debug)]
pub(super) struct EndingProgram {
    pub(super) process: RunningProcess,
    /// When it is killed.
    pub(super) kill_at: Instant,
}

impl RunningProcess {
    pub(super) fn new(spawned: Spawned, name: Vec<u8>, error: OwnedFd) -> RunningProcess {
        RunningProcess { spawned: Some(spawned), name, error: Some(error), lines: ProgramLines::default() }
    }

    /// Returns what is readable when the program exits.
    pub(super) fn pidfd(&self) -> Option<BorrowedFd<'_>> {
        self.spawned.as_ref().map(|spawned| spawned.pidfd.as_fd())
    }

    /// Returns its standard error, until that is at its end.
    pub(super) fn error(&self) -> Option<BorrowedFd<'_>> {
        self.error.as_ref().map(AsFd::as_fd)
    }

    /// Returns how the program has ended. `None`: it runs.
    pub(super) fn end(&self) -> Option<ProgramEnd> {
        self.spawned.as_ref().and_then(Spawned::end)
    }

    /// Reads a part of its standard error.
    pub(super) fn read_error(&mut self, log: &mut ProgramLog, now: Instant) {
        let Some(error) = &self.error else { return };
        let mut bytes = [0; ERROR_READ_LEN];
        match read(error, &mut bytes) {
            Ok(len @ 1..) => self.lines.add(log, now, &self.name, &bytes[..len]),
            Err(Errno::AGAIN | Errno::INTR) => {}
            _ => self.error = None,
        }
    }

    /// Kills all processes of its group.
    pub(super) fn kill_group(&self) {
        if let Some(spawned) = &self.spawned {
            spawned.kill_group(libc::SIGKILL);
        }
    }

    /// Reaps the program, which has exited or was killed, and kills what is left of its group.
    pub(super) fn reap(&mut self, log: &mut ProgramLog, now: Instant) {
        self.kill_group();
        // What it wrote last. The pipe may have another writer, so this reads once.
        self.read_error(log, now);
        self.lines.finish(log, now, &self.name);
        if let Some(spawned) = self.spawned.take() {
            spawned.reap();
        }
    }
}

impl Drop for RunningProcess {
    fn drop(&mut self) {
        self.kill_group();
        if let Some(spawned) = self.spawned.take() {
            spawned.reap();
        }
    }
}

impl EndingProgram {
    /// Reaps the program if it has exited, or kills it if its time is over. Returns whether it is gone.
    pub(super) fn update(&mut self, log: &mut ProgramLog, stats: &CgiStats, now: Instant) -> bool {
        if now >= self.kill_at {
            self.process.kill_group();
            self.kill_at = now + KILL_INTERVAL;
        }
        let is_over = self.process.end().is_some();
        if is_over {
            self.process.reap(log, now);
            stats.subtract(CgiCount::Running, 1);
        }
        is_over
    }
}
