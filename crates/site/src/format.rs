//! The image, byte by byte, for its reader and its writer. In prose: `docs/site-format.md`.
//!
//! ```text
//! 0            128                                                             len
//! ├── header ──┼── runs and records, as they were written ──┼── pages ── index ──┤
//!                   │
//!                   │   a run:     [ fields of 304 ][ fields of 200 ][ content, if small ]
//!                   └── a record:  [ head and variant, 64 ][ coded variants, 48 each ][ path ]    on 64
//! ```
//!
//! A struct here is what one stretch of the image says, `encode` and `decode` are its layout. Numbers are
//! little-endian. Whether what they say makes sense together is for [`Image`](crate::Image) and `entry.rs` to
//! judge.

use crate::error::ImageError;
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_64;

/// The first bytes of every image.
pub const MAGIC: [u8; 8] = *b"tarpon\0\x01";
/// The version of this layout.
pub const VERSION: u32 = 1;
/// Bytes of the header, and so where the first run or record may begin.
pub const HEADER_LEN: usize = 128;
/// Bytes of a slot of the index.
pub const SLOT_LEN: usize = 8;
/// Bytes of the index's alignment, so that eight slots share a cache line.
pub const INDEX_ALIGN: u64 = 64;
/// The fewest slots an index has: one cache line.
pub const SLOT_COUNT_MIN: usize = 8;
/// Bytes of the head of a record and its first variant: one cache line. The path of most lies right behind.
pub const RECORD_LEN: usize = 64;
/// Bytes of each variant behind the first.
pub const VARIANT_LEN: usize = 48;
/// Most variants of a record: one for each [`Coding`] without a dictionary.
pub const VARIANT_COUNT_MAX: u8 = 4;
/// Bytes of a record's alignment. A slot counts in these, so an image ends before 256 GiB.
pub const RECORD_ALIGN: u64 = 64;
/// Bytes of a row of the pages.
pub const STATUS_PAGE_LEN: usize = 32;
/// Bytes of the alignment of the pages.
pub const PAGES_ALIGN: u64 = 8;
/// Bytes of a row of the sections.
pub const SECTION_LEN: usize = 32;
/// Bytes of the alignment of sections and of their rows.
pub const SECTION_ALIGN: u64 = 8;
/// Bytes of the totals.
pub const TOTALS_LEN: usize = 16;
/// Bytes of a row of the deltas.
pub const DELTA_LEN: usize = 40 + VARIANT_LEN;
/// Bytes of a row of the stretches.
pub const CHECKSUM_LEN: usize = 24;
/// Largest content that lies right behind its fields, in bytes: one send of both beats two up to about here.
pub const INLINE_LEN_MAX: u64 = 16 << 10;
/// Bytes of the alignment of a content that does not lie behind its fields: a page, so that it can leave from
/// the page cache.
pub const CONTENT_ALIGN: u64 = 4096;
/// Longest path of a record, in bytes: `PATH_MAX` of Linux, so no file is left out for it.
pub const PATH_LEN_MAX: usize = 4096;

/// Every status that is answered by a page: the same fields and content, whatever was asked for. An image has one for
/// each, sorted. The page for 204 has no content.
pub const STATUS_PAGE_CODES: [u16; 16] =
    [204, 400, 404, 405, 408, 412, 413, 414, 416, 417, 421, 431, 500, 501, 503, 505];

/// The hash of a path (decoded, beginning with `/`), and of whatever else is checked: XXH3-64, seed 0.
#[inline]
pub fn hash(bytes: &[u8]) -> u64 {
    xxh3_64(bytes)
}

/// The header: where the tables lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Bytes of the image.
    pub len: u64,
    /// Where the index lies. It ends the image.
    pub index_at: u64,
    /// Slots in the index.
    pub slot_count: u64,
    /// Records.
    pub record_count: u64,
    /// Where the pages lie.
    pub pages_at: u64,
    /// Rows of the pages.
    pub page_count: u64,
    /// Files beside the image.
    pub file_count: u64,
    /// [`hash`] of the bytes from `pages_at` to the end of the image.
    pub tables_hash: u64,
    /// Bytes of the archive beside the image; 0: there is none.
    pub archive_len: u64,
    /// Where the rows of the sections lie; 0 if there are none.
    pub sections_at: u64,
    /// Rows of the sections.
    pub section_count: u64,
    /// [`hash`] of the bytes from the end of the header to `pages_at`. Not looked at when an image is opened: it tells
    /// whoever checks a packed site.
    pub body_hash: u64,
}

impl Header {
    /// The header as it lies in the image.
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

    /// Reads a header whose magic, version, length and checksum are right.
    pub fn decode(from: &[u8; HEADER_LEN]) -> Result<Header, ImageError> {
        if from[..8] != MAGIC {
            return Err(ImageError::Magic);
        }
        if u32_at(from, 8) != VERSION || u32_at(from, 12) != HEADER_LEN as u32 {
            return Err(ImageError::Version);
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

/// A slot of the index that is taken. An empty one is eight zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexSlot {
    /// The upper half of the hash of the path.
    pub tag: u32,
    /// Where the record lies, in units of [`RECORD_ALIGN`]; never 0, where the header lies.
    pub unit: u32,
}

impl IndexSlot {
    /// The slot for a record at `at`, on [`RECORD_ALIGN`], whose path has this hash. None if it lies too far
    /// off.
    pub fn new(hash: u64, at: u64) -> Option<IndexSlot> {
        debug_assert!(at > 0 && at.is_multiple_of(RECORD_ALIGN));
        Some(IndexSlot { tag: tag(hash), unit: u32::try_from(at / RECORD_ALIGN).ok()? })
    }

    /// The slot as it lies in the index.
    pub fn encode(&self) -> [u8; SLOT_LEN] {
        let mut to = [0; SLOT_LEN];
        put(&mut to, 0, self.tag.to_le_bytes());
        put(&mut to, 4, self.unit.to_le_bytes());
        to
    }

    /// The slot, if it is taken.
    #[inline]
    pub fn decode(from: &[u8; SLOT_LEN]) -> Option<IndexSlot> {
        let slot = IndexSlot { tag: u32_at(from, 0), unit: u32_at(from, 4) };
        (slot.unit != 0).then_some(slot)
    }

    /// Where the record lies, from the start of the image.
    #[inline]
    pub fn at(&self) -> u64 {
        u64::from(self.unit) * RECORD_ALIGN
    }
}

/// The part of a path's hash that its slot repeats, so that a search seldom looks at a record in vain. The
/// lower half chose the slot.
#[inline]
pub fn tag(hash: u64) -> u32 {
    (hash >> 32) as u32
}

/// What a record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// A representation.
    File = 0,
    /// Another path.
    Redirect = 1,
    /// A representation that a rule sends for this path, with the status in the record.
    RuleFile = 2,
    /// Another place, to which a rule sends, with the status in the record.
    RuleRedirect = 3,
}

/// Where a content lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// In the image.
    Image = 0,
    /// In a file beside the image.
    File = 1,
    /// In the archive beside the image.
    Archive = 2,
}

/// The content coding of a variant. RFC 9110, section 8.4.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// None: what the first variant has, and no other.
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
    /// Its name in Accept-Encoding and Content-Encoding. RFC 9110, section 8.4.1.
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

    /// None: this version does not know it.
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

    /// Whether only those can decode it who have a dictionary. Then it lies in the deltas, and no variant of a record has
    /// it.
    #[inline]
    pub fn needs_dictionary(self) -> bool {
        matches!(self, Coding::Dcb | Coding::Dcz)
    }
}

/// A record with one of its variants: head (16 bytes) and variant (48). The first variant lies behind the head,
/// then the others, then the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryRecord {
    /// Bytes of the path.
    pub path_len: u16,
    /// What the record is about.
    pub kind: RecordKind,
    /// Variants: 1 to [`VARIANT_COUNT_MAX`]. Redirect: 1.
    pub variant_count: u8,
    /// Redirect: how many bytes of the fields come before the query. File: 0.
    pub before_query: u32,
    /// File: seconds since 1970. Redirect: 0.
    pub last_modified: u64,
    /// Where the run lies.
    pub fields_at: u64,
    /// Bytes of the fields of 304, empty line included. Redirect: 0.
    pub not_modified_len: u32,
    /// Bytes of the fields of 200 or 301, empty line included.
    pub fields_len: u32,
    /// Where the content lies, in the image or the archive; or the number of the file it is in.
    pub content_at: u64,
    /// Bytes of the content.
    pub content_len: u64,
    /// From the run to the entity-tag, within the fields of 304. Redirect: 0.
    pub etag_at: u32,
    /// Bytes of the entity-tag, quotes included. Redirect: 0.
    pub etag_len: u32,
    /// Where the content lies.
    pub storage: Storage,
    /// How the content is coded.
    pub coding: Coding,
    /// Ruled: the status. Otherwise 0.
    pub status: u16,
    /// Whether a rule may come before what is here.
    pub checks_rules: bool,
}

impl EntryRecord {
    /// The record as it lies in the image, before its other variants and its path. Of a record with another
    /// variant, the last [`VARIANT_LEN`] bytes are that variant.
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

    /// Where the path lies, from the record: all that a search must know to tell whether it is the one.
    #[inline]
    pub fn path_range(from: &[u8; RECORD_LEN]) -> Range<usize> {
        // A branch that is nearly always taken the same way: the path is read without waiting for the count.
        let at = match from[3] {
            1 => RECORD_LEN,
            count => RECORD_LEN + usize::from(count.saturating_sub(1)) * VARIANT_LEN,
        };
        at..at + usize::from(u16::from_le_bytes([from[0], from[1]]))
    }

    /// Coding and length of the content of a variant that lies behind the first. None: a coding this version does not know.
    #[inline]
    pub fn decode_offer(from: &[u8; VARIANT_LEN]) -> Option<(Coding, u64)> {
        const HEAD_LEN: usize = RECORD_LEN - VARIANT_LEN;
        Some((Coding::decode(from[57 - HEAD_LEN])?, u64_at(from, 40 - HEAD_LEN)))
    }

    /// Reads a record. None if it says something this version does not know.
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
            storage: match from[56] {
                0 => Storage::Image,
                1 => Storage::File,
                2 => Storage::Archive,
                _ => return None,
            },
            coding: Coding::decode(from[57])?,
            status: u16::from_le_bytes([from[58], from[59]]),
            checks_rules: from[60] != 0,
        })
    }
}

/// A row of the pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusPageRow {
    /// The status code.
    pub code: u16,
    /// Bytes of the fields, empty line included.
    pub fields_len: u32,
    /// Where the fields lie.
    pub fields_at: u64,
    /// Where the content lies.
    pub content_at: u64,
    /// Bytes of the content.
    pub content_len: u64,
}

impl StatusPageRow {
    /// The row as it lies in the pages.
    pub fn encode(&self) -> [u8; STATUS_PAGE_LEN] {
        let mut to = [0; STATUS_PAGE_LEN];
        put(&mut to, 0, u32::from(self.code).to_le_bytes());
        put(&mut to, 4, self.fields_len.to_le_bytes());
        put(&mut to, 8, self.fields_at.to_le_bytes());
        put(&mut to, 16, self.content_at.to_le_bytes());
        put(&mut to, 24, self.content_len.to_le_bytes());
        to
    }

    /// Reads a row. None if its status is not one.
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

/// A row of the sections: what an image has beside its tables. Who does not know its kind passes it over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionRow {
    /// What it is: see [`section`].
    pub kind: u32,
    /// Where it lies, on [`SECTION_ALIGN`].
    pub at: u64,
    /// In bytes.
    pub len: u64,
    /// [`hash`] of its bytes.
    pub hash: u64,
}

impl SectionRow {
    /// The row as it lies in the sections.
    pub fn encode(&self) -> [u8; SECTION_LEN] {
        let mut to = [0; SECTION_LEN];
        put(&mut to, 0, self.kind.to_le_bytes());
        put(&mut to, 8, self.at.to_le_bytes());
        put(&mut to, 16, self.len.to_le_bytes());
        put(&mut to, 24, self.hash.to_le_bytes());
        to
    }

    /// Reads a row, which may say anything.
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
    /// Checksums of the archive around the image: rows of [`StretchRow`](super::StretchRow).
    pub const CHECKSUMS: u32 = 1;
    /// What coded the variants: a line of text, UTF-8.
    pub const ENCODERS: u32 = 2;
    /// How large the site is: [`Totals`](super::Totals).
    pub const TOTALS: u32 = 3;
    /// Rules that the path alone does not settle: see [`rules`](crate::rules).
    pub const RULES: u32 = 4;
    /// Variants that are coded with a dictionary: rows of [`DeltaRow`](super::DeltaRow).
    pub const DELTAS: u32 = 5;
}

/// A row of the deltas: a variant of a file for those who have a dictionary. Sorted by file, then by dictionary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeltaRow {
    /// Which file: where the run of its first variant lies.
    pub file_at: u64,
    /// SHA-256 of the dictionary.
    pub dictionary: [u8; 32],
    /// The variant: as much of it as lies in [`VARIANT_LEN`] bytes.
    pub variant: EntryRecord,
}

impl DeltaRow {
    /// The row as it lies in its section.
    pub fn encode(&self) -> [u8; DELTA_LEN] {
        let mut to = [0; DELTA_LEN];
        put(&mut to, 0, self.file_at.to_le_bytes());
        put(&mut to, 8, self.dictionary);
        to[40..].copy_from_slice(&self.variant.encode()[RECORD_LEN - VARIANT_LEN..]);
        to
    }

    /// What rows are sorted by: file and dictionary.
    pub fn key(from: &[u8; DELTA_LEN]) -> (u64, [u8; 32]) {
        (u64_at(from, 0), from[8..40].try_into().expect("32 bytes"))
    }

    /// Reads a row. None if its variant says something this version does not know.
    pub fn decode(from: &[u8; DELTA_LEN]) -> Option<DeltaRow> {
        let (file_at, dictionary) = DeltaRow::key(from);
        // The head of a record with one variant, of a file.
        let mut record = [0; RECORD_LEN];
        record[3] = 1;
        record[RECORD_LEN - VARIANT_LEN..].copy_from_slice(&from[40..]);
        Some(DeltaRow { file_at, dictionary, variant: EntryRecord::decode(&record)? })
    }
}

/// How large a site is, to tell people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Totals {
    /// Files.
    pub files: u64,
    /// Bytes of their contents, without a coding.
    pub bytes: u64,
}

impl Totals {
    /// The totals as they lie in their section.
    pub fn encode(&self) -> [u8; TOTALS_LEN] {
        let mut to = [0; TOTALS_LEN];
        put(&mut to, 0, self.files.to_le_bytes());
        put(&mut to, 8, self.bytes.to_le_bytes());
        to
    }

    /// Reads them; they may say anything.
    pub fn decode(from: &[u8; TOTALS_LEN]) -> Totals {
        Totals { files: u64_at(from, 0), bytes: u64_at(from, 8) }
    }
}

/// A row of the stretches: a part of the archive with its checksum. Together they are all of it but the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChecksumRow {
    /// From the start of the archive, in bytes.
    pub at: u64,
    /// In bytes.
    pub len: u64,
    /// [`hash`] of its bytes.
    pub hash: u64,
}

impl ChecksumRow {
    /// The row as it lies in its section.
    pub fn encode(&self) -> [u8; CHECKSUM_LEN] {
        let mut to = [0; CHECKSUM_LEN];
        put(&mut to, 0, self.at.to_le_bytes());
        put(&mut to, 8, self.len.to_le_bytes());
        put(&mut to, 16, self.hash.to_le_bytes());
        to
    }

    /// Reads a row, which may say anything.
    pub fn decode(from: &[u8; CHECKSUM_LEN]) -> ChecksumRow {
        ChecksumRow { at: u64_at(from, 0), len: u64_at(from, 8), hash: u64_at(from, 16) }
    }
}

/// Where in the header the checksum of all before it lies.
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
