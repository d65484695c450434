//! An upstream server in the process of the test. It records each request byte for byte, and responds as a script of the test says.
//!
//! ```text
//! connection ─▶ thread: script(ScriptedConnection) ─▶ request, send, wait, end …
//!                          └ each request ─▶ log ─▶ ScriptedServer::next, requests
//! ```

use super::wire::{StrictMessage, WireError, WireReader};
use crate::common::{TEST_TIMEOUT, wait_for};
use rustix::net::sockopt::set_socket_linger;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::{
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex, MutexGuard},
    thread::{self, JoinHandle},
    time::Duration,
};

/// A server that follows a script. It stops when the value is dropped.
pub(super) struct ScriptedServer {
    place: ServerPlace,
    state: Arc<ScriptedState>,
    acceptor: Option<JoinHandle<()>>,
    /// How many requests [`ScriptedServer::next`] has returned.
    taken: Mutex<usize>,
}

/// Where a server listens.
#[derive(Clone)]
enum ServerPlace {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// A connection, in the hands of a script.
pub(super) struct ScriptedConnection {
    /// Its number among those of the server, from 0 on.
    pub(super) number: usize,
    reader: WireReader<Box<dyn ServerStream>>,
    state: Arc<ScriptedState>,
}

/// A request that a server has got.
#[derive(Clone, Debug)]
pub(super) struct SeenRequest {
    /// The number of its connection.
    pub(super) connection: usize,
    pub(super) message: StrictMessage,
}

/// What a server does behind a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterResponse {
    /// Reads the next request.
    Keep,
    /// Closes the connection.
    Close,
    /// Resets the connection.
    Reset,
    /// Sends nothing more, and waits until the peer closes.
    Hold,
}

/// A place in a script at which it waits until the test goes on.
#[derive(Clone, Default)]
pub(super) struct ScriptGate(Arc<(Mutex<usize>, Condvar)>);

#[derive(Default)]
struct ScriptedState {
    log: Mutex<ServerLog>,
    changed: Condvar,
}

#[derive(Default)]
struct ServerLog {
    requests: Vec<SeenRequest>,
    accepted: usize,
    /// The numbers of the connections that have ended.
    ended: Vec<usize>,
    /// What a server must never get.
    faults: Vec<String>,
    stopping: bool,
}

trait ServerStream: Read + Write + Send {
    fn descriptor(&self) -> BorrowedFd<'_>;
}

/// A script.
type Script = dyn Fn(&mut ScriptedConnection) + Send + Sync;

impl ScriptedServer {
    /// Runs a script for each connection at a free port. The connection closes at the end of its script.
    pub(super) fn start(script: impl Fn(&mut ScriptedConnection) + Send + Sync + 'static) -> ScriptedServer {
        ScriptedServer::on(TcpListener::bind("127.0.0.1:0").expect("a free port"), script)
    }

    /// As [`ScriptedServer::start`], on an existing listener.
    pub(super) fn on(
        listener: TcpListener,
        script: impl Fn(&mut ScriptedConnection) + Send + Sync + 'static,
    ) -> ScriptedServer {
        let place = ServerPlace::Tcp(listener.local_addr().expect("an address"));
        let accept = move || listener.accept().map(|(stream, _)| tcp(stream));
        ScriptedServer::accepting(place, accept, Arc::new(script))
    }

    /// As [`ScriptedServer::start`], on a socket of the Unix domain.
    pub(super) fn at_path(
        path: &Path,
        script: impl Fn(&mut ScriptedConnection) + Send + Sync + 'static,
    ) -> ScriptedServer {
        let listener = UnixListener::bind(path).expect("a free path");
        let accept = move || {
            let (stream, _) = listener.accept()?;
            stream.set_read_timeout(Some(TEST_TIMEOUT))?;
            Ok(Box::new(stream) as Box<dyn ServerStream>)
        };
        ScriptedServer::accepting(ServerPlace::Unix(path.to_owned()), accept, Arc::new(script))
    }

    /// As [`ScriptedServer::start`], with TLS.
    pub(super) fn with_tls(
        config: Arc<ServerConfig>,
        script: impl Fn(&mut ScriptedConnection) + Send + Sync + 'static,
    ) -> ScriptedServer {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let place = ServerPlace::Tcp(listener.local_addr().expect("an address"));
        let accept = move || {
            let (stream, _) = listener.accept()?;
            stream.set_read_timeout(Some(TEST_TIMEOUT))?;
            let connection = ServerConnection::new(Arc::clone(&config)).expect("a configuration");
            Ok(Box::new(StreamOwned::new(connection, stream)) as Box<dyn ServerStream>)
        };
        ScriptedServer::accepting(place, accept, Arc::new(script))
    }

    /// Responds to each request with bytes, which depend on the request.
    pub(super) fn responding(
        respond: impl Fn(&StrictMessage) -> (Vec<u8>, AfterResponse) + Send + Sync + 'static,
    ) -> ScriptedServer {
        ScriptedServer::start(responder(respond))
    }

    /// Responds to each request with its own target.
    pub(super) fn naming_targets() -> ScriptedServer {
        ScriptedServer::responding(|request| (ok(request.target()), AfterResponse::Keep))
    }

    fn accepting(
        place: ServerPlace,
        mut accept: impl FnMut() -> io::Result<Box<dyn ServerStream>> + Send + 'static,
        script: Arc<Script>,
    ) -> ScriptedServer {
        let state = Arc::new(ScriptedState::default());
        let shared = Arc::clone(&state);
        let acceptor = thread::spawn(move || {
            let mut scripts = Vec::new();
            while let Ok(stream) = accept() {
                let number = {
                    let mut log = shared.log();
                    if log.stopping {
                        break;
                    }
                    log.accepted += 1;
                    log.accepted - 1
                };
                shared.changed.notify_all();
                let (script, state) = (Arc::clone(&script), Arc::clone(&shared));
                scripts.push(thread::spawn(move || {
                    let reader = WireReader::new(stream);
                    script(&mut ScriptedConnection { number, reader, state });
                }));
            }
            for script in scripts {
                if script.join().is_err() {
                    shared.log().faults.push("a script has failed".to_owned());
                }
            }
        });
        ScriptedServer { place, state, acceptor: Some(acceptor), taken: Mutex::new(0) }
    }

    /// Returns the TCP address.
    #[track_caller]
    pub(super) fn address(&self) -> SocketAddr {
        match self.place {
            ServerPlace::Tcp(address) => address,
            ServerPlace::Unix(_) => panic!("a TCP address"),
        }
    }

    /// Returns the server as the option `servers` names it.
    pub(super) fn url(&self) -> String {
        match &self.place {
            ServerPlace::Tcp(address) => format!("http://{address}"),
            ServerPlace::Unix(path) => format!("http://unix:{}", path.display()),
        }
    }

    /// Waits for the next request, and returns it.
    #[track_caller]
    pub(super) fn next(&self) -> SeenRequest {
        let mut taken = self.taken.lock().expect("a count");
        *taken += 1;
        self.wait("a request", |log| log.requests.get(*taken - 1).cloned())
    }

    /// Returns all requests until now.
    pub(super) fn requests(&self) -> Vec<SeenRequest> {
        self.state.log().requests.clone()
    }

    /// Returns how many connections the server has accepted.
    pub(super) fn accepted(&self) -> usize {
        self.state.log().accepted
    }

    /// Waits until the peer has closed this connection, as [`ScriptedConnection::wait_for_end`] or
    /// [`ScriptedConnection::request`] notes.
    #[track_caller]
    pub(super) fn wait_for_end(&self, connection: usize) {
        self.wait("the end of a connection", |log| log.ended.contains(&connection).then_some(()));
    }

    /// Returns whether the peer has closed this connection.
    pub(super) fn has_ended(&self, connection: usize) -> bool {
        self.state.log().ended.contains(&connection)
    }

    /// Returns what the server has got that a proxy must never send, once.
    pub(super) fn fault(&self) -> Option<String> {
        let faults = std::mem::take(&mut self.state.log().faults);
        (!faults.is_empty()).then(|| faults.join("; "))
    }

    /// Fails if the server has got what a proxy must never send.
    #[track_caller]
    pub(super) fn check(&self, case: &str) {
        assert_eq!(self.fault(), None, "{case}");
    }

    #[track_caller]
    fn wait<T>(&self, what: &str, mut look: impl FnMut(&ServerLog) -> Option<T>) -> T {
        let mut log = self.state.log();
        loop {
            if let Some(found) = look(&log) {
                return found;
            }
            let (next, waited) = self.state.changed.wait_timeout(log, TEST_TIMEOUT).expect("no panic");
            assert!(!waited.timed_out(), "timed out waiting for: {what}; faults: {:?}", next.faults);
            log = next;
        }
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        self.state.log().stopping = true;
        match &self.place {
            ServerPlace::Tcp(address) => drop(TcpStream::connect(address)),
            ServerPlace::Unix(path) => drop(UnixStream::connect(path)),
        }
        // The connections of a failed test end with its proxy, which may be dropped later.
        if !thread::panicking() {
            self.acceptor.take().expect("a thread").join().expect("no panic");
            self.check("at the end");
        }
    }
}

impl ScriptedState {
    fn log(&self) -> MutexGuard<'_, ServerLog> {
        self.log.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn note(&self, note: impl FnOnce(&mut ServerLog)) {
        note(&mut self.log());
        self.changed.notify_all();
    }
}

impl ScriptedConnection {
    /// Reads a request with its content, and records it. `None`: the peer has closed the connection, or what it sent is malformed.
    pub(super) fn request(&mut self) -> Option<StrictMessage> {
        let request = self.reader.request();
        self.record(request)
    }

    /// Reads and records a request without its content.
    pub(super) fn head(&mut self) -> Option<StrictMessage> {
        let request = self.reader.request_head();
        self.record(request)
    }

    /// Reads the content of a request. `false`: the peer has closed the connection within.
    pub(super) fn content(&mut self, request: &mut StrictMessage) -> bool {
        let content = self.reader.request_content(request);
        match content {
            Ok(()) => true,
            Err(error) => self.record(Err(error)).is_some(),
        }
    }

    /// Reads this many bytes outside of a message. `None`: the peer has closed the connection.
    pub(super) fn raw(&mut self, len: usize) -> Option<Vec<u8>> {
        match self.reader.raw(len) {
            Ok(bytes) => Some(bytes),
            Err(error) => self.record(Err(error)).map(|_| Vec::new()),
        }
    }

    /// Reads what has arrived outside of a message. `None`: the peer has closed the connection.
    pub(super) fn some(&mut self) -> Option<Vec<u8>> {
        match self.reader.some() {
            Ok(bytes) => Some(bytes),
            Err(error) => self.record(Err(error)).map(|_| Vec::new()),
        }
    }

    /// Sends bytes. `false`: the peer has closed the connection.
    pub(super) fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.reader.stream.write_all(bytes.as_ref()).and_then(|()| self.reader.stream.flush()).is_ok()
    }

    /// Shuts down the sending side.
    pub(super) fn shutdown_write(&mut self) {
        let _ = rustix::net::shutdown(self.reader.stream.descriptor(), rustix::net::Shutdown::Write);
    }

    /// Closes the connection with a reset.
    pub(super) fn reset(&mut self) {
        set_socket_linger(self.reader.stream.descriptor(), Some(Duration::ZERO)).expect("an option");
    }

    /// Waits until the peer closes. Returns what it has sent.
    pub(super) fn wait_for_end(&mut self) -> Vec<u8> {
        let rest = self.reader.rest();
        let number = self.number;
        self.state.note(|log| log.ended.push(number));
        rest
    }

    fn record(&mut self, request: Result<StrictMessage, WireError>) -> Option<StrictMessage> {
        let number = self.number;
        match request {
            Ok(message) => {
                let seen = SeenRequest { connection: number, message: message.clone() };
                self.state.note(|log| log.requests.push(seen));
                Some(message)
            }
            Err(error) => {
                self.state.note(|log| {
                    log.ended.push(number);
                    if let WireError::Malformed(rule) = error {
                        log.faults.push(rule);
                    }
                });
                None
            }
        }
    }
}

/// Returns a script that responds to each request with bytes.
pub(super) fn responder(
    respond: impl Fn(&StrictMessage) -> (Vec<u8>, AfterResponse) + Send + Sync + 'static,
) -> impl Fn(&mut ScriptedConnection) + Send + Sync + 'static {
    move |connection| {
        while let Some(request) = connection.request() {
            let (bytes, then) = respond(&request);
            // The peer may close in the middle.
            let _ = connection.send(bytes);
            match then {
                AfterResponse::Keep => {}
                AfterResponse::Close => return,
                AfterResponse::Reset => return connection.reset(),
                AfterResponse::Hold => {
                    connection.wait_for_end();
                    return;
                }
            }
        }
    }
}

/// Returns a response with this content.
pub(super) fn ok(content: impl AsRef<[u8]>) -> Vec<u8> {
    let content = content.as_ref();
    let head =
        format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n", content.len());
    [head.as_bytes(), content].concat()
}

impl ScriptGate {
    /// Lets one waiting script go on, or the next one that comes.
    pub(super) fn open(&self) {
        *self.0.0.lock().expect("a count") += 1;
        self.0.1.notify_all();
    }

    /// Waits until the test opens the gate.
    ///
    /// # Panics
    /// The test does not, in its time.
    pub(super) fn pass(&self) {
        let count = self.0.0.lock().expect("a count");
        let waited = self.0.1.wait_timeout_while(count, TEST_TIMEOUT, |count| *count == 0).expect("no panic");
        assert!(!waited.1.timed_out(), "timed out waiting for the test");
        let mut count = waited.0;
        *count -= 1;
    }
}

fn tcp(stream: TcpStream) -> Box<dyn ServerStream> {
    stream.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
    stream.set_nodelay(true).expect("no delay");
    Box::new(stream)
}

impl ServerStream for TcpStream {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }
}

impl ServerStream for UnixStream {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }
}

impl ServerStream for StreamOwned<ServerConnection, TcpStream> {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.sock.as_fd()
    }
}

#[test]
fn scripted_server_records_and_responds() {
    let gate = ScriptGate::default();
    let passed = gate.clone();
    let server = ScriptedServer::start(move |connection| {
        assert!(connection.send("HTTP/1.1 103 Early Hints\r\n\r\n"));
        let mut head = connection.head().expect("a head");
        passed.pass();
        assert!(connection.content(&mut head) && connection.send(ok(&head.content)));
        assert_eq!(connection.wait_for_end(), b"more");
    });
    let mut client = TcpStream::connect(server.address()).expect("a listener");
    let mut reader = WireReader::new(client.try_clone().expect("a descriptor"));
    assert_eq!(reader.response("POST").expect("a response").status(), 103);
    let head = "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n";
    client.write_all(head.as_bytes()).expect("a reader");
    let seen = server.next();
    assert_eq!((seen.connection, &seen.message.bytes[..]), (0, head.as_bytes()));
    gate.open();
    client.write_all(b"hello").expect("a reader");
    assert_eq!(reader.response("POST").expect("a response").text(), "hello");
    assert!(!server.has_ended(0));
    client.write_all(b"more").and_then(|()| client.shutdown(Shutdown::Write)).expect("a reader");
    server.wait_for_end(0);
    let end = wait_for("the end", || Some(reader.response("GET")));
    assert!(matches!(end, Err(WireError::Ended)), "{end:?}");
    assert_eq!((server.accepted(), server.requests().len()), (1, 1));
}

#[test]
fn scripted_server_reports_what_a_proxy_must_not_send() {
    let server = ScriptedServer::naming_targets();
    let mut client = TcpStream::connect(server.address()).expect("a listener");
    client.write_all(b"GET / HTTP/1.1\r\nHost : a\r\n\r\n").expect("a reader");
    server.wait_for_end(0);
    let fault = server.fault();
    assert!(fault.as_ref().is_some_and(|fault| fault.starts_with("a field: ")), "{fault:?}");
}
