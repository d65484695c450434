//! An previous archive: its variants, for files that have not changed.
//!
//! The same encoders would make the same variants again, and a variant that is missing there would still not be worth it.
//! A variant that lay precompressed its file tells nothing: another program made it.
//!
//! Trusts no archive: a variant has to decode to its content.

use super::changes::Changes;
use super::decode::{Fingerprint, decodes_to, decodes_with_dictionary};
use super::dictionaries::{Dictionary, DictionaryHash};
use super::error::OpenError;
use super::open::{OpenedSite, stored_fingerprint};
use super::plan::PackPlan;
use super::variants::SUFFIXES;
use super::{CODINGS, SiteOptions};
use crate::content::Positioned;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use tarpon_site::format::section;
use tarpon_site::{Coding, Entry, Variant};

/// Whether an previous archive was reused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Reuse {
    /// There is none.
    #[default]
    None,
    /// Variants of unchanged contents come from it.
    Reused,
    /// Other encoders made it, or the same with another effort: everything is compressed anew.
    OtherEncoders,
    /// The file at the target cannot be reused, for this reason.
    Unusable(String),
}

/// An previous archive.
pub(crate) struct PreviousArchive {
    file: File,
    /// Bytes of the archive, or of the program that carries it.
    len: u64,
    /// By path: the files that were served.
    files: HashMap<Vec<u8>, Fingerprint>,
    /// None: other encoders made it.
    variants: Option<PreviousVariants>,
}

/// The variants of an previous archive.
#[derive(Default)]
struct PreviousVariants {
    /// By content: for each coding, whether it is known, and then where the variant is, if it was worth it.
    known: HashMap<Fingerprint, [Option<Option<VariantLocation>>; 3]>,
    /// By content and dictionary; of what is not here nothing is known.
    deltas: HashMap<(Fingerprint, DictionaryHash, &'static str), VariantLocation>,
}

/// A variant of an previous archive.
pub(crate) struct ReusedVariant<'e> {
    file: &'e File,
    at: u64,
    pub(crate) fingerprint: Fingerprint,
}

/// Where a variant location.
#[derive(Clone, Copy)]
struct VariantLocation {
    /// From the start of the file.
    at: u64,
    fingerprint: Fingerprint,
}

/// Opens the archive to reuse: the one that the options name, or else the file at the target. An archive that cannot be
/// reused is an error only if the options name it.
pub(crate) fn open_previous(
    options: &SiteOptions<'_>,
    target: &Path,
    encoders: &str,
) -> Result<(Option<PreviousArchive>, Reuse), OpenError> {
    let opened = match options.reuse {
        Some(path) => PreviousArchive::open(path, encoders).map(Some),
        None => PreviousArchive::at_target(target, encoders),
    };
    match opened {
        Ok(None) => Ok((None, Reuse::None)),
        Ok(Some(previous)) if previous.variants.is_none() => Ok((Some(previous), Reuse::OtherEncoders)),
        Ok(Some(previous)) => Ok((Some(previous), Reuse::Reused)),
        Err(error) if options.reuse.is_some() => Err(error),
        Err(error) => Ok((None, Reuse::Unusable(error.to_string()))),
    }
}

impl PreviousArchive {
    /// Opens an archive, or a program that carries one.
    fn open(path: &Path, encoders: &str) -> Result<PreviousArchive, OpenError> {
        let file = File::open(path).map_err(OpenError::Read)?;
        let opened = OpenedSite::of(&file)?;
        // A variant that damage hides would be reused for one that was not worth it.
        if !opened.is_body_good() {
            return Err(OpenError::Body);
        }
        let len = file.metadata().map_err(OpenError::Read)?.len();
        let made_by = opened.image.sections().find(|(row, _)| row.kind == section::ENCODERS);
        let is_alike = made_by.is_some_and(|(_, line)| line == encoders.as_bytes());
        let variants = is_alike.then(|| PreviousVariants::of(&opened));
        let mut files = HashMap::new();
        for (path, file) in files_of(&opened) {
            if opened.image.listing_json(path).is_none() {
                files.extend(
                    stored_fingerprint(&opened.image, &file.identity)
                        .map(|fingerprint| (path.to_vec(), fingerprint)),
                );
            }
        }
        Ok(PreviousArchive { file, len, files, variants })
    }

    /// Opens what location at the target. None: nothing does, or an empty file that keeps the name.
    fn at_target(path: &Path, encoders: &str) -> Result<Option<PreviousArchive>, OpenError> {
        match path.metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(OpenError::Read(error)),
            Ok(there) if there.len() == 0 => Ok(None),
            Ok(_) => PreviousArchive::open(path, encoders).map(Some),
        }
    }

    /// A content, coded with a dictionary. None if that is not known.
    pub(crate) fn delta(
        &self,
        content: Fingerprint,
        dictionary: &Dictionary,
        coding: Coding,
    ) -> Option<ReusedVariant<'_>> {
        let deltas = &self.variants.as_ref()?.deltas;
        let &VariantLocation { at, fingerprint } =
            deltas.get(&(content, dictionary.digest, coding.name()))?;
        let found = ReusedVariant { file: &self.file, at, fingerprint };
        decodes_with_dictionary(coding, found.reader(), dictionary, content).then_some(found)
    }

    /// Whether an outcome for a content in a coding location here, which may yet turn out to be damaged.
    pub(crate) fn knows(&self, content: Fingerprint, coding: usize) -> bool {
        let known = self.variants.as_ref().and_then(|variants| variants.known.get(&content));
        known.is_some_and(|known| known[coding].is_some())
    }

    /// What became of a content in a coding: None if that is not known.
    pub(crate) fn variant(&self, content: Fingerprint, coding: usize) -> Option<Option<ReusedVariant<'_>>> {
        let known = self.variants.as_ref()?.known.get(&content)?[coding]?;
        let Some(VariantLocation { at, fingerprint }) = known else { return Some(None) };
        let found = ReusedVariant { file: &self.file, at, fingerprint };
        // It may be damaged.
        decodes_to(CODINGS[coding], found.reader(), content).then_some(Some(found))
    }

    /// Returns the difference between the archive and a plan.
    pub(crate) fn changes(&self, plan: &PackPlan<'_>) -> Changes {
        Changes::new(&self.files, plan, self.len)
    }
}

impl PreviousVariants {
    fn of(opened: &OpenedSite) -> PreviousVariants {
        let (image, mut variants) = (&opened.image, PreviousVariants::default());
        let tag = |variant: &Variant| image.bytes(variant.etag);
        // Files that are the coded forms of others: they lay precompressed these.
        let coded: HashSet<_> = files_of(opened)
            .flat_map(|(_, file)| image.coded_variants(file))
            .map(|(_, variant)| tag(&variant))
            .collect();
        let is_named = |path: &[u8]| SUFFIXES.iter().any(|suffix| path.ends_with(suffix.as_bytes()));
        let precompressed: HashSet<_> = files_of(opened)
            .filter(|(path, file)| is_named(path) && coded.contains(tag(&file.identity)))
            .map(|(_, file)| tag(&file.identity))
            .collect();
        for (_, file) in files_of(opened) {
            let Some(fingerprint) = stored_fingerprint(image, &file.identity) else { continue };
            for (dictionary, coding, variant) in image.all_deltas(file) {
                let location = location(opened, &variant);
                variants
                    .deltas
                    .extend(location.map(|location| ((fingerprint, dictionary, coding.name()), location)));
            }
            // A form precompressed its file is never coded itself, and so says nothing of its content.
            if precompressed.contains(tag(&file.identity)) {
                continue;
            }
            let coded: Vec<_> = image.coded_variants(file).collect();
            let known: &mut [_; 3] = variants.known.entry(fingerprint).or_default();
            for (at, coding) in CODINGS.into_iter().enumerate() {
                known[at] = match coded.iter().find(|(found, _)| *found == coding) {
                    Some((_, variant)) if precompressed.contains(tag(variant)) => continue,
                    Some((_, variant)) => match location(opened, variant) {
                        Some(location) => Some(Some(location)),
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
fn files_of(opened: &OpenedSite) -> impl Iterator<Item = (&[u8], tarpon_site::Variants)> {
    opened.image.entries().filter_map(|(path, entry)| match entry {
        Entry::File(file) if path.starts_with(b"/") && file.rule_status.is_none() => Some((path, file)),
        _ => None,
    })
}

impl ReusedVariant<'_> {
    pub(crate) fn reader(&self) -> impl Read {
        Positioned { file: self.file, at: self.at }.take(self.fingerprint.len)
    }
}

fn location(opened: &OpenedSite, variant: &Variant) -> Option<VariantLocation> {
    Some(VariantLocation {
        at: opened.place_of(variant.content)?,
        fingerprint: stored_fingerprint(&opened.image, variant)?,
    })
}
