//! The engine that only BSD and macOS have: kqueue.

#[deny(unsafe_code)]
mod kqueue;

use super::{Begun, Chosen, Engine, round};
use crate::worker::Outfit;
use std::io;

/// All that this system has, the best first.
pub(super) const ENGINES: &[Engine] =
    &[Engine::Kqueue, Engine::Poll, Engine::Threads, Engine::Prefork, Engine::Fork];

/// The best that this host offers.
pub(super) fn best() -> Chosen {
    Chosen { engine: Engine::Kqueue, instead: None }
}

/// Why this host does not offer an engine that this system has: it does.
pub(super) fn refusal(_engine: Engine) -> Option<String> {
    None
}

/// Runs a worker on one of these engines.
pub(super) fn run(engine: Engine, outfit: Outfit, begun: Begun) -> io::Result<()> {
    match engine {
        Engine::Kqueue => round::run::<kqueue::Kqueue>(outfit, begun),
        _ => unreachable!("{engine} was not chosen here"),
    }
}
