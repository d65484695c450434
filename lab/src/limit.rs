//! The limit: servers that answer the same bytes to anything and parse nothing.
//!
//! No web server on the same system calls can be faster, so a race is told as shares of these two. Each has
//! the best shape known for its interface; what they send is as long as a real answer. They are run as
//! processes of their own, like every other server of a race.

mod epoll;
mod uring;

use std::io;
use std::net::{SocketAddr, TcpListener};

use clap::{Args, ValueEnum};
use rustix::net::sockopt::set_tcp_nodelay;
use rustix::process::{Signal, set_parent_process_death_signal};

use crate::Trouble;

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
    let response = response(options.size).leak();
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

/// A response with the fields a static-site server sends, of about the same length.
fn response(content_len: usize) -> Vec<u8> {
    let mut response = format!(
        "HTTP/1.1 200 OK\r\n\
         Server: null\r\n\
         Date: Thu, 01 Jan 2026 00:00:00 GMT\r\n\
         Content-Type: text/html; charset=utf-8\r\n\
         Content-Length: {content_len}\r\n\
         Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n\
         ETag: \"0123456789abcdef\"\r\n\r\n"
    )
    .into_bytes();
    response.extend(content(content_len));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response::Extent;

    #[test]
    fn a_null_response_is_as_long_as_a_real_one() {
        for content_len in [0, 1, 1024, 100_000] {
            let response = response(content_len);
            let extent = Extent::of(&response).unwrap().unwrap();
            assert_eq!((extent.len(), extent.content_len), (response.len(), content_len));
            assert!((190..230).contains(&extent.head_len), "{} bytes of head", extent.head_len);
        }
    }
}
