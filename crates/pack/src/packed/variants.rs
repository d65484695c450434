//! The coded variants of all contents: found beside their files, taken over from an earlier archive, or made.
//!
//! ```text
//! beside its file, and decodes to it ──────────────────────────┐
//! in the earlier archive, same content, same encoders ── check ┼─▶ a variant
//! made, worth it ──────────────────────────────────────── check┘
//! ```

use super::code::encode;
use super::decode::{decodes_to, print_of};
use super::error::SiteError;
use super::plan::Plan;
use super::progress::{Progress, Step};
use super::reuse::{Earlier, Found};
use super::spill::Spill;
use super::work::each;
use super::{CODINGS, Piece, SiteOptions};
use crate::content::Positioned;
use crate::error::PackError;
use crate::skip::{Kind, skip};
use std::collections::HashMap;
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
                skip(&mut plan.skipped, Kind::CodedWrong, path);
            }
        }
    }
    Ok(())
}

/// Takes the variants that are missing over from the earlier archive, or makes them.
pub(crate) fn make(
    plan: &mut Plan<'_>,
    options: &SiteOptions<'_>,
    earlier: Option<&Earlier>,
    spills: &mut [Spill],
    write_failed: impl Fn(io::Error) -> SiteError + Sync,
    progress: &Progress,
) -> Result<(), SiteError> {
    let mut jobs = jobs(plan);
    // The longest first, so that none of them is begun when all else is done.
    jobs.sort_by_key(|job| std::cmp::Reverse(plan.contents[job.content].print.len));
    progress.begin(Step::Coding, jobs.iter().map(|job| plan.contents[job.content].print.len).sum());
    let made = each(spills, &jobs, |spill, job| {
        let print = plan.contents[job.content].print;
        let known = earlier.and_then(|earlier| earlier.variant(print, job.coding));
        let taken = known.map(|known| known.map(|found| take(&found, spill)).transpose());
        let piece = match taken {
            Some(Ok(piece)) => piece,
            // What cannot be taken over can still be made.
            Some(Err(_)) | None => one(plan, job, options, spill, &write_failed)?,
        };
        progress.add(print.len);
        Ok::<_, SiteError>(piece)
    })?;
    for (job, piece) in jobs.iter().zip(made) {
        plan.contents[job.content].variants[job.coding] = piece;
    }
    Ok(())
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
struct Job {
    /// Number in [`Plan::contents`].
    content: usize,
    /// Number in [`CODINGS`].
    coding: usize,
}

fn jobs(plan: &Plan<'_>) -> Vec<Job> {
    let mut wanted = vec![[false; 3]; plan.contents.len()];
    for file in plan.files.iter().filter(|file| !file.is_beside) {
        for (wanted, beside) in wanted[file.content].iter_mut().zip(file.beside) {
            *wanted |= beside.is_none();
        }
    }
    let mut jobs = Vec::new();
    for (content, wanted) in wanted.into_iter().enumerate() {
        let is_coded =
            plan.contents[content].compressible && plan.contents[content].print.len <= CODED_LEN_MAX;
        let codings = (0..CODINGS.len()).filter(|&coding| is_coded && wanted[coding]);
        jobs.extend(codings.map(|coding| Job { content, coding }));
    }
    jobs
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
        Positioned { file: store, at: self.at }.take(self.print.len)
    }
}

/// `Content-Encoding: gzip` and `Vary: Accept-Encoding`, with their line ends, and a byte.
const FIELDS_LEN: u64 = 48;
/// What is larger is a download, which few take compressed, and takes hours to code.
pub(crate) const CODED_LEN_MAX: u64 = 128 << 20;
