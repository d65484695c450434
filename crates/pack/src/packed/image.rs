//! The image of a packed site: small contents behind their fields, large ones where the archive has them.

use super::deltas::DeltaVariant;
use super::error::SiteError;
use super::layout::Layout;
use super::plan::{PackPlan, PlannedFile};
use super::{CODINGS, SpilledVariant};
use crate::Whole;
use crate::content::{Body, Content};
use crate::media::content_type;
use crate::ruled::Ruled;
use crate::rules::is_hidden;
use crate::write::Writer;
use std::io::{Seek, Write};
use tarpon_site::Coding;
use tarpon_site::format::{INLINE_LEN_MAX, Storage};

/// A small content that goes into the image.
#[derive(Clone, Copy)]
pub(crate) enum InlineContent {
    /// A file, as it is: number in [`Plan::files`].
    Plain(usize),
    /// A variant.
    Coded(SpilledVariant),
}

/// Writes the image; `read` reads what lies in it. Returns its length, which does not depend on where the layout places
/// what.
pub(crate) fn write(
    plan: &PackPlan<'_>,
    layout: &Layout,
    sections: &[(u32, Vec<u8>)],
    mut out: impl Write + Seek,
    mut read: impl FnMut(InlineContent, u64) -> Result<Vec<u8>, SiteError>,
) -> Result<u64, SiteError> {
    let mut writer = Writer::new(&mut out)?;
    let served = || plan.files.iter().enumerate().filter(|(_, file)| !is_hidden(&file.path));
    let mut ruled = Ruled::new(&plan.rules, &plan.addresses)?;
    for (number, file) in served() {
        let mut contents = vec![(Coding::Identity, plain(plan, layout, number, &mut read)?)];
        for (coding, form) in file.precompressed.iter().enumerate() {
            let content = match *form {
                Some(form) => Some(plain(plan, layout, form, &mut read)?),
                None if file.is_precompressed => None,
                None => coded(plan, layout, file, coding, &mut read)?,
            };
            contents.extend(content.map(|content| (CODINGS[coding], content)));
        }
        // Who has no coded variant has nothing to gain from a dictionary either.
        let deltas = match contents.len() {
            1 => Vec::new(),
            _ => deltas(plan, layout, file, &mut read)?,
        };
        let name = file.path.rsplit(|&byte| byte == b'/').next().unwrap_or(&file.path);
        let media = content_type(name, &plan.content(file).look);
        let whole = Whole { media, contents, deltas, offer: file.offer.as_deref() };
        crate::write_variants(&mut writer, &mut ruled, &file.path, whole, &mut Vec::new())?;
    }
    for list in &plan.lists {
        crate::write_listing(&mut writer, &mut ruled, &list.dir, list.html(), list.json())?;
    }
    let section = ruled.finish(&mut writer)?;
    let sections = [sections, section.as_slice()].concat();
    Ok(writer.finish(0, layout.len, &sections)?)
}

fn plain(
    plan: &PackPlan<'_>,
    layout: &Layout,
    number: usize,
    read: &mut impl FnMut(InlineContent, u64) -> Result<Vec<u8>, SiteError>,
) -> Result<Content, SiteError> {
    let file = &plan.files[number];
    let content = plan.content(file);
    let body = match layout.plain_at(file.content) {
        Some(at) => Body::Placed(Storage::Archive, at),
        None => Body::InMemory(read(InlineContent::Plain(number), content.fingerprint.len)?),
    };
    let (len, hash) = (content.fingerprint.len, content.fingerprint.hash);
    Ok(Content { body, len, hash, look: content.look, last_modified: file.modified_s })
}

fn deltas(
    plan: &PackPlan<'_>,
    layout: &Layout,
    file: &PlannedFile,
    read: &mut impl FnMut(InlineContent, u64) -> Result<Vec<u8>, SiteError>,
) -> Result<Vec<([u8; 32], Coding, Content)>, SiteError> {
    let content = plan.content(file);
    let mut deltas = Vec::with_capacity(content.deltas.len());
    for (number, &DeltaVariant { dictionary, coding, variant }) in content.deltas.iter().enumerate() {
        let placed = layout.delta_at(file.content, number);
        deltas.push((dictionary, coding, coded_content(plan, file, variant, placed, read)?));
    }
    Ok(deltas)
}

fn coded(
    plan: &PackPlan<'_>,
    layout: &Layout,
    file: &PlannedFile,
    coding: usize,
    read: &mut impl FnMut(InlineContent, u64) -> Result<Vec<u8>, SiteError>,
) -> Result<Option<Content>, SiteError> {
    let content = plan.content(file);
    let Some(variant) = content.variants[coding] else { return Ok(None) };
    let placed = layout.coded_at(file.content, coding);
    coded_content(plan, file, variant, placed, read).map(Some)
}

/// A coded content that lies in the archive at a place, or else goes into the image.
fn coded_content(
    plan: &PackPlan<'_>,
    file: &PlannedFile,
    variant: SpilledVariant,
    placed: Option<u64>,
    read: &mut impl FnMut(InlineContent, u64) -> Result<Vec<u8>, SiteError>,
) -> Result<Content, SiteError> {
    let (len, hash) = (variant.fingerprint.len, variant.fingerprint.hash);
    let body = match placed {
        Some(at) => Body::Placed(Storage::Archive, at),
        None => Body::InMemory(read(InlineContent::Coded(variant), len)?),
    };
    debug_assert!(len <= INLINE_LEN_MAX || matches!(body, Body::Placed(..)));
    Ok(Content { body, len, hash, look: plan.content(file).look, last_modified: file.modified_s })
}
