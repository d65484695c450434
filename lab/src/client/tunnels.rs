//! The client of tunnels: opens them one after the other, and sends messages through some of them.
//!
//! ```text
//! GET …  Upgrade: websocket ─▶ 101 ─▶ idle ─▶ message ─▶ the same message
//! ```

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::{ClientError, connect, web_socket};

/// Tunnels that are open. Dropping the value closes them.
pub(crate) struct OpenTunnels(Vec<TcpStream>);

impl OpenTunnels {
    /// Opens `count` tunnels.
    pub(crate) fn open(server: SocketAddr, path: &str, count: usize) -> Result<OpenTunnels, ClientError> {
        let request = web_socket::request(&server.to_string(), path);
        (0..count).map(|_| open(server, &request)).collect::<Result<_, _>>().map(OpenTunnels)
    }

    /// Sends a message through `count` tunnels, evenly spread over all of them, and waits for it to come back. Returns the longest time.
    pub(crate) fn echo(&mut self, count: usize) -> Result<Duration, ClientError> {
        let mut longest = Duration::ZERO;
        for number in sample(self.0.len(), count) {
            let text = format!("message of tunnel {number}");
            let start = Instant::now();
            self.0[number].write_all(&web_socket::from_client(text.as_bytes()))?;
            if receive(&mut self.0[number])? != text.as_bytes() {
                return Err(ClientError::Tunnel("another message came back than was sent"));
            }
            longest = longest.max(start.elapsed());
        }
        Ok(longest)
    }
}

fn open(server: SocketAddr, request: &[u8]) -> Result<TcpStream, ClientError> {
    let mut stream = connect(server, RESPONSE_TIME_MAX)?;
    stream.write_all(request)?;
    let (mut wire, mut input) = (Vec::new(), [0; 1024]);
    // The upstream sends nothing after the head before it has received a message.
    while !wire.ends_with(b"\r\n\r\n") {
        match stream.read(&mut input)? {
            0 => return Err(ClientError::Closed),
            len => wire.extend_from_slice(&input[..len]),
        }
    }
    if wire.starts_with(SWITCHING) { Ok(stream) } else { Err(ClientError::Tunnel("the response is no 101")) }
}

/// Reads one message.
fn receive(stream: &mut TcpStream) -> Result<Vec<u8>, ClientError> {
    let (mut wire, mut input) = (Vec::new(), [0; 1024]);
    loop {
        match stream.read(&mut input)? {
            0 => return Err(ClientError::Closed),
            len => wire.extend_from_slice(&input[..len]),
        }
        match web_socket::parse(&wire) {
            Ok(Some(message)) if message.len == wire.len() => return Ok(message.text),
            Ok(Some(_)) => return Err(ClientError::Surplus),
            Ok(None) => {}
            Err(_) => return Err(ClientError::Tunnel("what came back is no short message of text")),
        }
    }
}

/// Returns `count` of the numbers below `all`, evenly spread; all of them if there are not so many.
fn sample(all: usize, count: usize) -> impl Iterator<Item = usize> {
    let count = count.min(all);
    (0..count).map(move |number| number * all / count)
}

/// The first bytes of a response that opens a tunnel.
const SWITCHING: &[u8] = b"HTTP/1.1 101 ";

/// Longest wait for a response or a message. It is long, because each tunnel is to open.
const RESPONSE_TIME_MAX: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sample_is_spread_over_all() {
        #[rustfmt::skip]
        let cases: &[(usize, usize, &[usize])] = &[
            // all  count  numbers
            (10,    0,     &[]),
            (10,    1,     &[0]),
            (10,    4,     &[0, 2, 5, 7]),
            (3,     3,     &[0, 1, 2]),
            (3,     9,     &[0, 1, 2]),
            (0,     5,     &[]),
        ];
        for (all, count, want) in cases {
            assert_eq!(sample(*all, *count).collect::<Vec<_>>(), *want, "{count} of {all}");
        }
    }
}
