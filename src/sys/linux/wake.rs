//! A wake-up that any thread can trigger, as a pollable descriptor: eventfd(2).

use rustix::event::{EventfdFlags, eventfd};
use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

/// Readable from [`wake`](Wake::wake) to [`clear`](Wake::clear).
#[derive(Debug)]
pub(crate) struct Wake(OwnedFd);

impl Wake {
    pub(crate) fn new() -> io::Result<Wake> {
        Ok(Wake(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    pub(crate) fn wake(&self) {
        // It fails only when the counter is full, and then it is readable anyway.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    pub(crate) fn clear(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
