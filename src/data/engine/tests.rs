//! Exchanges with a backend, on every engine: over real sockets, with a backend that sends back what it receives.

mod tls;

use super::{AcceptedSocket, WorkerReady, blocking::PreparedWorker};
use crate::{
    base::engine::Engine,
    data::worker::{
        BackendConnector, Backends, StartTime, WorkerConfig, WorkerRows,
        mailbox::{Mailbox, ShutdownMode, WorkerMessage},
    },
};
use rustix::io::{ioctl_fionbio, read, retry_on_intr};
use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    os::{fd::OwnedFd, unix::net::UnixStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
        mpsc::channel,
    },
    thread,
    time::Duration,
};
use tarpon_conn::{BackendLimits, BackendRoute, EchoBackend};

/// Connects to a thread that runs an [`EchoBackend`].
#[derive(Default)]
struct EchoConnector {
    connect_count: AtomicUsize,
    /// Connecting fails.
    refuses: bool,
}

impl BackendConnector for EchoConnector {
    fn connect(&self, is_nonblocking: bool) -> io::Result<OwnedFd> {
        if self.refuses {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        self.connect_count.fetch_add(1, SeqCst);
        let (own, mut other) = UnixStream::pair()?;
        ioctl_fionbio(&own, is_nonblocking)?;
        thread::spawn(move || {
            let (mut echo, mut bytes) = (EchoBackend::default(), [0; 4096]);
            while let Ok(len @ 1..) = retry_on_intr(|| read(&other, &mut bytes[..])) {
                let output = echo.received(&bytes[..len]);
                if other.write_all(&output).is_err() || echo.is_closed() {
                    return;
                }
            }
        });
        Ok(own.into())
    }
}

/// A worker that runs on a thread of its own until it is stopped.
struct RunningWorker {
    address: SocketAddr,
    connector: Arc<EchoConnector>,
    mailbox: Arc<Mailbox>,
    thread: Option<thread::JoinHandle<()>>,
}

impl RunningWorker {
    fn start(engine: TestedEngine, connector: EchoConnector) -> RunningWorker {
        RunningWorker::start_with(engine, connector, |config| config)
    }

    /// Starts a worker with a changed configuration.
    fn start_with(
        engine: TestedEngine,
        connector: EchoConnector,
        change: impl FnOnce(WorkerConfig) -> WorkerConfig,
    ) -> RunningWorker {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connector = Arc::new(connector);
        let mut backends = Backends::default();
        let backend = backends.add(Arc::clone(&connector) as Arc<dyn BackendConnector>).unwrap();
        let route = BackendRoute { backend, limits: BackendLimits::default() };
        backends.routes.push((None, "/app".parse().unwrap(), route));
        let listeners = match engine {
            TestedEngine::Engine(_) => vec![listener.try_clone().unwrap().into()],
            TestedEngine::OneConnection => Vec::new(),
        };
        let config = change(WorkerConfig::for_test(2, listeners).with_backends(backends));
        // Clients that wait are for the other worker.
        config.idle_workers.set(1, true);
        let mailbox = Arc::clone(&config.mailbox);
        let (started, is_started) = channel();
        let thread = thread::spawn(move || match engine {
            TestedEngine::Engine(engine) => engine.run(config, WorkerReady(started)).unwrap(),
            // As in a process of the engine `fork`.
            TestedEngine::OneConnection => {
                started.send(()).unwrap();
                let (client, _) = listener.accept().unwrap();
                client.set_nonblocking(true).unwrap();
                let rows = WorkerRows { number: 0, counters: 0, start: StartTime::now(), log: None };
                let mailbox = Arc::clone(&config.mailbox);
                let mut worker = PreparedWorker::new(config).unwrap();
                let accepted = AcceptedSocket { fd: client.into(), listener: 0 };
                worker.serve(accepted, rows, &mailbox, || ()).unwrap();
            }
        });
        is_started.recv().unwrap();
        RunningWorker { address, connector, mailbox, thread: Some(thread) }
    }
}

impl Drop for RunningWorker {
    fn drop(&mut self) {
        self.mailbox
            .post(WorkerMessage::Shutdown { mode: ShutdownMode::Stop, grace: Duration::from_secs(60) });
        self.thread.take().unwrap().join().unwrap();
    }
}

#[derive(Clone, Copy, Debug)]
enum TestedEngine {
    Engine(Engine),
    OneConnection,
}

fn engines() -> impl Iterator<Item = TestedEngine> {
    let in_threads =
        Engine::ALL.iter().filter(|engine| !matches!(engine, Engine::Prefork | Engine::Fork | Engine::Auto));
    in_threads.map(|&engine| TestedEngine::Engine(engine)).chain([TestedEngine::OneConnection])
}

/// Reads up to these bytes.
fn read_to(client: &mut TcpStream, end: &[u8]) -> Vec<u8> {
    let (mut received, mut bytes) = (Vec::new(), [0; 65_536]);
    while !received.ends_with(end) {
        let len = retry_on_intr(|| read(&*client, &mut bytes[..])).unwrap();
        assert!(len > 0, "the connection ended after {}", received.escape_ascii());
        received.extend_from_slice(&bytes[..len]);
    }
    received
}

/// Returns the bytes of all chunks.
fn content_of(response: &[u8]) -> Vec<u8> {
    let head_len = response.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
    let (mut rest, mut content) = (&response[head_len..], Vec::new());
    loop {
        let line = rest.windows(2).position(|window| window == b"\r\n").unwrap();
        let len = usize::from_str_radix(str::from_utf8(&rest[..line]).unwrap(), 16).unwrap();
        if len == 0 {
            return content;
        }
        content.extend_from_slice(&rest[line + 2..][..len]);
        rest = &rest[line + 2 + len + 2..];
    }
}

#[test]
fn exchanges_with_a_backend_pass_in_both_directions() {
    for engine in engines() {
        let worker = RunningWorker::start(engine, EchoConnector::default());
        let mut client = TcpStream::connect(worker.address).unwrap();
        // More than sockets and pipes hold, so both directions are blocked at times.
        let content: Vec<u8> = (0..1_000_000u32).map(|number| (number % 251) as u8).collect();
        let head = format!(
            "POST /app/a HTTP/1.1\r\nHost: a\r\nX-Interim: 103\r\nX-Trailer: t\r\nContent-Length: {}\r\n\r\n",
            content.len()
        );
        let mut sender = client.try_clone().unwrap();
        let sent = content.clone();
        let sending = thread::spawn(move || {
            sender.write_all(head.as_bytes()).unwrap();
            sender.write_all(&sent).unwrap();
        });
        let interim = read_to_head(&mut client);
        assert!(
            interim.starts_with(b"HTTP/1.1 103 Early Hints\r\n"),
            "{engine:?}: {}",
            interim.escape_ascii()
        );
        let response = read_to(&mut client, b"\r\n0\r\nx-trailer: t\r\n\r\n");
        sending.join().unwrap();
        assert!(response.starts_with(b"HTTP/1.1 200 OK\r\n"), "{engine:?}");
        assert!(content_of(&response) == content, "{engine:?}");
        // The next exchanges are with the site, and with the same connection to the backend.
        client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        assert!(read_to(&mut client, b"\r\n\r\nhome").starts_with(b"HTTP/1.1 200 OK\r\n"), "{engine:?}");
        client.write_all(b"GET /app/b HTTP/1.1\r\nHost: a\r\nX-Length: 0\r\n\r\n").unwrap();
        assert!(read_to(&mut client, b"\r\n\r\n").starts_with(b"HTTP/1.1 200 OK\r\n"), "{engine:?}");
        assert_eq!(worker.connector.connect_count.load(SeqCst), 1, "{engine:?}");
    }
}

/// Reads the head of a response byte by byte.
fn read_to_head(client: &mut TcpStream) -> Vec<u8> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte).unwrap();
        head.extend(byte);
    }
    head
}

#[test]
fn aborted_backend_closes_the_connection() {
    for engine in engines() {
        let worker = RunningWorker::start(engine, EchoConnector::default());
        let mut client = TcpStream::connect(worker.address).unwrap();
        client
            .write_all(b"GET /app/ HTTP/1.1\r\nHost: a\r\nX-Size: 100000\r\nX-Abort: 50000\r\n\r\n")
            .unwrap();
        let mut received = Vec::new();
        // A connection that closes without an end of the response may be reset.
        let _ = client.read_to_end(&mut received);
        assert!(received.starts_with(b"HTTP/1.1 200 OK\r\n"), "{engine:?}: {}", received.escape_ascii());
        assert!(!received.ends_with(b"0\r\n\r\n"), "{engine:?}");
    }
}

#[test]
fn unreachable_backend_is_a_502() {
    for engine in engines() {
        let worker =
            RunningWorker::start(engine, EchoConnector { refuses: true, ..EchoConnector::default() });
        let mut client = TcpStream::connect(worker.address).unwrap();
        client.write_all(b"GET /app/ HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        let response = read_to(&mut client, b"</a>\n");
        assert!(response.starts_with(b"HTTP/1.1 502 Bad Gateway\r\n"), "{engine:?}");
    }
}

#[test]
fn client_that_disconnects_ends_its_exchange() {
    for engine in engines() {
        let worker = RunningWorker::start(engine, EchoConnector::default());
        let mut client = TcpStream::connect(worker.address).unwrap();
        client.write_all(b"POST /app/ HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhello").unwrap();
        assert!(read_to_head(&mut client).starts_with(b"HTTP/1.1 200 OK\r\n"), "{engine:?}");
        // The worker stops without waiting for the exchange.
        drop(client);
    }
}
