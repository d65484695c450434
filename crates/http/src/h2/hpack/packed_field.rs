//! The fields of a block that [`encode_field`](super::encode_field) has written, field by field, without decoding them.

use super::integer::decode_integer;
use super::static_table::STATIC_ENTRIES;
use super::{HUFFMAN, INDEXED, LITERAL_MASK};

/// A field of a block that uses no dynamic table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackedField<'a> {
    /// A byte with an index of the static table.
    Indexed(u8),
    /// A literal without indexing.
    Literal(PackedLiteral<'a>),
}

/// A literal without indexing. RFC 7541, section 6.2.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedLiteral<'a> {
    /// All its bytes.
    pub(super) bytes: &'a [u8],
    /// The index of its name in the static table, or 0.
    pub(super) index: u8,
    /// The offset of what follows the index.
    pub(super) strings_at: u8,
    /// The maximum length of name and value.
    pub(super) text_len_max: u32,
}

/// Splits the first field off a block. Returns `None` at the end of the block, and before what [`encode_field`](super::encode_field) does not write.
#[inline]
pub fn split_field(block: &[u8]) -> Option<(PackedField<'_>, &[u8])> {
    let first = *block.first()?;
    if first & INDEXED != 0 {
        let is_static = usize::from(first & !INDEXED) <= STATIC_ENTRIES.len() && first != INDEXED;
        return is_static.then_some((PackedField::Indexed(first), &block[1..]));
    }
    if first & LITERAL_MASK != 0 {
        return None;
    }
    let (index, strings_at) = decode_integer(block, 4).ok()??;
    let mut end = strings_at;
    let name_len = match index {
        0 => split_string(block, &mut end)?,
        index => STATIC_ENTRIES.get(index - 1)?.name_len.into(),
    };
    let text_len_max = (name_len + split_string(block, &mut end)?) as u32;
    let (bytes, rest) = block.split_at(end);
    let literal = PackedLiteral { bytes, index: index as u8, strings_at: strings_at as u8, text_len_max };
    Some((PackedField::Literal(literal), rest))
}

/// Moves `at` behind a string. Returns the maximum length of its text.
#[inline]
fn split_string(block: &[u8], at: &mut usize) -> Option<usize> {
    let rest = block.get(*at..)?;
    let (string_len, len) = decode_integer(rest, 7).ok()??;
    *at += len + string_len;
    if *at > block.len() {
        return None;
    }
    let has_code = rest[0] & HUFFMAN != 0;
    Some(if has_code { string_len * 8 / CODE_LEN_MIN } else { string_len })
}

/// The length in bits of the shortest codes of the Huffman code. RFC 7541, appendix B.
const CODE_LEN_MIN: usize = 5;

#[cfg(test)]
mod tests {
    extern crate std;
    use std::vec::Vec;

    use super::*;
    use crate::h2::hpack::encode_field;

    #[test]
    #[rustfmt::skip]
    fn field_is_split_where_it_ends() {
        let cases: &[(&str, &str, &str)] = &[
            // case                    name               value
            ("indexed",                ":method",         "GET"),
            ("name indexed",           "Vary",            "X"),
            ("name not indexed",       "X-A",             "~"),
            ("with the Huffman code",  "x-aaaaaaaa",      "00000000"),
            ("beyond ASCII",           "etag",            "\u{e9}"),
        ];
        for &(case, name, value) in cases {
            let mut block = Vec::new();
            encode_field(name.as_bytes(), value.as_bytes(), &mut |byte| block.push(byte));
            let len = block.len();
            for cut in 0..len {
                assert_eq!(split_field(&block[..cut]), None, "{case}, {cut} bytes");
            }
            block.push(7);
            let (field, rest) = split_field(&block).expect(case);
            assert_eq!(rest, [7], "{case}");
            match field {
                PackedField::Indexed(index) => assert_eq!(([index].as_slice(), 1), (&block[..len], len), "{case}"),
                PackedField::Literal(literal) => {
                    assert_eq!(literal.bytes.len(), len, "{case}");
                    assert!(literal.text_len_max as usize >= name.len() + value.len(), "{case}");
                }
            }
        }
    }

    #[test]
    #[rustfmt::skip]
    fn what_the_encoder_does_not_write_is_left() {
        let cases: &[(&str, &[u8])] = &[
            ("nothing",                    &[]),
            ("index 0",                    &[0x80]),
            ("an index of another table",  &[0x80 | 62]),
            ("a long index",               &[0xff, 0]),
            ("a literal with indexing",    &[0x40, 1, b'x', 0]),
            ("a literal never indexed",    &[0x10, 1, b'x', 0]),
            ("a change of the size",       &[0x20]),
            ("a name of another table",    &[0x0f, 47, 0]),
        ];
        for &(case, block) in cases {
            assert_eq!(split_field(block), None, "{case}");
        }
    }
}
