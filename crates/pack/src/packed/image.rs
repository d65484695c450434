//! The image of a packed site: small contents are in the image behind their fields, large ones are members of the archive.

use super::codings::CODINGS;
use super::error::SiteError;
use super::fingerprint::Fingerprint;
use super::layout::Layout;
use super::plan::{ContentSource, PackPlan, PlannedFile};
use super::spill::DeltaVariant;
use crate::content::{ContentPlace, FileContent};
use crate::media::content_type;
use crate::rule_records::RuleRecords;
use crate::rules::is_hidden;
use crate::site_writer::{FileToWrite, write_listing, write_variants};
use crate::write::ImageWriter;
use std::io::{Seek, Write};
use tarpon_site::Coding;
use tarpon_site::format::{INLINE_LEN_MAX, Storage};

/// Writes the image. `read` reads a small content of the given length. Returns the length of the image, which does not depend on the
/// offsets in the layout.
pub(crate) fn write(
    plan: &PackPlan<'_>,
    layout: &Layout,
    sections: &[(u32, Vec<u8>)],
    mut out: impl Write + Seek,
    mut read: impl FnMut(ContentSource, u64) -> Result<Vec<u8>, SiteError>,
) -> Result<u64, SiteError> {
    let mut writer = ImageWriter::new(&mut out)?;
    let served = || plan.files.iter().enumerate().filter(|(_, file)| !is_hidden(&file.path));
    let mut ruled = RuleRecords::new(&plan.rules, &plan.addresses)?;
    for (number, file) in served() {
        let mut contents = vec![(Coding::Identity, plain(plan, layout, number, &mut read)?)];
        for (coding, precompressed) in file.precompressed.iter().enumerate() {
            let content = match *precompressed {
                Some(other) => Some(plain(plan, layout, other, &mut read)?),
                None if file.is_precompressed => None,
                None => variant(plan, layout, file, coding, &mut read)?,
            };
            contents.extend(content.map(|content| (CODINGS[coding], content)));
        }
        // If no variant is worthwhile, no delta is.
        let deltas = match contents.len() {
            1 => Vec::new(),
            _ => deltas(plan, layout, file, &mut read)?,
        };
        let name = file.path.rsplit(|&byte| byte == b'/').next().unwrap_or(&file.path);
        let media = content_type(name, &plan.content(file).look);
        let whole = FileToWrite { media, contents, deltas, offer: file.offer.as_deref() };
        write_variants(&mut writer, &mut ruled, &file.path, whole, &mut Vec::new())?;
    }
    for listing in &plan.listings {
        write_listing(&mut writer, &mut ruled, &listing.dir, listing.html(), listing.json())?;
    }
    let sections = [sections, &ruled.finish(&mut writer)?].concat();
    Ok(writer.finish(0, layout.len, &sections)?)
}

/// Returns the content of a file.
fn plain(
    plan: &PackPlan<'_>,
    layout: &Layout,
    number: usize,
    read: &mut impl FnMut(ContentSource, u64) -> Result<Vec<u8>, SiteError>,
) -> Result<FileContent, SiteError> {
    let file = &plan.files[number];
    let (source, fingerprint) = (ContentSource::File(number), plan.content(file).fingerprint);
    content(plan, file, source, fingerprint, layout.plain_at(file.content), read)
}

/// Returns the variant of a file in a coding, if there is one.
fn variant(
    plan: &PackPlan<'_>,
    layout: &Layout,
    file: &PlannedFile,
    coding: usize,
    read: &mut impl FnMut(ContentSource, u64) -> Result<Vec<u8>, SiteError>,
) -> Result<Option<FileContent>, SiteError> {
    let Some(variant) = plan.content(file).variants[coding] else { return Ok(None) };
    let at = layout.variant_at(file.content, coding);
    content(plan, file, ContentSource::Variant(variant), variant.fingerprint, at, read).map(Some)
}

/// Returns the deltas of a file.
fn deltas(
    plan: &PackPlan<'_>,
    layout: &Layout,
    file: &PlannedFile,
    read: &mut impl FnMut(ContentSource, u64) -> Result<Vec<u8>, SiteError>,
) -> Result<Vec<([u8; 32], Coding, FileContent)>, SiteError> {
    let planned = plan.content(file);
    let mut deltas = Vec::with_capacity(planned.deltas.len());
    for (number, &DeltaVariant { dictionary, coding, variant }) in planned.deltas.iter().enumerate() {
        let (source, at) = (ContentSource::Variant(variant), layout.delta_at(file.content, number));
        deltas.push((dictionary, coding, content(plan, file, source, variant.fingerprint, at, read)?));
    }
    Ok(deltas)
}

/// Returns a content for the image: its offset in the archive, if it is a large one, or else its bytes.
fn content(
    plan: &PackPlan<'_>,
    file: &PlannedFile,
    source: ContentSource,
    Fingerprint { len, hash }: Fingerprint,
    at: Option<u64>,
    read: &mut impl FnMut(ContentSource, u64) -> Result<Vec<u8>, SiteError>,
) -> Result<FileContent, SiteError> {
    let body = match at {
        Some(at) => ContentPlace::Placed(Storage::Archive, at),
        None => ContentPlace::InMemory(read(source, len)?),
    };
    debug_assert!(len <= INLINE_LEN_MAX || matches!(body, ContentPlace::Placed(..)));
    Ok(FileContent {
        source: body,
        len,
        hash,
        sniffed: plan.content(file).look,
        last_modified: file.modified_s,
    })
}
