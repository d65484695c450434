//! The variants of all contents: precompressed files, variants of the previous archive, and new ones.
//!
//! ```text
//! a precompressed file that decodes to its file ───────────────────────────┐
//! in the previous archive, for the same content and encoders ── decodes ───┼─▶ a variant
//! newly compressed, and worthwhile ───────────────────────────── decodes ──┘
//! ```

use super::codings::{CODED_LEN_MAX, CODINGS, SUFFIXES, is_worthwhile};
use super::decode::decodes_to;
use super::encode::{CompressionEffort, encode};
use super::error::SiteError;
use super::estimate::WorkKind;
use super::fingerprint::fingerprint_of;
use super::jobs::run_jobs;
use super::options::SiteOptions;
use super::plan::PackPlan;
use super::progress::Progress;
use super::reuse::{PreviousArchive, ReusedVariant};
use super::spill::{SpillFile, SpilledVariant};
use crate::skip::{SkipReason, skip};
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What all jobs share.
pub(crate) struct PackContext<'p> {
    pub(crate) options: &'p SiteOptions<'p>,
    pub(crate) previous: Option<&'p PreviousArchive>,
    /// By worker.
    pub(crate) spills: &'p mut [SpillFile],
    pub(crate) progress: &'p Progress,
}

/// Finds the files that are compressed forms of other files: `page.html.br` of `page.html`.
pub(crate) fn find_precompressed(
    plan: &mut PackPlan<'_>,
    options: &SiteOptions<'_>,
) -> Result<(), SiteError> {
    let by_path: HashMap<_, _> =
        plan.files.iter().enumerate().map(|(number, file)| (&file.path[..], number)).collect();
    let mut candidates = Vec::new();
    for (file, planned) in plan.files.iter().enumerate() {
        for (coding, suffix) in SUFFIXES.iter().enumerate() {
            if let Some(&other) = by_path.get(&[&planned.path, suffix.as_bytes()].concat()[..]) {
                candidates.push((file, coding, other));
            }
        }
    }
    let mut workers = vec![(); options.workers.get()];
    let fingerprint = |file: usize| plan.content(&plan.files[file]).fingerprint;
    let decodes = run_jobs(&mut workers, &candidates, |(), &(file, coding, other)| {
        let coded = plan.open(other)?;
        Ok::<_, SiteError>(decodes_to(CODINGS[coding], coded.reader(), fingerprint(file)))
    })?;
    let is_smaller =
        |&(file, _, other): &(usize, usize, usize)| fingerprint(other).len < fingerprint(file).len;
    let smaller: Vec<_> = candidates.iter().map(is_smaller).collect();
    for (((file, coding, other), decodes), smaller) in candidates.into_iter().zip(decodes).zip(smaller) {
        match (decodes, smaller) {
            // Files come in the order of their names, so it is known whether `file` is a compressed form itself. Such a file has no
            // compressed forms.
            (true, true) if !plan.files[file].is_precompressed => {
                plan.files[file].precompressed[coding] = Some(other);
                plan.files[other].is_precompressed = true;
            }
            (true, _) => {}
            (false, _) => {
                let path = &plan.files[other].path;
                let path = Path::new(OsStr::from_bytes(path.strip_prefix(b"/").unwrap_or(path)));
                skip(&mut plan.skipped, SkipReason::PrecompressedMismatch, path);
            }
        }
    }
    Ok(())
}

/// Adds the variants to the plan: those of the previous archive, and new ones. Returns the number of new ones.
pub(crate) fn make_variants(
    plan: &mut PackPlan<'_>,
    jobs: Vec<VariantJob>,
    context: &mut PackContext<'_>,
    write_failed: impl Fn(io::Error) -> SiteError + Sync,
) -> Result<u64, SiteError> {
    let &mut PackContext { options, previous, ref mut spills, progress } = context;
    let made = run_jobs(spills, &jobs, |spill, job| {
        let fingerprint = plan.contents[job.content].fingerprint;
        let _guard = progress.run(spill.worker, job.kind, fingerprint.len);
        let known = previous.and_then(|previous| previous.variant(fingerprint, job.coding));
        let reused = known.map(|known| known.map(|variant| copy_reused(&variant, spill)).transpose());
        match reused {
            Some(Ok(variant)) => Ok((variant, 0)),
            // If the copy fails, the content is compressed anew.
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

/// Copies a variant of the previous archive. Fails if it is damaged.
pub(crate) fn copy_reused(reused: &ReusedVariant<'_>, spill: &mut SpillFile) -> io::Result<SpilledVariant> {
    let variant = spill.write(|to| io::copy(&mut reused.reader(), to).map(drop))?;
    if variant.fingerprint != reused.fingerprint {
        return Err(io::ErrorKind::InvalidData.into());
    }
    spill.keep(variant);
    Ok(SpilledVariant { is_reused: true, ..variant })
}

/// A content to compress in one coding.
pub(crate) struct VariantJob {
    /// Number in [`PackPlan::contents`].
    pub(crate) content: usize,
    /// Number in [`CODINGS`].
    coding: usize,
    pub(crate) kind: WorkKind,
}

/// Returns the contents to compress, in each coding without a precompressed file. The longest come first, so that no worker begins a
/// long job at the end. All codings of a content follow one another, so that the speed of each coding is known early.
pub(crate) fn variant_jobs(
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
            let encoder =
                effort.encoder(CODINGS[coding], fingerprint.len).expect("the coding has an encoder");
            let is_known = previous.is_some_and(|previous| previous.knows(fingerprint, coding));
            let kind = if is_known { WorkKind::Check } else { WorkKind::Compress(encoder) };
            jobs.push(VariantJob { content, coding, kind });
        }
    }
    jobs.sort_by_key(|job| std::cmp::Reverse(plan.contents[job.content].fingerprint.len));
    jobs
}

/// Returns the total length of the contents of jobs. Each content counts once.
pub(crate) fn content_len(plan: &PackPlan<'_>, jobs: &[VariantJob]) -> u64 {
    let contents: HashSet<_> = jobs.iter().map(|job| job.content).collect();
    contents.into_iter().map(|content| plan.contents[content].fingerprint.len).sum()
}

/// Compresses a content. `None`: the variant is not worthwhile.
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
    let variant = match written {
        Ok(variant) => variant,
        // Either the read or the write has failed. Reading the file again shows which.
        Err(error) => match fingerprint_of(plain.reader(), content.fingerprint.len) {
            Ok(fingerprint) if fingerprint == content.fingerprint => return Err(write_failed(error)),
            Ok(_) => return Err(plan.changed(content.file)),
            Err(error) => return Err(plan.read_failed(content.file, error)),
        },
    };
    if !is_worthwhile(variant.fingerprint.len, content.fingerprint.len) {
        return Ok(None);
    }
    if !decodes_to(coding, variant.reader(&spill.file), content.fingerprint) {
        return Err(plan.changed(content.file));
    }
    spill.keep(variant);
    Ok(Some(variant))
}
