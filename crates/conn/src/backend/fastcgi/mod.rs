//! Requests and responses of servers that speak FastCGI, such as PHP-FPM. FastCGI Specification 1.0; RFC 3875.
//!
//! ```text
//! list of fields ── script ─▶ params ─▶ BeginRequest, Params        content ─▶ Stdin
//! Stdout ─▶ receiver ─▶ head of CGI ─▶ list of fields               Stdout ─▶ content
//! ```
//!
//! | file | what |
//! |---|---|
//! | `script` | finds the script that a path names |
//! | `params` | writes the start of a request: the parameters that a program of CGI gets as its environment |
//! | `receiver` | reads the records of a response |
//!
//! Knows nothing of pipes and buffers.

mod params;
mod receiver;
mod script;

pub(super) use params::{FastCgiRefusal, REQUEST_LEN_MAX, content_length, write_request};
pub(super) use receiver::{FastCgiEvent, FastCgiReceived, FastCgiReceiver, FastCgiResponseError};
