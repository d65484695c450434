//! Readiness, edge triggered, with `epoll(7)`.
//!
//! A connection is registered once, for both directions, and never again: what the socket can do is remembered
//! in its slot, and an event only adds to it. Listeners are level triggered, and unregistered while the accept
//! gate is shut, so that a process out of descriptors does not spin.

use super::{
    is_fatal,
    ready::{self, After, Readiness},
};
use crate::{
    listen::BACKLOG,
    worker::{Outfit, Worker, timespec},
};
use rustix::{
    event::epoll::{self, CreateFlags, Event, EventData, EventFlags},
    io::Errno,
    net::{SocketFlags, accept_with},
};
use std::{collections::VecDeque, io, mem, os::fd::OwnedFd};

/// Events taken at once. From 16 on the wait itself costs little; more keep the clock and the caches shared.
const BATCH_LEN: usize = 128;

/// Connections accepted in one go, so that those already open are not kept waiting.
const ACCEPT_MAX: usize = 64;

pub(super) fn run(outfit: Outfit) -> io::Result<()> {
    let mut loop_ = Loop {
        epoll: epoll::create(CreateFlags::CLOEXEC)?,
        worker: Worker::new(outfit),
        listening: false,
        again: VecDeque::new(),
    };
    epoll::add(&loop_.epoll, &loop_.worker.mailbox, Token::Mailbox.data(), EventFlags::IN)?;
    loop_.run()
}

struct Loop {
    epoll: OwnedFd,
    worker: Worker<Readiness>,
    /// The listeners are registered.
    listening: bool,
    /// Slots that have more to do although no event will tell.
    again: VecDeque<(u32, u32)>,
}

impl Loop {
    fn run(&mut self) -> io::Result<()> {
        const NO_EVENT: Event = Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };
        let mut events = [NO_EVENT; BATCH_LEN];
        loop {
            self.mind_gate()?;
            let count = match self.wait(&mut events) {
                Err(Errno::INTR) => 0,
                count => count?,
            };
            self.worker.tell_time();
            for Event { flags, data } in events[..count].iter().copied() {
                match Token::from(data) {
                    Token::Slot { index, generation } => self.ready(index, generation, flags),
                    Token::Listener(number) => self.accept(number, ACCEPT_MAX)?,
                    Token::Mailbox => self.mail()?,
                }
            }
            for _ in 0..self.again.len() {
                let Some((index, generation)) = self.again.pop_front() else { break };
                self.requeue(index, generation);
            }
            while let Some(index) = self.worker.next_loaded() {
                self.turn(index);
            }
            while let Some(index) = self.worker.next_expired() {
                self.turn(index);
            }
            while let Some(index) = self.worker.next_shed() {
                self.turn(index);
            }
            self.worker.commons.retire();
            if self.worker.is_over() {
                return Ok(());
            }
        }
    }

    fn wait(&self, events: &mut [Event]) -> Result<usize, Errno> {
        let wait =
            if self.again.is_empty() { self.worker.wait_ms().map(timespec) } else { Some(timespec(0)) };
        epoll::wait(&self.epoll, events, wait.as_ref())
    }

    /// The kernel tells of a connection, or of one that had this slot before.
    #[inline]
    fn ready(&mut self, index: u32, generation: u32, flags: EventFlags) {
        if self.worker.slots.generation(index) != generation {
            return;
        }
        let Some(slot) = self.worker.slots.get_mut(index) else { return };
        // What has failed is found by reading or writing.
        let failed = flags.intersects(EventFlags::ERR | EventFlags::HUP);
        slot.state.hung |= flags.contains(EventFlags::RDHUP) | failed;
        slot.state.readable |= flags.contains(EventFlags::IN) | slot.state.hung;
        slot.state.writable |= flags.contains(EventFlags::OUT) | failed;
        // One that has had its turn waits for the next round, however much its client sends.
        if !slot.state.queued {
            self.turn(index);
        }
    }

    /// A turn without an event.
    fn requeue(&mut self, index: u32, generation: u32) {
        if self.worker.slots.generation(index) == generation
            && let Some(slot) = self.worker.slots.get_mut(index)
        {
            slot.state.queued = false;
            self.turn(index);
        }
    }

    #[inline]
    fn turn(&mut self, index: u32) {
        let Worker { slots, commons, .. } = &mut self.worker;
        let Some(slot) = slots.get_mut(index) else { return };
        match ready::turn(commons, slot) {
            Ok(after) => {
                match after {
                    After::Wait => {}
                    After::Again => {
                        if !mem::replace(&mut slot.state.queued, true) {
                            self.again.push_back((index, slots.generation(index)));
                        }
                    }
                    After::Load(cold) => self.worker.load(index, cold),
                }
                self.worker.mind_deadline(index);
            }
            Err(ready::Over) => self.worker.remove(index),
        }
    }

    fn accept(&mut self, number: usize, count_max: usize) -> io::Result<()> {
        for _ in 0..count_max {
            if !self.worker.may_accept() {
                break;
            }
            let Some(listener) = self.worker.listeners.get(number) else { break };
            match accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Ok(fd) => self.accepted(fd),
                Err(Errno::AGAIN) => break,
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => self.worker.shut_gate(),
                Err(error) if is_fatal(error) => return Err(error.into()),
                // The client has gone again, or accept(2) reports an error of the network that is its own.
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Takes the first turn before the connection is registered: often the request has come with it, and a
    /// connection for one request is never registered at all.
    fn accepted(&mut self, fd: OwnedFd) {
        let index = self.worker.insert(fd);
        self.turn(index);
        let generation = self.worker.slots.generation(index);
        let Some(slot) = self.worker.slots.get_mut(index) else { return };
        let both = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        let data = Token::Slot { index, generation }.data();
        if epoll::add(&self.epoll, &slot.fd, data, both).is_err() {
            // Out of memory, or of watches for this user: this client is let go, the others live.
            self.worker.remove(index);
            self.worker.shut_gate();
        }
    }

    fn mail(&mut self) -> io::Result<()> {
        if self.worker.read_mail() {
            // Who is in the backlog has begun: closing the listener would reset them.
            for number in 0..self.worker.listeners.len() {
                self.accept(number, BACKLOG as usize)?;
            }
            // Whoever handed a listener over may have kept it, and with it its registration.
            for listener in self.worker.listeners.drain(..) {
                if self.listening {
                    epoll::delete(&self.epoll, &listener)?;
                }
            }
            self.listening = false;
            for index in self.worker.slots.indices() {
                self.stop(index);
            }
        }
        Ok(())
    }

    /// What has arrived by now has begun; nothing else will begin.
    fn stop(&mut self, index: u32) {
        if let Some(slot) = self.worker.slots.get_mut(index) {
            slot.state.readable = true;
        }
        self.turn(index);
        let Worker { slots, commons, .. } = &mut self.worker;
        if let Some(slot) = slots.get_mut(index) {
            slot.conn.stop(&mut commons.cx());
            self.turn(index);
        }
    }

    /// Registers the listeners while connections may be accepted, and only then.
    #[inline]
    fn mind_gate(&mut self) -> io::Result<()> {
        let open = self.worker.may_accept();
        if open == self.listening {
            return Ok(());
        }
        for (number, listener) in self.worker.listeners.iter().enumerate() {
            if open {
                // Exclusive: of several workers that share a listener, not all are woken for one client.
                let flags = EventFlags::IN | EventFlags::EXCLUSIVE;
                match epoll::add(&self.epoll, listener, Token::Listener(number).data(), flags) {
                    Ok(()) => {}
                    // What is lacking now may be there later.
                    Err(Errno::NOMEM | Errno::NOSPC) => {
                        for added in &self.worker.listeners[..number] {
                            epoll::delete(&self.epoll, added)?;
                        }
                        self.worker.shut_gate();
                        return Ok(());
                    }
                    Err(error) => return Err(error.into()),
                }
            } else {
                epoll::delete(&self.epoll, listener)?;
            }
        }
        self.listening = open;
        Ok(())
    }
}

/// Whom an event is about, in the 64 bits that the kernel keeps for it.
enum Token {
    Slot { index: u32, generation: u32 },
    Listener(usize),
    Mailbox,
}

impl Token {
    fn data(self) -> EventData {
        EventData::new_u64(match self {
            Token::Slot { index, generation } => (generation as u64) << 32 | index as u64,
            Token::Listener(number) => LISTENER | number as u64,
            Token::Mailbox => MAILBOX,
        })
    }

    #[inline]
    fn from(data: EventData) -> Token {
        let data = data.u64();
        match data as u32 {
            index if index < SLOT_COUNT_MAX => Token::Slot { index, generation: (data >> 32) as u32 },
            _ if data == MAILBOX => Token::Mailbox,
            number => Token::Listener((number - SLOT_COUNT_MAX) as usize),
        }
    }
}

/// Slots are numbered below this; a process cannot have as many descriptors.
const SLOT_COUNT_MAX: u32 = 1 << 31;
const LISTENER: u64 = SLOT_COUNT_MAX as u64;
const MAILBOX: u64 = u64::MAX;
