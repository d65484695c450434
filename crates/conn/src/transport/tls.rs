//! The records of TLS 1.2 and 1.3, by rustls. RFC 5246, RFC 8446.
//!
//! ```text
//! wire ─▶ process_tls_records ─┬─ ReadTraffic ─▶ plain bytes, copied into a buffer of the pool
//!                              ├─ EncodeTlsData ─▶ a record of its own: a part of the handshake, a ticket or an alert
//!                              └─ WriteTraffic ─▶ encrypt: one record of plain bytes
//! ```
//!
//! rustls allocates memory for each record that it opens or seals, and nothing else here does.

use super::{
    TransportError,
    sealed::{Opened, RecordError},
};
use crate::{BUF_LEN, BufRange, Pool, TlsSession};
use rustls::{
    Error, HandshakeKind, ProtocolVersion, ServerConfig,
    server::{ServerConnectionData, UnbufferedServerConnection},
    unbuffered::{ConnectionState, EncryptError, UnbufferedStatus, WriteTraffic},
};
use std::{collections::VecDeque, fmt, mem, sync::Arc};

/// The protocol of challenges that show control over a name. A connection for it carries no HTTP. RFC 8737, section 3.
const CHALLENGE_PROTOCOL: &[u8] = b"acme-tls/1";

/// The state of one connection.
pub(super) struct Tls {
    conn: UnbufferedServerConnection,
    /// No wire byte has arrived.
    is_new: bool,
    /// The last call needed more input to go on.
    needs_input: bool,
    /// The connection carries HTTP, as far as the handshake has shown.
    is_http: bool,
    is_established: bool,
}

impl Tls {
    pub(super) fn new(config: &Arc<ServerConfig>) -> Result<Tls, TransportError> {
        let conn = UnbufferedServerConnection::new(Arc::clone(config)).map_err(|_| TransportError)?;
        Ok(Tls { conn, is_new: true, needs_input: true, is_http: true, is_established: false })
    }

    /// Returns whether plain bytes may pass.
    pub(super) fn is_established(&self) -> bool {
        self.is_established
    }

    /// Returns the result of the handshake, once, when it is complete.
    pub(super) fn take_session(&mut self) -> Option<TlsSession> {
        if self.is_established || self.conn.is_handshaking() {
            return None;
        }
        self.is_established = true;
        self.is_http = self.conn.alpn_protocol() != Some(CHALLENGE_PROTOCOL);
        Some(TlsSession {
            is_tls13: self.conn.protocol_version() == Some(ProtocolVersion::TLSv1_3),
            is_resumed: self.conn.handshake_kind() == Some(HandshakeKind::Resumed),
            suite: self.conn.negotiated_cipher_suite().map_or(0, |suite| suite.suite().into()),
        })
    }

    /// Opens the records at the front of the wire until one of them has plain bytes. Adds records of the server's own to `own`.
    pub(super) fn open(
        &mut self,
        pool: &mut Pool,
        wire: BufRange,
        own: &mut VecDeque<BufRange>,
    ) -> Result<Opened, RecordError> {
        if wire.len == 0 && self.needs_input {
            return Ok(Opened::Incomplete);
        }
        if mem::take(&mut self.is_new) && is_plain_request(pool.bytes(wire)) {
            return Err(RecordError::PlainRequest);
        }
        let buf = pool.take().ok_or(RecordError::NoBuffer)?;
        let (bytes, room) = pool.split_mut(wire, buf);
        let UnbufferedStatus { discard, state } = self.conn.process_tls_records(bytes);
        let mut is_own = false;
        let opened = match state {
            Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                self.needs_input = true;
                match traffic.next_record() {
                    Some(Ok(record)) => {
                        let len = record.payload.len();
                        room[..len].copy_from_slice(record.payload);
                        Ok(Opened::Plain { len: discard, plain: BufRange { buf, at: 0, len: len as u32 } })
                    }
                    _ => Err(RecordError::Invalid),
                }
            }
            Ok(ConnectionState::EncodeTlsData(mut data)) => {
                self.needs_input = false;
                // A record fits in a buffer.
                let len = data.encode(room).map_err(|_| RecordError::Invalid);
                is_own = len.is_ok();
                len.map(|len| {
                    let record = BufRange { buf, at: 0, len: len as u32 };
                    // The records of a flight leave in one send, and in as few segments as they fit in.
                    match own.back_mut() {
                        Some(last) if (last.at + last.len) as usize + len <= BUF_LEN => {
                            *last = pool.join(*last, record);
                            pool.release(buf);
                        }
                        _ => own.push_back(record),
                    }
                    Opened::Own { len: discard }
                })
            }
            Ok(ConnectionState::TransmitTlsData(data)) => {
                data.done();
                Ok(Opened::Own { len: discard })
            }
            Ok(ConnectionState::WriteTraffic(_) | ConnectionState::BlockedHandshake) => {
                self.needs_input = true;
                match discard {
                    // The peer may begin a message in one record and end it in another, but none does after the handshake, and rustls could
                    // not seal until then.
                    0 if self.is_established && has_record(pool.bytes(wire)) => Err(RecordError::Invalid),
                    0 if wire.len as usize == BUF_LEN => Err(RecordError::Invalid),
                    0 => Ok(Opened::Incomplete),
                    len => Ok(Opened::Own { len }),
                }
            }
            Ok(ConnectionState::PeerClosed) => Ok(Opened::Close { len: discard }),
            Ok(_) => Err(RecordError::Invalid),
            Err(error) => {
                // The alert that says why.
                let (bytes, room) = pool.split_mut(wire, buf);
                if let Ok(ConnectionState::EncodeTlsData(mut data)) =
                    self.conn.process_tls_records(bytes).state
                    && let Ok(len) = data.encode(room)
                {
                    is_own = true;
                    correct_alert(&error, &mut room[..len]);
                    own.push_back(BufRange { buf, at: 0, len: len as u32 });
                }
                Err(RecordError::Invalid)
            }
        };
        if !is_own && !matches!(opened, Ok(Opened::Plain { .. })) {
            pool.release(buf);
        }
        opened
    }

    /// Returns whether the connection was made for something else than HTTP.
    pub(super) fn is_refused(&self) -> bool {
        !self.is_http
    }

    /// Writes a record of plain bytes to the front of `to`. Returns its length.
    pub(super) fn seal(&mut self, plain: &[u8], to: &mut [u8]) -> Result<usize, TransportError> {
        self.write(|traffic| traffic.encrypt(plain, to))
    }

    /// Writes the alert that no more follows to the front of `to`. Returns its length.
    pub(super) fn seal_close(&mut self, to: &mut [u8]) -> Result<usize, TransportError> {
        self.write(|traffic| traffic.queue_close_notify(to))
    }

    fn write(
        &mut self,
        write: impl FnOnce(&mut WriteTraffic<'_, ServerConnectionData>) -> Result<usize, EncryptError>,
    ) -> Result<usize, TransportError> {
        loop {
            match self.conn.process_tls_records(&mut []).state {
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    return write(&mut traffic).map_err(|_| TransportError);
                }
                // Its records are queued already.
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                _ => return Err(TransportError),
            }
        }
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The connection has the keys.
        f.debug_struct("Tls").field("is_established", &self.is_established).finish_non_exhaustive()
    }
}

/// Gives the alert to a client that asks for a name without a certificate its right number: unrecognized_name (112), RFC 6066, section 3. rustls
/// sends access_denied (49), in a record that is not encrypted yet.
fn correct_alert(error: &Error, record: &mut [u8]) {
    if let (Error::General(why), [21, _, _, 0, 2, _, description @ 49]) = (error, record)
        && why == "no server certificate chain resolved"
    {
        *description = 112;
    }
}

/// Returns whether the first bytes of a client begin a request without TLS: methods begin with a letter, and records do not.
fn is_plain_request(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(u8::is_ascii_alphabetic)
}

/// Returns whether bytes begin with a complete record.
fn has_record(bytes: &[u8]) -> bool {
    match bytes {
        [_, _, _, high, low, rest @ ..] => rest.len() >= usize::from(u16::from_be_bytes([*high, *low])),
        _ => false,
    }
}
