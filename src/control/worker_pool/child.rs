//! A process that the control process has forked: the desk, or a worker.

use crate::{
    control::supervisor::{channel::Channel, child::End},
    sys::process::{self, SingleThreaded},
};
use rustix::{
    event::{PollFd, PollFlags},
    process::{Pid, WaitStatus},
};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    ffi::CStr,
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd, RawFd},
    sync::Arc,
    time::Instant,
};

/// A process that has not been waited for: its number is its own.
pub(super) struct PoolProcess {
    pid: Pid,
    channel: Channel,
    since: Instant,
    /// Nothing more will be heard.
    is_silent: bool,
}

impl PoolProcess {
    /// Starts a process, which has descriptors with these numbers too, and ends with the status that `main` returns. The ends of
    /// a [`Channel`] are for this process and that one.
    pub(super) fn start(
        alone: &SingleThreaded,
        name: &'static CStr,
        (channel, theirs): (Channel, Channel),
        keep: &[RawFd],
        main: impl FnOnce(Channel) -> i32,
    ) -> io::Result<PoolProcess> {
        let keep = [keep, &[theirs.as_fd().as_raw_fd()]].concat();
        let pid = alone.spawn(&keep, || {
            process::set_name(name);
            main(theirs)
        })?;
        Ok(PoolProcess { pid, channel, since: Instant::now(), is_silent: false })
    }

    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// Says something, now or when there is room. Who has ended does not hear it.
    pub(super) fn send(&mut self, message: &impl Serialize, descriptors: &Arc<[OwnedFd]>) {
        let _ = self.channel.sender.send(message, descriptors);
    }

    /// What to wait for, if it may say something or has no room for what it is told.
    pub(super) fn polled(&self, speaks: bool) -> Option<PollFd<'_>> {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, speaks && !self.is_silent);
        flags.set(PollFlags::OUT, self.channel.sender.is_waiting());
        (!flags.is_empty()).then(|| PollFd::new(&self.channel, flags))
    }

    /// Sends on what there was no room for.
    pub(super) fn flush(&mut self) {
        if self.channel.sender.is_waiting() {
            let _ = self.channel.sender.flush();
        }
    }

    /// What it has said, with descriptors.
    pub(super) fn hear<M: DeserializeOwned>(&mut self) -> Option<(M, Vec<OwnedFd>)> {
        match self.channel.receiver.receive() {
            Ok(Some(heard)) => Some(heard),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Ok(None) | Err(_) => {
                self.is_silent = true;
                None
            }
        }
    }

    /// It has ended, with this status.
    pub(super) fn ended(self, status: WaitStatus) -> End {
        End::of(status.exit_status(), status.terminating_signal(), self.since.elapsed())
    }
}
