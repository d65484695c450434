//! The recorded exchanges of a worker that have not ended, in a table that gives each its id.
//!
//! ```text
//! place        0          1        2          3
//!         [ exchange ][  free  ][ exchange ][ exchange ]
//!              └ next: 2   └ next: none   └ …
//! ```
//!
//! The place of an exchange that ends is the first to be reused, so the places stay few. The table reserves its address space at the start:
//! later it allocates nothing.

use crate::record::ExchangeId;

/// The maximum number of recorded exchanges that are open in one worker. Their rows take 6 MiB. An idle connection has no row, and a short
/// response ends at once, so only a worker with this many slow downloads reaches the limit.
pub const OPEN_COUNT_MAX: usize = 1 << 18;

/// The value that stands for no place.
pub(crate) const NO_PLACE: u32 = u32::MAX;

#[derive(Debug)]
pub(crate) struct OpenExchanges {
    rows: Vec<OpenExchange>,
    /// The first free place. Each free row names the next.
    free: u32,
}

/// An exchange that has not ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenExchange {
    /// How often the place was used before.
    generation: u32,
    /// The place of the next exchange of the connection, or the next free one.
    pub(crate) next: u32,
    /// Where the response ends in the bytes of the connection.
    pub(crate) response_end: u64,
    /// The length of its content in bytes.
    pub(crate) content_len: u64,
    /// The status of the response, if its start record does not have it: a backend has made it. Otherwise 0.
    pub(crate) status: u16,
}

impl OpenExchanges {
    /// Returns a table without room.
    pub(crate) fn none() -> OpenExchanges {
        OpenExchanges { rows: Vec::new(), free: NO_PLACE }
    }

    pub(crate) fn new() -> OpenExchanges {
        OpenExchanges { rows: Vec::with_capacity(OPEN_COUNT_MAX), ..OpenExchanges::none() }
    }

    /// Adds an exchange, or returns `None` if the table is full.
    #[inline]
    pub(crate) fn open(&mut self) -> Option<ExchangeId> {
        let place = self.free;
        if place != NO_PLACE {
            let row = &mut self.rows[place as usize];
            self.free = row.next;
            row.status = 0;
            return Some(ExchangeId { place, generation: row.generation });
        }
        let place = self.rows.len();
        if place == OPEN_COUNT_MAX {
            return None;
        }
        self.rows.push(OpenExchange {
            generation: 0,
            next: NO_PLACE,
            response_end: 0,
            content_len: 0,
            status: 0,
        });
        Some(ExchangeId { place: place as u32, generation: 0 })
    }

    #[inline]
    pub(crate) fn row(&mut self, place: u32) -> &mut OpenExchange {
        &mut self.rows[place as usize]
    }

    /// Removes an exchange. Its id returns after 2^32 other exchanges at the same place.
    #[inline]
    pub(crate) fn close(&mut self, place: u32) -> ExchangeId {
        let row = &mut self.rows[place as usize];
        let id = ExchangeId { place, generation: row.generation };
        row.generation = row.generation.wrapping_add(1);
        row.next = std::mem::replace(&mut self.free, place);
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*, sample::Index};
    use std::collections::HashSet;

    proptest! {
        #[test]
        fn ids_are_unique_and_places_are_reused(ops in vec((any::<bool>(), any::<Index>()), 0..300)) {
            let (mut table, mut open, mut known) = (OpenExchanges::new(), Vec::new(), HashSet::new());
            let mut open_count_max = 0;
            for (closes, index) in ops {
                if closes && !open.is_empty() {
                    let id: ExchangeId = open.swap_remove(index.index(open.len()));
                    prop_assert_eq!(table.close(id.place), id);
                } else {
                    let id = table.open().expect("room");
                    prop_assert!(known.insert((id.place, id.generation)), "{:?} again", id);
                    open.push(id);
                    open_count_max = open_count_max.max(open.len());
                }
            }
            prop_assert_eq!(table.rows.len(), open_count_max);
        }
    }

    #[test]
    fn a_full_table_takes_no_exchange_and_does_not_grow() {
        let mut table = OpenExchanges::new();
        assert!((0..OPEN_COUNT_MAX).all(|_| table.open().is_some()));
        assert_eq!((table.open(), table.rows.capacity()), (None, OPEN_COUNT_MAX));
        let id = table.close(7);
        assert_eq!(table.open(), Some(ExchangeId { generation: id.generation + 1, ..id }));
        assert_eq!(OpenExchanges::none().rows.capacity(), 0, "without a log it takes no memory");
    }
}
