//! What the supervisor and the master of a worker pool have in common: processes as values, and how to talk to them.
//!
//! ```text
//! decides (plain data)                                  carries out
//! ProcessTable ── ProcessId ─▶ action: start, send, kill ─▶ fork, Children ── Channel ─▶ a process
//! ProcessSlot, Backoff ◀─ event: started, start failed, message, exited ◀─────────────┘
//! ```
//!
//! | file | what |
//! |---|---|
//! | `table` | the processes of a machine, by identity |
//! | `map` | values by process, on few pages |
//! | `slot` | a place for a process: when one starts, and when the next |
//! | `backoff` | the delay until the next attempt: to start a process, to open a log, to send a site |
//! | `fork` | forks a child with a channel |
//! | `in_child` | computes a value in a child that exits at once |
//! | `children` | the forked processes behind the identities: carries messages, reaps, kills |
//! | `exit` | how a process ended |
//! | `channel` | messages with descriptors between two processes |
//! | `shared_files` | the files of sites that a process holds: versions that arrive share them |
//! | `message` | what the processes say to each other |
//! | `clock` | the monotonic clock of a driver, in ticks |
//! | `notice_limit` | bounds the notices that a child can cause |
//! | `random` | random numbers of a simulator |

pub(crate) mod backoff;
pub(crate) mod channel;
pub(crate) mod children;
pub(crate) mod clock;
pub(crate) mod exit;
pub(crate) mod fork;
pub(crate) mod in_child;
pub(crate) mod map;
pub(crate) mod message;
pub(crate) mod notice_limit;
#[cfg(test)]
pub(crate) mod random;
pub(crate) mod shared_files;
pub(crate) mod slot;
pub(crate) mod table;

pub(crate) use backoff::Backoff;
pub(crate) use exit::ProcessExit;
pub(crate) use slot::ProcessSlot;
pub(crate) use table::{ProcessId, ProcessTable};
