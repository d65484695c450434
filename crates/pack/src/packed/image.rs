//! The image of a packed site: small contents behind their fields, large ones where the archive has them.

use super::deltas::Delta;
use super::error::SiteError;
use super::layout::Layout;
use super::plan::{File, Plan};
use super::{CODINGS, Piece};
use crate::content::{ContentSource, FileContent};
use crate::media::content_type;
use crate::rule_records::RuleRecords;
use crate::rules::is_hidden;
use crate::site_writer::{FileToWrite, write_listing, write_variants};
use crate::write::ImageWriter;
use std::io::{Seek, Write};
use tarpon_site::Coding;
use tarpon_site::format::{Home, INLINE_LEN_MAX};

/// A small content that goes into the image.
#[derive(Clone, Copy)]
pub(crate) enum Small {
    /// A file, as it is: number in [`Plan::files`].
    Plain(usize),
    /// A variant.
    Coded(Piece),
}

/// Writes the image; `read` reads what lies in it. Returns its length, which does not depend on where the layout places
/// what.
pub(crate) fn write(
    plan: &Plan<'_>,
    layout: &Layout,
    sections: &[(u32, Vec<u8>)],
    mut out: impl Write + Seek,
    mut read: impl FnMut(Small, u64) -> Result<Vec<u8>, SiteError>,
) -> Result<u64, SiteError> {
    let mut writer = ImageWriter::new(&mut out)?;
    let served = || plan.files.iter().enumerate().filter(|(_, file)| !is_hidden(&file.path));
    let mut ruled = RuleRecords::new(&plan.rules, &plan.addresses)?;
    for (number, file) in served() {
        let mut contents = vec![(Coding::Identity, plain(plan, layout, number, &mut read)?)];
        for (coding, form) in file.beside.iter().enumerate() {
            let content = match *form {
                Some(form) => Some(plain(plan, layout, form, &mut read)?),
                None if file.is_beside => None,
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
        let whole = FileToWrite { media, contents, deltas, offer: file.offer.as_deref() };
        write_variants(&mut writer, &mut ruled, &file.path, whole, &mut Vec::new())?;
    }
    for list in &plan.lists {
        write_listing(&mut writer, &mut ruled, &list.dir, list.html(), list.json())?;
    }
    let section = ruled.finish(&mut writer)?;
    let sections = [sections, section.as_slice()].concat();
    Ok(writer.finish(0, layout.len, &sections)?)
}

fn plain(
    plan: &Plan<'_>,
    layout: &Layout,
    number: usize,
    read: &mut impl FnMut(Small, u64) -> Result<Vec<u8>, SiteError>,
) -> Result<FileContent, SiteError> {
    let file = &plan.files[number];
    let content = plan.content(file);
    let body = match layout.plain_at(file.content) {
        Some(at) => ContentSource::Placed(Home::Archive, at),
        None => ContentSource::InMemory(read(Small::Plain(number), content.print.len)?),
    };
    let (len, hash) = (content.print.len, content.print.hash);
    Ok(FileContent { source: body, len, hash, sniffed: content.look, last_modified: file.modified_s })
}

fn deltas(
    plan: &Plan<'_>,
    layout: &Layout,
    file: &File,
    read: &mut impl FnMut(Small, u64) -> Result<Vec<u8>, SiteError>,
) -> Result<Vec<([u8; 32], Coding, FileContent)>, SiteError> {
    let content = plan.content(file);
    let mut deltas = Vec::with_capacity(content.deltas.len());
    for (number, &Delta { dictionary, coding, piece }) in content.deltas.iter().enumerate() {
        let placed = layout.delta_at(file.content, number);
        deltas.push((dictionary, coding, coded_content(plan, file, piece, placed, read)?));
    }
    Ok(deltas)
}

fn coded(
    plan: &Plan<'_>,
    layout: &Layout,
    file: &File,
    coding: usize,
    read: &mut impl FnMut(Small, u64) -> Result<Vec<u8>, SiteError>,
) -> Result<Option<FileContent>, SiteError> {
    let content = plan.content(file);
    let Some(piece) = content.variants[coding] else { return Ok(None) };
    let placed = layout.coded_at(file.content, coding);
    coded_content(plan, file, piece, placed, read).map(Some)
}

/// A coded content that lies in the archive at a place, or else goes into the image.
fn coded_content(
    plan: &Plan<'_>,
    file: &File,
    piece: Piece,
    placed: Option<u64>,
    read: &mut impl FnMut(Small, u64) -> Result<Vec<u8>, SiteError>,
) -> Result<FileContent, SiteError> {
    let (len, hash) = (piece.print.len, piece.print.hash);
    let body = match placed {
        Some(at) => ContentSource::Placed(Home::Archive, at),
        None => ContentSource::InMemory(read(Small::Coded(piece), len)?),
    };
    debug_assert!(len <= INLINE_LEN_MAX || matches!(body, ContentSource::Placed(..)));
    Ok(FileContent {
        source: body,
        len,
        hash,
        sniffed: plan.content(file).look,
        last_modified: file.modified_s,
    })
}
