//! The event_loop of a worker under readiness, whoever tells of it: epoll, poll, kqueue.
//!
//! ```text
//! wait ─▶ mail, new clients, sockets that are ready ─▶ who has more to do ─▶ what was read, times, shortage ─┐
//!   ▲                                                                                                        │
//!   └────────────────────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! What a socket can do is remembered in its slot, and what the kernel tells only adds to it. Listeners are watched while
//! clients may be accepted, and only then, so that a process out of descriptors does not spin.

pub(super) mod drive;
#[cfg(target_os = "linux")]
pub(super) mod epoll;
#[cfg(not(target_os = "linux"))]
pub(super) mod kqueue;
pub(super) mod poll;
mod token;

use super::{WorkerReady, accept};
use crate::{
    data::worker::{Worker, WorkerConfig, mailbox::ShutdownMode},
    sys::BACKLOG,
};
use drive::{NextDrive, Readiness};
use rustix::io::Errno;
use std::{
    collections::VecDeque,
    io, mem,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

/// A kernel's way to wait for many sockets at once. What it tells may be out of date or untrue of this moment; the calls that follow
/// find out.
pub(super) trait Selector: Sized {
    fn new() -> io::Result<Self>;

    /// Watches the mailbox, level triggered.
    fn watch_mailbox(&mut self, mailbox: BorrowedFd<'_>) -> io::Result<()>;

    /// Watches a listener, level triggered, until [`unwatch_listener`](Selector::unwatch_listener).
    fn watch_listener(&mut self, number: usize, listener: BorrowedFd<'_>) -> Result<(), Errno>;

    fn unwatch_listener(&mut self, number: usize, listener: BorrowedFd<'_>) -> Result<(), Errno>;

    /// Watches a connection that was accepted and has had its first turn.
    fn watch_slot(&mut self, id: SlotId, socket: BorrowedFd<'_>, readiness: &Readiness) -> Result<(), Errno>;

    /// What is known of a connection after its turn.
    fn update_slot(&mut self, index: u32, readiness: &Readiness);

    /// A connection is about to be closed; it may not be watched yet.
    fn unwatch_slot(&mut self, index: u32);

    /// Waits, for so many milliseconds at most, and returns how many there are to tell of.
    fn wait(&mut self, wait_ms: Option<u64>) -> Result<usize, Errno>;

    /// What the last wait has brought.
    fn event(&self, number: usize) -> ReadyEvent;
}

/// A connection, and not one that has its slot later.
#[derive(Clone, Copy)]
pub(super) struct SlotId {
    pub(super) index: u32,
    pub(super) generation: u32,
}

/// What the kernel tells.
#[derive(Clone, Copy)]
pub(super) enum ReadyEvent {
    Mailbox,
    /// Somebody connects to the listener of this number.
    Client(usize),
    /// What a socket can do.
    Ready {
        id: SlotId,
        readable: bool,
        writable: bool,
        /// The client has closed its side.
        hung_up: bool,
        /// How is found by reading or writing.
        failed: bool,
    },
}

/// Connections accepted in one go, so that those already open are not kept waiting.
const ACCEPT_MAX: usize = 64;

/// Runs a worker until it is told to stop.
pub(super) fn run<S: Selector>(config: WorkerConfig, ready: WorkerReady) -> io::Result<()> {
    accept::set_nonblocking(&config.listeners)?;
    let mut event_loop = EventLoop {
        selector: S::new()?,
        worker: Worker::new(config),
        listening: false,
        again: VecDeque::new(),
    };
    event_loop.selector.watch_mailbox(event_loop.worker.mailbox.as_fd())?;
    ready.signal();
    event_loop.run()
}

struct EventLoop<S> {
    selector: S,
    worker: Worker<Readiness>,
    /// The listeners are watched.
    listening: bool,
    /// Slots that have more to do although no event will tell.
    again: VecDeque<SlotId>,
}

impl<S: Selector> EventLoop<S> {
    fn run(&mut self) -> io::Result<()> {
        loop {
            self.update_accepting()?;
            let count = match self.wait() {
                Err(Errno::INTR) => 0,
                count => count?,
            };
            self.worker.update_time();
            for number in 0..count {
                match self.selector.event(number) {
                    ReadyEvent::Ready { id, readable, writable, hung_up, failed } => {
                        self.ready(id, readable, writable, hung_up, failed);
                    }
                    ReadyEvent::Client(number) => self.accept(number, ACCEPT_MAX)?,
                    ReadyEvent::Mailbox => self.read_mailbox()?,
                }
            }
            for _ in 0..self.again.len() {
                let Some(id) = self.again.pop_front() else { break };
                self.requeue(id);
            }
            while let Some(index) = self.worker.next_loaded() {
                self.drive(index);
            }
            while let Some(index) = self.worker.next_expired() {
                self.drive(index);
            }
            while let Some(index) = self.worker.next_evicted() {
                self.drive(index);
            }
            self.worker.end_batch();
            if self.worker.is_finished() {
                return Ok(());
            }
        }
    }

    fn wait(&mut self) -> Result<usize, Errno> {
        let wait_ms = if self.again.is_empty() { self.worker.wait_ms() } else { Some(0) };
        self.selector.wait(wait_ms)
    }

    /// The kernel tells of a connection, or of one that had this slot before.
    #[inline]
    fn ready(&mut self, id: SlotId, readable: bool, writable: bool, hung_up: bool, failed: bool) {
        let SlotId { index, generation } = id;
        if self.worker.slots.generation(index) != generation {
            return;
        }
        let Some(slot) = self.worker.slots.get_mut(index) else { return };
        slot.state.add(readable, writable, hung_up, failed);
        // One that has had its turn waits for the next round, however much its client sends.
        if !slot.state.queued {
            self.drive(index);
        }
    }

    /// A turn without an event.
    fn requeue(&mut self, SlotId { index, generation }: SlotId) {
        if self.worker.slots.generation(index) == generation
            && let Some(slot) = self.worker.slots.get_mut(index)
        {
            slot.state.queued = false;
            self.drive(index);
        }
    }

    #[inline]
    fn drive(&mut self, index: u32) {
        let Worker { slots, context, .. } = &mut self.worker;
        let Some(slot) = slots.get_mut(index) else { return };
        match drive::drive(context, slot) {
            Ok(after) => {
                match after {
                    NextDrive::Wait => {}
                    NextDrive::Again => {
                        if !mem::replace(&mut slot.state.queued, true) {
                            self.again.push_back(SlotId { index, generation: slots.generation(index) });
                        }
                    }
                    NextDrive::Load(missing) => self.worker.load(index, missing),
                }
                self.after_drive(index);
            }
            Err(drive::Closed) => self.remove(index),
        }
    }

    #[inline]
    fn after_drive(&mut self, index: u32) {
        if let Some(slot) = self.worker.slots.get_mut(index) {
            self.selector.update_slot(index, &slot.state);
        }
        self.worker.update_deadline(index);
    }

    fn remove(&mut self, index: u32) {
        self.selector.unwatch_slot(index);
        self.worker.remove(index);
    }

    fn accept(&mut self, number: usize, count_max: usize) -> io::Result<()> {
        for _ in 0..count_max {
            let Some(fd) = accept::accept(&mut self.worker, number)? else { break };
            self.accepted(fd);
        }
        Ok(())
    }

    /// Takes the first turn before the connection is watched: often the request has come with it, and a connection for
    /// one request is never watched at all.
    fn accepted(&mut self, fd: OwnedFd) {
        let index = self.worker.insert(fd);
        self.drive(index);
        let generation = self.worker.slots.generation(index);
        let Some(slot) = self.worker.slots.get_mut(index) else { return };
        let id = SlotId { index, generation };
        if self.selector.watch_slot(id, slot.fd.as_fd(), &slot.state).is_err() {
            // Out of memory, or of watches for this user: this client is let go, the others live.
            self.remove(index);
            self.worker.back_off_accepting();
        }
    }

    fn read_mailbox(&mut self) -> io::Result<()> {
        let Some(shutdown_mode) = self.worker.read_messages() else { return Ok(()) };
        // First of all it is not told of clients any more: one for whom the kernel wakes it alone, it has to serve. Whoever handed a
        // listener over may have kept it, and with it its registration.
        if self.listening {
            for (number, listener) in self.worker.listeners.iter().enumerate() {
                self.selector.unwatch_listener(number, listener.as_fd())?;
            }
        }
        self.listening = false;
        // Who is in the backlog has begun. Closing the listener would reset them; and where others accept on it too, the kernel
        // may have told nobody else of them.
        for number in 0..self.worker.listeners.len() {
            self.accept(number, BACKLOG as usize)?;
        }
        self.worker.listeners.clear();
        for index in self.worker.slots.indices() {
            match shutdown_mode {
                ShutdownMode::Drain => self.worker.slots.get_mut(index).expect("it is in use").conn.drain(),
                ShutdownMode::Stop => self.stop(index),
            }
        }
        Ok(())
    }

    /// What has arrived by now has begun; nothing else will begin.
    fn stop(&mut self, index: u32) {
        if let Some(slot) = self.worker.slots.get_mut(index) {
            slot.state.readable = true;
        }
        self.drive(index);
        let Worker { slots, context, .. } = &mut self.worker;
        if let Some(slot) = slots.get_mut(index) {
            slot.conn.stop(&mut context.cx());
            self.drive(index);
        }
    }

    /// Watches the listeners while connections may be accepted, and only then.
    #[inline]
    fn update_accepting(&mut self) -> io::Result<()> {
        let open = self.worker.may_accept();
        if open == self.listening {
            return Ok(());
        }
        for (number, listener) in self.worker.listeners.iter().enumerate() {
            if open {
                match self.selector.watch_listener(number, listener.as_fd()) {
                    Ok(()) => {}
                    // What is lacking now may be there later.
                    Err(Errno::NOMEM | Errno::NOSPC) => {
                        for (number, added) in self.worker.listeners[..number].iter().enumerate() {
                            self.selector.unwatch_listener(number, added.as_fd())?;
                        }
                        self.worker.back_off_accepting();
                        return Ok(());
                    }
                    Err(error) => return Err(error.into()),
                }
            } else {
                self.selector.unwatch_listener(number, listener.as_fd())?;
            }
        }
        self.listening = open;
        Ok(())
    }
}
