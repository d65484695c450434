//! Files of earlier releases: those that clients may still have, and use as dictionaries for the files that come after them.
//!
//! ```text
//! earlier archive ─ paths ─▶ patterns ─┬─ /assets/app.*.js ─▶ app.B4qfzvDp.js
//! new file ─ its pattern ──────────────┘                       a dictionary, unless it is the same
//! ```
//!
//! Which file a client still has is known by its bytes alone, so a dictionary is their SHA-256.

use super::decode::{Print, print_of};
use super::error::{OpenError, SiteError};
use super::open::{Opened, print};
use crate::content::OffsetReader;
use crate::dictionary::pattern;
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use tarpon_site::Entry;

/// SHA-256 of a dictionary.
pub(crate) type Digest = [u8; 32];

/// What earlier releases have that clients may use as dictionaries.
#[derive(Debug, Default)]
pub struct Dictionaries {
    /// Each with its name.
    archives: Vec<(PathBuf, File)>,
    /// Each content once.
    all: Vec<Lies>,
    /// Numbers in `all`.
    by_pattern: HashMap<String, BTreeSet<usize>>,
}

/// A dictionary, read.
pub(crate) struct Dictionary {
    pub(crate) digest: Digest,
    pub(crate) bytes: Vec<u8>,
}

/// Where a dictionary lies.
#[derive(Debug)]
struct Lies {
    /// Which of the archives.
    archive: usize,
    /// From its start, in bytes.
    at: u64,
    print: Print,
    /// Whether a client was told to keep it.
    is_offered: bool,
}

impl Dictionaries {
    /// Those of these packed sites.
    ///
    /// # Errors
    /// One cannot be read, is no packed site, or is damaged.
    pub fn open(archives: &[PathBuf]) -> Result<Dictionaries, SiteError> {
        let mut found = Dictionaries::default();
        let mut known = HashMap::new();
        for path in archives {
            let failed = |error| SiteError::Dictionary { path: path.clone(), error };
            found.add(path, &mut known).map_err(failed)?;
        }
        // Of many that match, nobody knows which one a client has.
        found.by_pattern.retain(|_, all| all.len() <= FAMILY_MAX * archives.len());
        Ok(found)
    }

    fn add(&mut self, name: &Path, known: &mut HashMap<Print, usize>) -> Result<(), OpenError> {
        let archive = File::open(name).map_err(OpenError::Read)?;
        let opened = Opened::of(&archive)?;
        if !opened.is_body_good() {
            return Err(OpenError::Body);
        }
        let image = &opened.image;
        for (path, entry) in image.entries().filter(|(path, _)| path.starts_with(b"/")) {
            let Entry::File(file) = entry else { continue };
            let len = file.identity.content.len();
            let (Some(pattern), Some(print)) = (pattern(path), print(image, &file.identity)) else {
                continue;
            };
            if file.ruled.is_some() || !(1..=LEN_MAX).contains(&len) {
                continue;
            }
            let Some(at) = opened.place_of(file.identity.content) else { continue };
            let number = *known.entry(print).or_insert_with(|| {
                let fields = image.bytes(file.identity.fields);
                let is_offered = fields.windows(OFFER.len()).any(|text| text.eq_ignore_ascii_case(OFFER));
                self.all.push(Lies { archive: self.archives.len(), at, print, is_offered });
                self.all.len() - 1
            });
            self.by_pattern.entry(pattern).or_default().insert(number);
        }
        self.archives.push((name.to_owned(), archive));
        Ok(())
    }

    /// The dictionaries of a content that is at these paths.
    pub(crate) fn of<'p>(
        &self,
        content: Print,
        paths: impl IntoIterator<Item = &'p [u8]>,
    ) -> BTreeSet<usize> {
        let patterns = paths.into_iter().filter_map(pattern);
        let found = patterns.filter_map(|pattern| self.by_pattern.get(&pattern)).flatten().copied();
        found.filter(|&number| self.all[number].print != content).collect()
    }

    /// Whether clients were told to keep it.
    pub(crate) fn is_offered(&self, number: usize) -> bool {
        self.all[number].is_offered
    }

    /// Reads one.
    pub(crate) fn read(&self, number: usize) -> Result<Dictionary, SiteError> {
        let Lies { archive, at, print, .. } = self.all[number];
        let (path, file) = &self.archives[archive];
        let failed = |error| SiteError::Dictionary { path: path.clone(), error };
        let mut bytes = Vec::with_capacity(print.len as usize);
        let read = OffsetReader { file, at }.take(print.len).read_to_end(&mut bytes);
        read.map_err(|error| failed(OpenError::Read(error)))?;
        match print_of(&bytes[..], print.len) {
            Ok(found) if found == print => Ok(Dictionary { digest: Sha256::digest(&bytes).into(), bytes }),
            _ => Err(failed(OpenError::Body)),
        }
    }

    /// All that can be read, by their hashes.
    pub(crate) fn by_digest(&self) -> HashMap<Digest, usize> {
        let all = (0..self.all.len()).filter_map(|number| Some((self.read(number).ok()?.digest, number)));
        all.collect()
    }
}

/// Most files of one release with the same pattern: of more nobody knows which one a client has.
pub(crate) const FAMILY_MAX: usize = 4;
/// What is larger is no dictionary: the window of every client for Zstandard with one (RFC 9842, section 5).
const LEN_MAX: u64 = 8 << 20;
/// How the field begins that tells a client to keep a response as a dictionary.
const OFFER: &[u8] = b"\r\nUse-As-Dictionary:";
