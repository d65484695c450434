//! One version of a site as one worker serves it, with the known residency of its files.
//!
//! The image of a directory is in memory. Large files, archives and the image of a packed site lie in files, whose pages may be
//! missing.

use crate::{
    data::worker::residency::Residency,
    site::{FileRange, Site, StoreId},
    sys::{cached, mapped::Mapped},
};
use std::sync::Arc;
use tarpon_conn::{Span, Tick};
use tarpon_site::{Image, Region, packed};

/// One version of a site, and the residency of its files.
pub(crate) struct ServedSite {
    pub(crate) site: Arc<Site>,
    archive: Residency,
    files: Vec<Residency>,
    /// Where the archive begins in its file.
    archive_at: u64,
    /// Where the image of a packed site begins in its file.
    image_at: u64,
    /// Part of the site lies in files, and the worker must not wait for the disk.
    may_be_on_disk: bool,
    /// The map that holds the image too: the site is packed.
    image_map: Option<Arc<Mapped>>,
}

impl ServedSite {
    /// For a worker that blocks on disk reads, all pages count as resident.
    pub(crate) fn new(site: Arc<Site>, blocks_on_disk: bool) -> ServedSite {
        let archive = Residency::new(site.archive_end());
        let files: Vec<_> = site.file_lens().map(Residency::new).collect();
        let image_map = site.is_packed().then(|| Arc::clone(&site.archive().map));
        let archive_at = site.archive_at();
        let image_at = archive_at + packed::IMAGE_AT;
        let may_be_on_disk = site.is_on_disk() && !blocks_on_disk;
        if may_be_on_disk {
            site.files_on_disk().for_each(cached::disable_read_ahead);
        }
        ServedSite { site, archive, files, archive_at, image_at, may_be_on_disk, image_map }
    }

    /// Returns the image for lookups. The image of a packed site exposes only pages known to be in memory.
    pub(crate) fn image(&self) -> Image {
        let image = self.site.image().clone();
        if self.image_map.is_none() || !self.may_be_on_disk {
            return image;
        }
        let (_, begin) = self.site.store();
        image.with_residency(self.archive.resident(), begin)
    }

    /// Returns the range that must be read before a region of the image's file can be looked at. `None`: it is in memory.
    #[cold]
    pub(crate) fn missing_for_lookup(&mut self, region: Region, now: Tick) -> Option<FileRange> {
        self.image_map.as_ref()?;
        let (file, _) = self.site.file_of(StoreId::Archive);
        let region = self.archive.missing(file, region, now)?;
        Some(FileRange { store: StoreId::Archive, region })
    }

    /// Returns whether a region of the image is known to be in memory.
    #[inline]
    pub(crate) fn is_known(&self, Region { at, len }: Region, now: Tick) -> bool {
        let is_in_own_memory = self.image_map.is_none() || !self.may_be_on_disk;
        is_in_own_memory || self.archive.is_known(Region { at: self.image_at + at, len }, now)
    }

    /// Returns the range that must be read before a span can be sent, of which at most `len_max` bytes are sent now. `None`: it is in
    /// memory.
    pub(crate) fn missing_for_span(&mut self, span: &Span, len_max: u64, now: Tick) -> Option<FileRange> {
        if !self.may_be_on_disk {
            return None;
        }
        let (store, at, len) = match *span {
            Span::Site { at, len, .. } if self.image_map.is_some() => {
                (StoreId::Archive, self.image_at + at, len)
            }
            Span::Archive { at, len, .. } => (StoreId::Archive, self.archive_at + at, len),
            Span::File { number, at, len, .. } => (StoreId::File(number), at, len),
            Span::Prefix(_) | Span::Buf(_) | Span::Site { .. } => return None,
        };
        let region = Region { at, len: len.min(len_max) };
        let residency = match store {
            StoreId::Archive => &mut self.archive,
            StoreId::File(number) => &mut self.files[number as usize],
        };
        if residency.is_known(region, now) {
            return None;
        }
        let (file, _) = self.site.file_of(store);
        residency.missing(file, region, now).map(|region| FileRange { store, region })
    }

    /// Returns whether the image was read from an archive that was truncated.
    #[inline]
    pub(crate) fn is_image_damaged(&self) -> bool {
        self.image_map.as_ref().is_some_and(|map| map.is_damaged())
    }

    /// Records that the loader has read a range.
    pub(crate) fn mark_read(&mut self, range: FileRange) {
        let (file, _) = self.site.file_of(range.store);
        match range.store {
            StoreId::Archive => self.archive.mark_read(file, range.region),
            StoreId::File(number) => self.files[number as usize].mark_read(file, range.region),
        }
    }
}
