//! An HTTP/1.1 client that sends exactly the given bytes and frames responses by RFC 9112, section 6.3.

use super::{TEST_TIMEOUT, has_http2, http2_stream::Http2Stream, kernel::TcpPair};
use std::{
    io::{self, ErrorKind, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    os::unix::net::UnixStream,
    path::Path,
};
use tarpon::Engine;

/// One client connection to a server.
pub(crate) struct TestClient {
    stream: Box<dyn Stream>,
    /// The addresses of a TCP connection, also after its end.
    tcp_pair: Option<TcpPair>,
    /// Bytes received but not consumed by a read.
    received: Vec<u8>,
}

/// One HTTP response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// The status line and the fields, without the empty line.
    pub(crate) head: String,
    pub(crate) content: Vec<u8>,
}

/// A connected socket of either address family, as it is or below TLS.
pub(crate) trait Stream: Read + Write + Send {
    /// Announces that no more is sent, if the stream can say so.
    fn send_close_notify(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Shuts down the sending side of the socket.
    fn shutdown_write(&self) -> io::Result<()>;

    fn set_blocking(&self, blocking: bool) -> io::Result<()>;

    /// Returns the addresses of a TCP connection.
    fn tcp_pair(&self) -> Option<TcpPair>;
}

impl TestClient {
    pub(crate) fn connect(address: SocketAddr) -> TestClient {
        TestClient::new(connected(address))
    }

    /// Connects with HTTP/2. The test writes and reads HTTP/1.1: see [`Http2Stream`].
    pub(crate) fn connect_http2(address: SocketAddr) -> TestClient {
        TestClient::new(Http2Stream::new(connected(address)))
    }

    pub(crate) fn connect_unix(path: &Path) -> TestClient {
        let stream = UnixStream::connect(path).expect("a server that listens");
        stream.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
        TestClient::new(stream)
    }

    pub(crate) fn new(stream: impl Stream + 'static) -> TestClient {
        TestClient { tcp_pair: stream.tcp_pair(), stream: Box::new(stream), received: Vec::new() }
    }

    /// Returns the addresses of the connection.
    ///
    /// # Panics
    /// It is no TCP connection.
    #[track_caller]
    pub(crate) fn tcp_pair(&self) -> TcpPair {
        self.tcp_pair.expect("a TCP connection")
    }

    /// Sends bytes unchanged. Returns `false` if the server has closed the connection.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        match self.stream.write_all(bytes.as_ref()) {
            Ok(()) => true,
            Err(error) if super::is_disconnect(&error) => false,
            Err(error) => panic!("cannot send: {error}"),
        }
    }

    /// Sends bytes unchanged.
    pub(crate) fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref())
    }

    /// Shuts down the sending side; with TLS, after the closing alert.
    pub(crate) fn shutdown_write(&mut self) {
        self.send_close_notify();
        self.shutdown_socket();
    }

    /// Sends the closing alert of TLS, and keeps the socket open.
    pub(crate) fn send_close_notify(&mut self) {
        // Fails if the server closed first.
        let _ = self.stream.send_close_notify();
    }

    /// Shuts down the sending side of the socket; with TLS, without the closing alert.
    pub(crate) fn shutdown_socket(&mut self) {
        // Fails if the server closed first.
        let _ = self.stream.shutdown_write();
    }

    /// Sends a GET and reads its response.
    #[track_caller]
    pub(crate) fn get(&mut self, target: &str) -> Response {
        self.send(get(target));
        self.response()
    }

    /// Reads one response to a request other than HEAD.
    #[track_caller]
    pub(crate) fn response(&mut self) -> Response {
        self.try_response().expect("a whole response")
    }

    /// Reads one response, or returns the error that ended the connection.
    pub(crate) fn try_response(&mut self) -> io::Result<Response> {
        let mut response = self.try_head()?;
        let len = match response.status {
            304 => 0,
            _ => response.field("Content-Length").map_or(0, |len| len.parse().expect("a length")),
        };
        while self.received.len() < len {
            self.receive()?;
        }
        response.content = self.received.drain(..len).collect();
        Ok(response)
    }

    /// Reads the head of one response, which is the whole response to HEAD.
    pub(crate) fn try_head(&mut self) -> io::Result<Response> {
        let end = loop {
            match self.received.windows(4).position(|end| end == b"\r\n\r\n") {
                Some(at) => break at + 4,
                None => self.receive()?,
            }
        };
        let head: Vec<u8> = self.received.drain(..end).collect();
        let head = String::from_utf8(head).expect("a head is ASCII").trim_end().to_owned();
        let status = head.get(9..12).and_then(|code| code.parse().ok()).expect("a status");
        Ok(Response { status, head, content: Vec::new() })
    }

    /// Reads exactly `len` bytes.
    #[track_caller]
    pub(crate) fn read_exact(&mut self, len: usize) -> Vec<u8> {
        while self.received.len() < len {
            self.receive().expect("more to come");
        }
        self.received.drain(..len).collect()
    }

    /// Reads until the server closes. A reset is an error; with TLS, also an end without the closing alert.
    pub(crate) fn try_read_to_end(&mut self) -> io::Result<Vec<u8>> {
        loop {
            match self.receive() {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                    return Ok(std::mem::take(&mut self.received));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads until the server closes.
    #[track_caller]
    pub(crate) fn read_to_end(&mut self) -> Vec<u8> {
        self.try_read_to_end().expect("the end of the connection")
    }

    /// Returns whether the server has sent FIN. Does not block.
    ///
    /// # Panics
    /// The server has sent data or reset the connection.
    #[track_caller]
    pub(crate) fn is_closed(&mut self) -> bool {
        self.stream.set_blocking(false).expect("a socket");
        let end = match self.receive() {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => true,
            Err(error) if error.kind() == ErrorKind::WouldBlock => false,
            received => panic!("expected no data or EOF: {received:?}, {:?}", self.received),
        };
        self.stream.set_blocking(true).expect("a socket");
        end
    }

    fn receive(&mut self) -> io::Result<()> {
        let mut block = [0; 64 * 1024];
        loop {
            match self.stream.read(&mut block) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(len) => {
                    self.received.extend_from_slice(&block[..len]);
                    return Ok(());
                }
                // A ring of this process that the kernel frees interrupts the threads that used it.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Response {
    /// Returns the value of a field.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let fields = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        fields.into_iter().find_map(|(found, value)| found.eq_ignore_ascii_case(name).then_some(value))
    }

    /// Returns the head without its date, which may change between two responses.
    pub(crate) fn head_without_date(&self) -> String {
        self.head.lines().filter(|line| !line.starts_with("Date: ")).collect::<Vec<_>>().join("\n")
    }

    /// Returns whether the response has `Connection: close`.
    pub(crate) fn closes(&self) -> bool {
        self.field("Connection") == Some("close")
    }
}

/// Connects a socket that ends a test which hangs.
pub(crate) fn connected(address: SocketAddr) -> TcpStream {
    let socket = TcpStream::connect(address).expect("a server that listens");
    socket.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
    socket.set_write_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
    socket.set_nodelay(true).expect("no delay");
    socket
}

/// A version of HTTP, and how a client connects with it.
pub(crate) type Connect = (&'static str, fn(SocketAddr) -> TestClient);

/// How the client of a table connects: it sends the same requests over each version.
pub(crate) const CONNECT: [Connect; 2] = [("HTTP/1.1", TestClient::connect), HTTP2];
pub(crate) const HTTP2: Connect = ("HTTP/2", TestClient::connect_http2);

/// Returns how clients of an engine connect.
pub(crate) fn connect_on(engine: Engine) -> impl Iterator<Item = Connect> {
    CONNECT.into_iter().filter(move |connect| *connect.0 != *HTTP2.0 || has_http2(engine))
}

/// Returns a GET request with only a Host field.
pub(crate) fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

impl Stream for TcpStream {
    fn shutdown_write(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }

    fn set_blocking(&self, blocking: bool) -> io::Result<()> {
        self.set_nonblocking(!blocking)
    }

    fn tcp_pair(&self) -> Option<TcpPair> {
        TcpPair::of(self)
    }
}

impl Stream for UnixStream {
    fn shutdown_write(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }

    fn set_blocking(&self, blocking: bool) -> io::Result<()> {
        self.set_nonblocking(!blocking)
    }
    fn tcp_pair(&self) -> Option<TcpPair> {
        None
    }
}
