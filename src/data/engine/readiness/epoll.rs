//! The epoll(7) selector, edge triggered.
//!
//! A connection is registered for reading. After a send has found the socket full, it is registered for writing too: a new socket has
//! room, and the kernel would report that once for each connection. The kernel reports changes, and forgets the connection when its
//! descriptor is closed.

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
    /// By slot.
    watched: Vec<Watched>,
}

/// How a connection is registered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Watched {
    No,
    ForReading,
    ForBoth,
}

/// Events per wait. From 16 on the wait itself costs little; more events share the clock and the caches.
const BATCH_LEN: usize = 128;

/// Reported of a connection: changes of the reading side.
const READING: EventFlags = EventFlags::IN.union(EventFlags::RDHUP).union(EventFlags::ET);

impl Selector for Epoll {
    fn new() -> io::Result<Epoll> {
        const NO_EVENT: Event = Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };
        Ok(Epoll { epoll: epoll::create()?, events: [NO_EVENT; BATCH_LEN], watched: Vec::new() })
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

    fn watch_slot(&mut self, id: SlotId, socket: BorrowedFd<'_>, readiness: &Readiness) -> Result<(), Errno> {
        let index = id.index as usize;
        if self.watched.len() <= index {
            self.watched.resize(index + 1, Watched::No);
        }
        let (watched, flags) = match readiness.writable {
            true => (Watched::ForReading, READING),
            false => (Watched::ForBoth, READING | EventFlags::OUT),
        };
        self.watched[index] = watched;
        epoll::add(&self.epoll, socket, data(Token::Slot(id)), flags)
    }

    #[inline]
    fn update_slot(
        &mut self,
        id: SlotId,
        socket: BorrowedFd<'_>,
        readiness: &Readiness,
    ) -> Result<(), Errno> {
        match self.watched.get_mut(id.index as usize) {
            _ if readiness.writable => Ok(()),
            Some(watched @ Watched::ForReading) => {
                *watched = Watched::ForBoth;
                epoll::modify(&self.epoll, socket, data(Token::Slot(id)), READING | EventFlags::OUT)
            }
            _ => Ok(()),
        }
    }

    /// Closing the descriptor removes the registration.
    #[inline]
    fn unwatch_slot(&mut self, index: u32) {
        if let Some(watched) = self.watched.get_mut(index as usize) {
            *watched = Watched::No;
        }
    }

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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::{fd::AsFd, unix::net::UnixStream};

    #[test]
    fn room_of_a_socket_is_reported_only_after_a_send_has_found_it_full() {
        let (socket, _client) = UnixStream::pair().unwrap();
        let id = SlotId { index: 3, generation: 1 };
        let mut selector = Epoll::new().unwrap();
        let mut readiness = Readiness::default();
        selector.update_slot(id, socket.as_fd(), &readiness).unwrap();
        selector.watch_slot(id, socket.as_fd(), &readiness).unwrap();
        assert_eq!(selector.wait(Some(0)), Ok(0));
        readiness.writable = false;
        selector.update_slot(id, socket.as_fd(), &readiness).unwrap();
        assert_eq!(selector.wait(Some(0)), Ok(1));
        assert!(matches!(selector.event(0), ReadyEvent::Ready { writable: true, .. }));
        // Registered for both already: nothing is reported twice.
        selector.update_slot(id, socket.as_fd(), &readiness).unwrap();
        assert_eq!(selector.wait(Some(0)), Ok(0));

        // The next connection of the slot is not watched yet while it is driven for the first time.
        selector.unwatch_slot(id.index);
        let (next, _client) = UnixStream::pair().unwrap();
        selector.update_slot(id, next.as_fd(), &readiness).unwrap();
        selector.watch_slot(id, next.as_fd(), &readiness).unwrap();
        assert_eq!(selector.wait(Some(0)), Ok(1));
    }
}
