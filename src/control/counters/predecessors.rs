//! The table of a predecessor: memory that another version of the program lays out and writes.
//!
//! ```text
//! predecessor ── layout: name of a counter ─▶ place in a row ── descriptor of the table ──▶ successor
//! ```
//!
//! A name that one of the two does not know counts as 0. The servers of the predecessor count on in the table until they exit, and a read
//! finds their latest numbers: nothing has to be sent when they exit, or are killed.

use crate::sys::shared::ForeignWords;
use std::{collections::BTreeMap, fs::File, io};
use tarpon_conn::Counters;

/// The counters of a service on their way to a successor. The files of the tables travel beside it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "program", derive(serde::Serialize, serde::Deserialize), serde(default))]
pub(crate) struct CounterHandover {
    /// The sum of supervisors that have exited, by the names of the counters.
    pub(crate) retired: BTreeMap<String, u64>,
    /// The tables of the others, that of the sender last.
    pub(crate) tables: Vec<TableLayout>,
}

/// Where in a table a program finds the counters. A place is a number of 64-bit words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "program", derive(serde::Serialize, serde::Deserialize), serde(default))]
pub(crate) struct TableLayout {
    /// The place of a number that is not 0 once the supervisor has reaped its last server.
    pub(crate) final_at: u64,
    /// The place of the numbers of used rows, one for each slot.
    pub(crate) row_counts_at: u64,
    /// The place of numbers that are not 0 while the server in a slot may answer at the admin listener.
    pub(crate) answering_at: u64,
    /// The number of slots.
    pub(crate) server_count: u64,
    /// The place of the first row.
    pub(crate) rows_at: u64,
    pub(crate) rows_per_server: u64,
    /// The distance of two rows.
    pub(crate) row_len: u64,
    /// The place of each counter in a row.
    pub(crate) places: BTreeMap<String, u64>,
}

/// The table of a predecessor.
#[derive(Debug)]
pub(super) struct PredecessorTable {
    words: ForeignWords,
    pub(super) layout: TableLayout,
    /// The places in a row, in the order of [`Counters::each`]. `None`: the predecessor does not have this counter.
    places: Vec<Option<u64>>,
}

/// No version of the program has more slots.
const SERVER_COUNT_MAX: u64 = 1 << 10;

/// No version of the program has more rows in a slot.
const ROW_COUNT_MAX: u64 = 1 << 16;

impl PredecessorTable {
    pub(super) fn map(file: &File, layout: TableLayout) -> io::Result<PredecessorTable> {
        let places = Counters::default()
            .each()
            .map(|(name, _)| layout.places.get(&name.to_string()).copied())
            .collect();
        Ok(PredecessorTable { words: ForeignWords::map(file)?, layout, places })
    }

    /// Returns whether the predecessor has reaped its last server.
    pub(super) fn is_final(&self) -> bool {
        self.word(self.layout.final_at) != 0
    }

    /// Returns whether a server of the predecessor may answer at the admin listener.
    pub(super) fn is_answering(&self) -> bool {
        self.slots().any(|slot| self.word(self.layout.answering_at.wrapping_add(slot)) != 0)
    }

    /// Adds all rows to a sum. `is_over`: no process is left that could close a connection.
    pub(super) fn add_to(&self, sum: &Counters, is_over: bool) {
        let TableLayout { row_counts_at, rows_at, rows_per_server, row_len, .. } = self.layout;
        let table = Counters::default();
        for slot in self.slots() {
            let count = self.word(row_counts_at.wrapping_add(slot));
            let first = slot.wrapping_mul(rows_per_server);
            for row in 0..count.min(rows_per_server).min(ROW_COUNT_MAX) {
                let at = rows_at.wrapping_add(first.wrapping_add(row).wrapping_mul(row_len));
                for ((_, counter), place) in table.each().zip(&self.places) {
                    counter.add(place.map_or(0, |place| self.word(at.wrapping_add(place))));
                }
            }
        }
        if is_over {
            table.lose_open();
        }
        sum.add_all(&table);
    }

    fn slots(&self) -> std::ops::Range<u64> {
        0..self.layout.server_count.min(SERVER_COUNT_MAX)
    }

    /// Returns a number, or 0 for a place beyond the memory.
    fn word(&self, place: u64) -> u64 {
        self.words.get(place).unwrap_or(0)
    }
}

/// Returns the numbers of a sum by their names, without those that are 0.
pub(super) fn to_names(sum: &Counters) -> BTreeMap<String, u64> {
    let numbers = sum.each().map(|(name, counter)| (name.to_string(), counter.get()));
    numbers.filter(|(_, number)| *number > 0).collect()
}

/// Returns the sum with these numbers. A name that this program does not know is left out.
pub(super) fn from_names(numbers: &BTreeMap<String, u64>) -> Counters {
    let sum = Counters::default();
    for (name, counter) in sum.each() {
        counter.add(numbers.get(&name.to_string()).copied().unwrap_or(0));
    }
    sum
}
