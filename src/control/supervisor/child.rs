//! One process: a channel to it, and how it ended.

use super::Role;
use crate::control::process::channel::{Channel, Descriptors};
use crate::sys::process::{self, Process};
use rustix::{
    event::{PollFd, PollFlags},
    process::{Pid, Signal},
};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    fmt, io, mem,
    os::fd::{AsFd, AsRawFd, OwnedFd, RawFd},
    sync::Arc,
    time::{Duration, Instant},
};

/// A process that runs. It ends with this value.
#[derive(Debug)]
pub(crate) struct Child {
    channel: Channel,
    /// Readable when it has ended.
    process: Process,
    /// Its end of the channel is closed: nothing more will be heard.
    is_silent: bool,
    since: Instant,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    how: How,
    pub(crate) lived: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Exited(i32),
    Killed(i32),
}

impl Child {
    /// Starts a process, which has descriptors with these numbers too, and ends with the status that `main` returns.
    pub(crate) fn start(role: Role, keep: &[RawFd], main: impl FnOnce(Channel) -> i32) -> io::Result<Child> {
        let (channel, theirs) = Channel::pair()?;
        let keep = [keep, &[theirs.as_fd().as_raw_fd()]].concat();
        let name = match role {
            Role::Builder => c"tarpon-builder",
            Role::Server => c"tarpon-server",
            Role::Worker => c"tarpon-worker",
            Role::Aux => c"tarpon-aux",
        };
        let pid = process::spawn(&keep, || {
            process::set_name(name);
            main(theirs)
        })?;
        Child::adopt(pid, channel)
    }

    /// A child that was started otherwise, and this end of a channel to it.
    pub(crate) fn adopt(pid: Pid, channel: Channel) -> io::Result<Child> {
        Ok(Child { channel, process: Process::of(pid)?, is_silent: false, since: Instant::now() })
    }

    /// It does not end with this value.
    pub(crate) fn release(self) {
        mem::forget(self);
    }

    /// What to wait for.
    pub(crate) fn polled(&self) -> Vec<PollFd<'_>> {
        let mut polled = vec![PollFd::new(&self.process, PollFlags::IN)];
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, !self.is_silent);
        flags.set(PollFlags::OUT, self.channel.sender.waits_for_room());
        if !flags.is_empty() {
            polled.push(PollFd::new(&self.channel, flags));
        }
        polled
    }

    /// Says something, now or when there is room. Who has ended does not hear it.
    pub(crate) fn say(&mut self, message: &impl Serialize) {
        let _ = self.channel.sender.send(message);
    }

    /// The same, with descriptors.
    pub(crate) fn send(&mut self, message: &impl Serialize, descriptors: &Arc<[OwnedFd]>) {
        let _ = self.channel.sender.send_with(message, descriptors);
    }

    /// What it has said, with descriptors; and sends on what it had no room for.
    ///
    /// # Errors
    /// What it said is no message.
    pub(crate) fn hear<M: DeserializeOwned>(&mut self) -> io::Result<Option<(M, Descriptors)>> {
        let _ = self.channel.sender.flush();
        if self.is_silent {
            return Ok(None);
        }
        match self.channel.receiver.receive() {
            Ok(Some(heard)) => Ok(Some(heard)),
            Ok(None) => {
                self.is_silent = true;
                Ok(None)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// How it has ended, if it has.
    pub(crate) fn ended(&self) -> io::Result<Option<End>> {
        let Some(status) = self.process.try_wait()? else { return Ok(None) };
        let lived = self.since.elapsed();
        Ok(Some(End::of(status.exit_status(), status.terminating_signal(), lived)))
    }

    pub(crate) fn kill(&self) {
        self.process.kill();
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
        self.process.wait();
    }
}

impl End {
    /// As the kernel tells it of a process that has ended: with a status, or by a signal.
    pub(crate) fn of(status: Option<i32>, signal: Option<i32>, lived: Duration) -> End {
        let how = match status {
            Some(status) => How::Exited(status),
            None => How::Killed(signal.unwrap_or_default()),
        };
        End { how, lived }
    }

    /// Whether it ended as it was told to.
    pub(crate) fn is_good(&self) -> bool {
        self.how == How::Exited(0)
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.how {
            How::Exited(status) => write!(f, "ended with status {status}"),
            How::Killed(signal) => {
                let name = NAMES.iter().find(|(known, _)| known.as_raw() == signal);
                match name {
                    Some((_, name)) => write!(f, "was killed by {name}"),
                    None => write!(f, "was killed by signal {signal}"),
                }
            }
        }
    }
}

/// Signals that processes are killed by.
const NAMES: [(Signal, &str); 10] = [
    (Signal::ABORT, "SIGABRT"),
    (Signal::BUS, "SIGBUS"),
    (Signal::FPE, "SIGFPE"),
    (Signal::HUP, "SIGHUP"),
    (Signal::ILL, "SIGILL"),
    (Signal::KILL, "SIGKILL"),
    (Signal::QUIT, "SIGQUIT"),
    (Signal::SEGV, "SIGSEGV"),
    (Signal::SYS, "SIGSYS: it made a system call that its sandbox forbids"),
    (Signal::TRAP, "SIGTRAP"),
];
