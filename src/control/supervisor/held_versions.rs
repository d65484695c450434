//! The versions of the sites that the supervisor holds: what is served, and earlier ones for clients that loaded a page of them.
//!
//! ```text
//! builder ─▶ add ─▶ [current │ earlier │ earlier …] ─▶ each server that starts
//!                        └── inherited by the next configuration or successor
//! ```

use super::{
    event::{Action, SiteVersion, VersionId},
    generation::SitePlan,
};
use crate::control::process::Backoff;
use std::collections::{BTreeMap, VecDeque};
use tarpon_conn::Tick;

/// The versions of one site of a generation.
#[derive(Debug)]
pub(super) struct HeldVersions {
    /// What tells the site from others: where it is read.
    pub(super) source: String,
    /// The name of the site in messages.
    pub(super) label: String,
    /// The latest first.
    versions: VecDeque<SiteVersion>,
    /// The first of them is what this generation serves.
    is_complete: bool,
    /// Earlier versions, at most.
    kept_max: usize,
    /// How often the site was loaded since the service started.
    pub(super) loads: u64,
    /// Whether the server gets the current version again.
    pub(super) resend: Resend,
}

/// When a server that had no room for the current version gets it again.
#[derive(Debug, Default)]
pub(super) struct Resend {
    pub(super) due: Option<Tick>,
    pub(super) backoff: Backoff,
}

/// A version that an earlier configuration or program has served.
#[derive(Clone, Debug)]
pub(super) struct InheritedVersion {
    pub(super) source: String,
    pub(super) version: SiteVersion,
    pub(super) loads: u64,
}

/// Counts which versions are in use: generations share them.
#[derive(Debug, Default)]
pub(super) struct VersionUses(BTreeMap<VersionId, usize>);

impl VersionUses {
    /// Notes a use of a version.
    pub(super) fn hold(&mut self, id: VersionId) {
        *self.0.entry(id).or_default() += 1;
    }

    /// Notes the end of a use. The last one drops the version.
    pub(super) fn release(&mut self, id: VersionId, actions: &mut Vec<Action>) {
        if let Some(count) = self.0.get_mut(&id) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(&id);
                actions.push(Action::DropVersion(id));
            }
        }
    }

    /// Returns the versions in use.
    #[cfg(test)]
    pub(super) fn ids(&self) -> impl Iterator<Item = VersionId> {
        self.0.keys().copied()
    }
}

impl HeldVersions {
    /// Returns the versions that were served of this source before; none is served now. `inherited`: the oldest first.
    pub(super) fn new(
        plan: SitePlan,
        inherited: &[InheritedVersion],
        uses: &mut VersionUses,
    ) -> HeldVersions {
        let SitePlan { source, label, kept_max } = plan;
        let of_source = || inherited.iter().filter(|inherited| inherited.source == source);
        let loads = of_source().map(|inherited| inherited.loads).max().unwrap_or(0);
        let versions: VecDeque<_> = match kept_max {
            0 => VecDeque::new(),
            _ => of_source().rev().map(|inherited| inherited.version).collect(),
        };
        versions.iter().for_each(|version| uses.hold(version.id));
        HeldVersions {
            source,
            label,
            versions,
            is_complete: false,
            kept_max,
            loads,
            resend: Resend::default(),
        }
    }

    /// Returns the versions for the next configuration or successor, the oldest first.
    pub(super) fn inherit(&self) -> impl Iterator<Item = InheritedVersion> {
        let inherited = |version: &SiteVersion| InheritedVersion {
            source: self.source.clone(),
            version: *version,
            loads: self.loads,
        };
        self.versions.iter().rev().map(inherited)
    }

    /// Adds a version: the current one, or an earlier release. The same content again is no load. Drops one with the same content, and earlier ones beyond the limits: of
    /// their number, and of `kept_descriptors_max` descriptors.
    pub(super) fn add(
        &mut self,
        version: SiteVersion,
        is_earlier: bool,
        kept_descriptors_max: usize,
        uses: &mut VersionUses,
        actions: &mut Vec<Action>,
    ) {
        uses.hold(version.id);
        // The same content with more compressed variants is no load.
        let is_current = self.current().is_some_and(|current| current.content_id == version.content_id);
        self.loads += u64::from(!is_earlier && !is_current);
        self.is_complete |= !is_earlier;
        let mut dropped = Vec::new();
        let is_same = |known: &SiteVersion| known.content_id == version.content_id;
        self.versions.retain(|known| {
            if is_same(known) {
                dropped.push(known.id);
            }
            !is_same(known)
        });
        self.versions.push_front(version);
        let mut descriptor_count = 0;
        let kept = self.versions.iter().skip(1).take(self.kept_max).take_while(|version| {
            descriptor_count += version.descriptor_count;
            descriptor_count <= kept_descriptors_max
        });
        let count = 1 + kept.count();
        dropped.extend(self.versions.drain(count..).map(|version| version.id));
        dropped.into_iter().for_each(|id| uses.release(id, actions));
    }

    /// Drops all versions.
    pub(super) fn clear(&mut self, uses: &mut VersionUses, actions: &mut Vec<Action>) {
        self.versions.drain(..).for_each(|version| uses.release(version.id, actions));
    }

    /// Returns the version that is served. `None`: none was built yet.
    pub(super) fn current(&self) -> Option<&SiteVersion> {
        self.versions.front().filter(|_| self.is_complete)
    }

    /// Returns the versions, the oldest first, and whether each is an earlier one.
    pub(super) fn in_order(&self) -> impl Iterator<Item = (&SiteVersion, bool)> {
        self.versions.iter().enumerate().rev().map(|(place, version)| (version, place > 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latest_distinct_versions_are_kept_and_the_others_dropped() {
        #[rustfmt::skip]
        let cases: &[(&str, usize, usize, &str, &str)] = &[
            // what it shows           versions  descriptors  served, in order  held, the latest first
            ("keep none",              0,        100,         "ab",             "b"),
            ("keep one",               1,        100,         "ab",             "ba"),
            ("keep two",               2,        100,         "abcd",           "dcb"),
            ("same content again",     1,        100,         "abb",            "ba"),
            ("earlier content again",  2,        100,         "aba",            "ab"),
            ("few descriptors",        5,        2,           "abcd",           "dcb"),
        ];
        for &(name, kept_max, kept_descriptors_max, served, want) in cases {
            let (mut uses, mut actions) = (VersionUses::default(), Vec::new());
            let plan = SitePlan { source: String::new(), label: String::new(), kept_max };
            let mut site = HeldVersions::new(plan, &[], &mut uses);
            for (number, content) in served.chars().enumerate() {
                let version = SiteVersion {
                    id: VersionId(number as u64),
                    descriptor_count: 1,
                    file_count: 1,
                    content_len: 1,
                    content_id: content as u128,
                };
                site.add(version, false, kept_descriptors_max, &mut uses, &mut actions);
            }
            let held = site.versions.iter().map(|version| char::from(version.content_id as u8));
            assert_eq!(held.collect::<String>(), want, "{name}");
            let mut contents: Vec<_> = served.chars().collect();
            contents.dedup();
            assert_eq!(site.loads, contents.len() as u64, "{name}");
            site.clear(&mut uses, &mut actions);
            assert_eq!((uses.ids().count(), actions.len()), (0, served.len()), "{name}");
        }
    }
}
