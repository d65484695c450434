//! HPACK, the compression of fields in HTTP/2. RFC 7541.
//!
//! ```text
//! block ─ HpackDecoder ─┬─▶ FieldSection, bytes of names and values
//!           static table, dynamic table
//!
//! name, value ─ encode_field ─▶ block          without the dynamic table
//! ```
//!
//! | file | contents |
//! |---|---|
//! | `decoder` | decodes blocks |
//! | `field_section` | the fields of a block, by their places |
//! | `dynamic_table` | the fields that a client may name by index |
//! | `static_table` | those that it always may |
//! | `huffman_decoder` | decodes strings with the Huffman code |
//! | `huffman` | encodes such strings |
//! | `huffman_code` | the code |
//! | `integer` | integers |
//! | `encode` | encodes a field without the dynamic table |
//! | `error` | the reasons to refuse a block |

mod decoder;
mod dynamic_table;
mod encode;
mod error;
mod field_section;
mod huffman;
mod huffman_code;
mod huffman_decoder;
mod integer;
mod static_table;
#[cfg(test)]
mod tests;

pub use decoder::{FIELD_REPRESENTATION_LEN_MAX, HpackDecoder};
pub use dynamic_table::{FIELD_OVERHEAD, HEADER_TABLE_SIZE};
pub use encode::encode_field;
pub use error::HpackError;
pub use field_section::{
    FieldSection, SECTION_FIELD_COUNT_MAX, SECTION_SIZE_MAX, SIZE_BEYOND_MAX, SectionBytes,
};
pub use integer::decode_integer;

/// The bit of a field that is an index alone. RFC 7541, section 6.1.
pub const INDEXED: u8 = 0x80;
/// The bit of a string that has the Huffman code. RFC 7541, section 5.2.
const HUFFMAN: u8 = 0x80;
