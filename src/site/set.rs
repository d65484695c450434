//! All sites of a server with their versions: what a new worker starts with.
//!
//! ```text
//! VirtualHosts ─ new ─▶ SiteSet ─ sites ─▶ each new worker
//!                          ▲
//! reload ─ swap ───────────┘
//! ```

use crate::{
    base::settings::Settings,
    site::{
        Site,
        descriptor_budget::DescriptorBudget,
        versions::{SiteHistory, SiteVersions},
        virtual_hosts::VirtualHost,
    },
};
use std::{
    os::fd::{AsRawFd, RawFd},
    sync::Arc,
};
use tarpon_conn::Limits;

/// The sites, by number.
pub(crate) struct SiteSet {
    sites: Arc<[(SiteVersions, Limits)]>,
    /// A worker process copies them once it replaces a site.
    histories: Arc<Vec<SiteHistory>>,
    /// Descriptors that all sites may have open, including those of their replacements during a swap.
    descriptor_count: usize,
}

impl SiteSet {
    /// Returns the sites that a server with these settings starts with.
    pub(crate) fn new(settings: &Settings, sites: Vec<VirtualHost>) -> SiteSet {
        let (site_count, budget) = (sites.len(), DescriptorBudget::of_process());
        let kept_max = |site: &VirtualHost| site.keep_releases.unwrap_or(settings.keep_releases);
        let kept_descriptors_max = budget.kept_max / site_count;
        let counts =
            sites.iter().map(|site| descriptor_count(&site.site, kept_max(site), kept_descriptors_max));
        let descriptor_count = counts.sum::<usize>().min(budget.total_max);
        let (mut histories, mut versions, mut held) = (Vec::new(), Vec::new(), Vec::new());
        for host in sites {
            let mut history = SiteHistory::new(kept_max(&host), kept_descriptors_max);
            let VirtualHost { site, earlier, limits, .. } = host;
            // The history has only weak references: these keep the earlier versions until the current one refers to them.
            held.extend(earlier.into_iter().rev().map(|earlier| history.next(earlier)));
            versions.push((history.next(site), limits.resolve(settings)));
            histories.push(history);
        }
        SiteSet { sites: versions.into(), histories: Arc::new(histories), descriptor_count }
    }

    /// Replaces the current version of the site with this number.
    pub(crate) fn swap(&mut self, number: usize, site: Site) {
        if let Some(history) = Arc::make_mut(&mut self.histories).get_mut(number) {
            let versions = history.next(site);
            let replace = |(index, (before, limits)): (usize, &(SiteVersions, Limits))| match index == number
            {
                true => (versions.clone(), *limits),
                false => (before.clone(), *limits),
            };
            self.sites = self.sites.iter().enumerate().map(replace).collect();
        }
    }

    /// Drops earlier versions whose archive was truncated, so that a new worker does not start with them. Returns whether there were any.
    pub(crate) fn drop_damaged(&mut self) -> bool {
        let is_sound = |site: &&Arc<Site>| !site.is_damaged();
        if self.sites.iter().all(|(versions, _)| versions.earlier.iter().all(|site| is_sound(&site))) {
            return false;
        }
        let sound = |(SiteVersions { current, earlier }, limits): &(SiteVersions, Limits)| {
            let earlier = earlier.iter().filter(is_sound).cloned().collect();
            (SiteVersions { current: Arc::clone(current), earlier }, *limits)
        };
        self.sites = self.sites.iter().map(sound).collect();
        true
    }

    pub(crate) fn sites(&self) -> Arc<[(SiteVersions, Limits)]> {
        Arc::clone(&self.sites)
    }

    pub(crate) fn histories(&self) -> Arc<Vec<SiteHistory>> {
        Arc::clone(&self.histories)
    }

    /// Returns the histories alone; the workers hold the sites.
    pub(crate) fn into_histories(self) -> Vec<SiteHistory> {
        Arc::unwrap_or_clone(self.histories)
    }

    /// Returns the numbers of all open descriptors of all versions.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        let versions = self.sites.iter().flat_map(|(versions, _)| versions.all());
        versions.flat_map(|site| site.descriptors()).map(AsRawFd::as_raw_fd)
    }

    /// Returns how many descriptors all sites may have open, including those of their replacements during a swap.
    pub(crate) fn descriptor_count(&self) -> usize {
        self.descriptor_count
    }
}

/// Returns how many descriptors a site may have open: the current version, its replacement, and the earlier versions.
fn descriptor_count(site: &Site, kept_max: usize, kept_descriptors_max: usize) -> usize {
    let kept = kept_max.saturating_mul(site.descriptor_count()).min(kept_descriptors_max);
    2 * site.descriptor_count() + kept
}
