//! What a server serves: the sites as they are now, and earlier ones that are kept. For whoever gives workers what they begin with.

use crate::{
    base::settings::Settings,
    site::{
        Site,
        versions::{SiteHistory, SiteVersions},
        virtual_hosts::VirtualHost,
    },
};
use rustix::process::{Resource, getrlimit};
use std::{
    iter,
    os::fd::{AsRawFd, RawFd},
    sync::Arc,
};
use tarpon_conn::Limits;

/// The sites, by number.
pub(crate) struct SiteSet {
    sites: Arc<[(SiteVersions, Limits)]>,
    recents: Vec<SiteHistory>,
    /// That they may have open, each with what takes its place.
    descriptor_count: usize,
}

impl SiteSet {
    /// What a server of these settings begins with.
    pub(crate) fn new(settings: &Settings, sites: Vec<VirtualHost>) -> SiteSet {
        let site_count = sites.len();
        let kept_max = |site: &VirtualHost| site.keep_releases.unwrap_or(settings.keep_releases);
        let descriptor_count =
            sites.iter().map(|site| descriptor_count(&site.site, kept_max(site), site_count)).sum();
        let kept_descriptors_max = kept_descriptors_max() / site_count;
        let (mut recents, mut lineups, mut held) = (Vec::new(), Vec::new(), Vec::new());
        for host in sites {
            let mut recent = SiteHistory::new(kept_max(&host), kept_descriptors_max);
            let VirtualHost { site, earlier, limits, .. } = host;
            // Held until the last one has taken over what of the others is kept.
            held.extend(earlier.into_iter().rev().map(|earlier| recent.next(earlier)));
            lineups.push((recent.next(site), limits.resolve(settings)));
            recents.push(recent);
        }
        SiteSet { sites: lineups.into(), recents, descriptor_count }
    }

    /// From now on this is the site of this number.
    pub(crate) fn swap(&mut self, number: usize, site: Site) {
        if let Some(recent) = self.recents.get_mut(number) {
            let lineup = recent.next(site);
            let renew = |(place, (before, limits)): (usize, &(SiteVersions, Limits))| match place == number {
                true => (lineup.clone(), *limits),
                false => (before.clone(), *limits),
            };
            self.sites = self.sites.iter().enumerate().map(renew).collect();
        }
    }

    /// Keeps no longer what was truncated: a worker that begins with it would have to find that out for itself.
    pub(crate) fn drop_damaged(&mut self) {
        let is_sound = |site: &&Arc<Site>| !site.is_damaged();
        if self.sites.iter().all(|(lineup, _)| lineup.earlier.iter().all(|site| is_sound(&site))) {
            return;
        }
        let sound = |(SiteVersions { current, earlier }, limits): &(SiteVersions, Limits)| {
            let earlier = earlier.iter().filter(is_sound).cloned().collect();
            (SiteVersions { current: Arc::clone(current), earlier }, *limits)
        };
        self.sites = self.sites.iter().map(sound).collect();
    }

    pub(crate) fn sites(&self) -> Arc<[(SiteVersions, Limits)]> {
        Arc::clone(&self.sites)
    }

    pub(crate) fn histories(&self) -> &[SiteHistory] {
        &self.recents
    }

    /// For whom only remembers: the workers hold the sites.
    pub(crate) fn into_histories(self) -> Vec<SiteHistory> {
        self.recents
    }

    /// The numbers of all descriptors that they have open.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        let lineups =
            self.sites.iter().flat_map(|(lineup, _)| iter::once(&lineup.current).chain(&*lineup.earlier));
        lineups.flat_map(|site| site.descriptors()).map(AsRawFd::as_raw_fd)
    }

    /// How many they may have open, with what takes their places.
    pub(crate) fn descriptor_count(&self) -> usize {
        self.descriptor_count
    }
}

/// What a site, one of so many, may have open: itself, what takes its place, and those that are kept.
fn descriptor_count(site: &Site, kept_max: usize, site_count: usize) -> usize {
    let kept = kept_max.saturating_mul(site.descriptor_count()).min(kept_descriptors_max() / site_count);
    2 * site.descriptor_count() + kept
}

/// A quarter of the limit on open files, as for the site that is served and for the one that takes its place.
pub(crate) fn kept_descriptors_max() -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(limit / 4).unwrap_or(usize::MAX)
}
