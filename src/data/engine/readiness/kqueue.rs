//! The kqueue(2) selector, edge triggered: FreeBSD and macOS.
//!
//! A connection is registered once, with a filter for each direction. The kernel reports each direction separately, and forgets both
//! when the descriptor is closed.
//!
//! ```text
//! mailbox, listener   EVFILT_READ                               reported as long as it holds
//! connection          EVFILT_READ + EVFILT_WRITE, EV_CLEAR      reported when it changes
//! ```
//!
//! One client wakes all workers that share a listener, and one of them gets it: kqueue has nothing like `EPOLLEXCLUSIVE`.

use crate::{
    data::{
        engine::readiness::{ReadyEvent, Selector, SlotId, drive::Readiness, token::Token},
        worker::timespec,
    },
    sys::queue::Queue,
};
use rustix::{
    event::kqueue::{Event, EventFilter, EventFlags},
    io::Errno,
};
use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd},
    ptr,
};

pub(crate) struct Kqueue {
    queue: Queue,
    events: Vec<Event>,
}

/// Events per wait: two may belong to one connection.
const BATCH_LEN: usize = 256;

/// A token is stored as a pointer.
const _: () = assert!(usize::BITS >= u64::BITS);

impl Selector for Kqueue {
    fn new() -> io::Result<Kqueue> {
        Ok(Kqueue { queue: Queue::new()?, events: Vec::with_capacity(BATCH_LEN) })
    }

    fn watch_mailbox(&mut self, mailbox: BorrowedFd<'_>) -> io::Result<()> {
        Ok(self.queue.change(&[reads(mailbox, EventFlags::ADD, Token::Mailbox)])?)
    }

    fn watch_listener(&mut self, number: usize, listener: BorrowedFd<'_>) -> Result<(), Errno> {
        self.queue.change(&[reads(listener, EventFlags::ADD, Token::Listener(number))])
    }

    fn unwatch_listener(&mut self, number: usize, listener: BorrowedFd<'_>) -> Result<(), Errno> {
        self.queue.change(&[reads(listener, EventFlags::DELETE, Token::Listener(number))])
    }

    fn watch_slot(&mut self, id: SlotId, socket: BorrowedFd<'_>, _: &Readiness) -> Result<(), Errno> {
        let (flags, token) = (EventFlags::ADD | EventFlags::CLEAR, Token::Slot(id));
        self.queue.change(&[reads(socket, flags, token), writes(socket, flags, token)])
    }

    /// Edge-triggered: nothing to update.
    #[inline]
    fn update_slot(&mut self, _: SlotId, _: BorrowedFd<'_>, _: &Readiness) -> Result<(), Errno> {
        Ok(())
    }

    /// Closing the descriptor removes the registration.
    #[inline]
    fn unwatch_slot(&mut self, _index: u32) {}

    fn wait(&mut self, wait_ms: Option<u64>) -> Result<usize, Errno> {
        self.queue.wait(&mut self.events, wait_ms.map(timespec).as_ref())
    }

    #[inline]
    fn event(&self, number: usize) -> ReadyEvent {
        let event = &self.events[number];
        match Token::of(event.udata().addr() as u64) {
            Token::Slot(id) => {
                let readable = matches!(event.filter(), EventFilter::Read(_));
                ReadyEvent::Ready {
                    id,
                    readable,
                    writable: !readable,
                    // The write filter reports EOF too after this side has closed.
                    hung_up: readable && event.flags().contains(EventFlags::EOF),
                    // A reset also sets EOF.
                    failed: false,
                }
            }
            Token::Listener(number) => ReadyEvent::Client(number),
            Token::Mailbox => ReadyEvent::Mailbox,
        }
    }
}

fn reads(descriptor: BorrowedFd<'_>, flags: EventFlags, token: Token) -> Event {
    event(EventFilter::Read(descriptor.as_raw_fd()), flags, token)
}

fn writes(descriptor: BorrowedFd<'_>, flags: EventFlags, token: Token) -> Event {
    event(EventFilter::Write(descriptor.as_raw_fd()), flags, token)
}

fn event(filter: EventFilter, flags: EventFlags, token: Token) -> Event {
    Event::new(filter, flags, ptr::without_provenance_mut(token.bits() as usize))
}
