//! The closed-loop client: one thread, some connections, one outstanding batch of requests per connection. A batch is one request, or
//! several pipelined ones.
//!
//! ```text
//! connect: request ─▶ complete response, whose length the client stores
//! run:     batch ─▶ bytes counted ─▶ batch ─▶ …      the client parses no further head
//! ```
//!
//! A request costs this client about as little CPU as it costs a null server, so that most of the CPU remains for the server.
//! The client still checks that the first response of each batch begins with the expected status, and that a batch is as long as that many times the
//! first response.
//!
//! The responses of some servers differ in length: then the client parses each of them. See [`ResponseLengths`]. So it does with the requests of a
//! [mix](super::visits), in which each connection is at another place.
//!
//! A response time ends when the client learns of the last byte, and begins when it learnt of the batch before: with one clock read for all events
//! of a wait, it contains the time in which the client handled the others.
//!
//! A server with fewer workers than connections, where each worker serves one connection, must close connections. For such a
//! server the client reconnects, and accepts `Connection: close` in a response. A client that asks for the end of the connection after each
//! response reconnects once it has seen the end.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::time::Timespec;

use super::request::RequestForm;
use super::response::{ResponseError, ResponseSize, ResponseSummary};
use super::response_times::ResponseTimes;
use super::visits::VisitRequest;
use super::{ClientError, connect, read_response, read_summary};
use crate::records::race::TimeQuantiles;

/// Connections to one server.
pub(crate) struct ClosedLoopClient {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
    connections: Vec<ClosedLoopConnection>,
    /// The batches that a connection sends in turn: one, unless there is a mix.
    batches: Vec<VisitRequest>,
    times: ResponseTimes,
    input: Box<[u8]>,
    server: SocketAddr,
    on_close: OnClose,
    /// Connections that the client opened again.
    reconnects: u64,
    /// The first requests are sent; each further request follows a response.
    started: bool,
}

/// What the client does if the server closes a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnClose {
    Fail,
    Reconnect,
}

/// Whether all responses of a server have the same length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResponseLengths {
    Equal,
    /// Content arrives in one or more chunks, or with its length.
    Differ,
}

/// What a client sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestBatch {
    pub(crate) form: RequestForm,
    /// Requests sent at once.
    pub(crate) count: usize,
    /// Each request asks the server to close the connection.
    pub(crate) closes: bool,
}

impl RequestBatch {
    /// One short request.
    pub(crate) const ONE: RequestBatch = RequestBatch { form: RequestForm::Short, count: 1, closes: false };
}

struct ClosedLoopConnection {
    stream: TcpStream,
    response_len: usize,
    batch: RequestBatch,
    /// Bytes of the current batch of responses that have not arrived. 0 between two batches.
    missing: usize,
    /// The current response announces that the server will close the connection.
    closing: bool,
    /// The response is complete, and the server closes the connection, as the request asked.
    awaits_end: bool,
    /// The first part of a response, if their lengths differ.
    partial: Option<Vec<u8>>,
    /// The batch that the server is answering.
    current: usize,
    /// When the client sent it, after the start of the run; `None` for a batch of an earlier run.
    sent_at: Option<Duration>,
}

/// What a connection received.
struct ReceiveProgress {
    completed: u64,
    bytes: u64,
    /// The server closes the connection.
    closed: bool,
}

/// The result of one run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadResult {
    /// Complete responses.
    pub(crate) requests: u64,
    /// Bytes that arrived.
    pub(crate) bytes: u64,
    /// Times of the batches that were sent and answered in the run; `None` if there are none.
    pub(crate) times: Option<TimeQuantiles>,
    /// Connections that the client opened again.
    pub(crate) reconnects: u64,
    pub(crate) elapsed: Duration,
}

impl ClosedLoopClient {
    /// Opens `count` connections and requests `path` once on each.
    pub(crate) fn connect(
        server: SocketAddr,
        path: &str,
        batch: RequestBatch,
        count: usize,
        on_close: OnClose,
    ) -> Result<ClosedLoopClient, ClientError> {
        let request = batch.request(server, path)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut connections = Vec::with_capacity(count);
        for number in 0..count {
            let connection = ClosedLoopConnection::open(server, &request, batch)?;
            watch(&epoll, number, &connection.stream)?;
            connections.push(connection);
        }
        let batches = vec![VisitRequest { bytes: request.repeat(batch.count), status: batch.form.status() }];
        Ok(ClosedLoopClient {
            epoll,
            events: Vec::with_capacity(EVENT_COUNT_MAX),
            connections,
            batches,
            times: ResponseTimes::new(),
            input: vec![0; INPUT_LEN].into_boxed_slice(),
            server,
            on_close,
            reconnects: 0,
            started: false,
        })
    }

    /// Sets whether the responses of the server have the same length: they do by default.
    pub(crate) fn expect(&mut self, lengths: ResponseLengths) {
        for connection in &mut self.connections {
            connection.partial = (lengths == ResponseLengths::Differ).then(Vec::new);
        }
    }

    /// Sends these requests from now on, each connection from another place on, and parses each response.
    pub(crate) fn send_mix(&mut self, mix: Vec<VisitRequest>) {
        let count = self.connections.len();
        for (number, connection) in self.connections.iter_mut().enumerate() {
            connection.current = number * mix.len() / count;
        }
        self.batches = mix;
        self.expect(ResponseLengths::Differ);
    }

    /// Returns the bytes of the first response on the first connection.
    pub(crate) fn response_len(&self) -> usize {
        self.connections.first().map_or(0, |connection| connection.response_len)
    }

    /// Sends requests for about `time`. Requests that are outstanding at the end count for the next run.
    pub(crate) fn run(&mut self, time: Duration) -> Result<LoadResult, ClientError> {
        let start = Instant::now();
        if !self.started {
            for number in 0..self.connections.len() {
                let connection = &self.connections[number];
                if let Err(error) = send_request(&connection.stream, &self.batches[connection.current].bytes)
                {
                    self.reconnect(number, error, Duration::ZERO)?;
                }
            }
            self.started = true;
        }
        self.times.clear();
        for connection in &mut self.connections {
            connection.sent_at = None;
        }
        let (mut requests, mut bytes, reconnects) = (0, 0, self.reconnects);
        loop {
            self.events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut self.events), Some(&SILENCE_TIMEOUT)) {
                Ok(0) => return Err(ClientError::Silence(SILENCE_MAX)),
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            let now = start.elapsed();
            for at in 0..self.events.len() {
                let epoll::Event { data, flags } = self.events[at];
                let number = data.u64() as usize;
                let (connection, ending) = (&mut self.connections[number], flags != epoll::EventFlags::IN);
                match connection.receive(ending, self.on_close, &mut self.input, &self.batches) {
                    Ok(progress) => {
                        requests += progress.completed;
                        bytes += progress.bytes;
                        if progress.completed > 0 {
                            let sent_at = connection.sent_at.replace(now);
                            sent_at.into_iter().for_each(|sent_at| self.times.add(now - sent_at));
                        }
                        if progress.closed {
                            self.reconnect(number, ClientError::Closed, now)?;
                        }
                    }
                    Err(error) => self.reconnect(number, error, now)?,
                }
            }
            if now >= time {
                return Ok(LoadResult {
                    requests,
                    bytes,
                    times: self.times.quantiles(),
                    reconnects: self.reconnects - reconnects,
                    elapsed: start.elapsed(),
                });
            }
        }
    }

    /// Replaces a connection that failed with `error`, and sends a request. Returns the error if the server may not close it.
    #[cold]
    fn reconnect(&mut self, number: usize, error: ClientError, now: Duration) -> Result<(), ClientError> {
        let connection = &mut self.connections[number];
        if self.on_close == OnClose::Fail || !error.is_close() || connection.missing > 0 {
            return Err(error);
        }
        let stream = TcpStream::connect(self.server)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        send_request(&stream, &self.batches[connection.current].bytes)?;
        connection.sent_at = Some(now);
        watch(&self.epoll, number, &stream)?;
        (connection.stream, connection.closing, connection.awaits_end) = (stream, false, false);
        self.reconnects += 1;
        Ok(())
    }
}

impl RequestBatch {
    /// Returns the request, which may depend on an earlier response.
    fn request(self, server: SocketAddr, path: &str) -> Result<Vec<u8>, ClientError> {
        let host = server.to_string();
        let mut request = self.form.request(&host, path);
        if self.form == RequestForm::Conditional {
            let mut stream = connect(server, SILENCE_MAX)?;
            stream.write_all(&request)?;
            let mut wire = Vec::new();
            let size = read_response(&mut stream, &mut wire)?;
            request = RequestForm::conditional_request(&host, path, &wire[..size.head_len]);
        }
        if self.closes {
            request.truncate(request.len() - 2);
            request.extend_from_slice(b"Connection: close\r\n\r\n");
        }
        Ok(request)
    }
}

impl ClosedLoopConnection {
    /// Connects, requests the page once, and stores the length of the response.
    fn open(
        server: SocketAddr,
        request: &[u8],
        batch: RequestBatch,
    ) -> Result<ClosedLoopConnection, ClientError> {
        let mut stream = connect(server, SILENCE_MAX)?;
        stream.write_all(request)?;
        let mut wire = Vec::new();
        let ResponseSummary { size, .. } = read_summary(&mut stream, &mut wire)?;
        if !batch.form.is_answered_by(&wire[..size.head_len]) {
            return Err(ResponseError::Status.into());
        }
        if wire.len() > size.len() {
            return Err(ClientError::Surplus);
        }
        stream.set_nonblocking(true)?;
        let response_len = size.len();
        Ok(ClosedLoopConnection {
            stream,
            response_len,
            batch,
            missing: 0,
            closing: false,
            awaits_end: false,
            partial: None,
            current: 0,
            sent_at: None,
        })
    }

    /// Receives all available bytes, up to the end of the stream if `ending`, and answers complete responses with a request.
    fn receive(
        &mut self,
        ending: bool,
        on_close: OnClose,
        input: &mut [u8],
        batches: &[VisitRequest],
    ) -> Result<ReceiveProgress, ClientError> {
        let (mut completed, mut bytes) = (0, 0);
        let progress = |completed, bytes, closed| Ok(ReceiveProgress { completed, bytes, closed });
        loop {
            let len = match recv(&self.stream, &mut *input, RecvFlags::empty()) {
                // Responses that were complete before the end of the stream count.
                Ok((0, _)) if completed > 0 && on_close == OnClose::Reconnect => {
                    return progress(completed, bytes, true);
                }
                Ok((0, _)) if self.awaits_end => return progress(completed, bytes, true),
                Ok((0, _)) => return Err(ClientError::Closed),
                Ok((len, _)) => len,
                Err(Errno::AGAIN) => return progress(completed, bytes, false),
                Err(errno) => return Err(errno.into()),
            };
            bytes += len as u64;
            if self.partial.is_some() {
                if self.parse(&input[..len], batches[self.current].status)? {
                    completed += 1;
                    self.current = (self.current + 1) % batches.len();
                    send_request(&self.stream, &batches[self.current].bytes)?;
                }
                if len < input.len() && !ending {
                    return progress(completed, bytes, false);
                }
                continue;
            }
            if self.missing == 0 {
                let prefix = self.batch.form.first_bytes();
                let prefix = &prefix[..len.min(prefix.len())];
                if self.awaits_end || input[..prefix.len()] != *prefix {
                    return Err(ResponseError::Status.into());
                }
                self.missing = self.response_len * self.batch.count;
                if on_close == OnClose::Reconnect && len != self.response_len {
                    self.parse_head(&input[..len])?;
                }
            }
            self.missing = self.missing.checked_sub(len).ok_or(ClientError::Surplus)?;
            if self.missing == 0 {
                completed += self.batch.count as u64;
                if self.batch.closes {
                    self.awaits_end = true;
                    // The end may be there already, and then brings no event.
                    continue;
                }
                if self.closing {
                    return progress(completed, bytes, true);
                }
                send_request(&self.stream, &batches[self.current].bytes)?;
            }
            // A receive that does not fill the buffer empties the socket; further bytes cause a new edge.
            if len < input.len() && !ending {
                return progress(completed, bytes, false);
            }
        }
    }

    /// Adds bytes to a response with this status whose length follows from itself. Returns whether it is complete.
    fn parse(&mut self, bytes: &[u8], status: u16) -> Result<bool, ClientError> {
        let partial = self.partial.get_or_insert_default();
        partial.extend_from_slice(bytes);
        match ResponseSummary::parse(partial)? {
            Some(summary) if summary.status != status => Err(ResponseError::Status.into()),
            Some(ResponseSummary { size, .. }) if partial.len() > size.len() => Err(ClientError::Surplus),
            Some(ResponseSummary { size, .. }) if partial.len() == size.len() => {
                partial.clear();
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Parses the head of a response that differs in length from the first one, or that arrived in part.
    #[cold]
    fn parse_head(&mut self, wire: &[u8]) -> Result<(), ClientError> {
        if let Some(size) = ResponseSize::parse(wire)? {
            let head = &wire[..size.head_len];
            self.closing = head.windows(CLOSE.len()).any(|field| field.eq_ignore_ascii_case(CLOSE));
            self.missing = size.len();
        }
        Ok(())
    }
}

/// Registers a connection with epoll under its number, edge triggered.
fn watch(epoll: &OwnedFd, number: usize, stream: &TcpStream) -> Result<(), Errno> {
    let interest = epoll::EventFlags::IN | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
    epoll::add(epoll, stream, epoll::EventData::new_u64(number as u64), interest)
}

fn send_request(stream: &TcpStream, request: &[u8]) -> Result<(), ClientError> {
    match send(stream, request, SendFlags::NOSIGNAL)? {
        len if len == request.len() => Ok(()),
        _ => Err(ClientError::Full),
    }
}

/// The field with which a server announces that it will close the connection.
const CLOSE: &[u8] = b"\r\nConnection: close\r\n";

/// Events per wait: one wait serves all ready connections, and the client reads the clock once.
const EVENT_COUNT_MAX: usize = 256;

/// Bytes per receive: a small response fits, and the buffer stays in the CPU cache.
const INPUT_LEN: usize = 64 << 10;

/// Longest wait for a byte on any connection. A slower server is broken.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(5);
const SILENCE_TIMEOUT: Timespec = Timespec { tv_sec: SILENCE_MAX.as_secs() as i64, tv_nsec: 0 };

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;
    use std::thread;

    #[test]
    fn wrong_second_response_fails_the_run() {
        const GOOD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        const CLOSED: &str = "the server closed a connection that it should keep open";
        #[rustfmt::skip]
        let cases: &[(&str, &[u8], &str)] = &[
            // case              second response                                         error
            ("closes",           b"",                                                    CLOSED),
            ("other status",     b"HTTP/1.1 404 OK\r\nContent-Length: 5\r\n\r\nhello",   "the response does not begin with HTTP/1.1 200"),
            ("longer",           b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello!",  "the server sent more bytes than its first response had"),
            ("correct",          GOOD,                                                   CLOSED),
        ];
        for (name, second, want) in cases {
            let server = scripted(vec![GOOD, second]);
            let mut client =
                ClosedLoopClient::connect(server, "/", RequestBatch::ONE, 1, OnClose::Fail).expect(name);
            let error = client.run(Duration::from_secs(1)).expect_err(name).to_string();
            assert_eq!(error, *want, "{name}");
        }
    }

    #[test]
    fn client_reconnects_if_the_server_may_close() {
        const GOOD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        const LAST: &[u8] = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello";
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        // In turn, a connection gets two responses, a response with `Connection: close`, and a close without a response.
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
        let mut client =
            ClosedLoopClient::connect(server, "/", RequestBatch::ONE, 1, OnClose::Reconnect).unwrap();
        let run = client.run(Duration::from_millis(200)).unwrap();
        assert!(run.requests > 10 && run.reconnects > 10, "{run:?}");
        // Three connections bring three responses.
        let ratio = run.requests as f64 / run.reconnects as f64;
        assert!((0.8..=1.3).contains(&ratio), "{run:?}");
    }

    #[test]
    fn responses_of_different_lengths_are_parsed() {
        const GOOD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        const CHUNKED: &[u8] =
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
        const BAD: &[u8] = b"HTTP/1.1 500 Sorry\r\nContent-Length: 5\r\n\r\nhello";
        let server = scripted(vec![GOOD, CHUNKED, GOOD, BAD]);
        let mut client = ClosedLoopClient::connect(server, "/", RequestBatch::ONE, 1, OnClose::Fail).unwrap();
        client.expect(ResponseLengths::Differ);
        let error = client.run(Duration::from_secs(1)).expect_err("500").to_string();
        assert_eq!(error, "the response does not begin with HTTP/1.1 200");
    }

    /// Sends each answer after one read on one connection, then closes it.
    fn scripted(answers: Vec<&'static [u8]>) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            for answer in answers {
                let _ = stream.read(&mut [0; 1024]).unwrap();
                stream.write_all(answer).unwrap();
            }
            // Closing a socket with unread bytes would send a reset.
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let _ = stream.read(&mut [0; 1024]);
        });
        address
    }
}
