//! The layout of an image, for readers and writers. `docs/site-format.md` specifies it in prose.
//!
//! ```text
//! 0            128                                                                            len
//! ├── header ──┼── responses and records, in any order ──┼── sections ── status pages ── index ──┤
//!                   │
//!                   │   response:  [ place of the HPACK block, 8 ][ fields of 200 ][ content, if small ]
//!                   │                                    those of 304 ─┴───┘
//!                   └── record:    [ head and variant, 64 ][ coded variants, 48 each ][ path ]    aligned to 64
//! ```
//!
//! Each struct describes one element; `encode` and `decode` convert it to and from its bytes. Numbers are little-endian.
//! `decode` checks single values; [`Image`](crate::Image) and `entry.rs` check offsets and lengths.

use crate::error::ImageError;
use crate::region::Region;
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_64;

/// The magic number at the start of an image.
pub const MAGIC: [u8; 8] = *b"tarpon\0\x01";
/// The version of the layout.
pub const VERSION: u32 = 2;
/// The length of the header, and so the lowest offset of a response or record.
pub const HEADER_LEN: usize = 128;
/// The length of an index slot.
pub const SLOT_LEN: usize = 8;
/// The alignment of the index, so that eight slots share a cache line.
pub const INDEX_ALIGN: u64 = 64;
/// The minimum number of index slots: one cache line.
pub const SLOT_COUNT_MIN: usize = 8;
/// The length of the head of a record and its first variant: one cache line. In most records the path follows directly.
pub const RECORD_LEN: usize = 64;
/// The length of each further variant.
pub const VARIANT_LEN: usize = 48;
/// The maximum number of variants of a record: one for each [`Coding`] without a dictionary.
pub const VARIANT_COUNT_MAX: u8 = 4;
/// The alignment of records. A slot stores offsets in this unit, so an image is smaller than 256 GiB.
pub const RECORD_ALIGN: u64 = 64;
/// The length of the place of an HPACK block, which precedes the fields of each response.
pub const HPACK_PLACE_LEN: usize = 8;
/// The length of a row of the status pages.
pub const STATUS_PAGE_LEN: usize = 32;
/// The alignment of the status pages.
pub const PAGES_ALIGN: u64 = 8;
/// The length of a row of the sections.
pub const SECTION_LEN: usize = 32;
/// The alignment of sections and of their rows.
pub const SECTION_ALIGN: u64 = 8;
/// The length of the totals.
pub const TOTALS_LEN: usize = 16;
/// The length of a row of the deltas.
pub const DELTA_LEN: usize = 40 + VARIANT_LEN;
/// The length of a row of the checksums.
pub const CHECKSUM_LEN: usize = 24;
/// The maximum length of a content that directly follows its fields. Up to about this length, one send of both is faster than two.
pub const INLINE_LEN_MAX: u64 = 16 << 10;
/// The alignment of a content that does not follow its fields: a memory page, so that the kernel can send it from the page cache.
pub const CONTENT_ALIGN: u64 = 4096;
/// The maximum length of the path of a record in bytes: `PATH_MAX` of Linux, so no file has a longer one.
pub const PATH_LEN_MAX: usize = 4096;

/// The statuses with a status page, which has the same fields and content for every request. An image has a page for each, sorted.
/// The page for 204 has no content.
pub const STATUS_PAGE_CODES: [u16; 22] = [
    204, 400, 401, 403, 404, 405, 408, 411, 412, 413, 414, 416, 417, 421, 429, 431, 500, 501, 502, 503, 504,
    505,
];

/// Returns the hash of a path (decoded, beginning with `/`), or a checksum: XXH3-64 with seed 0.
#[inline]
pub fn hash(bytes: &[u8]) -> u64 {
    xxh3_64(bytes)
}

/// The header, with the offsets of the tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The length of the image.
    pub len: u64,
    /// The offset of the index, which extends to the end of the image.
    pub index_at: u64,
    /// The number of index slots.
    pub slot_count: u64,
    /// The number of records.
    pub record_count: u64,
    /// The offset of the table of status pages.
    pub pages_at: u64,
    /// The number of status pages.
    pub page_count: u64,
    /// The number of files beside the image.
    pub file_count: u64,
    /// The [`hash`] of the bytes from `pages_at` to the end of the image.
    pub tables_hash: u64,
    /// The length of the archive of the site; 0 if there is none.
    pub archive_len: u64,
    /// The offset of the table of sections; 0 if there is none.
    pub sections_at: u64,
    /// The number of sections.
    pub section_count: u64,
    /// The [`hash`] of the bytes from the end of the header to `pages_at`. `tarpon verify` checks it; opening an image does not.
    pub body_hash: u64,
}

impl Header {
    /// Returns the bytes of the header.
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let mut to = [0; HEADER_LEN];
        to[..8].copy_from_slice(&MAGIC);
        put(&mut to, 8, VERSION.to_le_bytes());
        put(&mut to, 12, (HEADER_LEN as u32).to_le_bytes());
        put(&mut to, 16, self.len.to_le_bytes());
        put(&mut to, 24, self.index_at.to_le_bytes());
        put(&mut to, 32, self.slot_count.to_le_bytes());
        put(&mut to, 40, self.record_count.to_le_bytes());
        put(&mut to, 48, self.pages_at.to_le_bytes());
        put(&mut to, 56, self.page_count.to_le_bytes());
        put(&mut to, 64, self.file_count.to_le_bytes());
        put(&mut to, 72, self.tables_hash.to_le_bytes());
        put(&mut to, 80, self.archive_len.to_le_bytes());
        put(&mut to, 88, self.sections_at.to_le_bytes());
        put(&mut to, 96, self.section_count.to_le_bytes());
        put(&mut to, 104, self.body_hash.to_le_bytes());
        let check = hash(&to[..HEADER_CHECK_AT]);
        put(&mut to, HEADER_CHECK_AT, check.to_le_bytes());
        to
    }

    /// Decodes a header and checks its magic number, version, length and checksum.
    ///
    /// # Errors
    /// Returns the first check that fails.
    pub fn decode(from: &[u8; HEADER_LEN]) -> Result<Header, ImageError> {
        if from[..8] != MAGIC {
            return Err(ImageError::Magic);
        }
        if u32_at(from, 8) != VERSION || u32_at(from, 12) != HEADER_LEN as u32 {
            return Err(ImageError::Version { found: u32_at(from, 8) });
        }
        if u64_at(from, HEADER_CHECK_AT) != hash(&from[..HEADER_CHECK_AT]) {
            return Err(ImageError::HeaderHash);
        }
        Ok(Header {
            len: u64_at(from, 16),
            index_at: u64_at(from, 24),
            slot_count: u64_at(from, 32),
            record_count: u64_at(from, 40),
            pages_at: u64_at(from, 48),
            page_count: u64_at(from, 56),
            file_count: u64_at(from, 64),
            tables_hash: u64_at(from, 72),
            archive_len: u64_at(from, 80),
            sections_at: u64_at(from, 88),
            section_count: u64_at(from, 96),
            body_hash: u64_at(from, 104),
        })
    }
}

/// An occupied slot of the index. An empty slot is eight zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexSlot {
    /// The upper half of the hash of the path.
    pub tag: u32,
    /// The offset of the record in units of [`RECORD_ALIGN`]; never 0, the offset of the header.
    pub unit: u32,
}

impl IndexSlot {
    /// Creates the slot for a record at `at`, a multiple of [`RECORD_ALIGN`], whose path has this hash. Returns `None` if the offset
    /// is too large.
    pub fn new(hash: u64, at: u64) -> Option<IndexSlot> {
        debug_assert!(at > 0 && at.is_multiple_of(RECORD_ALIGN));
        Some(IndexSlot { tag: tag(hash), unit: u32::try_from(at / RECORD_ALIGN).ok()? })
    }

    /// Returns the bytes of the slot.
    pub fn encode(&self) -> [u8; SLOT_LEN] {
        let mut to = [0; SLOT_LEN];
        put(&mut to, 0, self.tag.to_le_bytes());
        put(&mut to, 4, self.unit.to_le_bytes());
        to
    }

    /// Decodes a slot; returns `None` if it is empty.
    #[inline]
    pub fn decode(from: &[u8; SLOT_LEN]) -> Option<IndexSlot> {
        let slot = IndexSlot { tag: u32_at(from, 0), unit: u32_at(from, 4) };
        (slot.unit != 0).then_some(slot)
    }

    /// Returns the offset of the record.
    #[inline]
    pub fn at(&self) -> u64 {
        u64::from(self.unit) * RECORD_ALIGN
    }
}

/// Returns the tag of a hash, which the slot stores so that a search rarely reads a record with another path. It is the upper half;
/// the lower half selects the slot.
#[inline]
pub fn tag(hash: u64) -> u32 {
    (hash >> 32) as u32
}

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// A file.
    File = 0,
    /// A redirect.
    Redirect = 1,
    /// A file that a rule sends for this path, with the status in the record.
    RuleFile = 2,
    /// A redirect of a rule, with the status in the record.
    RuleRedirect = 3,
}

/// The place where a content is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// In the image.
    Image = 0,
    /// In a file beside the image.
    File = 1,
    /// In the archive of the site.
    Archive = 2,
}

impl Storage {
    /// Decodes a storage; returns `None` if it is unknown.
    #[inline]
    fn decode(number: u8) -> Option<Storage> {
        Some(match number {
            0 => Storage::Image,
            1 => Storage::File,
            2 => Storage::Archive,
            _ => return None,
        })
    }
}

/// The content coding of a variant. RFC 9110, section 8.4.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// No coding. The first variant has it, and only the first.
    Identity = 0,
    /// Brotli, RFC 7932.
    Br = 1,
    /// RFC 1952.
    Gzip = 2,
    /// RFC 8878.
    Zstd = 3,
    /// Brotli with a dictionary, RFC 9842, section 4.
    Dcb = 4,
    /// Zstandard with a dictionary, RFC 9842, section 5.
    Dcz = 5,
}

impl Coding {
    /// Returns the name in Accept-Encoding and Content-Encoding. RFC 9110, section 8.4.1.
    pub fn name(self) -> &'static str {
        match self {
            Coding::Identity => "identity",
            Coding::Br => "br",
            Coding::Gzip => "gzip",
            Coding::Zstd => "zstd",
            Coding::Dcb => "dcb",
            Coding::Dcz => "dcz",
        }
    }

    /// Decodes a coding; returns `None` if it is unknown.
    #[inline]
    fn decode(number: u8) -> Option<Coding> {
        Some(match number {
            0 => Coding::Identity,
            1 => Coding::Br,
            2 => Coding::Gzip,
            3 => Coding::Zstd,
            4 => Coding::Dcb,
            5 => Coding::Dcz,
            _ => return None,
        })
    }

    /// Returns whether decoding needs a dictionary. Variants with such a coding are in the deltas and not in a record.
    #[inline]
    pub fn needs_dictionary(self) -> bool {
        matches!(self, Coding::Dcb | Coding::Dcz)
    }
}

/// A record with one of its variants: head (16 bytes) and variant (48 bytes). In the image, the first variant follows the head, then
/// come the other variants and the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryRecord {
    /// The length of the path.
    pub path_len: u16,
    /// The kind of the record.
    pub kind: RecordKind,
    /// The number of variants: 1 to [`VARIANT_COUNT_MAX`]; 1 for a redirect.
    pub variant_count: u8,
    /// The length of the fields before the query of a redirect; 0 for a file.
    pub before_query: u32,
    /// The time of the last modification of a file, in seconds since 1970; 0 for a redirect.
    pub last_modified: u64,
    /// The offset of the 200 or 301 fields.
    pub fields_at: u64,
    /// The length of the 304 fields, which are the last of the 200 fields, including the empty line; 0 for a redirect.
    pub not_modified_len: u32,
    /// The length of the 200 or 301 fields, including the empty line.
    pub fields_len: u32,
    /// The offset of the content in the image or archive, or the number of its file.
    pub content_at: u64,
    /// The length of the content.
    pub content_len: u64,
    /// The offset of the entity tag within the 304 fields; 0 for a redirect.
    pub etag_at: u32,
    /// The length of the entity tag, including its quotes; 0 for a redirect.
    pub etag_len: u32,
    /// The place where the content is stored.
    pub storage: Storage,
    /// The coding of the content.
    pub coding: Coding,
    /// The status that a rule sets; 0 without a rule.
    pub status: u16,
    /// Whether the server must evaluate the rules before it uses the record.
    pub checks_rules: bool,
}

impl EntryRecord {
    /// Returns the bytes of head and variant. To append a further variant to a record, use the last [`VARIANT_LEN`] bytes.
    pub fn encode(&self) -> [u8; RECORD_LEN] {
        let mut to = [0; RECORD_LEN];
        put(&mut to, 0, self.path_len.to_le_bytes());
        put(&mut to, 2, [self.kind as u8]);
        put(&mut to, 3, [self.variant_count]);
        put(&mut to, 4, self.before_query.to_le_bytes());
        put(&mut to, 8, self.last_modified.to_le_bytes());
        put(&mut to, 16, self.fields_at.to_le_bytes());
        put(&mut to, 24, self.not_modified_len.to_le_bytes());
        put(&mut to, 28, self.fields_len.to_le_bytes());
        put(&mut to, 32, self.content_at.to_le_bytes());
        put(&mut to, 40, self.content_len.to_le_bytes());
        put(&mut to, 48, self.etag_at.to_le_bytes());
        put(&mut to, 52, self.etag_len.to_le_bytes());
        put(&mut to, 56, [self.storage as u8]);
        put(&mut to, 57, [self.coding as u8]);
        put(&mut to, 58, self.status.to_le_bytes());
        put(&mut to, 60, [u8::from(self.checks_rules)]);
        to
    }

    /// Returns the range of the path, relative to the record. A search needs nothing else to compare paths.
    #[inline]
    pub fn path_range(from: &[u8; RECORD_LEN]) -> Range<usize> {
        // The CPU predicts this branch and reads the path without waiting for the count.
        let at = match from[3] {
            1 => RECORD_LEN,
            count => RECORD_LEN + usize::from(count.saturating_sub(1)) * VARIANT_LEN,
        };
        at..at + usize::from(u16::from_le_bytes([from[0], from[1]]))
    }

    /// Returns whether the record is one of a file that no rule concerns.
    #[inline]
    pub(crate) fn is_plain_file(from: &[u8; RECORD_LEN]) -> bool {
        // After the storage: coding, status, the bit for rules, and unused bytes.
        from[2] == RecordKind::File as u8
            && matches!(from[3], 1..=VARIANT_COUNT_MAX)
            && u64_at(from, 56) >> 8 == 0
    }

    /// Returns the number of variants.
    #[inline]
    pub(crate) fn variant_count(from: &[u8; RECORD_LEN]) -> u8 {
        from[3]
    }

    /// Decodes coding and content length of a further variant. Returns `None` if the coding is unknown.
    #[inline]
    pub fn decode_offer(from: &[u8; VARIANT_LEN]) -> Option<(Coding, u64)> {
        Some((Coding::decode(from[57 - RECORD_HEAD_LEN])?, ReadyRow::content_len(from)))
    }

    /// Decodes head and variant. Returns `None` if a value is unknown.
    #[inline]
    pub fn decode(from: &[u8; RECORD_LEN]) -> Option<EntryRecord> {
        Some(EntryRecord {
            path_len: u16::from_le_bytes([from[0], from[1]]),
            kind: match from[2] {
                0 => RecordKind::File,
                1 => RecordKind::Redirect,
                2 => RecordKind::RuleFile,
                3 => RecordKind::RuleRedirect,
                _ => return None,
            },
            variant_count: match from[3] {
                count @ 1..=VARIANT_COUNT_MAX => count,
                _ => return None,
            },
            before_query: u32_at(from, 4),
            last_modified: u64_at(from, 8),
            fields_at: u64_at(from, 16),
            not_modified_len: u32_at(from, 24),
            fields_len: u32_at(from, 28),
            content_at: u64_at(from, 32),
            content_len: u64_at(from, 40),
            etag_at: u32_at(from, 48),
            etag_len: u32_at(from, 52),
            storage: Storage::decode(from[56])?,
            coding: Coding::decode(from[57])?,
            status: u16::from_le_bytes([from[58], from[59]]),
            checks_rules: from[60] != 0,
        })
    }
}

/// The part of a variant that its usual response needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadyRow {
    /// The 200 fields.
    pub(crate) fields: Region,
    /// The place of the content in its storage.
    pub(crate) content: Region,
    /// The place where the content is stored.
    pub(crate) storage: Storage,
}

impl ReadyRow {
    /// Decodes a variant. Returns `None` if its storage is unknown.
    #[inline(always)]
    pub(crate) fn decode(from: &[u8; VARIANT_LEN]) -> Option<ReadyRow> {
        Some(ReadyRow {
            storage: Storage::decode(from[56 - RECORD_HEAD_LEN])?,
            fields: Region {
                at: u64_at(from, 16 - RECORD_HEAD_LEN),
                len: u32_at(from, 28 - RECORD_HEAD_LEN).into(),
            },
            content: Region { at: u64_at(from, 32 - RECORD_HEAD_LEN), len: ReadyRow::content_len(from) },
        })
    }

    /// Decodes the length of the content.
    #[inline]
    pub(crate) fn content_len(from: &[u8; VARIANT_LEN]) -> u64 {
        u64_at(from, 40 - RECORD_HEAD_LEN)
    }
}

/// A row of the status pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusPageRow {
    /// The status code.
    pub code: u16,
    /// The length of the fields, including the empty line.
    pub fields_len: u32,
    /// The offset of the fields.
    pub fields_at: u64,
    /// The offset of the content.
    pub content_at: u64,
    /// The length of the content.
    pub content_len: u64,
}

impl StatusPageRow {
    /// Returns the bytes of the row.
    pub fn encode(&self) -> [u8; STATUS_PAGE_LEN] {
        let mut to = [0; STATUS_PAGE_LEN];
        put(&mut to, 0, u32::from(self.code).to_le_bytes());
        put(&mut to, 4, self.fields_len.to_le_bytes());
        put(&mut to, 8, self.fields_at.to_le_bytes());
        put(&mut to, 16, self.content_at.to_le_bytes());
        put(&mut to, 24, self.content_len.to_le_bytes());
        to
    }

    /// Decodes a row. Returns `None` if the status does not fit in 16 bits.
    pub fn decode(from: &[u8; STATUS_PAGE_LEN]) -> Option<StatusPageRow> {
        Some(StatusPageRow {
            code: u16::try_from(u32_at(from, 0)).ok()?,
            fields_len: u32_at(from, 4),
            fields_at: u64_at(from, 8),
            content_at: u64_at(from, 16),
            content_len: u64_at(from, 24),
        })
    }
}

/// A row of the sections, which hold additional data. Readers skip sections of an unknown kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionRow {
    /// The kind: see [`section`].
    pub kind: u32,
    /// The offset, a multiple of [`SECTION_ALIGN`].
    pub at: u64,
    /// The length in bytes.
    pub len: u64,
    /// The [`hash`] of the bytes.
    pub hash: u64,
}

impl SectionRow {
    /// Returns the bytes of the row.
    pub fn encode(&self) -> [u8; SECTION_LEN] {
        let mut to = [0; SECTION_LEN];
        put(&mut to, 0, self.kind.to_le_bytes());
        put(&mut to, 8, self.at.to_le_bytes());
        put(&mut to, 16, self.len.to_le_bytes());
        put(&mut to, 24, self.hash.to_le_bytes());
        to
    }

    /// Decodes a row without checking it.
    pub fn decode(from: &[u8; SECTION_LEN]) -> SectionRow {
        SectionRow {
            kind: u32_at(from, 0),
            at: u64_at(from, 8),
            len: u64_at(from, 16),
            hash: u64_at(from, 24),
        }
    }
}

/// The kinds of sections.
pub mod section {
    /// Checksums of the archive around the image: rows of [`ChecksumRow`](super::ChecksumRow).
    pub const CHECKSUMS: u32 = 1;
    /// The compressors of the variants: a line of UTF-8 text.
    pub const ENCODERS: u32 = 2;
    /// The size of the site: [`Totals`](super::Totals).
    pub const TOTALS: u32 = 3;
    /// The redirect and rewrite rules: see [`rules`](crate::rules).
    pub const RULES: u32 = 4;
    /// The variants that need a dictionary: rows of [`DeltaRow`](super::DeltaRow).
    pub const DELTAS: u32 = 5;
    /// The HPACK blocks of all responses: see [`hpack`](crate::hpack).
    pub const HPACK: u32 = 6;
    /// The path below which clients see the site, decoded, without a slash at its end.
    pub const BASE: u32 = 7;
    /// The paths that the access log leaves out: see [`LogPathRow`](crate::rules::LogPathRow).
    pub const LOG_PATHS: u32 = 8;
}

/// The place of the HPACK block of a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HpackPlace {
    /// The offset from the start of the section, so the blocks of an image have at most 4 GiB.
    pub at: u32,
    /// The length in bytes.
    pub len: u32,
}

impl HpackPlace {
    /// Returns the bytes of the place.
    pub fn encode(&self) -> [u8; HPACK_PLACE_LEN] {
        let mut to = [0; HPACK_PLACE_LEN];
        put(&mut to, 0, self.at.to_le_bytes());
        put(&mut to, 4, self.len.to_le_bytes());
        to
    }

    /// Decodes a place without checking it.
    pub fn decode(from: &[u8; HPACK_PLACE_LEN]) -> HpackPlace {
        HpackPlace { at: u32_at(from, 0), len: u32_at(from, 4) }
    }
}

/// A row of the deltas: a variant of a file that needs a dictionary. Rows are sorted by file, then by dictionary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeltaRow {
    /// The file, identified by the offset of its first variant's fields.
    pub file_at: u64,
    /// The SHA-256 of the dictionary.
    pub dictionary: [u8; 32],
    /// The variant: the part of a record that its last [`VARIANT_LEN`] bytes hold.
    pub variant: EntryRecord,
}

impl DeltaRow {
    /// Returns the bytes of the row.
    pub fn encode(&self) -> [u8; DELTA_LEN] {
        let mut to = [0; DELTA_LEN];
        put(&mut to, 0, self.file_at.to_le_bytes());
        put(&mut to, 8, self.dictionary);
        to[40..].copy_from_slice(&self.variant.encode()[RECORD_LEN - VARIANT_LEN..]);
        to
    }

    /// Returns the sort key of a row: file and dictionary.
    pub fn key(from: &[u8; DELTA_LEN]) -> (u64, [u8; 32]) {
        (u64_at(from, 0), from[8..40].try_into().expect("32 bytes"))
    }

    /// Decodes a row. Returns `None` if a value of the variant is unknown.
    pub fn decode(from: &[u8; DELTA_LEN]) -> Option<DeltaRow> {
        let (file_at, dictionary) = DeltaRow::key(from);
        // The variant is decoded as that of a file record with one variant.
        let mut record = [0; RECORD_LEN];
        record[3] = 1;
        record[RECORD_LEN - VARIANT_LEN..].copy_from_slice(&from[40..]);
        Some(DeltaRow { file_at, dictionary, variant: EntryRecord::decode(&record)? })
    }
}

/// The size of a site, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Totals {
    /// The number of files.
    pub files: u64,
    /// The total length of their contents, without a coding.
    pub bytes: u64,
}

impl Totals {
    /// Returns the bytes of the totals.
    pub fn encode(&self) -> [u8; TOTALS_LEN] {
        let mut to = [0; TOTALS_LEN];
        put(&mut to, 0, self.files.to_le_bytes());
        put(&mut to, 8, self.bytes.to_le_bytes());
        to
    }

    /// Decodes the totals without checking them.
    pub fn decode(from: &[u8; TOTALS_LEN]) -> Totals {
        Totals { files: u64_at(from, 0), bytes: u64_at(from, 8) }
    }
}

/// A row of the checksums: a part of the archive and its checksum. Together the rows cover the whole archive except the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChecksumRow {
    /// The offset from the start of the archive.
    pub at: u64,
    /// The length in bytes.
    pub len: u64,
    /// The [`hash`] of the bytes.
    pub hash: u64,
}

impl ChecksumRow {
    /// Returns the bytes of the row.
    pub fn encode(&self) -> [u8; CHECKSUM_LEN] {
        let mut to = [0; CHECKSUM_LEN];
        put(&mut to, 0, self.at.to_le_bytes());
        put(&mut to, 8, self.len.to_le_bytes());
        put(&mut to, 16, self.hash.to_le_bytes());
        to
    }

    /// Decodes a row without checking it.
    pub fn decode(from: &[u8; CHECKSUM_LEN]) -> ChecksumRow {
        ChecksumRow { at: u64_at(from, 0), len: u64_at(from, 8), hash: u64_at(from, 16) }
    }
}

/// The length of a record before its first variant.
const RECORD_HEAD_LEN: usize = RECORD_LEN - VARIANT_LEN;

/// The offset of the header's checksum, which covers the bytes before it.
const HEADER_CHECK_AT: usize = 120;

fn put<const N: usize>(to: &mut [u8], at: usize, value: [u8; N]) {
    to[at..at + N].copy_from_slice(&value);
}

#[inline]
fn u32_at<const N: usize>(from: &[u8; N], at: usize) -> u32 {
    u32::from_le_bytes(from[at..at + 4].try_into().expect("four bytes"))
}

#[inline]
fn u64_at<const N: usize>(from: &[u8; N], at: usize) -> u64 {
    u64::from_le_bytes(from[at..at + 8].try_into().expect("eight bytes"))
}
