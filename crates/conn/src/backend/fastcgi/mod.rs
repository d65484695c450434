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
//!
//! `exchange` alone knows pipes and buffers.

mod exchange;
mod params;
mod receiver;
mod script;

pub(super) use exchange::FastCgiExchange;
use params::{FastCgiRefusal, REQUEST_LEN_MAX, content_length, write_request};
use receiver::{FastCgiEvent, FastCgiReceived, FastCgiReceiver, FastCgiResponseError};
