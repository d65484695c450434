//! A packed site: one tar archive that any tar program extracts, and that is served as it lies.
//!
//! ```text
//! input ─ plan ─▶ files, contents ─ variants ─▶ pieces ─ layout ─▶ places ─ archive ─▶ target
//!  read once       same content: one            coded, checked     members, image      named when whole
//! ```
//!
//! | file | what |
//! |---|---|
//! | `input.rs` | what it is made of |
//! | `plan.rs` | every file read once; which have the same content |
//! | `variants.rs` | the coded variants of all contents |
//! | `dictionaries.rs` | files of earlier releases that clients may still have |
//! | `deltas.rs` | the variants for clients that have one of them |
//! | `code.rs`, `decode.rs` | codes a content; whether a coded content is its file |
//! | `reuse.rs` | an earlier archive, and the variants in it |
//! | `changes.rs` | what has changed since an earlier archive |
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

mod archive;
mod changes;
mod code;
mod decode;
mod deltas;
mod dictionaries;
mod error;
mod estimate;
mod image;
mod input;
mod inspect;
mod layout;
mod lists;
mod member;
mod open;
mod plan;
mod program;
mod progress;
mod reuse;
mod spill;
mod target;
#[cfg_attr(not(target_os = "linux"), path = "named.rs")]
mod unnamed;
mod variants;
mod verify;
mod work;

pub use archive::Makeup;
pub use changes::Changes;
pub use code::{Effort, Encoder, compress};
pub use dictionaries::Dictionaries;
pub use error::{OpenError, SiteError};
pub use input::Input;
pub use inspect::{Form, Inspected, PathRow, Rule, What, inspect};
pub use program::carried_by;
pub use progress::{Now, Progress, Step};
pub use reuse::Reuse;
pub use verify::{Finding, Verified, verify};

use crate::error::PackError;
use crate::policy::Policy;
use crate::rules::Dialect;
use crate::skip::Skipped;
use decode::Print;
use plan::Plan;
use reuse::Earlier;
use spill::Spill;
use std::fs::File;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use target::Target;
use tarpon_site::Coding;

/// The codings of variants, in the order that everything here has.
pub const CODINGS: [Coding; 3] = [Coding::Br, Coding::Gzip, Coding::Zstd];
/// The codings of variants for clients that have a dictionary.
pub const DELTA_CODINGS: [Coding; 2] = [Coding::Dcb, Coding::Dcz];

/// What the caller decides.
#[derive(Clone, Copy, Debug)]
pub struct SiteOptions<'o> {
    /// How much time coding may take.
    pub effort: Effort,
    /// Threads. They do not change the bytes.
    pub workers: NonZeroUsize,
    /// Seconds since 1970: what was modified later is said to have been modified then.
    pub latest_s: u64,
    /// An earlier archive, or a program that carries one: its variants are taken where they still fit. None: what lies at
    /// the target already, if it can be used.
    pub reuse: Option<&'o Path>,
    /// Earlier archives, whose files clients may have and use as dictionaries.
    pub dictionaries: &'o [PathBuf],
    /// Whether files say that they may be used as dictionaries for later releases.
    pub offers: bool,
    /// A program that is to carry the site: the target becomes such a one.
    pub program: Option<&'o File>,
    /// How `_headers` and `_redirects` at the root of the site are read.
    pub dialect: Dialect,
    /// How the site answers.
    pub policy: &'o Policy,
}

/// What was packed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Files.
    pub files: u64,
    /// Bytes of their contents.
    pub bytes: u64,
    /// Bytes of the archive.
    pub len: u64,
    /// The parts of the archive, and their bytes.
    pub makeup: Makeup,
    /// By [`CODINGS`].
    pub saved: [Saved; 3],
    /// By [`DELTA_CODINGS`]: over all files that have a variant for clients with a dictionary, the smallest counted.
    pub deltas: [Saved; 2],
    /// Whether there were dictionaries, and clients were not told to keep any of them.
    pub is_dictionary_vain: bool,
    /// Contents that were compressed for this archive, in each coding that they were compressed in; lists of directories
    /// are not counted.
    pub compressed: u64,
    /// Whether an earlier archive was reused.
    pub reuse: Reuse,
    /// The difference to the earlier archive. None: no earlier archive could be read.
    pub changes: Option<Changes>,
    /// What was left out, a row for each kind.
    pub skipped: Vec<Skipped>,
}

/// What a coding saves, over all files that have a variant in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// Files.
    pub files: u64,
    /// Of them, those whose variant was made before: it lay beside the file, or in the earlier archive.
    pub taken: u64,
    /// Bytes of their contents.
    pub plain: u64,
    /// Bytes of their variants.
    pub coded: u64,
}

impl Saved {
    fn add(&mut self, plain: u64, coded: u64, taken: bool) {
        self.files += 1;
        self.taken += u64::from(taken);
        self.plain += plain;
        self.coded += coded;
    }
}

/// A coded variant, on its way in one of the temporary files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Which of the files.
    store: usize,
    /// Where it begins there.
    at: u64,
    print: Print,
    /// Whether it comes from the earlier archive.
    taken: bool,
}

/// Packs a site into one archive at `target`, with all its variants. Nothing is there until all of it is, and is on disk.
///
/// # Errors
/// The input cannot be read, or changes meanwhile; the target cannot be written, or would be a part of
/// the input; the earlier archive is none.
pub fn pack_site(
    input: Input<'_>,
    target: &Path,
    options: &SiteOptions<'_>,
    progress: &Progress,
) -> Result<Report, SiteError> {
    let write_failed = |error| SiteError::Write { path: target.to_owned(), error };
    let path = target::led_to(target).map_err(write_failed)?;
    if input.would_have(&path) {
        return Err(SiteError::Inside { path: target.to_owned() });
    }
    let target = Target::new(&path).map_err(write_failed)?;
    let encoders = code::encoders(options.effort);
    let (earlier, reuse) = reuse::earlier(options, &path, &encoders)
        .map_err(|error| SiteError::Reuse { path: options.reuse.unwrap_or(&path).to_owned(), error })?;
    let dictionaries = Dictionaries::open(options.dictionaries)?;
    let mut plan = Plan::new(input, options, progress)?;
    variants::beside(&mut plan, options)?;
    let spills = (0..options.workers.get()).map(|store| Ok(Spill::new(store, target.scratch()?)));
    let mut spills = spills.collect::<Result<Vec<_>, _>>().map_err(write_failed)?;
    let jobs = variants::jobs(&plan, options.effort, earlier.as_ref());
    let expected = deltas::expected(&plan, options, &dictionaries);
    let kinds = jobs.iter().map(|job| (job.kind, plan.contents[job.content].print.len));
    progress.begin_coding(options.workers.get(), variants::len(&plan, &jobs), kinds.chain(expected));
    let mut packing = Packing { options, earlier: earlier.as_ref(), spills: &mut spills, progress };
    let mut compressed = variants::make(&mut plan, jobs, &mut packing, write_failed)?;
    let is_offered = match options.dictionaries {
        [] => None,
        _ => {
            let (is_offered, more) = deltas::make(&mut plan, &dictionaries, &mut packing, write_failed)?;
            compressed += more;
            is_offered
        }
    };
    if options.offers {
        deltas::offer(&mut plan);
    }
    let stores = spills.into_iter().map(|spill| spill.file).collect();
    plan.lists = lists::make(&plan, options).map_err(PackError::Write)?;
    let write = |to: &File| {
        archive::write(&plan, &stores, encoders, to, progress).map_err(|error| match error {
            SiteError::Input(PackError::Write(error)) => write_failed(error),
            error => error,
        })
    };
    let makeup = match options.program {
        None => write(&target.file)?,
        Some(program) => {
            let site = target.scratch().map_err(write_failed)?;
            let makeup = write(&site)?;
            let len = program::write(program, &site, &target.file).map_err(write_failed)?;
            Makeup { program: len - makeup.total(), ..makeup }
        }
    };
    target.finish().map_err(write_failed)?;
    let is_dictionary_vain = is_offered == Some(false);
    let changes = earlier.map(|earlier| earlier.changes(&plan));
    Ok(Report { makeup, compressed, reuse, changes, is_dictionary_vain, ..report(plan, makeup.total()) })
}

/// What all jobs of a packing share.
pub(crate) struct Packing<'p> {
    options: &'p SiteOptions<'p>,
    earlier: Option<&'p Earlier>,
    /// One for each worker.
    spills: &'p mut [Spill],
    progress: &'p Progress,
}

fn report(plan: Plan<'_>, len: u64) -> Report {
    let mut report = Report { len, ..Report::default() };
    for file in &plan.files {
        let (content, plain) = (plan.content(file), plan.content(file).print.len);
        report.files += 1;
        report.bytes += plain;
        for (coding, saved) in report.saved.iter_mut().enumerate().filter(|_| !file.is_beside) {
            let (coded, taken) = match (file.beside[coding], content.variants[coding]) {
                (Some(form), _) => (plan.content(&plan.files[form]).print.len, true),
                (None, Some(piece)) => (piece.print.len, piece.taken),
                (None, None) => continue,
            };
            saved.add(plain, coded, taken);
        }
        for (coding, saved) in DELTA_CODINGS.iter().zip(&mut report.deltas) {
            let pieces =
                content.deltas.iter().filter(|delta| delta.coding == *coding).map(|delta| delta.piece);
            let smallest = pieces.min_by_key(|piece| piece.print.len);
            if let Some(Piece { print, taken, .. }) = smallest {
                saved.add(plain, print.len, taken);
            }
        }
    }
    Report { skipped: plan.skipped, ..report }
}
