//! The versions of the sites that arrive before a pool serves. Plain data.

use crate::control::worker_pool::vocabulary::{ArrivalId, SiteArrivals};
use std::mem;

/// The versions that have arrived, by the number of the site. Empty once the pool serves.
#[derive(Debug)]
pub(super) struct PendingSites {
    sites: Vec<PendingVersions>,
}

/// The versions of one site.
#[derive(Debug, Default)]
struct PendingVersions {
    current: Option<ArrivalId>,
    /// The oldest comes first.
    earlier: Vec<ArrivalId>,
}

impl PendingSites {
    /// Returns this many sites without versions.
    pub(super) fn new(count: usize) -> PendingSites {
        PendingSites { sites: (0..count).map(|_| PendingVersions::default()).collect() }
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
        let take =
            |site: PendingVersions| Some(SiteArrivals { current: site.current?, earlier: site.earlier });
        Some(mem::take(&mut self.sites).into_iter().filter_map(take).collect())
    }

    /// Takes all versions that have arrived.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = ArrivalId> {
        let sites = mem::take(&mut self.sites).into_iter();
        sites.flat_map(|site| site.earlier.into_iter().chain(site.current))
    }
}
