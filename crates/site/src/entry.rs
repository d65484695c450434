//! What is known about one path, or one status: places, checked to lie within the image.
//!
//! ```text
//! run_at
//! ├─ fields of 304 ─┼─ fields of 200 ─┼ content, if small ┤
//!    └ etag ┘
//! ```

use crate::format::{
    Coding, EntryRecord, RECORD_LEN, RecordKind, StatusPageRow, Storage, VARIANT_COUNT_MAX, VARIANT_LEN,
};
use crate::region::Region;

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
    coded: Region,
    /// The status a rule sends it with. None: it is what lies at the path, without a rule.
    pub rule_status: Option<u16>,
    /// Whether a rule may come first.
    pub checks_rules: bool,
}

/// A representation: what answers a GET.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// Fields of 200, with the empty line. A small content lies right behind.
    pub fields: Region,
    /// Fields of 304, with the empty line.
    pub not_modified: Region,
    /// The entity-tag, with its quotes. RFC 9110, section 8.8.3.
    pub etag: Region,
    /// Seconds since 1970.
    pub last_modified: u64,
    /// The content.
    pub content: Content,
    /// Which response of the image it is: see [`Image::is_framed`](crate::Image::is_framed).
    pub(crate) number: usize,
}

/// A coded representation: what a choice needs to know of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VariantOffer {
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
    Image(Region),
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
    Archive(Region),
}

/// The answer where a path means another one. RFC 9110, section 15.4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// The status, if a rule tells one; otherwise it is 301.
    pub rule_status: Option<u16>,
    /// Whether another rule may come first.
    pub checks_rules: bool,
    /// Fields up to the end of the target of Location; the query of the request goes in behind. Empty: it does not.
    pub before_query: Region,
    /// The rest of the fields, with the empty line.
    pub after_query: Region,
    /// The content.
    pub content: Region,
    /// Which response of the image it is: see [`Image::is_redirect_framed`](crate::Image::is_redirect_framed).
    pub(crate) number: usize,
}

/// The answer that is about no file: one for each status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusPage {
    /// Fields, with the empty line.
    pub fields: Region,
    /// The content.
    pub content: Region,
}

/// What an image has, and what lies beside it: all that a record can name.
#[derive(Clone, Copy)]
pub(crate) struct ImageBounds {
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
    pub(crate) fn new(record: &EntryRecord, at: u64, slot: usize, bounds: ImageBounds) -> Option<Entry> {
        if record.coding != Coding::Identity {
            return None;
        }
        let ruled =
            matches!(record.kind, RecordKind::RuleFile | RecordKind::RuleRedirect).then_some(record.status);
        let asks = record.checks_rules;
        let number = slot * usize::from(VARIANT_COUNT_MAX);
        match record.kind {
            RecordKind::File | RecordKind::RuleFile => {
                let coded_len = u64::from(record.variant_count - 1) * VARIANT_LEN as u64;
                Some(Entry::File(Variants {
                    identity: Variant::new(record, number, bounds)?,
                    coded: Region { at: at + RECORD_LEN as u64, len: coded_len },
                    rule_status: ruled,
                    checks_rules: asks,
                }))
            }
            RecordKind::Redirect | RecordKind::RuleRedirect if record.variant_count == 1 => {
                let redirect = Redirect::new(record, number, bounds.len)?;
                Some(Entry::Redirect(Redirect { rule_status: ruled, checks_rules: asks, ..redirect }))
            }
            RecordKind::Redirect | RecordKind::RuleRedirect => None,
        }
    }

    /// Whether a rule may come before what is here.
    #[inline]
    pub fn checks_rules(&self) -> bool {
        match self {
            Entry::File(variants) => variants.checks_rules,
            Entry::Redirect(redirect) => redirect.checks_rules,
        }
    }
}

impl Variants {
    /// Whether there is no choice.
    #[inline]
    pub fn is_single(&self) -> bool {
        self.coded.len == 0
    }

    /// Where the run of the first one lies: no other file has it.
    pub(crate) fn file_at(&self) -> u64 {
        self.identity.not_modified.at
    }

    /// The coded ones, as they lie in the image of these bytes. One that has a coding this version does not know, or
    /// one that wants a dictionary, is passed over.
    #[inline]
    pub(crate) fn offers(self, all: &[u8]) -> impl Iterator<Item = VariantOffer> {
        let rows = all[self.coded.range()].as_chunks::<VARIANT_LEN>().0;
        let offers = rows.iter().zip(0..).filter_map(|(row, number)| {
            let (coding, len) = EntryRecord::decode_offer(row)?;
            Some(VariantOffer { coding, len, number })
        });
        offers.filter(|offer| matches!(offer.coding, Coding::Br | Coding::Gzip | Coding::Zstd))
    }

    /// One of them. None if it is damaged.
    #[inline]
    pub(crate) fn variant(self, offer: VariantOffer, all: &[u8], bounds: ImageBounds) -> Option<Variant> {
        let row = &all[self.coded.range()].as_chunks::<VARIANT_LEN>().0[offer.number];
        let head = &all[(self.coded.at as usize - RECORD_LEN)..][..RECORD_LEN - VARIANT_LEN];
        let mut bytes = [0; RECORD_LEN];
        bytes[..head.len()].copy_from_slice(head);
        bytes[head.len()..].copy_from_slice(row);
        Variant::new(&EntryRecord::decode(&bytes)?, self.identity.number + 1 + offer.number, bounds)
    }
}

impl Variant {
    /// The variant a record of a file is given with.
    #[inline]
    pub(crate) fn new(record: &EntryRecord, number: usize, bounds: ImageBounds) -> Option<Variant> {
        let (not_modified, fields) = field_regions(record, bounds.len)?;
        let etag =
            Region { at: record.etag_at.into(), len: record.etag_len.into() }.within(not_modified.len)?;
        let content = Region { at: record.content_at, len: record.content_len };
        let content = match record.storage {
            Storage::Image => Content::Image(content.within(bounds.len)?),
            Storage::File if content.at < bounds.file_count => {
                Content::File { number: u32::try_from(content.at).ok()?, at: 0, len: content.len }
            }
            Storage::File => return None,
            Storage::Archive => Content::Archive(content.within(bounds.archive_len)?),
        };
        Some(Variant {
            fields,
            not_modified,
            etag: Region { at: not_modified.at + etag.at, len: etag.len },
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
        let within = |place: Region| Region { at: place.at + at, len };
        match self {
            Content::Image(place) => Content::Image(within(place)),
            Content::File { number, at: from, .. } => Content::File { number, at: from + at, len },
            Content::Archive(place) => Content::Archive(within(place)),
        }
    }
}

impl Redirect {
    /// The redirect a record means.
    #[inline]
    fn new(record: &EntryRecord, number: usize, len: u64) -> Option<Redirect> {
        let (_, fields) = field_regions(record, len)?;
        let before = Region { at: 0, len: record.before_query.into() }.within(fields.len)?.len;
        if record.storage != Storage::Image {
            return None;
        }
        Some(Redirect {
            rule_status: None,
            checks_rules: false,
            before_query: Region { at: fields.at, len: before },
            after_query: Region { at: fields.at + before, len: fields.len - before },
            content: Region { at: record.content_at, len: record.content_len }.within(len)?,
            number,
        })
    }
}

impl StatusPage {
    /// The page a row means, in an image of `len` bytes. None if any of it lies elsewhere.
    pub(crate) fn new(row: &StatusPageRow, len: u64) -> Option<StatusPage> {
        Some(StatusPage {
            fields: Region { at: row.fields_at, len: row.fields_len.into() }.within(len)?,
            content: Region { at: row.content_at, len: row.content_len }.within(len)?,
        })
    }
}

/// The fields of 304, and behind them those of 200 or 301.
#[inline]
fn field_regions(record: &EntryRecord, len: u64) -> Option<(Region, Region)> {
    let split = u64::from(record.not_modified_len);
    let run = Region { at: record.fields_at, len: split + u64::from(record.fields_len) }.within(len)?;
    let not_modified = Region { at: run.at, len: split };
    let fields = Region { at: run.at + split, len: run.len - split };
    Some((not_modified, fields))
}
