//! A client that says exactly what it is told, and reads responses as a client should. RFC 9112, section 6.3.

use super::TEST_TIMEOUT;
use std::{
    io::{self, ErrorKind, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    os::unix::net::UnixStream,
    path::Path,
};

/// One connection to a server.
pub(crate) struct TestClient {
    stream: Box<dyn Stream>,
    /// Received, and not read yet.
    received: Vec<u8>,
}

/// One response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Status line and fields, without the empty line.
    pub(crate) head: String,
    pub(crate) content: Vec<u8>,
}

pub(crate) trait Stream: Read + Write + Send {
    fn shut_down(&self) -> io::Result<()>;

    /// Whether reads and writes wait.
    fn wait(&self, waits: bool) -> io::Result<()>;
}

impl TestClient {
    pub(crate) fn connect(address: SocketAddr) -> TestClient {
        let stream = TcpStream::connect(address).expect("a server that listens");
        stream.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
        stream.set_write_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
        stream.set_nodelay(true).expect("no delay");
        TestClient::new(stream)
    }

    pub(crate) fn connect_unix(path: &Path) -> TestClient {
        let stream = UnixStream::connect(path).expect("a server that listens");
        stream.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
        TestClient::new(stream)
    }

    pub(crate) fn new(stream: impl Stream + 'static) -> TestClient {
        TestClient { stream: Box::new(stream), received: Vec::new() }
    }

    /// Sends bytes as they are. Returns whether the server still takes them.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        match self.stream.write_all(bytes.as_ref()) {
            Ok(()) => true,
            Err(error) if super::is_disconnect(&error) => false,
            Err(error) => panic!("cannot send: {error}"),
        }
    }

    /// Sends bytes as they are.
    pub(crate) fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref())
    }

    /// Closes the sending side.
    pub(crate) fn shutdown_write(&mut self) {
        // The server may have gone first.
        let _ = self.stream.shut_down();
    }

    /// Sends a GET and reads its response.
    #[track_caller]
    pub(crate) fn get(&mut self, target: &str) -> Response {
        self.send(get(target));
        self.response()
    }

    /// Reads one response to a request that was not HEAD.
    #[track_caller]
    pub(crate) fn response(&mut self) -> Response {
        self.try_response().expect("a whole response")
    }

    /// Reads one response, or tells why it does not come.
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

    /// Reads the head of one response: all there is if the request was HEAD.
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

    /// Reads `len` bytes.
    #[track_caller]
    pub(crate) fn read_exact(&mut self, len: usize) -> Vec<u8> {
        while self.received.len() < len {
            self.receive().expect("more to come");
        }
        self.received.drain(..len).collect()
    }

    /// Reads until the server closes. A reset is an error.
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

    /// Returns whether the server has closed its side, in order and without another byte. Does not wait.
    ///
    /// # Panics
    /// It has said something, or reset the connection.
    #[track_caller]
    pub(crate) fn is_closed(&mut self) -> bool {
        self.stream.wait(false).expect("a socket");
        let end = match self.receive() {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => true,
            Err(error) if error.kind() == ErrorKind::WouldBlock => false,
            received => panic!("neither silence nor an end: {received:?}, {:?}", self.received),
        };
        self.stream.wait(true).expect("a socket");
        end
    }

    fn receive(&mut self) -> io::Result<()> {
        let mut block = [0; 64 * 1024];
        match self.stream.read(&mut block)? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            len => {
                self.received.extend_from_slice(&block[..len]);
                Ok(())
            }
        }
    }
}

impl Response {
    /// The value of a field.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let fields = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        fields.into_iter().find_map(|(found, value)| found.eq_ignore_ascii_case(name).then_some(value))
    }

    /// Whether it says that the connection closes.
    pub(crate) fn closes(&self) -> bool {
        self.field("Connection") == Some("close")
    }
}

/// A GET without anything special.
pub(crate) fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

impl Stream for TcpStream {
    fn shut_down(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }

    fn wait(&self, waits: bool) -> io::Result<()> {
        self.set_nonblocking(!waits)
    }
}

impl Stream for UnixStream {
    fn shut_down(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }

    fn wait(&self, waits: bool) -> io::Result<()> {
        self.set_nonblocking(!waits)
    }
}
