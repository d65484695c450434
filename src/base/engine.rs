//! The engines, by name: what a user chooses from. `data::engine` runs them.

use serde::{Deserialize, Serialize};
use std::{fmt, num::NonZeroUsize, str::FromStr, thread};

/// What drives the workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Engine {
    /// The best that the host offers: on Linux `IoUring`, else `Epoll`; on FreeBSD and macOS `Kqueue`.
    #[default]
    Auto,
    /// Completions: Linux 6.1 and newer, where the host does not forbid it.
    IoUring,
    /// Readiness, edge triggered: Linux.
    Epoll,
    /// Readiness, edge triggered: FreeBSD and macOS.
    Kqueue,
    /// Readiness, level triggered: any Unix. What it costs grows with the connections that are open.
    Poll,
    /// A thread for each connection that is open at once, from a pool: any Unix.
    Threads,
    /// The same with a process in the place of each thread. Not within another program.
    Prefork,
    /// A process for each connection, made when it comes. Not within another program.
    Fork,
}

/// An engine that was chosen, and why not a better one.
#[derive(Debug)]
pub struct ChosenEngine {
    /// Never `Auto`.
    pub engine: Engine,
    /// Why it is not io_uring, where that was wanted if possible.
    pub instead: Option<String>,
}

impl Engine {
    /// Every engine that this system has, the best first.
    #[cfg(target_os = "linux")]
    pub const ALL: &[Engine] =
        &[Engine::IoUring, Engine::Epoll, Engine::Poll, Engine::Threads, Engine::Prefork, Engine::Fork];

    /// Every engine that this system has, the best first.
    #[cfg(not(target_os = "linux"))]
    pub const ALL: &[Engine] =
        &[Engine::Kqueue, Engine::Poll, Engine::Threads, Engine::Prefork, Engine::Fork];

    /// The engines that run within another program, with threads: see [`Server`](crate::Server). All but the last two.
    pub const EMBEDDED: &[Engine] = Engine::ALL.split_at(Engine::ALL.len() - 2).0;

    /// The engines of all systems.
    const KNOWN: [Engine; 7] = [
        Engine::IoUring,
        Engine::Epoll,
        Engine::Kqueue,
        Engine::Poll,
        Engine::Threads,
        Engine::Prefork,
        Engine::Fork,
    ];

    /// Returns the name that the option `engine` takes.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Auto => "auto",
            Engine::IoUring => "io_uring",
            Engine::Epoll => "epoll",
            Engine::Kqueue => "kqueue",
            Engine::Poll => "poll",
            Engine::Threads => "threads",
            Engine::Prefork => "prefork",
            Engine::Fork => "fork",
        }
    }

    /// Whether [`Auto`](Engine::Auto) may mean this engine.
    pub(crate) fn may_be_auto(self) -> bool {
        matches!(self, Engine::IoUring | Engine::Epoll | Engine::Kqueue)
    }

    /// Returns the number of workers that the engine has by default.
    pub fn default_worker_count(self) -> NonZeroUsize {
        match self {
            Engine::Threads | Engine::Prefork => POOL_LEN,
            Engine::Fork => FORK_MAX,
            _ => thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
        }
    }

    /// Returns how many sockets listen at each address for so many workers. Blocking workers share one socket, so that a client never
    /// waits for a busy worker while another one is idle.
    pub(crate) fn socket_count(self, worker_count: NonZeroUsize) -> usize {
        if self.is_blocking() { 1 } else { worker_count.get() }
    }

    /// Whether each worker serves one connection at a time, with blocking calls.
    pub const fn is_blocking(self) -> bool {
        matches!(self, Engine::Threads | Engine::Prefork | Engine::Fork)
    }
}

/// Workers that serve one connection each: enough for the connections of a few browsers, at little cost.
const POOL_LEN: NonZeroUsize = NonZeroUsize::new(64).unwrap();

/// The maximum of processes that serve one connection each. Each costs the memory of its page tables.
const FORK_MAX: NonZeroUsize = NonZeroUsize::new(256).unwrap();

impl FromStr for Engine {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Engine, &'static str> {
        let mut engines = [Engine::Auto].into_iter().chain(Engine::KNOWN);
        let expected = "expected auto, io_uring, epoll, kqueue, poll, threads, prefork or fork";
        engines.find(|engine| engine.name() == text).ok_or(expected)
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
