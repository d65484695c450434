//! Readiness, level triggered, with `poll(2)`: the oldest way to wait for many sockets, and a portable one.
//!
//! The kernel is given all sockets at each wait, and looks at every one of them: what a round costs grows with the connections
//! that are open, not with those that have something to say. A level is told again and again, so what is known of a socket is
//! not asked: a client that is not being read, or not being sent to, ends no wait.
//!
//! ```text
//! asked    mailbox   listener   slot 7   slot 2   slot 9      an entry each, in no order
//! places   slot 2 → 3   slot 7 → 2   slot 9 → 4               so that it is found; who leaves is replaced by the last
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
    /// What the kernel is asked.
    asked: Vec<PollEntry>,
    /// Whom each of these is about.
    whom: Vec<Whom>,
    /// Where in these a slot is; [`NOWHERE`]: it is not.
    places: Vec<u32>,
    /// What the last wait has told. Not where: entries move while it is acted upon.
    told: Vec<ReadyEvent>,
}

#[derive(Clone, Copy)]
enum Whom {
    Mailbox,
    Listener(usize),
    Slot(SlotId),
}

const NOWHERE: u32 = u32::MAX;

impl Selector for Poll {
    fn new() -> io::Result<Poll> {
        Ok(Poll { asked: Vec::new(), whom: Vec::new(), places: Vec::new(), told: Vec::new() })
    }

    fn watch_mailbox(&mut self, mailbox: BorrowedFd<'_>) -> io::Result<()> {
        self.insert(PollEntry::new(mailbox, POLLIN), Whom::Mailbox);
        Ok(())
    }

    fn watch_listener(&mut self, number: usize, listener: BorrowedFd<'_>) -> Result<(), Errno> {
        self.insert(PollEntry::new(listener, POLLIN), Whom::Listener(number));
        Ok(())
    }

    fn leave_listener(&mut self, number: usize, _: BorrowedFd<'_>) -> Result<(), Errno> {
        let is_it = |whom: &Whom| matches!(whom, Whom::Listener(other) if *other == number);
        let place = self.whom.iter().position(is_it).expect("it was watched");
        self.remove(place);
        Ok(())
    }

    fn watch_slot(&mut self, name: SlotId, socket: BorrowedFd<'_>, known: &Readiness) -> Result<(), Errno> {
        let index = name.index as usize;
        if self.places.len() <= index {
            self.places.resize(index + 1, NOWHERE);
        }
        self.places[index] = self.insert(PollEntry::new(socket, to_ask(known)), Whom::Slot(name));
        Ok(())
    }

    #[inline]
    fn mind_slot(&mut self, index: u32, known: &Readiness) {
        if let Some(place) = self.place(index) {
            self.asked[place].ask(to_ask(known));
        }
    }

    fn leave_slot(&mut self, index: u32) {
        if let Some(place) = self.place(index) {
            self.places[index as usize] = NOWHERE;
            self.remove(place);
        }
    }

    fn wait(&mut self, wait_ms: Option<u64>) -> Result<usize, Errno> {
        self.told.clear();
        let count = poll(&mut self.asked, wait_ms)?;
        let all = self.asked.iter().zip(&self.whom).map(|(entry, whom)| (entry.told(), whom));
        self.told
            .extend(all.filter(|&(flags, _)| flags != 0).take(count).map(|(flags, whom)| whom.told(flags)));
        Ok(count)
    }

    #[inline]
    fn told(&self, number: usize) -> ReadyEvent {
        self.told[number]
    }
}

impl Poll {
    /// Returns where it is.
    fn insert(&mut self, entry: PollEntry, whom: Whom) -> u32 {
        self.asked.push(entry);
        self.whom.push(whom);
        self.whom.len() as u32 - 1
    }

    /// The last takes its place.
    fn remove(&mut self, place: usize) {
        self.asked.swap_remove(place);
        self.whom.swap_remove(place);
        if let Some(Whom::Slot(moved)) = self.whom.get(place) {
            self.places[moved.index as usize] = place as u32;
        }
    }

    #[inline]
    fn place(&self, index: u32) -> Option<usize> {
        self.places.get(index as usize).filter(|&&place| place != NOWHERE).map(|&place| place as usize)
    }
}

impl Whom {
    #[inline]
    fn told(self, flags: PollEvents) -> ReadyEvent {
        match self {
            Whom::Mailbox => ReadyEvent::Mail,
            Whom::Listener(number) => ReadyEvent::Client(number),
            Whom::Slot(name) => {
                let any = |of| flags & of != 0;
                ReadyEvent::Ready {
                    name,
                    readable: any(POLLIN),
                    writable: any(POLLOUT),
                    hung: any(RDHUP),
                    failed: any(POLLERR | POLLHUP | POLLNVAL),
                }
            }
        }
    }
}

/// What is told of a connection.
#[inline]
pub(crate) fn learn(known: &mut Readiness, flags: PollEvents) {
    if let ReadyEvent::Ready { readable, writable, hung, failed, .. } =
        Whom::Slot(SlotId { index: 0, generation: 0 }).told(flags)
    {
        known.add(readable, writable, hung, failed);
    }
}

/// What is not known yet.
#[inline]
pub(crate) fn to_ask(known: &Readiness) -> PollEvents {
    let unless = |known: bool, flag| if known { 0 } else { flag };
    unless(known.readable, POLLIN) | unless(known.writable, POLLOUT) | unless(known.hung, RDHUP)
}
