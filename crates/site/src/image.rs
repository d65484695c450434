//! A checked view of an image. [`Image::new`] checks the tables and reads no record; a lookup decodes its record in place.

use crate::entry::{Entry, ImageBounds, Redirect, StatusPage, Variant};
use crate::error::ImageError;
use crate::field_block::FieldBlock;
use crate::format::{
    DELTA_LEN, HEADER_LEN, Header, INDEX_ALIGN, PAGES_ALIGN, SECTION_LEN, SLOT_COUNT_MIN, SLOT_LEN,
    STATUS_PAGE_CODES, STATUS_PAGE_LEN, SectionRow, StatusPageRow, Totals, VARIANT_COUNT_MAX, hash, section,
};
use crate::framing::{LOCATION, ValidatedResponses, frames_content, frames_nothing, frames_redirect};
use crate::region::Region;
use crate::resident_pages::{ImageResidency, NotResident, ResidentPages};
use crate::rules::{LogPaths, Rules, RulesLayout};
use bytes::Bytes;
use std::fmt;
use std::sync::Arc;

/// A site image, ready to serve. Clones are cheap and share the bytes.
#[derive(Clone)]
pub struct Image {
    bytes: Bytes,
    /// The offset of the index, which extends to the end of `bytes`. The number of its slots is a power of two.
    index_at: usize,
    file_count: u64,
    archive_len: u64,
    record_count: u64,
    /// The table of sections.
    sections: Region,
    /// The layout of the rules and their section, if there are rules.
    rules: Option<(RulesLayout, Region)>,
    /// The paths that the access log leaves out, if there are any.
    log_paths: Option<Arc<LogPaths>>,
    /// The table of deltas; empty if there are none.
    deltas: Region,
    /// The HPACK blocks of all responses.
    hpack: Region,
    /// The status pages, in the order of [`STATUS_PAGE_CODES`].
    pages: [StatusPage; STATUS_PAGE_CODES.len()],
    /// The residency of an image that is mapped from a file; `None` if the whole image is in memory.
    residency: Option<ImageResidency>,
    /// The responses whose fields have passed the check. Response numbers: the variants of each index slot, then the deltas.
    validated: ValidatedResponses,
    /// The responses whose HPACK block has passed the check.
    validated_hpack: ValidatedResponses,
}

impl Image {
    /// Checks header, checksums, and bounds of the tables. The time depends on the size of the index, not on that of the contents.
    ///
    /// # Errors
    /// Returns the first check that fails.
    pub fn new(bytes: Bytes) -> Result<Image, ImageError> {
        let header = Header::decode(bytes.first_chunk::<HEADER_LEN>().ok_or(ImageError::Magic)?)?;
        if header.len != bytes.len() as u64 {
            return Err(ImageError::Length);
        }
        check_index(&header).ok_or(ImageError::Index)?;
        check_pages(&header).ok_or(ImageError::Pages)?;
        let (pages_at, index_at) = (header.pages_at as usize, header.index_at as usize);
        if hash(&bytes[pages_at..]) != header.tables_hash {
            return Err(ImageError::TablesHash);
        }
        let rows = &bytes[pages_at..][..header.page_count as usize * STATUS_PAGE_LEN];
        let pages = read_pages(rows, header.len)?;
        check_framing(&pages, &bytes).ok_or(ImageError::Pages)?;
        let sections = sections(&header).ok_or(ImageError::Sections)?;
        let Header { file_count, archive_len, record_count, .. } = header;
        let mut image = Image {
            bytes,
            index_at,
            file_count,
            archive_len,
            record_count,
            sections,
            rules: None,
            log_paths: None,
            deltas: Region { at: 0, len: 0 },
            hpack: Region { at: 0, len: 0 },
            pages,
            residency: None,
            validated: ValidatedResponses::new(0),
            validated_hpack: ValidatedResponses::new(0),
        };
        image.hpack = image.find_section(section::HPACK);
        if !image.pages.iter().all(|page| image.has_hpack(page.fields)) {
            return Err(ImageError::Pages);
        }
        image.rules = image.find_rules()?;
        image.log_paths = image.find_log_paths()?.map(Arc::new);
        image.deltas = image.find_section(section::DELTAS);
        let response_count = image.delta_numbers_from() + image.delta_rows().len();
        image.validated = ValidatedResponses::new(response_count);
        image.validated_hpack = ValidatedResponses::new(response_count);
        Ok(image)
    }

    /// Returns the image as mapped from `file` at offset `at`. Lookups read only pages that `file` marks as resident, and return
    /// [`NotResident`] for the first page that is not. Without this, the whole image is in memory, and they never do.
    #[must_use]
    pub fn with_residency(self, file: Arc<ResidentPages>, at: u64) -> Image {
        Image { residency: Some(ImageResidency { file, at }), ..self }
    }

    /// Checks that a region is in memory.
    ///
    /// # Errors
    /// Returns the first page of the region that is not.
    #[inline]
    pub fn check_resident(&self, region: Region) -> Result<(), NotResident> {
        match &self.residency {
            None => Ok(()),
            Some(residency) => residency.check(region),
        }
    }

    /// Checks that a region is in memory whose first page is, which is mostly the only one.
    ///
    /// # Errors
    /// Returns the first page of the region that is not.
    #[inline(always)]
    pub(crate) fn check_rest_resident(&self, region: Region) -> Result<(), NotResident> {
        match &self.residency {
            Some(residency) if !residency.is_one_page(region) => residency.check(region),
            _ => Ok(()),
        }
    }

    /// Returns the rules of the site. `None`: it has none.
    ///
    /// # Errors
    /// They are not in memory.
    #[inline]
    pub fn rules(&self) -> Result<Option<Rules<'_>>, NotResident> {
        let Some((layout, section)) = &self.rules else { return Ok(None) };
        self.check_resident(*section)?;
        Ok(Some(Rules::new(layout, &self.bytes)))
    }

    /// Returns the paths that the access log leaves out. `None`: it leaves none out. They are always in memory.
    #[inline]
    pub fn log_paths(&self) -> Option<&LogPaths> {
        self.log_paths.as_deref()
    }

    /// Returns the page for a status of [`STATUS_PAGE_CODES`].
    ///
    /// # Panics
    /// Panics for any other code.
    #[inline]
    pub fn status_page(&self, code: u16) -> StatusPage {
        let index = STATUS_PAGE_CODES.iter().position(|&known| known == code);
        self.pages[index.expect("a status that has a page")]
    }

    /// Returns whether the fields of a variant frame its content, and the fields of its 304 response frame none. If not, the server must
    /// not send the variant. Fields that pass are not checked again.
    ///
    /// # Errors
    /// The fields are not in memory.
    #[inline]
    pub fn is_framed(&self, variant: &Variant) -> Result<bool, NotResident> {
        if self.validated.has(variant.number) { Ok(true) } else { self.validate(variant) }
    }

    /// Checks the fields of the first `count` entries now, and not when they are requested. Skips records that are not in memory.
    pub fn check_framing(&self, count: usize) {
        for (_, entry) in self.entries().take(count) {
            // A failed check is repeated when the entry is requested.
            match entry {
                Entry::File(variants) => {
                    let _ = self.is_framed(&variants.identity);
                    for (_, variant) in self.coded_variants(variants) {
                        let _ = self.is_framed(&variant);
                    }
                }
                Entry::Redirect(redirect) => drop(self.is_redirect_framed(&redirect)),
            }
        }
    }

    /// Returns whether the response of this number has passed the check of [`Image::is_framed`].
    #[inline]
    pub(crate) fn is_validated(&self, number: usize) -> bool {
        self.validated.has(number)
    }

    /// Returns whether the fields of a redirect frame its content, and the status of its rule is one of a redirect. See
    /// [`Image::is_framed`].
    ///
    /// # Errors
    /// The fields are not in memory.
    #[inline]
    pub fn is_redirect_framed(&self, redirect: &Redirect) -> Result<bool, NotResident> {
        if self.validated.has(redirect.number) { Ok(true) } else { self.validate_redirect(redirect) }
    }

    /// Returns whether the server must write the Location line of this redirect before its fields.
    ///
    /// # Errors
    /// The fields are not in memory.
    pub fn needs_location(&self, redirect: &Redirect) -> Result<bool, NotResident> {
        let fields = self.resident_bytes(redirect.after_query().text)?;
        Ok(self.is_redirect_framed(redirect)? && !fields.starts_with(LOCATION))
    }

    #[cold]
    fn validate(&self, variant: &Variant) -> Result<bool, NotResident> {
        let &Variant { content, number, .. } = variant;
        let fields = self.resident_bytes(variant.fields().text)?;
        let not_modified = self.bytes(variant.not_modified().text);
        let is_good = frames_content(fields, content.len())
            // A variant for an error status has no 304 fields.
            && (not_modified.is_empty() || frames_nothing(not_modified));
        if is_good {
            self.validated.add(number);
        }
        Ok(is_good)
    }

    #[cold]
    fn validate_redirect(&self, redirect: &Redirect) -> Result<bool, NotResident> {
        let &Redirect { rule_status: ruled, content, number, .. } = redirect;
        let fields = self.resident_bytes(redirect.fields().text)?;
        let is_good = ruled.is_none_or(|status| matches!(status, 300..=399) && status != 304)
            && frames_redirect(fields, content.len, redirect.before_query().len as usize);
        if is_good {
            self.validated.add(number);
        }
        Ok(is_good)
    }

    /// Returns the bytes of a region. The caller must [check](Image::check_resident) that they are in memory.
    ///
    /// # Panics
    /// Panics if the region is outside of this image. A region that this image returned never is.
    #[inline]
    pub fn bytes(&self, region: Region) -> &[u8] {
        &self.bytes[region.range()]
    }

    /// Returns the bytes of a region.
    ///
    /// # Errors
    /// They are not in memory.
    ///
    /// # Panics
    /// Panics if the region is outside of this image. A region that this image returned never is.
    #[inline]
    pub fn resident_bytes(&self, region: Region) -> Result<&[u8], NotResident> {
        self.check_resident(region)?;
        Ok(self.bytes(region))
    }

    /// Returns the length of the image in bytes.
    #[expect(clippy::len_without_is_empty, reason = "an image is never empty: it has a header")]
    #[inline]
    pub fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Returns the number of files beside the image, which the caller must open.
    #[inline]
    pub fn file_count(&self) -> u64 {
        self.file_count
    }

    /// Returns the length of the archive of the site, which the caller must open; 0 if there is none.
    #[inline]
    pub fn archive_len(&self) -> u64 {
        self.archive_len
    }

    #[inline]
    pub(crate) fn bounds(&self) -> ImageBounds {
        ImageBounds { len: self.len(), file_count: self.file_count, archive_len: self.archive_len }
    }

    /// Returns the number of records.
    pub fn record_count(&self) -> u64 {
        self.record_count
    }

    /// Returns the sections, which hold additional data. Skips sections outside of the image.
    pub fn sections(&self) -> impl Iterator<Item = (SectionRow, &[u8])> {
        let rows = self.bytes(self.sections).as_chunks::<SECTION_LEN>().0.iter().map(SectionRow::decode);
        rows.filter_map(|row| {
            let region = Region { at: row.at, len: row.len }.within(self.len())?;
            Some((row, self.bytes(region)))
        })
    }

    /// Returns the size of the site, or `None` if the packer did not store it.
    pub fn totals(&self) -> Option<Totals> {
        let totals = self.sections().find(|(row, _)| row.kind == section::TOTALS);
        totals.and_then(|(_, bytes)| bytes.first_chunk()).map(Totals::decode)
    }

    /// Returns the path below which clients see the site, decoded, without a slash at its end. Redirects of the image lead below it.
    /// Empty: the root of the host.
    pub fn base(&self) -> &[u8] {
        self.sections().find(|(row, _)| row.kind == section::BASE).map_or(&[], |(_, bytes)| bytes)
    }

    /// Finds and checks the rules. An error refuses the whole image, because a site must not be served without its rules.
    fn find_rules(&self) -> Result<Option<(RulesLayout, Region)>, ImageError> {
        let Some(region) = self.find_checked(section::RULES, ImageError::Rules)? else { return Ok(None) };
        let layout = RulesLayout::new(self.bytes(region), region.at).filter(|layout| {
            let rules = Rules::new(layout, &self.bytes);
            rules.are_valid(&self.bytes) && self.has_hpack(rules.fields())
        });
        layout.map(|layout| Some((layout, region))).ok_or(ImageError::Rules)
    }

    /// Finds and decodes the paths that the access log leaves out. An error refuses the whole image, because the log must not have
    /// requests that the site keeps out of it.
    fn find_log_paths(&self) -> Result<Option<LogPaths>, ImageError> {
        let Some(region) = self.find_checked(section::LOG_PATHS, ImageError::LogPaths)? else {
            return Ok(None);
        };
        LogPaths::new(self.bytes(region)).map(Some).ok_or(ImageError::LogPaths)
    }

    /// Finds a section, and checks its place and its checksum. `None`: there is none.
    fn find_checked(&self, kind: u32, error: ImageError) -> Result<Option<Region>, ImageError> {
        let mut rows = self.bytes(self.sections).as_chunks::<SECTION_LEN>().0.iter().map(SectionRow::decode);
        let Some(row) = rows.find(|row| row.kind == kind) else { return Ok(None) };
        let region = Region { at: row.at, len: row.len }.within(self.len());
        region.filter(|region| hash(self.bytes(*region)) == row.hash).map(Some).ok_or(error)
    }

    /// Finds a section that needs no check here, because lookups check what they read of it. Empty if there is none.
    fn find_section(&self, kind: u32) -> Region {
        let found = self.sections().find(|(row, _)| row.kind == kind);
        found.map_or(Region { at: 0, len: 0 }, |(row, _)| Region { at: row.at, len: row.len })
    }

    /// Returns the section of the HPACK blocks.
    pub(crate) fn hpack_section(&self) -> Region {
        self.hpack
    }

    /// Returns the responses whose HPACK block has passed the check.
    pub(crate) fn validated_hpack(&self) -> &ValidatedResponses {
        &self.validated_hpack
    }

    /// Returns the region of a slice of this image.
    #[inline]
    pub(crate) fn region_of(&self, piece: &[u8]) -> Region {
        let at = piece.as_ptr().addr() - self.bytes.as_ptr().addr();
        Region { at: at as u64, len: piece.len() as u64 }
    }

    /// Returns the table of deltas. The caller must [check](Image::check_resident) that a row is in memory before it reads it.
    pub(crate) fn delta_rows(&self) -> &[[u8; DELTA_LEN]] {
        self.bytes(self.deltas).as_chunks().0
    }

    /// Returns the response number of a delta.
    pub(crate) fn delta_number(&self, row: &[u8; DELTA_LEN]) -> usize {
        self.delta_numbers_from() + (self.region_of(row).at - self.deltas.at) as usize / DELTA_LEN
    }

    /// Returns the first response number of a delta; smaller numbers are variants of records.
    fn delta_numbers_from(&self) -> usize {
        self.slots().len() * usize::from(VARIANT_COUNT_MAX)
    }

    /// Returns all bytes of the image.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the slots of the index. Their number is a power of two. The caller must [check](Image::check_resident) that a slot
    /// is in memory before it reads it.
    #[inline(always)]
    pub(crate) fn slots(&self) -> &[[u8; SLOT_LEN]] {
        self.bytes[self.index_at..].as_chunks().0
    }
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Image")
            .field("len", &self.len())
            .field("record_count", &self.record_count)
            .field("file_count", &self.file_count)
            .finish_non_exhaustive()
    }
}

/// Checks that the fields of each status page frame its content. Status 204 has no content (RFC 9110, section 15.3.5).
fn check_framing(pages: &[StatusPage; STATUS_PAGE_CODES.len()], bytes: &[u8]) -> Option<()> {
    let is_good = |(page, code): (&StatusPage, u16)| match code {
        204 => frames_nothing(&bytes[page.fields.text.range()]),
        _ => frames_content(&bytes[page.fields.text.range()], page.content.len),
    };
    pages.iter().zip(STATUS_PAGE_CODES).all(is_good).then_some(())
}

/// Checks that the index is aligned and extends to the end of the image, that its number of slots is a power of two, and that at least
/// half of the slots are free.
fn check_index(header: &Header) -> Option<()> {
    let size = header.slot_count.checked_mul(SLOT_LEN as u64)?;
    let good = header.index_at.checked_add(size)? == header.len
        && header.index_at.is_multiple_of(INDEX_ALIGN)
        && header.slot_count.is_power_of_two()
        && header.slot_count >= SLOT_COUNT_MIN as u64
        && header.record_count <= header.slot_count / 2;
    good.then_some(())
}

/// Checks that the table of status pages is aligned and between the header and the index.
fn check_pages(header: &Header) -> Option<()> {
    let size = header.page_count.checked_mul(STATUS_PAGE_LEN as u64)?;
    let good = header.pages_at >= HEADER_LEN as u64
        && header.pages_at.is_multiple_of(PAGES_ALIGN)
        && header.pages_at.checked_add(size)? <= header.index_at;
    good.then_some(())
}

/// Returns the table of sections if it is within the image.
fn sections(header: &Header) -> Option<Region> {
    let len = header.section_count.checked_mul(SECTION_LEN as u64)?;
    Region { at: header.sections_at, len }.within(header.len)
}

/// Reads the pages for [`STATUS_PAGE_CODES`] in an image of `len` bytes.
fn read_pages(rows: &[u8], len: u64) -> Result<[StatusPage; STATUS_PAGE_CODES.len()], ImageError> {
    let empty = Region { at: 0, len: 0 };
    let mut pages = [StatusPage { fields: FieldBlock::EMPTY, content: empty }; STATUS_PAGE_CODES.len()];
    for (page, code) in pages.iter_mut().zip(STATUS_PAGE_CODES) {
        let mut rows = rows.as_chunks().0.iter().filter_map(StatusPageRow::decode);
        let row = rows.find(|row| row.code == code).ok_or(ImageError::PageMissing)?;
        *page = StatusPage::new(&row, len).ok_or(ImageError::Pages)?;
    }
    Ok(pages)
}
