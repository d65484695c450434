//! The records of TLS 1.2 and 1.3, by rustls. RFC 5246, RFC 8446.
//!
//! ```text
//! wire ─▶ process_tls_records ─┬─ ReadTraffic ─▶ plain bytes, copied into a buffer of the pool
//!                              ├─ EncodeTlsData ─▶ a record of its own: an update of keys or an alert
//!                              └─ WriteTraffic ─▶ encrypt: one record of plain bytes
//! ```
//!
//! The handshake is a number of [steps](HandshakeStep), which may run on another thread. Meanwhile no record is opened.
//!
//! ```text
//! open ─▶ step, with the connection ─▶ run ─▶ stepped: the connection is back
//! ```
//!
//! A client speaks first, so its first step is prepared at once.
//!
//! rustls allocates memory for each record that it opens or seals, and nothing else here does.

use super::{
    Opened, RecordError,
    handshake::HandshakeStep,
    tls_side::{SideRecords, TlsSide},
};
use crate::transport::{
    TransportError,
    kernel_tls::{KernelKeys, KernelSuite, KernelTls},
};
use crate::{BUF_LEN, BufId, BufRange, Pool, TlsSession};
use rustls::{
    ClientConfig, Error, HandshakeKind, InvalidMessage, ProtocolVersion, ServerConfig,
    pki_types::ServerName,
    unbuffered::{ConnectionState, UnbufferedConnectionCommon, UnbufferedStatus},
};
use std::{collections::VecDeque, fmt, mem, ops::RangeInclusive, sync::Arc};

/// The protocol of challenges that show control over a name. A connection for it carries no HTTP. RFC 8737, section 3.
const CHALLENGE_PROTOCOL: &[u8] = b"acme-tls/1";

/// The state of one connection.
pub(super) struct Tls {
    /// `None`: a step of the handshake has it.
    conn: Option<TlsSide>,
    /// This is the side of a client.
    is_client: bool,
    /// The step of the handshake that is to run next.
    step: Option<Box<HandshakeStep>>,
    /// The records of the first step that it could not use. The engine no longer has them.
    held: Vec<u8>,
    /// The length of the peer's other complete records that the last step could not use: it waits for another one.
    waited_len: usize,
    /// No wire byte of a client has arrived.
    is_new: bool,
    /// No step of the handshake was prepared.
    is_first_step: bool,
    /// The connection carries HTTP, as far as the handshake has shown.
    is_http: bool,
    /// The handshake has chosen HTTP/2.
    has_http2: bool,
    is_established: bool,
    progress: RecordProgress,
}

/// The result of the last call of rustls.
struct RecordProgress {
    /// The last call needed more input to go on.
    needs_input: bool,
    /// Its error.
    error: Option<Error>,
}

/// The plain side of a record that is to leave.
enum Unsealed<'p> {
    Plain(&'p [u8]),
    /// The alert that no more follows.
    Close,
}

impl Tls {
    pub(super) fn server(config: &Arc<ServerConfig>) -> Result<Tls, TransportError> {
        let conn = TlsSide::server(config).map_err(|_| TransportError)?;
        Ok(Tls {
            conn: Some(conn),
            is_client: false,
            step: None,
            held: Vec::new(),
            waited_len: 0,
            is_new: true,
            is_first_step: true,
            is_http: true,
            has_http2: false,
            is_established: false,
            progress: RecordProgress { needs_input: true, error: None },
        })
    }

    /// `name`: that of the server, which its certificate must be for.
    pub(super) fn client(
        config: &Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> Result<Tls, TransportError> {
        let conn = TlsSide::client(config, name).map_err(|_| TransportError)?;
        // It takes turns with steps that end a handshake: those of clients that only begin one are less urgent.
        let step = HandshakeStep::new(conn, Vec::new(), &[], 0, 0, false);
        Ok(Tls {
            conn: None,
            is_client: true,
            step: Some(Box::new(step)),
            held: Vec::new(),
            waited_len: 0,
            is_new: false,
            is_first_step: false,
            is_http: true,
            has_http2: false,
            is_established: false,
            progress: RecordProgress { needs_input: true, error: None },
        })
    }

    /// Returns whether no wire byte of a client has arrived.
    pub(super) fn is_new(&self) -> bool {
        self.is_new
    }

    /// Returns whether this is the side of a client.
    pub(super) fn is_client(&self) -> bool {
        self.is_client
    }

    /// Notes the error of a step of the handshake.
    pub(super) fn note_error(&mut self, error: Option<Error>) {
        self.progress.error = error;
    }

    /// Takes the error of the last record or step.
    pub(super) fn take_error(&mut self) -> Option<Error> {
        self.progress.error.take()
    }

    /// Returns whether plain bytes may pass.
    pub(super) fn is_established(&self) -> bool {
        self.is_established
    }

    /// Returns the result of the handshake, once, when it is complete.
    pub(super) fn take_session(&mut self) -> Option<TlsSession> {
        let conn = self.conn.as_ref().filter(|conn| !self.is_established && !conn.is_handshaking())?;
        self.is_established = true;
        self.is_http = conn.alpn_protocol() != Some(CHALLENGE_PROTOCOL);
        self.has_http2 = !self.is_client && conn.alpn_protocol() == Some(HTTP2_PROTOCOL);
        Some(TlsSession {
            is_tls13: conn.protocol_version() == Some(ProtocolVersion::TLSv1_3),
            is_resumed: conn.handshake_kind() == Some(HandshakeKind::Resumed),
            suite: conn.negotiated_cipher_suite().map_or(0, |suite| suite.suite().into()),
        })
    }

    /// Opens the records at the front of the wire until one of them has plain bytes. Adds records of this side's own to `own`. During the
    /// handshake prepares a [step](HandshakeStep) instead, which opens them.
    pub(super) fn open(
        &mut self,
        pool: &mut Pool,
        wire: BufRange,
        own: &mut VecDeque<BufRange>,
    ) -> Result<Opened, RecordError> {
        if wire.len == 0 && self.progress.needs_input {
            return Ok(Opened::Incomplete);
        }
        if mem::take(&mut self.is_new) && is_plain_request(pool.bytes(wire)) {
            return Err(RecordError::PlainRequest);
        }
        if !self.is_established {
            return self.prepare_step(pool.bytes(wire));
        }
        let conn = self.conn.as_mut().expect("no step follows the handshake");
        let buf = pool.take().ok_or(RecordError::NoBuffer)?;
        match conn {
            TlsSide::Server(conn) => self.progress.open(conn, pool, wire, buf, own),
            TlsSide::Client(conn) => self.progress.open(conn, pool, wire, buf, own),
        }
    }

    /// Prepares the next step of the handshake, if the peer has sent a record more.
    ///
    /// The first step takes its records along: no buffer of the pool is held by clients that wait for a thread, however many they are.
    fn prepare_step(&mut self, wire: &[u8]) -> Result<Opened, RecordError> {
        let complete_len = complete_len(wire);
        if complete_len <= self.waited_len {
            return if wire.len() >= BUF_LEN { Err(RecordError::Invalid) } else { Ok(Opened::Incomplete) };
        }
        let Some(conn) = self.conn.take() else { return Ok(Opened::Incomplete) };
        let (held, is_first) = (mem::take(&mut self.held), mem::take(&mut self.is_first_step));
        let seen_len = held.len() + self.waited_len;
        let taken_len = if is_first && complete_len == wire.len() { wire.len() } else { 0 };
        self.step = Some(Box::new(HandshakeStep::new(conn, held, wire, seen_len, taken_len, is_first)));
        Ok(if taken_len > 0 { Opened::Own { len: taken_len } } else { Opened::Incomplete })
    }

    /// Returns whether a step of the handshake waits to be [taken](Tls::take_step).
    pub(super) fn has_step(&self) -> bool {
        self.step.is_some()
    }

    /// Returns whether a step of the handshake has been prepared, and is not done.
    pub(super) fn awaits_step(&self) -> bool {
        self.conn.is_none()
    }

    pub(super) fn take_step(&mut self) -> Option<Box<HandshakeStep>> {
        self.step.take()
    }

    /// Takes the connection back from a step that has run. Returns how many bytes it has used at the front of the engine's inbox.
    pub(super) fn stepped(&mut self, conn: TlsSide, wire: &[u8], used: usize, taken_len: usize) -> usize {
        self.conn = Some(conn);
        self.held = wire[used.min(taken_len)..taken_len].to_vec();
        self.waited_len = complete_len(&wire[used.max(taken_len)..]);
        used.saturating_sub(taken_len)
    }

    /// Returns whether the connection was made for something else than HTTP.
    pub(super) fn is_refused(&self) -> bool {
        !self.is_http
    }

    /// Returns whether the client speaks HTTP/2.
    pub(super) fn has_http2(&self) -> bool {
        self.has_http2
    }

    /// Returns the suite of a connection with a client, if the kernel may have it.
    pub(super) fn kernel_suite(&self) -> Option<KernelSuite> {
        let Some(TlsSide::Server(conn)) = &self.conn else { return None };
        KernelSuite::of(conn.protocol_version()?, conn.negotiated_cipher_suite()?)
    }

    /// Returns the same connection in records of the kernel, and its keys.
    pub(super) fn into_kernel(self, sent_len: u64) -> Result<(KernelTls, [KernelKeys; 2]), TransportError> {
        let suite = self.kernel_suite().ok_or(TransportError)?;
        let Some(TlsSide::Server(conn)) = self.conn else { return Err(TransportError) };
        let (secrets, keys) = conn.dangerous_into_kernel_connection().map_err(|_| TransportError)?;
        Ok(KernelTls::new(keys, secrets, suite, sent_len))
    }

    /// Writes a record of plain bytes to the front of `to`. Returns its length.
    pub(super) fn seal(&mut self, plain: &[u8], to: &mut [u8]) -> Result<usize, TransportError> {
        self.write(&Unsealed::Plain(plain), to)
    }

    /// Writes the alert that no more follows to the front of `to`. Returns its length.
    pub(super) fn seal_close(&mut self, to: &mut [u8]) -> Result<usize, TransportError> {
        self.write(&Unsealed::Close, to)
    }

    fn write(&mut self, unsealed: &Unsealed<'_>, to: &mut [u8]) -> Result<usize, TransportError> {
        match self.conn.as_mut().ok_or(TransportError)? {
            TlsSide::Server(conn) => write_record(conn, unsealed, to),
            TlsSide::Client(conn) => write_record(conn, unsealed, to),
        }
    }
}

impl RecordProgress {
    /// Opens the records at the front of the wire, with a free buffer.
    fn open<S: SideRecords>(
        &mut self,
        conn: &mut UnbufferedConnectionCommon<S>,
        pool: &mut Pool,
        wire: BufRange,
        buf: BufId,
        own: &mut VecDeque<BufRange>,
    ) -> Result<Opened, RecordError> {
        let (bytes, room) = pool.split_mut(wire, buf);
        mark_oversized(bytes);
        let UnbufferedStatus { discard, state } = S::process(conn, bytes);
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
                    queue_own(pool, own, BufRange { buf, at: 0, len: len as u32 });
                    Opened::Own { len: discard }
                })
            }
            Ok(ConnectionState::TransmitTlsData(data)) => {
                data.done();
                // The same call may have opened the peer's closing alert, which only the next one reports.
                self.needs_input = false;
                Ok(Opened::Own { len: discard })
            }
            Ok(ConnectionState::WriteTraffic(_) | ConnectionState::BlockedHandshake) => {
                self.needs_input = true;
                match discard {
                    // The peer may begin a message in one record and end it in another, but none does after the handshake, and rustls could
                    // not seal until then.
                    0 if has_record(pool.bytes(wire)) => Err(RecordError::Invalid),
                    0 if wire.len as usize >= BUF_LEN => Err(RecordError::Invalid),
                    0 => Ok(Opened::Incomplete),
                    len => Ok(Opened::Own { len }),
                }
            }
            Ok(ConnectionState::PeerClosed) => Ok(Opened::Close { len: discard }),
            Ok(_) => Err(RecordError::Invalid),
            Err(error) => {
                let (bytes, room) = pool.split_mut(wire, buf);
                if let Some(len) = encode_last_records(conn, &error, &mut bytes[discard..], room) {
                    is_own = true;
                    own.push_back(BufRange { buf, at: 0, len: len as u32 });
                }
                self.error = Some(error);
                Err(RecordError::Invalid)
            }
        };
        if !is_own && !matches!(opened, Ok(Opened::Plain { .. })) {
            pool.release(buf);
        }
        opened
    }
}

/// Queues a record of this side's own. The records of a flight leave in one send, and in as few segments as they fit in.
fn queue_own(pool: &mut Pool, own: &mut VecDeque<BufRange>, record: BufRange) {
    match own.back_mut() {
        Some(last) if (last.at + last.len + record.len) as usize <= BUF_LEN => {
            *last = pool.join(*last, record);
            pool.release(record.buf);
        }
        _ => own.push_back(record),
    }
}

/// Writes a record to the front of `to`. Returns its length.
fn write_record<S: SideRecords>(
    conn: &mut UnbufferedConnectionCommon<S>,
    unsealed: &Unsealed<'_>,
    to: &mut [u8],
) -> Result<usize, TransportError> {
    loop {
        match S::process(conn, &mut []).state {
            Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                let written = match unsealed {
                    Unsealed::Plain(plain) => traffic.encrypt(plain, to),
                    Unsealed::Close => traffic.queue_close_notify(to),
                };
                return written.map_err(|_| TransportError);
            }
            // Its records are queued already.
            Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
            _ => return Err(TransportError),
        }
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The connection has the keys.
        f.debug_struct("Tls").field("is_established", &self.is_established).finish_non_exhaustive()
    }
}

/// Writes what the peer is still to get of a connection that has failed to the front of `to`: at last the alert that says why. Returns its
/// length. `wire`: the bytes that are not used.
pub(super) fn encode_last_records<S: SideRecords>(
    conn: &mut UnbufferedConnectionCommon<S>,
    error: &Error,
    wire: &mut [u8],
    to: &mut [u8],
) -> Option<usize> {
    let (mut used, mut len) = (0, 0);
    // rustls remembers places in the bytes, so it gets them again. After the alert, it would open the record that has failed again.
    while conn.wants_write() {
        let UnbufferedStatus { discard, state } = S::process(conn, &mut wire[used..]);
        let Ok(ConnectionState::EncodeTlsData(mut data)) = state else { break };
        let Ok(record_len) = data.encode(&mut to[len..]) else { break };
        correct_alert(error, &mut to[len..len + record_len]);
        len += record_len;
        used += discard;
    }
    (len > 0).then_some(len)
}

/// Gives alerts in records that are not encrypted yet their right number.
fn correct_alert(error: &Error, record: &mut [u8]) {
    let [21, _, _, 0, 2, _, description] = record else { return };
    match (error, &*description) {
        // A client asks for a name without a certificate: unrecognized_name, RFC 6066, section 3. rustls sends access_denied.
        (Error::General(why), 49) if why == "no server certificate chain resolved" => *description = 112,
        // record_overflow, RFC 8446, section 5.2. rustls sends decode_error.
        (Error::InvalidMessage(InvalidMessage::MessageTooLarge), 50) => *description = 22,
        _ => {}
    }
}

/// Has rustls refuse the record at the front if it is longer than a buffer: rustls waits for the end of some records that are too long. Returns
/// the length of the record with its header. `None`: the header is incomplete.
pub(super) fn mark_oversized(bytes: &mut [u8]) -> Option<usize> {
    let [_, _, _, high, low] = bytes.first_chunk_mut::<HEADER_LEN>()?;
    let len = usize::from(u16::from_be_bytes([*high, *low]));
    if len > CIPHERTEXT_LEN_MAX {
        (*high, *low) = (u8::MAX, u8::MAX);
    }
    Some(HEADER_LEN + len)
}

/// Returns whether the first bytes of a client begin a request without TLS: methods begin with a letter, and records do not.
fn is_plain_request(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(u8::is_ascii_alphabetic)
}

/// Returns the length of the first record with its header, or of what is there of it.
pub(super) fn first_len(bytes: &[u8]) -> usize {
    match bytes {
        [_, _, _, high, low, ..] => HEADER_LEN + usize::from(u16::from_be_bytes([*high, *low])),
        _ => bytes.len(),
    }
}

/// Returns whether bytes begin with a complete record.
fn has_record(bytes: &[u8]) -> bool {
    complete_len(bytes) > 0
}

/// Returns the length of the complete records at the front. Bytes that cannot be a record count as complete: rustls refuses them at once.
fn complete_len(bytes: &[u8]) -> usize {
    let mut rest = bytes;
    loop {
        rest = match rest {
            [kind, ..] if !RECORD_KINDS.contains(kind) => return bytes.len(),
            [_, _, _, high, low, behind @ ..] => {
                let len = usize::from(u16::from_be_bytes([*high, *low]));
                match behind.get(len..) {
                    _ if len > CIPHERTEXT_LEN_MAX => return bytes.len(),
                    Some(next) => next,
                    None => return bytes.len() - rest.len(),
                }
            }
            _ => return bytes.len() - rest.len(),
        };
    }
}

/// change_cipher_spec, alert, handshake and application_data. RFC 8446, section 5.1.
const RECORD_KINDS: RangeInclusive<u8> = 20..=23;

/// The protocol of clients that speak HTTP/2. RFC 9113, section 3.2.
const HTTP2_PROTOCOL: &[u8] = b"h2";

/// The length of the header of a record.
const HEADER_LEN: usize = 5;

/// The maximum length of a record without its header: those that fit in a buffer are opened. TLS 1.3 allows 2^14 + 256 bytes, and the suites of
/// TLS 1.2 need no more.
const CIPHERTEXT_LEN_MAX: usize = BUF_LEN - HEADER_LEN;
const _: () = assert!(CIPHERTEXT_LEN_MAX >= (1 << 14) + 256);
