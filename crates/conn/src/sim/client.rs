//! The client's end of a simulated connection.

use super::Through;
use crate::{
    BUF_LEN,
    transport::scramble::{Opened, Scramble, SealedKind},
};
use std::ops::RangeInclusive;

/// A client that sends and receives plain bytes, as they are or in scrambled records.
pub enum TransportClient {
    /// Without records.
    Plain,
    /// In records.
    Scrambled(Box<ScrambledClient>),
}

/// A client behind the other end of a scrambling transport.
pub struct ScrambledClient {
    scramble: Scramble,
    record_lens: RangeInclusive<usize>,
    /// Plain bytes that wait for the handshake.
    unsealed: Vec<u8>,
    /// Wire bytes that are no complete record yet.
    unopened: Vec<u8>,
    /// The alert follows the bytes that wait.
    has_ended: bool,
    has_alert: bool,
}

impl TransportClient {
    /// Returns a client, which begins its handshake.
    pub fn new(through: &Through, socket: &mut Vec<u8>) -> TransportClient {
        let Through::Scrambled { seed, record_lens } = through else { return TransportClient::Plain };
        let mut client = ScrambledClient {
            scramble: Scramble::client(*seed),
            record_lens: record_lens.clone(),
            unsealed: Vec::new(),
            unopened: Vec::new(),
            has_ended: false,
            has_alert: false,
        };
        client.seal(socket);
        TransportClient::Scrambled(Box::new(client))
    }

    /// Sends plain bytes, or keeps them until the handshake is complete.
    pub fn send(&mut self, plain: &[u8], socket: &mut Vec<u8>) {
        match self {
            TransportClient::Plain => socket.extend_from_slice(plain),
            TransportClient::Scrambled(client) => {
                client.unsealed.extend_from_slice(plain);
                client.seal(socket);
            }
        }
    }

    /// Closes its sending side.
    pub fn end(&mut self, socket: &mut Vec<u8>) {
        if let TransportClient::Scrambled(client) = self {
            client.has_ended = true;
            client.seal(socket);
        }
    }

    /// Receives wire bytes of the server. Appends the plain ones to `plain`.
    pub fn receive(&mut self, wire: &[u8], plain: &mut Vec<u8>, socket: &mut Vec<u8>) {
        match self {
            TransportClient::Plain => plain.extend_from_slice(wire),
            TransportClient::Scrambled(client) => {
                client.unopened.extend_from_slice(wire);
                client.open(plain);
                client.seal(socket);
            }
        }
    }

    /// Returns whether bytes wait that the client has not sent.
    pub fn is_waiting(&self) -> bool {
        matches!(self, TransportClient::Scrambled(client) if !client.unsealed.is_empty() || client.has_ended)
    }

    /// Returns whether the server has announced that it sends no more.
    pub fn has_alert(&self) -> bool {
        matches!(self, TransportClient::Scrambled(client) if client.has_alert)
    }
}

impl ScrambledClient {
    fn seal(&mut self, socket: &mut Vec<u8>) {
        while self.scramble.has_handshake() {
            self.put(SealedKind::Handshake, 0, socket);
        }
        if !self.scramble.is_established() {
            return;
        }
        while !self.unsealed.is_empty() {
            let len = self.scramble.chance(&self.record_lens).min(self.unsealed.len());
            self.put(SealedKind::Data, len, socket);
        }
        if std::mem::take(&mut self.has_ended) {
            self.put(SealedKind::Close, 0, socket);
        }
    }

    /// Seals the first `len` bytes that wait.
    fn put(&mut self, kind: SealedKind, len: usize, socket: &mut Vec<u8>) {
        let mut record = [0; BUF_LEN];
        let record_len = self.scramble.seal(kind, &self.unsealed[..len], &mut record);
        self.unsealed.drain(..len);
        socket.extend_from_slice(&record[..record_len]);
    }

    fn open(&mut self, plain: &mut Vec<u8>) {
        loop {
            let wire = &mut self.unopened;
            let opened =
                self.scramble.open(wire).expect("the records of the server arrive whole and in order");
            assert!(opened == Opened::Incomplete || !self.has_alert, "nothing follows the alert");
            let len = match opened {
                Opened::Incomplete => return,
                Opened::Handshake { len } => len,
                Opened::Data { header_len, len, trailer_len } => {
                    plain.extend_from_slice(&wire[header_len..][..len]);
                    header_len + len + trailer_len
                }
                Opened::Close { len } => {
                    self.has_alert = true;
                    len
                }
            };
            wire.drain(..len);
        }
    }
}
