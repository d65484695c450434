//! Null servers: they answer every request with the same bytes, and parse nothing.
//!
//! ```text
//! bytes on a connection ─▶ one fixed response, whatever the bytes are
//! ```
//!
//! | file | content |
//! |---|---|
//! | `epoll.rs` | one `recv` and one `send` per request |
//! | `uring.rs` | one system call per batch of requests |
//!
//! They are the upper limit for web servers on the same system calls, and a race reports rates as percentages of theirs. Each has
//! the fastest known design for its interface. Their response has exactly as many bytes as tarpon's. Like every other server of a
//! race, a null server is a process of its own.

mod epoll;
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
}

/// The kernel interface of a null server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum NullEngine {
    /// Readiness, edge triggered
    Epoll,
    /// Completions
    Uring,
}

/// Serves until the process is killed or its parent exits.
pub(crate) fn run(args: &NullServerArgs) -> Result<(), LabError> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let listener = TcpListener::bind(args.listen)?;
    // Connections inherit the option: the last segment of a long response must not wait for an ACK.
    set_tcp_nodelay(&listener, true)?;
    // The kernel may read the response at any time: it lives as long as the process.
    let response = response(args.head_size, args.size)?.leak();
    match args.engine {
        NullEngine::Epoll => epoll::serve(&listener, response),
        NullEngine::Uring => uring::serve(&listener, response),
    }
    .map_err(|error: io::Error| format!("null server: {error}").into())
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

/// Bytes of tarpon's head for a page of 1 KiB. Only the default of a null server that is started by hand: a race measures the head.
pub(crate) const HEAD_SIZE: usize = 222;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::response::ResponseSize;

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
