//! The epoll(7) selector, edge triggered.
//!
//! A connection is registered once for both directions. The kernel reports changes, and forgets the connection when its descriptor is
//! closed.

use crate::{
    data::{
        engine::readiness::{ReadyEvent, Selector, SlotId, drive::Readiness, token::Token},
        worker::timespec,
    },
    sys::epoll::{self, Event, EventData, EventFlags},
};
use rustix::io::Errno;
use std::{
    io,
    os::fd::{BorrowedFd, OwnedFd},
};

pub(crate) struct Epoll {
    epoll: OwnedFd,
    events: [Event; BATCH_LEN],
}

/// Events per wait. From 16 on the wait itself costs little; more events share the clock and the caches.
const BATCH_LEN: usize = 128;

impl Selector for Epoll {
    fn new() -> io::Result<Epoll> {
        const NO_EVENT: Event = Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };
        Ok(Epoll { epoll: epoll::create()?, events: [NO_EVENT; BATCH_LEN] })
    }

    fn watch_mailbox(&mut self, mailbox: BorrowedFd<'_>) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, mailbox, data(Token::Mailbox), EventFlags::IN)?)
    }

    fn watch_listener(&mut self, number: usize, listener: BorrowedFd<'_>) -> Result<(), Errno> {
        // Exclusive: one client does not wake all workers that share the listener.
        let flags = EventFlags::IN | EventFlags::EXCLUSIVE;
        epoll::add(&self.epoll, listener, data(Token::Listener(number)), flags)
    }

    fn unwatch_listener(&mut self, _number: usize, listener: BorrowedFd<'_>) -> Result<(), Errno> {
        epoll::delete(&self.epoll, listener)
    }

    fn watch_slot(&mut self, id: SlotId, socket: BorrowedFd<'_>, _: &Readiness) -> Result<(), Errno> {
        let both = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        epoll::add(&self.epoll, socket, data(Token::Slot(id)), both)
    }

    /// Edge-triggered: nothing to update.
    #[inline]
    fn update_slot(&mut self, _index: u32, _readiness: &Readiness) {}

    /// Closing the descriptor removes the registration.
    #[inline]
    fn unwatch_slot(&mut self, _index: u32) {}

    fn wait(&mut self, wait_ms: Option<u64>) -> Result<usize, Errno> {
        epoll::wait(&self.epoll, &mut self.events, wait_ms.map(timespec).as_ref())
    }

    #[inline]
    fn event(&self, number: usize) -> ReadyEvent {
        let Event { flags, data } = self.events[number];
        match Token::of(data.u64()) {
            Token::Slot(id) => ReadyEvent::Ready {
                id,
                readable: flags.contains(EventFlags::IN),
                writable: flags.contains(EventFlags::OUT),
                hung_up: flags.contains(EventFlags::RDHUP),
                failed: flags.intersects(EventFlags::ERR | EventFlags::HUP),
            },
            Token::Listener(number) => ReadyEvent::Client(number),
            Token::Mailbox => ReadyEvent::Mailbox,
        }
    }
}

fn data(token: Token) -> EventData {
    EventData::new_u64(token.bits())
}
