//! How the control plane speaks to a worker: it posts, and wakes the worker out of its wait.

use crate::site::Site;
use rustix::event::{EventfdFlags, eventfd};
use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// What a worker is told. It acts on it between two turns.
pub(crate) enum Message {
    /// Plan new exchanges from this site.
    Swap(Arc<Site>),
    /// Accept nothing more, finish what has begun, and end after `grace` at the latest.
    Stop { grace: Duration },
}

/// Messages to one worker.
pub(crate) struct Mailbox {
    messages: Mutex<Vec<Message>>,
    /// Readable when there are messages.
    wake: OwnedFd,
}

impl Mailbox {
    pub(crate) fn new() -> io::Result<Mailbox> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Mailbox { messages: Mutex::new(Vec::new()), wake })
    }

    pub(crate) fn post(&self, message: Message) {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).push(message);
        // It fails only when the counter is full, and then the worker is being woken anyway.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// All messages, oldest first.
    pub(crate) fn take(&self) -> Vec<Message> {
        // In this order: a message posted in between wakes the worker again.
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
        std::mem::take(&mut *self.messages.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl AsFd for Mailbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}
