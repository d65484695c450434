//! The table of a supervisor: the rows that its servers count in.
//!
//! ```text
//! header │ slot 0: row, row, … │ slot 1: row, row, … │ …      one mapping, before the first fork
//! ```
//!
//! Every server may write to it. So the supervisor takes no number of it for an index or a length without a check.

use super::predecessors::TableLayout;
use crate::sys::shared::{SharedArray, shared_file};
use std::{
    fs::File,
    io, ptr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use tarpon_conn::{Counter, Counters};

/// The servers that a supervisor may have at a time: the current one, the next, those that drain, and some that were killed a moment ago.
pub(super) const SERVER_COUNT_MAX: usize = 16;

/// The largest number of workers, and the master of a pool.
pub(super) const ROWS_PER_SERVER: usize = 1024 + 1;

/// The rows begin on a page, whatever its size.
const HEADER_LEN: u64 = 64 << 10;

/// The supervisor has reaped its last server, and exits.
const FINAL_AT: usize = 0;
/// The rows of this table belong to the sum.
const COUNTED_AT: usize = 1;
/// The predecessor has exited.
const PREDECESSOR_GONE_AT: usize = 2;
/// For each slot: how many rows are in use.
const ROW_COUNTS_AT: usize = 3;
/// For each slot: whether its server may answer at the admin listener.
const ANSWERING_AT: usize = ROW_COUNTS_AT + SERVER_COUNT_MAX;
const HEADER_WORD_COUNT: usize = ANSWERING_AT + SERVER_COUNT_MAX;

/// The counters of all servers of a supervisor. The memory exists until the last process that has mapped it exits.
#[derive(Debug)]
pub(super) struct CounterTable {
    header: SharedArray<AtomicU64>,
    pub(super) rows: Arc<SharedArray<Counters>>,
}

impl CounterTable {
    /// Returns an empty table, and its file. Unused rows take no memory.
    pub(super) fn new() -> io::Result<(CounterTable, File)> {
        let (file, row_count) = (shared_file()?, SERVER_COUNT_MAX * ROWS_PER_SERVER);
        file.set_len(HEADER_LEN + (row_count * size_of::<Counters>()) as u64)?;
        let header = SharedArray::map(&file, 0, HEADER_WORD_COUNT)?;
        let rows = Arc::new(SharedArray::map(&file, HEADER_LEN, row_count)?);
        Ok((CounterTable { header, rows }, file))
    }

    /// Describes the table for another version of the program.
    pub(super) fn layout() -> TableLayout {
        let row = Counters::default();
        let word_len = size_of::<AtomicU64>();
        let place =
            |counter: &Counter| (ptr::from_ref(counter).addr() - ptr::from_ref(&row).addr()) / word_len;
        let places = row.each().map(|(name, counter)| (name.to_string(), place(counter) as u64));
        TableLayout {
            final_at: FINAL_AT as u64,
            row_counts_at: ROW_COUNTS_AT as u64,
            answering_at: ANSWERING_AT as u64,
            server_count: SERVER_COUNT_MAX as u64,
            rows_at: HEADER_LEN / word_len as u64,
            rows_per_server: ROWS_PER_SERVER as u64,
            row_len: (size_of::<Counters>() / word_len) as u64,
            places: places.collect(),
        }
    }

    /// Counts this many rows of a slot from now on, or more if a former server used more.
    pub(super) fn use_rows(&self, slot: usize, row_count: usize) {
        self.header[ROW_COUNTS_AT + slot].fetch_max(row_count as u64, Ordering::Relaxed);
    }

    /// Returns the rows of a slot that are or were in use.
    pub(super) fn rows_of(&self, slot: usize) -> &[Counters] {
        let count = self.header[ROW_COUNTS_AT + slot].load(Ordering::Relaxed);
        let count = usize::try_from(count).unwrap_or(usize::MAX).min(ROWS_PER_SERVER);
        &self.rows[slot * ROWS_PER_SERVER..][..count]
    }

    /// Returns all rows that are or were in use.
    pub(super) fn used_rows(&self) -> impl Iterator<Item = &Counters> {
        (0..SERVER_COUNT_MAX).flat_map(|slot| self.rows_of(slot))
    }

    pub(super) fn set_answering(&self, slot: usize, is_answering: bool) {
        // Everything that the server has answered came before.
        self.header[ANSWERING_AT + slot].store(is_answering.into(), Ordering::Release);
    }

    pub(super) fn is_counted(&self) -> bool {
        self.is_set(COUNTED_AT)
    }

    pub(super) fn set_counted(&self) {
        self.set(COUNTED_AT);
    }

    pub(super) fn is_predecessor_gone(&self) -> bool {
        self.is_set(PREDECESSOR_GONE_AT)
    }

    pub(super) fn set_predecessor_gone(&self) {
        self.set(PREDECESSOR_GONE_AT);
    }

    pub(super) fn set_final(&self) {
        self.set(FINAL_AT);
    }

    fn set(&self, place: usize) {
        self.header[place].store(1, Ordering::Release);
    }

    fn is_set(&self, place: usize) -> bool {
        self.header[place].load(Ordering::Acquire) != 0
    }
}
