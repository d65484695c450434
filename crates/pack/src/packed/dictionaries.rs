//! Files of earlier releases that clients may still have, and use as dictionaries for newer files.
//!
//! ```text
//! earlier archive ─ paths ─▶ patterns ─┬─ /assets/app.*.js ─▶ app.B4qfzvDp.js
//! new file ─ its pattern ──────────────┘                       a dictionary, unless it is the same
//! ```
//!
//! A client tells which file it has by the SHA-256 of the file.

use super::error::{OpenError, SiteError};
use super::fingerprint::{Fingerprint, fingerprint_of};
use super::open::{OpenedSite, stored_fingerprint};
use crate::content::OffsetReader;
use crate::dictionary::pattern;
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use tarpon_site::Entry;

/// SHA-256 of a dictionary.
pub(crate) type DictionaryDigest = [u8; 32];

/// The files of earlier releases that clients may use as dictionaries.
#[derive(Debug, Default)]
pub struct Dictionaries {
    /// The archives with their paths.
    archives: Vec<(PathBuf, File)>,
    /// Each distinct content once.
    all: Vec<DictionaryLocation>,
    /// Numbers in `all`.
    by_pattern: HashMap<String, BTreeSet<usize>>,
}

/// A dictionary in memory.
pub(crate) struct Dictionary {
    pub(crate) hash: DictionaryDigest,
    pub(crate) bytes: Vec<u8>,
}

/// The location of a dictionary.
#[derive(Debug)]
struct DictionaryLocation {
    /// Number of the archive.
    archive: usize,
    /// Offset in its file.
    at: u64,
    fingerprint: Fingerprint,
    /// Whether its response offered the file to clients as a dictionary.
    is_offered: bool,
}

impl Dictionaries {
    /// Collects the dictionaries of packed sites.
    ///
    /// # Errors
    /// An archive cannot be read, is not a packed site, or is damaged.
    pub fn open(archives: &[PathBuf]) -> Result<Dictionaries, SiteError> {
        let mut found = Dictionaries::default();
        let mut known = HashMap::new();
        for path in archives {
            let failed = |error| SiteError::Dictionary { path: path.clone(), error };
            found.add(path, &mut known).map_err(failed)?;
        }
        // If too many files match, it is unknown which of them clients have, and each would need a delta.
        found.by_pattern.retain(|_, all| all.len() <= FAMILY_MAX * archives.len());
        Ok(found)
    }

    fn add(&mut self, name: &Path, known: &mut HashMap<Fingerprint, usize>) -> Result<(), OpenError> {
        let archive = File::open(name).map_err(OpenError::Read)?;
        let opened = OpenedSite::new_or_embedded(&archive)?;
        if !opened.is_body_good() {
            return Err(OpenError::Body);
        }
        let image = &opened.image;
        for (path, entry) in image.entries().filter(|(path, _)| path.starts_with(b"/")) {
            let Entry::File(file) = entry else { continue };
            let len = file.identity.content.len();
            let (Some(pattern), Some(fingerprint)) =
                (pattern(path), stored_fingerprint(image, &file.identity))
            else {
                continue;
            };
            if file.rule_status.is_some() || !(1..=LEN_MAX).contains(&len) {
                continue;
            }
            let Some(at) = opened.offset_of(file.identity.content) else { continue };
            let number = *known.entry(fingerprint).or_insert_with(|| {
                let fields = image.bytes(file.identity.fields().text);
                let is_offered = fields.windows(OFFER.len()).any(|text| text.eq_ignore_ascii_case(OFFER));
                self.all.push(DictionaryLocation {
                    archive: self.archives.len(),
                    at,
                    fingerprint,
                    is_offered,
                });
                self.all.len() - 1
            });
            self.by_pattern.entry(pattern).or_default().insert(number);
        }
        self.archives.push((name.to_owned(), archive));
        Ok(())
    }

    /// Returns the dictionaries for a content at these paths.
    pub(crate) fn matching<'p>(
        &self,
        content: Fingerprint,
        paths: impl IntoIterator<Item = &'p [u8]>,
    ) -> BTreeSet<usize> {
        let patterns = paths.into_iter().filter_map(pattern);
        let found = patterns.filter_map(|pattern| self.by_pattern.get(&pattern)).flatten().copied();
        found.filter(|&number| self.all[number].fingerprint != content).collect()
    }

    /// Returns whether the response with this dictionary offered it to clients.
    pub(crate) fn is_offered(&self, number: usize) -> bool {
        self.all[number].is_offered
    }

    /// Reads a dictionary.
    pub(crate) fn read(&self, number: usize) -> Result<Dictionary, SiteError> {
        let DictionaryLocation { archive, at, fingerprint, .. } = self.all[number];
        let (path, file) = &self.archives[archive];
        let failed = |error| SiteError::Dictionary { path: path.clone(), error };
        let mut bytes = Vec::with_capacity(fingerprint.len as usize);
        let read = OffsetReader { file, at }.take(fingerprint.len).read_to_end(&mut bytes);
        read.map_err(|error| failed(OpenError::Read(error)))?;
        match fingerprint_of(&bytes[..], fingerprint.len) {
            Ok(found) if found == fingerprint => {
                Ok(Dictionary { hash: Sha256::digest(&bytes).into(), bytes })
            }
            _ => Err(failed(OpenError::Body)),
        }
    }

    /// Returns all dictionaries that can be read, by hash.
    pub(crate) fn by_hash(&self) -> HashMap<DictionaryDigest, usize> {
        let all = (0..self.all.len()).filter_map(|number| Some((self.read(number).ok()?.hash, number)));
        all.collect()
    }
}

/// The largest number of files of a release with the same pattern. Each needs a delta: the server does not know which of them
/// clients have.
pub(crate) const FAMILY_MAX: usize = 4;
/// The largest dictionary: the window for Zstandard that every client supports (RFC 9842, section 5).
const LEN_MAX: u64 = 8 << 20;
/// The start of the field that offers a response to clients as a dictionary.
const OFFER: &[u8] = b"\r\nUse-As-Dictionary:";
