//! Responses through a transport that seals, on every engine: contents in the image, in files beside it, and of more than one record.

use super::*;
use crate::site::{Site, versions::SiteVersions};
use std::fs;
use tarpon_conn::{
    Limits, RECORD_PLAIN_LEN_MAX, Transport,
    sim::{Through, TransportClient},
};

#[test]
fn responses_pass_through_a_sealing_transport() {
    type NewTransport = fn() -> Transport;
    let cases: [(u64, _, NewTransport); 2] = [
        (1, 1..=300, || Transport::scrambled(1, 1..=300)),
        (2, RECORD_PLAIN_LEN_MAX..=RECORD_PLAIN_LEN_MAX, || {
            Transport::scrambled(2, RECORD_PLAIN_LEN_MAX..=RECORD_PLAIN_LEN_MAX)
        }),
    ];
    let contents = [vec![b'a'; 50], vec![b'b'; 17_000], (0..300_000).map(|at| (at % 251) as u8).collect()];
    let sites: Arc<[_]> =
        [(SiteVersions { current: site(&contents), earlier: [].into() }, Limits::default())].into();
    for engine in engines() {
        for (seed, record_lens, new_transport) in cases.clone() {
            let change = |config| WorkerConfig { new_transport, sites: Arc::clone(&sites), ..config };
            let worker = RunningWorker::start_with(engine, EchoConnector::default(), change);
            let socket = TcpStream::connect(worker.address).unwrap();
            let mut client = SealingClient::new(socket, &Through::Scrambled { seed, record_lens });
            for (number, content) in contents.iter().enumerate() {
                client.send(format!("GET /{number} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
                while !client.plain.ends_with(content) {
                    assert!(client.exchange(), "{engine:?}: the connection ended in the response {number}");
                }
            }
            assert!(client.plain.starts_with(b"HTTP/1.1 200 OK\r\n"), "{engine:?}");
            client.end();
            while client.exchange() {}
            assert!(client.end.has_alert(), "{engine:?}: the server announces that it sends no more");
        }
    }
}

/// Longer than any response takes.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Returns a site of files with these contents, named by number.
fn site(contents: &[Vec<u8>]) -> Arc<Site> {
    let dir = tempfile::tempdir().unwrap();
    for (number, content) in contents.iter().enumerate() {
        fs::write(dir.path().join(number.to_string()), content).unwrap();
    }
    Arc::new(Site::from_dir(dir.path()).unwrap())
}

/// A client behind a socket.
struct SealingClient {
    socket: TcpStream,
    end: TransportClient,
    unsent: Vec<u8>,
    plain: Vec<u8>,
}

impl SealingClient {
    fn new(socket: TcpStream, through: &Through) -> SealingClient {
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        let mut unsent = Vec::new();
        SealingClient { end: TransportClient::new(through, &mut unsent), socket, unsent, plain: Vec::new() }
    }

    fn send(&mut self, plain: &[u8]) {
        self.end.send(plain, &mut self.unsent);
    }

    fn end(&mut self) {
        self.end.end(&mut self.unsent);
    }

    /// Sends what waits, and receives once. Returns whether the server may send more.
    fn exchange(&mut self) -> bool {
        // The server may have closed already.
        let _ = self.socket.write_all(&self.unsent);
        self.unsent.clear();
        let mut received = [0; 1_000];
        let len = retry_on_intr(|| read(&self.socket, &mut received)).unwrap_or(0);
        self.end.receive(&received[..len], &mut self.plain, &mut self.unsent);
        len > 0
    }
}
