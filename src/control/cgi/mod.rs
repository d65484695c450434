//! CGI: programs that answer requests. RFC 3875.
//!
//! ```text
//! worker ── a socket, with the number of a mount ─▶ tarpon-cgi ── starts ─▶ program
//!        ◀─ frames: request, response ──────────▶   one poll    ◀─ pipes ─▶
//! ```
//!
//! The helper `tarpon-cgi` runs as the user of the programs and has no other rights. A worker names a mount by number and sends a request as a
//! client might; the helper finds the program below the mount, makes its environment, and limits it
//! ([decision 40](../../../docs/decisions/0040-cgi-programs-have-a-helper.md)).
//!
//! | file | what |
//! |---|---|
//! | `service` | what a configuration needs for its programs, for workers and helper |
//! | `connector` | the side of a worker: connects to the helper |
//! | `process` | starts the helper process, and confines it |
//! | `helper` | the event loop |
//! | `connection` | the connection to a worker: frames, and the state of a request |
//! | `exchange` | a running program, and what passes between it and the worker |
//! | `ending` | a program that has answered or is to end |
//! | `request` | a request, and the reasons to refuse it |
//! | `resolve` | finds the program of a path |
//! | `environment` | the variables and arguments of a program |
//! | `program_log` | what programs say on standard error, as events |
//! | `stats` | the numbers of the helper, in memory that all processes share |

mod connection;
mod connector;
mod ending;
mod environment;
mod exchange;
mod helper;
mod process;
mod program_log;
mod request;
mod resolve;
pub(crate) mod service;
pub(crate) mod stats;
#[cfg(test)]
mod tests;

pub(crate) use process::{CgiStart, run};
