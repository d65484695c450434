//! The site that was sent last, and earlier ones that are kept, as descriptors: for a server that takes another's place, also one of
//! another configuration or another program.

use crate::{
    base::site_config::{SiteConfig, SiteSource},
    control::process::message::InheritedSite,
    site::{set::kept_descriptors_max, transfer::SiteTransfer},
};
use std::{collections::VecDeque, os::fd::OwnedFd, path::Path, sync::Arc};

/// What one source has come to so far.
#[derive(Debug)]
pub(super) struct Lineup {
    /// The latest first.
    parcels: VecDeque<(SiteTransfer, Arc<[OwnedFd]>)>,
    /// The first of them is what is served.
    is_whole: bool,
    /// Earlier ones that are kept, at most.
    kept_max: usize,
}

/// What of a source is kept for the next configuration or program, the oldest first.
pub(super) type Legacy = Vec<(InheritedSite, Arc<[OwnedFd]>)>;

impl Lineup {
    /// What was served of this source before; nothing that is served now.
    pub(super) fn new(site: &SiteConfig, legacy: &Legacy) -> Lineup {
        let kept_max = site.keep_releases;
        let of_it = legacy.iter().rev().filter(|(kept, _)| kept_max > 0 && is_of(kept, &site.source));
        let parcels = of_it.map(|(kept, descriptors)| (kept.transfer.clone(), Arc::clone(descriptors)));
        Lineup { parcels: parcels.collect(), is_whole: false, kept_max }
    }

    /// All of it, for the next. A name that is not UTF-8 keeps it from that.
    pub(super) fn legacy(&self, source: &SiteSource) -> Legacy {
        let (Some(path), Some(prefix)) = (source.path.to_str(), source.prefix.to_str()) else {
            return Legacy::new();
        };
        let kept = |record: &SiteTransfer| InheritedSite {
            path: path.to_owned(),
            prefix: prefix.to_owned(),
            transfer: record.clone(),
            loads: 0,
        };
        self.in_order().map(|(record, descriptors, _)| (kept(record), Arc::clone(descriptors))).collect()
    }

    /// Another one has come.
    pub(super) fn add(&mut self, record: SiteTransfer, descriptors: Arc<[OwnedFd]>, is_earlier: bool) {
        // What is read again without having changed, or comes back, takes no other's place.
        self.parcels.retain(|(former, others)| !former.is_same(others, &record, &descriptors));
        self.is_whole |= !is_earlier;
        self.parcels.push_front((record, descriptors));
        let mut kept_descriptors = 0;
        let kept = self.parcels.iter().skip(1).take(self.kept_max).take_while(|(_, descriptors)| {
            kept_descriptors += descriptors.len();
            kept_descriptors <= kept_descriptors_max()
        });
        let count = 1 + kept.count();
        self.parcels.truncate(count);
    }

    /// Whether there is something to serve.
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// What is served.
    pub(super) fn current(&self) -> Option<&SiteTransfer> {
        self.parcels.front().map(|(record, _)| record)
    }

    /// All of them, the oldest first; and whether each is an earlier one.
    pub(super) fn in_order(&self) -> impl Iterator<Item = (&SiteTransfer, &Arc<[OwnedFd]>, bool)> {
        let parcels = self.parcels.iter().enumerate().rev();
        parcels.map(|(place, (record, descriptors))| (record, descriptors, place > 0))
    }
}

fn is_of(kept: &InheritedSite, source: &SiteSource) -> bool {
    source.path == Path::new(&kept.path) && source.prefix == Path::new(&kept.prefix)
}
