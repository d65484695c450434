//! A site on its way to another process: a few numbers, and the descriptors of all it is made of.
//!
//! ```text
//! Site ─▶ Record + [image's memory] [archive] [large files] … ─▶ checked ─▶ Site
//! ```
//!
//! Who receives it does not believe who sends it: memory must be sealed, and the image is checked as that of a stranger.

use super::Site;
use crate::{site::archive::Archive, sys::memory};
use rustix::{
    fs::{Stat, fstat},
    io::pread,
};
use serde::{Deserialize, Serialize};
use std::{fs::File, io, os::fd::OwnedFd};
use tarpon_site::{Image, Region};

/// What travels of a site beside its descriptors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SiteTransfer {
    /// The first descriptor is that of memory with the image in it. Otherwise it lies in the archive.
    has_store: bool,
    /// Where the archive lies in the next descriptor. What is left are files, in the order of their numbers.
    archive: Option<TransferPlace>,
    pub(crate) file_count: u64,
    /// Bytes of all files.
    pub(crate) content_len: u64,
}

impl SiteTransfer {
    /// Whether two sites are the same: by the bytes of their images, or as the same archive. Nothing of them is believed.
    pub(crate) fn is_same(&self, descriptors: &[OwnedFd], other: &SiteTransfer, others: &[OwnedFd]) -> bool {
        let (Some(first), Some(second)) = (descriptors.first(), others.first()) else { return false };
        self == other
            && match self.has_store {
                true => has_same_bytes(first, second).unwrap_or(false),
                false => is_same_file(first, second).unwrap_or(false),
            }
    }
}

/// Bytes that are compared in one go.
const PIECE_LEN: usize = 64 * 1024;

fn has_same_bytes(first: &OwnedFd, second: &OwnedFd) -> io::Result<bool> {
    let len = fstat(first)?.st_size;
    if len != fstat(second)?.st_size {
        return Ok(false);
    }
    let mut pieces = [vec![0; PIECE_LEN], vec![0; PIECE_LEN]];
    let mut at = 0;
    while at < len as u64 {
        let [one, other] = &mut pieces;
        let (read, also) = (pread(first, &mut one[..], at)?, pread(second, &mut other[..], at)?);
        if read == 0 || read != also || one[..read] != other[..read] {
            return Ok(false);
        }
        at += read as u64;
    }
    Ok(true)
}

fn is_same_file(first: &OwnedFd, second: &OwnedFd) -> io::Result<bool> {
    let id = |stat: Stat| (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime, stat.st_mtime_nsec);
    Ok(id(fstat(first)?) == id(fstat(second)?))
}

/// Where an archive lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct TransferPlace {
    at: u64,
    len: u64,
    is_preloaded: bool,
}

impl Site {
    /// What is needed to make the same site in another process. Of what is not served the other one does not learn.
    pub(crate) fn into_transfer(self) -> (SiteTransfer, Vec<OwnedFd>) {
        let Site { store, files, archive, file_count, len, .. } = self;
        let lies = |archive: &Archive| TransferPlace {
            at: archive.at,
            len: archive.map.len(),
            is_preloaded: archive.is_preloaded,
        };
        let record = SiteTransfer {
            has_store: store.is_some(),
            archive: archive.as_ref().map(lies),
            file_count,
            content_len: len,
        };
        let descriptors = store.into_iter().chain(archive.map(|archive| archive.file)).chain(files);
        (record, descriptors.map(OwnedFd::from).collect())
    }

    /// The site that another process has sent.
    ///
    /// # Errors
    /// It is not whole, or not in order: an archive may have been truncated meanwhile.
    pub(crate) fn from_transfer(record: &SiteTransfer, descriptors: Vec<OwnedFd>) -> io::Result<Site> {
        let &SiteTransfer { has_store, archive, file_count, content_len, .. } = record;
        let mut descriptors = descriptors.into_iter().map(File::from);
        let mut next = || descriptors.next().ok_or_else(|| unfit("a descriptor is missing"));
        let store = has_store.then(&mut next).transpose()?;
        let archive = match archive {
            Some(TransferPlace { at, len, is_preloaded }) => {
                Some(Archive::from_region(next()?, Region { at, len }, is_preloaded)?)
            }
            None => None,
        };
        let image = match (&store, &archive) {
            (Some(store), _) => Image::new(memory::map_sealed(store)?).map_err(unfit)?,
            (None, Some(archive)) => {
                archive.image().map_err(unfit)?.ok_or_else(|| unfit("the archive has no image"))?
            }
            (None, None) => return Err(unfit("it has no image")),
        };
        let files: Vec<_> = descriptors.collect();
        if image.file_count() > files.len() as u64 {
            return Err(unfit("a file is missing"));
        }
        if image.archive_len() > archive.as_ref().map_or(0, |archive| archive.map.len()) {
            return Err(unfit("a part of the archive is missing"));
        }
        let (skipped, left_out) = (Vec::new(), Vec::new());
        Ok(Site { image, store, files, archive, file_count, len: content_len, skipped, left_out })
    }
}

fn unfit(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}
