//! The processes of the kernel behind the identities of a machine: forks them, carries messages, kills and reaps them.

use super::{
    ProcessExit, ProcessId,
    channel::{Channel, Descriptors, THROTTLE_TIME},
    message::MessageKey,
};
use rustix::{
    event::{PollFd, PollFlags},
    io::{Errno, retry_on_intr},
    process::{Pid, Signal, WaitOptions, kill_process, wait, waitpid},
};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    collections::{BTreeMap, HashMap},
    io,
    os::fd::OwnedFd,
    sync::Arc,
    time::Duration,
};

/// The children of a driver. Dropping this kills and reaps them.
#[derive(Debug, Default)]
pub(crate) struct Children {
    by_id: BTreeMap<ProcessId, Child>,
    by_pid: HashMap<Pid, ProcessId>,
}

/// A child.
#[derive(Debug)]
struct Child {
    pid: Pid,
    channel: Channel,
    /// The channel is at EOF or broken: no more messages arrive.
    is_eof: bool,
    /// The kernel may use the process ID again.
    is_reaped: bool,
}

impl Children {
    /// Adds a child that was forked just now, and the parent's end of the channel to it.
    pub(crate) fn add(&mut self, id: ProcessId, pid: Pid, channel: Channel) {
        self.by_pid.insert(pid, id);
        self.by_id.insert(id, Child { pid, channel, is_eof: false, is_reaped: false });
    }

    /// Returns the process ID of a child.
    pub(crate) fn pid(&self, id: ProcessId) -> Option<Pid> {
        self.by_id.get(&id).map(|child| child.pid)
    }

    /// Returns the children.
    pub(crate) fn ids(&self) -> impl Iterator<Item = ProcessId> {
        self.by_id.keys().copied()
    }

    /// Returns what to poll: messages of the children, and room for queued messages.
    pub(crate) fn polled(&self) -> impl Iterator<Item = (ProcessId, PollFd<'_>)> {
        self.by_id.iter().filter_map(|(&id, child)| {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, !child.is_eof);
            flags.set(PollFlags::OUT, child.channel.sender.waits_for_room());
            (!flags.is_empty()).then(|| (id, PollFd::new(&child.channel, flags)))
        })
    }

    /// Returns how long a wait may last at most because of messages that poll(2) cannot wait for.
    pub(crate) fn wait_max(&self) -> Option<Duration> {
        self.by_id.values().any(|child| child.channel.sender.is_throttled()).then_some(THROTTLE_TIME)
    }

    /// Sends a message with descriptors, or queues it: see [`send_keyed`](super::channel::Sender::send_keyed). The message to a child that
    /// has exited is lost.
    pub(crate) fn send(
        &mut self,
        id: ProcessId,
        key: Option<MessageKey>,
        message: &impl Serialize,
        descriptors: &Arc<[OwnedFd]>,
    ) {
        if let Some(child) = self.by_id.get_mut(&id) {
            let _ = child.channel.sender.send_keyed(key, message, descriptors);
        }
    }

    /// Sends the queued messages of all children.
    pub(crate) fn flush(&mut self) {
        for child in self.by_id.values_mut() {
            // A child that has exited is reaped soon.
            let _ = child.channel.sender.flush();
        }
    }

    /// Receives a message of a child. `None`: there is none now.
    ///
    /// # Errors
    /// The child violates the protocol. No more messages of it are received.
    pub(crate) fn receive<M: DeserializeOwned>(
        &mut self,
        id: ProcessId,
    ) -> io::Result<Option<(M, Descriptors)>> {
        let Some(child) = self.by_id.get_mut(&id).filter(|child| !child.is_eof) else { return Ok(None) };
        match child.channel.receiver.receive() {
            Ok(Some(received)) => Ok(Some(received)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            ended => {
                child.is_eof = true;
                ended
            }
        }
    }

    /// Kills a child. Its exit is reported as any other.
    pub(crate) fn kill(&self, id: ProcessId) {
        if let Some(child) = self.by_id.get(&id).filter(|child| !child.is_reaped) {
            // Fails only for a process that has exited.
            let _ = kill_process(child.pid, Signal::KILL);
        }
    }

    /// Returns a child that has exited, and how. Reaps every process that the kernel has made a child of this one: as process 1 of a
    /// container, it inherits orphans. The child stays until [`remove`](Children::remove), so that its last messages can be received.
    pub(crate) fn reap(&mut self) -> io::Result<Option<(ProcessId, ProcessExit)>> {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    if let Some(id) = self.by_pid.remove(&pid) {
                        if let Some(child) = self.by_id.get_mut(&id) {
                            child.is_reaped = true;
                        }
                        return Ok(Some((id, status.into())));
                    }
                }
                Ok(None) | Err(Errno::CHILD) => return Ok(None),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Removes a child that was reaped, or that goes on without this process. Returns the channel to it.
    pub(crate) fn remove(&mut self, id: ProcessId) -> Option<Channel> {
        let Child { pid, channel, is_reaped, .. } = self.by_id.remove(&id)?;
        if !is_reaped {
            self.by_pid.remove(&pid);
        }
        Some(channel)
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        let children = || self.by_id.values().filter(|child| !child.is_reaped);
        for child in children() {
            let _ = kill_process(child.pid, Signal::KILL);
        }
        for child in children() {
            let _ = retry_on_intr(|| waitpid(Some(child.pid), WaitOptions::empty()));
        }
    }
}
