//! The versions of each site that one worker serves.

use super::{context::WorkerContext, served_site::ServedSite};
use crate::site::{FileRange, Site, versions::SiteVersions};
use std::sync::Arc;
use tarpon_conn::{ImageId, SiteId};

impl WorkerContext {
    /// Serves new exchanges of a site from these versions.
    pub(super) fn update_site(&mut self, site: SiteId, SiteVersions { current, earlier }: SiteVersions) {
        self.any_on_disk |= earlier.iter().chain([&current]).any(|site| site.is_on_disk());
        let current = self.image_of(site, current);
        let earlier = earlier.iter().map(|earlier| self.image_of(site, Arc::clone(earlier))).collect();
        self.sites.serve(site, current, earlier);
    }

    /// Returns the image of a version. Adds the version if the worker does not serve it yet.
    pub(super) fn image_of(&mut self, site: SiteId, wanted: Arc<Site>) -> ImageId {
        let current = self.sites.current_id(site);
        let mut served = [current].into_iter().chain(self.sites.earlier(site).iter().copied());
        let known = served.find(|&image| Arc::ptr_eq(&self.served(image).site, &wanted));
        known.unwrap_or_else(|| {
            let wanted = ServedSite::new(wanted, self.blocks_on_disk);
            let image = self.sites.add(wanted.image());
            if self.served_sites.len() <= image.index() {
                self.served_sites.resize_with(image.index() + 1, || None);
            }
            self.served_sites[image.index()] = Some(wanted);
            image
        })
    }

    /// Records that the loader has read a range of a site.
    pub(super) fn mark_read(&mut self, site: &Arc<Site>, range: FileRange) {
        let mut served = self.served_sites.iter_mut().flatten();
        if let Some(served) = served.find(|served| Arc::ptr_eq(&served.site, site)) {
            served.mark_read(range);
        }
    }

    /// Drops retired versions that no response in flight needs.
    #[inline]
    pub(super) fn drop_retired_sites(&mut self) {
        if self.sites.has_retiring() {
            self.drop_unused_sites();
        }
    }

    #[cold]
    fn drop_unused_sites(&mut self) {
        for image in self.sites.retire() {
            self.served_sites[image.index()] = None;
        }
    }
}
