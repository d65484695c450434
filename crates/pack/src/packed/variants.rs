//! The coded variants of all contents: found precompressed their files, reused over from an previous archive, or made.
//!
//! ```text
//! precompressed its file, and decodes to it ──────────────────────────┐
//! in the previous archive, same content, same encoders ── check ┼─▶ a variant
//! made, worth it ──────────────────────────────────────── check┘
//! ```

use super::decode::{decodes_to, fingerprint_of};
use super::encode::{CompressionEffort, encode};
use super::error::SiteError;
use super::estimate::WorkKind;
use super::jobs::run_jobs;
use super::plan::PackPlan;
use super::reuse::{PreviousArchive, ReusedVariant};
use super::spill::SpillFile;
use super::{CODINGS, PackContext, SiteOptions, SpilledVariant};
use crate::content::Positioned;
use crate::error::PackError;
use crate::skip::{Kind, skip};
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Where variants lie: the temporary file of each worker.
pub(crate) type SpillFiles = Vec<File>;

/// The file names that tell a coding, by [`CODINGS`].
pub(crate) const SUFFIXES: [&str; 3] = [".br", ".gz", ".zst"];

/// Whether a variant is worth offering: it saves a sixteenth of its file, since a client has to decode it, and more
/// than the two fields cost that a coded response has precompressed those of the other.
pub(crate) fn is_worthwhile(coded_len: u64, plain_len: u64) -> bool {
    coded_len + (plain_len / 16).max(FIELDS_LEN) <= plain_len
}

/// Finds the files that are coded forms of the files they lie precompressed.
pub(crate) fn find_precompressed(
    plan: &mut PackPlan<'_>,
    options: &SiteOptions<'_>,
) -> Result<(), SiteError> {
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
    let fingerprint = |file: usize| plan.content(&plan.files[file]).fingerprint;
    let good = run_jobs(&mut workers, &jobs, |(), &(file, coding, form)| {
        let plain = plan.open(form)?;
        Ok::<_, SiteError>(decodes_to(CODINGS[coding], plain.reader(), fingerprint(file)))
    })?;
    let smaller: Vec<_> =
        jobs.iter().map(|&(file, _, form)| fingerprint(form).len < fingerprint(file).len).collect();
    for (((file, coding, form), good), smaller) in jobs.into_iter().zip(good).zip(smaller) {
        match (good, smaller) {
            // In the order of names a form comes behind its file: what is one has none.
            (true, true) if !plan.files[file].is_precompressed => {
                plan.files[file].precompressed[coding] = Some(form);
                plan.files[form].is_precompressed = true;
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

/// Takes the variants that are missing from the previous archive, or makes them. Returns how many contents were compressed,
/// each coding counted by itself.
pub(crate) fn make_variants(
    plan: &mut PackPlan<'_>,
    jobs: Vec<VariantJob>,
    packing: &mut PackContext<'_>,
    write_failed: impl Fn(io::Error) -> SiteError + Sync,
) -> Result<u64, SiteError> {
    let &mut PackContext { options, previous, ref mut spills, progress } = packing;
    let made = run_jobs(spills, &jobs, |spill, job| {
        let fingerprint = plan.contents[job.content].fingerprint;
        let _running = progress.run(spill.store, job.kind, fingerprint.len);
        let known = previous.and_then(|previous| previous.variant(fingerprint, job.coding));
        let reused = known.map(|known| known.map(|found| copy_reused(&found, spill)).transpose());
        match reused {
            Some(Ok(variant)) => Ok((variant, 0)),
            // What cannot be reused can still be made.
            Some(Err(_)) | None => {
                encode_variant(plan, job, options, spill, &write_failed).map(|variant| (variant, 1))
            }
        }
    })?;
    let compressed = made.iter().map(|(_, compressed)| compressed).sum();
    for (job, (variant, _)) in jobs.iter().zip(made) {
        plan.contents[job.content].variants[job.coding] = variant;
    }
    Ok(compressed)
}

/// Copies a variant of the previous archive, if it is still what it was.
pub(crate) fn copy_reused(found: &ReusedVariant<'_>, spill: &mut SpillFile) -> io::Result<SpilledVariant> {
    let (at, fingerprint) = spill.write(|to| io::copy(&mut found.reader(), to).map(drop))?;
    if fingerprint != found.fingerprint {
        return Err(io::ErrorKind::InvalidData.into());
    }
    spill.keep(fingerprint.len);
    Ok(SpilledVariant { store: spill.store, at, fingerprint, reused: true })
}

/// A content to be coded.
pub(crate) struct VariantJob {
    /// Number in [`Plan::contents`].
    pub(crate) content: usize,
    /// Number in [`CODINGS`].
    coding: usize,
    pub(crate) kind: WorkKind,
}

/// Returns the contents to be coded, in each coding that nothing precompressed them has. The longest come first, so that none of
/// them is begun when all else is done; all codings of one content together, so that the pace of each is known early.
pub(crate) fn jobs(
    plan: &PackPlan<'_>,
    effort: CompressionEffort,
    previous: Option<&PreviousArchive>,
) -> Vec<VariantJob> {
    let mut wanted = vec![[false; 3]; plan.contents.len()];
    for file in plan.files.iter().filter(|file| !file.is_precompressed) {
        for (wanted, precompressed) in wanted[file.content].iter_mut().zip(file.precompressed) {
            *wanted |= precompressed.is_none();
        }
    }
    let mut jobs = Vec::new();
    for (content, wanted) in wanted.into_iter().enumerate() {
        let fingerprint = plan.contents[content].fingerprint;
        let is_coded = plan.contents[content].compressible && fingerprint.len <= CODED_LEN_MAX;
        for coding in (0..CODINGS.len()).filter(|&coding| is_coded && wanted[coding]) {
            let encoder = effort.encoder(CODINGS[coding], fingerprint.len).expect("a coding with an encoder");
            let is_known = previous.is_some_and(|previous| previous.knows(fingerprint, coding));
            let kind = if is_known { WorkKind::Check } else { WorkKind::Compress(encoder) };
            jobs.push(VariantJob { content, coding, kind });
        }
    }
    jobs.sort_by_key(|job| std::cmp::Reverse(plan.contents[job.content].fingerprint.len));
    jobs
}

/// Returns the bytes of the contents that jobs are about, each counted once.
pub(crate) fn content_len(plan: &PackPlan<'_>, jobs: &[VariantJob]) -> u64 {
    let contents: HashSet<_> = jobs.iter().map(|job| job.content).collect();
    contents.into_iter().map(|content| plan.contents[content].fingerprint.len).sum()
}

/// Codes one content. None if it is not worth it.
fn encode_variant(
    plan: &PackPlan<'_>,
    job: &VariantJob,
    options: &SiteOptions<'_>,
    spill: &mut SpillFile,
    write_failed: impl Fn(io::Error) -> SiteError,
) -> Result<Option<SpilledVariant>, SiteError> {
    let (content, coding) = (&plan.contents[job.content], CODINGS[job.coding]);
    let plain = plan.open(content.file)?;
    let written =
        spill.write(|to| encode(coding, options.effort, plain.reader(), content.fingerprint.len, to));
    let (at, fingerprint) = match written {
        Ok(written) => written,
        // Either side may have failed.
        Err(error) => match fingerprint_of(plain.reader(), content.fingerprint.len) {
            Ok(fingerprint) if fingerprint == content.fingerprint => return Err(write_failed(error)),
            Ok(_) => return Err(plan.changed(content.file)),
            Err(error) => {
                let path = plan.input.name(&plan.files[content.file].location);
                return Err(PackError::Read { path, error }.into());
            }
        },
    };
    if !is_worthwhile(fingerprint.len, content.fingerprint.len) {
        return Ok(None);
    }
    let variant = SpilledVariant { store: spill.store, at, fingerprint, reused: false };
    if !decodes_to(coding, variant.reader(&spill.file), content.fingerprint) {
        return Err(plan.changed(content.file));
    }
    spill.keep(fingerprint.len);
    Ok(Some(variant))
}

impl SpilledVariant {
    /// Reads it from its store.
    pub(crate) fn reader<'f>(&self, store: &'f File) -> impl Read + use<'f> {
        Positioned { file: store, at: self.at }.take(self.fingerprint.len)
    }
}

/// `Content-Encoding: gzip` and `Vary: Accept-Encoding`, with their line ends, and a byte.
const FIELDS_LEN: u64 = 48;
/// What is larger is a download, which few take compressed, and takes hours to code.
pub(crate) const CODED_LEN_MAX: u64 = 128 << 20;
