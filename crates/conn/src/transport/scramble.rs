//! Records for tests. They hide nothing, but a lost, repeated or reordered byte is noticed.
//!
//! ```text
//! client ── Handshake(nonce) ──▶ server       record:  kind  length  bytes, each with one of its keystream  check
//!        ◀─ Handshake(nonce) ───                       1     2       length                                 4
//!        ── Handshake(done) ───▶              the keystream depends on both nonces, the direction and the number of the record
//!        ◀─ Data, Close ──▶
//! ```

use super::{RECORD_OVERHEAD_MAX, sealed::Opened};
use crate::BUF_LEN;
use std::ops::RangeInclusive;

/// One side of a connection in scrambled records.
#[derive(Debug)]
pub(crate) struct Scramble {
    is_server: bool,
    /// The state of the generator of nonces and lengths.
    random: u64,
    sent: HandshakeSide,
    received: HandshakeSide,
    seal: Direction,
    open: Direction,
}

/// The handshake messages of one side.
#[derive(Clone, Copy, Debug, Default)]
struct HandshakeSide {
    count: u8,
    nonce: u64,
}

/// The records in one direction.
#[derive(Clone, Copy, Debug, Default)]
struct Direction {
    key: u64,
    count: u64,
}

/// What a record carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SealedKind {
    Handshake,
    Data,
    Close,
}

/// The error that a record is not the next one of the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InvalidRecord;

const HEADER_LEN: usize = 3;
const CHECK_LEN: usize = 4;
const _: () = assert!(HEADER_LEN + CHECK_LEN <= RECORD_OVERHEAD_MAX);

impl Scramble {
    pub(crate) fn server(seed: u64) -> Scramble {
        Scramble::new(seed, true)
    }

    pub(crate) fn client(seed: u64) -> Scramble {
        Scramble::new(seed, false)
    }

    fn new(seed: u64, is_server: bool) -> Scramble {
        let none = HandshakeSide::default();
        let (seal, open) = (Direction::default(), Direction::default());
        Scramble {
            is_server,
            random: mix(seed, u64::from(is_server)),
            sent: none,
            received: none,
            seal,
            open,
        }
    }

    /// Returns whether data may pass: both sides have sent a nonce, and the client has shown that it has the server's.
    pub(crate) fn is_established(&self) -> bool {
        let (client, server) = self.client_and_server();
        client.count == 2 && server.count == 1
    }

    /// Returns whether this side owes a message of the handshake.
    pub(crate) fn has_handshake(&self) -> bool {
        match self.is_server {
            true => self.sent.count < self.received.count.min(1),
            false => self.sent.count < self.received.count + 1,
        }
    }

    /// Returns whether the other side owes a message of the handshake.
    fn awaits_handshake(&self) -> bool {
        match self.is_server {
            true => self.received.count == self.sent.count,
            false => self.received.count == 0 && self.sent.count == 1,
        }
    }

    /// Returns a random length in a range.
    pub(crate) fn chance(&mut self, lens: &RangeInclusive<usize>) -> usize {
        let (min, max) = (*lens.start() as u64, *lens.end() as u64);
        (min + self.next() % (max - min + 1)) as usize
    }

    /// Writes a record to the front of `to`. Returns its length.
    pub(crate) fn seal(&mut self, kind: SealedKind, plain: &[u8], to: &mut [u8]) -> usize {
        let nonce = match kind {
            SealedKind::Handshake => self.next().to_be_bytes(),
            SealedKind::Data | SealedKind::Close => [0; 8],
        };
        let plain = if kind == SealedKind::Handshake { &nonce } else { plain };
        let end = HEADER_LEN + plain.len();
        to[0] = kind as u8;
        to[1..HEADER_LEN].copy_from_slice(&(plain.len() as u16).to_be_bytes());
        to[HEADER_LEN..end].copy_from_slice(plain);
        let check = self.seal.next_record(kind, plain);
        self.seal.apply_keystream(&mut to[HEADER_LEN..end]);
        to[end..][..CHECK_LEN].copy_from_slice(&check);
        if kind == SealedKind::Handshake {
            self.sent = HandshakeSide { count: self.sent.count + 1, nonce: u64::from_be_bytes(nonce) };
            self.update_keys();
        }
        end + CHECK_LEN
    }

    /// Opens the record at the front of the wire, in place.
    pub(crate) fn open(&mut self, wire: &mut [u8]) -> Result<Opened, InvalidRecord> {
        let Some((&mut [kind, high, low], rest)) = wire.split_first_chunk_mut::<HEADER_LEN>() else {
            return Ok(Opened::Incomplete);
        };
        let len = usize::from(u16::from_be_bytes([high, low]));
        let kind = match kind {
            0 if len == 8 && self.awaits_handshake() => SealedKind::Handshake,
            1 if len > 0 && self.is_established() => SealedKind::Data,
            2 if len == 0 && self.is_established() => SealedKind::Close,
            _ => return Err(InvalidRecord),
        };
        if HEADER_LEN + len + CHECK_LEN > BUF_LEN {
            return Err(InvalidRecord);
        }
        if rest.len() < len + CHECK_LEN {
            return Ok(Opened::Incomplete);
        }
        let (plain, rest) = rest.split_at_mut(len);
        let mut next = self.open;
        next.count += 1;
        next.apply_keystream(plain);
        if self.open.next_record(kind, plain) != rest[..CHECK_LEN] {
            return Err(InvalidRecord);
        }
        Ok(match kind {
            SealedKind::Handshake => {
                let nonce = plain.try_into().map(u64::from_be_bytes).map_err(|_| InvalidRecord)?;
                self.received = HandshakeSide { count: self.received.count + 1, nonce };
                self.update_keys();
                Opened::Own { len: HEADER_LEN + len + CHECK_LEN }
            }
            SealedKind::Data => Opened::Data { header_len: HEADER_LEN, len, trailer_len: CHECK_LEN },
            SealedKind::Close => Opened::Close { len: HEADER_LEN + CHECK_LEN },
        })
    }

    fn client_and_server(&self) -> (HandshakeSide, HandshakeSide) {
        if self.is_server { (self.received, self.sent) } else { (self.sent, self.received) }
    }

    /// Derives the keys of both directions from the nonces of both sides.
    fn update_keys(&mut self) {
        let (client, server) = self.client_and_server();
        let shared = mix(client.nonce, server.nonce);
        let [from_client, from_server] = [0, 1].map(|direction| mix(shared, direction));
        (self.seal.key, self.open.key) =
            if self.is_server { (from_server, from_client) } else { (from_client, from_server) };
    }

    fn next(&mut self) -> u64 {
        self.random = mix(self.random, 1);
        self.random
    }
}

impl Direction {
    /// Counts a record, and returns its check, which depends on all that the record says and on its number.
    fn next_record(&mut self, kind: SealedKind, plain: &[u8]) -> [u8; CHECK_LEN] {
        self.count += 1;
        let of_bytes = plain.iter().fold(mix(self.key, self.count), |check, &byte| {
            (check ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(5)
        });
        (mix(of_bytes, kind as u64) as u32).to_be_bytes()
    }

    /// Changes each byte by the keystream of the current record.
    fn apply_keystream(self, bytes: &mut [u8]) {
        let key = mix(self.key, !self.count);
        for (at, chunk) in bytes.chunks_mut(8).enumerate() {
            let stream = mix(key, at as u64).to_be_bytes();
            chunk.iter_mut().zip(stream).for_each(|(byte, stream)| *byte ^= stream);
        }
    }
}

/// Mixes two numbers: a step of SplitMix64.
fn mix(a: u64, b: u64) -> u64 {
    let mut mixed = a.wrapping_add(b.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_is_not_the_next_is_noticed() {
        #[rustfmt::skip]
        let cases: &[(&str, &[usize], bool)] = &[
            // case          records  opens
            ("in order",     &[0, 1, 2], true),
            ("lost",         &[0, 2],    false),
            ("repeated",     &[0, 0],    false),
            ("reordered",    &[1, 0],    false),
        ];
        for &(name, order, want) in cases {
            let (mut client, mut server) = established();
            let mut records =
                [b"one", b"two", b"six"].map(|plain| sealed(&mut client, SealedKind::Data, plain));
            let opens = order.iter().all(|&number| server.open(&mut records[number].clone()).is_ok());
            assert_eq!(opens, want, "{name}");
            // A byte that was changed is noticed too, wherever it lies.
            for at in 0..records[0].len() {
                records[0][at] ^= 0x40;
                assert_ne!(
                    established().1.open(&mut records[0]).ok(),
                    Some(Opened::Data { header_len: HEADER_LEN, len: 3, trailer_len: CHECK_LEN }),
                    "{name}, byte {at}"
                );
                records[0][at] ^= 0x40;
            }
        }
    }

    #[test]
    fn no_data_passes_before_the_handshake() {
        let mut early = sealed(&mut Scramble::client(1), SealedKind::Data, b"early");
        assert_eq!(Scramble::server(2).open(&mut early), Err(InvalidRecord));
    }

    fn established() -> (Scramble, Scramble) {
        let (mut client, mut server) = (Scramble::client(1), Scramble::server(2));
        while !(client.is_established() && server.is_established()) {
            for (from, to) in [(0, 1), (1, 0)] {
                let sides = [&mut client, &mut server];
                if sides[from].has_handshake() {
                    let mut record = sealed(sides[from], SealedKind::Handshake, b"");
                    sides[to].open(&mut record).unwrap();
                }
            }
        }
        (client, server)
    }

    fn sealed(side: &mut Scramble, kind: SealedKind, plain: &[u8]) -> Vec<u8> {
        let mut record = vec![0; BUF_LEN];
        let len = side.seal(kind, plain, &mut record);
        record.truncate(len);
        record
    }
}
