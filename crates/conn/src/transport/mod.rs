//! How the bytes of a connection travel: as they are, or in sealed records. Lies between the socket and [`Connection`], and is sans-IO too.
//!
//! ```text
//!            wire bytes                        plain bytes
//! socket ── inbox of the engine ─▶ open ── plain inbox ─▶ Connection
//!        ◀─ record, in a buffer ◀─ seal ◀─ front of the outbox
//! ```
//!
//! The engine and `sim` report events here, and the transport passes them on to the connection. For [`Transport::Plain`] every call is the
//! same call of the connection. The state of another transport is boxed, so that a plain connection stays small.
//!
//! | file | what |
//! |---|---|
//! | `sealed/` | records of TLS: two inboxes, the record that leaves, the handshake and the alert |
//! | `kernel_tls` | records of TLS that the kernel seals and opens |
//! | `no_tls`, `no_kernel_tls` | take the place of both without the feature `tls`: no connection is sealed |
//! | `tls_failure` | why TLS with a server has failed |
//! | `scramble` | records for tests: a lost, repeated or reordered byte is noticed |
//!
//! Knows nothing of HTTP.

#[cfg_attr(not(feature = "tls"), path = "no_kernel_tls.rs")]
mod kernel_tls;
#[cfg(feature = "sim")]
pub(crate) mod scramble;
#[cfg_attr(not(feature = "tls"), path = "no_tls.rs")]
mod sealed;
mod tls_failure;

use crate::{BufId, BufRange, Close, ConnResources, Connection, Pool, Tick};
use kernel_tls::KernelTls;
pub use kernel_tls::OwnRecord;
#[cfg(feature = "tls")]
pub use kernel_tls::{KernelCipher, KernelFailure, KernelKeys, KernelSuite};
#[cfg(feature = "sim")]
pub(crate) use sealed::Opened;
use sealed::Sealed;
pub use sealed::{HandshakeStep, TlsServerConfig};
#[cfg(feature = "tls")]
use std::mem;
#[cfg(feature = "sim")]
use std::ops::RangeInclusive;
use std::sync::Arc;
pub(crate) use tls_failure::TlsFailed;
pub use tls_failure::TlsFailure;

/// How the bytes of a connection travel.
#[derive(Debug)]
pub enum Transport {
    /// As they are.
    Plain,
    /// In records: those of TLS, or scrambled ones for tests.
    Sealed(Box<Sealed>),
    /// In records of TLS that the kernel seals and opens.
    KernelTls(Box<KernelTls>),
}

// A connection boxes the state of its records: a plain one has the kind and a place for the pointer.
const _: () = assert!(size_of::<Transport>() <= 2 * size_of::<usize>());

/// The maximum number of plain bytes in a record that the server seals. RFC 8446, section 5.1. The record fits in a buffer.
pub const RECORD_PLAIN_LEN_MAX: usize = 1 << 14;
const _: () = assert!(RECORD_PLAIN_LEN_MAX + RECORD_OVERHEAD_MAX <= crate::BUF_LEN);

/// The most that sealing adds to plain bytes: TLS 1.2 with an explicit nonce adds 29 bytes, and TLS 1.3 adds 22, and 27 for an update of the
/// keys in a record before it.
const RECORD_OVERHEAD_MAX: usize = 64;

/// The error that the connection cannot continue: a record of the peer is invalid, or no buffer is free. The engine closes the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransportError;

/// A sealed record that is not queued yet. Its source may have been damaged while it was read.
#[must_use]
#[derive(Debug)]
pub struct SealedRecord {
    /// The whole record.
    wire: BufRange,
    /// How many bytes of the outbox it carries. 0: it is the transport's own.
    plain_len: u64,
}

impl SealedRecord {
    /// Returns the buffer to release if the record must not be sent.
    #[inline]
    pub fn discard(self) -> BufId {
        self.wire.buf
    }
}

impl Transport {
    /// Returns a transport that scrambles, with records of random lengths in this range.
    #[cfg(feature = "sim")]
    pub fn scrambled(seed: u64, record_lens: RangeInclusive<usize>) -> Transport {
        Transport::Sealed(Box::new(Sealed::scrambled(seed, record_lens)))
    }

    /// Returns a transport for a client that begins a TLS handshake. Each record of the configuration must fit in a buffer of the pool: its
    /// `max_fragment_size` is the default or less.
    ///
    /// # Errors
    /// The configuration is unusable: its `max_fragment_size` is out of range.
    pub fn tls(config: &Arc<TlsServerConfig>) -> Result<Transport, TransportError> {
        Sealed::tls(config).map(|sealed| Transport::Sealed(Box::new(sealed)))
    }

    /// Opens wire bytes and passes the plain bytes to the connection. Returns how many wire bytes were used. The caller keeps the
    /// rest and offers it again, followed by more input, or unchanged after the connection paused. `wire` may be empty: the transport
    /// offers the plain bytes that it keeps.
    ///
    /// # Errors
    /// A record is invalid, or no buffer is free.
    #[inline]
    pub fn received(
        &mut self,
        conn: &mut Connection,
        cx: &mut ConnResources<'_>,
        wire: BufRange,
    ) -> Result<usize, TransportError> {
        match self {
            Transport::Plain => Ok(conn.received(cx, wire)),
            Transport::Sealed(sealed) => sealed.received(conn, cx, wire),
            Transport::KernelTls(kernel) => Ok(kernel.received(conn, cx, wire)),
        }
    }

    /// Returns the step of the handshake that is to run next, once: [`DriveStep::Handshake`](crate::DriveStep::Handshake).
    pub fn take_step(&mut self) -> Option<Box<HandshakeStep>> {
        match self {
            Transport::Plain | Transport::KernelTls(_) => None,
            Transport::Sealed(sealed) => sealed.take_step(),
        }
    }

    /// Handles the end of a step of the handshake, which has run. Then the engine offers the inbox again.
    ///
    /// # Errors
    /// No buffer is free.
    pub fn stepped(
        &mut self,
        conn: &mut Connection,
        cx: &mut ConnResources<'_>,
        step: HandshakeStep,
    ) -> Result<(), TransportError> {
        match self {
            Transport::Plain | Transport::KernelTls(_) => Ok(()),
            Transport::Sealed(sealed) => sealed.stepped(conn, cx, step),
        }
    }

    /// Returns whether bytes of the outbox may leave: a handshake is complete.
    #[inline]
    pub(crate) fn takes_output(&self) -> bool {
        match self {
            Transport::Plain | Transport::KernelTls(_) => true,
            Transport::Sealed(sealed) => sealed.takes_output(),
        }
    }

    /// Returns whether a step of the handshake waits to be taken.
    #[inline]
    pub(crate) fn has_step(&self) -> bool {
        matches!(self, Transport::Sealed(sealed) if sealed.has_step())
    }

    /// Returns whether a step of the handshake is not done: no input is taken.
    #[inline]
    pub(crate) fn awaits_step(&self) -> bool {
        matches!(self, Transport::Sealed(sealed) if sealed.awaits_step())
    }

    /// Handles the end of the input. The caller has dropped the wire bytes that were not used.
    #[inline]
    pub fn ended(&mut self, conn: &mut Connection, cx: &mut ConnResources<'_>) {
        match self {
            Transport::Plain => conn.ended(cx),
            Transport::Sealed(sealed) => sealed.ended(conn, cx),
            Transport::KernelTls(kernel) => kernel.ended(conn, cx),
        }
    }

    /// Returns how many bytes of the outbox the next record takes. `None`: the next send needs no seal, because it is plain, or a record
    /// that is queued, or one of the transport's own that this call has sealed.
    ///
    /// # Errors
    /// No buffer is free.
    #[inline]
    pub fn record_len(
        &mut self,
        conn: &Connection,
        pool: &mut Pool,
    ) -> Result<Option<usize>, TransportError> {
        match self {
            Transport::Plain => Ok(None),
            Transport::Sealed(sealed) => sealed.record_len(conn, pool),
            Transport::KernelTls(kernel) => {
                kernel.prepare_close(conn.need().close, !conn.outbox().is_empty());
                Ok(None)
            }
        }
    }

    /// Seals the first bytes of the outbox, at most [`record_len`](Transport::record_len). The caller then checks that their source was
    /// intact, and queues the record, or discards it and closes the socket.
    ///
    /// # Errors
    /// No buffer is free.
    ///
    /// # Panics
    /// Panics if the transport asks for no record.
    #[inline]
    pub fn seal(&mut self, pool: &mut Pool, plain: &[u8]) -> Result<SealedRecord, TransportError> {
        match self {
            Transport::Plain | Transport::KernelTls(_) => unreachable!("this transport asks for no record"),
            Transport::Sealed(sealed) => sealed.seal(pool, plain),
        }
    }

    /// Queues a sealed record whose source was intact.
    #[inline]
    pub fn queue(&mut self, record: SealedRecord) {
        match self {
            Transport::Plain | Transport::KernelTls(_) => {}
            Transport::Sealed(sealed) => sealed.queue(record),
        }
    }

    /// Returns the rest of the queued record, which leaves before all else.
    #[inline]
    pub fn queued(&self) -> Option<BufRange> {
        match self {
            Transport::Plain | Transport::KernelTls(_) => None,
            Transport::Sealed(sealed) => sealed.queued(),
        }
    }

    /// Returns whether another record follows the queued one at once.
    #[inline]
    pub fn has_more(&self, conn: &Connection) -> bool {
        match self {
            Transport::Plain | Transport::KernelTls(_) => false,
            Transport::Sealed(sealed) => sealed.has_more(conn),
        }
    }

    /// Handles the event that the engine has sent `len` bytes. The connection hears of plain bytes once their whole record has left.
    #[inline]
    pub fn sent(&mut self, conn: &mut Connection, cx: &mut ConnResources<'_>, len: u64) {
        match self {
            Transport::Plain => conn.sent(cx, len),
            Transport::Sealed(sealed) => sealed.sent(conn, cx, len),
            Transport::KernelTls(kernel) => kernel.sent(conn, cx, len),
        }
    }

    /// Handles the end of the deadline. The client has not acknowledged the last `unacked` bytes that the engine sent. Progress counts in
    /// wire bytes: a slow client may need more than one deadline for a record.
    pub fn expired(&mut self, conn: &mut Connection, cx: &mut ConnResources<'_>, unacked: u64) {
        if let Transport::KernelTls(kernel) = self {
            kernel.expired(cx.now);
            if conn.deadline() > cx.now {
                return;
            }
        }
        let sent_len = match self {
            Transport::Plain => conn.sent_len(),
            Transport::Sealed(sealed) => sealed.sent_len(),
            Transport::KernelTls(kernel) => kernel.sent_len(),
        };
        conn.expired(cx, sent_len.saturating_sub(unacked), unacked);
    }

    /// Ends the connection before its deadline, because other connections need its buffers. The caller drops the wire bytes that were
    /// not used.
    pub fn evict(&mut self, conn: &mut Connection, cx: &mut ConnResources<'_>) {
        match self {
            Transport::Plain => {}
            Transport::Sealed(sealed) => sealed.drop_input(cx.pool),
            Transport::KernelTls(kernel) => kernel.drop_input(),
        }
        conn.evict(cx);
    }

    /// Returns whether nothing has arrived from the client, neither bytes nor their end: if the engine closes such a connection, its client has reset it.
    #[inline]
    pub fn is_silent(&self, conn: &Connection) -> bool {
        let is_new = match self {
            Transport::Plain => true,
            Transport::Sealed(sealed) => sealed.is_silent(),
            Transport::KernelTls(_) => false,
        };
        is_new && conn.is_silent()
    }

    /// Releases all resources after the socket has closed. This must be the last call.
    pub fn closed(&mut self, conn: &mut Connection, cx: &mut ConnResources<'_>) {
        if let Transport::Sealed(sealed) = self {
            sealed.release(cx.pool);
        }
        conn.closed(cx);
    }

    /// Returns whether plain bytes wait that the connection has not used.
    #[inline]
    pub fn has_input(&self) -> bool {
        match self {
            Transport::Plain | Transport::KernelTls(_) => false,
            Transport::Sealed(sealed) => sealed.has_input(),
        }
    }

    /// Returns whether the transport holds buffers of the pool.
    #[inline]
    pub fn holds_buffers(&self) -> bool {
        match self {
            Transport::Plain | Transport::KernelTls(_) => false,
            Transport::Sealed(sealed) => sealed.holds_buffers(),
        }
    }

    /// Returns whether the transport has bytes of its own to send: a part of its handshake, or the alert that closes.
    #[inline]
    pub(crate) fn has_own_output(&self, close: Close, has_output: bool) -> bool {
        match self {
            Transport::Plain => false,
            Transport::Sealed(sealed) => sealed.has_own_output(close, has_output),
            Transport::KernelTls(kernel) => kernel.has_own_output(close, has_output),
        }
    }

    /// Returns whether the keys may go to the kernel now: [`DriveStep::InstallKeys`](crate::DriveStep::InstallKeys).
    pub(crate) fn offers_keys(&self, close: Close, has_output: bool) -> bool {
        match self {
            Transport::Sealed(sealed) => {
                (close == Close::No || close == Close::Write && has_output) && sealed.offers_keys()
            }
            Transport::Plain | Transport::KernelTls(_) => false,
        }
    }

    /// Returns whether the connection must not close yet, as what it has sent would be lost.
    pub(crate) fn holds_close(&self) -> bool {
        match self {
            Transport::Plain | Transport::Sealed(_) => false,
            Transport::KernelTls(kernel) => kernel.holds_close(),
        }
    }

    /// Returns when the engine must report the end of the [deadline](Transport::expired): that of the connection, or an earlier one.
    #[inline(always)]
    pub fn deadline(&self, conn: &Connection) -> Tick {
        let of_conn = conn.deadline();
        match self {
            Transport::Plain | Transport::Sealed(_) => of_conn,
            Transport::KernelTls(kernel) => kernel.deadline(of_conn),
        }
    }

    /// Returns the record of its own that a [send](crate::DriveStep::Send) sends next, by its kind, if the kernel seals.
    pub fn own_record(&self) -> Option<OwnRecord> {
        match self {
            Transport::Plain | Transport::Sealed(_) => None,
            Transport::KernelTls(kernel) => kernel.own_record(),
        }
    }

    /// Returns whether the next send sends the front of the outbox, unchanged.
    #[inline(always)]
    pub fn sends_outbox(&self, conn: &Connection) -> bool {
        match self {
            Transport::Plain => true,
            Transport::Sealed(_) => false,
            Transport::KernelTls(kernel) => kernel.sends_outbox(conn),
        }
    }

    /// Returns whether the kernel opens records: a receive then ends with an error before a record of another kind than data.
    #[inline]
    pub fn is_kernel_tls(&self) -> bool {
        matches!(self, Transport::KernelTls(_))
    }
}

/// Of connections whose keys go to the kernel.
#[cfg(feature = "tls")]
impl Transport {
    /// Lets the keys go to the kernel after the handshake, in a step of their own.
    pub fn offer_to_kernel(&mut self) {
        if let Transport::Sealed(sealed) = self {
            sealed.offer_to_kernel();
        }
    }

    /// Returns the suite of a connection whose keys may go to the kernel. `None`: they stay here.
    pub fn kernel_suite(&self) -> Option<KernelSuite> {
        match self {
            Transport::Sealed(sealed) => sealed.kernel_suite(),
            Transport::Plain | Transport::KernelTls(_) => None,
        }
    }

    /// Keeps the keys here until the end of the connection. `is_refused`: because of the kernel, and not because the connection ends.
    pub fn keep_keys(&mut self, cx: &ConnResources<'_>, is_refused: bool) {
        if let Transport::Sealed(sealed) = self {
            cx.counters.tls_kernel_refused.add(is_refused.into());
            sealed.keep_keys();
        }
    }

    /// Ends the use of the keys here, and returns them for the kernel, which must take them at once: those that seal, and those that open.
    ///
    /// # Errors
    /// rustls does not give them away. The connection must close.
    pub fn give_keys(&mut self, cx: &mut ConnResources<'_>) -> Result<[KernelKeys; 2], TransportError> {
        let Transport::Sealed(sealed) = mem::replace(self, Transport::Plain) else {
            return Err(TransportError);
        };
        let (kernel, keys) = sealed.into_kernel(cx.pool)?;
        cx.counters.tls_kernel.add(1);
        *self = Transport::KernelTls(Box::new(kernel));
        Ok(keys)
    }

    /// Handles a record of another kind than data. Returns the keys that open the next records, if they change.
    pub fn received_record(
        &mut self,
        conn: &mut Connection,
        cx: &mut ConnResources<'_>,
        kind: u8,
        bytes: &[u8],
    ) -> Option<KernelKeys> {
        match self {
            Transport::KernelTls(kernel) => kernel.received_record(conn, cx, kind, bytes),
            Transport::Plain | Transport::Sealed(_) => None,
        }
    }

    /// Handles the event that the [record of its own](Transport::own_record) was sent. Returns the keys that seal what follows, if they change.
    ///
    /// # Errors
    /// There are no such keys. The connection must close.
    pub fn sent_own(&mut self) -> Result<Option<KernelKeys>, TransportError> {
        match self {
            Transport::KernelTls(kernel) => kernel.sent_own(),
            Transport::Plain | Transport::Sealed(_) => Ok(None),
        }
    }

    /// Handles the failure of a connection in records of the kernel.
    ///
    /// # Errors
    /// The connection was closing already, and must close at once.
    #[cold]
    pub fn kernel_failed(
        &mut self,
        conn: &mut Connection,
        cx: &mut ConnResources<'_>,
        failure: KernelFailure,
    ) -> Result<(), TransportError> {
        let Transport::KernelTls(kernel) = self else { return Err(TransportError) };
        if failure == KernelFailure::NoUpdate {
            cx.counters.tls_kernel_no_update.add(1);
        }
        match kernel.fail(conn, cx, Some(failure.alert())) {
            true => Ok(()),
            false => Err(TransportError),
        }
    }

    /// Handles the event that the socket has no room for the [record of its own](Transport::own_record).
    pub fn own_waits(&mut self, now: Tick) {
        if let Transport::KernelTls(kernel) = self {
            kernel.own_waits(now);
        }
    }

    /// Returns whether what is received is dropped, in records of the kernel: also what the engine still keeps.
    pub fn drops_kernel_input(&self) -> bool {
        matches!(self, Transport::KernelTls(kernel) if kernel.drops_input())
    }
}
