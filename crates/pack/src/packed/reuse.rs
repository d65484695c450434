//! An earlier archive: its variants, for files that have not changed.
//!
//! The same encoders would make the same variants again, and a variant that is missing there would still not be worth it.
//! A variant that lay beside its file tells nothing: another program made it.
//!
//! Trusts no archive: a variant has to decode to its content.

use super::changes::Changes;
use super::decode::{Print, decodes_to, decodes_with};
use super::dictionaries::{Dictionary, Digest};
use super::error::OpenError;
use super::open::{Opened, print};
use super::plan::Plan;
use super::variants::SUFFIXES;
use super::{CODINGS, SiteOptions};
use crate::content::OffsetReader;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use tarpon_site::format::section;
use tarpon_site::{Coding, Entry, Variant};

/// Whether an earlier archive was reused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Reuse {
    /// There is none.
    #[default]
    None,
    /// Variants of unchanged contents come from it.
    Taken,
    /// Other encoders made it, or the same with another effort: everything is compressed anew.
    OtherEncoders,
    /// The file at the target cannot be reused, for this reason.
    Unusable(String),
}

/// An earlier archive.
pub(crate) struct Earlier {
    file: File,
    /// Bytes of the archive, or of the program that carries it.
    len: u64,
    /// By path: the files that were served.
    files: HashMap<Vec<u8>, Print>,
    /// None: other encoders made it.
    variants: Option<Variants>,
}

/// The variants of an earlier archive.
#[derive(Default)]
struct Variants {
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

/// Opens the archive to reuse: the one that the options name, or else the file at the target. An archive that cannot be
/// reused is an error only if the options name it.
pub(crate) fn earlier(
    options: &SiteOptions<'_>,
    target: &Path,
    encoders: &str,
) -> Result<(Option<Earlier>, Reuse), OpenError> {
    let opened = match options.reuse {
        Some(path) => Earlier::open(path, encoders).map(Some),
        None => Earlier::at_target(target, encoders),
    };
    match opened {
        Ok(None) => Ok((None, Reuse::None)),
        Ok(Some(earlier)) if earlier.variants.is_none() => Ok((Some(earlier), Reuse::OtherEncoders)),
        Ok(Some(earlier)) => Ok((Some(earlier), Reuse::Taken)),
        Err(error) if options.reuse.is_some() => Err(error),
        Err(error) => Ok((None, Reuse::Unusable(error.to_string()))),
    }
}

impl Earlier {
    /// Opens an archive, or a program that carries one.
    fn open(path: &Path, encoders: &str) -> Result<Earlier, OpenError> {
        let file = File::open(path).map_err(OpenError::Read)?;
        let opened = Opened::of(&file)?;
        // A variant that damage hides would be taken for one that was not worth it.
        if !opened.is_body_good() {
            return Err(OpenError::Body);
        }
        let len = file.metadata().map_err(OpenError::Read)?.len();
        let made_by = opened.image.sections().find(|(row, _)| row.kind == section::ENCODERS);
        let is_alike = made_by.is_some_and(|(_, line)| line == encoders.as_bytes());
        let variants = is_alike.then(|| Variants::of(&opened));
        let mut files = HashMap::new();
        for (path, file) in files_of(&opened) {
            if opened.image.listing_json(path).is_none() {
                files.extend(print(&opened.image, &file.identity).map(|print| (path.to_vec(), print)));
            }
        }
        Ok(Earlier { file, len, files, variants })
    }

    /// Opens what lies at the target. None: nothing does, or an empty file that keeps the name.
    fn at_target(path: &Path, encoders: &str) -> Result<Option<Earlier>, OpenError> {
        match path.metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(OpenError::Read(error)),
            Ok(there) if there.len() == 0 => Ok(None),
            Ok(_) => Earlier::open(path, encoders).map(Some),
        }
    }

    /// A content, coded with a dictionary. None if that is not known.
    pub(crate) fn delta(&self, content: Print, dictionary: &Dictionary, coding: Coding) -> Option<Found<'_>> {
        let deltas = &self.variants.as_ref()?.deltas;
        let &Lies { at, print } = deltas.get(&(content, dictionary.digest, coding.name()))?;
        let found = Found { file: &self.file, at, print };
        decodes_with(coding, found.reader(), dictionary, content).then_some(found)
    }

    /// Whether an outcome for a content in a coding lies here, which may yet turn out to be damaged.
    pub(crate) fn knows(&self, content: Print, coding: usize) -> bool {
        let known = self.variants.as_ref().and_then(|variants| variants.known.get(&content));
        known.is_some_and(|known| known[coding].is_some())
    }

    /// What became of a content in a coding: None if that is not known.
    pub(crate) fn variant(&self, content: Print, coding: usize) -> Option<Option<Found<'_>>> {
        let known = self.variants.as_ref()?.known.get(&content)?[coding]?;
        let Some(Lies { at, print }) = known else { return Some(None) };
        let found = Found { file: &self.file, at, print };
        // It may be damaged.
        decodes_to(CODINGS[coding], found.reader(), content).then_some(Some(found))
    }

    /// Returns the difference between the archive and a plan.
    pub(crate) fn changes(&self, plan: &Plan<'_>) -> Changes {
        Changes::new(&self.files, plan, self.len)
    }
}

impl Variants {
    fn of(opened: &Opened) -> Variants {
        let (image, mut variants) = (&opened.image, Variants::default());
        let tag = |variant: &Variant| image.bytes(variant.etag);
        // Files that are the coded forms of others: they lay beside these.
        let coded: HashSet<_> = files_of(opened)
            .flat_map(|(_, file)| image.coded(file))
            .map(|(_, variant)| tag(&variant))
            .collect();
        let is_named = |path: &[u8]| SUFFIXES.iter().any(|suffix| path.ends_with(suffix.as_bytes()));
        let beside: HashSet<_> = files_of(opened)
            .filter(|(path, file)| is_named(path) && coded.contains(tag(&file.identity)))
            .map(|(_, file)| tag(&file.identity))
            .collect();
        for (_, file) in files_of(opened) {
            let Some(print) = print(image, &file.identity) else { continue };
            for (dictionary, coding, variant) in image.all_deltas(file) {
                let lies = lies(opened, &variant);
                variants.deltas.extend(lies.map(|lies| ((print, dictionary, coding.name()), lies)));
            }
            // A form beside its file is never coded itself, and so says nothing of its content.
            if beside.contains(tag(&file.identity)) {
                continue;
            }
            let coded: Vec<_> = image.coded(file).collect();
            let known: &mut [_; 3] = variants.known.entry(print).or_default();
            for (at, coding) in CODINGS.into_iter().enumerate() {
                known[at] = match coded.iter().find(|(found, _)| *found == coding) {
                    Some((_, variant)) if beside.contains(tag(variant)) => continue,
                    Some((_, variant)) => match lies(opened, variant) {
                        Some(lies) => Some(Some(lies)),
                        None => continue,
                    },
                    None => Some(None),
                };
            }
        }
        variants
    }
}

/// The files at paths of the site, some at several; not what a rule puts there.
fn files_of(opened: &Opened) -> impl Iterator<Item = (&[u8], tarpon_site::Variants)> {
    opened.image.entries().filter_map(|(path, entry)| match entry {
        Entry::File(file) if path.starts_with(b"/") && file.ruled.is_none() => Some((path, file)),
        _ => None,
    })
}

impl Found<'_> {
    pub(crate) fn reader(&self) -> impl Read {
        OffsetReader { file: self.file, at: self.at }.take(self.print.len)
    }
}

fn lies(opened: &Opened, variant: &Variant) -> Option<Lies> {
    Some(Lies { at: opened.place_of(variant.content)?, print: print(&opened.image, variant)? })
}
