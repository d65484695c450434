//! A step of a handshake: what this side does with the records that the peer has sent so far. A signature takes longer than hundreds of
//! requests, so the step owns all that it needs, and may run on another thread. The first step of a client has no records yet.
//!
//! ```text
//! Transport ── HandshakeStep ─▶ run, anywhere ─▶ stepped: its records leave, the used ones are dropped
//! ```

use super::{
    RecordError,
    tls::{encode_last_records, first_len, mark_oversized},
    tls_side::{SideRecords, TlsSide},
};
use crate::BUF_LEN;
use rustls::{
    Error,
    unbuffered::{ConnectionState, UnbufferedConnectionCommon, UnbufferedStatus},
};
use std::{fmt, mem};

/// A step of a handshake.
pub struct HandshakeStep {
    pub(super) conn: TlsSide,
    pub(super) is_first: bool,
    pub(super) records: StepRecords,
    /// How many bytes of the peer's records, at the front, the engine no longer has. It keeps the others until the step is done.
    pub(super) taken_len: usize,
    pub(super) result: Result<StepEnd, RecordError>,
    /// The error of rustls, if that is why the step has failed.
    pub(super) error: Option<Error>,
}

/// The records of a step.
pub(super) struct StepRecords {
    /// Those of the peer.
    pub(super) wire: Vec<u8>,
    /// How many of their bytes are used.
    pub(super) used: usize,
    /// Where the last record ends that rustls may open. Not before one that it has seen: rustls remembers places.
    pub(super) end: usize,
    /// Those that this side sends.
    pub(super) own: Vec<u8>,
    /// The plain bytes of the first record after the handshake.
    pub(super) plain: Vec<u8>,
}

/// The state of a connection after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepEnd {
    /// The handshake goes on with the next record of the peer.
    NeedsInput,
    /// The handshake is complete, or the step has not run.
    Established,
    /// The peer has announced that it sends no more.
    Closed,
}

impl HandshakeStep {
    /// `held`: records of an earlier step, which come first. `seen_len`: how many bytes of the complete records the earlier step had, with these.
    /// `taken_len`: how many bytes of the wire the engine drops now.
    pub(super) fn new(
        conn: TlsSide,
        held: Vec<u8>,
        wire: &[u8],
        seen_len: usize,
        taken_len: usize,
        is_first: bool,
    ) -> HandshakeStep {
        let taken_len = held.len() + taken_len;
        let mut wire = [&held, wire].concat();
        let mut rest = &mut wire[..];
        while let Some(len) = mark_oversized(rest)
            && let Some((_, behind)) = mem::take(&mut rest).split_at_mut_checked(len)
        {
            rest = behind;
        }
        let (own, plain) = (Vec::new(), Vec::new());
        HandshakeStep {
            conn,
            is_first,
            records: StepRecords { end: seen_len.min(wire.len()), wire, used: 0, own, plain },
            taken_len,
            result: Ok(StepEnd::NeedsInput),
            error: None,
        }
    }

    /// Returns whether this is the first step of a connection with a client.
    #[must_use]
    pub fn is_first(&self) -> bool {
        self.is_first
    }

    /// Ends the connection in place of a step that has panicked.
    pub fn fail(&mut self) {
        self.records.own.clear();
        self.result = Err(RecordError::Invalid);
    }

    /// Does the step.
    pub fn run(&mut self) {
        let result = match &mut self.conn {
            TlsSide::Server(conn) => self.records.run(conn, &mut self.error),
            TlsSide::Client(conn) => self.records.run(conn, &mut self.error),
        };
        self.result = result;
    }
}

impl StepRecords {
    /// Lets rustls advance until the end of the step. `cause`: gets the error of rustls.
    fn run<S: SideRecords>(
        &mut self,
        conn: &mut UnbufferedConnectionCommon<S>,
        cause: &mut Option<Error>,
    ) -> Result<StepEnd, RecordError> {
        loop {
            if let Some(end) = self.advance(conn, cause)? {
                return Ok(end);
            }
        }
    }

    /// Lets rustls advance by one state. Returns the end of the step, if this is it.
    fn advance<S: SideRecords>(
        &mut self,
        conn: &mut UnbufferedConnectionCommon<S>,
        cause: &mut Option<Error>,
    ) -> Result<Option<StepEnd>, RecordError> {
        // The step leaves all bytes that follow the handshake. A record at a time, or rustls would go on to them.
        let end = if conn.is_handshaking() { self.end } else { self.used };
        let UnbufferedStatus { discard, state } = S::process(conn, &mut self.wire[self.used..end]);
        self.used += discard;
        let mut room = [0; BUF_LEN];
        match state {
            Ok(ConnectionState::EncodeTlsData(mut data)) => {
                let len = data.encode(&mut room).map_err(|_| RecordError::Invalid)?;
                self.own.extend_from_slice(&room[..len]);
                Ok(None)
            }
            Ok(ConnectionState::TransmitTlsData(data)) => {
                data.done();
                Ok(None)
            }
            Ok(ConnectionState::WriteTraffic(_) | ConnectionState::BlockedHandshake) => {
                match conn.is_handshaking() {
                    false => Ok(Some(StepEnd::Established)),
                    true if self.end < self.wire.len() => {
                        self.end += first_len(&self.wire[self.end..]).min(self.wire.len() - self.end);
                        Ok(None)
                    }
                    true if discard == 0 || self.used == end => Ok(Some(StepEnd::NeedsInput)),
                    true => Ok(None),
                }
            }
            Ok(ConnectionState::ReadTraffic(mut traffic)) => match traffic.next_record() {
                Some(Ok(record)) => {
                    self.plain.extend_from_slice(record.payload);
                    Ok(Some(StepEnd::Established))
                }
                _ => Err(RecordError::Invalid),
            },
            Ok(ConnectionState::PeerClosed) => Ok(Some(StepEnd::Closed)),
            Ok(_) => Err(RecordError::Invalid),
            Err(error) => {
                let unused = &mut self.wire[self.used..end];
                let len = encode_last_records(conn, &error, unused, &mut room).unwrap_or(0);
                self.own.extend_from_slice(&room[..len]);
                *cause = Some(error);
                Err(RecordError::Invalid)
            }
        }
    }
}

impl fmt::Debug for HandshakeStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The connection has the keys.
        f.debug_struct("HandshakeStep").field("result", &self.result).finish_non_exhaustive()
    }
}
