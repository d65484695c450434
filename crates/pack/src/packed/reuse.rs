//! The previous archive, and its variants for files that have not changed.
//!
//! The same encoders would make the same variants again, and a variant that is missing from the archive would not be worthwhile now either.
//! Precompressed files say nothing about that, since other programs made them.
//!
//! The archive is not trusted: a variant is reused only if it decodes to its content.

use super::changes::Changes;
use super::codings::{CODINGS, SUFFIXES};
use super::decode::{decodes_to, decodes_with_dictionary};
use super::dictionaries::{Dictionary, DictionaryDigest};
use super::error::OpenError;
use super::fingerprint::Fingerprint;
use super::open::{OpenedSite, stored_fingerprint};
use super::options::SiteOptions;
use super::plan::PackPlan;
use crate::content::OffsetReader;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use tarpon_site::format::section;
use tarpon_site::{Coding, Entry, Variant};

/// Whether the previous archive was reused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Reuse {
    /// There is no previous archive.
    #[default]
    None,
    /// Variants of unchanged contents come from the previous archive.
    Reused,
    /// Other encoders, or the same with another effort, made the previous archive. All contents were compressed anew.
    OtherEncoders,
    /// The file at the target is not reusable, for this reason.
    Unusable(String),
}

/// The previous archive.
pub(crate) struct PreviousArchive {
    file: File,
    /// Length of the archive, or of the program with the embedded archive.
    len: u64,
    /// By path: the files that the server sent.
    files: HashMap<Vec<u8>, Fingerprint>,
    /// `None`: other encoders made the archive.
    variants: Option<PreviousVariants>,
}

/// The variants of the previous archive.
#[derive(Default)]
struct PreviousVariants {
    /// By content and coding: the location of the variant, or `Some(None)` if none was worthwhile. `None`: not known.
    known: HashMap<Fingerprint, [Option<Option<VariantLocation>>; 3]>,
    /// By content, dictionary and coding. For a missing delta it is not known whether it would be worthwhile.
    deltas: HashMap<(Fingerprint, DictionaryDigest, &'static str), VariantLocation>,
}

/// A variant of the previous archive.
pub(crate) struct ReusedVariant<'e> {
    file: &'e File,
    at: u64,
    pub(crate) fingerprint: Fingerprint,
}

/// The location of a variant.
#[derive(Clone, Copy)]
struct VariantLocation {
    /// Offset in the file.
    at: u64,
    fingerprint: Fingerprint,
}

/// Opens the previous archive: the one in the options, or else the file at the target. If the latter is not reusable, this is no error.
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
    /// Opens an archive, or a program with an embedded archive.
    fn open(path: &Path, encoders: &str) -> Result<PreviousArchive, OpenError> {
        let file = File::open(path).map_err(OpenError::Read)?;
        let opened = OpenedSite::new_or_embedded(&file)?;
        // A missing variant counts as not worthwhile, so damage must not hide a variant.
        if !opened.is_body_good() {
            return Err(OpenError::Body);
        }
        let len = file.metadata().map_err(OpenError::Read)?.len();
        let made_by = opened.image.sections().find(|(row, _)| row.kind == section::ENCODERS);
        let is_alike = made_by.is_some_and(|(_, line)| line == encoders.as_bytes());
        let variants = is_alike.then(|| PreviousVariants::of(&opened));
        let mut files = HashMap::new();
        for (path, file) in files_of(&opened) {
            if opened.image.listing_json(path) == Ok(None) {
                files.extend(
                    stored_fingerprint(&opened.image, &file.identity)
                        .map(|fingerprint| (path.to_vec(), fingerprint)),
                );
            }
        }
        Ok(PreviousArchive { file, len, files, variants })
    }

    /// Opens the file at the target. `None`: there is none, or an empty one.
    fn at_target(path: &Path, encoders: &str) -> Result<Option<PreviousArchive>, OpenError> {
        match path.metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(OpenError::Read(error)),
            Ok(meta) if meta.len() == 0 => Ok(None),
            Ok(_) => PreviousArchive::open(path, encoders).map(Some),
        }
    }

    /// Returns the delta of a content. `None`: the archive has none, or a damaged one.
    pub(crate) fn delta(
        &self,
        content: Fingerprint,
        dictionary: &Dictionary,
        coding: Coding,
    ) -> Option<ReusedVariant<'_>> {
        let deltas = &self.variants.as_ref()?.deltas;
        let &VariantLocation { at, fingerprint } = deltas.get(&(content, dictionary.hash, coding.name()))?;
        let reused = ReusedVariant { file: &self.file, at, fingerprint };
        decodes_with_dictionary(coding, reused.reader(), dictionary, content).then_some(reused)
    }

    /// Returns whether the archive has the variant of a content, perhaps damaged, or shows that none is worthwhile.
    pub(crate) fn knows(&self, content: Fingerprint, coding: usize) -> bool {
        let known = self.variants.as_ref().and_then(|variants| variants.known.get(&content));
        known.is_some_and(|known| known[coding].is_some())
    }

    /// Returns the variant of a content, or `Some(None)` if none is worthwhile. `None`: not known, or the variant is damaged.
    pub(crate) fn variant(&self, content: Fingerprint, coding: usize) -> Option<Option<ReusedVariant<'_>>> {
        let known = self.variants.as_ref()?.known.get(&content)?[coding]?;
        let Some(VariantLocation { at, fingerprint }) = known else { return Some(None) };
        let reused = ReusedVariant { file: &self.file, at, fingerprint };
        decodes_to(CODINGS[coding], reused.reader(), content).then_some(Some(reused))
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
        // Precompressed files have the suffix of a coding and the content of a variant.
        let coded: HashSet<_> = files_of(opened)
            .flat_map(|(_, file)| image.coded_variants(file))
            .map(|(_, variant)| tag(&variant))
            .collect();
        let has_suffix = |path: &[u8]| SUFFIXES.iter().any(|suffix| path.ends_with(suffix.as_bytes()));
        let precompressed: HashSet<_> = files_of(opened)
            .filter(|(path, file)| has_suffix(path) && coded.contains(tag(&file.identity)))
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
            // Precompressed files have no variants, whether or not these would be worthwhile.
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

/// Returns the files of the site with their paths. A file may have several paths. Leaves out the files that rules send.
fn files_of(opened: &OpenedSite) -> impl Iterator<Item = (&[u8], tarpon_site::Variants)> {
    opened.image.entries().filter_map(|(path, entry)| match entry {
        Entry::File(file) if path.starts_with(b"/") && file.rule_status.is_none() => Some((path, file)),
        _ => None,
    })
}

impl ReusedVariant<'_> {
    pub(crate) fn reader(&self) -> impl Read {
        OffsetReader { file: self.file, at: self.at }.take(self.fingerprint.len)
    }
}

fn location(opened: &OpenedSite, variant: &Variant) -> Option<VariantLocation> {
    Some(VariantLocation {
        at: opened.offset_of(variant.content)?,
        fingerprint: stored_fingerprint(&opened.image, variant)?,
    })
}
