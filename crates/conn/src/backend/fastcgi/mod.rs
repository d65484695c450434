//! Requests and responses of servers that speak FastCGI, such as PHP-FPM. FastCGI Specification 1.0; RFC 3875.
//!
//! ```text
//! list of fields ── script ─▶ params ─▶ BeginRequest, Params        content ─▶ Stdin
//! Stdout ─▶ receiver ─▶ head of CGI ─▶ list of fields               Stdout ─▶ content
//! ```
//!
//! | file | what |
//! |---|---|
//! | `exchange` | passes messages of a pipe on as records, and records as messages |
//! | `script` | finds the script that a path names |
//! | `params` | writes the start of a request: the parameters that a program of CGI gets as its environment |
//! | `receiver` | reads the records of a response |
//! | `error_output` | what a script writes to its standard error, as lines |
//!
//! `exchange` alone knows pipes and buffers.

mod error_output;
mod exchange;
mod params;
mod receiver;
mod script;

pub use error_output::ERROR_LINE_LEN_MAX;
pub(super) use error_output::ErrorOutput;
pub(super) use exchange::FastCgiExchange;
use params::{FastCgiRefusal, content_length, request_len_max, write_request};
pub use receiver::FastCgiResponseError;
use receiver::{FastCgiEvent, FastCgiReceived, FastCgiReceiver};
