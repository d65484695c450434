//! Sends a site to another process: a record of a few numbers, and the descriptors that hold the contents.
//!
//! ```text
//! Site ─▶ SiteTransfer + descriptors: [memory of the image] [archive] [large files] … ─▶ check ─▶ Site
//! ```
//!
//! The receiver does not trust the sender: it requires sealed memory and validates the image.

use super::{BuildNotes, Site};
use crate::{site::archive::Archive, sys::memory};
use serde::{Deserialize, Serialize};
use std::{fs::File, io, sync::Arc};
use tarpon_site::{Image, Region};

/// The record that accompanies the descriptors of a site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SiteTransfer {
    /// Whether the first descriptor is the memory of the image. Otherwise the image is part of the archive.
    pub(crate) has_store: bool,
    /// The place of the archive in the next descriptor. The remaining descriptors are the large files, by number.
    archive: Option<TransferPlace>,
    pub(crate) file_count: u64,
    /// Total size of all files, in bytes.
    pub(crate) content_len: u64,
    /// A hash of the content: versions that differ in compressed variants only have the same. The sender computes it, so the receiver never reads
    /// the image.
    pub(crate) content_id: [u64; 2],
}

impl SiteTransfer {
    /// Returns a record for a simulator, which sends no descriptors.
    #[cfg(test)]
    pub(crate) fn simulated(file_count: u64) -> SiteTransfer {
        SiteTransfer { has_store: true, archive: None, file_count, content_len: 0, content_id: [0; 2] }
    }
}

/// The place of an archive in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct TransferPlace {
    at: u64,
    len: u64,
    is_preloaded: bool,
}

impl Site {
    /// Returns the record and the descriptors for another process. The warnings about entries that are not served are lost.
    pub(crate) fn into_transfer(self) -> (SiteTransfer, Arc<[Arc<File>]>) {
        let Site { store, files, archive, file_count, content_len, content_id, .. } = self;
        let place_of = |archive: &Archive| TransferPlace {
            at: archive.at,
            len: archive.map.len(),
            is_preloaded: archive.is_preloaded,
        };
        let record = SiteTransfer {
            content_id: [(content_id >> 64) as u64, content_id as u64],
            has_store: store.is_some(),
            archive: archive.as_ref().map(place_of),
            file_count,
            content_len,
        };
        let descriptors = store.into_iter().chain(archive.map(|archive| archive.file)).chain(files);
        (record, descriptors.collect())
    }

    /// Returns the site that another process has sent.
    ///
    /// # Errors
    /// A descriptor is missing, or the image or archive is invalid: another process may have truncated the archive.
    pub(crate) fn from_transfer(record: &SiteTransfer, descriptors: Vec<Arc<File>>) -> io::Result<Site> {
        let &SiteTransfer { has_store, archive, file_count, content_len, content_id: [high, low] } = record;
        let content_id = u128::from(high) << 64 | u128::from(low);
        let mut descriptors = descriptors.into_iter();
        let mut next = || descriptors.next().ok_or_else(|| invalid("a descriptor is missing"));
        let store = has_store.then(&mut next).transpose()?;
        let archive = match archive {
            Some(TransferPlace { at, len, is_preloaded }) => {
                Some(Archive::from_region(next()?, Region { at, len }, is_preloaded)?)
            }
            None => None,
        };
        let image = match (&store, &archive) {
            (Some(store), _) => Image::new(memory::map_sealed(store)?).map_err(invalid)?,
            (None, Some(archive)) => {
                archive.image().map_err(invalid)?.ok_or_else(|| invalid("the archive has no image"))?
            }
            (None, None) => return Err(invalid("it has no image")),
        };
        let files: Vec<_> = descriptors.collect();
        if image.file_count() > files.len() as u64 {
            return Err(invalid("a file is missing"));
        }
        if image.archive_len() > archive.as_ref().map_or(0, |archive| archive.map.len()) {
            return Err(invalid("a part of the archive is missing"));
        }
        let notes = BuildNotes::default();
        Ok(Site { image, store, files, archive, file_count, content_len, content_id, notes })
    }
}

fn invalid(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}
