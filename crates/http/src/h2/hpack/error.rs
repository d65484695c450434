//! The reasons to refuse a field block.

use crate::h2::ErrorCode;

/// The reason to refuse a field block. The dynamic tables of client and server differ then, so the connection ends: RFC 9113, section
/// 4.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HpackError {
    /// An integer has more than five bytes: RFC 7541, section 5.1.
    Integer,
    /// An index is 0, or greater than the tables are long: RFC 7541, sections 2.3.3 and 6.1.
    Index,
    /// A string with the Huffman code is padded with more than seven bits or other bits than ones, or contains EOS: RFC 7541, section 5.2.
    Huffman,
    /// An update sets the size of the dynamic table above the maximum: RFC 7541, section 6.3.
    UpdateSize,
    /// An update of the size of the dynamic table follows a field, or two other updates: RFC 7541, section 4.2.
    UpdatePlace,
    /// A field is not complete within [`FIELD_REPRESENTATION_LEN_MAX`](super::FIELD_REPRESENTATION_LEN_MAX) bytes, or too
    /// many fields follow those that a section has room for: RFC 9113, section 10.5.1.
    TooLong,
    /// The block ends within a field: RFC 9113, section 4.3.
    Incomplete,
}

impl HpackError {
    /// Returns the code to send in GOAWAY.
    #[must_use]
    pub fn code(self) -> ErrorCode {
        match self {
            HpackError::TooLong => ErrorCode::ENHANCE_YOUR_CALM,
            HpackError::Integer
            | HpackError::Index
            | HpackError::Huffman
            | HpackError::UpdateSize
            | HpackError::UpdatePlace
            | HpackError::Incomplete => ErrorCode::COMPRESSION_ERROR,
        }
    }
}
