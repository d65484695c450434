//! Engines: the only code that waits for the kernel. Each drives the same `Connection`.
//!
//! An engine knows descriptors, readiness and bytes, but no methods, fields or status codes.

#[deny(unsafe_code)]
mod accept;
#[deny(unsafe_code)]
pub(crate) mod blocking;
#[deny(unsafe_code)]
mod readiness;
#[cfg_attr(target_os = "linux", path = "linux.rs")]
#[cfg_attr(not(target_os = "linux"), path = "bsd.rs")]
mod system;
#[cfg(target_os = "linux")]
mod uring;

use super::{
    password_threads::PasswordThreads,
    password_turns::PasswordTurns,
    worker::{MissingRange, PasswordJobs, WorkerConfig, handshakes::Handshakes, loader::Loader},
};
use crate::base::{
    engine::{ChosenEngine, Engine},
    error::UserError,
};
pub(crate) use accept::{AcceptedSocket, is_fatal};
use blocking::IdleWait;
use readiness::poll;
use std::{
    fs::File,
    io,
    sync::mpsc::{Sender, channel},
};
use tarpon_conn::{HandshakeStep, PasswordJob};

/// Reports that a worker has all kernel resources that it needs. If it is dropped unused, the worker failed to start.
pub(crate) struct WorkerReady(pub(crate) Sender<()>);

impl WorkerReady {
    /// Returns a report that no other thread waits for: clients of a worker process wait in the accept queue until it starts.
    pub(crate) fn unobserved() -> WorkerReady {
        WorkerReady(channel().0)
    }

    /// Reports that the worker is about to serve.
    pub(crate) fn signal(self) {
        // The receiver may be gone.
        let _ = self.0.send(());
    }
}

/// What an engine does after it has driven a connection.
enum NextDrive {
    /// Wait for the next event.
    Wait,
    /// Drive again, after other connections.
    Again,
    /// Load this range into memory, and drive again then.
    Load(Box<MissingRange>),
    /// Let another thread run this step of a handshake, and drive again then.
    Handshake(Box<HandshakeStep>),
    /// Verify this password, and drive again then.
    Verify(Box<PasswordJob>),
}

/// The connection has ended, in order or by an error: the engine closes it.
struct Closed;

#[cfg(test)]
mod tests;

/// What a ring of this system can do, beside what the engine needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RingFeatures {
    /// Operations that the kernel knows.
    pub(crate) operation_count: usize,
    /// Features of newer kernels.
    pub(crate) names: Vec<&'static str>,
}

/// Finds out what a ring of this system can do.
///
/// # Errors
/// The system has no io_uring, or forbids it.
pub(crate) fn ring_features() -> io::Result<RingFeatures> {
    system::ring_features()
}

impl Engine {
    /// Checks whether this host offers the engine, and chooses one for `auto`.
    ///
    /// # Errors
    /// This host does not offer the engine.
    pub fn choose(self) -> Result<ChosenEngine, UserError> {
        let refusal = match self {
            Engine::Auto => return Ok(system::best()),
            _ if !Engine::ALL.contains(&self) => Some("this system does not have it".to_owned()),
            _ => system::refusal(self),
        };
        match refusal {
            None => Ok(ChosenEngine { engine: self, fallback_reason: None }),
            Some(why) => {
                let hint = format!("take --engine {}, or auto", system::best().engine);
                Err(UserError::new(format_args!("cannot use {self}"), why, hint))
            }
        }
    }

    /// Starts the loader threads for the workers of this engine. `None`: workers of this engine block on disk reads.
    pub(crate) fn start_loader(self, dev_null: File) -> io::Result<Option<Loader>> {
        if self.is_blocking() {
            return Ok(None);
        }
        let (loader, threads) = Loader::new(dev_null);
        threads.start()?;
        Ok(Some(loader))
    }

    /// Starts the threads that run handshakes for the workers of this engine, one for each. `None`: a worker of this engine has one
    /// connection, and runs its handshake itself.
    pub(crate) fn start_handshakes(self, worker_count: usize) -> io::Result<Option<Handshakes>> {
        (!self.is_blocking()).then(|| Handshakes::start(worker_count)).transpose()
    }

    /// Returns what verifies passwords for the workers of this engine. `turns`: those of a worker with one connection, which does so itself.
    pub(crate) fn start_password_jobs(self, turns: &PasswordTurns) -> io::Result<PasswordJobs> {
        match self.is_blocking() {
            true => Ok(PasswordJobs::Here(turns.clone())),
            false => PasswordThreads::start().map(PasswordJobs::Threads),
        }
    }

    /// Runs a worker until it has shut down.
    pub(crate) fn run(self, config: WorkerConfig, ready: WorkerReady) -> io::Result<()> {
        match self {
            Engine::Auto => unreachable!("chosen before a worker runs"),
            Engine::Prefork | Engine::Fork => unreachable!("refused for threads"),
            Engine::IoUring | Engine::Epoll | Engine::Kqueue => system::run(self, config, ready),
            Engine::Poll => readiness::run::<poll::Poll>(config, ready),
            Engine::Threads => blocking::run(config, IdleWait::create()?, ready),
        }
    }
}
