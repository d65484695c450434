//! The counters of a service: they go on when a server process is replaced, and when the program is.
//!
//! ```text
//! supervisor ── maps before the first fork ─▶ table: a slot for each server, in it a row for each worker
//!    │                                          ▲ writes its rows        ▲ reads all rows
//!    ├─ forks ────────────────────────────▶ server ─────────────────▶ admin listener: sum of the service
//!    └─ descriptor, layout by names ─▶ successor: maps the table, its servers add it to their sum
//! ```
//!
//! A row is never reset: the next server in a slot counts on from the numbers of the former one, and the sum of all rows only grows. So
//! no number moves from one place to another, and a killed server loses none.
//!
//! | file | what |
//! |---|---|
//! | `table` | the table of a supervisor |
//! | `predecessors` | the tables of the supervisors before it, in whatever layout |
//! | `service` | what the supervisor does: it assigns slots, and hands the tables over |

mod predecessors;
#[cfg(feature = "program")]
mod service;
mod table;
#[cfg(all(test, feature = "program"))]
mod tests;

#[cfg(feature = "program")]
pub(crate) use {predecessors::CounterHandover, service::ServiceCounters};

use crate::sys::shared::{SharedArray, SharedRow};
use predecessors::PredecessorTable;
use std::{
    io,
    ops::{Deref, Range},
    sync::Arc,
};
use table::{CounterTable, ROWS_PER_SERVER};
use tarpon_conn::Counters;

/// The counters of a server: a row for each worker, which begins with the numbers of the former servers in the same slot.
#[derive(Clone, Debug)]
pub(crate) struct ServerCounters {
    rows: Arc<SharedArray<Counters>>,
    own: Range<usize>,
    /// The history of the service, and the slot of the server. `None`: there is no supervisor.
    service: Option<(Arc<CounterHistory>, usize)>,
}

impl ServerCounters {
    /// Returns counters for a server without a supervisor.
    pub(crate) fn alone(row_count: usize) -> io::Result<ServerCounters> {
        Ok(ServerCounters { rows: Arc::new(SharedArray::new(row_count)?), own: 0..row_count, service: None })
    }

    /// Takes this many rows of the slot.
    ///
    /// # Errors
    /// A slot has fewer.
    pub(crate) fn with_rows(mut self, row_count: usize) -> io::Result<ServerCounters> {
        let Some((history, slot)) = &self.service else { return ServerCounters::alone(row_count) };
        if row_count > ROWS_PER_SERVER {
            return Err(io::Error::other(format!("more than {} workers", ROWS_PER_SERVER - 1)));
        }
        history.table.use_rows(*slot, row_count);
        self.own.end = self.own.start + row_count;
        Ok(self)
    }

    /// Returns the places of all rows that the server may have.
    #[cfg(feature = "program")]
    pub(crate) fn places(&self) -> Range<usize> {
        self.own.start..self.own.start + ROWS_PER_SERVER
    }

    /// Returns the row of a worker.
    pub(crate) fn row(&self, number: usize) -> SharedRow<Counters> {
        self.rows.row(self.place(number))
    }

    /// Returns the place of a worker's row among the rows of all servers, for [`SharedRow::select`].
    pub(crate) fn place(&self, number: usize) -> usize {
        assert!(number < self.own.len(), "each worker has a row");
        self.own.start + number
    }

    /// Returns the sum of the service.
    pub(crate) fn totals(&self) -> Counters {
        match &self.service {
            Some((history, _)) => history.totals(),
            None => {
                let sum = Counters::default();
                self.iter().for_each(|row| sum.add_all(row));
                sum
            }
        }
    }

    /// Returns when the service started, in seconds since 1970. `None`: there is no supervisor.
    pub(crate) fn start_unix_s(&self) -> Option<u64> {
        self.service.as_ref().map(|(history, _)| history.start_unix_s)
    }

    /// Notes that the server answers no more at the admin listener.
    pub(crate) fn set_silent(&self) {
        if let Some((history, slot)) = &self.service {
            history.table.set_answering(*slot, false);
        }
    }
}

/// The rows of this server.
impl Deref for ServerCounters {
    type Target = [Counters];

    fn deref(&self) -> &[Counters] {
        &self.rows[self.own.clone()]
    }
}

/// All counters of a service.
#[derive(Debug)]
struct CounterHistory {
    start_unix_s: u64,
    /// The sum of predecessors that had exited when this program started. It never changes.
    retired: Counters,
    /// The last is the supervisor that has started this program.
    predecessors: Vec<PredecessorTable>,
    table: CounterTable,
}

impl CounterHistory {
    /// Returns the sum of all rows. It never decreases for a client that asks one server of the service after another, whichever answers.
    fn totals(&self) -> Counters {
        let sum = Counters::default();
        sum.add_all(&self.retired);
        let is_silent = (0..self.predecessors.len()).all(|number| !self.is_answering(number));
        for (number, predecessor) in self.predecessors.iter().enumerate() {
            predecessor.add_to(&sum, self.is_over(number));
        }
        // While a server of the predecessor answers at the same admin listener, a sum with numbers that it cannot read would seem to fall
        // when it answers again.
        if is_silent {
            self.table.set_counted();
        }
        if self.table.is_counted() {
            self.table.used_rows().for_each(|row| sum.add_all(row));
        }
        sum
    }

    fn is_answering(&self, number: usize) -> bool {
        !self.is_over(number) && self.predecessors[number].is_answering()
    }

    /// Returns whether all processes of a predecessor have exited.
    fn is_over(&self, number: usize) -> bool {
        let is_last = number + 1 == self.predecessors.len();
        self.predecessors[number].is_final() || is_last && self.table.is_predecessor_gone()
    }
}
