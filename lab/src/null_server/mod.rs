//! Null servers: they answer every request with the same bytes, and parse nothing.
//!
//! ```text
//! bytes on a connection ─▶ one fixed response, or one for each request of a batch, whatever the bytes are
//! ```
//!
//! | file | content |
//! |---|---|
//! | `epoll.rs` | one `recv` and one `send` per request |
//! | `uring.rs` | one system call per batch of requests |
//! | `sendfile.rs` | content from a file in memory, which is not copied |
//!
//! They are the upper limit for web servers on the same system calls, and a race reports rates as percentages of theirs. Each has
//! the fastest known design for its interface. Their response has exactly as many bytes as tarpon's. Like every other server of a
//! race, a null server is a process of its own.

mod epoll;
mod sendfile;
mod uring;

use std::io;
use std::net::{SocketAddr, TcpListener};

use clap::{Args, ValueEnum};
use rustix::net::sockopt::set_tcp_nodelay;
use rustix::process::{Signal, set_parent_process_death_signal};

use crate::error::LabError;
use crate::generated_site;

pub(crate) use uring::probe;

/// Options of `tarpon-lab null-server`.
#[derive(Args)]
pub(crate) struct NullServerArgs {
    /// Select the kernel interface
    #[arg(long, value_enum)]
    engine: NullEngine,
    /// Listen on this address
    #[arg(long, value_name = "ADDRESS")]
    listen: SocketAddr,
    /// Send this many bytes of content per response
    #[arg(long, value_name = "BYTES", default_value_t = 1024)]
    size: usize,
    /// Send this many bytes of head per response
    #[arg(long, value_name = "BYTES", default_value_t = HEAD_SIZE)]
    head_size: usize,
    /// Send one response for this many bytes, for clients that send several requests at once
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..))]
    request_size: Option<u32>,
}

/// The kernel interface of a null server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum NullEngine {
    /// Readiness, edge triggered
    Epoll,
    /// Completions
    Uring,
    /// Readiness, and content by sendfile
    Sendfile,
}

/// Serves until the process is killed or its parent exits.
pub(crate) fn run(args: &NullServerArgs) -> Result<(), LabError> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let listener = TcpListener::bind(args.listen)?;
    // Connections inherit the option: the last segment of a long response must not wait for an ACK.
    set_tcp_nodelay(&listener, true)?;
    // The kernel may read the response at any time: it lives as long as the process.
    let response = response(args.head_size, args.size)?;
    let responses = NullResponses {
        len: response.len(),
        request_len: args.request_size.map_or(usize::MAX, |size| size as usize),
        bytes: response.repeat(if args.request_size.is_some() { BATCH_MAX } else { 1 }).leak(),
    };
    match args.engine {
        NullEngine::Epoll => epoll::serve(&listener, responses),
        NullEngine::Uring => uring::serve(&listener, responses),
        NullEngine::Sendfile => {
            let (head, content) = responses.bytes[..responses.len].split_at(args.head_size);
            sendfile::serve(&listener, head, content)
        }
    }
    .map_err(|error: io::Error| format!("null server: {error}").into())
}

/// The responses to the requests that arrive together.
#[derive(Clone, Copy)]
struct NullResponses {
    /// The same response, once or several times.
    bytes: &'static [u8],
    /// Bytes of a response.
    len: usize,
    /// Bytes of a request; more than arrive if all of them get one response.
    request_len: usize,
}

impl NullResponses {
    /// Returns the responses to requests of `len` bytes together.
    #[inline]
    fn to_requests(self, len: usize) -> &'static [u8] {
        let count = len.div_ceil(self.request_len);
        &self.bytes[..(count * self.len).min(self.bytes.len())]
    }
}

/// Returns a response of exactly these lengths in bytes. A padding field fills the head.
fn response(head_len: usize, content_len: usize) -> Result<Vec<u8>, LabError> {
    let start = format!("HTTP/1.1 200 OK\r\nContent-Length: {content_len}\r\nFilling: ");
    let end = "\r\n\r\n";
    let least = start.len() + end.len();
    let padding_len = head_len
        .checked_sub(least)
        .ok_or_else(|| format!("--head-size {head_len} is too small: a head has at least {least} bytes"))?;
    let mut response = [&start, "-".repeat(padding_len).as_str(), end].concat().into_bytes();
    response.extend(generated_site::lines(content_len));
    Ok(response)
}

/// Maximum of requests that arrive together.
pub(crate) const BATCH_MAX: usize = 32;

/// Bytes of tarpon's head for a page of 1 KiB. Only the default of a null server that is started by hand: a race measures the head.
pub(crate) const HEAD_SIZE: usize = 222;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::response::ResponseSize;

    #[test]
    fn each_request_of_a_batch_gets_a_response() {
        let bytes: &[u8] = &[7; 2 * BATCH_MAX];
        #[rustfmt::skip]
        let cases = [
            // bytes of a request, bytes that arrive, responses
            (usize::MAX,  36,           1),
            (36,          36,           1),
            (36,          16 * 36,      16),
            (680,         36,           1),
            (36,          1_000 * 36,   BATCH_MAX),
        ];
        for (request_len, len, count) in cases {
            let responses = NullResponses { bytes, len: 2, request_len };
            assert_eq!(responses.to_requests(len).len(), 2 * count, "{len} of {request_len}");
        }
    }

    #[test]
    fn response_has_the_requested_lengths() {
        for (head_len, content_len) in [(60, 0), (222, 1024), (223, 100_000)] {
            let response = response(head_len, content_len).unwrap();
            assert_eq!(ResponseSize::parse(&response), Ok(Some(ResponseSize { head_len, content_len })));
            assert_eq!(response.len(), head_len + content_len);
        }
        assert!(response(20, 1024).is_err());
    }
}
