//! The report about a packed site.

use super::changes::Changes;
use super::codings::DELTA_CODINGS;
use super::plan::PackPlan;
use super::reuse::Reuse;
use super::spill::SpilledVariant;
use super::write_archive::ArchiveSizes;
use crate::skip::Skipped;

/// The report about a packed site.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackReport {
    /// Number of files.
    pub files: u64,
    /// Bytes of their contents.
    pub bytes: u64,
    /// Bytes of the archive.
    pub len: u64,
    /// Bytes of the parts of the archive.
    pub sizes: ArchiveSizes,
    /// The savings of each of [`CODINGS`](crate::CODINGS).
    pub saved: [Savings; 3],
    /// The savings of each of [`DELTA_CODINGS`]. Of each file, only the smallest delta counts.
    pub deltas: [Savings; 2],
    /// Whether variants use dictionaries, and no earlier release offered any of them to clients.
    pub are_dictionaries_unoffered: bool,
    /// How many variants were compressed anew. Directory listings do not count.
    pub compressed: u64,
    /// Whether a previous archive was reused.
    pub reuse: Reuse,
    /// The difference to the previous archive. `None`: there is none, or it is unusable.
    pub changes: Option<Changes>,
    /// The files that were left out, by reason.
    pub skipped: Vec<Skipped>,
}

/// The savings of a coding in all files that have a variant in this coding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Savings {
    /// Number of files.
    pub files: u64,
    /// Number of these files whose variant existed before, as a precompressed file or in the previous archive.
    pub reused: u64,
    /// Bytes of their contents.
    pub plain: u64,
    /// Bytes of their variants.
    pub coded: u64,
}

impl Savings {
    fn add(&mut self, plain: u64, coded: u64, reused: bool) {
        self.files += 1;
        self.reused += u64::from(reused);
        self.plain += plain;
        self.coded += coded;
    }
}

/// Counts the files and variants of a plan.
pub(crate) fn report(plan: PackPlan<'_>) -> PackReport {
    let mut report = PackReport::default();
    for file in &plan.files {
        let (content, plain) = (plan.content(file), plan.content(file).fingerprint.len);
        report.files += 1;
        report.bytes += plain;
        for (coding, saved) in report.saved.iter_mut().enumerate().filter(|_| !file.is_precompressed) {
            let (coded, reused) = match (file.precompressed[coding], content.variants[coding]) {
                (Some(other), _) => (plan.content(&plan.files[other]).fingerprint.len, true),
                (None, Some(variant)) => (variant.fingerprint.len, variant.is_reused),
                (None, None) => continue,
            };
            saved.add(plain, coded, reused);
        }
        for (coding, saved) in DELTA_CODINGS.iter().zip(&mut report.deltas) {
            let deltas = content.deltas.iter().filter(|delta| delta.coding == *coding);
            let smallest = deltas.map(|delta| delta.variant).min_by_key(|variant| variant.fingerprint.len);
            if let Some(SpilledVariant { fingerprint, is_reused, .. }) = smallest {
                saved.add(plain, fingerprint.len, is_reused);
            }
        }
    }
    PackReport { skipped: plan.skipped, ..report }
}
