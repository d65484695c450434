//! The table of upstream servers, in memory that all processes of a generation share.
//!
//! ```text
//! header:     rows, lost reports        each worker adds
//! servers:    state, weight, connects, …        the helper writes
//! upstreams:  next turn                         each worker takes one
//! rows:       opened, closed, idle, busy, …     a row for each worker, with a part for each server: only this worker writes
//! ```
//!
//! The sum over all rows gives the numbers of a server over all workers. Numbers of what is so now end with a worker: the next worker of
//! the row forgets them. All others only grow.

use crate::sys::shared::SharedArray;
use std::{
    io,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};
use tarpon_conn::{ServerEvent, ServerOutcome};

/// The numbers of the upstream servers of a generation.
#[derive(Debug)]
pub(crate) struct UpstreamTable {
    words: SharedArray<AtomicU64>,
    server_count: usize,
    upstream_count: usize,
}

/// Whether a server gets requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ServerAvailability {
    /// It does.
    #[default]
    Usable,
    /// Requests have failed: it gets some only if no other server can take them.
    Suspended,
    /// Checks have failed: it gets none.
    Down,
    /// It is to be stopped: it gets none.
    Draining,
}

/// What the helper counts for a server.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ConnectCount {
    /// Connections that it has opened.
    Connected,
    /// Connections that it could not open.
    Failed,
}

/// The numbers of a server over all workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServerCounts {
    /// Open connections.
    pub(crate) open: u64,
    /// Connections that wait for an exchange.
    pub(crate) idle: u64,
    /// Exchanges in progress.
    pub(crate) busy: u64,
    /// Exchanges that have begun.
    pub(crate) requests: u64,
    /// Exchanges in which the connection has closed or the response was invalid.
    pub(crate) failed: u64,
    /// Exchanges in which the server was silent for too long.
    pub(crate) timed_out: u64,
    /// Exchanges that were repeated, as their connection had closed.
    pub(crate) retried: u64,
    /// Responses with a status of 500 or more.
    pub(crate) server_errors: u64,
    /// Connections that were opened.
    pub(crate) connects: u64,
    /// Connections that could not be opened.
    pub(crate) connect_failures: u64,
}

/// Words of a server that the helper writes.
#[derive(Clone, Copy)]
enum ServerWord {
    State,
    /// In per mille of the configured weight.
    Weight,
    Connects,
    ConnectFailures,
    /// Requests that wait as the server has all connections that it may have.
    Waiting,
}

/// Words of a row for a server. The first are read for each choice of a server, and lie in one cache line.
#[derive(Clone, Copy)]
enum RowWord {
    /// Connections opened and closed since the table was made: the helper compares the first with what it has sent.
    Opened,
    Closed,
    Idle,
    Busy,
    Requests,
    Failed = 8,
    TimedOut,
    Retried,
    ServerErrors,
}

/// A cache line, so that the processors of two workers do not contend for one.
const LINE_LEN: usize = 8;
const SERVER_LEN: usize = LINE_LEN;
const UPSTREAM_LEN: usize = LINE_LEN;
const ROW_LEN: usize = 2 * LINE_LEN;

/// The words that precede those of the servers: how many rows were used, and how many reports were lost.
const HEADER_LEN: usize = LINE_LEN;

/// The place of the number of lost reports.
const LOST_REPORTS: usize = 1;

/// The largest number of workers of a generation.
const ROW_COUNT_MAX: usize = 1024;

/// The weight of a server outside of its slow start, in per mille.
pub(crate) const FULL_WEIGHT: u64 = 1_000;

impl UpstreamTable {
    /// Returns a table in which all servers are usable. Unused rows take no memory.
    ///
    /// # Errors
    /// The process is out of memory.
    pub(crate) fn new(upstream_count: usize, server_count: usize) -> io::Result<UpstreamTable> {
        let of_servers = server_count * (SERVER_LEN + ROW_COUNT_MAX * ROW_LEN);
        let words = SharedArray::zeros(HEADER_LEN + upstream_count * UPSTREAM_LEN + of_servers)?;
        let table = UpstreamTable { words, server_count, upstream_count };
        (0..server_count).for_each(|server| table.set_weight(server, FULL_WEIGHT));
        Ok(table)
    }

    /// Returns the number of servers.
    pub(crate) fn server_count(&self) -> usize {
        self.server_count
    }

    /// Counts a report that a worker could not send, as the helper has not received those before.
    pub(crate) fn add_lost_report(&self) {
        self.words[LOST_REPORTS].fetch_add(1, Relaxed);
    }

    /// Returns how many reports were lost.
    pub(crate) fn lost_reports(&self) -> u64 {
        self.words[LOST_REPORTS].load(Relaxed)
    }

    /// Returns whether a server gets requests.
    pub(crate) fn state(&self, server: usize) -> ServerAvailability {
        match self.server(server, ServerWord::State).load(Relaxed) {
            0 => ServerAvailability::Usable,
            1 => ServerAvailability::Suspended,
            2 => ServerAvailability::Down,
            _ => ServerAvailability::Draining,
        }
    }

    /// Sets whether a server gets requests.
    pub(crate) fn set_state(&self, server: usize, state: ServerAvailability) {
        self.server(server, ServerWord::State).store(state as u64, Relaxed);
    }

    /// Returns the weight of a server, in per mille of the configured one.
    pub(crate) fn weight(&self, server: usize) -> u64 {
        self.server(server, ServerWord::Weight).load(Relaxed).clamp(1, FULL_WEIGHT)
    }

    /// Sets the weight of a server.
    pub(crate) fn set_weight(&self, server: usize, per_mille: u64) {
        self.server(server, ServerWord::Weight).store(per_mille, Relaxed);
    }

    /// Counts a connection that the helper has opened, or could not open.
    pub(crate) fn add(&self, server: usize, count: ConnectCount) {
        let word = match count {
            ConnectCount::Connected => ServerWord::Connects,
            ConnectCount::Failed => ServerWord::ConnectFailures,
        };
        self.server(server, word).fetch_add(1, Relaxed);
    }

    /// Returns how many requests wait until a connection to a server closes.
    pub(crate) fn waiting(&self, server: usize) -> u64 {
        self.server(server, ServerWord::Waiting).load(Relaxed)
    }

    /// Sets how many requests wait until a connection to a server closes.
    pub(crate) fn set_waiting(&self, server: usize, count: u64) {
        self.server(server, ServerWord::Waiting).store(count, Relaxed);
    }

    /// Returns the next turn of an upstream: each worker begins at another one.
    pub(crate) fn next_turn(&self, upstream: usize) -> u64 {
        self.words[HEADER_LEN + upstream * UPSTREAM_LEN].fetch_add(1, Relaxed)
    }

    /// Forgets what is so now in a row: its worker has ended, or is about to start.
    pub(crate) fn reset_row(&self, row: usize) {
        if row >= ROW_COUNT_MAX {
            return;
        }
        self.words[0].fetch_max(row as u64 + 1, Relaxed);
        for server in 0..self.server_count {
            let word = |word| self.row(row, server, word);
            word(RowWord::Closed).store(word(RowWord::Opened).load(Relaxed), Relaxed);
            word(RowWord::Idle).store(0, Relaxed);
            word(RowWord::Busy).store(0, Relaxed);
        }
    }

    /// Counts an event in the row of a worker.
    pub(crate) fn note(&self, row: usize, server: usize, event: ServerEvent) {
        if row >= ROW_COUNT_MAX || server >= self.server_count {
            return;
        }
        let add = |word| change(self.row(row, server, word), |value| value.wrapping_add(1));
        let subtract = |word| change(self.row(row, server, word), |value| value.saturating_sub(1));
        match event {
            ServerEvent::Opened => add(RowWord::Opened),
            ServerEvent::Closed => add(RowWord::Closed),
            ServerEvent::IdleBegan => add(RowWord::Idle),
            ServerEvent::IdleEnded => subtract(RowWord::Idle),
            ServerEvent::ExchangeBegan => {
                add(RowWord::Busy);
                add(RowWord::Requests);
            }
            ServerEvent::ExchangeEnded(end) => {
                subtract(RowWord::Busy);
                match end {
                    ServerOutcome::Responded(status) if status >= 500 => add(RowWord::ServerErrors),
                    ServerOutcome::Responded(_) | ServerOutcome::Abandoned => {}
                    ServerOutcome::Failed => add(RowWord::Failed),
                    ServerOutcome::TimedOut => add(RowWord::TimedOut),
                }
            }
            ServerEvent::Retried => add(RowWord::Retried),
        }
    }

    /// Returns how many connections to a server the worker of a row has received since the table was made.
    pub(crate) fn opened(&self, row: usize, server: usize) -> u64 {
        match row < ROW_COUNT_MAX && server < self.server_count {
            true => self.row(row, server, RowWord::Opened).load(Relaxed),
            false => 0,
        }
    }

    /// Returns how many connections to a server all workers have open.
    pub(crate) fn open(&self, server: usize) -> u64 {
        let closed = self.sum(server, RowWord::Closed);
        self.sum(server, RowWord::Opened).saturating_sub(closed)
    }

    /// Returns how many connections to a server wait for an exchange.
    pub(crate) fn idle(&self, server: usize) -> u64 {
        self.sum(server, RowWord::Idle)
    }

    /// Returns how many exchanges with a server are in progress.
    pub(crate) fn busy(&self, server: usize) -> u64 {
        self.sum(server, RowWord::Busy)
    }

    /// Returns how many exchanges with a server have failed: its passive failures besides those of connecting.
    pub(crate) fn failures(&self, server: usize) -> u64 {
        self.sum(server, RowWord::Failed).wrapping_add(self.sum(server, RowWord::TimedOut))
    }

    /// Returns all numbers of a server.
    pub(crate) fn counts(&self, server: usize) -> ServerCounts {
        ServerCounts {
            open: self.open(server),
            idle: self.idle(server),
            busy: self.busy(server),
            requests: self.sum(server, RowWord::Requests),
            failed: self.sum(server, RowWord::Failed),
            timed_out: self.sum(server, RowWord::TimedOut),
            retried: self.sum(server, RowWord::Retried),
            server_errors: self.sum(server, RowWord::ServerErrors),
            connects: self.server(server, ServerWord::Connects).load(Relaxed),
            connect_failures: self.server(server, ServerWord::ConnectFailures).load(Relaxed),
        }
    }

    fn sum(&self, server: usize, word: RowWord) -> u64 {
        // Every worker may write to the table: the number is no index without a check.
        let used = usize::try_from(self.words[0].load(Relaxed)).unwrap_or(usize::MAX).min(ROW_COUNT_MAX);
        (0..used).fold(0, |sum: u64, row| sum.wrapping_add(self.row(row, server, word).load(Relaxed)))
    }

    fn server(&self, server: usize, word: ServerWord) -> &AtomicU64 {
        let servers = HEADER_LEN + self.upstream_count * UPSTREAM_LEN;
        &self.words[servers + server * SERVER_LEN + word as usize]
    }

    fn row(&self, row: usize, server: usize, word: RowWord) -> &AtomicU64 {
        let rows = HEADER_LEN + self.upstream_count * UPSTREAM_LEN + self.server_count * SERVER_LEN;
        &self.words[rows + (row * self.server_count + server) * ROW_LEN + word as usize]
    }
}

/// Changes a word that no other thread writes to: a load and a store cost less than one atomic operation.
fn change(word: &AtomicU64, to: impl FnOnce(u64) -> u64) {
    word.store(to(word.load(Relaxed)), Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use ServerEvent::{Closed, ExchangeBegan, ExchangeEnded, IdleBegan, IdleEnded, Opened, Retried};

    #[test]
    fn events_are_counted_over_all_rows_and_end_with_their_worker() {
        let table = UpstreamTable::new(1, 2).unwrap();
        table.reset_row(0);
        table.reset_row(7);
        let first = [
            Opened,
            ExchangeBegan,
            Opened,
            ExchangeBegan,
            Retried,
            ExchangeEnded(ServerOutcome::Failed),
            Closed,
        ];
        first.into_iter().for_each(|event| table.note(0, 1, event));
        let second = [
            Opened,
            ExchangeBegan,
            ExchangeEnded(ServerOutcome::Responded(200)),
            IdleBegan,
            IdleEnded,
            ExchangeBegan,
            ExchangeEnded(ServerOutcome::Responded(503)),
            IdleBegan,
        ];
        second.into_iter().for_each(|event| table.note(7, 1, event));
        table.add(1, ConnectCount::Connected);
        table.add(1, ConnectCount::Failed);
        let all = ServerCounts {
            open: 2,
            idle: 1,
            busy: 1,
            requests: 4,
            failed: 1,
            timed_out: 0,
            retried: 1,
            server_errors: 1,
            connects: 1,
            connect_failures: 1,
        };
        assert_eq!(table.counts(1), all);
        assert_eq!(table.counts(0), ServerCounts::default());
        assert_eq!((table.failures(1), table.opened(7, 1)), (1, 1));
        table.reset_row(0);
        assert_eq!(table.counts(1), ServerCounts { open: 1, busy: 0, ..all }, "what has happened stays");
        table.reset_row(7);
        assert_eq!(table.counts(1), ServerCounts { open: 0, idle: 0, busy: 0, ..all });
    }

    #[test]
    fn states_and_weights_are_those_that_were_set() {
        let table = UpstreamTable::new(2, 3).unwrap();
        for state in [
            ServerAvailability::Suspended,
            ServerAvailability::Down,
            ServerAvailability::Draining,
            ServerAvailability::Usable,
        ] {
            table.set_state(1, state);
            assert_eq!(
                [0, 1, 2].map(|server| table.state(server)),
                [ServerAvailability::Usable, state, ServerAvailability::Usable]
            );
        }
        assert_eq!(table.weight(2), FULL_WEIGHT);
        for (set, want) in [(100, 100), (0, 1), (5_000, FULL_WEIGHT)] {
            table.set_weight(2, set);
            assert_eq!(table.weight(2), want);
        }
        assert_eq!([0, 0, 1, 0].map(|upstream| table.next_turn(upstream)), [0, 1, 0, 2]);
    }

    #[test]
    fn rows_and_servers_beyond_the_table_are_ignored() {
        let table = UpstreamTable::new(1, 1).unwrap();
        table.note(0, 1, Opened);
        table.note(ROW_COUNT_MAX, 0, Opened);
        table.reset_row(ROW_COUNT_MAX);
        assert_eq!(table.opened(0, 1) + table.opened(ROW_COUNT_MAX, 0) + table.open(0), 0);
    }
}
