//! What other threads of the helper leave for its event loop.

use super::resolve::Addresses;
use crate::{
    control::helpers::ReplySender,
    data::upstreams::connect::{ConnectOutcome, ConnectRequest},
    sys::wake::Wake,
};
use std::{
    io, mem,
    os::fd::{AsFd, BorrowedFd},
    sync::{Mutex, PoisonError},
};

/// The inbox of the event loop.
#[derive(Debug)]
pub(super) struct Inbox {
    items: Mutex<Vec<InboxItem>>,
    wake: Wake,
}

/// Something for the event loop.
#[derive(Debug)]
pub(super) enum InboxItem {
    /// A worker wants a connection.
    Request(ConnectRequest, ReplySender<ConnectOutcome>),
    /// The name of a server was looked up.
    Addresses(usize, Addresses),
}

impl Inbox {
    pub(super) fn new() -> io::Result<Inbox> {
        Ok(Inbox { items: Mutex::default(), wake: Wake::new()? })
    }

    pub(super) fn push(&self, item: InboxItem) {
        self.items.lock().unwrap_or_else(PoisonError::into_inner).push(item);
        self.wake.wake();
    }

    /// Takes all items, the oldest first.
    pub(super) fn take(&self) -> Vec<InboxItem> {
        // Cleared first: an item pushed in between wakes the loop again.
        self.wake.clear();
        mem::take(&mut *self.items.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl AsFd for Inbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}
