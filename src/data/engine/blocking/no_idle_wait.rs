//! Systems where idle workers wait in poll(2): the kernel offers no wait that one client ends for one worker only.

use rustix::io::Errno;
use std::{
    io,
    os::fd::{AsFd, OwnedFd},
};

/// There is none.
pub(crate) enum IdleWait {}

/// What an idle worker waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(dead_code, reason = "there is no wait that reports them")]
pub(super) enum IdleEvent {
    Mailbox,
    Client(usize),
}

impl IdleWait {
    /// Returns `None`.
    pub(crate) fn create() -> io::Result<Option<IdleWait>> {
        Ok(None)
    }

    pub(super) fn watch(&self, _mailbox: impl AsFd, _listeners: &[OwnedFd]) -> Result<(), Errno> {
        match *self {}
    }

    pub(super) fn wait(&self, _wait_ms: Option<u64>) -> Result<Option<IdleEvent>, Errno> {
        match *self {}
    }
}
