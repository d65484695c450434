//! The limit: servers that answer the same bytes to anything and parse nothing.
//!
//! No web server on the same system calls can be faster, so a race is told as shares of these two. Each has
//! the best shape known for its interface; what they send is as long as a real answer, to the byte: a race
//! asks tarpon for its own. They are run as processes of their own, like every other server of a race.

mod epoll;
mod uring;

use std::io;
use std::net::{SocketAddr, TcpListener};

use clap::{Args, ValueEnum};
use rustix::net::sockopt::set_tcp_nodelay;
use rustix::process::{Signal, set_parent_process_death_signal};

use crate::Trouble;

pub(crate) use uring::probe;

/// Which null server, where, and how much it sends.
#[derive(Args)]
pub(crate) struct Options {
    /// The kernel interface to wait with.
    #[arg(long, value_enum)]
    engine: Engine,
    /// The address to answer on.
    #[arg(long, value_name = "ADDRESS")]
    listen: SocketAddr,
    /// Bytes of content in a response.
    #[arg(long, value_name = "BYTES", default_value_t = 1024)]
    size: usize,
    /// Bytes of its head.
    #[arg(long, value_name = "BYTES", default_value_t = HEAD_LEN)]
    head: usize,
}

/// How a null server waits for its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Engine {
    /// Readiness, edge triggered.
    Epoll,
    /// Completions.
    Uring,
}

/// Answers until it is killed, or until the process that started it ends.
pub(crate) fn main(options: &Options) -> Result<(), Trouble> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let listener = TcpListener::bind(options.listen)?;
    // Connections inherit it: the last part of a long response must not wait for an acknowledgement.
    set_tcp_nodelay(&listener, true)?;
    // Lives as long as the process: the kernel may read it at any time.
    let response = response(options.head, options.size)?.leak();
    match options.engine {
        Engine::Epoll => epoll::serve(&listener, response),
        Engine::Uring => uring::serve(&listener, response),
    }
    .map_err(|error: io::Error| format!("null server: {error}").into())
}

/// A content of `len` bytes, in lines of 64: what every server of a race serves.
pub(crate) fn content(len: usize) -> Vec<u8> {
    (0..len).map(|at| if at % 64 == 63 { b'\n' } else { b'a' + (at % 26) as u8 }).collect()
}

/// A response of exactly these lengths, in bytes, with a field that fills the head.
fn response(head_len: usize, content_len: usize) -> Result<Vec<u8>, Trouble> {
    let start = format!("HTTP/1.1 200 OK\r\nContent-Length: {content_len}\r\nFilling: ");
    let end = "\r\n\r\n";
    let least = start.len() + end.len();
    let filling_len =
        head_len.checked_sub(least).ok_or_else(|| format!("a head has at least {least} bytes"))?;
    let mut response = [&start, "-".repeat(filling_len).as_str(), end].concat().into_bytes();
    response.extend(content(content_len));
    Ok(response)
}

/// What tarpon sends before a page of 1 KiB. Only for a null server that is run by hand: a race measures.
pub(crate) const HEAD_LEN: usize = 222;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response::Extent;

    #[test]
    fn a_null_response_is_as_long_as_it_shall_be() {
        for (head_len, content_len) in [(60, 0), (222, 1024), (223, 100_000)] {
            let response = response(head_len, content_len).unwrap();
            assert_eq!(Extent::of(&response), Ok(Some(Extent { head_len, content_len })));
            assert_eq!(response.len(), head_len + content_len);
        }
        assert!(response(20, 1024).is_err());
    }
}
