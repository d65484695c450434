//! The errors of an image that cannot be served.

use std::fmt;

/// Why bytes are not an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageError {
    /// They do not begin as an image does.
    Magic,
    /// The version, or the length of the header, is not one we know.
    Version,
    /// The checksum of the header is wrong.
    HeaderHash,
    /// They are fewer or more than the header says.
    Length,
    /// The index is not where, or not as large as, an index can be.
    Index,
    /// The pages are not where pages can be, one lies elsewhere, or its fields do not frame it.
    Pages,
    /// The checksum of pages and index is wrong.
    TablesHash,
    /// There is no page for one of [`PAGE_CODES`].
    PageMissing,
    /// The rows of the sections lie elsewhere.
    Sections,
    /// The rules lie elsewhere, their checksum is wrong, or one says what no packer writes.
    Rules,
    /// The archive it is the first member of has another length than it had.
    ArchiveLength,
    /// It wants files beside it, which a packed site does not have.
    Files,
}

impl fmt::Display for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ImageError::Magic => "not a site image",
            ImageError::Version => "a site image of another version",
            ImageError::HeaderHash => "the header is damaged",
            ImageError::Length => "cut short, or something was appended",
            ImageError::Index => "the index is out of bounds",
            ImageError::Pages => "the pages are out of bounds, or forged",
            ImageError::TablesHash => "the index or the pages are damaged",
            ImageError::PageMissing => "a page is missing",
            ImageError::Sections => "the sections are out of bounds",
            ImageError::Rules => "the rules are damaged, or forged",
            ImageError::ArchiveLength => "the archive is cut short, or something was appended to it",
            ImageError::Files => "it wants files beside the archive",
        })
    }
}

impl std::error::Error for ImageError {}
