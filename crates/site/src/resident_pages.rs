//! Which pages of an image are in memory, as far as its reader knows; and the first one that he wanted and does not know.
//!
//! ```text
//! lookup ─▶ page known? ─ yes ─▶ read
//!                         └ no ─▶ noted; nothing is found ─▶ the reader sees to the page, and looks again
//! ```
//!
//! An image that is mapped from a disk is read by touching it, and who touches a page that the kernel has dropped waits for the disk. So
//! nothing is touched that is not known to be there. Knows nothing of disks: its owner tells what is there.

use crate::region::Region;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What is known of one file. It belongs to one thread, which both tells and asks; atomics, as an image may be sent to another.
#[derive(Debug)]
pub struct ResidentPages {
    /// A bit for each page.
    pages: Box<[AtomicU64]>,
    /// The page that was wanted, and 1; 0: none was.
    missed: AtomicU64,
}

/// A page, or a part of one where pages are larger.
pub const PAGE_LEN: u64 = 4 * 1024;

impl ResidentPages {
    /// Of a file of so many bytes, nothing is known.
    pub fn new(len: u64) -> ResidentPages {
        let words = len.div_ceil(PAGE_LEN).div_ceil(64);
        ResidentPages { pages: (0..words).map(|_| AtomicU64::new(0)).collect(), missed: AtomicU64::new(0) }
    }

    /// The pages that a place of the file touches.
    #[inline]
    pub fn pages_of(place: Region) -> Range<u64> {
        place.at / PAGE_LEN..(place.at + place.len).div_ceil(PAGE_LEN)
    }

    /// Whether a page is known to be there. What lies beyond the file is: who reads it will be told.
    #[inline]
    pub fn contains(&self, page: u64) -> bool {
        self.pages.get(page as usize / 64).is_none_or(|word| word.load(Relaxed) & (1 << (page % 64)) != 0)
    }

    /// A page is there.
    pub fn insert(&self, page: u64) {
        if let Some(word) = self.pages.get(page as usize / 64) {
            word.store(word.load(Relaxed) | 1 << (page % 64), Relaxed);
        }
    }

    /// From now on nothing is known.
    pub fn clear(&self) {
        self.pages.iter().for_each(|word| word.store(0, Relaxed));
    }
}

/// What is known of an image: a stretch of a file.
#[derive(Clone, Debug)]
pub(crate) struct ImageResidency {
    pub(crate) file: Arc<ResidentPages>,
    /// Where the image begins in the file.
    pub(crate) at: u64,
}

impl ImageResidency {
    /// Whether a place of the image may be read. If not, that is noted.
    #[inline]
    pub(crate) fn is_resident(&self, place: Region) -> bool {
        let mut pages = ResidentPages::pages_of(Region { at: self.at + place.at, len: place.len });
        // Most places lie within one page.
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

    /// The page of the file that was noted first, as a place there. From now on none is.
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
    fn the_first_page_that_is_missing_is_noted_once() {
        let file = Arc::new(ResidentPages::new(10 * PAGE_LEN));
        let image = ImageResidency { file: Arc::clone(&file), at: PAGE_LEN };
        let place = |at, len| Region { at, len };
        file.insert(1);
        file.insert(3);
        assert!(image.is_resident(place(0, PAGE_LEN)) && image.is_resident(place(10, 20)));
        assert!(image.is_resident(place(PAGE_LEN, 0)), "nothing is always there");
        assert_eq!(image.take_missed_page(), None);
        assert!(!image.is_resident(place(PAGE_LEN - 1, 2)));
        assert!(!image.is_resident(place(5 * PAGE_LEN, 1)));
        assert_eq!(
            image.take_missed_page(),
            Some(place(2 * PAGE_LEN, PAGE_LEN)),
            "the first one, in the file"
        );
        assert_eq!(image.take_missed_page(), None);
        file.insert(2);
        assert!(image.is_resident(place(0, 3 * PAGE_LEN)));
        file.clear();
        assert!(!image.is_resident(place(0, 1)));
    }
}
