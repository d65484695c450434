//! Clients that ask all the time, on connections that stay open and on new ones, and tell what went wrong.

use super::client::{TestClient, get};
use std::{
    io,
    net::{SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// Clients at work. They end with this value.
pub(crate) struct LoadGenerator {
    over: Arc<AtomicBool>,
    count: Arc<AtomicUsize>,
    clients: Vec<JoinHandle<Vec<Failure>>>,
}

/// A request that was not answered as it should have been.
#[derive(Debug)]
pub(crate) struct Failure {
    /// When its connection was begun.
    pub(crate) connected: Instant,
    pub(crate) why: String,
}

/// Clients that keep their connections.
const KEEPING: usize = 4;
/// Clients that make one for each request.
const COMING: usize = 2;
/// What each of them rests between two requests: the server is to be busy, and the machine not.
const PAUSE: Duration = Duration::from_millis(1);

impl LoadGenerator {
    /// They ask for `target`, which is `content`, from now on.
    pub(crate) fn start(address: SocketAddr, target: &str, content: &[u8]) -> LoadGenerator {
        let (over, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let client = |number| {
            let asker = LoadClient {
                address,
                request: get(target),
                content: content.to_vec(),
                keeps: number < KEEPING,
                over: Arc::clone(&over),
                count: Arc::clone(&count),
            };
            thread::spawn(move || asker.run())
        };
        let clients = (0..KEEPING + COMING).map(client).collect();
        LoadGenerator { over, count, clients }
    }

    /// Returns when they have been answered so much more often.
    pub(crate) fn wait_for_requests(&self, more: usize) {
        let from = self.count.load(SeqCst);
        super::wait_for("requests that are answered", || {
            (self.count.load(SeqCst) >= from + more).then_some(())
        });
    }

    /// They ask no more. What went wrong.
    pub(crate) fn stop(mut self) -> Vec<Failure> {
        self.over.store(true, SeqCst);
        let clients = std::mem::take(&mut self.clients);
        clients.into_iter().flat_map(|client| client.join().expect("a client does not panic")).collect()
    }
}

impl Drop for LoadGenerator {
    fn drop(&mut self) {
        self.over.store(true, SeqCst);
    }
}

struct LoadClient {
    address: SocketAddr,
    request: String,
    content: Vec<u8>,
    keeps: bool,
    over: Arc<AtomicBool>,
    count: Arc<AtomicUsize>,
}

impl LoadClient {
    fn run(self) -> Vec<Failure> {
        let mut failures = Vec::new();
        while !self.over.load(SeqCst) {
            let connected = Instant::now();
            if let Err(error) = self.connection() {
                failures.push(Failure { connected, why: error.to_string() });
            }
        }
        failures
    }

    /// Asks on a connection until it is closed, or is to be.
    fn connection(&self) -> io::Result<()> {
        let stream = TcpStream::connect_timeout(&self.address, super::TEST_TIMEOUT)?;
        stream.set_read_timeout(Some(super::TEST_TIMEOUT))?;
        stream.set_nodelay(true)?;
        let mut client = TestClient::new(stream);
        while !self.over.load(SeqCst) {
            client.try_send(&self.request)?;
            let response = client.try_response()?;
            if (response.status, &response.content) != (200, &self.content) {
                return Err(io::Error::other(format!("another answer: {}", response.head)));
            }
            self.count.fetch_add(1, SeqCst);
            if response.closes() {
                // A reset is an error.
                return client.try_read_to_end().map(drop);
            }
            thread::sleep(PAUSE);
            if !self.keeps {
                break;
            }
        }
        Ok(())
    }
}
