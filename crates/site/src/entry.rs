//! The entry of a path: the variants of a file, or a redirect. All its regions are checked to be within the image.
//!
//! ```text
//! fields_at
//! ├─ fields of 200 ─┬─ those of 304 ─┼ content, if small ┤
//!                   └ etag ┘
//! ```

use crate::field_block::FieldBlock;
use crate::format::{Coding, EntryRecord, RECORD_LEN, RecordKind, StatusPageRow, Storage, VARIANT_LEN};
use crate::region::Region;

/// The entry of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A file.
    File(Variants),
    /// A redirect to another path.
    Redirect(Redirect),
}

/// The representations of a file, of which a client gets one. RFC 9110, section 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variants {
    /// The variant without a content coding.
    pub identity: Variant,
    /// The rows of the other variants, which follow the head of their record.
    coded: Region,
    /// The status with which a rule sends the file; `None` if no rule is involved.
    pub rule_status: Option<u16>,
    /// Whether the server must evaluate the [rules](crate::rules) before it sends the file.
    pub checks_rules: bool,
}

/// A representation of a file: the parts of the responses to a GET.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// The fields of a 200 response, including the empty line. A small content follows them directly.
    fields: Region,
    /// The length of the fields of a 304 response, which are the last of these.
    not_modified_len: u32,
    /// The entity tag, including its quotes. RFC 9110, section 8.8.3.
    pub etag: Region,
    /// The time of the last modification, in seconds since 1970.
    pub last_modified: u64,
    /// The content.
    pub content: Content,
    /// The number of this response in the image; see [`Image::is_framed`](crate::Image::is_framed).
    pub(crate) number: usize,
}

/// A coded variant, as much of it as content negotiation needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VariantOffer {
    /// The content coding.
    pub coding: Coding,
    /// The length of the content in bytes.
    pub len: u64,
    /// The index among the coded variants.
    number: usize,
}

/// The location of a content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// In the image.
    Image(Region),
    /// In a file beside the image.
    File {
        /// The number of the file; less than [`Image::file_count`](crate::Image::file_count).
        number: u32,
        /// The offset from the start of the file.
        at: u64,
        /// The length in bytes.
        len: u64,
    },
    /// In the archive of the site. The region is within [`Image::archive_len`](crate::Image::archive_len).
    Archive(Region),
}

/// A redirect. RFC 9110, section 15.4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// The status that a rule sets; `None` means 301.
    pub rule_status: Option<u16>,
    /// Whether the server must evaluate the [rules](crate::rules) before it sends the redirect.
    pub checks_rules: bool,
    /// The fields, including the empty line.
    fields: Region,
    /// The length of the fields up to the end of the Location target. 0 if the server must not insert a query.
    before_query_len: u32,
    /// The content.
    pub content: Region,
    /// The number of this response in the image; see [`Image::is_redirect_framed`](crate::Image::is_redirect_framed).
    pub(crate) number: usize,
}

/// The response for a status, such as 404, that needs no file of the site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusPage {
    /// The fields, including the empty line.
    pub fields: FieldBlock,
    /// The content.
    pub content: Region,
}

/// The sizes that limit the offsets in a record.
#[derive(Clone, Copy)]
pub(crate) struct ImageBounds {
    /// The length of the image.
    pub(crate) len: u64,
    /// The number of files beside the image.
    pub(crate) file_count: u64,
    /// The length of the archive of the site.
    pub(crate) archive_len: u64,
}

impl Entry {
    /// Creates the entry of the record at `at`, whose first response has this number. Returns `None` if the record is out of bounds; coded
    /// variants are checked when they are used.
    pub(crate) fn new(record: &EntryRecord, at: u64, number: usize, bounds: ImageBounds) -> Option<Entry> {
        if record.coding != Coding::Identity {
            return None;
        }
        let ruled =
            matches!(record.kind, RecordKind::RuleFile | RecordKind::RuleRedirect).then_some(record.status);
        let asks = record.checks_rules;
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

    /// Returns whether the server must evaluate the [rules](crate::rules) before it uses this entry.
    #[inline]
    pub fn checks_rules(&self) -> bool {
        match self {
            Entry::File(variants) => variants.checks_rules,
            Entry::Redirect(redirect) => redirect.checks_rules,
        }
    }
}

impl Variants {
    /// Returns whether the file has no coded variant.
    #[inline]
    pub fn is_single(&self) -> bool {
        self.coded.len == 0
    }

    /// Returns the offset of the first variant's fields, which identifies the file.
    pub(crate) fn file_at(&self) -> u64 {
        self.identity.fields.at
    }

    /// Returns the coded variants in the image `all`, in its order. Skips variants with an unknown coding and those that need a
    /// dictionary.
    #[inline]
    pub(crate) fn offers(self, all: &[u8]) -> impl Iterator<Item = VariantOffer> {
        VariantOffer::of_rows(all[self.coded.range()].as_chunks().0)
    }

    /// Returns the variant of an offer, or `None` if it is damaged.
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

impl VariantOffer {
    /// Returns the offers of the rows of coded variants. Skips variants with an unknown coding and those that need a dictionary.
    #[inline]
    pub(crate) fn of_rows(rows: &[[u8; VARIANT_LEN]]) -> impl Iterator<Item = VariantOffer> {
        let offers = rows.iter().zip(0..).filter_map(|(row, number)| {
            let (coding, len) = EntryRecord::decode_offer(row)?;
            Some(VariantOffer { coding, len, number })
        });
        offers.filter(|offer| matches!(offer.coding, Coding::Br | Coding::Gzip | Coding::Zstd))
    }

    /// Returns the index among the coded variants.
    #[inline]
    pub(crate) fn number(self) -> usize {
        self.number
    }
}

impl Variant {
    /// Creates the variant of a record, or returns `None` if it is out of bounds.
    #[inline]
    pub(crate) fn new(record: &EntryRecord, number: usize, bounds: ImageBounds) -> Option<Variant> {
        let fields = field_region(record, bounds.len)?;
        let not_modified_at = fields.at + fields.len.checked_sub(record.not_modified_len.into())?;
        let etag = Region { at: record.etag_at.into(), len: record.etag_len.into() }
            .within(record.not_modified_len.into())?;
        let content = Region { at: record.content_at, len: record.content_len };
        let content = Content::new(record.storage, content, bounds)?;
        Some(Variant {
            fields,
            not_modified_len: record.not_modified_len,
            etag: Region { at: not_modified_at + etag.at, len: etag.len },
            last_modified: record.last_modified,
            content,
            number,
        })
    }

    /// Returns the fields of a 200 response, including the empty line. A small content follows their text directly.
    #[inline]
    pub fn fields(&self) -> FieldBlock {
        FieldBlock::new(self.fields, self.number)
    }

    /// Returns the fields of a 304 response, including the empty line; empty for a variant that is sent as an error.
    #[inline]
    pub fn not_modified(&self) -> FieldBlock {
        // The field of the record has 32 bits.
        self.fields().skip(self.fields.len as u32 - self.not_modified_len)
    }
}

impl Content {
    /// Creates the content at a region of its storage; for a file, `region.at` is its number. Returns `None` if the content is out of bounds.
    #[inline(always)]
    pub(crate) fn new(storage: Storage, region: Region, bounds: ImageBounds) -> Option<Content> {
        Some(match storage {
            Storage::Image => Content::Image(region.within(bounds.len)?),
            Storage::File if region.at < bounds.file_count => {
                Content::File { number: u32::try_from(region.at).ok()?, at: 0, len: region.len }
            }
            Storage::File => return None,
            Storage::Archive => Content::Archive(region.within(bounds.archive_len)?),
        })
    }

    /// Returns the length in bytes.
    #[expect(clippy::len_without_is_empty, reason = "an empty content needs no special case")]
    #[inline]
    pub fn len(&self) -> u64 {
        match *self {
            Content::Image(region) | Content::Archive(region) => region.len,
            Content::File { len, .. } => len,
        }
    }

    /// Returns the part of the content that begins at `at` and has `len` bytes.
    ///
    /// # Panics
    /// Panics if the part exceeds the content.
    pub fn part(self, at: u64, len: u64) -> Content {
        assert!(at <= self.len() && len <= self.len() - at, "a part lies within its content");
        let within = |region: Region| Region { at: region.at + at, len };
        match self {
            Content::Image(region) => Content::Image(within(region)),
            Content::File { number, at: from, .. } => Content::File { number, at: from + at, len },
            Content::Archive(region) => Content::Archive(within(region)),
        }
    }
}

impl Redirect {
    /// Creates the redirect of a record, or returns `None` if it is out of bounds.
    #[inline]
    fn new(record: &EntryRecord, number: usize, len: u64) -> Option<Redirect> {
        let fields = field_region(record, len)?;
        if record.before_query > record.fields_len {
            return None;
        }
        if record.storage != Storage::Image {
            return None;
        }
        Some(Redirect {
            rule_status: None,
            checks_rules: false,
            fields,
            before_query_len: record.before_query,
            content: Region { at: record.content_at, len: record.content_len }.within(len)?,
            number,
        })
    }

    /// Returns the fields, including the empty line.
    #[inline]
    pub fn fields(&self) -> FieldBlock {
        FieldBlock::new(self.fields, self.number)
    }

    /// Returns the fields up to the end of the Location target, after which the server inserts the query of the request. Empty if the
    /// server must not insert it.
    #[inline]
    pub fn before_query(&self) -> Region {
        Region { len: self.before_query_len.into(), ..self.fields }
    }

    /// Returns the rest of the fields, including the empty line. Their text may begin with the fragment of the target; their HPACK block
    /// does not have Location.
    #[inline]
    pub fn after_query(&self) -> FieldBlock {
        self.fields().skip(self.before_query_len)
    }
}

impl StatusPage {
    /// Creates the page of a row in an image of `len` bytes, or returns `None` if it is out of bounds.
    pub(crate) fn new(row: &StatusPageRow, len: u64) -> Option<StatusPage> {
        Some(StatusPage {
            fields: FieldBlock::checked(
                Region { at: row.fields_at, len: row.fields_len.into() }.within(len)?,
            ),
            content: Region { at: row.content_at, len: row.content_len }.within(len)?,
        })
    }
}

/// Returns the fields of the 200 response or redirect.
#[inline(always)]
fn field_region(record: &EntryRecord, len: u64) -> Option<Region> {
    Region { at: record.fields_at, len: record.fields_len.into() }.within(len)
}
