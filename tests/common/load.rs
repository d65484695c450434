//! Clients that send requests continuously, on keep-alive and on new connections, and record failures.

use super::{
    client::{TestClient, get},
    tls::TlsConnector,
};
use std::{
    io,
    net::{SocketAddr, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// Client threads. They stop when this value is dropped.
pub(crate) struct LoadGenerator {
    stopping: Arc<AtomicBool>,
    count: Arc<AtomicUsize>,
    failures: Arc<Mutex<Vec<Failure>>>,
    clients: Vec<JoinHandle<()>>,
}

/// A request that failed or got the wrong response.
#[derive(Debug)]
pub(crate) struct Failure {
    /// When the client began to connect.
    pub(crate) connected: Instant,
    pub(crate) reason: String,
}

/// Clients that reuse their connection.
const KEEPALIVE_CLIENTS: usize = 4;
/// Clients that open a connection for each request.
const CONNECTING_CLIENTS: usize = 2;
/// Leaves the processor to the server between two requests of a client. No test depends on its length.
pub(crate) fn pause() {
    thread::sleep(Duration::from_millis(1));
}

impl LoadGenerator {
    /// Starts clients that request `target` and expect `content`.
    pub(crate) fn start(address: SocketAddr, target: &str, content: &[u8]) -> LoadGenerator {
        LoadGenerator::start_with(address, None, target, content)
    }

    /// Starts clients that speak TLS.
    pub(crate) fn start_tls(
        address: SocketAddr,
        tls: &TlsConnector,
        target: &str,
        content: &[u8],
    ) -> LoadGenerator {
        LoadGenerator::start_with(address, Some(tls), target, content)
    }

    fn start_with(
        address: SocketAddr,
        tls: Option<&TlsConnector>,
        target: &str,
        content: &[u8],
    ) -> LoadGenerator {
        let (stopping, count, failures) =
            <(Arc<AtomicBool>, Arc<AtomicUsize>, Arc<Mutex<Vec<Failure>>>)>::default();
        let start = |number| {
            let client = LoadClient {
                address,
                tls: tls.cloned(),
                request: get(target),
                content: content.to_vec(),
                keepalive: number < KEEPALIVE_CLIENTS,
                stopping: Arc::clone(&stopping),
                count: Arc::clone(&count),
                failures: Arc::clone(&failures),
            };
            thread::spawn(move || client.run())
        };
        let clients = (0..KEEPALIVE_CLIENTS + CONNECTING_CLIENTS).map(start).collect();
        LoadGenerator { stopping, count, failures, clients }
    }

    /// Waits until the clients have received `more` responses.
    pub(crate) fn wait_for_responses(&self, more: usize) {
        let from = self.count.load(SeqCst);
        super::wait_for("responses to the load", || (self.count.load(SeqCst) >= from + more).then_some(()));
    }

    /// Returns the number of failures so far.
    pub(crate) fn failure_count(&self) -> usize {
        self.failures.lock().expect("no client panics").len()
    }

    /// Stops the clients and returns all failures.
    pub(crate) fn stop(mut self) -> Vec<Failure> {
        self.stopping.store(true, SeqCst);
        let clients = std::mem::take(&mut self.clients);
        clients.into_iter().for_each(|client| client.join().expect("a client does not panic"));
        std::mem::take(&mut *self.failures.lock().expect("no client panics"))
    }
}

impl Drop for LoadGenerator {
    fn drop(&mut self) {
        self.stopping.store(true, SeqCst);
    }
}

/// Sets a flag when it is dropped, so that client threads stop although a test panics.
pub(crate) struct SetOnDrop<'a>(pub(crate) &'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

struct LoadClient {
    address: SocketAddr,
    tls: Option<TlsConnector>,
    request: String,
    content: Vec<u8>,
    keepalive: bool,
    stopping: Arc<AtomicBool>,
    count: Arc<AtomicUsize>,
    failures: Arc<Mutex<Vec<Failure>>>,
}

impl LoadClient {
    fn run(self) {
        while !self.stopping.load(SeqCst) {
            let connected = Instant::now();
            if let Err(error) = self.connection() {
                let failure = Failure { connected, reason: error.to_string() };
                self.failures.lock().expect("no client panics").push(failure);
            }
        }
    }

    /// Sends requests on one connection until it closes or the load stops.
    fn connection(&self) -> io::Result<()> {
        let mut client = match &self.tls {
            Some(tls) => TestClient::new(tls.connect(self.address)?),
            None => {
                let stream = TcpStream::connect_timeout(&self.address, super::TEST_TIMEOUT)?;
                stream.set_read_timeout(Some(super::TEST_TIMEOUT))?;
                stream.set_nodelay(true)?;
                TestClient::new(stream)
            }
        };
        while !self.stopping.load(SeqCst) {
            client.try_send(&self.request)?;
            let response = client.try_response()?;
            if (response.status, &response.content) != (200, &self.content) {
                return Err(io::Error::other(format!("unexpected response: {}", response.head)));
            }
            self.count.fetch_add(1, SeqCst);
            if response.closes() {
                // Reports a reset as an error.
                return client.try_read_to_end().map(drop);
            }
            pause();
            if !self.keepalive {
                break;
            }
        }
        Ok(())
    }
}
