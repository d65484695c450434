//! HPACK, the compression of fields in HTTP/2. RFC 7541.
//!
//! | file | contents |
//! |---|---|
//! | `encode` | encodes a field without the dynamic table |
//! | `static_table` | the static table |
//! | `huffman` | encodes strings with the Huffman code |
//! | `huffman_code` | the Huffman code |
//! | `integer` | integers |
//! | `error` | the reasons to refuse a block |

mod encode;
mod error;
mod huffman;
mod huffman_code;
mod integer;
mod static_table;

pub use encode::encode_field;
pub use error::HpackError;
pub use integer::decode_integer;

/// The bit of a field that is an index alone. RFC 7541, section 6.1.
pub const INDEXED: u8 = 0x80;
/// The bit of a string that has the Huffman code. RFC 7541, section 5.2.
const HUFFMAN: u8 = 0x80;
