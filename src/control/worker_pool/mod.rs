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
//! | file | what |
//! |---|---|
//! | `master` | the state of the master, its event loop and its messages |
//! | `slots` | the slots: reaps processes, starts their successors, assigns connections |
//! | `start` | forks the aux process and the workers |
//! | `acceptor` | accepts clients with `fork`, and answers 503 to clients without a slot |
//! | `pool_process` | a forked process and the channel to it |
//! | `aux_process` | what the aux process runs |
//! | `worker_process` | the mailbox of a worker process |

mod acceptor;
mod aux_process;
mod master;
mod pool_process;
mod slots;
mod start;
mod worker_process;

use super::{
    process::{channel::Channel, message::FromServer},
    server_process::ServerStart as Start,
};
use crate::{base::engine::Engine, sys::process};
use master::Master;

/// Returns whether the workers of this engine are processes, which a master forks.
pub(crate) fn runs(engine: Engine) -> bool {
    matches!(engine, Engine::Prefork | Engine::Fork)
}

/// Runs a master until the supervisor stops it. Returns an exit status.
pub(crate) fn run(start: Start<'_>, mut channel: Channel) -> i32 {
    process::set_name(c"tarpon-master");
    let master = Master::new(start, &mut channel);
    match master.and_then(|mut master| master.run(&mut channel)) {
        Ok(()) => 0,
        Err(why) => {
            // A failed send means that the supervisor has exited, and the master exits anyway.
            let _ = channel.sender.send(&FromServer::StartFailed { why });
            1
        }
    }
}
