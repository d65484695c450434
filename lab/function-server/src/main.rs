//! Embeds tarpon for `tarpon-lab loads`: functions respond to all requests.
//!
//! ```text
//! tarpon-function-server ADDRESS ENGINE       ENGINE: io_uring, epoll, poll, …
//! tarpon-function-server --version
//!
//! POST /stream    length and checksum of the content, read as it arrives, on a thread
//! POST            the same of content in memory, on the worker
//! else            "Hello world", on the worker
//! ```
//!
//! A package of its own, because the lab shares no code with tarpon.

#![forbid(unsafe_code)]

use std::env;
use std::error::Error;
use std::io::{self, Read};
use std::num::{NonZeroU32, NonZeroUsize};

use tarpon::{Address, Functions, Listener, Request, Response, Route, Server, Settings};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = env::args().skip(1).collect::<Vec<_>>();
    let [address, engine] = match &arguments[..] {
        [option] if option == "--version" => {
            println!("tarpon {}", env!("CARGO_PKG_VERSION"));
            return Ok(());
        }
        [address, engine] => [address, engine],
        _ => return Err(USAGE.into()),
    };
    let settings = Settings {
        engine: engine.parse()?,
        // The lab gives the server one core.
        worker_count: Some(NonZeroUsize::MIN),
        // A load measures no new connections, except those after malformed requests.
        keepalive_requests: NonZeroU32::MAX,
        ..Settings::default()
    };
    let functions = Functions::new()
        .route(Route::new("/", respond))
        .route(Route::new("/stream", respond_streamed).on_threads().content_len_max(STREAM_LEN_MAX))
        .queue_len(QUEUE_LEN);
    let listener = Listener::new(&Address::Tcp(address.parse()?), 1)?;
    Server::start(&settings, vec![listener], functions)?.join()?;
    Ok(())
}

/// Responds to a request whose content is in memory.
fn respond(request: &mut Request<'_>) -> io::Result<Response> {
    if request.method() != "POST" {
        return Ok(Response::text("Hello world\n"));
    }
    let mut sum = ContentSum::default();
    sum.add(request.content()?);
    Ok(Response::text(sum.finish()))
}

/// Responds to a request whose content arrives in pieces.
fn respond_streamed(request: &mut Request<'_>) -> io::Result<Response> {
    let (mut sum, mut input) = (ContentSum::default(), vec![0; INPUT_LEN]);
    loop {
        match request.read(&mut input)? {
            0 => return Ok(Response::text(sum.finish())),
            len => sum.add(&input[..len]),
        }
    }
}

/// The length of a content, and a checksum that each of its bytes changes: FNV-1a over words of eight bytes in little-endian order, the
/// last one filled up with zeros. The lab computes both for the same bytes with other code.
struct ContentSum {
    len: u64,
    hash: u64,
    /// The bytes after the last complete word: `len % 8` of them.
    partial: [u8; 8],
}

impl Default for ContentSum {
    fn default() -> ContentSum {
        ContentSum { len: 0, hash: 0xcbf2_9ce4_8422_2325, partial: [0; 8] }
    }
}

impl ContentSum {
    /// Adds the next bytes of the content.
    fn add(&mut self, mut bytes: &[u8]) {
        let held = (self.len % 8) as usize;
        self.len += bytes.len() as u64;
        if held > 0 {
            let taken = bytes.len().min(8 - held);
            self.partial[held..held + taken].copy_from_slice(&bytes[..taken]);
            bytes = &bytes[taken..];
            if held + taken < 8 {
                return;
            }
            self.add_word(self.partial);
        }
        let (words, rest) = bytes.as_chunks();
        words.iter().for_each(|word| self.add_word(*word));
        self.partial = [0; 8];
        self.partial[..rest.len()].copy_from_slice(rest);
    }

    fn add_word(&mut self, word: [u8; 8]) {
        self.hash = (self.hash ^ u64::from_le_bytes(word)).wrapping_mul(0x0000_0100_0000_01b3);
    }

    /// Returns length and checksum as text.
    fn finish(mut self) -> String {
        if !self.len.is_multiple_of(8) {
            self.add_word(self.partial);
        }
        format!("{} {:016x}\n", self.len, self.hash)
    }
}

const USAGE: &str = "usage: tarpon-function-server ADDRESS ENGINE";

/// Maximum content of a request to `/stream`. The lab sends less.
const STREAM_LEN_MAX: u64 = 64 << 20;

/// Requests that wait for a thread: more than the connections of the load that uses threads, so the server refuses none.
const QUEUE_LEN: usize = 1024;

/// Bytes per read, as many as a pipe between server and function holds at least.
const INPUT_LEN: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_does_not_depend_on_the_pieces() {
        #[rustfmt::skip]
        let cases: &[(&str, &[u8], &str)] = &[
            // case          content                     length and checksum
            ("nothing",      b"",                        "0 cbf29ce484222325\n"),
            ("a word",       b"12345678",                "8 49f2564e2d0004fc\n"),
            ("two words",    b"0123456789abcdef",        "16 677356ce06b78095\n"),
            ("a part",       b"hello",                   "5 db864ebbbd0174d7\n"),
            ("a zero more",  b"hello\0",                 "6 db864ebbbd0174d7\n"),
        ];
        for (name, content, want) in cases {
            for cut in 1..=content.len().max(1) {
                let mut sum = ContentSum::default();
                content.chunks(cut).for_each(|piece| sum.add(piece));
                assert_eq!(sum.finish(), *want, "{name}, {cut} bytes at a time");
            }
        }
    }
}
