//! kqueue(2) as a descriptor: what it is asked, and what it tells.

use rustix::{
    buffer::spare_capacity,
    event::{
        Timespec,
        kqueue::{Event, kevent_timespec, kqueue},
    },
    io::{Errno, FdFlags, fcntl_setfd},
};
use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

/// A queue of events. Readable when there is one. A child does not have it.
#[derive(Debug)]
pub(crate) struct Queue(OwnedFd);

impl Queue {
    pub(crate) fn new() -> io::Result<Queue> {
        let queue = kqueue()?;
        fcntl_setfd(&queue, FdFlags::CLOEXEC)?;
        Ok(Queue(queue))
    }

    /// Asks for events, or not any more, in this order; up to one that cannot be had.
    pub(crate) fn change(&self, changes: &[Event]) -> Result<(), Errno> {
        // SAFETY: an event names a descriptor by its number. Whoever closes it is info of nothing more; whoever has its number
        // next is info of nothing, as it did not ask.
        unsafe { kevent_timespec(&self.0, changes, &mut [] as &mut [Event; 0], Some(&NOW)).map(drop) }
    }

    /// Waits until there is something to tell, so long at most, and takes it: as much as `events` has room for.
    pub(crate) fn wait(&self, events: &mut Vec<Event>, time: Option<&Timespec>) -> Result<usize, Errno> {
        events.clear();
        // SAFETY: nothing is asked.
        unsafe { kevent_timespec(&self.0, &[], spare_capacity(events), time) }
    }

    /// The same without waiting.
    pub(crate) fn take(&self, events: &mut Vec<Event>) -> Result<usize, Errno> {
        self.wait(events, Some(&NOW))
    }
}

const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

impl AsFd for Queue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
