//! Writes the archive: first the members, then the image, which holds their checksums, and last the front.

use super::error::SiteError;
use super::fingerprint::{CopyError, HashingWriter, copy};
use super::image;
use super::layout::{END_LEN, Layout};
use super::plan::{ContentSource, PackPlan};
use super::progress::{PackStep, Progress};
use super::spill::SpillFiles;
use super::tar_member::{BLOCK_LEN, front};
use crate::rules::is_hidden;
use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use tarpon_site::format::{ChecksumRow, Totals, section};
use tarpon_site::packed::IMAGE_AT;
use xxhash_rust::xxh3::xxh3_64;

/// The parts of an archive, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArchiveSizes {
    /// Contents of files, as tar programs extract them. A content of several files may be stored once.
    pub files: u64,
    /// Compressed variants.
    pub coded: u64,
    /// Small contents, which the image has once more behind their response fields.
    pub inline: u64,
    /// The program in which the site is embedded.
    pub program: u64,
    /// All other parts: response fields, the index, directory listings, tar headers, and padding.
    pub overhead: u64,
}

impl ArchiveSizes {
    /// Returns the length of the archive.
    pub fn total(&self) -> u64 {
        self.files + self.coded + self.inline + self.program + self.overhead
    }
}

/// Writes the archive into an empty file.
pub(crate) fn write(
    plan: &PackPlan<'_>,
    spills: &SpillFiles,
    encoders: String,
    mut file: &File,
    progress: &Progress,
) -> Result<ArchiveSizes, SiteError> {
    // One stretch for the front, one for each member with its headers, and one for the end.
    let stretch_count = 1 + Layout::count(plan) + 1;
    let unknown = ChecksumRow { at: 0, len: 0, hash: 0 };
    let sections = sections(plan, &vec![unknown; stretch_count], encoders.clone());
    let image_len = image::write(plan, &Layout::new(plan, 0), &sections, io::empty(), |_, len| {
        Ok(vec![0; len as usize])
    })?;
    let layout = Layout::new(plan, image_len);
    progress.begin(PackStep::Writing, layout.len);

    let modified_s = plan.files.iter().map(|file| file.modified_s).max().unwrap_or(0);
    let front = front(image_len, modified_s);
    let mut stretches = vec![ChecksumRow { at: 0, len: front.len() as u64, hash: xxh3_64(&front) }];
    file.seek(SeekFrom::Start(layout.image_end))?;
    let mut out = StretchWriter::new(file, layout.image_end);
    let mut sizes = ArchiveSizes::default();
    for member in &layout.members {
        out.pad_to(member.at)?;
        out.write_all(&member.headers)?;
        if let Some(source) = member.source {
            write_content(plan, spills, source, &mut out)?;
            match source {
                ContentSource::File(number) => {
                    sizes.files += plan.content(&plan.files[number]).fingerprint.len;
                }
                ContentSource::Variant(variant) => sizes.coded += variant.fingerprint.len,
            }
        }
        out.pad_to(out.at().next_multiple_of(BLOCK_LEN))?;
        progress.add(out.at() - out.start);
        stretches.push(out.end_stretch());
    }
    out.pad_to(layout.len - END_LEN)?;
    out.pad_to(layout.len)?;
    stretches.push(out.end_stretch());
    out.flush()?;
    drop(out);
    assert_eq!(stretches.len(), stretch_count, "the image has a row for each stretch");

    let written = image::write(
        plan,
        &layout,
        &self::sections(plan, &stretches, encoders),
        OffsetFile { file, at: IMAGE_AT },
        |source, len| {
            match source {
                ContentSource::File(_) => sizes.inline += len,
                ContentSource::Variant(_) => sizes.coded += len,
            }
            let mut bytes = Vec::with_capacity(len as usize);
            write_content(plan, spills, source, &mut bytes)?;
            Ok(bytes)
        },
    )?;
    assert_eq!(written, image_len, "the length of the image does not depend on the layout");
    file.rewind()?;
    file.write_all(&front)?;
    sizes.overhead = layout.len - sizes.total();
    Ok(sizes)
}

fn sections(plan: &PackPlan<'_>, stretches: &[ChecksumRow], encoders: String) -> Vec<(u32, Vec<u8>)> {
    let rows = stretches.iter().flat_map(ChecksumRow::encode).collect();
    let served = || plan.files.iter().filter(|file| !is_hidden(&file.path));
    let bytes = served().map(|file| plan.content(file).fingerprint.len).sum();
    let totals = Totals { files: served().count() as u64, bytes };
    let (encoders, totals) = (encoders.into_bytes(), totals.encode().to_vec());
    vec![(section::CHECKSUMS, rows), (section::ENCODERS, encoders), (section::TOTALS, totals)]
}

/// Writes a content. If its file has changed, returns an error.
fn write_content(
    plan: &PackPlan<'_>,
    spills: &SpillFiles,
    source: ContentSource,
    to: &mut impl Write,
) -> Result<(), SiteError> {
    match source {
        ContentSource::File(number) => {
            let mut out = HashingWriter::new(to);
            copy(plan.open(number)?.reader(), &mut out).map_err(|error| match error {
                CopyError::Read(error) => plan.read_failed(number, error),
                CopyError::Write(error) => error.into(),
            })?;
            let is_same = out.fingerprint() == plan.content(&plan.files[number]).fingerprint;
            if is_same { Ok(()) } else { Err(plan.changed(number)) }
        }
        ContentSource::Variant(variant) => {
            Ok(io::copy(&mut variant.reader(&spills[variant.worker]), to).map(drop)?)
        }
    }
}

/// Writes a file from an offset on, and computes a checksum for each stretch.
struct StretchWriter<'f> {
    to: HashingWriter<BufWriter<&'f File>>,
    /// Where the stretch begins.
    start: u64,
}

impl<'f> StretchWriter<'f> {
    fn new(file: &'f File, start: u64) -> StretchWriter<'f> {
        StretchWriter { to: HashingWriter::new(BufWriter::with_capacity(BUFFER_LEN, file)), start }
    }

    /// Returns the offset of the next byte.
    fn at(&self) -> u64 {
        self.start + self.to.len
    }

    fn pad_to(&mut self, at: u64) -> io::Result<()> {
        const ZEROS: [u8; BLOCK_LEN as usize] = [0; BLOCK_LEN as usize];
        while self.at() < at {
            let len = (at - self.at()).min(BLOCK_LEN);
            self.write_all(&ZEROS[..len as usize])?;
        }
        Ok(())
    }

    /// Ends a stretch, and begins the next one.
    fn end_stretch(&mut self) -> ChecksumRow {
        let row = ChecksumRow { at: self.start, len: self.to.len, hash: self.to.hash64() };
        self.start = self.at();
        self.to.restart();
        row
    }
}

impl Write for StretchWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.to.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// A file whose offset 0 is at `at`.
struct OffsetFile<'f> {
    file: &'f File,
    at: u64,
}

impl Write for OffsetFile<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for OffsetFile<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let to = match to {
            SeekFrom::Start(at) => SeekFrom::Start(self.at + at),
            relative => relative,
        };
        self.file.seek(to).map(|at| at.saturating_sub(self.at))
    }
}

/// Bytes written at once.
const BUFFER_LEN: usize = 256 << 10;
