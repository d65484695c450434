//! A connection in sealed records: opens the records of the client, and keeps the record that is being sent.
//!
//! ```text
//! engine's inbox:  [ plain bytes of an opened record | its check ][ records not opened yet ]
//! plain inbox:     [ the part of a head that its records have brought ]
//! ```
//!
//! A record is opened in place, and the connection reads its plain bytes there. Only those that it cannot use yet move to the plain inbox,
//! and the plain bytes of the next record follow them.

use super::{
    RECORD_PLAIN_LEN_MAX, SealedRecord, TransportError,
    scramble::{Opened, Scramble, SealedKind},
};
use crate::{BUF_LEN, BufRange, Close, ConnResources, Connection, Input, Pool, Span};
use std::{mem, ops::RangeInclusive};

/// The state of one connection in sealed records.
#[derive(Debug)]
pub struct Sealed {
    scramble: Scramble,
    record_lens: RangeInclusive<usize>,
    /// Plain bytes that the connection has not used.
    inbox: Option<BufRange>,
    /// The number of bytes at the front of the engine's inbox that are opened already.
    opened_len: usize,
    /// The number of bytes behind them that end their record.
    trailer_len: usize,
    /// The record that leaves. Invariant: of its plain bytes, none was reported as sent.
    record: Option<SealedRecord>,
    /// The wire bytes sent of records with bytes of the connection.
    sent_len: u64,
    /// The closing alert is sealed: nothing follows it.
    is_closed: bool,
    /// The connection knows that the input has ended, by an alert or with the socket's.
    has_ended: bool,
    /// Input is dropped: it has ended, or a part of it was dropped already.
    drops_input: bool,
}

impl Sealed {
    pub(super) fn new(seed: u64, record_lens: RangeInclusive<usize>) -> Sealed {
        assert!(*record_lens.start() > 0 && *record_lens.end() <= RECORD_PLAIN_LEN_MAX, "{record_lens:?}");
        Sealed {
            scramble: Scramble::server(seed),
            record_lens,
            inbox: None,
            opened_len: 0,
            trailer_len: 0,
            record: None,
            sent_len: 0,
            is_closed: false,
            has_ended: false,
            drops_input: false,
        }
    }

    pub(super) fn received(
        &mut self,
        conn: &mut Connection,
        cx: &mut ConnResources<'_>,
        wire: BufRange,
    ) -> Result<usize, TransportError> {
        let mut rest = wire;
        while self.pass(conn, cx, &mut rest)? {}
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
        let len = self.opened_len.min(BUF_LEN - inbox.len as usize);
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
            *rest = rest.skip(rest.len as usize);
            return Ok(false);
        }
        let (begin, end) = (rest.at as usize, (rest.at + rest.len) as usize);
        let wire = &mut cx.pool.buf_mut(rest.buf)[begin..end];
        match self.scramble.open(wire).map_err(|_| TransportError)? {
            Opened::Incomplete => return Ok(false),
            Opened::Handshake { len } => *rest = rest.skip(len),
            Opened::Data { header_len, len, trailer_len } => {
                *rest = rest.skip(header_len);
                (self.opened_len, self.trailer_len) = (len, trailer_len);
            }
            Opened::Close { len } => {
                *rest = rest.skip(len);
                self.ended(conn, cx);
            }
        }
        Ok(true)
    }

    pub(super) fn ended(&mut self, conn: &mut Connection, cx: &mut ConnResources<'_>) {
        self.drop_input(cx.pool);
        // The end of the socket follows the alert of the client.
        if !mem::replace(&mut self.has_ended, true) {
            conn.ended(cx);
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
        let has_output = !conn.outbox().is_empty();
        let Some(kind) = self.own_kind(conn.need().close, has_output) else {
            let max = self.scramble.chance(&self.record_lens) as u64;
            return Ok(has_output.then(|| front_len(conn.outbox(), max) as usize));
        };
        self.is_closed |= kind == SealedKind::Close;
        let record = self.seal_as(kind, pool, &[])?;
        self.queue(record);
        Ok(None)
    }

    pub(super) fn seal(&mut self, pool: &mut Pool, plain: &[u8]) -> Result<SealedRecord, TransportError> {
        self.seal_as(SealedKind::Data, pool, plain)
    }

    fn seal_as(
        &mut self,
        kind: SealedKind,
        pool: &mut Pool,
        plain: &[u8],
    ) -> Result<SealedRecord, TransportError> {
        let buf = pool.take().ok_or(TransportError)?;
        let len = self.scramble.seal(kind, plain, pool.buf_mut(buf));
        Ok(SealedRecord { wire: BufRange { buf, at: 0, len: len as u32 }, plain_len: plain.len() as u64 })
    }

    pub(super) fn queue(&mut self, record: SealedRecord) {
        assert!(self.record.is_none(), "one record leaves at a time");
        self.record = Some(record);
    }

    pub(super) fn queued(&self) -> Option<BufRange> {
        self.record.as_ref().map(|record| record.wire)
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

    pub(super) fn sent_len(&self) -> u64 {
        self.sent_len
    }

    pub(super) fn has_input(&self) -> bool {
        self.inbox.is_some()
    }

    pub(super) fn has_own_output(&self, close: Close, has_output: bool) -> bool {
        match &self.record {
            Some(record) => record.plain_len == 0,
            None => self.own_kind(close, has_output).is_some(),
        }
    }

    /// Returns which record of its own the transport owes. The alert follows the last byte of the output; a response that was cut has none.
    fn own_kind(&self, close: Close, has_output: bool) -> Option<SealedKind> {
        match close {
            Close::No => self.scramble.has_handshake().then_some(SealedKind::Handshake),
            Close::Write | Close::Both => {
                let is_owed = !has_output && !self.is_closed && self.scramble.is_established();
                is_owed.then_some(SealedKind::Close)
            }
        }
    }

    /// Drops the plain bytes that the connection has not used. The caller drops the wire bytes, so nothing behind them can be opened.
    pub(super) fn drop_input(&mut self, pool: &mut Pool) {
        self.release_inbox(pool);
        (self.opened_len, self.trailer_len, self.drops_input) = (0, 0, true);
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
