//! Engines: the only code that waits for the kernel. Each drives the same `Connection`.
//!
//! An engine knows descriptors, readiness and bytes; it does not know methods, fields or status codes.

#[deny(unsafe_code)]
mod blocking;
#[deny(unsafe_code)]
mod door;
#[deny(unsafe_code)]
mod epoll;
#[deny(unsafe_code)]
mod poll;
#[deny(unsafe_code)]
mod ready;
#[deny(unsafe_code)]
mod round;
mod uring;

use crate::{
    error::{Trouble, reason},
    worker::Outfit,
};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::{convert::Infallible, fmt, io, num::NonZeroUsize, str::FromStr, sync::mpsc::Sender, thread};

/// What drives the workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Engine {
    /// The best that the host offers: `IoUring`, else `Epoll`.
    #[default]
    Auto,
    /// Completions: Linux 6.1 and newer, where the host does not forbid it.
    IoUring,
    /// Readiness, edge triggered: Linux.
    Epoll,
    /// Readiness, level triggered: any Unix. What it costs grows with the connections that are open.
    Poll,
    /// A thread for each connection that is open at once, from a pool: any Unix.
    Threads,
}

/// Dropped by a worker that has all it needs from the kernel, or will never have it.
pub(crate) type Begun = Sender<Infallible>;

/// An engine that was chosen, and why not a better one.
#[derive(Debug)]
pub struct Chosen {
    /// Never `Auto`.
    pub engine: Engine,
    /// Why it is not io_uring, where that was wanted if possible.
    pub instead: Option<String>,
}

impl Engine {
    /// Every engine there is.
    pub const ALL: [Engine; 4] = [Engine::IoUring, Engine::Epoll, Engine::Poll, Engine::Threads];

    /// The name that users know it by.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Auto => "auto",
            Engine::IoUring => "io_uring",
            Engine::Epoll => "epoll",
            Engine::Poll => "poll",
            Engine::Threads => "threads",
        }
    }

    /// Tries what this host offers.
    ///
    /// # Errors
    /// It does not offer this engine.
    pub fn choose(self) -> Result<Chosen, Trouble> {
        let engine = match (self, uring::probe()) {
            (Engine::Epoll | Engine::Poll | Engine::Threads, _) => self,
            (_, Ok(())) => Engine::IoUring,
            (Engine::Auto, Err(error)) => {
                return Ok(Chosen { engine: Engine::Epoll, instead: Some(refusal(&error)) });
            }
            (Engine::IoUring, Err(error)) => {
                let remedy = "take --engine epoll, or auto, which does so by itself";
                return Err(Trouble::new("cannot use io_uring", refusal(&error), remedy));
            }
        };
        Ok(Chosen { engine, instead: None })
    }

    /// How many workers it has where nobody says so.
    pub fn usual_worker_count(self) -> NonZeroUsize {
        match self {
            Engine::Threads => POOL_LEN,
            _ => thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
        }
    }

    /// Whether each worker serves one connection at a time. Then they share each listening socket, so that nobody waits for
    /// one who is busy while another is free; and each waits for the disk itself.
    pub(crate) fn is_one_at_a_time(self) -> bool {
        matches!(self, Engine::Threads)
    }

    /// Runs a worker until it is told to stop.
    pub(crate) fn run(self, outfit: Outfit, begun: Begun) -> io::Result<()> {
        match self {
            Engine::Auto => unreachable!("chosen before a worker runs"),
            Engine::IoUring => uring::run(outfit, begun),
            Engine::Epoll => round::run::<epoll::Epoll>(outfit, begun),
            Engine::Poll => round::run::<poll::Poll>(outfit, begun),
            Engine::Threads => blocking::run(outfit, begun),
        }
    }
}

/// Workers that serve one connection each: enough for the connections of some browsers, and what they cost is small.
const POOL_LEN: NonZeroUsize = NonZeroUsize::new(64).unwrap();

/// Why there is no ring.
fn refusal(error: &io::Error) -> String {
    match Errno::from_io_error(error) {
        Some(Errno::PERM | Errno::ACCESS) => "this host forbids it".to_owned(),
        Some(Errno::NOSYS) => "this kernel does not have it".to_owned(),
        Some(Errno::INVAL) => "this kernel is older than Linux 6.1".to_owned(),
        _ => reason(error),
    }
}

/// Whether an error of accept says that the listener itself is of no use.
fn is_fatal(error: Errno) -> bool {
    matches!(error, Errno::BADF | Errno::INVAL | Errno::NOTSOCK | Errno::FAULT)
}

impl FromStr for Engine {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Engine, &'static str> {
        let mut engines = [Engine::Auto].into_iter().chain(Engine::ALL);
        engines.find(|engine| engine.name() == text).ok_or("expected auto, io_uring, epoll, poll or threads")
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
