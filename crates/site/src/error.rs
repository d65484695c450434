//! The reasons to refuse an image.

use crate::format::VERSION;
use std::fmt;

/// The reason to refuse an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageError {
    /// The bytes do not begin with the magic number of an image.
    Magic,
    /// The image has another version of the format, or a header of another length.
    Version {
        /// The version of the image.
        found: u32,
    },
    /// The checksum of the header is wrong.
    HeaderHash,
    /// The length differs from that in the header.
    Length,
    /// The index has an invalid offset or size.
    Index,
    /// The status pages have an invalid offset, one of them is outside of the image, its fields do not frame its content, or it has no
    /// HPACK block.
    Pages,
    /// The checksum of status pages and index is wrong.
    TablesHash,
    /// The page for one of [`STATUS_PAGE_CODES`](crate::STATUS_PAGE_CODES) is missing.
    PageMissing,
    /// The table of sections is outside of the image.
    Sections,
    /// The rules are outside of the image, their checksum is wrong, a rule is one that no packer writes, or their fields have no HPACK
    /// block.
    Rules,
    /// The paths that the access log leaves out are outside of the image, their checksum is wrong, or a row is one that no packer writes.
    LogPaths,
    /// The length of the packed site differs from that in the header of its image.
    ArchiveLength,
    /// The image refers to files beside it, which a packed site does not have.
    Files,
}

impl fmt::Display for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ImageError::Magic => "not a site image",
            ImageError::Version { found } => {
                return write!(
                    f,
                    "packed in version {found} of the format, and this program reads version {VERSION}; pack the site again: tarpon pack"
                );
            }
            ImageError::HeaderHash => "the header is damaged",
            ImageError::Length => "cut short, or something was appended",
            ImageError::Index => "the index is out of bounds",
            ImageError::Pages => "the status pages are out of bounds or forged",
            ImageError::TablesHash => "the index or the status pages are damaged",
            ImageError::PageMissing => "a status page is missing",
            ImageError::Sections => "the sections are out of bounds",
            ImageError::Rules => "the rules are damaged or forged",
            ImageError::LogPaths => "the paths that the access log leaves out are damaged or forged",
            ImageError::ArchiveLength => "the archive is cut short, or something was appended to it",
            ImageError::Files => "the image refers to files beside the archive",
        })
    }
}

impl std::error::Error for ImageError {}
