//! A packed site: a tar archive that any tar program extracts and that the server serves without unpacking.
//!
//! ```text
//! input ─ plan ─▶ files, contents ─ variants ─▶ variants ─ layout ─▶ offsets ─ write_archive ─▶ target
//!  read once       same content: once            checked     members, image      gets its name when complete
//! ```
//!
//! | file | content |
//! |---|---|
//! | `options.rs`, `report.rs` | the options for packing; the report about it |
//! | `input.rs` | the directory or archive to pack |
//! | `plan.rs` | every file, read once, and the distinct contents |
//! | `variants.rs` | the variants of all contents |
//! | `dictionaries.rs` | files of earlier releases, which clients may have |
//! | `deltas.rs` | the variants for clients that have one of these files |
//! | `encode.rs`, `decode.rs` | compress a content; check a compressed content |
//! | `reuse.rs` | the previous archive, and the variants in it |
//! | `changes.rs` | the difference to the previous archive |
//! | `listings.rs` | directory listings |
//! | `spill.rs` | variants in temporary files |
//! | `layout.rs` | the offsets of all members of the archive |
//! | `tar_member.rs` | the headers of a tar member |
//! | `image.rs` | the image of a packed site |
//! | `write_archive.rs` | writes the archive |
//! | `atomic_file.rs`, `tmpfile.rs` | a file that gets its name when it is complete |
//! | `background_job.rs` | compresses a content of a site that is served |
//! | `verify.rs` | checks a packed site |
//! | `jobs.rs` | runs jobs on all cores |
//! | `estimate.rs` | the remaining time of compressing |
//! | `error.rs` | errors of packing |
//!
//! The same input gives the same bytes on any machine. `docs/site-format.md` describes the format.

mod atomic_file;
mod background_job;
mod changes;
mod decode;
mod deltas;
mod dictionaries;
mod encode;
mod error;
pub(crate) mod estimate;
mod image;
mod input;
mod jobs;
mod layout;
mod listings;
mod options;
mod plan;
mod report;
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
pub use encode::{Encoder, compress};
pub use error::SiteError;
pub use input::PackInput;
pub use options::SiteOptions;
pub use report::{PackReport, Savings};
pub use reuse::Reuse;
pub use verify::{Defect, Verification, verify};
pub use write_archive::ArchiveSizes;

use crate::error::PackError;
use crate::opened::{codings, embed, fingerprint, open};
use crate::progress::{self, Progress};
use atomic_file::AtomicFile;
use plan::PackPlan;
use spill::SpillFile;
use std::fs::File;
use std::path::Path;
use variants::PackContext;

/// Packs a site into an archive at `target`, with all its variants. The archive gets its name when it is complete and on disk.
///
/// # Errors
/// The input cannot be read, or changes during the packing. The target cannot be written, or would be part of the input. The previous
/// archive is not a packed site.
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
    let spills = (0..options.workers.get()).map(|worker| Ok(SpillFile::new(worker, target.scratch()?)));
    let mut spills = spills.collect::<Result<Vec<_>, _>>().map_err(write_failed)?;
    let jobs = variants::variant_jobs(&plan, options.effort, previous.as_ref());
    let expected = deltas::expected_work(&plan, options, &dictionaries);
    let kinds = jobs.iter().map(|job| (job.kind, plan.contents[job.content].fingerprint.len));
    progress.begin_compressing(
        options.workers.get(),
        variants::content_len(&plan, &jobs),
        kinds.chain(expected),
    );
    let mut context = PackContext { options, previous: previous.as_ref(), spills: &mut spills, progress };
    let mut compressed = variants::make_variants(&mut plan, jobs, &mut context, write_failed)?;
    let is_offered = match options.dictionaries {
        [] => None,
        _ => {
            let (is_offered, more) =
                deltas::make_deltas(&mut plan, &dictionaries, &mut context, write_failed)?;
            compressed += more;
            is_offered
        }
    };
    if options.offer_dictionaries {
        deltas::set_offers(&mut plan);
    }
    let spills = spills.into_iter().map(|spill| spill.file).collect();
    plan.make_listings(options).map_err(PackError::Write)?;
    let write = |to: &File| {
        write_archive::write(&plan, &spills, encoders, to, progress).map_err(|error| match error {
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
    let are_dictionaries_unoffered = is_offered == Some(false);
    let changes = previous.map(|previous| previous.changes(&plan));
    let (len, counts) = (sizes.total(), report::report(plan));
    Ok(PackReport { len, sizes, compressed, reuse, changes, are_dictionaries_unoffered, ..counts })
}
