//! Engines: the only code that waits for the kernel. Each drives the same `Connection`.
//!
//! An engine knows descriptors, readiness and bytes; it does not know methods, fields or status codes.

mod epoll;
mod ready;

use crate::worker::Worker;
use std::io;

/// Which engine drives the workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// Readiness, edge triggered: Linux.
    #[default]
    Epoll,
}

impl Engine {
    /// The name that users know it by.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Epoll => "epoll",
        }
    }

    /// Runs a worker until it is told to stop.
    pub(crate) fn run(self, worker: Worker) -> io::Result<()> {
        match self {
            Engine::Epoll => epoll::run(worker),
        }
    }
}
