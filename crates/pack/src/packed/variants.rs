//! The coded variants of all contents: found beside their files, taken over from an earlier archive, or made.
//!
//! ```text
//! beside its file, and decodes to it ──────────────────────────┐
//! in the earlier archive, same content, same encoders ── check ┼─▶ a variant
//! made, worth it ──────────────────────────────────────── check┘
//! ```

use super::code::{Effort, encode};
use super::decode::{decodes_to, print_of};
use super::error::SiteError;
use super::estimate::Kind as Work;
use super::plan::Plan;
use super::reuse::{Earlier, Found};
use super::spill::Spill;
use super::work::each;
use super::{CODINGS, Packing, Piece, SiteOptions};
use crate::content::OffsetReader;
use crate::error::PackError;
use crate::skip::{SkipReason, skip};
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Where pieces lie: the temporary file of each worker.
pub(crate) type Stores = Vec<File>;

/// The file names that tell a coding, by [`CODINGS`].
pub(crate) const SUFFIXES: [&str; 3] = [".br", ".gz", ".zst"];

/// Whether a variant is worth offering: it saves a sixteenth of its file, since a client has to decode it, and more
/// than the two fields cost that a coded response has beside those of the other.
pub(crate) fn is_worth(coded_len: u64, plain_len: u64) -> bool {
    coded_len + (plain_len / 16).max(FIELDS_LEN) <= plain_len
}

/// Finds the files that are coded forms of the files they lie beside.
pub(crate) fn beside(plan: &mut Plan<'_>, options: &SiteOptions<'_>) -> Result<(), SiteError> {
    let by_path: HashMap<_, _> =
        plan.files.iter().enumerate().map(|(at, file)| (&file.path[..], at)).collect();
    let mut jobs = Vec::new();
    for (number, file) in plan.files.iter().enumerate() {
        for (coding, suffix) in SUFFIXES.iter().enumerate() {
            if let Some(&form) = by_path.get(&[&file.path, suffix.as_bytes()].concat()[..]) {
                jobs.push((number, coding, form));
            }
        }
    }
    let mut workers = vec![(); options.workers.get()];
    let print = |file: usize| plan.content(&plan.files[file]).print;
    let good = each(&mut workers, &jobs, |(), &(file, coding, form)| {
        let plain = plan.open(form)?;
        Ok::<_, SiteError>(decodes_to(CODINGS[coding], plain.reader(), print(file)))
    })?;
    let smaller: Vec<_> = jobs.iter().map(|&(file, _, form)| print(form).len < print(file).len).collect();
    for (((file, coding, form), good), smaller) in jobs.into_iter().zip(good).zip(smaller) {
        match (good, smaller) {
            // In the order of names a form comes behind its file: what is one has none.
            (true, true) if !plan.files[file].is_beside => {
                plan.files[file].beside[coding] = Some(form);
                plan.files[form].is_beside = true;
            }
            (true, _) => {}
            (false, _) => {
                let path = &plan.files[form].path;
                let path = Path::new(OsStr::from_bytes(path.strip_prefix(b"/").unwrap_or(path)));
                skip(&mut plan.skipped, SkipReason::PrecompressedMismatch, path);
            }
        }
    }
    Ok(())
}

/// Takes the variants that are missing from the earlier archive, or makes them. Returns how many contents were compressed,
/// each coding counted by itself.
pub(crate) fn make(
    plan: &mut Plan<'_>,
    jobs: Vec<Job>,
    packing: &mut Packing<'_>,
    write_failed: impl Fn(io::Error) -> SiteError + Sync,
) -> Result<u64, SiteError> {
    let &mut Packing { options, earlier, ref mut spills, progress } = packing;
    let made = each(spills, &jobs, |spill, job| {
        let print = plan.contents[job.content].print;
        let _running = progress.run(spill.store, job.kind, print.len);
        let known = earlier.and_then(|earlier| earlier.variant(print, job.coding));
        let taken = known.map(|known| known.map(|found| take(&found, spill)).transpose());
        match taken {
            Some(Ok(piece)) => Ok((piece, 0)),
            // What cannot be taken can still be made.
            Some(Err(_)) | None => one(plan, job, options, spill, &write_failed).map(|piece| (piece, 1)),
        }
    })?;
    let compressed = made.iter().map(|(_, compressed)| compressed).sum();
    for (job, (piece, _)) in jobs.iter().zip(made) {
        plan.contents[job.content].variants[job.coding] = piece;
    }
    Ok(compressed)
}

/// Copies a variant of the earlier archive, if it is still what it was.
pub(crate) fn take(found: &Found<'_>, spill: &mut Spill) -> io::Result<Piece> {
    let (at, print) = spill.write(|to| io::copy(&mut found.reader(), to).map(drop))?;
    if print != found.print {
        return Err(io::ErrorKind::InvalidData.into());
    }
    spill.keep(print.len);
    Ok(Piece { store: spill.store, at, print, taken: true })
}

/// A content to be coded.
pub(crate) struct Job {
    /// Number in [`Plan::contents`].
    pub(crate) content: usize,
    /// Number in [`CODINGS`].
    coding: usize,
    pub(crate) kind: Work,
}

/// Returns the contents to be coded, in each coding that nothing beside them has. The longest come first, so that none of
/// them is begun when all else is done; all codings of one content together, so that the pace of each is known early.
pub(crate) fn jobs(plan: &Plan<'_>, effort: Effort, earlier: Option<&Earlier>) -> Vec<Job> {
    let mut wanted = vec![[false; 3]; plan.contents.len()];
    for file in plan.files.iter().filter(|file| !file.is_beside) {
        for (wanted, beside) in wanted[file.content].iter_mut().zip(file.beside) {
            *wanted |= beside.is_none();
        }
    }
    let mut jobs = Vec::new();
    for (content, wanted) in wanted.into_iter().enumerate() {
        let print = plan.contents[content].print;
        let is_coded = plan.contents[content].compressible && print.len <= CODED_LEN_MAX;
        for coding in (0..CODINGS.len()).filter(|&coding| is_coded && wanted[coding]) {
            let encoder = effort.encoder(CODINGS[coding], print.len).expect("a coding with an encoder");
            let is_known = earlier.is_some_and(|earlier| earlier.knows(print, coding));
            let kind = if is_known { Work::Check } else { Work::Compress(encoder) };
            jobs.push(Job { content, coding, kind });
        }
    }
    jobs.sort_by_key(|job| std::cmp::Reverse(plan.contents[job.content].print.len));
    jobs
}

/// Returns the bytes of the contents that jobs are about, each counted once.
pub(crate) fn len(plan: &Plan<'_>, jobs: &[Job]) -> u64 {
    let contents: HashSet<_> = jobs.iter().map(|job| job.content).collect();
    contents.into_iter().map(|content| plan.contents[content].print.len).sum()
}

/// Codes one content. None if it is not worth it.
fn one(
    plan: &Plan<'_>,
    job: &Job,
    options: &SiteOptions<'_>,
    spill: &mut Spill,
    write_failed: impl Fn(io::Error) -> SiteError,
) -> Result<Option<Piece>, SiteError> {
    let (content, coding) = (&plan.contents[job.content], CODINGS[job.coding]);
    let plain = plan.open(content.file)?;
    let written = spill.write(|to| encode(coding, options.effort, plain.reader(), content.print.len, to));
    let (at, print) = match written {
        Ok(written) => written,
        // Either side may have failed.
        Err(error) => match print_of(plain.reader(), content.print.len) {
            Ok(print) if print == content.print => return Err(write_failed(error)),
            Ok(_) => return Err(plan.changed(content.file)),
            Err(error) => {
                let path = plan.input.name(&plan.files[content.file].lies);
                return Err(PackError::Read { path, error }.into());
            }
        },
    };
    if !is_worth(print.len, content.print.len) {
        return Ok(None);
    }
    let piece = Piece { store: spill.store, at, print, taken: false };
    if !decodes_to(coding, piece.reader(&spill.file), content.print) {
        return Err(plan.changed(content.file));
    }
    spill.keep(print.len);
    Ok(Some(piece))
}

impl Piece {
    /// Reads it from its store.
    pub(crate) fn reader<'f>(&self, store: &'f File) -> impl Read + use<'f> {
        OffsetReader { file: store, at: self.at }.take(self.print.len)
    }
}

/// `Content-Encoding: gzip` and `Vary: Accept-Encoding`, with their line ends, and a byte.
const FIELDS_LEN: u64 = 48;
/// What is larger is a download, which few take compressed, and takes hours to code.
pub(crate) const CODED_LEN_MAX: u64 = 128 << 20;
