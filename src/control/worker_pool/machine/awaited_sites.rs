//! The versions of the sites that arrive before a pool serves. Plain data.

use crate::control::worker_pool::vocabulary::{ArrivalId, SiteArrivals};
use std::mem;

/// The versions that have arrived, by the number of the site. Empty once the pool serves.
#[derive(Debug)]
pub(super) struct AwaitedSites {
    sites: Vec<AwaitedSite>,
}

#[derive(Debug, Default)]
struct AwaitedSite {
    current: Option<ArrivalId>,
    /// The oldest comes first.
    earlier: Vec<ArrivalId>,
}

impl AwaitedSites {
    /// Awaits this many sites.
    pub(super) fn new(count: usize) -> AwaitedSites {
        AwaitedSites { sites: (0..count).map(|_| AwaitedSite::default()).collect() }
    }

    /// Adds a version. Returns the version that it replaces.
    pub(super) fn add(&mut self, number: usize, version: ArrivalId, is_earlier: bool) -> Option<ArrivalId> {
        let site = &mut self.sites[number];
        if is_earlier {
            site.earlier.push(version);
            return None;
        }
        site.current.replace(version)
    }

    /// Takes all versions, if the current version of each site has arrived.
    pub(super) fn take_complete(&mut self) -> Option<Vec<SiteArrivals>> {
        if self.sites.iter().any(|site| site.current.is_none()) {
            return None;
        }
        let take = |site: AwaitedSite| Some(SiteArrivals { current: site.current?, earlier: site.earlier });
        Some(mem::take(&mut self.sites).into_iter().filter_map(take).collect())
    }

    /// Takes all versions that have arrived.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = ArrivalId> {
        let sites = mem::take(&mut self.sites).into_iter();
        sites.flat_map(|site| site.earlier.into_iter().chain(site.current))
    }
}
