//! The lean client: one thread, some kept connections, one request outstanding on each.
//!
//! ```text
//! connect: request ─▶ whole response, its length learnt
//! run:     request ─▶ bytes counted ─▶ request ─▶ …      no head is read again
//! ```
//!
//! It costs about as little as the null server it is measured against, so that what is left is the server's.
//! That every response begins with status 200 and is as long as the first is still checked.
//!
//! Of a server that has fewer workers than there are connections, and each for one of them alone, nobody can expect to have
//! all kept. There a connection that is closed is opened anew, and a response may say that it is the last one.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::time::Timespec;

use crate::response::{Extent, OK, ResponseError};

/// Kept connections to one server.
pub(crate) struct Client {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
    connections: Vec<Connection>,
    request: Vec<u8>,
    input: Box<[u8]>,
    server: SocketAddr,
    keeping: Keeping,
    /// Connections that were opened anew.
    reopened: u64,
    /// The first requests are out; from then on each response sends the next.
    begun: bool,
}

/// What becomes of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeping {
    /// Each is to be kept.
    All,
    /// The server may close them, and then they are opened anew.
    Some,
}

struct Connection {
    stream: TcpStream,
    response_len: usize,
    /// Bytes of the response still to come. 0: none has come.
    missing: usize,
    /// It is the last one.
    last: bool,
}

/// What a connection has brought.
struct Brought {
    completed: u64,
    /// It brings no more.
    over: bool,
}

/// What one run did.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// Responses received to their last byte.
    pub(crate) requests: u64,
    /// Connections that were opened anew.
    pub(crate) reopened: u64,
    /// Time it took.
    pub(crate) elapsed: Duration,
}

impl Client {
    /// Opens `count` connections and asks for `path` once on each.
    pub(crate) fn connect(
        server: SocketAddr,
        path: &str,
        count: usize,
        keeping: Keeping,
    ) -> Result<Client, ClientError> {
        let request = request(server, path);
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut connections = Vec::with_capacity(count);
        for number in 0..count {
            let connection = Connection::open(server, &request)?;
            watch(&epoll, number, &connection.stream)?;
            connections.push(connection);
        }
        let events = Vec::with_capacity(EVENT_COUNT_MAX);
        let input = vec![0; INPUT_LEN].into_boxed_slice();
        Ok(Client { epoll, events, connections, request, input, server, keeping, reopened: 0, begun: false })
    }

    /// Bytes of a response, as the first connection learnt it.
    pub(crate) fn response_len(&self) -> usize {
        self.connections.first().map_or(0, |connection| connection.response_len)
    }

    /// Asks again and again for about `time`. What is outstanding at the end belongs to the next run.
    pub(crate) fn run(&mut self, time: Duration) -> Result<Run, ClientError> {
        let start = Instant::now();
        if !self.begun {
            for number in 0..self.connections.len() {
                if let Err(error) = ask(&self.connections[number].stream, &self.request) {
                    self.reopen(number, error)?;
                }
            }
            self.begun = true;
        }
        let (mut requests, reopened) = (0, self.reopened);
        loop {
            self.events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut self.events), Some(&SILENCE_MAX)) {
                Ok(0) => return Err(ClientError::Silence),
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            for at in 0..self.events.len() {
                let epoll::Event { data, flags } = self.events[at];
                let number = data.u64() as usize;
                let (connection, ending) = (&mut self.connections[number], flags != epoll::EventFlags::IN);
                match connection.ready(ending, self.keeping, &mut self.input, &self.request) {
                    Ok(Brought { completed, over }) => {
                        requests += completed;
                        if over {
                            self.reopen(number, ClientError::Closed)?;
                        }
                    }
                    Err(error) => self.reopen(number, error)?,
                }
            }
            let elapsed = start.elapsed();
            if elapsed >= time {
                return Ok(Run { requests, reopened: self.reopened - reopened, elapsed });
            }
        }
    }

    /// Opens a connection anew that has failed so, and asks on it, if a server may let it fail so.
    #[cold]
    fn reopen(&mut self, number: usize, error: ClientError) -> Result<(), ClientError> {
        let connection = &mut self.connections[number];
        if self.keeping == Keeping::All || !error.is_close() || connection.missing > 0 {
            return Err(error);
        }
        let stream = TcpStream::connect(self.server)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        ask(&stream, &self.request)?;
        watch(&self.epoll, number, &stream)?;
        (connection.stream, connection.last) = (stream, false);
        self.reopened += 1;
        Ok(())
    }
}

impl Connection {
    /// Connects, asks once, and learns how long a response is.
    fn open(server: SocketAddr, request: &[u8]) -> Result<Connection, ClientError> {
        let mut stream = TcpStream::connect(server)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(SILENCE_MAX.tv_sec as u64)))?;
        stream.write_all(request)?;
        let mut wire = Vec::new();
        let extent = read_response(&mut stream, &mut wire)?;
        if wire.len() > extent.len() {
            return Err(ClientError::Surplus);
        }
        stream.set_nonblocking(true)?;
        Ok(Connection { stream, response_len: extent.len(), missing: 0, last: false })
    }

    /// Takes what has arrived, to the very end if the connection is `ending`.
    fn ready(
        &mut self,
        ending: bool,
        keeping: Keeping,
        input: &mut [u8],
        request: &[u8],
    ) -> Result<Brought, ClientError> {
        let mut completed = 0;
        loop {
            let len = match recv(&self.stream, &mut *input, RecvFlags::empty()) {
                // What was completed before is counted.
                Ok((0, _)) if completed > 0 && keeping == Keeping::Some => {
                    return Ok(Brought { completed, over: true });
                }
                Ok((0, _)) => return Err(ClientError::Closed),
                Ok((len, _)) => len,
                Err(Errno::AGAIN) => return Ok(Brought { completed, over: false }),
                Err(errno) => return Err(errno.into()),
            };
            if self.missing == 0 {
                let begins = len.min(OK.len());
                if input[..begins] != OK[..begins] {
                    return Err(ResponseError::Status.into());
                }
                self.missing = self.response_len;
                if keeping == Keeping::Some && len != self.response_len {
                    self.begin(&input[..len])?;
                }
            }
            self.missing = self.missing.checked_sub(len).ok_or(ClientError::Surplus)?;
            if self.missing == 0 {
                completed += 1;
                if self.last {
                    return Ok(Brought { completed, over: true });
                }
                ask(&self.stream, request)?;
            }
            // A receive that did not fill the buffer emptied the socket; what comes now is a new edge.
            if len < input.len() && !ending {
                return Ok(Brought { completed, over: false });
            }
        }
    }

    /// Reads the head of a response that is not as long as the first, or not all there.
    #[cold]
    fn begin(&mut self, wire: &[u8]) -> Result<(), ClientError> {
        if let Some(extent) = Extent::of(wire)? {
            let head = &wire[..extent.head_len];
            self.last = head.windows(CLOSE.len()).any(|field| field.eq_ignore_ascii_case(CLOSE));
            self.missing = extent.len();
        }
        Ok(())
    }
}

/// Watches a connection of this number, edge triggered.
fn watch(epoll: &OwnedFd, number: usize, stream: &TcpStream) -> Result<(), Errno> {
    let interest = epoll::EventFlags::IN | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
    epoll::add(epoll, stream, epoll::EventData::new_u64(number as u64), interest)
}

/// The request of a race: what wrk sends.
pub(crate) fn request(server: SocketAddr, path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: {server}\r\n\r\n").into_bytes()
}

/// Reads one response, or more if more comes at once, to the end of `wire`.
pub(crate) fn read_response(stream: &mut TcpStream, wire: &mut Vec<u8>) -> Result<Extent, ClientError> {
    let mut input = [0; 4096];
    loop {
        match Extent::of(wire)? {
            Some(extent) if wire.len() >= extent.len() => return Ok(extent),
            _ => {}
        }
        match stream.read(&mut input)? {
            0 => return Err(ClientError::Closed),
            len => wire.extend_from_slice(&input[..len]),
        }
    }
}

fn ask(stream: &TcpStream, request: &[u8]) -> Result<(), ClientError> {
    match send(stream, request, SendFlags::NOSIGNAL)? {
        len if len == request.len() => Ok(()),
        _ => Err(ClientError::Full),
    }
}

/// How a server spoilt a run.
#[derive(Debug)]
pub(crate) enum ClientError {
    /// It closed a connection that was to be kept.
    Closed,
    /// It answered nothing for [`SILENCE_MAX`].
    Silence,
    /// It sent more than was asked for, or a longer response than the first.
    Surplus,
    /// It sent a content that is not as long as its file.
    Length,
    /// It left a request of a few bytes unread until the socket was full.
    Full,
    /// It sent a response that cannot be counted.
    Response(ResponseError),
    /// The connection failed.
    Io(io::Error),
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientError::Closed => f.write_str("a connection that was to be kept was closed"),
            ClientError::Silence => write!(f, "no answer for {} s", SILENCE_MAX.tv_sec),
            ClientError::Surplus => f.write_str("more bytes came than the first response had"),
            ClientError::Length => f.write_str("a content is not as long as its file"),
            ClientError::Full => f.write_str("a request did not fit into the socket"),
            ClientError::Response(error) => error.fmt(f),
            ClientError::Io(error) => error.fmt(f),
        }
    }
}

impl ClientError {
    /// Whether it says that the server has closed the connection, before or after it saw a request.
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

/// What a response that is the last one says.
const CLOSE: &[u8] = b"\r\nConnection: close\r\n";

/// Events taken at once: one wait serves every connection that is ready, and the clock is read once.
const EVENT_COUNT_MAX: usize = 256;

/// Bytes taken at once: small responses fit whole, and it stays in the cache.
const INPUT_LEN: usize = 64 << 10;

/// Longest wait for any of the connections; a server this slow is broken.
const SILENCE_MAX: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread;

    #[test]
    fn a_server_that_spoils_a_run_is_named() {
        const GOOD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        #[rustfmt::skip]
        let cases: &[(&str, &[u8], &str)] = &[
            // what it shows     second response                                         said
            ("closes",           b"",                                                    "a connection that was to be kept was closed"),
            ("other status",     b"HTTP/1.1 404 OK\r\nContent-Length: 5\r\n\r\nhello",   "a response does not begin with HTTP/1.1 200"),
            ("longer",           b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello!",  "more bytes came than the first response had"),
            ("in good order",    GOOD,                                                   "a connection that was to be kept was closed"),
        ];
        for (name, second, want) in cases {
            let server = scripted(vec![GOOD, second]);
            let mut client = Client::connect(server, "/", 1, Keeping::All).expect(name);
            let said = client.run(Duration::from_secs(1)).expect_err(name).to_string();
            assert_eq!(said, *want, "{name}");
        }
    }

    #[test]
    fn of_a_server_that_may_close_each_connection_is_opened_anew() {
        const GOOD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        const LAST: &[u8] = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello";
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        // Kept for two; says that it closes; closes without an answer; and for ever so.
        let answers = [&[GOOD, GOOD][..], &[LAST], &[]];
        thread::spawn(move || {
            for (stream, answers) in listener.incoming().zip(answers.iter().cycle()) {
                let mut stream = stream.unwrap();
                for answer in *answers {
                    let _ = stream.read(&mut [0; 1024]);
                    let _ = stream.write_all(answer);
                }
                let _ = stream.read(&mut [0; 1024]);
                let _ = stream.shutdown(std::net::Shutdown::Both);
            }
        });
        let mut client = Client::connect(server, "/", 1, Keeping::Some).unwrap();
        let run = client.run(Duration::from_millis(200)).unwrap();
        assert!(run.requests > 10 && run.reopened > 10, "{run:?}");
        // Of three connections two bring one response, or one brings two and another one.
        let ratio = run.requests as f64 / run.reopened as f64;
        assert!((0.8..=1.3).contains(&ratio), "{run:?}");
    }

    /// Sends each answer to one read on one connection, then closes it.
    fn scripted(answers: Vec<&'static [u8]>) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            for answer in answers {
                let _ = stream.read(&mut [0; 1024]).unwrap();
                stream.write_all(answer).unwrap();
            }
            // A close with the next request unread would be a reset.
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let _ = stream.read(&mut [0; 1024]);
        });
        address
    }
}
