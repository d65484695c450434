//! The site that was sent last, and earlier ones that are kept, as descriptors: for a server that takes another's place.

use crate::{config::SiteConfig, server::kept_descriptors_max, site::parcel::Record};
use std::{collections::VecDeque, os::fd::OwnedFd, sync::Arc};

/// What one source has come to so far.
#[derive(Debug)]
pub(super) struct Lineup {
    /// The latest first.
    parcels: VecDeque<(Record, Arc<[OwnedFd]>)>,
    /// The first of them is what is served.
    is_whole: bool,
    /// Earlier ones that are kept, at most.
    kept_max: usize,
}

impl Lineup {
    /// Nothing so far.
    pub(super) fn new(site: &SiteConfig) -> Lineup {
        Lineup { parcels: VecDeque::new(), is_whole: false, kept_max: site.keep_releases }
    }

    /// Another one has come.
    pub(super) fn add(&mut self, record: Record, descriptors: Arc<[OwnedFd]>, is_earlier: bool) {
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
    pub(super) fn current(&self) -> Option<&Record> {
        self.parcels.front().map(|(record, _)| record)
    }

    /// All of them, the oldest first; and whether each is an earlier one.
    pub(super) fn in_order(&self) -> impl Iterator<Item = (&Record, &Arc<[OwnedFd]>, bool)> {
        let parcels = self.parcels.iter().enumerate().rev();
        parcels.map(|(place, (record, descriptors))| (record, descriptors, place > 0))
    }
}
