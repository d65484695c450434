//! Decodes field blocks. RFC 7541, sections 3 and 6.
//!
//! ```text
//! 1…    index                        ─▶ a field of a table
//! 01…   index of a name, or a name ┐
//! 000…, 0001…  the same            ┴ value ─▶ a field; only the first is added to the dynamic table
//! 001…  size of the dynamic table, before all fields
//! ```

use super::dynamic_table::{DynamicTable, TableEntry, copy_from_ring};
use super::integer::decode_integer;
use super::static_table::{STATIC_BYTES, STATIC_ENTRIES};
use super::{
    ADDED, FieldSection, HEADER_TABLE_SIZE, HUFFMAN, HpackError, INDEXED, SectionBytes, UPDATE,
    huffman_decoder,
};
use crate::h2::field_class::FieldClass;

/// The maximum length of a field in a block, in bytes: what a buffer must hold to decode a block in parts. The fields of a section within its
/// limits have no more, except from a client that uses the Huffman code for strings that it makes longer.
pub const FIELD_REPRESENTATION_LEN_MAX: usize = super::SECTION_SIZE_MAX;

/// The decoder of the field blocks of a connection, with its dynamic table: about 5 KiB, and no other memory.
#[derive(Clone, Debug)]
pub struct HpackDecoder {
    table: DynamicTable,
}

impl HpackDecoder {
    /// Returns the decoder of a new connection.
    #[must_use]
    pub const fn new() -> HpackDecoder {
        HpackDecoder { table: DynamicTable::new() }
    }

    /// Decodes the start of `block`: all fields that are complete. Returns how many bytes they have. The caller offers the rest again, followed by more
    /// bytes; how a block is split changes nothing. `is_end`: the block ends with these bytes. The first call for a block has a
    /// [cleared](FieldSection::clear) section, and all calls for it the same section and buffer.
    ///
    /// The decoder writes names and values to `bytes`, one after another. If a limit of the section is exceeded, the section says so; decoding
    /// goes on, as later blocks need the dynamic table, and uses `bytes` for it.
    ///
    /// # Errors
    ///
    /// Returns the first error of the block. The connection cannot go on then.
    ///
    /// ```
    /// use tarpon_http::h2::hpack::{FieldSection, HpackDecoder};
    ///
    /// let (mut decoder, mut section, mut bytes) = (HpackDecoder::new(), FieldSection::new(), [0; 16_384]);
    /// let used = decoder.decode(b"\x82\x84\x41\x01", false, &mut section, &mut bytes)?;
    /// assert_eq!(used, 2);
    /// let used = decoder.decode(b"\x41\x01a", true, &mut section, &mut bytes)?;
    /// assert_eq!(used, 3);
    /// assert_eq!(section.iter(&bytes).last(), Some((&b":authority"[..], &b"a"[..])));
    /// # Ok::<(), tarpon_http::h2::hpack::HpackError>(())
    /// ```
    pub fn decode(
        &mut self,
        block: &[u8],
        is_end: bool,
        section: &mut FieldSection,
        bytes: &mut SectionBytes,
    ) -> Result<usize, HpackError> {
        let mut rest = block;
        while let Some(&first) = rest.first() {
            let len = if first & INDEXED != 0 {
                self.decode_indexed(rest, section, bytes)?
            } else if first & UPDATE_MASK == UPDATE {
                self.decode_update(rest, section)?
            } else {
                self.decode_literal(rest, section, bytes)?
            };
            if len == 0 {
                break;
            }
            rest = &rest[len..];
            // Most fields are indexes of one byte.
            rest = &rest[section.add_newest(&self.table, rest, bytes)..];
        }
        match rest.len() {
            0 => Ok(block.len()),
            _ if is_end => Err(HpackError::Incomplete),
            FIELD_REPRESENTATION_LEN_MAX.. => Err(HpackError::TooLong),
            len => Ok(block.len() - len),
        }
    }

    /// Returns the size of the dynamic table, as HPACK counts it: at most [`HEADER_TABLE_SIZE`]. RFC 7541, section 4.1.
    #[must_use]
    pub fn table_size(&self) -> usize {
        self.table.size()
    }

    /// Decodes a field that is an index. Returns the length of the index, or 0 if it is incomplete. RFC 7541, section 6.1.
    #[inline(always)]
    fn decode_indexed(
        &mut self,
        block: &[u8],
        section: &mut FieldSection,
        bytes: &mut SectionBytes,
    ) -> Result<usize, HpackError> {
        let Some((index, used)) = decode_integer(block, 7)? else { return Ok(0) };
        let (entry, ring) = self.entry(index)?;
        section.update_count_left = 0;
        match section.add(entry.name_len, entry.value_len, entry.class) {
            Some(at) => copy_from_ring(ring, entry.at.into(), &mut bytes[at..at + entry.len()]),
            None => section.exceed(entry.len())?,
        }
        Ok(used)
    }

    /// Returns a field of a table, and the bytes that it lies in.
    #[inline(always)]
    fn entry(&self, index: usize) -> Result<(&TableEntry, &[u8]), HpackError> {
        match index.checked_sub(1 + STATIC_ENTRIES.len()) {
            None if index == 0 => Err(HpackError::Index),
            None => Ok((&STATIC_ENTRIES[index - 1], &STATIC_BYTES)),
            Some(index) => {
                let entry = self.table.get(index).ok_or(HpackError::Index)?;
                Ok((entry, self.table.bytes()))
            }
        }
    }

    /// Decodes an update of the size of the dynamic table. Returns its length, or 0 if it is incomplete. RFC 7541, section 6.3.
    #[cold]
    fn decode_update(&mut self, block: &[u8], section: &mut FieldSection) -> Result<usize, HpackError> {
        let left = section.update_count_left.checked_sub(1).ok_or(HpackError::UpdatePlace)?;
        let Some((size, used)) = decode_integer(block, 5)? else { return Ok(0) };
        if size > HEADER_TABLE_SIZE {
            return Err(HpackError::UpdateSize);
        }
        section.update_count_left = left;
        self.table.set_size_max(size);
        Ok(used)
    }

    /// Decodes a field that is a literal. Returns its length, or 0 if it is incomplete. RFC 7541, section 6.2.
    fn decode_literal(
        &mut self,
        block: &[u8],
        section: &mut FieldSection,
        bytes: &mut SectionBytes,
    ) -> Result<usize, HpackError> {
        let is_added = block[0] & ADDED != 0;
        let prefix = if is_added { 6 } else { 4 };
        let Some((index, mut used)) = decode_integer(block, prefix)? else { return Ok(0) };
        let name = match index {
            0 => {
                let Some(name) = StringLiteral::parse(block, &mut used)? else { return Ok(0) };
                LiteralName::String(name)
            }
            index => LiteralName::Entry(self.entry(index)?),
        };
        let Some(value) = StringLiteral::parse(block, &mut used)? else { return Ok(0) };
        let literal = Literal { name, value };

        section.update_count_left = 0;
        let mut at = section.len();
        let (mut name_len, mut len) = literal.decode(&mut bytes[at..])?;
        if at + len > bytes.len() {
            // The whole buffer is free now. It holds any field that the dynamic table has room for.
            section.set_too_large();
            at = 0;
            (name_len, len) = literal.decode(bytes)?;
        }
        let Some(field) = bytes.get(at..at + len) else {
            if is_added {
                self.table.evict_down_to(0);
            }
            return section.exceed(len).map(|()| used);
        };
        let (name, value) = field.split_at(name_len);
        let class = match literal.name {
            LiteralName::Entry((entry, _)) => FieldClass::of_name_in(entry.class, name, value),
            LiteralName::String(_) => FieldClass::of(name, value),
        };
        let value_len = value.len();
        if is_added {
            self.table.add(field, name_len, class);
        }
        match section.add(name_len as u16, value_len as u16, class) {
            Some(_) => Ok(used),
            None => section.exceed(len).map(|()| used),
        }
    }
}

impl Default for HpackDecoder {
    fn default() -> HpackDecoder {
        HpackDecoder::new()
    }
}

/// A field that is a literal.
struct Literal<'a> {
    name: LiteralName<'a>,
    value: StringLiteral<'a>,
}

/// The name of a literal.
enum LiteralName<'a> {
    /// That of a field of a table, which lies in these bytes.
    Entry((&'a TableEntry, &'a [u8])),
    String(StringLiteral<'a>),
}

impl Literal<'_> {
    /// Decodes name and value to the front of `to`. Returns the length of the name, and of both; if they exceed that of `to`, not all is decoded.
    #[inline(always)]
    fn decode(&self, to: &mut [u8]) -> Result<(usize, usize), HpackError> {
        let name_len = match &self.name {
            LiteralName::Entry((entry, ring)) => {
                let len = usize::from(entry.name_len);
                if let Some(to) = to.get_mut(..len) {
                    copy_from_ring(ring, entry.at.into(), to);
                }
                len
            }
            LiteralName::String(name) => name.decode(to)?,
        };
        let value_len = self.value.decode(to.get_mut(name_len..).unwrap_or_default())?;
        Ok((name_len, name_len + value_len))
    }
}

/// A string in a block. RFC 7541, section 5.2.
#[derive(Clone, Copy)]
struct StringLiteral<'a> {
    bytes: &'a [u8],
    has_huffman_code: bool,
}

impl<'a> StringLiteral<'a> {
    /// Finds the string at `at`, and moves `at` to its end. `None`: it is incomplete.
    #[inline(always)]
    fn parse(block: &'a [u8], at: &mut usize) -> Result<Option<StringLiteral<'a>>, HpackError> {
        let rest = &block[*at..];
        let Some((len, used)) = decode_integer(rest, 7)? else { return Ok(None) };
        let end = *at + used + len;
        if end > FIELD_REPRESENTATION_LEN_MAX {
            return Err(HpackError::TooLong);
        }
        let Some(bytes) = rest.get(used..used + len) else { return Ok(None) };
        *at = end;
        Ok(Some(StringLiteral { bytes, has_huffman_code: rest[0] & HUFFMAN != 0 }))
    }

    /// Decodes the string to the front of `to`. Returns its length; if that exceeds the length of `to`, not all is decoded.
    #[inline(always)]
    fn decode(&self, to: &mut [u8]) -> Result<usize, HpackError> {
        if self.has_huffman_code {
            return huffman_decoder::decode(self.bytes, to);
        }
        if let Some(to) = to.get_mut(..self.bytes.len()) {
            to.copy_from_slice(self.bytes);
        }
        Ok(self.bytes.len())
    }
}

/// The bits of the pattern of an update.
const UPDATE_MASK: u8 = 0xe0;
