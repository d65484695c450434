//! The other end of a simulated connection: a client, or a backend with TLS.

use super::Through;
use crate::{
    BUF_LEN,
    transport::{
        Opened,
        scramble::{Scramble, SealedKind},
    },
};
use rustls::{ClientConnection, HandshakeKind, ServerConfig, ServerConnection};
use std::{
    io::{Read, Write},
    ops::RangeInclusive,
    sync::Arc,
};

/// A client that sends and receives plain bytes, as they are or in scrambled records.
pub enum TransportClient {
    /// Without records.
    Plain,
    /// In scrambled records.
    Scrambled(Box<ScrambledClient>),
    /// In records of TLS.
    Tls(Box<TlsPeer>),
}

/// The other end of TLS, by rustls: a client, or a backend.
pub struct TlsPeer {
    conn: rustls::Connection,
    /// This server has announced that it sends no more.
    has_alert: bool,
    /// The error that the handshake or a record has failed with.
    error: Option<rustls::Error>,
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
        let (seed, record_lens) = match through {
            Through::Plain => return TransportClient::Plain,
            Through::Scrambled { seed, record_lens } => (seed, record_lens),
            Through::Tls(_, config) => {
                let name = "localhost".try_into().expect("a name");
                let mut conn =
                    ClientConnection::new(Arc::clone(config), name).expect("a usable configuration");
                // The client keeps all that it sends before the end of the handshake.
                conn.set_buffer_limit(None);
                let mut client = TlsPeer { conn: conn.into(), has_alert: false, error: None };
                client.write(socket);
                return TransportClient::Tls(Box::new(client));
            }
        };
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

    /// Returns a backend, which waits for the handshake.
    pub(crate) fn backend(config: &Arc<ServerConfig>) -> TransportClient {
        let mut conn = ServerConnection::new(Arc::clone(config)).expect("a usable configuration");
        conn.set_buffer_limit(None);
        TransportClient::Tls(Box::new(TlsPeer { conn: conn.into(), has_alert: false, error: None }))
    }

    /// Sends plain bytes, or keeps them until the handshake is complete.
    pub fn send(&mut self, plain: &[u8], socket: &mut Vec<u8>) {
        match self {
            TransportClient::Plain => socket.extend_from_slice(plain),
            TransportClient::Scrambled(client) => {
                client.unsealed.extend_from_slice(plain);
                client.seal(socket);
            }
            TransportClient::Tls(client) => {
                // Fails once the server has refused the client by an alert.
                if client.conn.writer().write_all(plain).is_ok() {
                    client.write(socket);
                }
            }
        }
    }

    /// Closes its sending side.
    pub fn end(&mut self, socket: &mut Vec<u8>) {
        match self {
            TransportClient::Plain => {}
            TransportClient::Scrambled(client) => {
                client.has_ended = true;
                client.seal(socket);
            }
            TransportClient::Tls(client) => {
                client.conn.send_close_notify();
                client.write(socket);
            }
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
            TransportClient::Tls(client) => client.receive(wire, plain, socket),
        }
    }

    /// Returns whether bytes wait that the client has not sent.
    pub fn is_waiting(&self) -> bool {
        match self {
            TransportClient::Plain => false,
            TransportClient::Scrambled(client) => !client.unsealed.is_empty() || client.has_ended,
            TransportClient::Tls(client) => client.conn.is_handshaking() && client.error.is_none(),
        }
    }

    /// Returns whether the server has announced that it sends no more.
    pub fn has_alert(&self) -> bool {
        match self {
            TransportClient::Plain => false,
            TransportClient::Scrambled(client) => client.has_alert,
            TransportClient::Tls(client) => client.has_alert,
        }
    }
}

impl TlsPeer {
    /// Returns whether the handshake has resumed a session.
    pub(crate) fn is_resumed(&self) -> bool {
        self.conn.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// Returns the error that the handshake or a record has failed with.
    pub fn error(&self) -> Option<&rustls::Error> {
        self.error.as_ref()
    }

    fn write(&mut self, socket: &mut Vec<u8>) {
        while self.conn.wants_write() {
            self.conn.write_tls(socket).expect("memory");
        }
    }

    fn receive(&mut self, mut wire: &[u8], plain: &mut Vec<u8>, socket: &mut Vec<u8>) {
        while !wire.is_empty() && self.error.is_none() {
            self.conn.read_tls(&mut wire).expect("memory");
            match self.conn.process_new_packets() {
                Ok(state) => {
                    let len = plain.len();
                    plain.resize(len + state.plaintext_bytes_to_read(), 0);
                    self.conn.reader().read_exact(&mut plain[len..]).expect("the bytes that were announced");
                    assert!(!self.has_alert || plain.len() == len, "nothing follows the alert");
                    self.has_alert |= state.peer_has_closed();
                }
                Err(error) => self.error = Some(error),
            }
            self.write(socket);
        }
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
                Opened::Own { len } => len,
                Opened::Plain { .. } => unreachable!("a scrambled record is opened in place"),
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
