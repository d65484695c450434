//! Writes the archive: its members first, whose checksums the image has, then the image and what comes before it.

use super::SpilledVariant;
use super::decode::{CopyError, Fingerprint, copy_hashed};
use super::error::SiteError;
use super::image::{self, InlineContent};
use super::layout::{END_LEN, Layout, MemberData, PlacedMember};
use super::plan::PackPlan;
use super::progress::{PackStep, Progress};
use super::tar_member::{BLOCK_LEN, front};
use super::variants::SpillFiles;
use crate::error::PackError;
use crate::rules::is_hidden;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use tarpon_site::format::{ChecksumRow, Totals, section};
use tarpon_site::packed::IMAGE_AT;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// The parts of an archive, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArchiveSizes {
    /// Contents of files, as any tar program extracts them; the same content of several files may lie there once.
    pub files: u64,
    /// Coded variants.
    pub coded: u64,
    /// Small contents, which lie behind their response fields too.
    pub inline: u64,
    /// The program that carries the site.
    pub program: u64,
    /// All else: response fields, the index, lists of directories, headers of tar, and room up to the next page.
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
    stores: &SpillFiles,
    encoders: String,
    mut file: &File,
    progress: &Progress,
) -> Result<ArchiveSizes, SiteError> {
    // The front, each member with what location before it, and the end.
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
    for member in &layout.members {
        out.pad_to(member.at)?;
        out.write_all(&member.head)?;
        data(plan, stores, member, &mut out)?;
        out.pad_to(out.at.next_multiple_of(BLOCK_LEN))?;
        progress.add(out.at - out.began);
        stretches.push(out.stretch());
    }
    out.pad_to(layout.len - END_LEN)?;
    out.pad_to(layout.len)?;
    stretches.push(out.stretch());
    out.to.flush()?;
    drop(out);
    assert_eq!(stretches.len(), stretch_count, "as many as there was room for");

    let mut sizes = ArchiveSizes::default();
    for member in &layout.members {
        match member.data {
            MemberData::Nothing => {}
            MemberData::File(number) => sizes.files += plan.content(&plan.files[number]).fingerprint.len,
            MemberData::Coded(variant) => sizes.coded += variant.fingerprint.len,
        }
    }
    let written = image::write(
        plan,
        &layout,
        &self::sections(plan, &stretches, encoders),
        OffsetFile { file, at: IMAGE_AT },
        |small, len| {
            match small {
                InlineContent::Plain(_) => sizes.inline += len,
                InlineContent::Coded(_) => sizes.coded += len,
            }
            read(plan, stores, small, len)
        },
    )?;
    assert_eq!(written, image_len, "as long as it was measured");
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

/// The data of a member, if it is still what it was.
fn data(
    plan: &PackPlan<'_>,
    stores: &SpillFiles,
    member: &PlacedMember,
    out: &mut impl Write,
) -> Result<(), SiteError> {
    match member.data {
        MemberData::Nothing => Ok(()),
        MemberData::File(number) => {
            let fingerprint =
                copy_hashed(plan.open(number)?.reader(), out).map_err(|failed| failed.or(plan, number))?;
            same(plan, number, fingerprint)
        }
        MemberData::Coded(variant) => {
            Ok(io::copy(&mut variant.reader(store(stores, variant)), out).map(drop)?)
        }
    }
}

/// A small content, if it is still what it was.
fn read(
    plan: &PackPlan<'_>,
    stores: &SpillFiles,
    small: InlineContent,
    len: u64,
) -> Result<Vec<u8>, SiteError> {
    let mut bytes = Vec::with_capacity(len as usize);
    match small {
        InlineContent::Plain(number) => {
            let plain = plan.open(number)?;
            let fingerprint =
                copy_hashed(plain.reader(), &mut bytes).map_err(|failed| failed.or(plan, number))?;
            same(plan, number, fingerprint)?;
        }
        InlineContent::Coded(variant) => {
            let _ = variant.reader(store(stores, variant)).read_to_end(&mut bytes)?;
        }
    }
    Ok(bytes)
}

fn same(plan: &PackPlan<'_>, number: usize, fingerprint: Fingerprint) -> Result<(), SiteError> {
    if fingerprint == plan.content(&plan.files[number]).fingerprint {
        Ok(())
    } else {
        Err(plan.changed(number))
    }
}

fn store(stores: &SpillFiles, variant: SpilledVariant) -> &File {
    &stores[variant.store]
}

impl CopyError {
    /// What that means where a file is copied.
    fn or(self, plan: &PackPlan<'_>, number: usize) -> SiteError {
        match self {
            CopyError::Read(error) => {
                PackError::Read { path: plan.input.name(&plan.files[number].location), error }.into()
            }
            CopyError::Write(error) => error.into(),
        }
    }
}

/// Writes on from a place, and sums up stretch by stretch.
struct StretchWriter<'f> {
    to: BufWriter<&'f File>,
    at: u64,
    hasher: Xxh3,
    /// Where the stretch began.
    began: u64,
}

impl<'f> StretchWriter<'f> {
    fn new(file: &'f File, at: u64) -> StretchWriter<'f> {
        StretchWriter { to: BufWriter::with_capacity(BUFFER_LEN, file), at, hasher: Xxh3::new(), began: at }
    }

    fn pad_to(&mut self, at: u64) -> io::Result<()> {
        const ZEROS: [u8; BLOCK_LEN as usize] = [0; BLOCK_LEN as usize];
        while self.at < at {
            let len = (at - self.at).min(BLOCK_LEN);
            self.write_all(&ZEROS[..len as usize])?;
        }
        Ok(())
    }

    /// Ends a stretch, and begins the next.
    fn stretch(&mut self) -> ChecksumRow {
        let row = ChecksumRow { at: self.began, len: self.at - self.began, hash: self.hasher.digest() };
        self.began = self.at;
        self.hasher.reset();
        row
    }
}

impl Write for StretchWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = self.to.write(bytes)?;
        self.hasher.update(&bytes[..len]);
        self.at += len as u64;
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// A file from a place on, as if it began there.
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

/// Bytes read or written at once.
const BUFFER_LEN: usize = 256 << 10;
