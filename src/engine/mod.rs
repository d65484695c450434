//! Engines: the only code that waits for the kernel. Each drives the same `Connection`.
//!
//! An engine knows descriptors, readiness and bytes; it does not know methods, fields or status codes.

#[deny(unsafe_code)]
mod blocking;
#[deny(unsafe_code)]
mod door;
#[deny(unsafe_code)]
pub(crate) mod fork;
#[deny(unsafe_code)]
mod poll;
#[deny(unsafe_code)]
pub(crate) mod prefork;
#[deny(unsafe_code)]
mod ready;
#[deny(unsafe_code)]
mod round;
#[cfg_attr(target_os = "linux", path = "linux.rs")]
#[cfg_attr(not(target_os = "linux"), path = "bsd.rs")]
mod system;
#[deny(unsafe_code)]
mod token;

use crate::{error::Trouble, worker::Outfit};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::{fmt, io, num::NonZeroUsize, str::FromStr, sync::mpsc::Sender, thread};

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

/// For a worker to say that it has all it needs from the kernel. Dropped without a word, it will never have that.
pub(crate) struct Begun(pub(crate) Sender<()>);

impl Begun {
    /// The worker is about to serve.
    pub(crate) fn tell(self) {
        // Nobody may wait for it.
        let _ = self.0.send(());
    }
}

/// An engine that was chosen, and why not a better one.
#[derive(Debug)]
pub struct Chosen {
    /// Never `Auto`.
    pub engine: Engine,
    /// Why it is not io_uring, where that was wanted if possible.
    pub instead: Option<String>,
}

impl Engine {
    /// Every engine that this system has, the best first.
    pub const ALL: &[Engine] = system::ENGINES;

    /// Those that run within another program, with threads: see [`Server`](crate::Server). All but the last two.
    pub const EMBEDDED: &[Engine] = Engine::ALL.split_at(Engine::ALL.len() - 2).0;

    /// Those of other systems too.
    const KNOWN: [Engine; 7] = [
        Engine::IoUring,
        Engine::Epoll,
        Engine::Kqueue,
        Engine::Poll,
        Engine::Threads,
        Engine::Prefork,
        Engine::Fork,
    ];

    /// The name that users know it by.
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

    /// Tries what this host offers.
    ///
    /// # Errors
    /// It does not offer this engine.
    pub fn choose(self) -> Result<Chosen, Trouble> {
        let refusal = match self {
            Engine::Auto => return Ok(system::best()),
            _ if !Engine::ALL.contains(&self) => Some("this system does not have it".to_owned()),
            _ => system::refusal(self),
        };
        match refusal {
            None => Ok(Chosen { engine: self, instead: None }),
            Some(why) => {
                let remedy = format!("take --engine {}, or auto", system::best().engine);
                Err(Trouble::new(format_args!("cannot use {self}"), why, remedy))
            }
        }
    }

    /// Whether [`Auto`](Engine::Auto) may mean it.
    pub(crate) fn is_chosen(self) -> bool {
        matches!(self, Engine::IoUring | Engine::Epoll | Engine::Kqueue)
    }

    /// How many workers it has where nobody says so.
    pub fn usual_worker_count(self) -> NonZeroUsize {
        match self {
            Engine::Threads | Engine::Prefork => POOL_LEN,
            Engine::Fork => FORK_MAX,
            _ => thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
        }
    }

    /// Whether each worker serves one connection at a time. Then they share each listening socket, so that nobody waits for
    /// one who is busy while another is free; and each waits for the disk itself.
    pub const fn is_one_at_a_time(self) -> bool {
        matches!(self, Engine::Threads | Engine::Prefork | Engine::Fork)
    }

    /// Whether its workers are processes, which are forked from one that has no threads.
    pub(crate) fn has_processes(self) -> bool {
        matches!(self, Engine::Prefork | Engine::Fork)
    }

    /// Runs a worker until it is told to stop.
    pub(crate) fn run(self, outfit: Outfit, begun: Begun) -> io::Result<()> {
        match self {
            Engine::Auto => unreachable!("chosen before a worker runs"),
            Engine::Prefork | Engine::Fork => unreachable!("not refused for threads"),
            Engine::IoUring | Engine::Epoll | Engine::Kqueue => system::run(self, outfit, begun),
            Engine::Poll => round::run::<poll::Poll>(outfit, begun),
            Engine::Threads => blocking::run(outfit, begun),
        }
    }
}

/// Workers that serve one connection each: enough for the connections of some browsers, and what they cost is small.
const POOL_LEN: NonZeroUsize = NonZeroUsize::new(64).unwrap();

/// Processes that serve one connection each, at most: as many connections, and each costs as much memory as its page tables.
const FORK_MAX: NonZeroUsize = NonZeroUsize::new(256).unwrap();

/// Whether an error of accept says that the listener itself is of no use.
fn is_fatal(error: Errno) -> bool {
    matches!(error, Errno::BADF | Errno::INVAL | Errno::NOTSOCK | Errno::FAULT)
}

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
