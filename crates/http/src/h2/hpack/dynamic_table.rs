//! The dynamic table: the fields that a client may name by their index. RFC 7541, sections 2.3.2 and 4.
//!
//! ```text
//! bytes    …value │ name value │ name value │ name value │         na…     a ring; a field may cross its end
//!                 └ oldest                  └ newest     └ end
//! entries  a ring, too: where each field lies, and its class
//! ```

use crate::h2::field_class::FieldClass;

/// The size of the dynamic table, as HPACK counts it: [`FIELD_OVERHEAD`] and the length of each field. The initial value of
/// `SETTINGS_HEADER_TABLE_SIZE`, so a client need not learn it, and a size from which browsers gain all they can: RFC 9113, section 6.5.2.
pub const HEADER_TABLE_SIZE: usize = 4_096;

/// What a field counts besides the bytes of its name and value. RFC 7541, section 4.1; RFC 9113, section 6.5.2.
pub const FIELD_OVERHEAD: usize = 32;

/// The maximum number of fields: all of them empty.
const ENTRY_COUNT_MAX: usize = HEADER_TABLE_SIZE / FIELD_OVERHEAD;

/// The number of fields whose index has one byte in a block: 126 at most, after 61 of the static table. RFC 7541, section 5.1.
const NEWEST_COUNT: u8 = 126 - 61;

/// The place and the class of a field of a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct TableEntry {
    /// The offset of the name; the value follows it.
    pub(super) at: u16,
    /// The length of the name in bytes.
    pub(super) name_len: u16,
    /// The length of the value in bytes.
    pub(super) value_len: u16,
    /// The class.
    pub(super) class: FieldClass,
}

impl TableEntry {
    /// Returns the length of name and value in bytes.
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        usize::from(self.name_len) + usize::from(self.value_len)
    }
}

/// The dynamic table of a decoder.
#[derive(Clone, Debug)]
pub(super) struct DynamicTable {
    bytes: [u8; HEADER_TABLE_SIZE],
    entries: [TableEntry; ENTRY_COUNT_MAX],
    /// The number of fields that were ever added: the next one has this number, modulo the length of the ring.
    added_count: usize,
    /// The number of fields in the table.
    count: usize,
    /// The size of the fields in the table. At most `size_max`.
    size: usize,
    /// The maximum size that the client has set. At most [`HEADER_TABLE_SIZE`].
    size_max: usize,
    /// The offset behind the newest field. Less than the length of the ring.
    end: usize,
}

impl DynamicTable {
    /// Returns an empty table.
    pub(super) const fn new() -> DynamicTable {
        let none = TableEntry { at: 0, name_len: 0, value_len: 0, class: FieldClass::Other };
        DynamicTable {
            bytes: [0; HEADER_TABLE_SIZE],
            entries: [none; ENTRY_COUNT_MAX],
            added_count: 0,
            count: 0,
            size: 0,
            size_max: HEADER_TABLE_SIZE,
            end: 0,
        }
    }

    /// Returns a field. The newest has index 0.
    #[inline(always)]
    pub(super) fn get(&self, index: usize) -> Option<&TableEntry> {
        let number = self.added_count.wrapping_sub(index + 1);
        (index < self.count).then(|| self.entry(number))
    }

    /// Returns one of the newest 65 fields, whose index has one byte in a block, and its number.
    #[inline(always)]
    pub(super) fn get_newest(&self, index: u8) -> Option<(usize, &TableEntry)> {
        let entry = if index < NEWEST_COUNT { self.get(index.into())? } else { return None };
        Some((self.added_count.wrapping_sub(usize::from(index) + 1), entry))
    }

    /// Returns the field with a number; the next newer field has the next number.
    #[inline(always)]
    pub(super) fn entry(&self, number: usize) -> &TableEntry {
        &self.entries[number % ENTRY_COUNT_MAX]
    }

    /// Returns the bytes that the fields lie in.
    #[inline(always)]
    pub(super) fn bytes(&self) -> &[u8; HEADER_TABLE_SIZE] {
        &self.bytes
    }

    /// Returns the size of all fields, as HPACK counts it.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// Adds a field: `bytes` are name and value. Evicts the oldest fields for it. RFC 7541, section 4.4.
    pub(super) fn add(&mut self, bytes: &[u8], name_len: usize, class: FieldClass) {
        let size = bytes.len() + FIELD_OVERHEAD;
        // "an attempt to add an entry larger than the maximum size causes the table to be emptied"
        let Some(max) = self.size_max.checked_sub(size) else { return self.evict_down_to(0) };
        self.evict_down_to(max);
        let entry = TableEntry {
            at: self.end as u16,
            name_len: name_len as u16,
            value_len: (bytes.len() - name_len) as u16,
            class,
        };
        self.entries[self.added_count % ENTRY_COUNT_MAX] = entry;
        self.added_count = self.added_count.wrapping_add(1);
        (self.count, self.size) = (self.count + 1, self.size + size);
        let (before_end, at_start) = bytes.split_at(bytes.len().min(HEADER_TABLE_SIZE - self.end));
        self.bytes[self.end..][..before_end.len()].copy_from_slice(before_end);
        self.bytes[..at_start.len()].copy_from_slice(at_start);
        self.end = (self.end + bytes.len()) % HEADER_TABLE_SIZE;
    }

    /// Sets the maximum size: at most [`HEADER_TABLE_SIZE`]. RFC 7541, section 4.3.
    pub(super) fn set_size_max(&mut self, max: usize) {
        self.size_max = max;
        self.evict_down_to(max);
    }

    /// Removes the oldest fields until the size is at most `max`.
    pub(super) fn evict_down_to(&mut self, max: usize) {
        while self.size > max {
            let oldest = self.entries[self.added_count.wrapping_sub(self.count) % ENTRY_COUNT_MAX];
            self.size -= oldest.len() + FIELD_OVERHEAD;
            self.count -= 1;
        }
    }
}

/// Copies `to.len()` bytes of a ring, from `at` on.
#[inline(always)]
pub(super) fn copy_from_ring(ring: &[u8], at: usize, to: &mut [u8]) {
    match ring.get(at..at + to.len()) {
        Some(bytes) => to.copy_from_slice(bytes),
        None => copy_across_end(ring, at, to),
    }
}

#[cold]
fn copy_across_end(ring: &[u8], at: usize, to: &mut [u8]) {
    let (before_end, at_start) = to.split_at_mut(ring.len() - at);
    before_end.copy_from_slice(&ring[at..]);
    at_start.copy_from_slice(&ring[..at_start.len()]);
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::collections::VecDeque;
    use std::vec;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn table_holds_what_a_queue_holds(steps in proptest::collection::vec((0..2_000_usize, 0..100_usize, any::<u8>()), 1..200)) {
            let (mut table, mut queue, mut max) = (DynamicTable::new(), VecDeque::<(Vec<u8>, usize)>::new(), HEADER_TABLE_SIZE);
            for (len, kind, fill) in steps {
                if kind == 99 {
                    max = 2 * len;
                    table.set_size_max(max);
                } else {
                    // Most fields are short.
                    let bytes = vec![fill; if kind < 90 { len % 40 } else { 3 * len }];
                    let name_len = bytes.len() / 2;
                    table.add(&bytes, name_len, FieldClass::Other);
                    queue.push_front((bytes, name_len));
                }
                let size = |queue: &VecDeque<(Vec<u8>, usize)>| queue.iter().map(|(bytes, _)| bytes.len() + 32).sum::<usize>();
                while size(&queue) > max {
                    queue.pop_back();
                }
                prop_assert_eq!(table.size(), size(&queue));
                for (index, (bytes, name_len)) in queue.iter().enumerate() {
                    let entry = table.get(index).expect("the field is in the table");
                    let mut to = vec![0; entry.len()];
                    copy_from_ring(table.bytes(), entry.at.into(), &mut to);
                    prop_assert_eq!((&to, usize::from(entry.name_len)), (bytes, *name_len));
                }
                prop_assert!(table.get(queue.len()).is_none());
            }
        }
    }

    #[test]
    fn table_of_empty_fields_is_full() {
        let mut table = DynamicTable::new();
        for _ in 0..2 * ENTRY_COUNT_MAX {
            table.add(b"", 0, FieldClass::Other);
        }
        assert_eq!((table.size(), table.count), (HEADER_TABLE_SIZE, ENTRY_COUNT_MAX));
    }
}
