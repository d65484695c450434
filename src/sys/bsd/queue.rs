//! A kqueue(2): registers filters and takes events.

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

/// A queue of events. Readable when there is one. Children do not inherit it.
#[derive(Debug)]
pub(crate) struct Queue(OwnedFd);

impl Queue {
    pub(crate) fn new() -> io::Result<Queue> {
        let queue = kqueue()?;
        fcntl_setfd(&queue, FdFlags::CLOEXEC)?;
        Ok(Queue(queue))
    }

    /// Applies changes in order, up to the first that fails.
    pub(crate) fn change(&self, changes: &[Event]) -> Result<(), Errno> {
        // SAFETY: a change names a descriptor by number. Closing the descriptor removes its filters, so a later descriptor with the
        // same number gets no events.
        unsafe { kevent_timespec(&self.0, changes, &mut [] as &mut [Event; 0], Some(&NOW)).map(drop) }
    }

    /// Waits for events for at most `time`, and takes as many as `events` has room for.
    pub(crate) fn wait(&self, events: &mut Vec<Event>, time: Option<&Timespec>) -> Result<usize, Errno> {
        events.clear();
        // SAFETY: registers nothing.
        unsafe { kevent_timespec(&self.0, &[], spare_capacity(events), time) }
    }

    /// Takes events without waiting.
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
