//! What is known about one path, or one status: places, checked to lie within the image.
//!
//! ```text
//! run_at
//! ├─ fields of 304 ─┼─ fields of 200 ─┼ content, if small ┤
//!    └ etag ┘
//! ```

use crate::format::{Coding, Home, Kind, PageRow, RECORD_LEN, Record, VARIANT_COUNT_MAX, VARIANT_LEN};
use crate::framing::LOCATION;
use crate::image::Image;
use crate::place::Place;

/// What lies at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A file.
    File(Variants),
    /// Another path, to which the client is sent with 301.
    Redirect(Redirect),
}

/// The representations of a file, of which a client gets one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variants {
    /// The one without a content coding.
    pub identity: Variant,
    /// Where the others lie, with the head of their record before.
    coded: Place,
    /// The status a rule sends it with. None: it is what lies at the path, without a rule.
    pub ruled: Option<u16>,
    /// Whether a rule may come first.
    pub asks: bool,
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
    /// Which response of the image it is: see [`Image::is_framed`](crate::Image::is_framed).
    pub(crate) number: usize,
}

/// A coded representation: what a choice needs to know of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Its content coding.
    pub coding: Coding,
    /// Bytes of its content.
    pub len: u64,
    /// Which of the coded ones it is.
    number: usize,
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
        /// From the start of the file, in bytes.
        at: u64,
        /// In bytes.
        len: u64,
    },
    /// In the archive beside the image: a place there, within [`Image::archive_len`](crate::Image::archive_len).
    Archive(Place),
}

/// The answer where a path means another one. RFC 9110, section 15.4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// The status, if a rule tells one; otherwise it is 301.
    pub ruled: Option<u16>,
    /// Whether another rule may come first.
    pub asks: bool,
    /// Fields up to the end of the target of Location; the query of the request goes in behind. Empty: it does not.
    pub before_query: Place,
    /// The rest of the fields, with the empty line.
    pub after_query: Place,
    /// The content.
    pub content: Place,
    /// Which response of the image it is: see [`Image::is_redirect_framed`](crate::Image::is_redirect_framed).
    pub(crate) number: usize,
}

/// The answer that is about no file: one for each status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// Fields, with the empty line.
    pub fields: Place,
    /// The content.
    pub content: Place,
}

/// What an image has, and what lies beside it: all that a record can name.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    /// Bytes of the image.
    pub(crate) len: u64,
    /// Files beside it.
    pub(crate) file_count: u64,
    /// Bytes of the archive beside it.
    pub(crate) archive_len: u64,
}

impl Entry {
    /// The entry that the record at `at` means, to which the slot of this number leads. None if any of it lies out of bounds; but
    /// its coded variants are looked at only when they are asked for.
    #[inline]
    pub(crate) fn new(record: &Record, at: u64, slot: usize, bounds: Bounds) -> Option<Entry> {
        if record.coding != Coding::Identity {
            return None;
        }
        let ruled = matches!(record.kind, Kind::RuledFile | Kind::RuledRedirect).then_some(record.status);
        let asks = record.asks;
        let number = slot * usize::from(VARIANT_COUNT_MAX);
        match record.kind {
            Kind::File | Kind::RuledFile => {
                let coded_len = u64::from(record.variant_count - 1) * VARIANT_LEN as u64;
                Some(Entry::File(Variants {
                    identity: Variant::new(record, number, bounds)?,
                    coded: Place { at: at + RECORD_LEN as u64, len: coded_len },
                    ruled,
                    asks,
                }))
            }
            Kind::Redirect | Kind::RuledRedirect if record.variant_count == 1 => {
                let redirect = Redirect::new(record, number, bounds.len)?;
                Some(Entry::Redirect(Redirect { ruled, asks, ..redirect }))
            }
            Kind::Redirect | Kind::RuledRedirect => None,
        }
    }

    /// Whether a rule may come before what is here.
    #[inline]
    pub fn asks(&self) -> bool {
        match self {
            Entry::File(variants) => variants.asks,
            Entry::Redirect(redirect) => redirect.asks,
        }
    }
}

impl Variants {
    /// Whether there is no choice.
    #[inline]
    pub fn is_one(&self) -> bool {
        self.coded.len == 0
    }

    /// Where the run of the first one lies: no other file has it.
    pub(crate) fn file_at(&self) -> u64 {
        self.identity.not_modified.at
    }

    /// The coded ones, as they lie in the image of these bytes. One that has a coding this version does not know, or
    /// one that wants a dictionary, is passed over.
    #[inline]
    pub(crate) fn offers(self, all: &[u8]) -> impl Iterator<Item = Offer> {
        let rows = all[self.coded.range()].as_chunks::<VARIANT_LEN>().0;
        let offers = rows.iter().zip(0..).filter_map(|(row, number)| {
            let (coding, len) = Record::offer(row)?;
            Some(Offer { coding, len, number })
        });
        offers.filter(|offer| matches!(offer.coding, Coding::Br | Coding::Gzip | Coding::Zstd))
    }

    /// One of them. None if it is damaged.
    #[inline]
    pub(crate) fn taken(self, offer: Offer, all: &[u8], bounds: Bounds) -> Option<Variant> {
        let row = &all[self.coded.range()].as_chunks::<VARIANT_LEN>().0[offer.number];
        let head = &all[(self.coded.at as usize - RECORD_LEN)..][..RECORD_LEN - VARIANT_LEN];
        let mut bytes = [0; RECORD_LEN];
        bytes[..head.len()].copy_from_slice(head);
        bytes[head.len()..].copy_from_slice(row);
        Variant::new(&Record::decode(&bytes)?, self.identity.number + 1 + offer.number, bounds)
    }
}

impl Variant {
    /// The variant a record of a file is given with.
    #[inline]
    pub(crate) fn new(record: &Record, number: usize, bounds: Bounds) -> Option<Variant> {
        let (not_modified, fields) = run(record, bounds.len)?;
        let etag =
            Place { at: record.etag_at.into(), len: record.etag_len.into() }.within(not_modified.len)?;
        let content = Place { at: record.content_at, len: record.content_len };
        let content = match record.home {
            Home::Image => Content::Image(content.within(bounds.len)?),
            Home::File if content.at < bounds.file_count => {
                Content::File { number: u32::try_from(content.at).ok()?, at: 0, len: content.len }
            }
            Home::File => return None,
            Home::Archive => Content::Archive(content.within(bounds.archive_len)?),
        };
        Some(Variant {
            fields,
            not_modified,
            etag: Place { at: not_modified.at + etag.at, len: etag.len },
            last_modified: record.last_modified,
            content,
            number,
        })
    }
}

impl Content {
    /// In bytes.
    #[expect(clippy::len_without_is_empty, reason = "an empty content is one like any other")]
    #[inline]
    pub fn len(&self) -> u64 {
        match *self {
            Content::Image(place) | Content::Archive(place) => place.len,
            Content::File { len, .. } => len,
        }
    }

    /// The part of it that begins at `at` and has `len` bytes.
    ///
    /// # Panics
    /// If there is no such part.
    pub fn part(self, at: u64, len: u64) -> Content {
        assert!(at <= self.len() && len <= self.len() - at, "a part lies within its content");
        let within = |place: Place| Place { at: place.at + at, len };
        match self {
            Content::Image(place) => Content::Image(within(place)),
            Content::File { number, at: from, .. } => Content::File { number, at: from + at, len },
            Content::Archive(place) => Content::Archive(within(place)),
        }
    }
}

impl Redirect {
    /// Whether its fields go behind a Location that is written before them.
    pub fn is_behind_location(&self, image: &Image) -> bool {
        image.is_redirect_framed(self) && !image.read(self.after_query).starts_with(LOCATION)
    }

    /// The redirect a record means.
    #[inline]
    fn new(record: &Record, number: usize, len: u64) -> Option<Redirect> {
        let (_, fields) = run(record, len)?;
        let before = Place { at: 0, len: record.before_query.into() }.within(fields.len)?.len;
        if record.home != Home::Image {
            return None;
        }
        Some(Redirect {
            ruled: None,
            asks: false,
            before_query: Place { at: fields.at, len: before },
            after_query: Place { at: fields.at + before, len: fields.len - before },
            content: Place { at: record.content_at, len: record.content_len }.within(len)?,
            number,
        })
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

/// The fields of 304, and behind them those of 200 or 301.
#[inline]
fn run(record: &Record, len: u64) -> Option<(Place, Place)> {
    let split = u64::from(record.not_modified_len);
    let run = Place { at: record.run_at, len: split + u64::from(record.fields_len) }.within(len)?;
    let not_modified = Place { at: run.at, len: split };
    let fields = Place { at: run.at + split, len: run.len - split };
    Some((not_modified, fields))
}
