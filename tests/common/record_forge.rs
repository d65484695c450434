//! Records of TLS with any content, sealed with the keys of a connection.

use super::tls_stream::TlsStream;
use aws_lc_rs::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use rustls::{CipherSuite, ConnectionTrafficSecrets, ProtocolVersion};
use std::{
    io::{self, Read},
    net::TcpStream,
};

/// Seals records of any kind with the keys of a connection, and opens those of the server.
pub(crate) struct RecordForge {
    pub(crate) socket: TcpStream,
    sealing: RecordKeys,
    opening: RecordKeys,
    is_tls13: bool,
}

struct RecordKeys {
    key: LessSafeKey,
    iv: [u8; 12],
    /// The number of the next record.
    number: u64,
}

/// The kinds of records. RFC 8446, section 5.1.
pub(crate) const CHANGE_CIPHER_SPEC: u8 = 20;
pub(crate) const ALERT: u8 = 21;
pub(crate) const HANDSHAKE: u8 = 22;
pub(crate) const APPLICATION_DATA: u8 = 23;

/// The suites whose records a forge seals. Their nonces are the same in both versions.
pub(crate) const FORGED_SUITES: &[CipherSuite] = &[
    CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
    CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
];

impl RecordForge {
    /// Takes the keys of a connection after its handshake.
    pub(crate) fn new(stream: TlsStream<TcpStream>) -> RecordForge {
        let is_tls13 = stream.conn.protocol_version() == Some(ProtocolVersion::TLSv1_3);
        let secrets = stream.conn.dangerous_extract_secrets().expect("a configuration that allows it");
        let [sealing, opening] =
            [secrets.tx, secrets.rx].map(|(number, secrets)| RecordKeys::new(number, secrets));
        RecordForge { socket: stream.socket, sealing, opening, is_tls13 }
    }

    /// Returns a sealed record.
    pub(crate) fn record(&mut self, kind: u8, content: &[u8]) -> Vec<u8> {
        let mut sealed = content.to_vec();
        let aad_kind = if self.is_tls13 {
            // The kind follows the content, and the record looks like data: RFC 8446, section 5.2.
            sealed.push(kind);
            APPLICATION_DATA
        } else {
            kind
        };
        let (plain_len, wire_len) = (sealed.len() as u16, (sealed.len() + TAG_LEN) as u16);
        let header = [[aad_kind, 3, 3].as_slice(), &wire_len.to_be_bytes()].concat();
        let aad = self.aad(&header, self.sealing.number, plain_len);
        let nonce = self.sealing.next_nonce();
        self.sealing
            .key
            .seal_in_place_append_tag(nonce, Aad::from(aad), &mut sealed)
            .expect("a length in bounds");
        [header, sealed].concat()
    }

    /// Receives until the server closes. Returns the kind and the content of each record.
    ///
    /// # Errors
    /// The connection is reset.
    pub(crate) fn read_to_end(&mut self) -> io::Result<Vec<(u8, Vec<u8>)>> {
        let mut received = Vec::new();
        self.socket.read_to_end(&mut received)?;
        let mut records = Vec::new();
        let mut rest = &received[..];
        while let [kind, _, _, high, low, behind @ ..] = rest {
            let len = usize::from(u16::from_be_bytes([*high, *low]));
            let (header, mut sealed) = (&rest[..5], behind[..len].to_vec());
            let aad = self.aad(header, self.opening.number, (len - TAG_LEN) as u16);
            let nonce = self.opening.next_nonce();
            let plain = self.opening.key.open_in_place(nonce, Aad::from(aad), &mut sealed);
            let plain = plain.expect("a record of the server");
            records.push(match plain.split_last() {
                Some((kind, content)) if self.is_tls13 => (*kind, content.to_vec()),
                _ => (*kind, plain.to_vec()),
            });
            rest = &behind[len..];
        }
        Ok(records)
    }

    /// Returns the additional data of a record: RFC 8446, section 5.2, and RFC 5246, section 6.2.3.3.
    fn aad(&self, header: &[u8], number: u64, plain_len: u16) -> Vec<u8> {
        if self.is_tls13 {
            return header.to_vec();
        }
        [&number.to_be_bytes()[..], &header[..3], &plain_len.to_be_bytes()].concat()
    }
}

/// The length of the tag that authenticates a record.
const TAG_LEN: usize = 16;

impl RecordKeys {
    fn new(number: u64, secrets: ConnectionTrafficSecrets) -> RecordKeys {
        let ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } = secrets else {
            panic!("the client offers one cipher")
        };
        let key = UnboundKey::new(&CHACHA20_POLY1305, key.as_ref()).expect("a key of this length");
        let iv = iv.as_ref().try_into().expect("an initialization vector of this length");
        RecordKeys { key: LessSafeKey::new(key), iv, number }
    }

    fn next_nonce(&mut self) -> Nonce {
        let mut nonce = self.iv;
        nonce[4..].iter_mut().zip(self.number.to_be_bytes()).for_each(|(byte, number)| *byte ^= number);
        self.number += 1;
        Nonce::assume_unique_for_key(nonce)
    }
}
