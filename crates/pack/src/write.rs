//! Writes the image in one pass; the header comes last.
//!
//! ```text
//! per file:   [ record ][ path ] and per variant [ place of the HPACK block ][ fields ][ content ]
//!             └ aligned to 64                                                          └ here, or aligned to 4096, or on disk
//! at the end: [ fields and contents of pages ][ sections, with the HPACK blocks ][ pages ][ index ]   and at 0: [ header ]
//! ```
//!
//! A record lies right before its fields, so that they are in the next cache line. The HPACK blocks stay in memory until the end: about
//! a hundred bytes for each response.

use crate::content::{ContentPlace, FileContent};
use crate::error::PackError;
use crate::fields::Representation;
use crate::rules::HeaderFields;
use crate::{fields, page};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use tarpon_site::format::{
    CONTENT_ALIGN, Coding, DeltaRow, EntryRecord, HEADER_LEN, HPACK_PLACE_LEN, Header, HpackPlace,
    INDEX_ALIGN, INLINE_LEN_MAX, PAGES_ALIGN, RECORD_ALIGN, RECORD_LEN, RecordKind, SECTION_ALIGN,
    STATUS_PAGE_CODES, SectionRow, StatusPageRow, Storage, VARIANT_LEN, hash, section,
};
use tarpon_site::hpack;
use xxhash_rust::xxh3::Xxh3;

/// Writes an image.
pub(crate) struct ImageWriter<'w, W: Write + Seek> {
    out: BufWriter<&'w mut W>,
    /// The offset of the next byte.
    at: u64,
    /// Of everything after the header.
    hasher: Xxh3,
    /// Hash of the path, and offset, of each record.
    records: Vec<(u64, u64)>,
    deltas: Vec<DeltaRow>,
    /// The HPACK blocks of all responses so far.
    hpack: Vec<u8>,
    /// The fields of rules and of the policy for every page.
    page_fields: HeaderFields,
    /// The pages by status.
    pages: BTreeMap<u16, String>,
}

/// A file in one coding, as it goes into the image.
pub(crate) struct ImageVariant {
    pub(crate) coding: Coding,
    pub(crate) fields: fields::FileFields,
    pub(crate) content: FileContent,
}

/// The purpose of a file's record.
#[derive(Clone, Copy)]
pub(crate) enum FileRecord {
    /// The file at a path.
    AtPath {
        /// Whether a rule may override the file.
        has_rule: bool,
    },
    /// A file that a rule sends.
    ByRule { status: u16 },
    /// The page of an error, in place of the file at a path.
    Error {
        status: u16,
        /// Whether a rule may override the page.
        has_rule: bool,
    },
}

impl ImageVariant {
    pub(crate) fn new(representation: Representation<'_>, content: FileContent) -> ImageVariant {
        let fields = fields::file(representation, content.len, content.hash);
        ImageVariant { coding: representation.coding, fields, content }
    }

    /// Returns the record of the variant if its fields are written at `at`, with `file_count` files beside the image. Advances both.
    fn placed(&self, at: &mut u64, file_count: &mut u64) -> EntryRecord {
        let ImageVariant { coding, fields, content } = self;
        let fields_at = *at + HPACK_PLACE_LEN as u64;
        *at = fields_at + fields.ok.len() as u64;
        let (home, content_at) = match &content.source {
            ContentPlace::Placed(home, at) => (*home, *at),
            ContentPlace::OnDisk(_) => {
                *file_count += 1;
                (Storage::File, *file_count - 1)
            }
            ContentPlace::InMemory(bytes) => {
                if content.len > INLINE_LEN_MAX {
                    *at = at.next_multiple_of(CONTENT_ALIGN);
                }
                *at += bytes.len() as u64;
                (Storage::Image, *at - bytes.len() as u64)
            }
        };
        EntryRecord {
            path_len: 0,
            kind: RecordKind::File,
            variant_count: 1,
            before_query: 0,
            last_modified: content.last_modified,
            fields_at,
            not_modified_len: fields.not_modified_len,
            fields_len: fields.ok.len() as u32,
            content_at,
            content_len: content.len,
            etag_at: fields.etag_at,
            etag_len: fields.etag_len,
            storage: home,
            coding: *coding,
            status: 0,
            checks_rules: false,
        }
    }

    /// Replaces the fields.
    pub(crate) fn set_fields(&mut self, representation: Representation<'_>) {
        self.fields = fields::file(representation, self.content.len, self.content.hash);
    }
}

/// A variant for clients that have a dictionary.
pub(crate) struct ImageDelta {
    /// The SHA-256 of the dictionary.
    pub(crate) dictionary: [u8; 32],
    pub(crate) variant: ImageVariant,
}

/// The record of a file that was written, one row for each variant. Another path can have the same record.
pub(crate) struct VariantRecords(Vec<EntryRecord>);

impl VariantRecords {
    /// Returns the place of the content that is not coded.
    pub(crate) fn place(&self) -> (Storage, u64) {
        let record = self.0.first().expect("a file has a variant");
        (record.storage, record.content_at)
    }

    /// Returns the place of each variant's content.
    pub(crate) fn places(&self) -> impl Iterator<Item = (Storage, u64)> {
        self.0.iter().map(|record| (record.storage, record.content_at))
    }
}

impl<'w, W: Write + Seek> ImageWriter<'w, W> {
    /// Writes from the start of `out`.
    pub(crate) fn new(out: &'w mut W) -> Result<ImageWriter<'w, W>, PackError> {
        out.rewind()?;
        let mut writer = ImageWriter {
            out: BufWriter::with_capacity(BUFFER_LEN, out),
            at: 0,
            hasher: Xxh3::new(),
            records: Vec::new(),
            deltas: Vec::new(),
            hpack: Vec::new(),
            page_fields: HeaderFields::default(),
            pages: BTreeMap::new(),
        };
        // The header is zeros until the image is complete, so that a truncated file is no image.
        writer.put(&[0; HEADER_LEN])?;
        writer.hasher.reset();
        Ok(writer)
    }

    /// Writes a file at `path`, in all its variants; the first has no coding. Appends the files that stay on disk to `files`.
    ///
    /// A content that does not follow its fields becomes [`ContentPlace::Placed`], so that another record can refer to it.
    pub(crate) fn file(
        &mut self,
        path: &[u8],
        variants: &mut [ImageVariant],
        purpose: FileRecord,
        files: &mut Vec<fs::File>,
    ) -> Result<VariantRecords, PackError> {
        let (kind, status, has_rule) = match purpose {
            FileRecord::AtPath { has_rule } => (RecordKind::File, 0, has_rule),
            FileRecord::ByRule { status } => (RecordKind::RuleFile, status, false),
            FileRecord::Error { status, has_rule } => (RecordKind::RuleFile, status, has_rule),
        };
        let mut at = self.record_at() + record_len(variants.len()) + path.len() as u64;
        let mut file_count = files.len() as u64;
        let mut records = Vec::with_capacity(variants.len());
        for variant in &*variants {
            let record = variant.placed(&mut at, &mut file_count);
            records.push(EntryRecord {
                kind,
                variant_count: variants.len() as u8,
                status,
                checks_rules: has_rule,
                ..record
            });
        }
        self.record(path, &records)?;
        for (ImageVariant { fields, content, .. }, record) in variants.iter_mut().zip(&records) {
            self.fields(&fields.ok)?;
            self.content(content, record, files)?;
        }
        Ok(VariantRecords(records))
    }

    /// Writes the deltas of a file that was written before.
    pub(crate) fn deltas(
        &mut self,
        of: &VariantRecords,
        deltas: &mut [ImageDelta],
        files: &mut Vec<fs::File>,
    ) -> Result<(), PackError> {
        for ImageDelta { dictionary, variant } in deltas {
            let (mut at, mut file_count) = (self.at, files.len() as u64);
            let record = variant.placed(&mut at, &mut file_count);
            self.fields(&variant.fields.ok)?;
            self.content(&mut variant.content, &record, files)?;
            let file_at = of.0.first().expect("a file has a variant").fields_at;
            self.deltas.push(DeltaRow { file_at, dictionary: *dictionary, variant: record });
        }
        Ok(())
    }

    /// Writes the same record at another path.
    pub(crate) fn alias(
        &mut self,
        path: &[u8],
        records: &VariantRecords,
        has_rule: bool,
    ) -> Result<(), PackError> {
        let records: Vec<_> =
            records.0.iter().map(|record| EntryRecord { checks_rules: has_rule, ..*record }).collect();
        self.record(path, &records)
    }

    /// Writes a content, unless it is at its place already.
    fn content(
        &mut self,
        content: &mut FileContent,
        record: &EntryRecord,
        files: &mut Vec<fs::File>,
    ) -> Result<(), PackError> {
        let placed = ContentPlace::Placed(record.storage, record.content_at);
        match &content.source {
            ContentPlace::InMemory(bytes) if content.len <= INLINE_LEN_MAX => return self.put(bytes),
            ContentPlace::InMemory(bytes) => {
                self.pad_to(record.content_at)?;
                self.put(bytes)?;
                content.source = placed;
            }
            ContentPlace::OnDisk(_) => {
                if let ContentPlace::OnDisk(file) = std::mem::replace(&mut content.source, placed) {
                    files.push(file);
                }
            }
            ContentPlace::Placed(..) => {}
        }
        Ok(())
    }

    /// Writes a redirect at `path`. `rule_status`: the status, if a rule sends it.
    pub(crate) fn redirect(
        &mut self,
        path: &[u8],
        redirect: &fields::RedirectFields,
        rule_status: Option<u16>,
        has_rule: bool,
    ) -> Result<(), PackError> {
        let fields_at = self.record_at() + record_len(1) + path.len() as u64 + HPACK_PLACE_LEN as u64;
        let record = EntryRecord {
            path_len: 0,
            kind: if rule_status.is_some() { RecordKind::RuleRedirect } else { RecordKind::Redirect },
            variant_count: 1,
            before_query: redirect.before_query,
            last_modified: 0,
            fields_at,
            not_modified_len: 0,
            fields_len: redirect.fields.len() as u32,
            content_at: fields_at + redirect.fields.len() as u64,
            content_len: redirect.content.len() as u64,
            etag_at: 0,
            etag_len: 0,
            storage: Storage::Image,
            coding: Coding::Identity,
            status: rule_status.unwrap_or(0),
            checks_rules: has_rule,
        };
        self.record(path, &[record])?;
        self.fields(&redirect.fields)?;
        self.put(&redirect.content)
    }

    /// Sets the fields of rules and of the policy for every page, and the pages. Without them the pages are those of a site at the root.
    pub(crate) fn set_pages(&mut self, fields: HeaderFields, page: impl Fn(u16) -> Option<String>) {
        self.page_fields = fields;
        self.pages = STATUS_PAGE_CODES.into_iter().filter_map(|code| Some((code, page(code)?))).collect();
    }

    /// Writes pages, sections, index and header. Beside the image are `file_count` files, and an archive of `archive_len` bytes. A
    /// section has a kind and bytes. Returns the length of the image.
    pub(crate) fn finish(
        mut self,
        file_count: u64,
        archive_len: u64,
        sections: &[(u32, Vec<u8>)],
    ) -> Result<u64, PackError> {
        let mut tables = self.pages()?;
        let own = [self.delta_section(), Some((section::HPACK, std::mem::take(&mut self.hpack)))];
        let sections = sections.iter().chain(own.iter().flatten());
        let section_count = sections.clone().count() as u64;
        let sections_at = self.sections(sections)?;
        self.pad_to(self.at.next_multiple_of(PAGES_ALIGN))?;
        let (pages_at, body_hash) = (self.at, self.hasher.digest());
        let index_at = (pages_at + tables.len() as u64).next_multiple_of(INDEX_ALIGN);
        let index = tarpon_site::build_index(&self.records).ok_or(PackError::TooLarge)?;
        tables.resize((index_at - pages_at) as usize, 0);
        tables.extend_from_slice(index.as_flattened());
        self.put(&tables)?;
        let header = Header {
            len: self.at,
            index_at,
            slot_count: index.len() as u64,
            record_count: self.records.len() as u64,
            pages_at,
            page_count: STATUS_PAGE_CODES.len() as u64,
            file_count,
            tables_hash: hash(&tables),
            archive_len,
            sections_at,
            section_count,
            body_hash,
        };
        self.out.seek(SeekFrom::Start(0))?;
        self.out.write_all(&header.encode())?;
        self.out.flush()?;
        Ok(header.len)
    }

    /// Writes the sections, and then their rows. Returns the offset of the rows.
    fn sections<'s>(&mut self, sections: impl Iterator<Item = &'s (u32, Vec<u8>)>) -> Result<u64, PackError> {
        let mut rows = Vec::new();
        for (kind, bytes) in sections {
            self.pad_to(self.at.next_multiple_of(SECTION_ALIGN))?;
            let row = SectionRow { kind: *kind, at: self.at, len: bytes.len() as u64, hash: hash(bytes) };
            rows.extend_from_slice(&row.encode());
            self.put(bytes)?;
        }
        self.pad_to(self.at.next_multiple_of(SECTION_ALIGN))?;
        let rows_at = self.at;
        self.put(&rows)?;
        Ok(rows_at)
    }

    /// Returns the section of the deltas, if there are any.
    fn delta_section(&mut self) -> Option<(u32, Vec<u8>)> {
        let mut rows: Vec<_> = self.deltas.drain(..).map(|row| row.encode()).collect();
        rows.sort_by_key(DeltaRow::key);
        (!rows.is_empty()).then(|| (section::DELTAS, rows.into_flattened()))
    }

    /// Writes the fields and contents of the pages. Returns their rows.
    fn pages(&mut self) -> Result<Vec<u8>, PackError> {
        let mut rows = Vec::new();
        for code in STATUS_PAGE_CODES {
            let own = || page::content(code, b"/").expect("a test checks that each status has a text");
            let content = self.pages.remove(&code).unwrap_or_else(own);
            let fields = fields::page(code, content.len(), &self.page_fields);
            let row = StatusPageRow {
                code,
                fields_len: fields.len() as u32,
                fields_at: self.at + HPACK_PLACE_LEN as u64,
                content_at: self.at + (HPACK_PLACE_LEN + fields.len()) as u64,
                content_len: content.len() as u64,
            };
            rows.extend_from_slice(&row.encode());
            self.fields(&fields)?;
            self.put(content.as_bytes())?;
        }
        Ok(rows)
    }

    /// Writes the fields of a response, and the place of their HPACK block before them.
    fn fields(&mut self, fields: &[u8]) -> Result<(), PackError> {
        let place = self.hpack_block(fields)?;
        self.put(&place.encode())?;
        self.put(fields)
    }

    /// Adds the HPACK block of these fields to the section of the blocks. Returns its place.
    pub(crate) fn hpack_block(&mut self, fields: &[u8]) -> Result<HpackPlace, PackError> {
        let at = u32::try_from(self.hpack.len()).map_err(|_| PackError::TooLarge)?;
        hpack::encode(fields, &mut |byte| self.hpack.push(byte)).expect("the packer writes field lines");
        let end = u32::try_from(self.hpack.len()).map_err(|_| PackError::TooLarge)?;
        Ok(HpackPlace { at, len: end - at })
    }

    /// Returns the offset of the next record.
    fn record_at(&self) -> u64 {
        self.at.next_multiple_of(RECORD_ALIGN)
    }

    /// Writes a record for `path`, with these variants.
    fn record(&mut self, path: &[u8], variants: &[EntryRecord]) -> Result<(), PackError> {
        self.pad_to(self.record_at())?;
        self.records.push((hash(path), self.at));
        for (number, variant) in variants.iter().enumerate() {
            // The walk skips paths longer than PATH_LEN_MAX.
            let bytes = EntryRecord { path_len: path.len() as u16, ..*variant }.encode();
            let head_len = if number == 0 { 0 } else { RECORD_LEN - VARIANT_LEN };
            self.put(&bytes[head_len..])?;
        }
        self.put(path)
    }

    fn pad_to(&mut self, at: u64) -> Result<(), PackError> {
        const ZEROS: [u8; CONTENT_ALIGN as usize] = [0; CONTENT_ALIGN as usize];
        self.put(&ZEROS[..(at - self.at) as usize])
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), PackError> {
        self.out.write_all(bytes)?;
        self.hasher.update(bytes);
        self.at += bytes.len() as u64;
        Ok(())
    }
}

/// Returns the bytes of a record before its path.
fn record_len(variant_count: usize) -> u64 {
    (RECORD_LEN + (variant_count - 1) * VARIANT_LEN) as u64
}

/// Bytes per write: enough for most contents with their fields.
const BUFFER_LEN: usize = 128 << 10;
