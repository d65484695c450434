//! The reasons to refuse a field block.

/// The reason to refuse a field block. The dynamic tables of client and server differ from then on, so the error is one of the connection:
/// `COMPRESSION_ERROR`; RFC 9113, section 4.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HpackError {
    /// An integer has more than five bytes: RFC 7541, section 5.1.
    Integer,
}
