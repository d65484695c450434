//! What is packed: every file read once, and which of them have the same content.

use super::decode::Print;
use super::deltas::Delta;
use super::error::SiteError;
use super::input::{Input, Lies, Listed, Plain};
use super::lists::List;
use super::progress::{Progress, Step};
use super::work::each;
use super::{Piece, SiteOptions};
use crate::address::PageAddresses;
use crate::content::hash_blocks;
use crate::error::PackError;
use crate::media::SniffedType;
use crate::rules::{Rules, is_hidden};
use crate::skip::Skipped;
use crate::walk::SiteDir;
use std::collections::HashMap;
use std::io::{self, Read as _};

/// The files of a site, and their contents.
pub(crate) struct Plan<'i> {
    pub(crate) input: Input<'i>,
    /// Sorted by path.
    pub(crate) files: Vec<File>,
    /// The same.
    pub(crate) dirs: Vec<SiteDir>,
    pub(crate) contents: Vec<Content>,
    pub(crate) skipped: Vec<Skipped>,
    /// Their files are members of the archive, and not served.
    pub(crate) rules: Rules,
    pub(crate) addresses: PageAddresses,
    /// Made when all else is known.
    pub(crate) lists: Vec<List>,
}

/// A path of the site.
pub(crate) struct File {
    /// Begins with a slash.
    pub(crate) path: Vec<u8>,
    pub(crate) lies: Lies,
    /// Number in [`Plan::contents`].
    pub(crate) content: usize,
    /// Seconds since 1970.
    pub(crate) modified_s: u64,
    pub(crate) mode: u32,
    /// By [`CODINGS`](super::CODINGS): the file beside it that is its coded form. Number in [`Plan::files`].
    pub(crate) beside: [Option<usize>; 3],
    /// Whether it is such a file.
    pub(crate) is_beside: bool,
    /// What it may be the dictionary of, as a pattern.
    pub(crate) offer: Option<String>,
}

/// What one or more files contain.
pub(crate) struct Content {
    pub(crate) print: Print,
    pub(crate) look: SniffedType,
    /// Whether a quick attempt made it smaller.
    pub(crate) compressible: bool,
    /// The first file that has it.
    pub(crate) file: usize,
    /// By [`CODINGS`](super::CODINGS): the variants that were worth it.
    pub(crate) variants: [Option<Piece>; 3],
    /// Those for clients that have a dictionary.
    pub(crate) deltas: Vec<Delta>,
}

impl<'i> Plan<'i> {
    /// Lists and reads all files.
    pub(crate) fn new(
        input: Input<'i>,
        options: &SiteOptions<'_>,
        progress: &Progress,
    ) -> Result<Plan<'i>, SiteError> {
        progress.begin(Step::Reading, 0);
        let Listed { found, mut dirs, skipped } = input.list()?;
        dirs.iter_mut().for_each(|dir| dir.modified_s = dir.modified_s.min(options.latest_s));
        progress.begin(Step::Reading, found.len() as u64);
        let mut workers = vec![(); options.workers.get()];
        let read = each(&mut workers, &found, |(), found| {
            let Some(plain) = input.open(&found.location)? else { return Ok(None) };
            let read = Read::new(&plain)
                .map_err(|error| PackError::Read { path: input.name(&found.location), error })?;
            progress.add(1);
            Ok::<_, SiteError>(Some(read))
        })?;
        let rules = Rules::read(&found, options.dialect, |lies, len| {
            let Some(plain) = input.open(lies)? else { return Ok(None) };
            let mut text = Vec::new();
            let read = plain.reader().take(len).read_to_end(&mut text);
            read.map_err(|error| PackError::Read { path: input.name(lies), error })?;
            Ok::<_, PackError>(Some(text))
        })?;
        let served = found.iter().map(|found| &found.path[..]).filter(|path| !is_hidden(path));
        let addresses = PageAddresses::new(served, options.policy)?;
        let (files, contents, lists) = (Vec::new(), Vec::new(), Vec::new());
        let mut plan = Plan { input, files, dirs, contents, skipped, rules, addresses, lists };
        plan.addresses.report_skipped(&mut plan.skipped);
        let mut known = HashMap::new();
        for (found, read) in found.into_iter().zip(read) {
            // What has gone meanwhile is left out.
            let Some(Read { print, look, compressible, modified_s, mode }) = read else { continue };
            let content = *known.entry(print).or_insert_with(|| {
                let file = plan.files.len();
                let compressible = compressible && !is_hidden(&found.path);
                let (variants, deltas) = ([None; 3], Vec::new());
                plan.contents.push(Content { print, look, compressible, file, variants, deltas });
                plan.contents.len() - 1
            });
            plan.files.push(File {
                path: found.path,
                lies: found.location,
                content,
                modified_s: modified_s.min(options.latest_s),
                mode,
                beside: [None; 3],
                is_beside: false,
                offer: None,
            });
        }
        Ok(plan)
    }

    /// The content of a file.
    pub(crate) fn content(&self, file: &File) -> &Content {
        &self.contents[file.content]
    }

    /// Opens a file that was there before.
    pub(crate) fn open(&self, file: usize) -> Result<Plain<'i>, SiteError> {
        let lies = &self.files[file].lies;
        self.input.open(lies)?.ok_or_else(|| self.changed(file))
    }

    /// The error that a file is not what it was.
    pub(crate) fn changed(&self, file: usize) -> SiteError {
        SiteError::Changed { path: self.input.name(&self.files[file].lies) }
    }
}

/// What reading a file shows.
struct Read {
    print: Print,
    look: SniffedType,
    compressible: bool,
    modified_s: u64,
    mode: u32,
}

impl Read {
    fn new(plain: &Plain<'_>) -> io::Result<Read> {
        let known = hash_blocks(&mut plain.reader())?;
        Ok(Read {
            print: Print { len: known.len, hash: known.hash },
            look: known.sniffed,
            compressible: is_compressible(plain)?,
            modified_s: plain.modified_s,
            mode: plain.mode,
        })
    }
}

/// Whether it is worth trying: whether blocks of the beginning, the middle and the end, coded quickly, get smaller by
/// one part in 32 at least. What is small is always tried.
fn is_compressible(plain: &Plain<'_>) -> io::Result<bool> {
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
