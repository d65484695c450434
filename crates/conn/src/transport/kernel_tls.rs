//! A connection whose records the kernel seals and opens: after the handshake its keys go to the socket, and plain bytes pass there.
//!
//! ```text
//! Sealed ── keys ─▶ engine ─▶ socket          plain bytes ⇄ Connection, as without TLS
//! records of other kinds ─▶ received_record ─▶ the end of the input, or the next keys
//! closing alert, update of keys ─▶ own_record ─▶ engine
//! ```
//!
//! Records of other kinds than data come from the kernel one at a time, with their kind, and leave so too. Linux,
//! Documentation/networking/tls.rst.

use super::{
    TransportError,
    tls_failure::{TlsFailed, TlsFailure},
};
use crate::{BufRange, Close, ConnResources, Connection, Tick};
use rustls::{
    AlertDescription, ConnectionTrafficSecrets, ContentType, ExtractedSecrets, HandshakeType,
    ProtocolVersion, SupportedCipherSuite, kernel::KernelConnection, server::ServerConnectionData,
};
use std::{fmt, mem};

/// The state of one connection in the records of the kernel.
pub struct KernelTls {
    /// Derives the keys that follow an update.
    keys: KernelConnection<ServerConnectionData>,
    /// The record that leaves before all else.
    own: Option<OwnRecord>,
    /// The plain bytes sent, and the wire bytes that were sent before the kernel had the keys.
    sent_len: u64,
    /// How many records were sent since the keys changed, or more.
    record_count: u64,
    /// How many updates of keys, and warnings, have come without data between them.
    empty_count: u32,
    /// The closing alert was prepared, or the transport has failed.
    is_closed: bool,
    /// The closing alert waits for room in the socket, until this time at most.
    close_by: Option<Tick>,
    /// The connection knows that the input has ended.
    has_ended: bool,
    /// Input is dropped: it has ended.
    drops_input: bool,
}

/// A version and a cipher, which the kernel may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelSuite {
    /// TLS 1.3, and not 1.2.
    pub is_tls13: bool,
    /// The cipher.
    pub cipher: KernelCipher,
}

/// A cipher that kernels may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelCipher {
    /// AES-128 in Galois/Counter Mode.
    Aes128Gcm,
    /// AES-256 in Galois/Counter Mode.
    Aes256Gcm,
    /// ChaCha20 with Poly1305.
    Chacha20Poly1305,
}

/// The keys of one direction, for the kernel.
pub struct KernelKeys {
    /// Their version and cipher.
    pub suite: KernelSuite,
    /// They seal what the server sends. Otherwise they open what it receives.
    pub seals: bool,
    /// The number of the next record.
    pub sequence: u64,
    /// The key and its initialization vector.
    pub secrets: ConnectionTrafficSecrets,
}

/// Why a connection in records of the kernel fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelFailure {
    /// A record cannot be opened.
    Invalid,
    /// A record is too long.
    TooLong,
    /// The kernel cannot change keys.
    NoUpdate,
}

impl KernelFailure {
    /// Returns what the client hears of it, if the kernel still sends. RFC 8446, section 6.2.
    pub(super) fn alert(self) -> AlertDescription {
        match self {
            KernelFailure::Invalid => AlertDescription::BadRecordMac,
            KernelFailure::TooLong => AlertDescription::RecordOverflow,
            KernelFailure::NoUpdate => AlertDescription::InternalError,
        }
    }
}

/// A record of another kind than data that is to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnRecord {
    /// The kind of the record. RFC 8446, section 5.1.
    pub kind: u8,
    bytes: [u8; KEY_UPDATE.len()],
    len: usize,
}

/// An update of the sender's keys that asks for none. RFC 8446, section 4.6.3.
const KEY_UPDATE: [u8; 5] = [24, 0, 0, 1, 0];

/// The most updates of keys and warnings without data between them: each costs as much as a record, and carries nothing. rustls has the same
/// number for updates.
const EMPTY_COUNT_MAX: u32 = 32;

/// How long the closing alert may wait for room in the socket, in milliseconds: as long as a client may take to receive a response by default.
const CLOSE_MS: u64 = 30_000;

/// The most records that AES-GCM may seal with the same key: RFC 8446, section 5.5, has 2^24.5. They carry 256 GiB.
const RECORD_COUNT_MAX: u64 = 1 << 24;

/// The plain bytes of a record.
const RECORD_LEN: u64 = super::RECORD_PLAIN_LEN_MAX as u64;

impl KernelCipher {
    /// All of them.
    pub const ALL: [KernelCipher; 3] =
        [KernelCipher::Aes128Gcm, KernelCipher::Aes256Gcm, KernelCipher::Chacha20Poly1305];
}

impl KernelSuite {
    /// Returns the suite that rustls has chosen. `None`: no kernel has its cipher.
    pub(super) fn of(version: ProtocolVersion, suite: SupportedCipherSuite) -> Option<KernelSuite> {
        use rustls::CipherSuite as Suite;
        let cipher = match suite.suite() {
            Suite::TLS13_AES_128_GCM_SHA256
            | Suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
            | Suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 => KernelCipher::Aes128Gcm,
            Suite::TLS13_AES_256_GCM_SHA384
            | Suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384
            | Suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 => KernelCipher::Aes256Gcm,
            Suite::TLS13_CHACHA20_POLY1305_SHA256
            | Suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
            | Suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 => KernelCipher::Chacha20Poly1305,
            _ => return None,
        };
        Some(KernelSuite { is_tls13: version == ProtocolVersion::TLSv1_3, cipher })
    }
}

impl OwnRecord {
    fn alert(is_fatal: bool, description: AlertDescription) -> OwnRecord {
        let level = if is_fatal { 2 } else { 1 };
        let bytes = [level, description.into(), 0, 0, 0];
        OwnRecord { kind: ContentType::Alert.into(), bytes, len: 2 }
    }

    /// Returns its content.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Returns whether no data follows.
    fn is_close(&self) -> bool {
        self.bytes() == [1, u8::from(AlertDescription::CloseNotify)]
    }

    /// Returns whether the keys for sending change after it.
    fn is_update(&self) -> bool {
        self.kind == u8::from(ContentType::Handshake)
    }
}

impl KernelTls {
    /// Returns the state of a connection whose handshake is complete, and its keys: those that seal, and those that open.
    pub(super) fn new(
        keys: KernelConnection<ServerConnectionData>,
        secrets: ExtractedSecrets,
        suite: KernelSuite,
        sent_len: u64,
    ) -> (KernelTls, [KernelKeys; 2]) {
        let ExtractedSecrets { tx, rx } = secrets;
        let of = |seals, (sequence, secrets)| KernelKeys { suite, seals, sequence, secrets };
        let kernel = KernelTls {
            keys,
            own: None,
            sent_len,
            record_count: 0,
            empty_count: 0,
            is_closed: false,
            close_by: None,
            has_ended: false,
            drops_input: false,
        };
        (kernel, [of(true, tx), of(false, rx)])
    }

    /// Passes plain bytes to the connection. Returns how many of them are used.
    pub(super) fn received(
        &mut self,
        conn: &mut Connection,
        cx: &mut ConnResources<'_>,
        plain: BufRange,
    ) -> usize {
        if self.drops_input {
            if self.is_closed {
                // A connection that waits for the client's end takes no bytes, but notes that the client still sends.
                conn.received(cx, plain);
            }
            return plain.len as usize;
        }
        self.empty_count = 0;
        conn.received(cx, plain)
    }

    /// Handles a record of another kind than data. Returns the keys that open the next records, if they change.
    pub(super) fn received_record(
        &mut self,
        conn: &mut Connection,
        cx: &mut ConnResources<'_>,
        kind: u8,
        bytes: &[u8],
    ) -> Option<KernelKeys> {
        if self.drops_input {
            return None;
        }
        match (ContentType::from(kind), bytes) {
            (ContentType::Alert, &[_, description]) => {
                match AlertDescription::from(description) {
                    AlertDescription::CloseNotify => self.ended_by_alert(conn, cx),
                    AlertDescription::UserCanceled if self.carries_little() => {}
                    _ => {
                        self.fail(conn, cx, None);
                    }
                }
                None
            }
            (ContentType::Handshake, &[update, 0, 0, 1, asks])
                if HandshakeType::from(update) == HandshakeType::KeyUpdate
                    && asks <= 1
                    && self.is_tls13() =>
            {
                self.update(conn, cx, asks == 1)
            }
            _ => {
                self.fail(conn, cx, Some(AlertDescription::UnexpectedMessage));
                None
            }
        }
    }

    /// Counts a record that carries no data. Returns whether there may be so many.
    fn carries_little(&mut self) -> bool {
        self.empty_count += 1;
        self.empty_count <= EMPTY_COUNT_MAX
    }

    /// Handles an update of the client's keys. `asks`: the client asks for one of this side's.
    fn update(
        &mut self,
        conn: &mut Connection,
        cx: &mut ConnResources<'_>,
        asks: bool,
    ) -> Option<KernelKeys> {
        let updated = self.carries_little().then(|| self.keys.update_rx_secret().ok()).flatten();
        if updated.is_none() {
            self.fail(conn, cx, Some(AlertDescription::UnexpectedMessage));
        }
        let (sequence, secrets) = updated?;
        if asks && self.own.is_none() {
            let kind = ContentType::Handshake.into();
            self.own = Some(OwnRecord { kind, bytes: KEY_UPDATE, len: KEY_UPDATE.len() });
        }
        Some(KernelKeys { suite: self.suite(), seals: false, sequence, secrets })
    }

    /// Handles the failure of the connection. `alert`: what the client hears of it. Returns `false` if the connection was closing already: then
    /// it closes at once.
    #[cold]
    pub(super) fn fail(
        &mut self,
        conn: &mut Connection,
        cx: &mut ConnResources<'_>,
        alert: Option<AlertDescription>,
    ) -> bool {
        if mem::replace(&mut self.is_closed, true) {
            return false;
        }
        cx.counters.tls_failed.add(1);
        self.own = alert.map(|alert| OwnRecord::alert(true, alert));
        self.drops_input = true;
        conn.refuse_transport(cx, &TlsFailed::new(TlsFailure::Invalid));
        true
    }

    fn ended_by_alert(&mut self, conn: &mut Connection, cx: &mut ConnResources<'_>) {
        self.drops_input = true;
        if !mem::replace(&mut self.has_ended, true) {
            conn.ended(cx);
        }
    }

    /// Handles the end of the socket. Without an alert before it, anyone on the way may have made it: RFC 8446, section 6.1.
    pub(super) fn ended(&mut self, conn: &mut Connection, cx: &mut ConnResources<'_>) {
        self.drops_input = true;
        if !mem::replace(&mut self.has_ended, true) {
            conn.cut(cx, &TlsFailed::new(TlsFailure::NoClosingAlert));
        }
    }

    /// Prepares the closing alert, if it is to leave next.
    pub(super) fn prepare_close(&mut self, close: Close, has_output: bool) {
        if self.own.is_none() && self.owes_close(close, has_output) {
            self.own = Some(OwnRecord::alert(false, AlertDescription::CloseNotify));
            self.is_closed = true;
            self.drops_input = true;
        }
    }

    /// Returns the record that leaves before all else.
    pub(super) fn own_record(&self) -> Option<OwnRecord> {
        self.own
    }

    /// Handles the event that the socket has no room for the record of its own.
    pub(super) fn own_waits(&mut self, now: Tick) {
        if self.own.is_some_and(|own| own.is_close()) {
            self.close_by.get_or_insert(now.after(CLOSE_MS));
        }
    }

    /// Returns whether the connection must not close yet: its last bytes may wait in the kernel, which would drop them.
    pub(super) fn holds_close(&self) -> bool {
        self.close_by.is_some() && self.own.is_some()
    }

    /// Returns whether the next send sends the front of the outbox. Without an outbox, it sends the closing alert.
    #[inline(never)]
    pub(super) fn sends_outbox(&self, conn: &Connection) -> bool {
        self.own.is_none() && !conn.outbox().is_empty()
    }

    /// Returns the deadline of the connection, or the earlier one of the closing alert.
    #[inline(never)]
    pub(super) fn deadline(&self, of_conn: Tick) -> Tick {
        self.close_by.filter(|_| self.own.is_some()).map_or(of_conn, |own| own.min(of_conn))
    }

    /// Gives the closing alert up if its time has passed.
    pub(super) fn expired(&mut self, now: Tick) {
        if self.close_by.is_some_and(|by| by <= now) {
            self.own = None;
        }
    }

    /// Handles the event that the record of its own was sent. Returns the keys that seal what follows, if they change.
    pub(super) fn sent_own(&mut self) -> Result<Option<KernelKeys>, TransportError> {
        match self.own.take() {
            Some(record) if record.is_update() => {
                let (sequence, secrets) = self.keys.update_tx_secret().map_err(|_| TransportError)?;
                self.record_count = 0;
                Ok(Some(KernelKeys { suite: self.suite(), seals: true, sequence, secrets }))
            }
            _ => Ok(None),
        }
    }

    /// Handles the event that plain bytes were sent.
    pub(super) fn sent(&mut self, conn: &mut Connection, cx: &mut ConnResources<'_>, len: u64) {
        self.sent_len += len;
        self.record_count += 1 + len / RECORD_LEN;
        conn.sent(cx, len);
        if self.record_count > RECORD_COUNT_MAX {
            // The client sees that the response is cut.
            self.fail(conn, cx, None);
        }
    }

    pub(super) fn sent_len(&self) -> u64 {
        self.sent_len
    }

    pub(super) fn drops_input(&self) -> bool {
        self.drops_input
    }

    pub(super) fn drop_input(&mut self) {
        self.drops_input = true;
    }

    pub(super) fn has_own_output(&self, close: Close, has_output: bool) -> bool {
        self.own.is_some() || self.owes_close(close, has_output)
    }

    /// Returns whether the transport owes the closing alert. It follows the last byte of the output; a response that was cut has none.
    fn owes_close(&self, close: Close, has_output: bool) -> bool {
        close != Close::No && !has_output && !self.is_closed
    }

    fn is_tls13(&self) -> bool {
        self.keys.protocol_version() == ProtocolVersion::TLSv1_3
    }

    fn suite(&self) -> KernelSuite {
        KernelSuite::of(self.keys.protocol_version(), self.keys.negotiated_cipher_suite())
            .expect("the kernel has it")
    }
}

impl fmt::Debug for KernelTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The connection has the keys.
        f.debug_struct("KernelTls").field("is_closed", &self.is_closed).finish_non_exhaustive()
    }
}

impl fmt::Debug for KernelKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelKeys").field("suite", &self.suite).finish_non_exhaustive()
    }
}
