//! What is known about one path, or one status: places, checked to lie within the image.
//!
//! ```text
//! run_at
//! ├─ fields of 304 ─┼─ fields of 200 ─┼ content, if small ┤
//!    └ etag ┘
//! ```

use crate::format::{Home, Kind, PageRow, Record};
use crate::place::Place;

/// What lies at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A representation.
    File(Variant),
    /// Another path, to which the client is sent with 301.
    Redirect(Redirect),
}

/// A representation: what answers a GET.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// Fields of 200, with the empty line. A small content lies right behind.
    pub fields: Place,
    /// Fields of 304, with the empty line.
    pub not_modified: Place,
    /// The entity-tag, with its quotes. RFC 9110, section 8.8.3.
    pub etag: Place,
    /// Seconds since 1970.
    pub last_modified: u64,
    /// The content.
    pub content: Content,
}

/// Where a content lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// In the image.
    Image(Place),
    /// In a file beside the image.
    File {
        /// Which of the files; less than [`Image::file_count`](crate::Image::file_count).
        number: u32,
        /// In bytes.
        len: u64,
    },
}

/// The answer where a path means another one. RFC 9110, section 15.4.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// Fields up to the end of the target of Location; the query of the request goes in behind.
    pub before_query: Place,
    /// The rest of the fields, with the empty line.
    pub after_query: Place,
    /// The content.
    pub content: Place,
}

/// The answer that is about no file: one for each status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// Fields, with the empty line.
    pub fields: Place,
    /// The content.
    pub content: Place,
}

impl Entry {
    /// The entry a record means, in an image of `len` bytes with `file_count` files beside it. None if any of
    /// it lies elsewhere.
    #[inline]
    pub(crate) fn new(record: &Record, len: u64, file_count: u64) -> Option<Entry> {
        let split = u64::from(record.not_modified_len);
        let run = Place { at: record.run_at, len: split + u64::from(record.fields_len) }.within(len)?;
        let not_modified = Place { at: run.at, len: split };
        let fields = Place { at: run.at + split, len: run.len - split };
        let content = Place { at: record.content_at, len: record.content_len };
        match record.kind {
            Kind::File => {
                let etag = Place { at: record.etag_at.into(), len: record.etag_len.into() }.within(split)?;
                let content = match record.home {
                    Home::Image => Content::Image(content.within(len)?),
                    Home::File if content.at < file_count => {
                        Content::File { number: u32::try_from(content.at).ok()?, len: content.len }
                    }
                    Home::File => return None,
                };
                Some(Entry::File(Variant {
                    fields,
                    not_modified,
                    etag: Place { at: run.at + etag.at, len: etag.len },
                    last_modified: record.last_modified,
                    content,
                }))
            }
            Kind::Redirect => {
                let before = Place { at: 0, len: record.before_query.into() }.within(fields.len)?.len;
                if record.home != Home::Image {
                    return None;
                }
                Some(Entry::Redirect(Redirect {
                    before_query: Place { at: fields.at, len: before },
                    after_query: Place { at: fields.at + before, len: fields.len - before },
                    content: content.within(len)?,
                }))
            }
        }
    }
}

impl Page {
    /// The page a row means, in an image of `len` bytes. None if any of it lies elsewhere.
    pub(crate) fn new(row: &PageRow, len: u64) -> Option<Page> {
        Some(Page {
            fields: Place { at: row.fields_at, len: row.fields_len.into() }.within(len)?,
            content: Place { at: row.content_at, len: row.content_len }.within(len)?,
        })
    }
}
