//! Is a server worth timing? It must return the whole content and close when asked to.
//!
//! A server that fails here could win a race by not doing the work.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::Trouble;
use crate::client::{read_response, request};

/// Asks for `path` and expects exactly `content`; with `closing`, also that `Connection: close` is honoured.
pub(crate) fn check(server: SocketAddr, path: &str, content: &[u8], closing: bool) -> Result<(), Trouble> {
    let mut stream = connect(server)?;
    stream.write_all(&request(server, path))?;
    let mut wire = Vec::new();
    let extent = read_response(&mut stream, &mut wire)?;
    if wire[extent.head_len..] != *content {
        return Err("the content is not that of the file".into());
    }
    if !closing {
        return Ok(());
    }

    let mut stream = connect(server)?;
    // In one write: a server may answer and close as soon as it has seen enough.
    let request = format!("GET {path} HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut wire = Vec::new();
    stream.read_to_end(&mut wire).map_err(|error| format!("Connection: close is not honoured: {error}"))?;
    if !wire.ends_with(content) {
        return Err("the content before a close is not that of the file".into());
    }
    Ok(())
}

fn connect(server: SocketAddr) -> Result<TcpStream, Trouble> {
    let stream = TcpStream::connect(server)?;
    stream.set_read_timeout(Some(CLOSE_TIME_MAX))?;
    Ok(stream)
}

/// Longest wait for a response, and for the close behind it.
const CLOSE_TIME_MAX: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread;

    #[test]
    fn only_the_whole_content_and_a_close_will_do() {
        const GOOD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        const OTHER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHELLO";
        const SHORT: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhell";
        #[rustfmt::skip]
        let cases: &[(&str, &'static [u8], bool, bool, bool)] = &[
            // what it shows          answer  closes  asked to  worth timing
            ("whole, closes",         GOOD,   true,   true,     true),
            ("whole, does not close", GOOD,   false,  true,     false),
            ("need not close",        GOOD,   false,  false,    true),
            ("other content",         OTHER,  true,   true,     false),
            ("short content",         SHORT,  true,   true,     false),
        ];
        for (name, answer, closes, asked, want) in cases {
            let server = answering(answer, *closes);
            assert_eq!(check(server, "/", b"hello", *asked).is_ok(), *want, "{name}");
        }
    }

    /// Answers one read on each connection and closes it, or keeps it for ever.
    fn answering(answer: &'static [u8], closes: bool) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            let mut kept = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let _ = stream.read(&mut [0; 1024]).unwrap();
                stream.write_all(answer).unwrap();
                if !closes {
                    kept.push(stream);
                }
            }
        });
        address
    }
}
