//! Tracks which pages of a mapped image are in memory, so that a lookup never waits for the disk.
//!
//! ```text
//! lookup ─▶ page resident? ─ yes ─▶ read
//!                            └ no ─▶ record the page, find nothing ─▶ the caller loads the page and repeats the lookup
//! ```
//!
//! Reading a page of a mapped file that the kernel has evicted blocks the thread until the disk answers. A lookup therefore reads
//! only pages that are marked as resident. This module loads no pages; its owner loads them and marks them.

use crate::region::Region;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The set of pages of a file that are in memory. One thread uses it at a time; its fields are atomic because an image is `Sync`.
#[derive(Debug)]
pub struct ResidentPages {
    /// One bit per page.
    pages: Box<[AtomicU64]>,
    /// The number of the first missed page, plus 1; 0 if no page was missed.
    missed: AtomicU64,
}

/// Bytes of a page, or of a part of one on systems with larger pages.
pub const PAGE_LEN: u64 = 4 * 1024;

impl ResidentPages {
    /// Creates the set for a file of `len` bytes, with no page resident.
    pub fn new(len: u64) -> ResidentPages {
        let words = len.div_ceil(PAGE_LEN).div_ceil(64);
        ResidentPages { pages: (0..words).map(|_| AtomicU64::new(0)).collect(), missed: AtomicU64::new(0) }
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
    /// Returns whether a region of the image is resident. If not, records the first page that is missing.
    #[inline]
    pub(crate) fn is_resident(&self, region: Region) -> bool {
        let mut pages = ResidentPages::pages_of(Region { at: self.at + region.at, len: region.len });
        // Most regions are within one page.
        if pages.end - pages.start == 1 && self.file.contains(pages.start) {
            return true;
        }
        let missing = pages.find(|&page| !self.file.contains(page));
        missing.map(|page| self.record_miss(page)).is_none()
    }

    #[cold]
    fn record_miss(&self, page: u64) {
        if self.file.missed.load(Relaxed) == 0 {
            self.file.missed.store(page + 1, Relaxed);
        }
    }

    /// Returns the first missed page as a region of the file, and forgets it.
    #[inline]
    pub(crate) fn take_missed_page(&self) -> Option<Region> {
        let page = self.file.missed.load(Relaxed).checked_sub(1)?;
        self.file.missed.store(0, Relaxed);
        Some(Region { at: page * PAGE_LEN, len: PAGE_LEN })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_missed_page_is_recorded_once() {
        let file = Arc::new(ResidentPages::new(10 * PAGE_LEN));
        let image = ImageResidency { file: Arc::clone(&file), at: PAGE_LEN };
        let region = |at, len| Region { at, len };
        file.insert(1);
        file.insert(3);
        assert!(image.is_resident(region(0, PAGE_LEN)) && image.is_resident(region(10, 20)));
        assert!(image.is_resident(region(PAGE_LEN, 0)), "an empty region is always resident");
        assert_eq!(image.take_missed_page(), None);
        assert!(!image.is_resident(region(PAGE_LEN - 1, 2)));
        assert!(!image.is_resident(region(5 * PAGE_LEN, 1)));
        assert_eq!(
            image.take_missed_page(),
            Some(region(2 * PAGE_LEN, PAGE_LEN)),
            "the first missed page of the file"
        );
        assert_eq!(image.take_missed_page(), None);
        file.insert(2);
        assert!(image.is_resident(region(0, 3 * PAGE_LEN)));
        file.clear();
        assert!(!image.is_resident(region(0, 1)));
    }
}
