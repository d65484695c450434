//! Clients: they send requests and count responses.
//!
//! | file | content |
//! |---|---|
//! | `closed_loop.rs` | a client that sends its next request as soon as it has a response: for races |
//! | `checked_loop.rs` | a closed loop that checks every response and goes on after errors: for loads |
//! | `open_loop.rs` | a client that sends requests at fixed times: for response times |
//! | `attack.rs` | clients that take what they can of a server |
//! | `tls.rs` | what clients offer with TLS; blocking connections |
//! | `tls_load.rs` | a closed loop of handshakes, or of requests on connections with TLS |
//! | `tls_storm.rs` | full handshakes at a fixed rate |
//! | `tunnels.rs` | opens tunnels, and sends messages through them |
//! | `web_socket.rs` | the request for a tunnel, and messages |
//! | `h2load.rs` | the load generator of nghttp2, for HTTP/2 |
//! | `story_tools.rs` | hey, wrk and ab, the load generators of published stories |
//! | `http2.rs` | checks a response of HTTP/2, or lets responses wait for a window |
//! | `http2_frames.rs` | frames and field blocks of HTTP/2 |
//! | `request.rs` | a request, short or as of a browser |
//! | `response.rs` | the length of a response |
//! | `response_times.rs` | quantiles of response times |
//! | `visits.rs` | the requests of visitors of a site, as a mix |
//!
//! Below: one request, one response, on a blocking socket.

pub(crate) mod attack;
pub(crate) mod checked_loop;
pub(crate) mod closed_loop;
pub(crate) mod h2load;
pub(crate) mod http2;
pub(crate) mod http2_frames;
pub(crate) mod open_loop;
pub(crate) mod request;
pub(crate) mod response;
pub(crate) mod response_times;
pub(crate) mod story_tools;
pub(crate) mod tls;
pub(crate) mod tls_load;
pub(crate) mod tls_storm;
pub(crate) mod tunnels;
pub(crate) mod visits;
pub(crate) mod web_socket;

use std::fmt;
use std::io::{self, Read};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rustix::io::Errno;

use self::response::{ResponseError, ResponseSize, ResponseSummary};

/// Connects, with a limit on the time that a read may take.
pub(crate) fn connect(server: SocketAddr, read_timeout: Duration) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(server)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(read_timeout))?;
    Ok(stream)
}

/// Reads until `wire` holds at least one complete response.
pub(crate) fn read_response(stream: &mut impl Read, wire: &mut Vec<u8>) -> Result<ResponseSize, ClientError> {
    let ResponseSummary { status, size } = read_summary(stream, wire)?;
    if status == 200 { Ok(size) } else { Err(ResponseError::Status.into()) }
}

/// The same for a response with any status.
pub(crate) fn read_summary(
    stream: &mut impl Read,
    wire: &mut Vec<u8>,
) -> Result<ResponseSummary, ClientError> {
    let mut input = [0; 4096];
    loop {
        match ResponseSummary::parse(wire)? {
            Some(summary) if wire.len() >= summary.size.len() => return Ok(summary),
            _ => {}
        }
        match stream.read(&mut input)? {
            0 => return Err(ClientError::Closed),
            len => wire.extend_from_slice(&input[..len]),
        }
    }
}

/// What a server did wrong.
#[derive(Debug)]
pub(crate) enum ClientError {
    /// The server closed a connection that it should keep open.
    Closed,
    /// The server sent no byte for a time limit.
    Silence(Duration),
    /// The server sent more bytes than a response has.
    Surplus,
    /// The content is not as long as its file.
    Length,
    /// The server left requests unread until the socket buffer was full.
    Full,
    /// The response cannot be counted.
    Response(ResponseError),
    /// A stream of HTTP/2, or its connection, failed: for this reason.
    Http2(&'static str),
    /// The handshake was of another kind, for this reason.
    Handshake(&'static str),
    /// A tunnel did not open, or what passed through it came back changed: for this reason.
    Tunnel(&'static str),
    /// TLS failed.
    Tls(rustls::Error),
    /// The connection failed.
    Io(io::Error),
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientError::Closed => f.write_str("the server closed a connection that it should keep open"),
            ClientError::Silence(time) => write!(f, "the server sent no response for {} s", time.as_secs()),
            ClientError::Surplus => f.write_str("the server sent more bytes than its first response had"),
            ClientError::Length => f.write_str("the content of a response is not as long as its file"),
            ClientError::Full => f.write_str("the server does not read requests: the socket buffer is full"),
            ClientError::Response(error) => error.fmt(f),
            ClientError::Http2(reason) | ClientError::Handshake(reason) | ClientError::Tunnel(reason) => {
                f.write_str(reason)
            }
            ClientError::Tls(error) => write!(f, "TLS: {error}"),
            ClientError::Io(error) => error.fmt(f),
        }
    }
}

impl ClientError {
    /// Returns whether the error means that the server closed the connection, before or after it read a request.
    fn is_close(&self) -> bool {
        match self {
            ClientError::Closed => true,
            ClientError::Io(error) => {
                matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
            }
            _ => false,
        }
    }
}

impl std::error::Error for ClientError {}

impl From<io::Error> for ClientError {
    fn from(error: io::Error) -> ClientError {
        ClientError::Io(error)
    }
}

impl From<rustls::Error> for ClientError {
    fn from(error: rustls::Error) -> ClientError {
        ClientError::Tls(error)
    }
}

impl From<Errno> for ClientError {
    fn from(errno: Errno) -> ClientError {
        ClientError::Io(errno.into())
    }
}

impl From<ResponseError> for ClientError {
    fn from(error: ResponseError) -> ClientError {
        ClientError::Response(error)
    }
}
