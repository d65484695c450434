//! What to pack: the files of a site, and each distinct content once.

use super::error::SiteError;
use super::fingerprint::Fingerprint;
use super::input::{ContentLocation, InputFile, InputList, PackInput};
use super::jobs::run_jobs;
use super::listings::{EncodedListing, encode_listings};
use super::options::SiteOptions;
use super::progress::{PackStep, Progress};
use super::spill::{DeltaVariant, SpilledVariant};
use crate::address::PageAddresses;
use crate::content::hash_blocks;
use crate::error::PackError;
use crate::listing::ListedFile;
use crate::media::SniffedType;
use crate::rules::{RuleSet, is_hidden};
use crate::skip::Skipped;
use crate::walk::SiteDir;
use std::collections::HashMap;
use std::io::{self, Read as _};

/// The files of a site, and their contents.
pub(crate) struct PackPlan<'i> {
    pub(crate) input: PackInput<'i>,
    /// Sorted by path.
    pub(crate) files: Vec<PlannedFile>,
    /// Sorted by path.
    pub(crate) dirs: Vec<SiteDir>,
    /// Each distinct content once.
    pub(crate) contents: Vec<PlannedContent>,
    pub(crate) skipped: Vec<Skipped>,
    /// The rules of the site. The archive keeps the rule files as members, but the server does not send them.
    pub(crate) rules: RuleSet,
    pub(crate) addresses: PageAddresses,
    /// Empty until [`PackPlan::make_listings`].
    pub(crate) listings: Vec<EncodedListing>,
}

/// A file of the site.
pub(crate) struct PlannedFile {
    /// Begins with a slash.
    pub(crate) path: Vec<u8>,
    pub(crate) location: ContentLocation,
    /// Number in [`PackPlan::contents`].
    pub(crate) content: usize,
    /// Seconds since 1970.
    pub(crate) modified_s: u64,
    pub(crate) mode: u32,
    /// By [`CODINGS`](crate::CODINGS): the number in [`PackPlan::files`] of the precompressed form of this file.
    pub(crate) precompressed: [Option<usize>; 3],
    /// Whether this file is the precompressed form of another one.
    pub(crate) is_precompressed: bool,
    /// The pattern of the paths for which clients may use the file as a dictionary.
    pub(crate) offer: Option<String>,
}

/// A content of one or more files.
pub(crate) struct PlannedContent {
    pub(crate) fingerprint: Fingerprint,
    /// What the bytes show of the media type.
    pub(crate) look: SniffedType,
    /// Whether compressing it is worth an attempt. Rule files are not, as the server does not send them.
    pub(crate) compressible: bool,
    /// The first file with this content: its number in [`PackPlan::files`].
    pub(crate) file: usize,
    /// By [`CODINGS`](crate::CODINGS): the worthwhile variants.
    pub(crate) variants: [Option<SpilledVariant>; 3],
    /// The variants for clients that have a dictionary.
    pub(crate) deltas: Vec<DeltaVariant>,
}

/// Where the writer of the archive reads a content.
#[derive(Clone, Copy)]
pub(crate) enum ContentSource {
    /// A file: number in [`PackPlan::files`].
    File(usize),
    Variant(SpilledVariant),
}

impl<'i> PackPlan<'i> {
    /// Lists and reads all files.
    pub(crate) fn new(
        input: PackInput<'i>,
        options: &SiteOptions<'_>,
        progress: &Progress,
    ) -> Result<PackPlan<'i>, SiteError> {
        progress.begin(PackStep::Reading, 0);
        let InputList { found, mut dirs, skipped } = input.list(options.programs)?;
        dirs.iter_mut().for_each(|dir| dir.modified_s = dir.modified_s.min(options.max_mtime_s));
        progress.begin(PackStep::Reading, found.len() as u64);
        let mut workers = vec![(); options.workers.get()];
        let scans = run_jobs(&mut workers, &found, |(), found| {
            let Some(plain) = input.open(&found.location)? else { return Ok(None) };
            let scan = FileScan::new(&plain)
                .map_err(|error| PackError::Read { path: input.name(&found.location), error })?;
            progress.add(1);
            Ok::<_, SiteError>(Some(scan))
        })?;
        let paths = found.iter().map(|found| (&found.path[..], &found.location));
        let rules = RuleSet::read(paths, &options.policy.rules, options.dialect, |location, len| {
            let Some(plain) = input.open(location)? else { return Ok(None) };
            let mut text = Vec::new();
            let read = plain.reader().take(len).read_to_end(&mut text);
            read.map_err(|error| PackError::Read { path: input.name(location), error })?;
            Ok::<_, PackError>(Some(text))
        })?;
        let served = found.iter().map(|found| &found.path[..]).filter(|path| !is_hidden(path));
        let addresses = PageAddresses::new(served, options.policy)?;
        let (files, contents, listings) = (Vec::new(), Vec::new(), Vec::new());
        let mut plan = PackPlan { input, files, dirs, contents, skipped, rules, addresses, listings };
        plan.addresses.report_skipped(&mut plan.skipped);
        let mut known = HashMap::new();
        for (found, scan) in found.into_iter().zip(scans) {
            // A file without a scan was removed during the packing.
            let Some(FileScan { fingerprint, look, compressible, modified_s, mode }) = scan else { continue };
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
                location: found.location,
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

    /// Makes the directory listings. Each archive gets new ones, as they list its own files.
    pub(crate) fn make_listings(&mut self, options: &SiteOptions<'_>) -> io::Result<()> {
        let served = self.files.iter().filter(|file| !is_hidden(&file.path));
        let listed = served.map(|file| {
            let (path, len) = (&file.path[..], self.content(file).fingerprint.len);
            ListedFile { path, len, modified_s: file.modified_s, is_of_user: false }
        });
        self.listings = encode_listings(listed, &self.addresses, options)?;
        Ok(())
    }

    /// Returns the content of a file.
    pub(crate) fn content(&self, file: &PlannedFile) -> &PlannedContent {
        &self.contents[file.content]
    }

    /// Opens a file. If it was removed, returns an error.
    pub(crate) fn open(&self, file: usize) -> Result<InputFile<'i>, SiteError> {
        let location = &self.files[file].location;
        self.input.open(location)?.ok_or_else(|| self.changed(file))
    }

    /// Returns the error for a file that changed during the packing.
    pub(crate) fn changed(&self, file: usize) -> SiteError {
        SiteError::Changed { path: self.input.name(&self.files[file].location) }
    }

    /// Returns the error for a file that cannot be read.
    pub(crate) fn read_failed(&self, file: usize, error: io::Error) -> SiteError {
        PackError::Read { path: self.input.name(&self.files[file].location), error }.into()
    }
}

/// The result of reading a file.
struct FileScan {
    fingerprint: Fingerprint,
    look: SniffedType,
    compressible: bool,
    modified_s: u64,
    mode: u32,
}

impl FileScan {
    fn new(plain: &InputFile<'_>) -> io::Result<FileScan> {
        let hashed = hash_blocks(&mut plain.reader())?;
        Ok(FileScan {
            fingerprint: Fingerprint { len: hashed.len, hash: hashed.hash },
            look: hashed.sniffed,
            compressible: is_compressible(plain.len, |at, len| plain.block(at, len))?,
            modified_s: plain.modified_s,
            mode: plain.mode,
        })
    }
}

/// Returns whether compressing a content is worth an attempt: always if it is short and not empty. If it is long, a quick attempt must
/// save at least a 32nd of three samples, from the start, the middle and the end. `block` reads a part of the content.
pub(crate) fn is_compressible(
    plain_len: u64,
    block: impl Fn(u64, usize) -> io::Result<Vec<u8>>,
) -> io::Result<bool> {
    if plain_len <= ALWAYS_LEN {
        return Ok(plain_len > 0);
    }
    let (mut len, mut coded_len) = (0, 0);
    let last = plain_len.saturating_sub(SAMPLE_LEN as u64);
    for at in [0, last / 2, last].into_iter().take(if last == 0 { 1 } else { 3 }) {
        let block = match block(at, SAMPLE_LEN) {
            // The file was truncated after it was opened. The next read reports it as changed.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            block => block?,
        };
        len += block.len();
        coded_len += zstd::bulk::compress(&block, 1)?.len();
    }
    Ok(coded_len <= len - len / 32)
}

/// Length of a sample in bytes.
const SAMPLE_LEN: usize = 64 << 10;
/// Contents up to this length need no quick attempt: compressing them costs little, and Brotli, which has a built-in dictionary, may save
/// more than Zstandard.
const ALWAYS_LEN: u64 = 4 << 10;
