//! Encodes the blocks of one connection with the dynamic table of the client. RFC 7541, section 2.3.2.
//!
//! ```text
//! a block of `encode_field` ─ field by field ─┬─ an index of the static table ─▶ itself
//!             │                               ├─ a literal that was added ─────▶ its index
//!             │                               └─ another literal ──────────────▶ a literal that the client adds
//!             └─ the same as before ─ its fields are known ───────────────────▶ their indexes
//! ```
//!
//! Fields are only added, and never evicted one by one. When the next field does not fit, the following block begins with the sizes 0 and the
//! former one, which empty the table: RFC 7541, section 4.2. So the index of a field follows from how many came later, and the client's
//! table need not be counted exactly: the length of a text with the Huffman code is taken as the greatest that its code may have.

use super::dynamic_table::{FIELD_OVERHEAD, HEADER_TABLE_SIZE};
use super::packed_field::{PackedField, PackedLiteral, split_field};
use super::static_table::STATIC_ENTRIES;
use super::{ADDED, INDEXED, UPDATE, integer};

/// The number of fields that a table can hold: each has a name.
const ENTRY_COUNT_MAX: usize = HEADER_TABLE_SIZE / (FIELD_OVERHEAD + 1);

/// The number of slots, twice that of the fields at least, so that a search ends soon.
const SLOT_COUNT: usize = 256;
const _: () = assert!(SLOT_COUNT >= 2 * ENTRY_COUNT_MAX && ENTRY_COUNT_MAX < u8::MAX as usize);

/// The longest that a block begins with: two sizes.
pub const SIZE_UPDATES_LEN_MAX: usize = 4;

/// The number of blocks that are remembered: a status, Server and Date, and a few responses.
const KNOWN_COUNT: usize = 4;

/// The maximum length of a block that is remembered, and the maximum number of its fields. Those of most responses are shorter.
const KNOWN_LEN_MAX: usize = 240;
const KNOWN_FIELD_COUNT_MAX: usize = 15;

/// A block whose fields are all in the tables.
#[derive(Clone, Copy, Debug)]
struct KnownBlock {
    bytes: [u8; KNOWN_LEN_MAX],
    /// 0: none.
    len: u8,
    field_count: u8,
    /// A byte for each field: an index of the static table, with the bit of an index, or the number of a field in the dynamic one.
    fields: [u8; KNOWN_FIELD_COUNT_MAX],
}

impl KnownBlock {
    const NONE: KnownBlock =
        KnownBlock { bytes: [0; KNOWN_LEN_MAX], len: 0, field_count: 0, fields: [0; KNOWN_FIELD_COUNT_MAX] };
}

/// What the client's dynamic table holds.
#[derive(Clone, Debug)]
pub struct HpackEncoder {
    /// The literals of the fields in the table, as they were packed, one after another. Each is shorter than its field counts.
    literals: [u8; HEADER_TABLE_SIZE],
    /// The end of each literal.
    ends: [u16; ENTRY_COUNT_MAX],
    /// A hash table: the number of a field, from 1 on. 0: none.
    slots: [u8; SLOT_COUNT],
    /// The number of fields in the table.
    count: u8,
    /// The size of the table at most, as HPACK counts it.
    size: u16,
    /// The size that the table may have. At most [`HEADER_TABLE_SIZE`].
    size_max: u16,
    /// The next block empties the table.
    is_full: bool,
    /// Blocks that were sent lately.
    known: [KnownBlock; KNOWN_COUNT],
    /// The one that the next block replaces.
    next_known: u8,
}

impl Default for HpackEncoder {
    fn default() -> HpackEncoder {
        HpackEncoder::new()
    }
}

impl HpackEncoder {
    /// Returns the encoder of a new connection: the client's table has its initial size, 4,096.
    pub const fn new() -> HpackEncoder {
        HpackEncoder {
            literals: [0; HEADER_TABLE_SIZE],
            ends: [0; ENTRY_COUNT_MAX],
            slots: [0; SLOT_COUNT],
            count: 0,
            size: 0,
            size_max: HEADER_TABLE_SIZE as u16,
            is_full: false,
            known: [KnownBlock::NONE; KNOWN_COUNT],
            next_known: 0,
        }
    }

    /// Limits the size of the table, as the client has set: `SETTINGS_HEADER_TABLE_SIZE`. A later, greater size changes nothing.
    pub fn limit_size(&mut self, max: u32) {
        if max < self.size_max.into() {
            self.size_max = max as u16;
            self.is_full = true;
        }
    }

    /// Begins a block: writes changes of the table's size to the front of `to`, which has [`SIZE_UPDATES_LEN_MAX`] bytes. Returns how many
    /// bytes that takes.
    #[inline]
    pub fn begin_block(&mut self, to: &mut [u8]) -> usize {
        if self.is_full { self.empty(to) } else { 0 }
    }

    /// Empties the table of the client and this one.
    #[cold]
    fn empty(&mut self, to: &mut [u8]) -> usize {
        (self.is_full, self.count, self.size) = (false, 0, 0);
        self.slots = [0; SLOT_COUNT];
        self.known.iter_mut().for_each(|block| (block.len, block.field_count) = (0, 0));
        let mut len = 0;
        let mut emit = |byte| {
            to[len] = byte;
            len += 1;
        };
        integer::encode(UPDATE, 5, 0, &mut emit);
        if self.size_max > 0 {
            integer::encode(UPDATE, 5, self.size_max.into(), &mut emit);
        }
        len
    }

    /// Writes the fields of a block of [`encode_field`](super::encode_field) to the front of `to`, which is as long as the block at least. Returns
    /// how many bytes they take.
    #[inline]
    pub fn put(&mut self, block: &[u8], to: &mut [u8]) -> usize {
        let Some(known) = self.known.iter().find(|known| known.bytes[..known.len.into()] == *block) else {
            return self.put_unknown(block, to);
        };
        let mut end = 0;
        for &field in &known.fields[..known.field_count.into()] {
            end += match field & INDEXED {
                0 => put_index(self.count, field, &mut to[end..]),
                _ => copy(&[field], &mut to[end..]),
            };
        }
        end
    }

    /// Writes the fields of a block, and remembers it.
    #[inline(never)]
    fn put_unknown(&mut self, block: &[u8], to: &mut [u8]) -> usize {
        let (mut rest, mut end) = (block, 0);
        let (mut fields, mut field_count, mut is_known) = ([0; KNOWN_FIELD_COUNT_MAX], 0, true);
        while let Some((field, behind)) = split_field(rest) {
            let number = match field {
                PackedField::Indexed(index) => {
                    end += copy(&[index], &mut to[end..]);
                    Some(index)
                }
                PackedField::Literal(literal) => {
                    let (number, len) = self.put_literal(literal, &mut to[end..]);
                    end += len;
                    number
                }
            };
            match (number, fields.get_mut(field_count)) {
                (Some(number), Some(field)) => *field = number,
                _ => is_known = false,
            }
            field_count += 1;
            rest = behind;
        }
        debug_assert!(rest.is_empty(), "a block of the encoder");
        if is_known && rest.is_empty() && block.len() <= KNOWN_LEN_MAX {
            let known = &mut self.known[usize::from(self.next_known)];
            self.next_known = (self.next_known + 1) % KNOWN_COUNT as u8;
            copy(block, &mut known.bytes);
            (known.len, known.field_count, known.fields) = (block.len() as u8, field_count as u8, fields);
        }
        end + copy(rest, &mut to[end..])
    }

    /// Writes a literal. Returns its number, if it is in the table now, and how many bytes it takes.
    #[inline]
    fn put_literal(&mut self, literal: PackedLiteral<'_>, to: &mut [u8]) -> (Option<u8>, usize) {
        let mut slot = hash(literal.bytes) % SLOT_COUNT;
        loop {
            let number = self.slots[slot];
            if number == 0 {
                return self.add(literal, slot, to);
            }
            if self.literal(number) == literal.bytes {
                return (Some(number), put_index(self.count, number, to));
            }
            slot = (slot + 1) % SLOT_COUNT;
        }
    }

    /// Returns the literal of a field.
    #[inline]
    fn literal(&self, number: u8) -> &[u8] {
        let index = usize::from(number) - 1;
        let at = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.literals[at.into()..self.ends[index].into()]
    }

    /// Writes a literal, and adds it to the table if it fits.
    fn add(&mut self, literal: PackedLiteral<'_>, slot: usize, to: &mut [u8]) -> (Option<u8>, usize) {
        let size = usize::from(self.size) + FIELD_OVERHEAD + literal.text_len_max as usize;
        if size > self.size_max.into() {
            // It would not fit into an empty table either.
            self.is_full = size - usize::from(self.size) <= self.size_max.into();
            return (None, copy(literal.bytes, to));
        }
        let index = usize::from(self.count);
        let at = if index == 0 { 0 } else { usize::from(self.ends[index - 1]) };
        let end = at + copy(literal.bytes, &mut self.literals[at..]);
        self.ends[index] = end as u16;
        (self.count, self.size) = (self.count + 1, size as u16);
        self.slots[slot] = self.count;
        // A static index takes one byte.
        to[0] = ADDED | literal.index;
        let len = 1 + copy(&literal.bytes[literal.strings_at.into()..], &mut to[1..]);
        (Some(self.count), len)
    }
}

/// Writes the index of a field, from its number and that of the newest one. RFC 7541, section 6.1.
#[inline]
fn put_index(newest: u8, number: u8, to: &mut [u8]) -> usize {
    let index = STATIC_ENTRIES.len() as u8 + 1 + (newest - number);
    match index.checked_sub(!INDEXED) {
        None => copy(&[INDEXED | index], to),
        Some(rest) => copy(&[0xff, rest], to),
    }
}

/// The second byte of an index has no bit for more.
const _: () = assert!(STATIC_ENTRIES.len() + ENTRY_COUNT_MAX - 127 < 0x80);

/// Copies bytes to the front of `to`. Returns their number.
#[inline]
fn copy(bytes: &[u8], to: &mut [u8]) -> usize {
    to[..bytes.len()].copy_from_slice(bytes);
    bytes.len()
}

/// Returns a hash of a literal: of its ends, as few differ between. Collisions cost a comparison, and what is compared comes from the site's owner.
#[inline]
fn hash(bytes: &[u8]) -> usize {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let (first, last) = match (bytes.first_chunk(), bytes.last_chunk()) {
        (Some(first), Some(last)) => (u64::from_le_bytes(*first), u64::from_le_bytes(*last)),
        _ => bytes.iter().fold((0, 0), |(first, last), &byte| (first << 8 | u64::from(byte), last)),
    };
    let mixed = first.wrapping_mul(FACTOR) ^ last;
    (mixed.wrapping_mul(FACTOR) >> 32) as usize
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::format;
    use std::string::String;
    use std::vec;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use crate::h2::hpack::tests::TestConnection;
    use crate::h2::hpack::{encode_field, tests::TestFields};

    /// Encodes a block with the static table only.
    fn packed(fields: &[(&str, &str)]) -> Vec<u8> {
        let mut block = Vec::new();
        for (name, value) in fields {
            encode_field(name.as_bytes(), value.as_bytes(), &mut |byte| block.push(byte));
        }
        block
    }

    fn encode(encoder: &mut HpackEncoder, packed: &[u8]) -> Vec<u8> {
        let mut block = vec![0; SIZE_UPDATES_LEN_MAX + packed.len()];
        let len = encoder.begin_block(&mut block);
        let end = len + encoder.put(packed, &mut block[len..]);
        block.truncate(end);
        block
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn repeated_field_is_an_index() {
        let mut encoder = HpackEncoder::new();
        let first = packed(&[(":status", "200"), ("x-a", "~"), ("vary", "X")]);
        assert_eq!(hex(&encode(&mut encoder, &first)), "884003782d61017e7b0158");
        assert_eq!(hex(&encode(&mut encoder, &first)), "88bfbe");
        assert_eq!(hex(&encode(&mut encoder, &packed(&[("vary", "Y"), ("vary", "X")]))), "7b0159bf");
    }

    #[test]
    fn smaller_table_is_announced_once() {
        let block = packed(&[("x-a", "~")]);
        let mut encoder = HpackEncoder::new();
        encode(&mut encoder, &block);
        encoder.limit_size(200);
        encoder.limit_size(100);
        encoder.limit_size(4096);
        assert_eq!(hex(&encode(&mut encoder, &block)), "203f454003782d61017e");
        assert_eq!(hex(&encode(&mut encoder, &block)), "be");
        encoder.limit_size(0);
        assert_eq!(hex(&encode(&mut encoder, &block)), "200003782d61017e");
        assert_eq!(hex(&encode(&mut encoder, &block)), "0003782d61017e");
    }

    #[test]
    fn field_that_fits_into_no_table_leaves_the_others_there() {
        let (long, mut encoder) = ("~".repeat(HEADER_TABLE_SIZE), HpackEncoder::new());
        let block = packed(&[("x-a", "~"), ("x-b", &long)]);
        assert_eq!(encode(&mut encoder, &block)[0], 0x40);
        for _ in 0..3 {
            assert_eq!(encode(&mut encoder, &block)[..2], [0xbe, 0]);
        }
    }

    proptest! {
        #[test]
        fn client_decodes_what_was_encoded(
            blocks in proptest::collection::vec((proptest::collection::vec((0..30_u8, 0..200_usize), 0..12), 0..60_u32), 1..60)
        ) {
            let (mut encoder, mut client) = (HpackEncoder::new(), TestConnection::new());
            let mut size_max = HEADER_TABLE_SIZE;
            for (kinds, limit) in blocks {
                if limit < 3 {
                    size_max = size_max.min(1_000 * limit as usize);
                    encoder.limit_size(1_000 * limit);
                }
                let mut packed = Vec::new();
                let mut want = TestFields::new();
                for (kind, len) in kinds {
                    let name = [&b"server"[..], b"x-long-name", b"etag", b"x"][kind as usize % 4];
                    let value = vec![b'a' + kind; if kind < 20 { kind.into() } else { len }];
                    encode_field(name, &value, &mut |byte| packed.push(byte));
                    want.push((name.into(), value));
                }
                let block = encode(&mut encoder, &packed);
                prop_assert!(block.len() <= SIZE_UPDATES_LEN_MAX + packed.len());
                prop_assert_eq!(client.decode(&block, usize::MAX >> 1), Ok(want));
                prop_assert!(client.decoder.table_size() <= size_max);
            }
        }
    }
}
