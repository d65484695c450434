//! Processes without threads, begun beforehand, of which each accepts for itself and runs [`blocking`]: one connection at a time.
//!
//! ```text
//! control ─┬─ worker ─ accept, serve, accept, serve …  ┐
//!          ├─ worker ─ accept, serve, …                ├ the same listening sockets
//!          └─ worker ─ …                               ┘
//! ```
//!
//! What makes the processes, and makes another where one has ended, is in `supervisor/crew`.

use super::{Begun, blocking};
use crate::worker::Outfit;
use std::{io, sync::mpsc::channel};

/// Runs a worker until it is told to stop.
pub(crate) fn run(outfit: Outfit) -> io::Result<()> {
    // Its parent does not wait until it has begun: clients wait in the backlog.
    let (begun, _) = channel();
    blocking::run(outfit, Begun(begun))
}
