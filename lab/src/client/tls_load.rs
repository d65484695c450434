//! The closed-loop client with TLS: one thread, some connections, one operation at a time on each.
//!
//! ```text
//! handshakes:  connect ─▶ handshake ─▶ request ─▶ complete response ─▶ close_notify, close ─▶ connect ─▶ …
//! kept alive:                          request ─▶ complete response ─▶ request ─▶ …
//! ```
//!
//! The client checks status and length of each response.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use rustix::time::Timespec;
use rustls::{ClientConnection, HandshakeKind};

use super::request::RequestForm;
use super::response::ResponseSize;
use super::tls::{TlsOffer, handshake_kind, host};
use super::{ClientError, connect};

/// Connections to one server.
pub(crate) struct TlsLoadClient {
    target: TlsTarget,
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
    connections: Vec<TlsLoadConnection>,
    input: Box<[u8]>,
}

/// What the client requests.
struct TlsTarget {
    server: SocketAddr,
    offer: TlsOffer,
    request: Vec<u8>,
    content_len: usize,
    /// Each operation begins with a new connection.
    reconnects: bool,
}

struct TlsLoadConnection {
    stream: TcpStream,
    session: ClientConnection,
    /// The start of the operation, unless a run began after it.
    start: Option<Instant>,
    /// The request is sent.
    requested: bool,
    response: ResponseProgress,
}

/// How much of a response arrived.
#[derive(Default)]
struct ResponseProgress {
    /// The front of the response, up to the end of its head.
    head: Vec<u8>,
    /// Bytes that have not arrived, once the head is complete.
    missing: Option<usize>,
}

/// The result of one run.
pub(crate) struct TlsLoadResult {
    /// Complete responses.
    pub(crate) operations: u64,
    /// Handshakes with the key of the certificate.
    pub(crate) full_handshakes: u64,
    /// Handshakes with a ticket.
    pub(crate) resumed_handshakes: u64,
    pub(crate) elapsed: Duration,
    /// Nanoseconds of each operation that began in the run.
    pub(crate) times: Vec<u64>,
}

impl TlsLoadClient {
    /// Opens `count` connections to request a path, whose content has `content_len` bytes. With `reconnects`, each operation begins with a
    /// new connection; otherwise it is a request alone.
    pub(crate) fn connect(
        server: SocketAddr,
        offer: TlsOffer,
        (path, content_len): (&str, usize),
        count: usize,
        reconnects: bool,
    ) -> Result<TlsLoadClient, ClientError> {
        let request = RequestForm::Short.request(&host(server), path);
        let target = TlsTarget { server, offer, request, content_len, reconnects };
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut connections = Vec::with_capacity(count);
        for number in 0..count {
            connections.push(TlsLoadConnection::open(&target, &epoll, number)?);
        }
        let (events, input) = (Vec::with_capacity(count), vec![0; INPUT_LEN].into_boxed_slice());
        Ok(TlsLoadClient { target, epoll, events, connections, input })
    }

    /// Runs operations for about `time`. An operation that is outstanding at the end counts for the next run, without its time.
    pub(crate) fn run(&mut self, time: Duration) -> Result<TlsLoadResult, ClientError> {
        let start = Instant::now();
        let mut result = TlsLoadResult {
            operations: 0,
            full_handshakes: 0,
            resumed_handshakes: 0,
            elapsed: Duration::ZERO,
            times: Vec::new(),
        };
        self.connections.iter_mut().for_each(|connection| connection.start = None);
        loop {
            self.events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut self.events), Some(&SILENCE_TIMEOUT)) {
                Ok(0) => return Err(ClientError::Silence(SILENCE_MAX)),
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            for event in &self.events {
                let number = event.data.u64() as usize;
                let connection = &mut self.connections[number];
                if connection.receive(&self.target, &mut self.input, &mut result)? && self.target.reconnects {
                    connection.close()?;
                    // Dropping the old socket removes it from epoll.
                    *connection = TlsLoadConnection::open(&self.target, &self.epoll, number)?;
                }
            }
            result.elapsed = start.elapsed();
            if result.elapsed >= time {
                return Ok(result);
            }
        }
    }
}

impl TlsLoadConnection {
    /// Connects, and sends the first message of the handshake.
    fn open(target: &TlsTarget, epoll: &OwnedFd, number: usize) -> Result<TlsLoadConnection, ClientError> {
        let start = Some(Instant::now());
        // On loopback, the kernel connects before the call returns.
        let stream = connect(target.server, SILENCE_MAX)?;
        stream.set_nonblocking(true)?;
        epoll::add(epoll, &stream, epoll::EventData::new_u64(number as u64), epoll::EventFlags::IN)?;
        let session = target.offer.session()?;
        let response = ResponseProgress::default();
        let mut connection = TlsLoadConnection { stream, session, start, requested: false, response };
        connection.flush()?;
        Ok(connection)
    }

    /// Receives what is available. Returns whether the response is complete; on a kept-alive connection, the next request is then sent.
    fn receive(
        &mut self,
        target: &TlsTarget,
        input: &mut [u8],
        result: &mut TlsLoadResult,
    ) -> Result<bool, ClientError> {
        loop {
            let len = match recv(&self.stream, &mut *input, RecvFlags::empty()) {
                Ok((0, _)) => return Err(ClientError::Closed),
                Ok((len, _)) => len,
                Err(Errno::AGAIN) => return Ok(false),
                Err(errno) => return Err(errno.into()),
            };
            let mut wire = &input[..len];
            let mut complete = false;
            while !wire.is_empty() {
                self.session.read_tls(&mut wire)?;
                self.session.process_new_packets()?;
                complete |= self.read_content(target.content_len)?;
            }
            if !self.requested && !self.session.is_handshaking() {
                match handshake_kind(&self.session)? {
                    HandshakeKind::Resumed => result.resumed_handshakes += 1,
                    _ => result.full_handshakes += 1,
                }
                self.session.writer().write_all(&target.request)?;
                self.requested = true;
            }
            self.flush()?;
            if complete {
                result.operations += 1;
                result.times.extend(self.start.map(|start| start.elapsed().as_nanos() as u64));
                if !target.reconnects {
                    self.start = Some(Instant::now());
                    self.session.writer().write_all(&target.request)?;
                    self.flush()?;
                }
                return Ok(true);
            }
            // A receive that does not fill the buffer empties the socket.
            if len < input.len() {
                return Ok(false);
            }
        }
    }

    /// Reads the decrypted bytes. Returns whether they complete a response.
    fn read_content(&mut self, content_len: usize) -> Result<bool, ClientError> {
        let mut complete = false;
        let mut content = [0; CONTENT_LEN];
        loop {
            match self.session.reader().read(&mut content) {
                Ok(0) => return Err(ClientError::Closed),
                Ok(_) if complete || !self.requested => return Err(ClientError::Surplus),
                Ok(len) => complete = self.response.add(&content[..len], content_len)?,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(complete),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Sends everything that the session has to send.
    fn flush(&mut self) -> Result<(), ClientError> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut self.stream) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(ClientError::Full),
                other => other?,
            };
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), ClientError> {
        self.session.send_close_notify();
        self.flush()
    }
}

impl ResponseProgress {
    /// Adds bytes of a response. Returns whether they complete it; the next response may then begin.
    fn add(&mut self, bytes: &[u8], content_len: usize) -> Result<bool, ClientError> {
        let missing = match self.missing {
            Some(missing) => missing.checked_sub(bytes.len()),
            None => {
                self.head.extend_from_slice(bytes);
                let Some(size) = ResponseSize::parse(&self.head)? else { return Ok(false) };
                if size.content_len != content_len {
                    return Err(ClientError::Length);
                }
                size.len().checked_sub(self.head.len())
            }
        };
        let missing = missing.ok_or(ClientError::Surplus)?;
        self.missing = Some(missing);
        if missing == 0 {
            self.head.clear();
            self.missing = None;
        }
        Ok(missing == 0)
    }
}

/// Bytes per receive: a response of 64 KiB and its records nearly fit.
const INPUT_LEN: usize = 64 << 10;

/// Decrypted bytes per read: the content of a record.
const CONTENT_LEN: usize = 16 << 10;

/// Longest wait for a byte on any connection. A slower server is broken.
const SILENCE_MAX: Duration = Duration::from_secs(5);
const SILENCE_TIMEOUT: Timespec = Timespec { tv_sec: SILENCE_MAX.as_secs() as i64, tv_nsec: 0 };

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::sync::Arc;
    use std::thread;

    use rcgen::{CertifiedKey, generate_simple_self_signed};
    use rustls::crypto::aws_lc_rs::default_provider;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use rustls::{ServerConfig, ServerConnection, StreamOwned};

    use crate::client::tls::SERVER_NAME;

    const GOOD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

    #[test]
    fn operations_begin_with_the_right_handshake() {
        for (reconnects, resumes) in [(true, false), (true, true), (false, false)] {
            let (server, certificate) = serving(GOOD);
            let offer = TlsOffer::new(&certificate, resumes).unwrap();
            let mut client = TlsLoadClient::connect(server, offer, ("/", 5), 4, reconnects).unwrap();
            // The first operation of each connection has a full handshake.
            some_operations(&mut client);
            let result = some_operations(&mut client);
            let (full, resumed) = (result.full_handshakes > 0, result.resumed_handshakes > 0);
            assert_eq!((full, resumed), (reconnects && !resumes, reconnects && resumes));
            // The times of operations that were outstanding at the start are unknown.
            let unknown = result.operations - result.times.len() as u64;
            assert!((1..=4).contains(&unknown), "{unknown}");
        }
    }

    /// Runs operations until a run has completed more than one per connection.
    fn some_operations(client: &mut TlsLoadClient) -> TlsLoadResult {
        let runs = (1..).map(|number| client.run(number * Duration::from_millis(20)).unwrap());
        { runs }.find(|result| result.operations > 32).unwrap()
    }

    #[test]
    fn wrong_response_fails_the_run() {
        #[rustfmt::skip]
        let cases: &[(&str, &[u8], &str)] = &[
            // case          response                                                error
            ("other status", b"HTTP/1.1 404 OK\r\nContent-Length: 5\r\n\r\nhello",   "the response does not begin with HTTP/1.1 200"),
            ("other length", b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhell",    "the content of a response is not as long as its file"),
            ("surplus",      b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello!",  "the server sent more bytes than its first response had"),
        ];
        for (name, response, want) in cases {
            let (server, certificate) = serving(response);
            let offer = TlsOffer::new(&certificate, false).unwrap();
            let mut client = TlsLoadClient::connect(server, offer, ("/", 5), 1, false).unwrap();
            let error = client.run(Duration::from_secs(5)).err().expect(name).to_string();
            assert_eq!(error, *want, "{name}");
        }
    }

    #[test]
    fn certificate_of_another_server_fails_the_run() {
        let ((server, _), (_, other)) = (serving(GOOD), serving(GOOD));
        let offer = TlsOffer::new(&other, false).unwrap();
        let mut client = TlsLoadClient::connect(server, offer, ("/", 5), 1, true).unwrap();
        let error = client.run(Duration::from_secs(5)).err().expect("an error").to_string();
        assert!(error.contains("certificate"), "{error}");
    }

    #[test]
    fn response_may_arrive_in_any_pieces() {
        for cut in 1..GOOD.len() {
            let mut response = ResponseProgress::default();
            for _ in 0..2 {
                assert!(!response.add(&GOOD[..cut], 5).unwrap(), "{cut} bytes");
                assert!(response.add(&GOOD[cut..], 5).unwrap(), "{cut} bytes");
            }
        }
    }

    /// Sends the response after each read on each connection.
    fn serving(response: &'static [u8]) -> (SocketAddr, CertificateDer<'static>) {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed([SERVER_NAME.to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)
            .unwrap();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (session, stream) =
                    (ServerConnection::new(Arc::clone(&config)).unwrap(), stream.unwrap());
                // A response would wait for the ACK of the tickets.
                stream.set_nodelay(true).unwrap();
                let mut stream = StreamOwned::new(session, stream);
                thread::spawn(move || {
                    while stream.read(&mut [0; 1024]).is_ok_and(|len| len > 0) {
                        stream.write_all(response).unwrap();
                    }
                });
            }
        });
        (address, cert.der().clone())
    }
}
