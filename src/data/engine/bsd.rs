//! The engine that only BSD and macOS have: kqueue.

use super::{ChosenEngine, Engine, RingFeatures, WorkerReady, readiness};
use crate::data::worker::WorkerConfig;
use std::io;

/// Returns the best engine that this host offers.
pub(super) fn best() -> ChosenEngine {
    ChosenEngine { engine: Engine::Kqueue, fallback_reason: None }
}

/// Returns why this host does not offer an engine of this system. `None`: it does.
pub(super) fn refusal(_engine: Engine) -> Option<String> {
    None
}

/// This system has no rings.
pub(super) fn ring_features() -> io::Result<RingFeatures> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Runs a worker on one of these engines.
pub(super) fn run(engine: Engine, config: WorkerConfig, ready: WorkerReady) -> io::Result<()> {
    match engine {
        Engine::Kqueue => readiness::run::<readiness::kqueue::Kqueue>(config, ready),
        _ => unreachable!("{engine} was not chosen here"),
    }
}
