//! The poll(2) selector, level triggered: portable, without kernel state.
//!
//! The kernel looks at all sockets at each wait: the cost grows with the number of open connections, not of active ones. A level is
//! reported at every wait, so the selector asks only for readiness that is not known yet: a client that the worker does not read
//! from, or send to, ends no wait.
//!
//! ```text
//! entries     mailbox   listener   slot 7   slot 2   slot 9      an entry each, in no order
//! positions   slot 2 → 3   slot 7 → 2   slot 9 → 4               to find it; the last entry replaces a removed one
//! ```

use super::{ReadyEvent, Selector, SlotId, drive::Readiness};
use crate::sys::{
    poll::{PollEntry, PollEvents, poll},
    socket::RDHUP,
};
use libc::{POLLERR, POLLHUP, POLLIN, POLLNVAL, POLLOUT};
use rustix::io::Errno;
use std::{io, os::fd::BorrowedFd};

pub(crate) struct Poll {
    /// Entries for the kernel.
    entries: Vec<PollEntry>,
    /// The source of each entry.
    sources: Vec<PollSource>,
    /// Position of each slot's entry; [`UNWATCHED`]: it has none.
    positions: Vec<u32>,
    /// Events of the last wait, by value: entries move while the worker handles events.
    events: Vec<ReadyEvent>,
}

#[derive(Clone, Copy)]
enum PollSource {
    Mailbox,
    Listener(usize),
    Slot(SlotId),
}

const UNWATCHED: u32 = u32::MAX;

impl Selector for Poll {
    fn new() -> io::Result<Poll> {
        Ok(Poll { entries: Vec::new(), sources: Vec::new(), positions: Vec::new(), events: Vec::new() })
    }

    fn watch_mailbox(&mut self, mailbox: BorrowedFd<'_>) -> io::Result<()> {
        self.insert(PollEntry::new(mailbox, POLLIN), PollSource::Mailbox);
        Ok(())
    }

    fn watch_listener(&mut self, number: usize, listener: BorrowedFd<'_>) -> Result<(), Errno> {
        self.insert(PollEntry::new(listener, POLLIN), PollSource::Listener(number));
        Ok(())
    }

    fn unwatch_listener(&mut self, number: usize, _: BorrowedFd<'_>) -> Result<(), Errno> {
        let is_same = |source: &PollSource| matches!(source, PollSource::Listener(other) if *other == number);
        let position = self.sources.iter().position(is_same).expect("it was watched");
        self.remove(position);
        Ok(())
    }

    fn watch_slot(&mut self, id: SlotId, socket: BorrowedFd<'_>, readiness: &Readiness) -> Result<(), Errno> {
        let index = id.index as usize;
        if self.positions.len() <= index {
            self.positions.resize(index + 1, UNWATCHED);
        }
        self.positions[index] =
            self.insert(PollEntry::new(socket, events_to_wait_for(readiness)), PollSource::Slot(id));
        Ok(())
    }

    #[inline]
    fn update_slot(&mut self, id: SlotId, _: BorrowedFd<'_>, readiness: &Readiness) -> Result<(), Errno> {
        if let Some(position) = self.position(id.index) {
            self.entries[position].set_events(events_to_wait_for(readiness));
        }
        Ok(())
    }

    fn unwatch_slot(&mut self, index: u32) {
        if let Some(position) = self.position(index) {
            self.positions[index as usize] = UNWATCHED;
            self.remove(position);
        }
    }

    fn wait(&mut self, wait_ms: Option<u64>) -> Result<usize, Errno> {
        self.events.clear();
        let count = poll(&mut self.entries, wait_ms)?;
        let all = self.entries.iter().zip(&self.sources).map(|(entry, source)| (entry.revents(), source));
        self.events.extend(
            all.filter(|&(flags, _)| flags != 0).take(count).map(|(flags, source)| source.event(flags)),
        );
        Ok(count)
    }

    #[inline]
    fn event(&self, number: usize) -> ReadyEvent {
        self.events[number]
    }
}

impl Poll {
    /// Adds an entry. Returns its position.
    fn insert(&mut self, entry: PollEntry, source: PollSource) -> u32 {
        self.entries.push(entry);
        self.sources.push(source);
        self.sources.len() as u32 - 1
    }

    /// Removes an entry; the last one moves to its position.
    fn remove(&mut self, position: usize) {
        self.entries.swap_remove(position);
        self.sources.swap_remove(position);
        if let Some(PollSource::Slot(moved)) = self.sources.get(position) {
            self.positions[moved.index as usize] = position as u32;
        }
    }

    #[inline]
    fn position(&self, index: u32) -> Option<usize> {
        self.positions
            .get(index as usize)
            .filter(|&&position| position != UNWATCHED)
            .map(|&position| position as usize)
    }
}

impl PollSource {
    #[inline]
    fn event(self, flags: PollEvents) -> ReadyEvent {
        match self {
            PollSource::Mailbox => ReadyEvent::Mailbox,
            PollSource::Listener(number) => ReadyEvent::Client(number),
            PollSource::Slot(id) => {
                let any = |of| flags & of != 0;
                ReadyEvent::Ready {
                    id,
                    readable: any(POLLIN),
                    writable: any(POLLOUT),
                    hung_up: any(RDHUP),
                    failed: any(POLLERR | POLLHUP | POLLNVAL),
                }
            }
        }
    }
}

/// Updates the known readiness of a connection from the returned events.
#[inline]
pub(crate) fn update_readiness(readiness: &mut Readiness, flags: PollEvents) {
    if let ReadyEvent::Ready { readable, writable, hung_up, failed, .. } =
        PollSource::Slot(SlotId { index: 0, generation: 0 }).event(flags)
    {
        readiness.add(readable, writable, hung_up, failed);
    }
}

/// Returns the events for readiness that is not known yet.
#[inline]
pub(crate) fn events_to_wait_for(readiness: &Readiness) -> PollEvents {
    let unless = |possible: bool, flag| if possible { 0 } else { flag };
    unless(readiness.readable, POLLIN)
        | unless(readiness.writable, POLLOUT)
        | unless(readiness.hung_up, RDHUP)
}
