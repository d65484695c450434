//! Tracks which pages of a mapped image are in memory, so that a lookup never waits for the disk.
//!
//! ```text
//! lookup ─▶ page resident? ─ yes ─▶ read
//!                            └ no ─▶ Err(NotResident) ─▶ the caller loads the page and repeats the lookup
//! ```
//!
//! Reading a page of a mapped file that the kernel has evicted blocks the thread until the disk answers. A lookup therefore reads
//! only pages that are marked as resident. This module loads no pages; its owner loads them and marks them.

use crate::region::Region;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The set of pages of a file that are in memory. One thread uses it at a time; its fields are atomic because an image is `Sync`.
#[derive(Debug)]
pub struct ResidentPages {
    /// One bit per page.
    pages: Box<[AtomicU64]>,
}

/// A page that a lookup needs may not be in memory: the caller loads it and repeats the lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotResident {
    /// The page, as a region of the file that the image lies in.
    pub page: Region,
}

impl fmt::Display for NotResident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the page at offset {} is not in memory", self.page.at)
    }
}

impl std::error::Error for NotResident {}

/// Bytes of a page, or of a part of one on systems with larger pages.
pub const PAGE_LEN: u64 = 4 * 1024;

impl ResidentPages {
    /// Creates the set for a file of `len` bytes, with no page resident.
    pub fn new(len: u64) -> ResidentPages {
        let words = len.div_ceil(PAGE_LEN).div_ceil(64);
        ResidentPages { pages: (0..words).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Returns the pages that a region of the file touches.
    #[inline]
    pub fn pages_of(region: Region) -> Range<u64> {
        region.at / PAGE_LEN..(region.at + region.len).div_ceil(PAGE_LEN)
    }

    /// Returns whether a page is marked as resident. Pages beyond the end of the file count as resident; reading them fails.
    #[inline]
    pub fn contains(&self, page: u64) -> bool {
        self.pages.get(page as usize / 64).is_none_or(|word| word.load(Relaxed) & (1 << (page % 64)) != 0)
    }

    /// Marks a page as resident.
    pub fn insert(&self, page: u64) {
        if let Some(word) = self.pages.get(page as usize / 64) {
            word.store(word.load(Relaxed) | 1 << (page % 64), Relaxed);
        }
    }

    /// Marks all pages as not resident.
    pub fn clear(&self) {
        self.pages.iter().for_each(|word| word.store(0, Relaxed));
    }
}

/// The residency of an image that is a part of a file.
#[derive(Clone, Debug)]
pub(crate) struct ImageResidency {
    pub(crate) file: Arc<ResidentPages>,
    /// The offset of the image in the file.
    pub(crate) at: u64,
}

impl ImageResidency {
    /// Checks that a region of the image is resident.
    ///
    /// # Errors
    /// Returns the first page of the region that is not.
    #[inline]
    pub(crate) fn check(&self, region: Region) -> Result<(), NotResident> {
        let pages = ResidentPages::pages_of(Region { at: self.at + region.at, len: region.len });
        // Most regions are within one page.
        if pages.end - pages.start == 1 && self.file.contains(pages.start) {
            return Ok(());
        }
        self.check_each(pages)
    }

    /// Returns whether a region is on one page.
    #[inline(always)]
    pub(crate) fn is_one_page(&self, region: Region) -> bool {
        (self.at + region.at) % PAGE_LEN + region.len <= PAGE_LEN
    }

    #[cold]
    fn check_each(&self, mut pages: Range<u64>) -> Result<(), NotResident> {
        match pages.find(|&page| !self.file.contains(page)) {
            Some(page) => Err(NotResident { page: Region { at: page * PAGE_LEN, len: PAGE_LEN } }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_page_that_is_not_resident_is_reported() {
        let file = Arc::new(ResidentPages::new(10 * PAGE_LEN));
        let image = ImageResidency { file: Arc::clone(&file), at: PAGE_LEN };
        let check = |at, len| image.check(Region { at, len });
        let missing = |page| Err(NotResident { page: Region { at: page * PAGE_LEN, len: PAGE_LEN } });
        file.insert(1);
        file.insert(3);
        assert_eq!((check(0, PAGE_LEN), check(10, 20)), (Ok(()), Ok(())));
        assert_eq!(check(PAGE_LEN, 0), Ok(()), "an empty region is always resident");
        assert_eq!(check(PAGE_LEN - 1, 2), missing(2));
        assert_eq!(check(0, 5 * PAGE_LEN), missing(2));
        assert_eq!(check(5 * PAGE_LEN, 1), missing(6));
        file.insert(2);
        assert_eq!(check(0, 3 * PAGE_LEN), Ok(()));
        file.clear();
        assert_eq!(check(0, 1), missing(1));
    }
}
