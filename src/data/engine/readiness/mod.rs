//! The event loop of the readiness engines, over a selector: epoll, poll or kqueue.
//!
//! ```text
//! wait ─▶ mailbox, new clients, sockets that are ready ─▶ slots to drive again ─▶ loaded, expired, evicted ─┐
//!   ▲                                                                                                        │
//!   └────────────────────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! The slot remembers the readiness of its socket; events only add to it. Listeners are watched only while the worker may accept, so
//! that a process out of descriptors does not spin.

pub(super) mod drive;
#[cfg(target_os = "linux")]
pub(super) mod epoll;
#[cfg(not(target_os = "linux"))]
pub(super) mod kqueue;
pub(super) mod poll;
mod token;

use super::{Closed, NextDrive, WorkerReady, accept};
use crate::{
    data::worker::{SlotId, Worker, WorkerConfig, mailbox::ShutdownMode},
    sys::BACKLOG,
};
use drive::Readiness;
use rustix::io::Errno;
use std::{
    collections::VecDeque,
    io, mem,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

/// A system call interface to wait for many sockets. Events may be out of date; the calls that follow find out.
pub(super) trait Selector: Sized {
    fn new() -> io::Result<Self>;

    /// Watches the mailbox, level triggered.
    fn watch_mailbox(&mut self, mailbox: BorrowedFd<'_>) -> io::Result<()>;

    /// Watches a listener, level triggered, until [`unwatch_listener`](Selector::unwatch_listener).
    fn watch_listener(&mut self, number: usize, listener: BorrowedFd<'_>) -> Result<(), Errno>;

    fn unwatch_listener(&mut self, number: usize, listener: BorrowedFd<'_>) -> Result<(), Errno>;

    /// Watches an accepted connection after its first drive.
    fn watch_slot(&mut self, id: SlotId, socket: BorrowedFd<'_>, readiness: &Readiness) -> Result<(), Errno>;

    /// Updates the known readiness of a connection after a drive. It may not be watched yet.
    fn update_slot(&mut self, id: SlotId, socket: BorrowedFd<'_>, readiness: &Readiness)
    -> Result<(), Errno>;

    /// Stops watching a connection that is about to be closed, or was never watched.
    fn unwatch_slot(&mut self, index: u32);

    /// Waits for at most `wait_ms` milliseconds and returns the number of events.
    fn wait(&mut self, wait_ms: Option<u64>) -> Result<usize, Errno>;

    /// Returns an event of the last wait.
    fn event(&self, number: usize) -> ReadyEvent;
}

/// An event of the kernel.
#[derive(Clone, Copy)]
pub(super) enum ReadyEvent {
    Mailbox,
    /// A client waits at the listener of this number.
    Client(usize),
    /// The readiness of a socket.
    Ready {
        id: SlotId,
        readable: bool,
        writable: bool,
        /// The client has closed its side.
        hung_up: bool,
        /// The next read or write returns the error.
        failed: bool,
    },
}

/// Runs a worker until it has shut down.
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
    /// Slots to drive again without an event.
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
                    ReadyEvent::Client(number) => self.accept(number, accept::ACCEPT_MAX)?,
                    ReadyEvent::Mailbox => self.read_mailbox()?,
                }
            }
            for _ in 0..self.again.len() {
                let Some(id) = self.again.pop_front() else { break };
                self.requeue(id);
            }
            while let Some(index) = self.worker.next_resumed() {
                self.drive(index);
            }
            while let Some(index) = self.worker.next_expired() {
                self.drive(index);
            }
            while let Some(index) = self.worker.next_evicted(0) {
                self.drive(index);
            }
            for _ in 0..self.worker.woken_count() {
                let Some(index) = self.worker.next_woken() else { break };
                self.drive(index);
            }
            while let Some(index) = self.worker.next_backend(true) {
                self.start(index);
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

    /// Handles readiness of a connection, or of an earlier one in the same slot.
    #[inline]
    fn ready(&mut self, id: SlotId, readable: bool, writable: bool, hung_up: bool, failed: bool) {
        let Some(slot) = self.worker.slots.find(id) else { return };
        slot.state.add(readable, writable, hung_up, failed);
        // A queued slot waits for the next iteration, however much its client sends.
        if !slot.state.queued {
            self.drive(id.index);
        }
    }

    /// Drives a queued slot.
    fn requeue(&mut self, id: SlotId) {
        if let Some(slot) = self.worker.slots.find(id) {
            slot.state.queued = false;
            self.drive(id.index);
        }
    }

    fn drive(&mut self, index: u32) {
        let EventLoop { selector, worker, again, .. } = self;
        let driven = worker.drive(index, |context, slot| {
            let next = drive::drive(context, slot)?;
            // Fails out of memory: no event would tell when to send the rest.
            selector.update_slot(slot.id(index), slot.fd.as_fd(), &slot.state).map_err(|_| Closed)?;
            if matches!(next, NextDrive::Again) && !mem::replace(&mut slot.state.queued, true) {
                again.push_back(slot.id(index));
            }
            Ok(next)
        });
        match driven {
            None | Some(Ok(NextDrive::Wait | NextDrive::Again)) => {}
            Some(Ok(NextDrive::Load(missing))) => self.worker.load(index, *missing),
            Some(Ok(NextDrive::Handshake(step))) => self.worker.hand_off(index, step),
            Some(Ok(NextDrive::Verify(job))) => self.worker.verify(index, job),
            Some(Err(Closed)) => self.remove(index),
        }
    }

    fn remove(&mut self, index: u32) {
        self.selector.unwatch_slot(index);
        self.worker.remove(index);
    }

    fn accept(&mut self, number: usize, count_max: usize) -> io::Result<()> {
        for _ in 0..count_max {
            let Some(fd) = accept::accept(&mut self.worker, number)? else { break };
            self.accepted(fd, number);
        }
        Ok(())
    }

    /// Drives a new connection before it is watched: often the request has arrived with it, and a connection for one request is then
    /// never watched at all.
    fn accepted(&mut self, fd: OwnedFd, listener: usize) {
        if let Some(index) = self.worker.insert(fd, listener) {
            self.start(index);
        }
    }

    /// Drives a new connection, and watches it then.
    fn start(&mut self, index: u32) {
        self.drive(index);
        let Some(slot) = self.worker.slots.get_mut(index) else { return };
        if self.selector.watch_slot(slot.id(index), slot.fd.as_fd(), &slot.state).is_err() {
            // Out of memory, or of watches for this user: the worker closes this connection and keeps the others.
            self.remove(index);
            self.worker.back_off_accepting();
        }
    }

    fn read_mailbox(&mut self) -> io::Result<()> {
        let Some(shutdown_mode) = self.worker.read_messages() else { return Ok(()) };
        // Unwatched first: the worker would have to serve a client that the kernel reports to it alone. A process that handed the
        // listener over may still hold it, and with it the registration.
        if self.listening {
            for (number, listener) in self.worker.listeners.iter().enumerate() {
                self.selector.unwatch_listener(number, listener.as_fd())?;
            }
        }
        self.listening = false;
        // Accepts all clients in the accept queue: closing the listener would reset them, and the kernel may have woken no other
        // worker for them.
        for number in 0..self.worker.listeners.len() {
            self.accept(number, BACKLOG as usize)?;
        }
        self.worker.listeners.clear();
        for index in self.worker.slots.indices() {
            match shutdown_mode {
                ShutdownMode::Drain => self.drain(index),
                ShutdownMode::Stop => self.stop(index),
            }
        }
        Ok(())
    }

    /// Has one connection announce its end.
    fn drain(&mut self, index: u32) {
        let Worker { slots, context, .. } = &mut self.worker;
        if let Some(slot) = slots.get_mut(index) {
            slot.conn.drain(&mut context.conn_resources());
            self.drive(index);
        }
    }

    /// Stops one connection: finishes requests that have arrived, and takes no others.
    fn stop(&mut self, index: u32) {
        if let Some(slot) = self.worker.slots.get_mut(index) {
            slot.state.readable = true;
        }
        self.drive(index);
        let Worker { slots, context, .. } = &mut self.worker;
        if let Some(slot) = slots.get_mut(index) {
            slot.conn.stop(&mut context.conn_resources());
            self.drive(index);
        }
    }

    /// Watches the listeners only while the worker may accept.
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
                    // The resource may be available later.
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
