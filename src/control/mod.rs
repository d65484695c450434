//! The control plane: processes, listeners, privileges, logs, metrics. No code here runs on the path of a request.
//!
//! ```text
//! supervisor ─┬─ builder ──▶ sites ──┐
//!             ├─ server ◀────────────┤   one process with threads
//!             └─ worker_pool ◀───────┘   or a master with worker processes (prefork, fork)
//! ```
//!
//! | module | what |
//! |---|---|
//! | `supervisor` | starts and replaces the processes, and carries out orders |
//! | `process` | what supervisor and worker pool share: processes as values, channels, messages |
//! | `builder_process`, `server_process` | what the children of the supervisor run |
//! | `site_states` | which version of each site is live, and whether the last read failed, in shared memory |
//! | `worker_pool` | the processes of `prefork` and `fork` |
//! | `handover` | the successor of an upgrade, and the predecessor |
//! | `helpers` | processes and threads that do for workers what their sandbox forbids |
//! | `server` | a server in one process: its worker threads and its handle |
//! | `listeners` | listening sockets |
//! | `tls` | certificates, policies and ticket keys of listeners with TLS |
//! | `socket_permissions` | mode, user and group of the file of a Unix socket |
//! | `sandbox` | confines each process: user, files, system calls |
//! | `systemd` | socket activation and readiness |
//! | `admin` | the admin listener: health, metrics, orders |
//! | `counters` | the counters of all servers of a service, which outlive each of them |
//! | `client_limits` | the limits of clients, and the memory in which all workers count them |
//! | `passwords` | the users of paths with a password, and the passwords that were verified lately |
//! | `stats`, `metrics` | the statistics of a service, for Prometheus and `tarpon status` |
//! | `exemplars` | traces of requests that took long, for the histogram of durations |
//! | `process_usage` | what the server process takes from the system |
//! | `helper_stats` | what helpers and the builder add to them |
//! | `doctor` | examines the machine and a configuration, and advises |
//! | `acme` | obtains and renews certificates |
//! | `cgi` | CGI programs, and the helper that runs them |
//! | `upstreams` | upstream servers, and the helper that connects to them |
//! | `access_log` | joins, formats and writes the records of the workers |
//!
//! A server within another program has the modules without the feature `program`. Two files take the place of modules whose feature is off:
//! `no_tls` and `no_helper_stats`.

pub(crate) mod access_log;
#[cfg(feature = "program")]
pub(crate) mod acme;
#[cfg(feature = "program")]
pub(crate) mod admin;
#[cfg(feature = "program")]
mod builder_process;
#[cfg(feature = "program")]
pub(crate) mod cgi;
pub(crate) mod client_limits;
pub(crate) mod counters;
#[cfg(feature = "program")]
pub(crate) mod doctor;
pub(crate) mod exemplars;
#[cfg(feature = "program")]
mod handover;
#[cfg_attr(not(feature = "program"), path = "no_helper_stats.rs")]
mod helper_stats;
#[cfg(feature = "program")]
mod helpers;
mod hot_paths;
pub(crate) mod kernel_tls;
pub(crate) mod listeners;
pub(crate) mod metrics;
#[cfg(feature = "program")]
mod passwords;
#[cfg(feature = "program")]
pub(crate) mod process;
pub(crate) mod process_usage;
#[cfg(feature = "program")]
pub(crate) mod sandbox;
pub(crate) mod server;
#[cfg(feature = "program")]
pub(crate) mod server_process;
#[cfg(feature = "program")]
pub(crate) mod site_states;
mod socket_permissions;
pub(crate) mod stats;
#[cfg(feature = "program")]
pub(crate) mod supervisor;
#[cfg(feature = "program")]
pub(crate) mod systemd;
#[cfg_attr(not(feature = "tls"), path = "no_tls.rs")]
pub(crate) mod tls;
#[cfg(feature = "program")]
pub(crate) mod upstreams;
#[cfg(feature = "program")]
pub(crate) mod worker_pool;
