//! The fields of a decoded block, by their places. RFC 9113, section 4.3.

use crate::fields::{FieldPlace, Place};
use crate::h2::field_class::FieldClass;

use super::dynamic_table::{DynamicTable, copy_from_ring};
use super::static_table::STATIC_ENTRIES;
use super::{FIELD_OVERHEAD, HEADER_TABLE_SIZE, HpackError, INDEXED};

/// The maximum size of a field section, as HPACK counts it, to send as `SETTINGS_MAX_HEADER_LIST_SIZE`: as long as an HTTP/1 head by default.
pub const SECTION_SIZE_MAX: usize = crate::head::HEAD_LEN_USUAL;

/// The buffer that the names and values of a section are decoded to. It holds any section within [`SECTION_SIZE_MAX`], and any field of the dynamic
/// table.
pub type SectionBytes = [u8; SECTION_SIZE_MAX];

/// The maximum number of fields in a section: the [100](crate::head::FIELD_COUNT_MAX) of an HTTP/1 head, five pseudo-header fields, and a field for
/// each of the cookies, of which browsers keep at most about 150 for a site.
pub const SECTION_FIELD_COUNT_MAX: usize = 256;

/// The maximum size of the fields beyond [`SECTION_SIZE_MAX`], as HPACK counts it: a browser with far too many cookies gets an answer, but a client
/// cannot make the server copy without end, with a byte for each 4 KiB.
pub const SIZE_BEYOND_MAX: usize = 16 * SECTION_SIZE_MAX;

/// The maximum number of fields beyond the limits of a section: a client cannot make the server decode without end either, with three or four bytes
/// for each field. No browser has as many cookies.
pub const FIELD_COUNT_BEYOND_MAX: usize = 4 * SECTION_FIELD_COUNT_MAX;

/// The number of updates of the size of the dynamic table that a block may begin with. RFC 7541, section 4.2.
const UPDATE_COUNT_MAX: u8 = 2;

/// The fields of a block, decoded as far as it has arrived. To be reused: [`FieldSection::clear`] begins another block.
///
/// Names and values lie in a buffer of the caller, of which the section has the places.
#[derive(Clone, Debug)]
pub struct FieldSection {
    places: [FieldPlace; SECTION_FIELD_COUNT_MAX],
    classes: [FieldClass; SECTION_FIELD_COUNT_MAX],
    count: usize,
    /// The number of bytes in use at the front of the buffer.
    pub(super) len: usize,
    /// How much the size may still grow. 0: the section is too large.
    size_left: usize,
    /// The size of the fields after those that the section has room for.
    size_beyond: usize,
    /// How many fields those are.
    count_beyond: usize,
    /// How many updates of the size of the dynamic table may follow.
    pub(super) update_count_left: u8,
}

impl FieldSection {
    /// Returns a section without fields.
    #[must_use]
    pub const fn new() -> FieldSection {
        let place = Place { at: 0, len: 0 };
        FieldSection {
            places: [FieldPlace { name: place, value: place }; SECTION_FIELD_COUNT_MAX],
            classes: [FieldClass::Other; SECTION_FIELD_COUNT_MAX],
            count: 0,
            len: 0,
            size_left: SECTION_SIZE_MAX + 1,
            size_beyond: 0,
            count_beyond: 0,
            update_count_left: UPDATE_COUNT_MAX,
        }
    }

    /// Removes all fields: another block begins.
    #[inline]
    pub fn clear(&mut self) {
        (self.count, self.len, self.size_beyond, self.count_beyond) = (0, 0, 0, 0);
        (self.size_left, self.update_count_left) = (SECTION_SIZE_MAX + 1, UPDATE_COUNT_MAX);
    }

    /// Returns whether the fields exceed [`SECTION_SIZE_MAX`] or [`SECTION_FIELD_COUNT_MAX`]. Then the section has no fields; the
    /// status to answer with is [431](crate::Status::RequestHeaderFieldsTooLarge): RFC 9113, section 10.5.1.
    #[inline]
    #[must_use]
    pub fn is_too_large(&self) -> bool {
        self.size_left == 0
    }

    /// Returns how many bytes at the front of the buffer the fields take.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the section has no fields.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the places of all fields, in order.
    #[inline]
    #[must_use]
    pub fn places(&self) -> &[FieldPlace] {
        &self.places[..self.count]
    }

    /// Returns the class of each field.
    #[inline]
    pub(in crate::h2) fn classes(&self) -> &[FieldClass] {
        &self.classes[..self.count]
    }

    /// Returns name and value of every field, in order. `bytes`: the buffer that the block was decoded to.
    ///
    /// # Panics
    ///
    /// Panics if a field does not lie in `bytes`.
    pub fn iter<'a>(&'a self, bytes: &'a [u8]) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        self.places().iter().map(|field| (field.name.of(bytes), field.value.of(bytes)))
    }

    /// Adds a field. Returns where its name and value are to be in the buffer: behind those of the fields before. `None`: the field exceeds a limit.
    #[inline(always)]
    pub(super) fn add(&mut self, name_len: u16, value_len: u16, class: FieldClass) -> Option<usize> {
        let (at, len) = (self.len, usize::from(name_len) + usize::from(value_len));
        let left = self.size_left.saturating_sub(len + FIELD_OVERHEAD);
        if left == 0 || self.count == SECTION_FIELD_COUNT_MAX {
            return None;
        }
        let name = Place { at: at as u16, len: name_len };
        let value = Place { at: at as u16 + name_len, len: value_len };
        self.places[self.count] = FieldPlace { name, value };
        self.classes[self.count] = class;
        (self.count, self.len, self.size_left) = (self.count + 1, at + len, left);
        Some(at)
    }

    /// Adds the fields of a dynamic table whose indexes are the first bytes of `block`: 62 to 126, the newest fields, which a client names most.
    /// Returns how many there are, up to the first that is not in the table, or to some before a limit.
    ///
    /// A client sends most fields in the order of the request before. Then the indexes descend by one, and the fields lie one after another in
    /// the ring; each run of them is copied at once.
    #[inline(never)]
    pub(super) fn add_newest(
        &mut self,
        table: &DynamicTable,
        block: &[u8],
        bytes: &mut SectionBytes,
    ) -> usize {
        let mut rest = block;
        while !self.is_too_large()
            && let [first, ..] = rest
        {
            let index = first.wrapping_sub(FIRST_NEWEST);
            let Some((number, entry)) = table.get_newest(index) else { break };
            let pairs = rest.windows(2).take(index.into());
            let count = 1 + pairs.take_while(|pair| pair[1] == pair[0].wrapping_sub(1)).count();
            let (start, last) = (usize::from(entry.at), table.entry(number.wrapping_add(count - 1)));
            let behind_start = |at: usize| at.wrapping_sub(start) % HEADER_TABLE_SIZE;
            let len = behind_start(usize::from(last.at) + last.len());
            let size = len + count * FIELD_OVERHEAD;
            let (at, end) = (self.len, self.count + count);
            if self.size_left <= size || end > SECTION_FIELD_COUNT_MAX {
                break;
            }
            copy_from_ring(table.bytes(), start, &mut bytes[at..at + len]);
            let slots = self.places[self.count..end].iter_mut().zip(&mut self.classes[self.count..end]);
            for (behind, (place, class)) in slots.enumerate() {
                let entry = table.entry(number.wrapping_add(behind));
                let name_at = (at + behind_start(entry.at.into())) as u16;
                let name = Place { at: name_at, len: entry.name_len };
                let value = Place { at: name_at.wrapping_add(entry.name_len), len: entry.value_len };
                (*place, *class) = (FieldPlace { name, value }, entry.class);
            }
            (self.count, self.len, self.size_left) = (end, at + len, self.size_left - size);
            self.update_count_left = 0;
            rest = &rest[count..];
        }
        block.len() - rest.len()
    }

    /// Notes that a field exceeds a limit, and forgets all fields. `len`: that of its name and value.
    ///
    /// # Errors
    ///
    /// Returns [`HpackError::TooLong`] if the fields exceed [`SIZE_BEYOND_MAX`] or [`FIELD_COUNT_BEYOND_MAX`].
    #[cold]
    pub(super) fn exceed(&mut self, len: usize) -> Result<(), HpackError> {
        self.set_too_large();
        self.size_beyond += len + FIELD_OVERHEAD;
        self.count_beyond += 1;
        match self.size_beyond > SIZE_BEYOND_MAX || self.count_beyond > FIELD_COUNT_BEYOND_MAX {
            true => Err(HpackError::TooLong),
            false => Ok(()),
        }
    }

    /// Forgets all fields, as they exceed a limit.
    #[cold]
    pub(super) fn set_too_large(&mut self) {
        (self.count, self.len, self.size_left) = (0, 0, 0);
    }
}

/// The byte that is the index of the newest field of a dynamic table.
const FIRST_NEWEST: u8 = INDEXED | (1 + STATIC_ENTRIES.len()) as u8;

impl Default for FieldSection {
    fn default() -> FieldSection {
        FieldSection::new()
    }
}
