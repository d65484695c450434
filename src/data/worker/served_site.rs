//! A site as one worker serves it: the site, and what of it the worker knows to be in memory.
//!
//! The image of a directory is memory. What lies in files can be cold: large files, archives, and with a packed site
//! the image too.

use crate::{
    data::worker::{loader::FileRange, residency::Residency},
    site::{Site, StoreId},
    sys::cached,
};
use std::sync::Arc;
use tarpon_conn::{Span, Tick};
use tarpon_site::{Image, Region, packed};

/// A site and what is known of its files.
pub(crate) struct ServedSite {
    pub(crate) site: Arc<Site>,
    archive: Residency,
    files: Vec<Residency>,
    /// Something of it lies in files.
    may_be_cold: bool,
    /// So does its image.
    is_packed: bool,
}

impl ServedSite {
    /// For a worker that waits for the disk itself, all is taken to be in memory.
    pub(crate) fn new(site: Arc<Site>, waits_for_disk: bool) -> ServedSite {
        let archive = Residency::new(site.archive_end());
        let files: Vec<_> = site.file_lens().map(Residency::new).collect();
        let is_packed = site.is_packed();
        let may_be_cold = site.is_on_disk() && !waits_for_disk;
        if may_be_cold {
            site.files_on_disk().for_each(cached::fetch_alone);
        }
        ServedSite { site, archive, files, may_be_cold, is_packed }
    }

    /// The image as the worker looks things up in it: of one on a disk, only what is known to be in memory.
    pub(crate) fn image(&self) -> Image {
        let image = self.site.image().clone();
        if !self.is_packed || !self.may_be_cold {
            return image;
        }
        let (_, begin) = self.site.store();
        image.with_residency(self.archive.known(), begin)
    }

    /// What has to be read before a place of the image's file can be looked at. `None`: it is in memory.
    #[cold]
    pub(crate) fn unknown(&mut self, place: Region, now: Tick) -> Option<FileRange> {
        if !self.is_packed {
            return None;
        }
        let (file, _) = self.site.file_of(StoreId::Archive);
        let place = self.archive.missing(file, place, now)?;
        Some(FileRange { store: StoreId::Archive, place })
    }

    /// What has to be read before a span of this site can be sent, of which at most `len_max` bytes leave now. `None`:
    /// it is all in memory.
    #[inline]
    pub(crate) fn cold(&mut self, span: &Span, len_max: u64, now: Tick) -> Option<FileRange> {
        if !self.may_be_cold {
            return None;
        }
        let (store, at, len) = match *span {
            Span::Site { at, len, .. } if self.is_packed => (StoreId::Archive, packed::IMAGE_AT + at, len),
            Span::Archive { at, len, .. } => (StoreId::Archive, at, len),
            Span::File { number, at, len, .. } => (StoreId::File(number), at, len),
            Span::Start(_) | Span::Buf(_) | Span::Site { .. } => return None,
        };
        let (file, begin) = self.site.file_of(store);
        let place = Region { at: begin + at, len: len.min(len_max) };
        let known = match store {
            StoreId::Archive => &mut self.archive,
            StoreId::File(number) => &mut self.files[number as usize],
        };
        known.missing(file, place, now).map(|place| FileRange { store, place })
    }

    /// A stretch was read just now.
    pub(crate) fn learn(&mut self, stretch: FileRange) {
        let (file, _) = self.site.file_of(stretch.store);
        match stretch.store {
            StoreId::Archive => self.archive.learn(file, stretch.place),
            StoreId::File(number) => self.files[number as usize].learn(file, stretch.place),
        }
    }
}
