//! Deltas: variants for clients that have a dictionary, which is an earlier version of the same file.
//!
//! ```text
//! content with a variant ─ its paths ─▶ dictionaries ─┬─ dcb ─┐ decodes, and is worthwhile compared with
//!                                                     └─ dcz ─┘ the smallest variant without a dictionary
//! ```
//!
//! A dictionary is a file of an earlier release with the same path, apart from a hash in its name. A content without a worthwhile variant
//! has no delta: it is no text, or too small. A page that clients revalidate before each use, as is the default, has none either, since
//! its earlier version is not fresh and so no dictionary for them (RFC 9842, section 2.2.1).

use super::codings::{CODED_LEN_MAX, DELTA_CODINGS, is_worthwhile};
use super::decode::decodes_with_dictionary;
use super::dictionaries::{Dictionaries, Dictionary, FAMILY_MAX};
use super::encode::encode_with_dictionary;
use super::error::SiteError;
use super::estimate::WorkKind;
use super::jobs::run_jobs;
use super::options::SiteOptions;
use super::plan::{PackPlan, PlannedFile};
use super::spill::{DeltaVariant, SpillFile, SpilledVariant};
use super::variants::{PackContext, copy_reused};
use crate::cache_control;
use crate::dictionary::{may_be_fresh, pattern};
use crate::media::content_type;
use crate::rules::{HeaderFields, PathSet, is_hidden};
use std::collections::{BTreeSet, HashMap};
use std::io;
use tarpon_site::Coding;

/// A content to compress with a dictionary.
struct DeltaJob {
    /// Number in [`PackPlan::contents`].
    content: usize,
    /// Number in [`Dictionaries`].
    dictionary: usize,
    coding: Coding,
    /// Length of the smallest variant without a dictionary.
    best_len: u64,
}

/// Returns an upper bound for the work of [`make_deltas`].
pub(crate) fn expected_work(
    plan: &PackPlan<'_>,
    options: &SiteOptions<'_>,
    dictionaries: &Dictionaries,
) -> Vec<(WorkKind, u64)> {
    let may_be_coded = |file: &PlannedFile| {
        let content = plan.content(file);
        let is_coded = content.compressible || file.precompressed.iter().any(Option::is_some);
        is_coded.then_some(content.fingerprint.len)
    };
    let jobs = delta_jobs(plan, dictionaries, |file| is_encodable(plan, file).then(|| may_be_coded(file))?);
    jobs.iter().map(|job| (job.kind(options), plan.contents[job.content].fingerprint.len)).collect()
}

/// Adds the deltas to the plan: those of the previous archive, and new ones. Returns whether any of the dictionaries in use was offered to
/// clients, or `None` without dictionaries, and the number of new deltas.
pub(crate) fn make_deltas(
    plan: &mut PackPlan<'_>,
    dictionaries: &Dictionaries,
    context: &mut PackContext<'_>,
    write_failed: impl Fn(io::Error) -> SiteError + Sync,
) -> Result<(Option<bool>, u64), SiteError> {
    let &mut PackContext { options, previous, ref mut spills, progress } = context;
    let mut jobs = delta_jobs(plan, dictionaries, |file| smallest_variant_len(plan, file));
    jobs.sort_by_key(|job| std::cmp::Reverse(plan.contents[job.content].fingerprint.len));
    let kinds = DELTA_CODINGS.map(|coding| kind(coding, options));
    let work = jobs.iter().map(|job| (job.kind(options), plan.contents[job.content].fingerprint.len));
    progress.replace_expected(&kinds, work);
    let made = run_jobs(spills, &jobs, |spill, job| {
        let fingerprint = plan.contents[job.content].fingerprint;
        let _guard = progress.run(spill.worker, job.kind(options), fingerprint.len);
        let dictionary = dictionaries.read(job.dictionary)?;
        let known = previous.and_then(|previous| previous.delta(fingerprint, &dictionary, job.coding));
        let (variant, compressed) = match known.map(|reused| copy_reused(&reused, spill)) {
            Some(Ok(variant)) => (Some(variant), 0),
            Some(Err(_)) | None => (encode_delta(plan, job, &dictionary, options, spill, &write_failed)?, 1),
        };
        let delta =
            variant.map(|variant| DeltaVariant { dictionary: dictionary.hash, coding: job.coding, variant });
        Ok::<_, SiteError>((delta, compressed))
    })?;
    let used: BTreeSet<_> = jobs.iter().map(|job| job.dictionary).collect();
    let compressed = made.iter().map(|(_, compressed)| compressed).sum();
    for (job, (delta, _)) in jobs.iter().zip(made) {
        plan.contents[job.content].deltas.extend(delta);
    }
    let is_offered = used.iter().any(|&number| dictionaries.is_offered(number));
    Ok(((!used.is_empty()).then_some(is_offered), compressed))
}

impl DeltaJob {
    fn kind(&self, options: &SiteOptions<'_>) -> WorkKind {
        kind(self.coding, options)
    }
}

fn kind(coding: Coding, options: &SiteOptions<'_>) -> WorkKind {
    WorkKind::Delta(options.effort.encoder(coding, 0).expect("the coding has an encoder"))
}

/// Sets for each file the paths for which clients may use it as a dictionary.
pub(crate) fn set_offers(plan: &mut PackPlan<'_>) {
    let mut families: HashMap<String, BTreeSet<usize>> = HashMap::new();
    let offer = |file: &PlannedFile| {
        smallest_variant_len(plan, file)?;
        let at = plan.addresses.address_of(&file.path).served_at;
        at.last().and_then(|path| pattern(&plan.addresses.policy.public_path(path)))
    };
    let offers: Vec<_> = plan.files.iter().map(offer).collect();
    for (file, offer) in plan.files.iter().zip(&offers) {
        let Some(offer) = offer else { continue };
        families.entry(offer.clone()).or_default().insert(file.content);
    }
    for (file, offer) in plan.files.iter_mut().zip(offers) {
        file.offer = offer.filter(|offer| families[offer].len() <= FAMILY_MAX);
    }
}

/// Returns the contents to compress with a dictionary. `best_len` returns the length of the smallest variant of a file without a
/// dictionary.
fn delta_jobs(
    plan: &PackPlan<'_>,
    dictionaries: &Dictionaries,
    best_len: impl Fn(&PlannedFile) -> Option<u64>,
) -> Vec<DeltaJob> {
    // By content and dictionary, since several files may share both.
    let mut wanted: HashMap<(usize, usize), u64> = HashMap::new();
    for file in plan.files.iter().filter(|file| !is_revalidated_page(plan, file)) {
        let Some(best_len) = best_len(file) else { continue };
        let at = plan.addresses.address_of(&file.path).served_at;
        for dictionary in dictionaries.matching(plan.content(file).fingerprint, at.iter().map(Vec::as_slice))
        {
            wanted.insert((file.content, dictionary), best_len);
        }
    }
    let mut wanted: Vec<_> = wanted.into_iter().collect();
    wanted.sort_unstable();
    let jobs = wanted.into_iter().flat_map(|((content, dictionary), best_len)| {
        DELTA_CODINGS.map(|coding| DeltaJob { content, dictionary, coding, best_len })
    });
    jobs.collect()
}

/// Returns the length of the smallest variant of a file. `None`: the file has no variant, or the server does not send it.
fn smallest_variant_len(plan: &PackPlan<'_>, file: &PlannedFile) -> Option<u64> {
    let content = plan.content(file);
    if !is_encodable(plan, file) {
        return None;
    }
    let precompressed =
        file.precompressed.iter().flatten().map(|&other| plan.content(&plan.files[other]).fingerprint.len);
    content.variants.iter().flatten().map(|variant| variant.fingerprint.len).chain(precompressed).min()
}

/// Returns whether the server sends a file, and the file is neither precompressed nor too large.
fn is_encodable(plan: &PackPlan<'_>, file: &PlannedFile) -> bool {
    !file.is_precompressed && !is_hidden(&file.path) && plan.content(file).fingerprint.len <= CODED_LEN_MAX
}

/// Returns whether a file is a page that clients revalidate before each use.
fn is_revalidated_page(plan: &PackPlan<'_>, file: &PlannedFile) -> bool {
    let name = file.path.rsplit(|&byte| byte == b'/').next().unwrap_or(&file.path);
    let media = content_type(name, &plan.content(file).look);
    if !media.starts_with("text/html") && !media.starts_with("application/xhtml+xml") {
        return false;
    }
    let at = plan.addresses.address_of(&file.path).served_at;
    let fields = at.iter().map(|path| plan.rules.fields(&[PathSet::one(path)], HeaderFields::default()));
    let mut caches = fields.filter_map(|fields| fields.split_off("Cache-Control").0);
    let cache = caches.next();
    let globs = &plan.addresses.policy.immutable;
    !may_be_fresh(cache.as_deref().unwrap_or(cache_control::of_file(&file.path, globs)))
}

/// Compresses a content with a dictionary. `None`: the delta is not worthwhile.
fn encode_delta(
    plan: &PackPlan<'_>,
    job: &DeltaJob,
    dictionary: &Dictionary,
    options: &SiteOptions<'_>,
    spill: &mut SpillFile,
    write_failed: impl Fn(io::Error) -> SiteError,
) -> Result<Option<SpilledVariant>, SiteError> {
    let content = &plan.contents[job.content];
    let mut plain = Vec::with_capacity(content.fingerprint.len as usize);
    io::Read::read_to_end(&mut plan.open(content.file)?.reader(), &mut plain)
        .map_err(|error| plan.read_failed(content.file, error))?;
    let variant = spill
        .write(|to| encode_with_dictionary(job.coding, options.effort, dictionary, &plain, to))
        .map_err(write_failed)?;
    if !is_worthwhile(variant.fingerprint.len, job.best_len) {
        return Ok(None);
    }
    if !decodes_with_dictionary(job.coding, variant.reader(&spill.file), dictionary, content.fingerprint) {
        return Err(plan.changed(content.file));
    }
    spill.keep(variant);
    Ok(Some(variant))
}
