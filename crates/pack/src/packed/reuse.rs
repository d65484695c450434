//! An earlier archive, for the variants in it whose files have not changed.
//!
//! It was made by the same encoders, so what they would make again lies there already; and what does not lie there was
//! not worth it then, and is not now. Only a variant that lay beside its file says nothing: somebody else made it.

use super::CODINGS;
use super::decode::{Print, decodes_to, decodes_with};
use super::dictionaries::{Dictionary, Digest};
use super::error::OpenError;
use super::open::{Opened, print};
use super::variants::SUFFIXES;
use crate::content::Positioned;
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use tarpon_site::format::section;
use tarpon_site::{Coding, Entry, Variant};

/// An earlier archive.
pub(crate) struct Earlier {
    file: File,
    /// By content: for each coding, whether it is known, and then where the variant is, if it was worth it.
    known: HashMap<Print, [Option<Option<Lies>>; 3]>,
    /// By content and dictionary; of what is not here nothing is known.
    deltas: HashMap<(Print, Digest, &'static str), Lies>,
}

/// A variant of an earlier archive.
pub(crate) struct Found<'e> {
    file: &'e File,
    at: u64,
    pub(crate) print: Print,
}

/// Where a variant lies.
#[derive(Clone, Copy)]
struct Lies {
    /// From the start of the file.
    at: u64,
    print: Print,
}

impl Earlier {
    /// Opens an archive, or a program that carries one. None if other encoders made it.
    pub(crate) fn open(path: &Path, encoders: &str) -> Result<Option<Earlier>, OpenError> {
        let file = File::open(path).map_err(OpenError::Read)?;
        let opened = Opened::of(&file)?;
        // A variant that damage hides would be taken for one that was not worth it.
        if !opened.is_body_good() {
            return Err(OpenError::Body);
        }
        let made_by = opened.image.sections().find(|(row, _)| row.kind == section::ENCODERS);
        if made_by.is_none_or(|(_, line)| line != encoders.as_bytes()) {
            return Ok(None);
        }
        let (mut known, mut deltas) = (HashMap::new(), HashMap::new());
        for (path, entry) in opened.image.entries() {
            // What lies at a directory is its index, which is there by its own name too; forms lie beside that.
            let Entry::File(file) = entry else { continue };
            if path.ends_with(b"/") || !path.starts_with(b"/") {
                continue;
            }
            let Some(print) = print(&opened.image, &file.identity) else { continue };
            for (dictionary, coding, variant) in opened.image.all_deltas(file) {
                let lies = lies(&opened, &variant);
                deltas.extend(lies.map(|lies| ((print, dictionary, coding.name()), lies)));
            }
            let coded: Vec<_> = opened.image.coded(file).collect();
            let known: &mut [_; 3] = known.entry(print).or_default();
            for (at, coding) in CODINGS.into_iter().enumerate() {
                let variant = coded.iter().find(|(found, _)| *found == coding).map(|&(_, variant)| variant);
                let outcome = match variant {
                    Some(variant) if lay_beside(&opened, path, SUFFIXES[at], &variant) => continue,
                    Some(variant) => match lies(&opened, &variant) {
                        Some(lies) => Some(lies),
                        None => continue,
                    },
                    // A form beside its file is never coded itself, and so says nothing of its content.
                    None if coded.is_empty()
                        && SUFFIXES.iter().any(|suffix| path.ends_with(suffix.as_bytes())) =>
                    {
                        continue;
                    }
                    None => None,
                };
                known[at] = Some(outcome);
            }
        }
        Ok(Some(Earlier { file, known, deltas }))
    }

    /// A content, coded with a dictionary. None if that is not known.
    pub(crate) fn delta(&self, content: Print, dictionary: &Dictionary, coding: Coding) -> Option<Found<'_>> {
        let &Lies { at, print } = self.deltas.get(&(content, dictionary.digest, coding.name()))?;
        let found = Found { file: &self.file, at, print };
        decodes_with(coding, found.reader(), dictionary, content).then_some(found)
    }

    /// What became of a content in a coding: None if that is not known.
    pub(crate) fn variant(&self, content: Print, coding: usize) -> Option<Option<Found<'_>>> {
        let Some(Lies { at, print }) = self.known.get(&content)?[coding]? else { return Some(None) };
        let found = Found { file: &self.file, at, print };
        // It may be damaged.
        decodes_to(CODINGS[coding], found.reader(), content).then_some(Some(found))
    }
}

impl Found<'_> {
    pub(crate) fn reader(&self) -> impl Read {
        Positioned { file: self.file, at: self.at }.take(self.print.len)
    }
}

/// Whether a variant is the content of the file named for it.
fn lay_beside(opened: &Opened, path: &[u8], suffix: &str, variant: &Variant) -> bool {
    let form = opened.image.find(&[path, suffix.as_bytes()].concat());
    match form {
        Some(Entry::File(form)) => opened.image.bytes(form.identity.etag) == opened.image.bytes(variant.etag),
        _ => false,
    }
}

fn lies(opened: &Opened, variant: &Variant) -> Option<Lies> {
    Some(Lies { at: opened.place_of(variant.content)?, print: print(&opened.image, variant)? })
}
