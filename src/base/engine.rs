//! The engines by name, as a user chooses them. `data::engine` implements them.

use std::{fmt, num::NonZeroUsize, str::FromStr, thread};

/// An engine: how workers do I/O and share connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "program", derive(serde::Serialize, serde::Deserialize))]
pub enum Engine {
    /// The best engine that the host supports: on Linux `IoUring`, else `Epoll`; on FreeBSD and macOS `Kqueue`.
    #[default]
    Auto,
    /// Completion-based I/O. Needs Linux 6.1 and a host that allows io_uring.
    IoUring,
    /// Readiness, edge-triggered. Linux only.
    Epoll,
    /// Readiness, edge-triggered. FreeBSD and macOS only.
    Kqueue,
    /// Readiness, level-triggered. Any Unix. Its cost grows with the number of open connections.
    Poll,
    /// A pool of threads; each serves one connection at a time with blocking calls. Any Unix.
    Threads,
    /// A pool of processes; each serves one connection at a time. Not available to an embedding program.
    Prefork,
    /// A new process for each connection. Not available to an embedding program.
    Fork,
}

/// The engine that a server runs, and why it is not a better one.
#[derive(Debug)]
pub struct ChosenEngine {
    /// The engine that runs: never `Auto`.
    pub engine: Engine,
    /// Why the engine is not io_uring, if `Auto` had to fall back on Linux.
    pub fallback_reason: Option<String>,
}

impl Engine {
    /// Every engine of this operating system, the best first.
    #[cfg(target_os = "linux")]
    pub const ALL: &[Engine] =
        &[Engine::IoUring, Engine::Epoll, Engine::Poll, Engine::Threads, Engine::Prefork, Engine::Fork];

    /// Every engine of this operating system, the best first.
    #[cfg(not(target_os = "linux"))]
    pub const ALL: &[Engine] =
        &[Engine::Kqueue, Engine::Poll, Engine::Threads, Engine::Prefork, Engine::Fork];

    /// The engines that an embedding program can use, as they need no processes of their own: all but the last two. See
    /// [`Server`](crate::Server).
    pub const EMBEDDED: &[Engine] = Engine::ALL.split_at(Engine::ALL.len() - 2).0;

    /// The engines of all operating systems.
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

    /// Returns whether [`Auto`](Engine::Auto) may choose this engine.
    pub(crate) fn may_be_auto(self) -> bool {
        matches!(self, Engine::IoUring | Engine::Epoll | Engine::Kqueue)
    }

    /// Returns the default number of workers of this engine.
    pub fn default_worker_count(self) -> NonZeroUsize {
        match self {
            Engine::Threads | Engine::Prefork => POOL_LEN,
            Engine::Fork => FORK_MAX,
            _ => thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
        }
    }

    /// Returns how many sockets listen at each address for `worker_count` workers. Blocking workers share one socket, so that a client
    /// never waits for a busy worker while another one is idle.
    pub(crate) fn socket_count(self, worker_count: NonZeroUsize) -> usize {
        if self.is_blocking() { 1 } else { worker_count.get() }
    }

    /// Returns whether each worker serves one connection at a time, with blocking calls.
    pub const fn is_blocking(self) -> bool {
        matches!(self, Engine::Threads | Engine::Prefork | Engine::Fork)
    }
}

/// Default size of the pools of `threads` and `prefork`: enough for the connections of a few browsers, at little cost.
const POOL_LEN: NonZeroUsize = NonZeroUsize::new(64).unwrap();

/// Default maximum of processes of `fork`. Each costs the memory of its page tables.
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
