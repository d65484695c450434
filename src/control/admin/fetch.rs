//! The client of the admin listener: what `tarpon status`, `reload` and `upgrade` send.

use super::Order;
use crate::{
    base::{address::Address, admin_access::AdminToken},
    control::metrics::Metrics,
};
use std::{
    io::{self, Read, Write},
    net::TcpStream,
    os::unix::net::UnixStream,
    time::Duration,
};

/// Fetches the metrics of a server from its admin listener.
///
/// # Errors
/// No server answers at the address, or it is not an admin listener.
pub fn fetch_metrics(address: &Address) -> io::Result<Metrics> {
    fetch_metrics_with_token(address, None)
}

/// Fetches the metrics of a server from its admin listener, which may ask for a token over TCP. A Unix socket gets no token.
///
/// # Errors
/// `PermissionDenied`: the listener asks for a token, or for another one. Otherwise those of [`fetch_metrics`].
pub fn fetch_metrics_with_token(address: &Address, token: Option<&AdminToken>) -> io::Result<Metrics> {
    let token = token.filter(|_| matches!(address, Address::Tcp(_)));
    let response = request(address, "GET", "/status", token, Some(ASK_TIME_MAX))?;
    match split_response(&response)? {
        (200, content) => Ok(serde_json::from_str(content)?),
        (401, _) => Err(io::Error::new(io::ErrorKind::PermissionDenied, "it asks for a token")),
        _ => Err(not_admin()),
    }
}

/// Sends an order to the supervisor of a server through its admin listener, and waits until it is done. Returns the message of the server.
///
/// # Errors
/// No server answers at the address, or it is not an admin listener. `Other`: the server refused the order or could not carry it out, with
/// its message.
pub fn send_order(address: &Address, order: Order) -> io::Result<String> {
    let response = request(address, "POST", order.target(), None, None)?;
    if response.is_empty() {
        return Err(io::Error::other("the server closed the connection without an answer"));
    }
    match split_response(&response)? {
        (200, text) => Ok(text.trim_end().to_owned()),
        (_, text) => Err(io::Error::other(text.trim_end())),
    }
}

/// Sends a request without content, and reads the whole response with a timeout for each read.
fn request(
    address: &Address,
    method: &str,
    target: &str,
    token: Option<&AdminToken>,
    time: Option<Duration>,
) -> io::Result<String> {
    let token = token.map_or(String::new(), |token| format!("Authorization: Bearer {}\r\n", token.secret()));
    let request = format!("{method} {target} HTTP/1.0\r\n{token}\r\n");
    match address {
        Address::Tcp(address) => {
            let stream = TcpStream::connect_timeout(address, ASK_TIME_MAX)?;
            stream.set_read_timeout(time)?;
            exchange(stream, &request)
        }
        Address::Unix(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(time)?;
            exchange(stream, &request)
        }
    }
}

fn exchange(mut stream: impl Read + Write, request: &str) -> io::Result<String> {
    stream.write_all(request.as_bytes())?;
    let mut response = String::new();
    stream.take(RESPONSE_LEN_MAX).read_to_string(&mut response)?;
    Ok(response)
}

/// Splits a response into status and content.
fn split_response(response: &str) -> io::Result<(u16, &str)> {
    let status = response.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
    let content = response.split_once("\r\n\r\n").map(|(_, content)| content);
    status.zip(content).ok_or_else(not_admin)
}

fn not_admin() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "it is not an admin listener of tarpon")
}

/// The time for a connection, and for each read of a status: longer than a busy machine takes.
const ASK_TIME_MAX: Duration = Duration::from_secs(5);

/// The longest response: a few hundred bytes for each site.
const RESPONSE_LEN_MAX: u64 = 16 * 1024 * 1024;
