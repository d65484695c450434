//! How a process ended.

use rustix::process::{Signal, WaitStatus};
use std::fmt;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProcessExit {
    /// It exited with this status.
    Status(i32),
    /// This signal killed it.
    Signal(i32),
}

impl ProcessExit {
    /// Returns whether the process ended as it was told to.
    pub(crate) fn is_success(self) -> bool {
        self == ProcessExit::Status(0)
    }
}

impl From<WaitStatus> for ProcessExit {
    fn from(status: WaitStatus) -> ProcessExit {
        match status.exit_status() {
            Some(status) => ProcessExit::Status(status),
            None => ProcessExit::Signal(status.terminating_signal().unwrap_or_default()),
        }
    }
}

impl fmt::Display for ProcessExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            ProcessExit::Status(status) => write!(f, "ended with status {status}"),
            ProcessExit::Signal(signal) => {
                match SIGNAL_NAMES.iter().find(|(known, _)| known.as_raw() == signal) {
                    Some((_, name)) => write!(f, "was killed by {name}"),
                    None => write!(f, "was killed by signal {signal}"),
                }
            }
        }
    }
}

/// Signals that kill processes.
const SIGNAL_NAMES: [(Signal, &str); 12] = [
    (Signal::ABORT, "SIGABRT"),
    (Signal::BUS, "SIGBUS"),
    (Signal::FPE, "SIGFPE"),
    (Signal::HUP, "SIGHUP"),
    (Signal::ILL, "SIGILL"),
    (Signal::INT, "SIGINT"),
    (Signal::KILL, "SIGKILL"),
    (Signal::QUIT, "SIGQUIT"),
    (Signal::SEGV, "SIGSEGV"),
    (Signal::SYS, "SIGSYS: it made a system call that its sandbox forbids"),
    (Signal::TERM, "SIGTERM"),
    (Signal::TRAP, "SIGTRAP"),
];
