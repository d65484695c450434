//! Upstream servers, as workers use them.
//!
//! ```text
//! exchange ─▶ Balancer ── server ─▶ pipe ─┬─ an idle connection
//!                │                        └─ a new one ◀── descriptor ── tarpon-net
//!                ├─ state, numbers ─▶ UpstreamTable ◀─ state, weight ──────┤
//!                └─ why an exchange has failed ────────────────────────────┘
//! ```
//!
//! A worker opens no connection itself. It asks the helper: in place, if it has one client only, or else through a thread of its process.
//!
//! | file | what |
//! |---|---|
//! | `plan` | what workers know of upstreams |
//! | `table` | the numbers of the servers, in memory that all processes share |
//! | `balance` | chooses the server of an exchange |
//! | `connect` | what a worker asks of the helper |
//! | `thread` | asks for the workers of an event loop |
//! | `waiting` | asks for a worker with one client |
//! | `link` | the part of a worker |
//! | `transport` | the transport of a new connection |
//! | `reports` | why exchanges have failed, on the way to the log |

pub(crate) mod balance;
pub(crate) mod connect;
pub(crate) mod link;
pub(crate) mod plan;
pub(crate) mod reports;
pub(crate) mod table;
pub(crate) mod thread;
pub(crate) mod transport;
mod waiting;

pub(crate) use {
    connect::ConnectResult,
    link::{UpstreamLink, WorkerUpstreams},
};
