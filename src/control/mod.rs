//! Decides and prepares: processes, listeners, rights, logs, metrics. Nothing here is called while a request is answered.
//!
//! ```text
//! supervisor ─┬─ builder ──▶ sites ──┐
//!             ├─ server ◀────────────┤   one process with threads
//!             └─ worker_pool ◀───────┘   or a master with worker processes (prefork, fork)
//! ```
//!
//! | module | what |
//! |---|---|
//! | `supervisor` | the processes of the program, and the messages between them |
//! | `worker_pool` | the processes of `prefork` and `fork` |
//! | `server` | a server in one process: its worker threads, and the handle that controls them |
//! | `listeners` | listening sockets |
//! | `sandbox` | what each process gives up: user, files, system calls |
//! | `systemd` | socket activation and readiness |
//! | `admin` | the admin listener: health, metrics, orders |
//! | `metrics`, `stats` | what a server has done and does, for Prometheus and for people |
//! | `access_log` | joins, formats and writes the records that workers leave |

pub(crate) mod access_log;
pub(crate) mod admin;
pub(crate) mod listeners;
pub(crate) mod metrics;
pub(crate) mod sandbox;
pub(crate) mod server;
pub(crate) mod stats;
pub(crate) mod supervisor;
pub(crate) mod systemd;
pub(crate) mod worker_pool;
