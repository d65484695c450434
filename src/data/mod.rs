//! What a request passes: the engines, the worker that they drive, and the records it leaves for the log.
//!
//! ```text
//! kernel ◀─▶ engine ◀─▶ worker: slots with a Connection each ─▶ site
//!                          └─ records ─▶ log_ring ─▶ control::access_log
//! ```
//!
//! | module | what |
//! |---|---|
//! | `engine` | waits for the kernel and drives connections |
//! | `worker` | what all engines share: slots, timers, mailbox, residency, sending |
//! | `acme_table` | certificates, their states and the answers to ACME directories, in shared memory |
//! | `connection_limit` | the open connections of each address, in shared memory |
//! | `functions/` | functions of the embedding program, on workers and on threads |
//! | `log_ring` | the bounded queue of log records from a worker to the log |
//! | `upstreams/` | the servers of upstreams: their numbers, the choice among them, the connections to them |
//! | `password_threads` | threads that verify passwords for workers with many connections |
//! | `password_turns` | which workers with one connection verify its password now, in shared memory |
//! | `probes` | static probes for tracers |
//! | `record_table` | records in shared memory |
//! | `services` | what a worker asks of a helper |
//! | `no_upstreams` | takes the place of `upstreams/` without the feature `program`: no server has upstreams |

pub(crate) mod acme_table;
pub(crate) mod connection_limit;
#[allow(unsafe_code)]
pub(crate) mod engine;
pub(crate) mod functions;
pub(crate) mod log_ring;
pub(crate) mod password_threads;
pub(crate) mod password_turns;
mod probes;
pub(crate) mod record_table;
#[cfg(feature = "program")]
pub(crate) mod services;
#[cfg_attr(not(feature = "program"), path = "no_upstreams.rs")]
pub(crate) mod upstreams;
pub(crate) mod worker;
