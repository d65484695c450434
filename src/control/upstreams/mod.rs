//! Upstream servers: the helper `tarpon-net` looks up their names, connects to them and checks them.
//!
//! ```text
//! worker ── the number of a server ─▶ tarpon-net: queue ─▶ attempt ── TCP, Unix ─▶ server
//!        ◀─ descriptor ─────────────                       checks ──────────────▶
//!                 table ◀─ states ─┘  └─ down, up ─▶ supervisor ─▶ log
//!        ── why an exchange has failed ─▶ report_log ─────────────▶ log
//! ```
//!
//! A worker names a server by number, so a captured worker reaches configured addresses only. The helper alone opens connections, so it knows
//! their number over all workers.
//!
//! | file | what |
//! |---|---|
//! | `service` | what a configuration needs for its upstreams, for workers and helper |
//! | `process` | starts the helper process, and confines it |
//! | `event_loop` | one poll for all connections and checks |
//! | `server` | a server as the helper sees it |
//! | `connect` | an attempt to connect |
//! | `transit` | connections on their way to workers |
//! | `check` | a check of a server |
//! | `health` | whether a server gets requests: a machine without clock and socket |
//! | `resolve` | looks names up, on a thread of its own |
//! | `inbox` | what other threads leave for the event loop |
//! | `failure_log` | chooses the lines of the log among failures: a machine without clock and output |
//! | `report_log` | receives the reports of workers, and writes those lines |
//! | `message` | what the helper tells the supervisor |
//! | `stats` | the numbers of the servers, for the admin listener |

mod check;
mod connect;
mod event_loop;
mod failure_log;
mod health;
mod inbox;
pub(crate) mod message;
mod process;
mod report_log;
mod resolve;
mod server;
pub(crate) mod service;
pub(crate) mod stats;
#[cfg(test)]
mod tests;
mod transit;

pub(crate) use process::{UpstreamStart, run};
