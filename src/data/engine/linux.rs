//! The engines that only Linux has: io_uring, and epoll where the host forbids it.

use super::{ChosenEngine, Engine, RingFeatures, WorkerReady, readiness, uring};
use crate::{base::error::reason, data::worker::WorkerConfig};
use rustix::io::Errno;
use std::io;

/// Returns the best engine that this host offers.
pub(super) fn best() -> ChosenEngine {
    match refusal(Engine::IoUring) {
        None => ChosenEngine { engine: Engine::IoUring, fallback_reason: None },
        reason => ChosenEngine { engine: Engine::Epoll, fallback_reason: reason },
    }
}

/// Returns why this host does not offer an engine of this system. `None`: it does.
pub(super) fn refusal(engine: Engine) -> Option<String> {
    let error = match engine {
        Engine::IoUring => uring::probe().err()?,
        _ => return None,
    };
    Some(match Errno::from_io_error(&error) {
        Some(Errno::PERM | Errno::ACCESS) => "this host forbids it".to_owned(),
        Some(Errno::NOSYS) => "this kernel does not have it".to_owned(),
        // Older kernels do not count rings; newer ones count the rings of all processes of this user.
        Some(Errno::NOMEM) => "no room for another ring in the limit on locked memory, ulimit -l".to_owned(),
        Some(Errno::INVAL) => "this kernel is older than Linux 6.1".to_owned(),
        _ => reason(&error),
    })
}

/// Returns what a ring of this system can do.
pub(super) fn ring_features() -> io::Result<RingFeatures> {
    uring::features()
}

/// Runs a worker on one of these engines.
pub(super) fn run(engine: Engine, config: WorkerConfig, ready: WorkerReady) -> io::Result<()> {
    match engine {
        Engine::IoUring => uring::run(config, ready),
        Engine::Epoll => readiness::run::<readiness::epoll::Epoll>(config, ready),
        _ => unreachable!("{engine} was not chosen here"),
    }
}
