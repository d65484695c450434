//! A connection in sealed records: opens the records of the peer, and keeps the record that is being sent.
//!
//! ```text
//! engine's inbox:  [ plain bytes of an opened record | its check ][ records not opened yet ]
//! plain inbox:     [ the part of a head that its records have brought ]
//! ```
//!
//! A record is opened in place, and the connection reads its plain bytes there. Only those that it cannot use yet move to the plain inbox,
//! and the plain bytes of the next record follow them.
//!
//! | file | what |
//! |---|---|
//! | `tls` | records of TLS 1.2 and 1.3, by rustls |
//! | `tls_side` | the server of clients and the client of backends: one type for both |
//! | `tls_error` | the errors of rustls, as reasons of a failure |
//! | `handshake` | a step of the handshake, which may run on another thread |

mod handshake;
mod tls;
mod tls_error;
mod tls_side;

#[cfg(feature = "sim")]
use super::scramble::{Scramble, SealedKind};
use super::{
    RECORD_OVERHEAD_MAX, RECORD_PLAIN_LEN_MAX, SealedRecord, Transport, TransportError,
    kernel_tls::{KernelKeys, KernelSuite, KernelTls},
    tls_failure::{TlsFailed, TlsFailure},
};
use crate::{
    BUF_LEN, BufRange, Close, ConnResources, Connection, Counters, Input, Persistence, Pool, Span, TlsSession,
};
pub use handshake::HandshakeStep;
use handshake::{StepEnd, StepRecords};
/// What clients of TLS get: certificates, versions and suites.
pub use rustls::ServerConfig as TlsServerConfig;
use rustls::{ClientConfig, pki_types::ServerName};
#[cfg(feature = "sim")]
use std::ops::RangeInclusive;
use std::{collections::VecDeque, mem, sync::Arc};
use tarpon_http::status::Status;
use tls::Tls;

/// The state of one connection in sealed records.
#[derive(Debug)]
pub struct Sealed {
    records: RecordLayer,
    /// Plain bytes that the connection has not used.
    inbox: Option<BufRange>,
    /// The number of bytes at the front of the engine's inbox that are opened already.
    opened_len: usize,
    /// The number of bytes behind them that end their record.
    trailer_len: usize,
    /// The number of bytes at the front of the engine's inbox that a step of the handshake has used.
    used_len: usize,
    /// Records of the transport's own that leave next: a part of the handshake, or an alert.
    own: VecDeque<BufRange>,
    /// The record that leaves. Invariant: of its plain bytes, none was reported as sent.
    record: Option<SealedRecord>,
    /// The wire bytes sent of records with bytes of the connection.
    sent_len: u64,
    /// The closing alert is sealed, or the transport has failed: nothing is sealed any more.
    is_closed: bool,
    /// The connection knows that the input has ended, by an alert or with the socket's.
    has_ended: bool,
    /// Input is dropped: it has ended, or a part of it was dropped already.
    drops_input: bool,
    /// The keys may go to the kernel.
    is_for_kernel: bool,
    /// Received bytes lie in the engine's inbox: the kernel would not see them.
    has_wire: bool,
}

/// Opens and seals records.
#[derive(Debug)]
#[cfg_attr(
    feature = "sim",
    expect(
        clippy::large_enum_variant,
        reason = "the state is boxed as a whole, and the other variant is for tests"
    )
)]
enum RecordLayer {
    Tls(Tls),
    #[cfg(feature = "sim")]
    Scrambled {
        scramble: Scramble,
        lens: RangeInclusive<usize>,
    },
}

/// What lies at the front of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opened {
    /// No complete record.
    Incomplete,
    /// Records of the transport itself, of `len` bytes. None of them may be complete: the call has queued a record of this side.
    Own { len: usize },
    /// A header, then `len` plain bytes, in place, then a trailer.
    #[cfg(feature = "sim")]
    Data { header_len: usize, len: usize, trailer_len: usize },
    /// Records of `len` bytes, with these plain bytes.
    Plain { len: usize, plain: BufRange },
    /// The alert that closes, in a record of `len` bytes.
    Close { len: usize },
}

/// The error that the wire cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordError {
    /// No buffer is free.
    NoBuffer,
    /// A record is invalid. An alert may be queued.
    Invalid,
    /// The client has sent a request without TLS.
    PlainRequest,
}

/// The content of the answer to a request without TLS.
const PLAIN_ANSWER: &str = "This port expects HTTPS: use https:// in place of http://.\n";

/// A record of the transport's own up to this length and a record of the connection share a buffer and a send.
const SHARED_LEN_MAX: usize = 1_024;
const _: () =
    assert!(SHARED_LEN_MAX + RECORD_OVERHEAD_MAX < BUF_LEN - RECORD_PLAIN_LEN_MAX + RECORD_PLAIN_LEN_MAX / 2);

impl RecordLayer {
    fn open(
        &mut self,
        pool: &mut Pool,
        wire: BufRange,
        own: &mut VecDeque<BufRange>,
    ) -> Result<Opened, RecordError> {
        match self {
            RecordLayer::Tls(tls) => tls.open(pool, wire, own),
            #[cfg(feature = "sim")]
            RecordLayer::Scrambled { scramble, .. } => {
                let (begin, end) = (wire.at as usize, (wire.at + wire.len) as usize);
                let opened = scramble
                    .open(&mut pool.buf_mut(wire.buf)[begin..end])
                    .map_err(|_| RecordError::Invalid)?;
                if scramble.has_handshake() {
                    let buf = pool.take().ok_or(RecordError::NoBuffer)?;
                    let len = scramble.seal(SealedKind::Handshake, &[], pool.buf_mut(buf));
                    own.push_back(BufRange { buf, at: 0, len: len as u32 });
                }
                Ok(opened)
            }
        }
    }

    fn is_established(&self) -> bool {
        match self {
            RecordLayer::Tls(tls) => tls.is_established(),
            #[cfg(feature = "sim")]
            RecordLayer::Scrambled { scramble, .. } => scramble.is_established(),
        }
    }

    /// Returns the maximum number of plain bytes of the next record.
    fn plain_len_max(&mut self) -> usize {
        match self {
            RecordLayer::Tls(_) => RECORD_PLAIN_LEN_MAX,
            #[cfg(feature = "sim")]
            RecordLayer::Scrambled { scramble, lens } => scramble.chance(lens),
        }
    }

    /// Writes a record of plain bytes to the front of `to`. Returns its length.
    fn seal(&mut self, plain: &[u8], to: &mut [u8]) -> Result<usize, TransportError> {
        match self {
            RecordLayer::Tls(tls) => tls.seal(plain, to),
            #[cfg(feature = "sim")]
            RecordLayer::Scrambled { scramble, .. } => Ok(scramble.seal(SealedKind::Data, plain, to)),
        }
    }

    /// Writes the closing alert to the front of `to`. Returns its length.
    fn seal_close(&mut self, to: &mut [u8]) -> Result<usize, TransportError> {
        match self {
            RecordLayer::Tls(tls) => tls.seal_close(to),
            #[cfg(feature = "sim")]
            RecordLayer::Scrambled { scramble, .. } => Ok(scramble.seal(SealedKind::Close, &[], to)),
        }
    }
}

impl Transport {
    /// Returns a transport for a connection to a backend, whose certificate must be for this name. It begins with a
    /// [step](crate::DriveStep::Handshake) of the handshake, before any input. What the connection sends waits for the end of the handshake. A
    /// handshake that fails, also because of an invalid certificate, ends the exchange with 502. Each record of the configuration must fit in a
    /// buffer of the pool, as in [`tls`](Transport::tls).
    ///
    /// # Errors
    /// The configuration is unusable: its `max_fragment_size` is out of range.
    pub fn tls_client(
        config: &Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> Result<Transport, TransportError> {
        Sealed::tls_client(config, name).map(|sealed| Transport::Sealed(Box::new(sealed)))
    }
}

impl Sealed {
    /// Returns the state of a connection whose client begins a handshake. `None`: the configuration is unusable.
    pub(super) fn tls(config: &Arc<TlsServerConfig>) -> Result<Sealed, TransportError> {
        Tls::server(config).map(|tls| Sealed::new(RecordLayer::Tls(tls)))
    }

    /// Returns the state of a connection to a server, which begins with a step of the handshake.
    fn tls_client(config: &Arc<ClientConfig>, name: ServerName<'static>) -> Result<Sealed, TransportError> {
        Tls::client(config, name).map(|tls| Sealed::new(RecordLayer::Tls(tls)))
    }

    #[cfg(feature = "sim")]
    pub(super) fn scrambled(seed: u64, lens: RangeInclusive<usize>) -> Sealed {
        assert!(*lens.start() > 0 && *lens.end() <= RECORD_PLAIN_LEN_MAX, "{lens:?}");
        Sealed::new(RecordLayer::Scrambled { scramble: Scramble::server(seed), lens })
    }

    fn new(records: RecordLayer) -> Sealed {
        Sealed {
            records,
            inbox: None,
            opened_len: 0,
            trailer_len: 0,
            used_len: 0,
            own: VecDeque::new(),
            record: None,
            sent_len: 0,
            is_closed: false,
            has_ended: false,
            drops_input: false,
            is_for_kernel: false,
            has_wire: false,
        }
    }

    pub(super) fn received(
        &mut self,
        conn: &mut Connection,
        cx: &mut ConnResources<'_>,
        wire: BufRange,
    ) -> Result<usize, TransportError> {
        // The last step of the handshake has used these.
        let mut rest = wire.skip(mem::take(&mut self.used_len).min(wire.len as usize));
        // The PROXY header comes before the first record.
        while conn.awaits_proxy_header() {
            let used = conn.received_proxy_header(cx, rest);
            rest = rest.skip(used);
            if used == 0 || rest.len == 0 {
                return Ok((wire.len - rest.len) as usize);
            }
        }
        while self.pass(conn, cx, &mut rest)? {}
        self.has_wire = rest.len > 0;
        Ok((wire.len - rest.len) as usize)
    }

    /// Passes plain bytes to the connection, or opens the next record. Returns whether it made progress.
    fn pass(
        &mut self,
        conn: &mut Connection,
        cx: &mut ConnResources<'_>,
        rest: &mut BufRange,
    ) -> Result<bool, TransportError> {
        if self.inbox.is_none() && self.opened_len == 0 {
            return self.open(conn, cx, rest);
        }
        let used = match self.inbox {
            None => {
                let used = conn.received(cx, BufRange { len: self.opened_len as u32, ..*rest });
                self.skip_opened(rest, used);
                used
            }
            Some(_) => {
                let inbox = self.fill_inbox(cx.pool, rest);
                let used = conn.received(cx, inbox);
                self.inbox = Some(inbox.skip(used));
                if used == inbox.len as usize {
                    self.release_inbox(cx.pool);
                }
                used
            }
        };
        if used > 0 {
            return Ok(true);
        }
        if conn.need().input == Input::Pause {
            return Ok(false);
        }
        // The connection waits for more than this record has.
        if self.inbox.is_none() {
            let buf = cx.pool.take().ok_or(TransportError)?;
            self.inbox = Some(BufRange { buf, at: 0, len: 0 });
            self.inbox = Some(self.fill_inbox(cx.pool, rest));
        }
        assert_eq!(self.opened_len, 0, "a connection refuses what fills a buffer and is still incomplete");
        self.open(conn, cx, rest)
    }

    /// Moves opened bytes behind those in the plain inbox, as far as they fit.
    fn fill_inbox(&mut self, pool: &mut Pool, rest: &mut BufRange) -> BufRange {
        let inbox = self.inbox.expect("the caller has seen it");
        let len = self.opened_len.min(pool.buf_len() - inbox.len as usize);
        let inbox = pool.join(inbox, BufRange { len: len as u32, ..*rest });
        self.skip_opened(rest, len);
        inbox
    }

    /// Skips opened bytes, and behind the last of them the end of their record.
    fn skip_opened(&mut self, rest: &mut BufRange, len: usize) {
        *rest = rest.skip(len);
        self.opened_len -= len;
        if self.opened_len == 0 {
            *rest = rest.skip(mem::take(&mut self.trailer_len));
        }
    }

    /// Opens the next record. Returns whether it was complete.
    fn open(
        &mut self,
        conn: &mut Connection,
        cx: &mut ConnResources<'_>,
        rest: &mut BufRange,
    ) -> Result<bool, TransportError> {
        if self.drops_input {
            if self.is_closed {
                // A connection that waits for the client's end takes no bytes, but notes that the client still sends.
                conn.received(cx, *rest);
            }
            *rest = rest.skip(rest.len as usize);
            return Ok(false);
        }
        let first_len = tls::first_len(cx.pool.bytes(*rest));
        let opened = match self.records.open(cx.pool, *rest, &mut self.own) {
            Ok(opened) => opened,
            Err(RecordError::NoBuffer) => return Err(TransportError),
            Err(error) => {
                self.fail(conn, cx, error)?;
                return Ok(true);
            }
        };
        if matches!(opened, Opened::Plain { len, .. } if len > first_len) {
            // There was another record before that of the data.
            self.note_own_record(cx.counters);
        }
        match opened {
            Opened::Incomplete => return Ok(false),
            Opened::Own { len } => {
                *rest = rest.skip(len);
                self.note_own_record(cx.counters);
            }
            #[cfg(feature = "sim")]
            Opened::Data { header_len, len, trailer_len } => {
                *rest = rest.skip(header_len);
                (self.opened_len, self.trailer_len) = (len, trailer_len);
            }
            Opened::Plain { len, plain } if plain.len == 0 => {
                *rest = rest.skip(len);
                cx.pool.release(plain.buf);
            }
            Opened::Plain { len, plain } if self.inbox.is_none() => {
                *rest = rest.skip(len);
                self.inbox = Some(plain);
            }
            Opened::Plain { len, plain } => {
                // They follow those in the inbox, and may not fit there at once.
                cx.pool.copy(plain, rest.buf, rest.at);
                cx.pool.release(plain.buf);
                (self.opened_len, self.trailer_len) = (plain.len as usize, len - plain.len as usize);
            }
            Opened::Close { len } => {
                *rest = rest.skip(len);
                self.ended_by_alert(conn, cx);
            }
        }
        Ok(true)
    }

    /// Notes a record of the client after the handshake that has no data. It may be an update of keys, whose answer rustls may keep until the next
    /// record of data: the kernel would not send it.
    fn note_own_record(&mut self, counters: &Counters) {
        if self.takes_output() && mem::take(&mut self.is_for_kernel) {
            counters.tls_kernel_refused.add(1);
        }
    }

    /// Returns the step of the handshake that is to run next, once.
    pub(super) fn take_step(&mut self) -> Option<Box<HandshakeStep>> {
        match &mut self.records {
            RecordLayer::Tls(tls) => tls.take_step(),
            #[cfg(feature = "sim")]
            RecordLayer::Scrambled { .. } => None,
        }
    }

    /// Returns whether a step of the handshake waits to be taken.
    pub(super) fn has_step(&self) -> bool {
        matches!(&self.records, RecordLayer::Tls(tls) if tls.has_step())
    }

    /// Returns whether a step of the handshake is not done.
    pub(super) fn awaits_step(&self) -> bool {
        matches!(&self.records, RecordLayer::Tls(tls) if tls.awaits_step())
    }

    /// Returns whether this is the side of a client.
    fn is_client(&self) -> bool {
        matches!(&self.records, RecordLayer::Tls(tls) if tls.is_client())
    }

    /// Handles the end of a step of the handshake.
    pub(super) fn stepped(
        &mut self,
        conn: &mut Connection,
        cx: &mut ConnResources<'_>,
        step: HandshakeStep,
    ) -> Result<(), TransportError> {
        let StepRecords { wire, used, own, plain, .. } = step.records;
        let used_len = match &mut self.records {
            RecordLayer::Tls(tls) => {
                tls.note_error(step.error);
                tls.stepped(step.conn, &wire, used, step.taken_len)
            }
            #[cfg(feature = "sim")]
            RecordLayer::Scrambled { .. } => 0,
        };
        if self.drops_input {
            // The connection ends.
            return Ok(());
        }
        self.used_len = used_len;
        for records in own.chunks(BUF_LEN) {
            self.own.push_back(new_range(cx.pool, records)?);
        }
        let has_plain = !plain.is_empty();
        if has_plain {
            self.inbox = Some(new_range(cx.pool, &plain)?);
        }
        match step.result {
            Ok(StepEnd::Closed) => self.ended_by_alert(conn, cx),
            Ok(StepEnd::NeedsInput | StepEnd::Established) => self.established(conn, cx),
            Err(error) => self.fail(conn, cx, error)?,
        }
        if has_plain {
            // The records between the handshake and these are not known.
            self.note_own_record(cx.counters);
        }
        Ok(())
    }

    /// Notes the result of the handshake, if it is complete.
    fn established(&mut self, conn: &mut Connection, cx: &mut ConnResources<'_>) {
        if let RecordLayer::Tls(tls) = &mut self.records
            && let Some(session) = tls.take_session()
        {
            if !tls.is_client() {
                count(cx.counters, session);
            }
            conn.secured(cx, session, tls.has_http2());
            if tls.is_refused() {
                self.drop_input(cx.pool);
                conn.refuse_transport(cx, &TlsFailed::new(TlsFailure::Invalid));
            }
        }
    }

    /// Handles the failure of the transport: what was queued leaves, the alert that says why with it, and the rest of the input is dropped.
    #[cold]
    fn fail(
        &mut self,
        conn: &mut Connection,
        cx: &mut ConnResources<'_>,
        error: RecordError,
    ) -> Result<(), TransportError> {
        if !self.is_client() {
            cx.counters.tls_failed.add(1);
        }
        if error == RecordError::PlainRequest {
            let buf = cx.pool.take().ok_or(TransportError)?;
            let prefix = cx.prefixes.prefix(Status::BadRequest, Persistence::Close);
            let fields = format!(
                "Content-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\r\n{PLAIN_ANSWER}",
                PLAIN_ANSWER.len()
            );
            let answer = cx.pool.append(BufRange { buf, at: 0, len: 0 }, cx.prefixes.bytes(prefix));
            self.own.push_back(cx.pool.append(answer, fields.as_bytes()));
        }
        self.is_closed = true;
        self.drop_input(cx.pool);
        let failed = match self.is_client() {
            true => self.take_error(),
            false => TlsFailed::new(TlsFailure::Invalid),
        };
        conn.refuse_transport(cx, &failed);
        Ok(())
    }

    /// Takes the error of the last record or step.
    fn take_error(&mut self) -> TlsFailed {
        let error = match &mut self.records {
            RecordLayer::Tls(tls) => tls.take_error(),
            #[cfg(feature = "sim")]
            RecordLayer::Scrambled { .. } => None,
        };
        error.map_or(TlsFailed::new(TlsFailure::Invalid), |error| TlsFailed::of(&error))
    }

    /// Handles the alert that ends the input.
    fn ended_by_alert(&mut self, conn: &mut Connection, cx: &mut ConnResources<'_>) {
        self.drop_input(cx.pool);
        if !mem::replace(&mut self.has_ended, true) {
            conn.ended(cx);
        }
    }

    /// Handles the end of the socket. Without an alert before it, anyone on the way may have made it: RFC 8446, section 6.1.
    pub(super) fn ended(&mut self, conn: &mut Connection, cx: &mut ConnResources<'_>) {
        self.drop_input(cx.pool);
        if !mem::replace(&mut self.has_ended, true) {
            let failure = match self.takes_output() {
                true => TlsFailure::NoClosingAlert,
                false => TlsFailure::ClosedWithinHandshake,
            };
            conn.cut(cx, &TlsFailed::new(failure));
        }
    }

    pub(super) fn record_len(
        &mut self,
        conn: &Connection,
        pool: &mut Pool,
    ) -> Result<Option<usize>, TransportError> {
        if self.record.is_some() {
            return Ok(None);
        }
        let (outbox, close) = (conn.outbox(), conn.need().close);
        let mut max = self.records.plain_len_max();
        match self.own.front() {
            Some(own) if self.may_share(own, outbox) => {
                max = max.min(BUF_LEN - SHARED_LEN_MAX - RECORD_OVERHEAD_MAX)
            }
            Some(_) => {
                let own = self.own.pop_front().expect("there is one");
                self.queue(SealedRecord { wire: own, plain_len: 0 });
                return Ok(None);
            }
            None => {}
        }
        if self.owes_close(close, !outbox.is_empty()) {
            self.is_closed = true;
            // What the client still sends is for nobody, and no record may fail after the alert.
            self.drop_input(pool);
            let buf = pool.take().ok_or(TransportError)?;
            let len = self.records.seal_close(pool.buf_mut(buf))?;
            self.queue(SealedRecord { wire: BufRange { buf, at: 0, len: len as u32 }, plain_len: 0 });
            return Ok(None);
        }
        Ok((!outbox.is_empty()).then(|| front_len(outbox, max as u64) as usize))
    }

    /// Returns whether a record of the transport's own leaves together with the next of the connection.
    fn may_share(&self, own: &BufRange, outbox: &[Span]) -> bool {
        !outbox.is_empty()
            && self.own.len() == 1
            && own.len as usize <= SHARED_LEN_MAX
            && self.records.is_established()
            && !self.is_closed
    }

    pub(super) fn seal(&mut self, pool: &mut Pool, plain: &[u8]) -> Result<SealedRecord, TransportError> {
        if self.is_closed {
            return Err(TransportError);
        }
        let mut wire = match self.own.pop_front() {
            Some(own) => own,
            None => BufRange { buf: pool.take().ok_or(TransportError)?, at: 0, len: 0 },
        };
        let end = (wire.at + wire.len) as usize;
        match self.records.seal(plain, &mut pool.buf_mut(wire.buf)[end..]) {
            Ok(len) => wire.len += len as u32,
            Err(error) => {
                pool.release(wire.buf);
                return Err(error);
            }
        }
        Ok(SealedRecord { wire, plain_len: plain.len() as u64 })
    }

    pub(super) fn queue(&mut self, record: SealedRecord) {
        assert!(self.record.is_none(), "one record leaves at a time");
        self.record = Some(record);
    }

    pub(super) fn queued(&self) -> Option<BufRange> {
        self.record.as_ref().map(|record| record.wire)
    }

    pub(super) fn has_more(&self, conn: &Connection) -> bool {
        // The outbox waits for the end of the handshake.
        self.takes_output() && self.record.as_ref().is_some_and(|record| record.plain_len < conn.outbox_len())
    }

    pub(super) fn sent(&mut self, conn: &mut Connection, cx: &mut ConnResources<'_>, len: u64) {
        let mut record = self.record.take().expect("only a queued record is sent");
        if record.plain_len > 0 {
            self.sent_len += len;
        }
        record.wire = record.wire.skip(len as usize);
        if record.wire.len > 0 {
            self.record = Some(record);
            return;
        }
        cx.pool.release(record.wire.buf);
        if record.plain_len > 0 {
            conn.sent(cx, record.plain_len);
        }
    }

    pub(super) fn offer_to_kernel(&mut self) {
        self.is_for_kernel = true;
    }

    pub(super) fn keep_keys(&mut self) {
        self.is_for_kernel = false;
    }

    /// Returns whether the keys may go to the kernel now: no record is there in part, in either direction.
    pub(super) fn offers_keys(&self) -> bool {
        self.is_for_kernel
            && self.takes_output()
            && self.own.is_empty()
            && self.record.is_none()
            && self.inbox.is_none()
            && self.opened_len + self.trailer_len + self.used_len == 0
            && !(self.has_wire || self.is_closed || self.has_ended || self.drops_input)
    }

    pub(super) fn kernel_suite(&self) -> Option<KernelSuite> {
        match &self.records {
            RecordLayer::Tls(tls) => tls.kernel_suite(),
            #[cfg(feature = "sim")]
            RecordLayer::Scrambled { .. } => None,
        }
    }

    /// Returns the same connection in records of the kernel, and its keys.
    pub(super) fn into_kernel(
        mut self,
        pool: &mut Pool,
    ) -> Result<(KernelTls, [KernelKeys; 2]), TransportError> {
        self.release(pool);
        match self.records {
            RecordLayer::Tls(tls) => tls.into_kernel(self.sent_len),
            #[cfg(feature = "sim")]
            RecordLayer::Scrambled { .. } => Err(TransportError),
        }
    }

    /// Returns whether plain bytes may leave.
    pub(super) fn takes_output(&self) -> bool {
        self.records.is_established()
    }

    pub(super) fn sent_len(&self) -> u64 {
        self.sent_len
    }

    pub(super) fn is_silent(&self) -> bool {
        matches!(&self.records, RecordLayer::Tls(tls) if tls.is_new())
    }

    pub(super) fn has_input(&self) -> bool {
        self.inbox.is_some()
    }

    pub(super) fn holds_buffers(&self) -> bool {
        self.inbox.is_some() || self.record.is_some() || !self.own.is_empty()
    }

    pub(super) fn has_own_output(&self, close: Close, has_output: bool) -> bool {
        match &self.record {
            Some(record) => record.plain_len == 0,
            None => !self.own.is_empty() || self.owes_close(close, has_output),
        }
    }

    /// Returns whether the transport owes the closing alert. It follows the last byte of the output; a response that was cut has none.
    fn owes_close(&self, close: Close, has_output: bool) -> bool {
        close != Close::No && !has_output && !self.is_closed && self.records.is_established()
    }

    /// Drops the plain bytes that the connection has not used. The caller drops the wire bytes, so nothing behind them can be opened.
    pub(super) fn drop_input(&mut self, pool: &mut Pool) {
        self.release_inbox(pool);
        (self.opened_len, self.trailer_len, self.used_len, self.drops_input) = (0, 0, 0, true);
    }

    fn release_inbox(&mut self, pool: &mut Pool) {
        if let Some(inbox) = self.inbox.take() {
            pool.release(inbox.buf);
        }
    }

    pub(super) fn release(&mut self, pool: &mut Pool) {
        self.release_inbox(pool);
        if let Some(record) = self.record.take() {
            pool.release(record.discard());
        }
        self.own.drain(..).for_each(|own| pool.release(own.buf));
    }
}

/// Returns how many bytes of the outbox a record takes: at most `max`, but a response prefix whole, as the worker may render it anew before
/// the record has left.
fn front_len(spans: &[Span], max: u64) -> u64 {
    let mut len = 0;
    for span in spans {
        let room = max.saturating_sub(len);
        match span {
            Span::Prefix(_) if len == 0 || span.len() <= room => len += span.len(),
            Span::Prefix(_) => break,
            _ => len += span.len().min(room),
        }
    }
    len
}

/// Returns a copy of these bytes in a buffer of its own.
fn new_range(pool: &mut Pool, bytes: &[u8]) -> Result<BufRange, TransportError> {
    let buf = pool.take().ok_or(TransportError)?;
    Ok(pool.append(BufRange { buf, at: 0, len: 0 }, bytes))
}

/// Counts a complete handshake with a client.
fn count(counters: &Counters, session: TlsSession) {
    let counter = match (session.is_tls13, session.is_resumed) {
        (true, false) => &counters.tls13_full,
        (true, true) => &counters.tls13_resumed,
        (false, false) => &counters.tls12_full,
        (false, true) => &counters.tls12_resumed,
    };
    counter.add(1);
}
