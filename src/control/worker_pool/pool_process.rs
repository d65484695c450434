//! A process that the master has forked: the aux process or a worker.

use crate::{
    control::{process::ProcessExit as End, process::channel::Channel},
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

/// A process that the master has not reaped, so that its process ID is valid.
pub(super) struct PoolProcess {
    pid: Pid,
    channel: Channel,
    since: Instant,
    /// The channel is at EOF or failed: no more messages arrive.
    is_eof: bool,
}

impl PoolProcess {
    /// Forks a process that inherits the descriptors `keep` and exits with the status that `main` returns. The first end of the
    /// [`Channel`] is for this process, the other for the child.
    pub(super) fn start(
        single_threaded: &SingleThreaded,
        name: &'static CStr,
        (channel, theirs): (Channel, Channel),
        keep: &[RawFd],
        main: impl FnOnce(Channel) -> i32,
    ) -> io::Result<PoolProcess> {
        let keep = [keep, &[theirs.as_fd().as_raw_fd()]].concat();
        let pid = single_threaded.spawn(&keep, || {
            process::set_name(name);
            main(theirs)
        })?;
        Ok(PoolProcess { pid, channel, since: Instant::now(), is_eof: false })
    }

    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// Sends a message now or, if the channel is full, queues it. If the process has exited, the message is lost.
    pub(super) fn send(&mut self, message: &impl Serialize, descriptors: &Arc<[OwnedFd]>) {
        let _ = self.channel.sender.send_with(message, descriptors);
    }

    /// Returns what to poll: for messages if the process sends any, and for room if messages are queued.
    pub(super) fn polled(&self, sends: bool) -> Option<PollFd<'_>> {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, sends && !self.is_eof);
        flags.set(PollFlags::OUT, self.channel.sender.waits_for_room());
        (!flags.is_empty()).then(|| PollFd::new(&self.channel, flags))
    }

    /// Sends queued messages.
    pub(super) fn flush(&mut self) {
        if self.channel.sender.waits_for_room() {
            let _ = self.channel.sender.flush();
        }
    }

    /// Receives a message with its descriptors, if one is there.
    pub(super) fn receive<M: DeserializeOwned>(&mut self) -> Option<(M, Vec<OwnedFd>)> {
        match self.channel.receiver.receive() {
            Ok(Some((message, descriptors))) => Some((message, descriptors.unwrap_or_default())),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Ok(None) | Err(_) => {
                self.is_eof = true;
                None
            }
        }
    }

    /// Returns how the process ended, from its wait status.
    pub(super) fn end(self, status: WaitStatus) -> (End, std::time::Duration) {
        (status.into(), self.since.elapsed())
    }
}
