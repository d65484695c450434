//! The server process of `prefork` and `fork`: a master with a single thread, and the processes that it forks.
//!
//! ```text
//! supervisor ── sites, logs, stop ──▶ master ─┬─ the same ─▶ aux process   access log and admin listener, on threads
//!                                             ├─ the same ─▶ worker        one connection at a time: data/engine/blocking.rs
//!                                             └─ the same ─▶ worker
//!
//!               shared memory: counters and log records of each worker, and which workers are idle
//! ```
//!
//! A worker process has a slot: its rows in the shared memory, which the next process in the slot inherits. With `prefork` every slot
//! has a process; with `fork` a slot has one while it serves a connection.
//!
//! Decisions and effects are apart:
//!
//! ```text
//! what happens ─ PoolEvent ─▶ machine: plain data ─ PoolAction ─▶ the driver performs it
//!                    ▲                                                  │ started, start failed, client accepted, …
//!                    └──────────────────────────────────────────────────┘
//! ```
//!
//! | file | what |
//! |---|---|
//! | `vocabulary` | events and actions |
//! | `machine/` | decides: starts, clients, shutdown |
//! | `master` | the driver: waits for events |
//! | `arrivals` | messages with descriptors become events |
//! | `perform` | performs actions |
//! | `channels` | the channels to the workers of `fork` |
//! | `start` | forks the aux process and the workers |
//! | `listeners` | accepts and refuses clients |
//! | `aux_process` | what the aux process runs |
//! | `worker_process` | the mailbox of a worker process |
//! | `simulator/` | runs the machine in a world of random faults |

mod arrivals;
mod aux_process;
mod channels;
mod listeners;
mod machine;
mod master;
mod perform;
#[cfg(test)]
pub(crate) mod simulator;
mod start;
mod vocabulary;
mod worker_process;

use super::{
    process::{channel::Channel, message::FromServer},
    server_process::ServerStart as Start,
};
use crate::{
    base::{engine::Engine, error::reason},
    sys::process,
};
use master::Master;

/// Returns whether the workers of this engine are processes, which a master forks.
pub(crate) fn runs(engine: Engine) -> bool {
    matches!(engine, Engine::Prefork | Engine::Fork)
}

/// Runs a master until the supervisor stops it. Returns an exit status.
pub(crate) fn run(start: Start<'_>, mut channel: Channel) -> i32 {
    process::set_name(c"tarpon-master");
    let ended =
        Master::new(start, &mut channel).and_then(|mut master| master.run().map_err(|error| reason(&error)));
    ended.unwrap_or_else(|why| {
        // A failed send means that the supervisor has exited, and the master exits anyway.
        let _ = channel.sender.send(&FromServer::StartFailed { why });
        1
    })
}
