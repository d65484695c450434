//! Checks that a server sends the complete content, and closes a connection on request.
//!
//! A server that fails the check could win a race by not doing the work.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use crate::client::http2::LabHttp2Client;
use crate::client::request::RequestForm;
use crate::client::response::ResponseSize;
use crate::client::tls::{TlsOffer, host};
use crate::client::{ClientError, connect, read_response};
use crate::error::LabError;

/// Requests `path` and expects exactly `content`. With `closing`, also expects the server to honour `Connection: close`.
pub(crate) fn check(server: SocketAddr, path: &str, content: &[u8], closing: bool) -> Result<(), LabError> {
    check_on(|| Ok(connect(server, RESPONSE_TIME_MAX)?), &server.to_string(), path, content, closing)
}

/// The same with TLS.
pub(crate) fn check_tls(
    server: SocketAddr,
    offer: &TlsOffer,
    path: &str,
    content: &[u8],
) -> Result<(), LabError> {
    check_on(|| offer.connect(server, RESPONSE_TIME_MAX), &host(server), path, content, true)
}

/// Requests `path` over HTTP/2, with TLS if there is something to offer, and expects exactly `content`.
pub(crate) fn check_http2(
    server: SocketAddr,
    offer: Option<&TlsOffer>,
    path: &str,
    content: &[u8],
) -> Result<(), LabError> {
    let window = content.len() as u32;
    match LabHttp2Client::connect(server, offer, path, window)?.content()? == content {
        true => Ok(()),
        false => Err("the server sent another content over HTTP/2 than that of the file".into()),
    }
}

fn check_on<S: Read + Write>(
    connect: impl Fn() -> Result<S, ClientError>,
    host: &str,
    path: &str,
    content: &[u8],
    closing: bool,
) -> Result<(), LabError> {
    let mut stream = connect()?;
    stream.write_all(&RequestForm::Short.request(host, path))?;
    let mut wire = Vec::new();
    let size = read_response(&mut stream, &mut wire)?;
    if size.content(&wire)? != content {
        return Err("the server sent another content than that of the file".into());
    }
    if !closing {
        return Ok(());
    }

    let mut stream = connect()?;
    // One write: a server may respond and close before it has read the complete request.
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut wire = Vec::new();
    stream
        .read_to_end(&mut wire)
        .map_err(|error| format!("the server did not close after `Connection: close`: {error}"))?;
    let size = ResponseSize::parse(&wire)?.ok_or("the server closed before the end of its response")?;
    if size.content(&wire)? != content {
        return Err("the server sent another content than that of the file before it closed".into());
    }
    Ok(())
}

/// Longest wait for a response, and for the close after it.
const RESPONSE_TIME_MAX: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread;

    #[test]
    fn check_requires_the_complete_content_and_a_close() {
        const GOOD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        const OTHER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHELLO";
        const SHORT: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhell";
        #[rustfmt::skip]
        let cases: &[(&str, &'static [u8], bool, bool, bool)] = &[
            // case                         response  closes  close requested  passes
            ("complete, closes",            GOOD,     true,   true,            true),
            ("complete, does not close",    GOOD,     false,  true,            false),
            ("close not requested",         GOOD,     false,  false,           true),
            ("other content",               OTHER,    true,   true,            false),
            ("short content",               SHORT,    true,   true,            false),
        ];
        for (name, response, closes, closing, want) in cases {
            let server = responding(response, *closes);
            assert_eq!(check(server, "/", b"hello", *closing).is_ok(), *want, "{name}");
        }
    }

    /// Responds to one read on each connection, then closes it or keeps it open.
    fn responding(response: &'static [u8], closes: bool) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            let mut open = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let _ = stream.read(&mut [0; 1024]).unwrap();
                stream.write_all(response).unwrap();
                if !closes {
                    open.push(stream);
                }
            }
        });
        address
    }
}
