//! The processes of the kernel behind the identities of a machine: carries their messages, kills and reaps them.

use super::{
    ProcessExit, ProcessId,
    channel::{Channel, Descriptors, THROTTLE_TIME},
    map::ProcessMap,
    message::MessageKey,
};
use crate::sys::poll::PollEntry;
use libc::{POLLIN, POLLOUT};
use rustix::{
    io::{Errno, retry_on_intr},
    net::{Shutdown, shutdown},
    process::{Pid, Signal, WaitOptions, kill_process, wait, waitpid},
};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    collections::{BTreeSet, HashMap},
    fs::File,
    io,
    os::fd::AsFd,
    sync::Arc,
    time::Duration,
};

/// The children of a driver. Dropping this kills and reaps them. The cost of an event does not depend on how many there are.
#[derive(Debug, Default)]
pub(crate) struct Children {
    by_id: ProcessMap<Child>,
    by_pid: HashMap<Pid, ProcessId>,
    /// The children whose messages may still arrive.
    talking: BTreeSet<ProcessId>,
    /// The children with queued messages, or whose end of messages is queued.
    queued: BTreeSet<ProcessId>,
}

/// A child.
#[derive(Debug)]
struct Child {
    pid: Pid,
    channel: Box<Channel>,
    /// The child receives EOF after the queued messages.
    is_closing: bool,
    /// The kernel may use the process ID again.
    is_reaped: bool,
}

impl Children {
    /// Adds a child that was forked just now, and the parent's end of the channel to it.
    pub(crate) fn add(&mut self, id: ProcessId, pid: Pid, channel: Channel) {
        self.add_silent(id, pid, Box::new(channel));
        self.talking.insert(id);
    }

    /// Adds a child that sends no messages, as [`add`](Children::add).
    pub(crate) fn add_silent(&mut self, id: ProcessId, pid: Pid, channel: Box<Channel>) {
        self.by_pid.insert(pid, id);
        self.by_id.insert(id, Child { pid, channel, is_closing: false, is_reaped: false });
    }

    /// Returns the process ID of a child.
    pub(crate) fn pid(&self, id: ProcessId) -> Option<Pid> {
        self.by_id.get(id).map(|child| child.pid)
    }

    /// Returns the children.
    pub(crate) fn ids(&self) -> impl Iterator<Item = ProcessId> {
        self.by_id.ids()
    }

    /// Returns what to poll: messages of the children, and room for queued messages.
    pub(crate) fn polled(&self) -> impl Iterator<Item = (ProcessId, PollEntry)> {
        self.talking.union(&self.queued).filter_map(|id| {
            let child = self.by_id.get(*id)?;
            let input = if self.talking.contains(id) { POLLIN } else { 0 };
            let output = if child.channel.sender.waits_for_room() { POLLOUT } else { 0 };
            let wanted = input | output;
            (wanted != 0).then(|| (*id, PollEntry::new(child.channel.as_fd(), wanted)))
        })
    }

    /// Returns how long a wait may last at most because of messages that poll(2) cannot wait for.
    pub(crate) fn wait_max(&self) -> Option<Duration> {
        let mut queued = self.queued.iter().filter_map(|id| self.by_id.get(*id));
        queued.any(|child| child.channel.sender.is_throttled()).then_some(THROTTLE_TIME)
    }

    /// Sends a message with descriptors, or queues it: see [`send_keyed`](super::channel::Sender::send_keyed). The message to a child that
    /// has exited is lost.
    pub(crate) fn send(
        &mut self,
        id: ProcessId,
        key: Option<MessageKey>,
        message: &impl Serialize,
        descriptors: &Arc<[Arc<File>]>,
    ) {
        if let Some(child) = self.by_id.get_mut(id).filter(|child| !child.is_closing) {
            let _ = child.channel.sender.send_keyed(key, message, descriptors);
            if child.has_queued() {
                self.queued.insert(id);
            }
        }
    }

    /// Sends the queued messages of a child, and then EOF. Its own messages still arrive.
    pub(crate) fn end_messages(&mut self, id: ProcessId) {
        if let Some(child) = self.by_id.get_mut(id) {
            child.is_closing = true;
            if child.flush() {
                self.queued.insert(id);
            }
        }
    }

    /// Sends the queued messages of all children.
    pub(crate) fn flush(&mut self) {
        let Children { by_id, queued, .. } = self;
        queued.retain(|id| by_id.get_mut(*id).is_some_and(Child::flush));
    }

    /// Receives a message of a child. `None`: there is none now.
    ///
    /// # Errors
    /// The child violates the protocol. No more messages of it are received.
    pub(crate) fn receive<M: DeserializeOwned>(
        &mut self,
        id: ProcessId,
    ) -> io::Result<Option<(M, Descriptors)>> {
        if !self.talking.contains(&id) {
            return Ok(None);
        }
        let Some(child) = self.by_id.get_mut(id) else { return Ok(None) };
        match child.channel.receiver.receive() {
            Ok(Some(received)) => Ok(Some(received)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            ended => {
                self.talking.remove(&id);
                ended
            }
        }
    }

    /// Kills a child. Its exit is reported as any other.
    pub(crate) fn kill(&self, id: ProcessId) {
        if let Some(child) = self.by_id.get(id).filter(|child| !child.is_reaped) {
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
                        if let Some(child) = self.by_id.get_mut(id) {
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
    pub(crate) fn remove(&mut self, id: ProcessId) -> Option<Box<Channel>> {
        let Child { pid, channel, is_reaped, .. } = self.by_id.remove(id)?;
        if !is_reaped {
            self.by_pid.remove(&pid);
        }
        self.talking.remove(&id);
        self.queued.remove(&id);
        Some(channel)
    }
}

impl Child {
    fn has_queued(&self) -> bool {
        self.channel.sender.has_queued()
    }

    /// Sends queued messages, and EOF after the last one if the channel is closing. Returns whether messages are left.
    fn flush(&mut self) -> bool {
        // A child that has exited is reaped soon.
        let _ = self.channel.sender.flush();
        let has_queued = self.has_queued();
        if self.is_closing && !has_queued {
            let _ = shutdown(&*self.channel, Shutdown::Write);
        }
        has_queued
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

#[cfg(test)]
mod tests {
    use super::{super::ProcessTable, *};

    #[test]
    fn silent_child_is_polled_only_while_messages_wait_and_receives_eof_after_the_last() {
        let (mut table, mut children) = (ProcessTable::default(), Children::default());
        let add = |children: &mut Children, table: &mut ProcessTable<()>, is_silent| {
            let (ours, theirs) = Channel::pair().unwrap();
            let id = table.add(());
            // Reaped already: dropping the children must not signal this process.
            match is_silent {
                true => children.add_silent(id, rustix::process::getpid(), Box::new(ours)),
                false => children.add(id, rustix::process::getpid(), ours),
            }
            children.by_id.get_mut(id).unwrap().is_reaped = true;
            (id, theirs)
        };
        let (talking, _other) = add(&mut children, &mut table, false);
        let (silent, mut theirs) = add(&mut children, &mut table, true);
        let polled = |children: &Children| children.polled().map(|(id, _)| id).collect::<Vec<_>>();
        assert_eq!(polled(&children), [talking]);
        let mut sent = 0;
        while polled(&children) == [talking] {
            children.send(silent, None, &sent, &Arc::default());
            sent += 1;
        }
        assert_eq!(polled(&children), [talking, silent]);
        children.end_messages(silent);
        children.send(silent, None, &"after the end", &Arc::default());
        for number in 0..sent {
            assert_eq!(theirs.receiver.receive::<i32>().unwrap().unwrap().0, number);
            children.flush();
        }
        assert!(theirs.receiver.receive::<i32>().unwrap().is_none(), "EOF");
        assert_eq!(polled(&children), [talking]);
        theirs.sender.send(&"last").unwrap();
        assert!(children.receive::<String>(silent).unwrap().is_none(), "a silent child is not received from");
        assert!(children.remove(silent).is_some() && children.remove(talking).is_some());
        assert_eq!(polled(&children), []);
    }
}
