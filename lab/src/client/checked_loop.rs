//! The checked closed loop: one thread, many connections, one request at a time on each. The client checks status and content of every
//! response, counts errors by kind, and goes on with a new connection.
//!
//! ```text
//! Exchange ─ response ─┬─ keeps open ─▶ Exchange, with the next request
//!                      ├─ closes ─────▶ End ─ end of stream ─▶ new connection ─▶ Exchange
//!                      └─ draining ───▶ Idle
//! an error ─▶ new connection ─▶ Exchange, with the next request
//! ```
//!
//! Each connection sends the requests of a list in turn, and begins at another place of the list.

use std::fmt::Display;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::time::Timespec;

use super::ClientError;
use super::response::ResponseSummary;
use crate::records::loads::CheckedResponses;

/// A request, and the response that it must get.
pub(crate) struct CheckedRequest {
    /// A name for messages.
    pub(crate) name: String,
    pub(crate) wire: Vec<u8>,
    pub(crate) status: u16,
    pub(crate) content: ExpectedContent,
    /// Whether the server must close the connection after the response; otherwise it must keep it open.
    pub(crate) closes: bool,
}

/// The content that a response must have.
pub(crate) enum ExpectedContent {
    /// Exactly these bytes.
    Bytes(Vec<u8>),
    /// The server's page for the status, which names the status in its title.
    ErrorPage,
}

/// A client of one server.
pub(crate) struct CheckedLoopClient {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
    connections: Vec<CheckedConnection>,
    server: SocketAddr,
    load: CheckedLoad,
    /// Longest time for a response, or for a close after it.
    pub(crate) response_time_max: Duration,
    /// When the client last looked for timeouts.
    last_sweep: Instant,
}

/// What all connections of a client share.
struct CheckedLoad {
    /// Not empty.
    requests: Vec<CheckedRequest>,
    input: Box<[u8]>,
    totals: CheckedTotals,
    /// Nanoseconds from the first byte of each request to the last byte of its response.
    times: Vec<u64>,
    /// No connection sends a further request.
    is_draining: bool,
}

/// The results of the checks of a client.
#[derive(Default)]
pub(crate) struct CheckedTotals {
    pub(crate) responses: CheckedResponses,
    /// Descriptions of the first errors.
    pub(crate) messages: Vec<String>,
}

struct CheckedConnection {
    /// `None`: the connection could not be opened. The next sweep tries again.
    stream: Option<TcpStream>,
    /// The number of the current or last request.
    request: usize,
    /// Bytes of the current request that were sent.
    sent: usize,
    /// The first part of an incomplete response.
    partial: Vec<u8>,
    phase: ExchangePhase,
    /// The start of the phase.
    start: Instant,
    /// The connection has had neither a response nor an error so far.
    is_new: bool,
}

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExchangePhase {
    /// The rest of a response.
    Exchange,
    /// The end of the stream, after a response that closes the connection.
    End,
    /// Nothing.
    Idle,
}

/// An error on a connection: its kind, and what happened.
#[derive(Debug, PartialEq, Eq)]
struct CheckError {
    kind: CheckErrorKind,
    text: String,
}

/// The kind of an error, by which errors are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CheckErrorKind {
    Connect,
    Read,
    Write,
    Timeout,
    Status,
    Content,
}

impl CheckedLoopClient {
    /// Opens `count` connections, and sends the first request on each.
    pub(crate) fn connect(
        server: SocketAddr,
        requests: Vec<CheckedRequest>,
        count: usize,
    ) -> Result<CheckedLoopClient, ClientError> {
        let load = CheckedLoad {
            requests,
            input: vec![0; INPUT_LEN].into_boxed_slice(),
            totals: CheckedTotals::default(),
            times: Vec::new(),
            is_draining: false,
        };
        let mut client = CheckedLoopClient {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            events: Vec::with_capacity(EVENT_COUNT_MAX),
            connections: Vec::with_capacity(count),
            server,
            load,
            response_time_max: RESPONSE_TIME_MAX,
            last_sweep: Instant::now(),
        };
        for number in 0..count {
            client.connections.push(CheckedConnection {
                stream: None,
                // The first exchange advances to the next request.
                request: number,
                sent: 0,
                partial: Vec::new(),
                phase: ExchangePhase::Idle,
                start: Instant::now(),
                is_new: true,
            });
            client.open(number);
        }
        Ok(client)
    }

    /// Sends requests for at least `time`, until each connection has had a response or an error.
    pub(crate) fn warm_up(&mut self, time: Duration) -> Result<(), ClientError> {
        self.run_until(|client, elapsed| {
            elapsed >= time && !client.connections.iter().any(|connection| connection.is_new)
        })
    }

    /// Sends requests for about `time`. Returns the response time of each response that arrived, in nanoseconds.
    pub(crate) fn run(&mut self, time: Duration) -> Result<Vec<u64>, ClientError> {
        self.load.times.clear();
        self.run_until(|_, elapsed| elapsed >= time)?;
        Ok(std::mem::take(&mut self.load.times))
    }

    /// Waits for all outstanding responses. Returns what the client has checked in all runs.
    pub(crate) fn finish(mut self) -> Result<CheckedTotals, ClientError> {
        self.load.is_draining = true;
        let is_done = |connection: &CheckedConnection| {
            connection.phase == ExchangePhase::Idle || connection.stream.is_none()
        };
        self.run_until(|client, _| client.connections.iter().all(is_done))?;
        Ok(self.load.totals)
    }

    /// Runs until `is_done` returns true for the time since the start, or there are too many errors.
    fn run_until(&mut self, is_done: impl Fn(&Self, Duration) -> bool) -> Result<(), ClientError> {
        let start = Instant::now();
        while !is_done(self, start.elapsed()) && self.load.totals.responses.errors() < ERROR_COUNT_MAX {
            self.events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut self.events), Some(&SWEEP_TIMEOUT)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            for at in 0..self.events.len() {
                let epoll::Event { data, flags } = self.events[at];
                let hangs_up = epoll::EventFlags::RDHUP | epoll::EventFlags::HUP | epoll::EventFlags::ERR;
                self.drive(data.u64() as usize, flags.intersects(hangs_up));
            }
            if self.last_sweep.elapsed() >= SWEEP_INTERVAL {
                self.sweep();
            }
        }
        Ok(())
    }

    /// Takes one connection as far as it goes without waiting. `ending`: the server has closed it.
    fn drive(&mut self, number: usize, ending: bool) {
        match self.connections[number].drive(&mut self.load, ending) {
            Ok(DriveResult::Waits) => {}
            Ok(DriveResult::Closed) => self.open(number),
            Err(error) => self.failed(number, error),
        }
    }

    /// Counts an error, and replaces the connection. The new one sends the next request.
    #[cold]
    fn failed(&mut self, number: usize, error: CheckError) {
        let connection = &mut self.connections[number];
        let name = &self.load.requests[connection.request].name;
        self.load.totals.add(error.kind, format!("{name}: {}", error.text));
        connection.is_new = false;
        self.open(number);
    }

    /// Opens a connection in place of an earlier one, and sends a request unless the client drains.
    fn open(&mut self, number: usize) {
        let connection = &mut self.connections[number];
        // Dropping the old socket removes it from epoll.
        (connection.stream, connection.phase) = (None, ExchangePhase::Idle);
        if self.load.is_draining {
            return;
        }
        match connect(self.server, &self.epoll, number) {
            Ok(stream) => {
                connection.stream = Some(stream);
                connection.start_exchange(self.load.requests.len());
                // The first event follows at once, as the socket can be written: it sends the request.
            }
            Err(error) => {
                connection.is_new = false;
                self.load.totals.add(CheckErrorKind::Connect, error.to_string());
            }
        }
    }

    /// Ends exchanges that take too long, and opens connections that could not be opened before.
    fn sweep(&mut self) {
        self.last_sweep = Instant::now();
        for number in 0..self.connections.len() {
            let connection = &self.connections[number];
            let is_late = connection.start.elapsed() >= self.response_time_max;
            match connection.phase {
                _ if connection.stream.is_none() => self.open(number),
                ExchangePhase::Exchange if is_late => {
                    self.failed(number, CheckErrorKind::Timeout.because("no complete response"));
                }
                ExchangePhase::End if is_late => {
                    self.failed(number, CheckErrorKind::Timeout.because("the server does not close"));
                }
                _ => {}
            }
        }
    }
}

/// Connects, and registers the connection with epoll under its number.
fn connect(server: SocketAddr, epoll: &OwnedFd, number: usize) -> io::Result<TcpStream> {
    // On loopback, the kernel connects before the call returns.
    let stream = TcpStream::connect_timeout(&server, RESPONSE_TIME_MAX)?;
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    let interest = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP;
    let data = epoll::EventData::new_u64(number as u64);
    epoll::add(epoll, &stream, data, interest | epoll::EventFlags::ET)?;
    Ok(stream)
}

/// What becomes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DriveResult {
    /// It waits for a ready event.
    Waits,
    /// The server has closed it, as it should.
    Closed,
}

impl CheckedConnection {
    /// Advances to the next of `count` requests.
    fn start_exchange(&mut self, count: usize) {
        self.partial.clear();
        self.request = (self.request + 1) % count;
        (self.sent, self.phase, self.start) = (0, ExchangePhase::Exchange, Instant::now());
    }

    /// Sends and receives as much as the kernel takes and has, up to the end of the stream if `ending`.
    fn drive(&mut self, load: &mut CheckedLoad, ending: bool) -> Result<DriveResult, CheckError> {
        self.send(&load.requests[self.request])?;
        loop {
            let stream = self.stream.as_ref().expect("epoll reports open sockets only");
            let len = match recv(stream, &mut *load.input, RecvFlags::empty()) {
                Ok((0, _)) => return self.ended(),
                Ok((len, _)) => len,
                Err(Errno::AGAIN) => return Ok(DriveResult::Waits),
                Err(errno) => return Err(CheckErrorKind::Read.because(errno)),
            };
            self.received(load, len)?;
            // A receive that does not fill the buffer empties the socket; further bytes cause a new edge.
            if len < load.input.len() && !ending {
                return Ok(DriveResult::Waits);
            }
        }
    }

    /// Sends what is left of the current request.
    fn send(&mut self, request: &CheckedRequest) -> Result<(), CheckError> {
        while self.phase == ExchangePhase::Exchange && self.sent < request.wire.len() {
            let stream = self.stream.as_ref().expect("an exchange has a connection");
            match send(stream, &request.wire[self.sent..], SendFlags::NOSIGNAL) {
                Ok(len) => self.sent += len,
                Err(Errno::AGAIN) => return Ok(()),
                // The response that refuses the request may be there already.
                Err(Errno::PIPE) if request.closes => self.sent = request.wire.len(),
                Err(errno) => return Err(CheckErrorKind::Write.because(errno)),
            }
        }
        Ok(())
    }

    /// Handles `len` received bytes, and sends the next request after a complete response.
    fn received(&mut self, load: &mut CheckedLoad, len: usize) -> Result<(), CheckError> {
        if self.phase != ExchangePhase::Exchange {
            return Err(CheckErrorKind::Content.because("bytes after the response"));
        }
        let request = &load.requests[self.request];
        let is_complete = if self.partial.is_empty() && request.is_answered_by(&load.input[..len])? {
            true
        } else {
            self.partial.extend_from_slice(&load.input[..len]);
            request.is_answered_by(&self.partial)?
        };
        if !is_complete {
            return Ok(());
        }
        if self.sent < request.wire.len() && !request.closes {
            return Err(CheckErrorKind::Content.because("a response before the end of the request"));
        }
        load.totals.responses.correct += 1;
        load.times.push(self.start.elapsed().as_nanos() as u64);
        self.is_new = false;
        if request.closes {
            (self.phase, self.start) = (ExchangePhase::End, Instant::now());
        } else if load.is_draining {
            self.phase = ExchangePhase::Idle;
        } else {
            self.start_exchange(load.requests.len());
            self.send(&load.requests[self.request])?;
        }
        Ok(())
    }

    /// Handles the end of the stream.
    fn ended(&self) -> Result<DriveResult, CheckError> {
        match self.phase {
            ExchangePhase::End => Ok(DriveResult::Closed),
            ExchangePhase::Exchange => {
                Err(CheckErrorKind::Read.because("closed before the end of a response"))
            }
            ExchangePhase::Idle => Err(CheckErrorKind::Read.because("closed instead of kept open")),
        }
    }
}

impl CheckedRequest {
    /// Returns whether `wire` is the complete response to this request. Fails if it cannot become that.
    fn is_answered_by(&self, wire: &[u8]) -> Result<bool, CheckError> {
        let head = ResponseSummary::parse(wire).map_err(|error| CheckErrorKind::Status.because(error))?;
        let Some(ResponseSummary { status, size }) = head else { return Ok(false) };
        if status != self.status {
            let text = format!("status {status} instead of {}", self.status);
            return Err(CheckErrorKind::Status.because(text));
        }
        let Some(content) = wire.get(size.head_len..size.len()) else { return Ok(false) };
        if wire.len() > size.len() {
            return Err(CheckErrorKind::Content.because("bytes after the response"));
        }
        let is_expected = match &self.content {
            ExpectedContent::Bytes(bytes) => content == bytes,
            ExpectedContent::ErrorPage => {
                let title = format!("<title>{status} ").into_bytes();
                content.windows(title.len()).any(|part| part == title)
            }
        };
        if !is_expected {
            let shown = &content[..content.len().min(CONTENT_SHOWN_LEN)];
            return Err(CheckErrorKind::Content.because(format!("content \"{}\"", shown.escape_ascii())));
        }
        Ok(true)
    }
}

impl CheckedTotals {
    /// Counts an error.
    #[cold]
    fn add(&mut self, kind: CheckErrorKind, text: String) {
        let counts = &mut self.responses;
        let (count, name) = match kind {
            CheckErrorKind::Connect => (&mut counts.connect_errors, "connect"),
            CheckErrorKind::Read => (&mut counts.read_errors, "read"),
            CheckErrorKind::Write => (&mut counts.write_errors, "write"),
            CheckErrorKind::Timeout => (&mut counts.timeouts, "timeout"),
            CheckErrorKind::Status => (&mut counts.wrong_statuses, "wrong status"),
            CheckErrorKind::Content => (&mut counts.wrong_contents, "wrong content"),
        };
        *count += 1;
        if self.messages.len() < MESSAGE_COUNT_MAX {
            self.messages.push(format!("{name}: {text}"));
        }
    }
}

impl CheckErrorKind {
    fn because(self, text: impl Display) -> CheckError {
        CheckError { kind: self, text: text.to_string() }
    }
}

/// Events per wait: one wait serves all ready connections.
const EVENT_COUNT_MAX: usize = 256;

/// Bytes per receive: a response of a load fits.
const INPUT_LEN: usize = 16 << 10;

/// Longest time for a connect, a response, or a close. A slower server is broken, even with ten thousand requests before this one.
const RESPONSE_TIME_MAX: Duration = Duration::from_secs(5);

/// How often the client looks for timeouts.
const SWEEP_INTERVAL: Duration = Duration::from_millis(500);

/// Longest wait for an event: runs end in time, and sweeps begin in time.
const SWEEP_TIMEOUT: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// A run ends after that many errors: the experiment has failed.
const ERROR_COUNT_MAX: u64 = 1000;

/// Described errors. Further ones are counted only.
const MESSAGE_COUNT_MAX: usize = 10;

/// Bytes of a wrong content in a message.
const CONTENT_SHOWN_LEN: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    /// A case, whether the request is malformed, the pieces of the response, whether the server then closes, and the error.
    type CheckCase<'a> = (&'a str, bool, &'a [&'a [u8]], bool, Option<CheckErrorKind>);

    #[test]
    fn every_error_is_counted_by_kind() {
        use CheckErrorKind::*;
        #[rustfmt::skip]
        let cases: &[CheckCase<'_>] = &[
            // case                    refused  pieces of a response                                            closes  error
            ("correct",                false,   &[GOOD],                                                        false,  None),
            ("in two pieces",          false,   &[&GOOD[..9], &GOOD[9..]],                                      false,  None),
            ("wrong content",          false,   &[b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhellO"],      false,  Some(Content)),
            ("longer content",         false,   &[b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello!"],     false,  Some(Content)),
            ("shorter content",        false,   &[b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhell"],       false,  Some(Content)),
            ("bytes behind it",        false,   &[GOOD, b"!"],                                                  false,  Some(Content)),
            ("two responses",          false,   &[GOOD, GOOD],                                                  false,  Some(Content)),
            ("wrong status",           false,   &[b"HTTP/1.1 503 No\r\nContent-Length: 5\r\n\r\nhello"],      false,  Some(Status)),
            ("not HTTP",               false,   &[b"SSH-2.0"],                                                  false,  Some(Status)),
            ("no response",            false,   &[],                                                            true,   Some(Read)),
            ("early close",            false,   &[&GOOD[..GOOD.len() - 1]],                                     true,   Some(Read)),
            ("close behind it",        false,   &[GOOD],                                                        true,   Some(Read)),
            ("refusal",                true,    &[PAGE],                                                        true,   None),
            ("refusal with a status",  true,    &[GOOD],                                                        true,   Some(Status)),
            ("refusal without a page", true,    &[b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"],  true,   Some(Content)),
            ("refusal of half a page", true,    &[&PAGE[..PAGE.len() - 1]],                                     true,   Some(Read)),
            ("silence",                false,   &[],                                                            false,  Some(Timeout)),
            ("half a response",        false,   &[&GOOD[..9]],                                                  false,  Some(Timeout)),
            ("refusal without close",  true,    &[PAGE],                                                        false,  Some(Timeout)),
            ("refusal and surplus",    true,    &[PAGE, b"!"],                                                  true,   Some(Content)),
        ];
        for &(name, refused, pieces, closes, want) in cases {
            let server = scripted(pieces.iter().map(|piece| piece.to_vec()).collect(), closes);
            let mut client = CheckedLoopClient::connect(server, vec![request(refused)], 1).unwrap();
            // The client sends no second request.
            client.load.is_draining = true;
            if want == Some(Timeout) {
                client.response_time_max = Duration::ZERO;
            }
            if want.is_some() {
                client.run_until(|client, _| client.load.totals.responses.errors() > 0).unwrap();
            }
            let CheckedTotals { responses, messages } = client.finish().unwrap();
            let mut expected = CheckedTotals::default();
            want.into_iter().for_each(|kind| expected.add(kind, String::new()));
            expected.responses.correct = if want.is_some() { responses.correct } else { 1 };
            assert_eq!(responses, expected.responses, "{name}: {messages:?}");
            assert_eq!(messages.len() as u64, responses.errors(), "{name}");
        }
    }

    #[test]
    fn refused_connection_is_an_error_each_time() {
        let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut client = CheckedLoopClient::connect(unused, vec![request(false)], 3).unwrap();
        client.run_until(|client, _| client.load.totals.responses.connect_errors > 3).unwrap();
        let totals = client.finish().unwrap();
        assert_eq!(totals.responses.errors(), totals.responses.connect_errors);
        assert!(totals.messages[0].starts_with("connect: "), "{:?}", totals.messages);
    }

    #[test]
    fn client_sends_its_requests_in_turn_and_reconnects_after_a_refusal() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        thread::spawn(move || {
            for stream in listener.incoming() {
                thread::spawn(move || respond(stream.unwrap()));
            }
        });
        let requests = vec![request(false), request(false), request(true)];
        let mut client = CheckedLoopClient::connect(server, requests, 4).unwrap();
        client.warm_up(Duration::ZERO).unwrap();
        let mut responses = Vec::new();
        while responses.len() < 30 {
            responses.extend(client.run(Duration::from_millis(1)).unwrap());
        }
        let totals = client.finish().unwrap();
        assert_eq!(totals.responses.errors(), 0, "{:?}", totals.messages);
        assert!(totals.responses.correct >= 30 + 4, "{:?}", totals.responses);
    }

    /// Responds to requests on a connection until one is malformed.
    fn respond(mut stream: TcpStream) {
        let mut input = [0; 1024];
        while let Ok(len @ 1..) = stream.read(&mut input) {
            if input[..len].starts_with(b"GET") {
                stream.write_all(GOOD).unwrap();
            } else {
                return stream.write_all(PAGE).unwrap();
            }
        }
    }

    /// Reads a request on one connection, sends the pieces of a response, and closes the connection or keeps it open.
    fn scripted(pieces: Vec<Vec<u8>>, closes: bool) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 1024]).unwrap();
            for piece in pieces {
                // The client may have closed the connection after an earlier piece.
                let _ = stream.write_all(&piece);
            }
            if closes {
                let _ = stream.shutdown(std::net::Shutdown::Write);
            }
            // Waits for the client to close: closing a socket with unread bytes would send a reset.
            while let Ok(1..) = stream.read(&mut [0; 1024]) {}
        });
        address
    }

    /// Returns a request that gets [`GOOD`], or a malformed one that gets [`PAGE`] and a close.
    fn request(refused: bool) -> CheckedRequest {
        let (name, wire, status, content) = match refused {
            false => {
                ("good", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", 200, ExpectedContent::Bytes(b"hello".to_vec()))
            }
            true => ("refused", "X\r\n\r\n", 400, ExpectedContent::ErrorPage),
        };
        CheckedRequest { name: name.into(), wire: wire.into(), status, content, closes: refused }
    }

    const GOOD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    const PAGE: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 22\r\n\r\n<title>400 Bad Request";
}
