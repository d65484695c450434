//! HPACK, the compression of fields in HTTP/2. RFC 7541.
//!
//! ```text
//! block ─ HpackDecoder ─┬─▶ FieldSection, bytes of names and values
//!           static table, dynamic table
//!
//! name, value ─ encode_field ─▶ block          without the dynamic table: the same for all connections
//! that block ── HpackEncoder ─▶ block          with the dynamic table of a client
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
//! | `packed_field` | splits such a block into its fields |
//! | `encoder` | encodes such a block with the dynamic table of a client |
//! | `error` | the reasons to refuse a block |

mod decoder;
mod dynamic_table;
mod encode;
mod encoder;
mod error;
mod field_section;
mod huffman;
mod huffman_code;
mod huffman_decoder;
mod integer;
mod packed_field;
mod static_table;
#[cfg(test)]
mod tests;

pub use decoder::{FIELD_REPRESENTATION_LEN_MAX, HpackDecoder};
pub use dynamic_table::{FIELD_OVERHEAD, HEADER_TABLE_SIZE};
pub use encode::encode_field;
pub use encoder::{HpackEncoder, SIZE_UPDATES_LEN_MAX};
pub use error::HpackError;
pub use field_section::{
    FIELD_COUNT_BEYOND_MAX, FieldSection, SECTION_FIELD_COUNT_MAX, SECTION_SIZE_MAX, SIZE_BEYOND_MAX,
    SectionBytes,
};
pub use packed_field::{PackedField, PackedLiteral, split_field};

/// The bit of a field that is an index alone. RFC 7541, section 6.1.
const INDEXED: u8 = 0x80;
/// The bit of a string that has the Huffman code. RFC 7541, section 5.2.
const HUFFMAN: u8 = 0x80;
/// The bit of a literal that is added to the dynamic table. RFC 7541, section 6.2.1.
const ADDED: u8 = 0x40;
/// The pattern of an update of the size of the dynamic table. RFC 7541, section 6.3.
const UPDATE: u8 = 0x20;
/// The bits that a literal without indexing does not have. RFC 7541, section 6.2.2.
const LITERAL_MASK: u8 = 0xf0;
