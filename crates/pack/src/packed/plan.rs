//! What is packed: every file read once, and which of them have the same content.

use super::decode::Fingerprint;
use super::deltas::DeltaVariant;
use super::error::SiteError;
use super::input::{ContentLocation, InputFile, InputList, PackInput};
use super::jobs::run_jobs;
use super::listings::EncodedListing;
use super::progress::{PackStep, Progress};
use super::{SiteOptions, SpilledVariant};
use crate::address::Addresses;
use crate::content::hash;
use crate::error::PackError;
use crate::media::Look;
use crate::rules::{RuleSet, is_hidden};
use crate::skip::Skipped;
use crate::walk::Dir;
use std::collections::HashMap;
use std::io::{self, Read as _};

/// The files of a site, and their contents.
pub(crate) struct PackPlan<'i> {
    pub(crate) input: PackInput<'i>,
    /// Sorted by path.
    pub(crate) files: Vec<PlannedFile>,
    /// The same.
    pub(crate) dirs: Vec<Dir>,
    pub(crate) contents: Vec<PlannedContent>,
    pub(crate) skipped: Vec<Skipped>,
    /// Their files are members of the archive, and not served.
    pub(crate) rules: RuleSet,
    pub(crate) addresses: Addresses,
    /// Made when all else is known.
    pub(crate) lists: Vec<EncodedListing>,
}

/// A path of the site.
pub(crate) struct PlannedFile {
    /// Begins with a slash.
    pub(crate) path: Vec<u8>,
    pub(crate) location: ContentLocation,
    /// Number in [`Plan::contents`].
    pub(crate) content: usize,
    /// Seconds since 1970.
    pub(crate) modified_s: u64,
    pub(crate) mode: u32,
    /// By [`CODINGS`](super::CODINGS): the file precompressed it that is its coded form. Number in [`Plan::files`].
    pub(crate) precompressed: [Option<usize>; 3],
    /// Whether it is such a file.
    pub(crate) is_precompressed: bool,
    /// What it may be the dictionary of, as a pattern.
    pub(crate) offer: Option<String>,
}

/// What one or more files contain.
pub(crate) struct PlannedContent {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) look: Look,
    /// Whether a quick attempt made it smaller.
    pub(crate) compressible: bool,
    /// The first file that has it.
    pub(crate) file: usize,
    /// By [`CODINGS`](super::CODINGS): the variants that were worth it.
    pub(crate) variants: [Option<SpilledVariant>; 3],
    /// Those for clients that have a dictionary.
    pub(crate) deltas: Vec<DeltaVariant>,
}

impl<'i> PackPlan<'i> {
    /// Lists and reads all files.
    pub(crate) fn new(
        input: PackInput<'i>,
        options: &SiteOptions<'_>,
        progress: &Progress,
    ) -> Result<PackPlan<'i>, SiteError> {
        progress.begin(PackStep::Reading, 0);
        let InputList { found, mut dirs, skipped } = input.list()?;
        dirs.iter_mut().for_each(|dir| dir.modified_s = dir.modified_s.min(options.max_mtime_s));
        progress.begin(PackStep::Reading, found.len() as u64);
        let mut workers = vec![(); options.workers.get()];
        let read = run_jobs(&mut workers, &found, |(), found| {
            let Some(plain) = input.open(&found.file)? else { return Ok(None) };
            let read = FileScan::new(&plain)
                .map_err(|error| PackError::Read { path: input.name(&found.file), error })?;
            progress.add(1);
            Ok::<_, SiteError>(Some(read))
        })?;
        let paths = found.iter().map(|found| (&found.path[..], &found.file));
        let rules = RuleSet::read(paths, options.dialect, |location, len| {
            let Some(plain) = input.open(location)? else { return Ok(None) };
            let mut text = Vec::new();
            let read = plain.reader().take(len).read_to_end(&mut text);
            read.map_err(|error| PackError::Read { path: input.name(location), error })?;
            Ok::<_, PackError>(Some(text))
        })?;
        let served = found.iter().map(|found| &found.path[..]).filter(|path| !is_hidden(path));
        let addresses = Addresses::new(served, options.policy)?;
        let (files, contents, lists) = (Vec::new(), Vec::new(), Vec::new());
        let mut plan = PackPlan { input, files, dirs, contents, skipped, rules, addresses, lists };
        plan.addresses.tell(&mut plan.skipped);
        let mut known = HashMap::new();
        for (found, read) in found.into_iter().zip(read) {
            // What has gone meanwhile is left out.
            let Some(FileScan { fingerprint, look, compressible, modified_s, mode }) = read else { continue };
            let content = *known.entry(fingerprint).or_insert_with(|| {
                let file = plan.files.len();
                let compressible = compressible && !is_hidden(&found.path);
                let (variants, deltas) = ([None; 3], Vec::new());
                plan.contents.push(PlannedContent {
                    fingerprint,
                    look,
                    compressible,
                    file,
                    variants,
                    deltas,
                });
                plan.contents.len() - 1
            });
            plan.files.push(PlannedFile {
                path: found.path,
                location: found.file,
                content,
                modified_s: modified_s.min(options.max_mtime_s),
                mode,
                precompressed: [None; 3],
                is_precompressed: false,
                offer: None,
            });
        }
        Ok(plan)
    }

    /// The content of a file.
    pub(crate) fn content(&self, file: &PlannedFile) -> &PlannedContent {
        &self.contents[file.content]
    }

    /// Opens a file that was there before.
    pub(crate) fn open(&self, file: usize) -> Result<InputFile<'i>, SiteError> {
        let location = &self.files[file].location;
        self.input.open(location)?.ok_or_else(|| self.changed(file))
    }

    /// The error that a file is not what it was.
    pub(crate) fn changed(&self, file: usize) -> SiteError {
        SiteError::Changed { path: self.input.name(&self.files[file].location) }
    }
}

/// What reading a file shows.
struct FileScan {
    fingerprint: Fingerprint,
    look: Look,
    compressible: bool,
    modified_s: u64,
    mode: u32,
}

impl FileScan {
    fn new(plain: &InputFile<'_>) -> io::Result<FileScan> {
        let known = hash(&mut plain.reader())?;
        Ok(FileScan {
            fingerprint: Fingerprint { len: known.len, hash: known.hash },
            look: known.look,
            compressible: is_compressible(plain)?,
            modified_s: plain.modified_s,
            mode: plain.mode,
        })
    }
}

/// Whether it is worth trying: whether blocks of the beginning, the middle and the end, coded quickly, get smaller by
/// one part in 32 at least. What is small is always tried.
fn is_compressible(plain: &InputFile<'_>) -> io::Result<bool> {
    if plain.len <= ALWAYS_LEN {
        return Ok(plain.len > 0);
    }
    let (mut len, mut coded_len) = (0, 0);
    let last = plain.len.saturating_sub(SAMPLE_LEN as u64);
    for at in [0, last / 2, last].into_iter().take(if last == 0 { 1 } else { 3 }) {
        let block = match plain.block(at, SAMPLE_LEN) {
            // It is shorter now; who reads it next will notice.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            block => block?,
        };
        len += block.len();
        coded_len += zstd::bulk::compress(&block, 1)?.len();
    }
    Ok(coded_len <= len - len / 32)
}

/// Bytes of a sample.
const SAMPLE_LEN: usize = 64 << 10;
/// Contents up to here are tried in any case: it costs little, and Brotli, which knows words, may do better than a quick
/// attempt shows.
const ALWAYS_LEN: u64 = 4 << 10;
