//! Variants for clients that have a dictionary: a file of an earlier release that the same name had, but for its hash.
//!
//! ```text
//! content with a variant ─ its paths ─▶ dictionaries ─┬─ dcb ─┐ checked, and worth it beside the
//!                                                     └─ dcz ─┘ smallest variant without a dictionary
//! ```
//!
//! A content that no coding makes smaller has none: it is no text, or too small. Neither has a page that clients ask about before each
//! use, as they do unless a rule says otherwise: the earlier one is no dictionary for them (RFC 9842, section 2.2.1).

use super::code::encode_with;
use super::decode::decodes_with;
use super::dictionaries::{Dictionaries, Dictionary, Digest, FAMILY_MAX};
use super::error::SiteError;
use super::estimate::Kind;
use super::plan::{File, Plan};
use super::spill::Spill;
use super::variants::{CODED_LEN_MAX, is_worth, take};
use super::work::each;
use super::{DELTA_CODINGS, Packing, Piece, SiteOptions};
use crate::cache_control;
use crate::dictionary::{may_be_fresh, pattern};
use crate::error::PackError;
use crate::media::content_type;
use crate::rules::{Fields, Paths, is_hidden};
use std::collections::{BTreeSet, HashMap};
use std::io;
use tarpon_site::Coding;

/// A variant for those who have a dictionary.
pub(crate) struct Delta {
    pub(crate) dictionary: Digest,
    pub(crate) coding: Coding,
    pub(crate) piece: Piece,
}

/// A content to be coded with a dictionary.
struct Job {
    /// Number in [`Plan::contents`].
    content: usize,
    /// Number in [`Dictionaries`].
    dictionary: usize,
    coding: Coding,
    /// Bytes of the smallest variant without a dictionary.
    best_len: u64,
}

/// Returns the work that [`make`] may have: no less than it turns out to be.
pub(crate) fn expected(
    plan: &Plan<'_>,
    options: &SiteOptions<'_>,
    dictionaries: &Dictionaries,
) -> Vec<(Kind, u64)> {
    let may_be_coded = |file: &File| {
        let content = plan.content(file);
        let is_coded = content.compressible || file.beside.iter().any(Option::is_some);
        is_coded.then_some(content.print.len)
    };
    let jobs = jobs(plan, dictionaries, |file| codable(plan, file).then(|| may_be_coded(file))?);
    jobs.iter().map(|job| (job.kind(options), plan.contents[job.content].print.len)).collect()
}

/// Takes the deltas that the earlier archive has, and makes the others. Returns whether any of the dictionaries was offered
/// to clients, none if there are none; and how many deltas were made.
pub(crate) fn make(
    plan: &mut Plan<'_>,
    dictionaries: &Dictionaries,
    packing: &mut Packing<'_>,
    write_failed: impl Fn(io::Error) -> SiteError + Sync,
) -> Result<(Option<bool>, u64), SiteError> {
    let &mut Packing { options, earlier, ref mut spills, progress } = packing;
    let mut jobs = jobs(plan, dictionaries, |file| best_len(plan, file));
    jobs.sort_by_key(|job| std::cmp::Reverse(plan.contents[job.content].print.len));
    let kinds = DELTA_CODINGS.map(|coding| kind(coding, options));
    let work = jobs.iter().map(|job| (job.kind(options), plan.contents[job.content].print.len));
    progress.expect_instead(&kinds, work);
    let made = each(spills, &jobs, |spill, job| {
        let print = plan.contents[job.content].print;
        let _running = progress.run(spill.store, job.kind(options), print.len);
        let dictionary = dictionaries.read(job.dictionary)?;
        let known = earlier.and_then(|earlier| earlier.delta(print, &dictionary, job.coding));
        let (piece, compressed) = match known.map(|found| take(&found, spill)) {
            Some(Ok(piece)) => (Some(piece), 0),
            Some(Err(_)) | None => (one(plan, job, &dictionary, options, spill, &write_failed)?, 1),
        };
        let delta = piece.map(|piece| Delta { dictionary: dictionary.digest, coding: job.coding, piece });
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

impl Job {
    fn kind(&self, options: &SiteOptions<'_>) -> Kind {
        kind(self.coding, options)
    }
}

fn kind(coding: Coding, options: &SiteOptions<'_>) -> Kind {
    Kind::Difference(options.effort.encoder(coding, 0).expect("a coding with an encoder"))
}

/// Tells of each file what it may be the dictionary of.
pub(crate) fn offer(plan: &mut Plan<'_>) {
    let mut families: HashMap<String, BTreeSet<usize>> = HashMap::new();
    let of = |file: &File| {
        best_len(plan, file)?;
        let at = plan.addresses.address_of(&file.path).served_at;
        at.last().and_then(|path| pattern(path))
    };
    let offers: Vec<_> = plan.files.iter().map(of).collect();
    for (file, offer) in plan.files.iter().zip(&offers) {
        let Some(offer) = offer else { continue };
        families.entry(offer.clone()).or_default().insert(file.content);
    }
    for (file, offer) in plan.files.iter_mut().zip(offers) {
        file.offer = offer.filter(|offer| families[offer].len() <= FAMILY_MAX);
    }
}

/// Returns the contents to be coded with a dictionary; `best_len` tells the smallest variant of a file without one.
fn jobs(plan: &Plan<'_>, dictionaries: &Dictionaries, best_len: impl Fn(&File) -> Option<u64>) -> Vec<Job> {
    // By content and dictionary: several files may have both in common.
    let mut wanted: HashMap<(usize, usize), u64> = HashMap::new();
    for file in plan.files.iter().filter(|file| !is_page_asked_about(plan, file)) {
        let Some(best_len) = best_len(file) else { continue };
        let at = plan.addresses.address_of(&file.path).served_at;
        for dictionary in dictionaries.of(plan.content(file).print, at.iter().map(Vec::as_slice)) {
            wanted.insert((file.content, dictionary), best_len);
        }
    }
    let mut wanted: Vec<_> = wanted.into_iter().collect();
    wanted.sort_unstable();
    let jobs = wanted.into_iter().flat_map(|((content, dictionary), best_len)| {
        DELTA_CODINGS.map(|coding| Job { content, dictionary, coding, best_len })
    });
    jobs.collect()
}

/// Bytes of the smallest variant of a file that is served. None if there is none.
fn best_len(plan: &Plan<'_>, file: &File) -> Option<u64> {
    let content = plan.content(file);
    if !codable(plan, file) {
        return None;
    }
    let beside = file.beside.iter().flatten().map(|&form| plan.content(&plan.files[form]).print.len);
    content.variants.iter().flatten().map(|piece| piece.print.len).chain(beside).min()
}

/// Whether a file is served, is no form of another, and is not too large.
fn codable(plan: &Plan<'_>, file: &File) -> bool {
    !file.is_beside && !is_hidden(&file.path) && plan.content(file).print.len <= CODED_LEN_MAX
}

/// Whether a file is a page, and clients ask about it before each use.
fn is_page_asked_about(plan: &Plan<'_>, file: &File) -> bool {
    let name = file.path.rsplit(|&byte| byte == b'/').next().unwrap_or(&file.path);
    let media = content_type(name, &plan.content(file).look);
    if !media.starts_with("text/html") && !media.starts_with("application/xhtml+xml") {
        return false;
    }
    let at = plan.addresses.address_of(&file.path).served_at;
    let fields = at.iter().map(|path| plan.rules.fields(&[Paths::one(path)], Fields::default()));
    let mut caches = fields.filter_map(|fields| fields.split_off("Cache-Control").0);
    let cache = caches.next();
    !may_be_fresh(cache.as_deref().unwrap_or(cache_control::of_file(&file.path)))
}

/// Codes one content. None if it is not worth it.
fn one(
    plan: &Plan<'_>,
    job: &Job,
    dictionary: &Dictionary,
    options: &SiteOptions<'_>,
    spill: &mut Spill,
    write_failed: impl Fn(io::Error) -> SiteError,
) -> Result<Option<Piece>, SiteError> {
    let content = &plan.contents[job.content];
    let read_failed = |error| {
        let path = plan.input.name(&plan.files[content.file].lies);
        SiteError::from(PackError::Read { path, error })
    };
    let mut plain = Vec::with_capacity(content.print.len as usize);
    io::Read::read_to_end(&mut plan.open(content.file)?.reader(), &mut plain).map_err(read_failed)?;
    let written = spill.write(|to| encode_with(job.coding, options.effort, dictionary, &plain, to));
    let (at, print) = written.map_err(write_failed)?;
    if !is_worth(print.len, job.best_len) {
        return Ok(None);
    }
    let piece = Piece { store: spill.store, at, print, taken: false };
    if !decodes_with(job.coding, piece.reader(&spill.file), dictionary, content.print) {
        return Err(plan.changed(content.file));
    }
    spill.keep(print.len);
    Ok(Some(piece))
}
