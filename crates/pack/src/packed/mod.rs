//! A packed site: one tar archive that any tar program extracts, and that is served as it lies.
//!
//! ```text
//! input ─ plan ─▶ files, contents ─ variants ─▶ variants ─ layout ─▶ places ─ archive ─▶ target
//!  read once       same content: one            coded, checked     members, image      named when whole
//! ```
//!
//! | file | what |
//! |---|---|
//! | `input.rs` | what it is made of |
//! | `plan.rs` | every file read once; which have the same content |
//! | `variants.rs` | the coded variants of all contents |
//! | `dictionaries.rs` | files of previous releases that clients may still have |
//! | `deltas.rs` | the variants for clients that have one of them |
//! | `code.rs`, `decode.rs` | codes a content; whether a coded content is its file |
//! | `reuse.rs` | an previous archive, and the variants in it |
//! | `changes.rs` | what has changed since an previous archive |
//! | `lists.rs` | lists of what directories have |
//! | `spill.rs` | variants on their way, in temporary files |
//! | `layout.rs` | where everything lies in the archive |
//! | `member.rs` | a member as tar has it |
//! | `image.rs` | the image of a packed site |
//! | `archive.rs` | writes the archive |
//! | `program.rs` | a program that carries its site |
//! | `target.rs` | nothing under a name until it is whole |
//! | `open.rs`, `inspect.rs`, `verify.rs` | a packed site opened, looked into, and checked |
//! | `work.rs`, `progress.rs` | many jobs on all cores; how far they are |
//! | `estimate.rs` | how long compressing will still take |
//! | `error.rs` | why there is no packed site |
//!
//! The same input gives the same bytes, on any machine. In prose: `docs/site-format.md`.

mod atomic_file;
mod changes;
mod decode;
mod deltas;
mod dictionaries;
mod embed;
mod encode;
mod error;
mod estimate;
mod image;
mod input;
mod inspect;
mod jobs;
mod layout;
mod listings;
mod open;
mod plan;
mod progress;
mod reuse;
mod spill;
mod tar_member;
#[cfg_attr(not(target_os = "linux"), path = "tmpfile_unsupported.rs")]
mod tmpfile;
mod variants;
mod verify;
mod write_archive;

pub use changes::Changes;
pub use dictionaries::Dictionaries;
pub use embed::embedded_site;
pub use encode::{CompressionEffort, Encoder, compress};
pub use error::{OpenError, SiteError};
pub use input::PackInput;
pub use inspect::{InspectedEntry, InspectedPath, InspectedRule, InspectedVariant, SiteInspection, inspect};
pub use progress::{PackStep, Progress, ProgressSnapshot};
pub use reuse::Reuse;
pub use verify::{Defect, Verification, verify};
pub use write_archive::ArchiveSizes;

use crate::error::PackError;
use crate::policy::Policy;
use crate::rules::Dialect;
use crate::skip::Skipped;
use atomic_file::AtomicFile;
use decode::Fingerprint;
use plan::PackPlan;
use reuse::PreviousArchive;
use spill::SpillFile;
use std::fs::File;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use tarpon_site::Coding;

/// The codings of variants, in the order that everything here has.
pub const CODINGS: [Coding; 3] = [Coding::Br, Coding::Gzip, Coding::Zstd];
/// The codings of variants for clients that have a dictionary.
pub const DELTA_CODINGS: [Coding; 2] = [Coding::Dcb, Coding::Dcz];

/// What the caller decides.
#[derive(Clone, Copy, Debug)]
pub struct SiteOptions<'o> {
    /// How much time coding may take.
    pub effort: CompressionEffort,
    /// Threads. They do not change the bytes.
    pub workers: NonZeroUsize,
    /// Seconds since 1970: what was modified later is said to have been modified then.
    pub max_mtime_s: u64,
    /// An previous archive, or a program that carries one: its variants are reused where they still fit. None: what lies at
    /// the target already, if it can be used.
    pub reuse: Option<&'o Path>,
    /// Earlier archives, whose files clients may have and use as dictionaries.
    pub dictionaries: &'o [PathBuf],
    /// Whether files say that they may be used as dictionaries for later releases.
    pub offer_dictionaries: bool,
    /// A program that is to carry the site: the target becomes such a one.
    pub program: Option<&'o File>,
    /// How `_headers` and `_redirects` at the root of the site are read.
    pub dialect: Dialect,
    /// How the site answers.
    pub policy: &'o Policy,
}

/// What was packed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackReport {
    /// Files.
    pub files: u64,
    /// Bytes of their contents.
    pub bytes: u64,
    /// Bytes of the archive.
    pub len: u64,
    /// The parts of the archive, and their bytes.
    pub sizes: ArchiveSizes,
    /// By [`CODINGS`].
    pub saved: [Savings; 3],
    /// By [`DELTA_CODINGS`]: over all files that have a variant for clients with a dictionary, the smallest counted.
    pub deltas: [Savings; 2],
    /// Whether there were dictionaries, and clients were not told to keep any of them.
    pub are_dictionaries_unoffered: bool,
    /// Contents that were compressed for this archive, in each coding that they were compressed in; lists of directories
    /// are not counted.
    pub compressed: u64,
    /// Whether an previous archive was reused.
    pub reuse: Reuse,
    /// The difference to the previous archive. None: no previous archive could be read.
    pub changes: Option<Changes>,
    /// What was left out, a row for each kind.
    pub skipped: Vec<Skipped>,
}

/// What a coding saves, over all files that have a variant in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Savings {
    /// Files.
    pub files: u64,
    /// Of them, those whose variant was made before: it lay precompressed the file, or in the previous archive.
    pub reused: u64,
    /// Bytes of their contents.
    pub plain: u64,
    /// Bytes of their variants.
    pub coded: u64,
}

impl Savings {
    fn add(&mut self, plain: u64, coded: u64, reused: bool) {
        self.files += 1;
        self.reused += u64::from(reused);
        self.plain += plain;
        self.coded += coded;
    }
}

/// A coded variant, on its way in one of the temporary files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpilledVariant {
    /// Which of the files.
    store: usize,
    /// Where it begins there.
    at: u64,
    fingerprint: Fingerprint,
    /// Whether it comes from the previous archive.
    reused: bool,
}

/// Packs a site into one archive at `target`, with all its variants. Nothing is there until all of it is, and is on disk.
///
/// # Errors
/// The input cannot be read, or changes meanwhile; the target cannot be written, or would be a part of
/// the input; the previous archive is none.
pub fn pack_site(
    input: PackInput<'_>,
    target: &Path,
    options: &SiteOptions<'_>,
    progress: &Progress,
) -> Result<PackReport, SiteError> {
    let write_failed = |error| SiteError::Write { path: target.to_owned(), error };
    let path = atomic_file::resolve_links(target).map_err(write_failed)?;
    if input.would_contain(&path) {
        return Err(SiteError::Inside { path: target.to_owned() });
    }
    let target = AtomicFile::new(&path).map_err(write_failed)?;
    let encoders = encode::encoders(options.effort);
    let (previous, reuse) = reuse::open_previous(options, &path, &encoders)
        .map_err(|error| SiteError::Reuse { path: options.reuse.unwrap_or(&path).to_owned(), error })?;
    let dictionaries = Dictionaries::open(options.dictionaries)?;
    let mut plan = PackPlan::new(input, options, progress)?;
    variants::find_precompressed(&mut plan, options)?;
    let spills = (0..options.workers.get()).map(|store| Ok(SpillFile::new(store, target.scratch()?)));
    let mut spills = spills.collect::<Result<Vec<_>, _>>().map_err(write_failed)?;
    let jobs = variants::jobs(&plan, options.effort, previous.as_ref());
    let expected = deltas::expected_work(&plan, options, &dictionaries);
    let kinds = jobs.iter().map(|job| (job.kind, plan.contents[job.content].fingerprint.len));
    progress.begin_coding(options.workers.get(), variants::content_len(&plan, &jobs), kinds.chain(expected));
    let mut packing = PackContext { options, previous: previous.as_ref(), spills: &mut spills, progress };
    let mut compressed = variants::make_variants(&mut plan, jobs, &mut packing, write_failed)?;
    let is_offered = match options.dictionaries {
        [] => None,
        _ => {
            let (is_offered, more) =
                deltas::make_deltas(&mut plan, &dictionaries, &mut packing, write_failed)?;
            compressed += more;
            is_offered
        }
    };
    if options.offer_dictionaries {
        deltas::set_offers(&mut plan);
    }
    let stores = spills.into_iter().map(|spill| spill.file).collect();
    plan.lists = listings::make(&plan, options).map_err(PackError::Write)?;
    let write = |to: &File| {
        write_archive::write(&plan, &stores, encoders, to, progress).map_err(|error| match error {
            SiteError::Input(PackError::Write(error)) => write_failed(error),
            error => error,
        })
    };
    let sizes = match options.program {
        None => write(&target.file)?,
        Some(program) => {
            let site = target.scratch().map_err(write_failed)?;
            let sizes = write(&site)?;
            let len = embed::write(program, &site, &target.file).map_err(write_failed)?;
            ArchiveSizes { program: len - sizes.total(), ..sizes }
        }
    };
    target.finish().map_err(write_failed)?;
    let is_dictionary_vain = is_offered == Some(false);
    let changes = previous.map(|previous| previous.changes(&plan));
    Ok(PackReport {
        sizes,
        compressed,
        reuse,
        changes,
        are_dictionaries_unoffered: is_dictionary_vain,
        ..report(plan, sizes.total())
    })
}

/// What all jobs of a packing share.
pub(crate) struct PackContext<'p> {
    options: &'p SiteOptions<'p>,
    previous: Option<&'p PreviousArchive>,
    /// One for each worker.
    spills: &'p mut [SpillFile],
    progress: &'p Progress,
}

fn report(plan: PackPlan<'_>, len: u64) -> PackReport {
    let mut report = PackReport { len, ..PackReport::default() };
    for file in &plan.files {
        let (content, plain) = (plan.content(file), plan.content(file).fingerprint.len);
        report.files += 1;
        report.bytes += plain;
        for (coding, saved) in report.saved.iter_mut().enumerate().filter(|_| !file.is_precompressed) {
            let (coded, reused) = match (file.precompressed[coding], content.variants[coding]) {
                (Some(form), _) => (plan.content(&plan.files[form]).fingerprint.len, true),
                (None, Some(variant)) => (variant.fingerprint.len, variant.reused),
                (None, None) => continue,
            };
            saved.add(plain, coded, reused);
        }
        for (coding, saved) in DELTA_CODINGS.iter().zip(&mut report.deltas) {
            let variants =
                content.deltas.iter().filter(|delta| delta.coding == *coding).map(|delta| delta.variant);
            let smallest = variants.min_by_key(|variant| variant.fingerprint.len);
            if let Some(SpilledVariant { fingerprint, reused, .. }) = smallest {
                saved.add(plain, fingerprint.len, reused);
            }
        }
    }
    PackReport { skipped: plan.skipped, ..report }
}
