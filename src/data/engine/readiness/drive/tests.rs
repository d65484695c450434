//! A drive through a transport that seals: the worker offers, seals and sends as the simulator does.

use super::*;
use crate::{
    data::worker::{Worker, WorkerConfig},
    site::{Site, versions::SiteVersions},
};
use std::{
    fs,
    io::{Read, Write},
    os::unix::net::UnixStream,
    sync::Arc,
};
use tarpon_conn::{
    Limits, RECORD_PLAIN_LEN_MAX, Transport,
    sim::{Through, TransportClient},
};

/// Content in the image, in a file beside it, and more than one record of each.
#[test]
fn responses_pass_through_a_sealing_transport() {
    for (seed, record_lens) in [(1, 1..=300), (2, RECORD_PLAIN_LEN_MAX..=RECORD_PLAIN_LEN_MAX)] {
        let content = [vec![b'a'; 50], vec![b'b'; 17_000], (0..300_000).map(|at| (at % 251) as u8).collect()];
        let mut worker = worker(&content);
        let (server, socket) = UnixStream::pair().unwrap();
        for end in [&server, &socket] {
            end.set_nonblocking(true).unwrap();
        }
        let index = worker.insert(server.into());
        worker.slots.get_mut(index).unwrap().transport = Transport::scrambled(seed, record_lens.clone());
        let mut client = SealingClient::new(socket, &Through::Scrambled { seed, record_lens });
        for (number, content) in content.iter().enumerate() {
            client.send(format!("GET /{number} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
            while !client.plain.ends_with(content) {
                drive_once(&mut worker, index);
                client.exchange();
            }
        }
        client.end();
        while drive_once(&mut worker, index) {
            client.exchange();
        }
        client.exchange();
        assert!(client.end.has_alert(), "the server announces that it sends no more");
        assert!(client.plain.starts_with(b"HTTP/1.1 200 OK\r\n"));
    }
}

/// A worker with a site of these files, named by number.
fn worker(content: &[Vec<u8>]) -> Worker<Readiness> {
    let dir = tempfile::tempdir().unwrap();
    for (number, content) in content.iter().enumerate() {
        fs::write(dir.path().join(number.to_string()), content).unwrap();
    }
    let current = Arc::new(Site::from_dir(dir.path()).unwrap());
    let sites = [(SiteVersions { current, earlier: [].into() }, Limits::default())].into();
    Worker::new(WorkerConfig { sites, ..WorkerConfig::for_test(1, Vec::new()) })
}

/// Drives the connection as after an event. Returns whether it stays open.
fn drive_once(worker: &mut Worker<Readiness>, index: u32) -> bool {
    let Worker { slots, context, .. } = worker;
    let slot = slots.get_mut(index).unwrap();
    slot.state.add(true, true, false, false);
    drive(context, slot).is_ok()
}

/// A client behind a socket.
struct SealingClient {
    socket: UnixStream,
    end: TransportClient,
    unsent: Vec<u8>,
    plain: Vec<u8>,
}

impl SealingClient {
    fn new(socket: UnixStream, through: &Through) -> SealingClient {
        let mut unsent = Vec::new();
        SealingClient { end: TransportClient::new(through, &mut unsent), socket, unsent, plain: Vec::new() }
    }

    fn send(&mut self, plain: &[u8]) {
        self.end.send(plain, &mut self.unsent);
    }

    fn end(&mut self) {
        self.end.end(&mut self.unsent);
        self.exchange();
    }

    /// Receives what has arrived, and sends what waits.
    fn exchange(&mut self) {
        let mut received = [0; 1_000];
        while let Ok(len @ 1..) = self.socket.read(&mut received) {
            self.end.receive(&received[..len], &mut self.plain, &mut self.unsent);
        }
        // The server may have closed already.
        if let Ok(len) = self.socket.write(&self.unsent) {
            self.unsent.drain(..len);
        }
    }
}
