//! Which pages of an image are in memory, as far as its reader knows; and the first one that he wanted and does not know.
//!
//! ```text
//! lookup ─▶ page known? ─ yes ─▶ read
//!                         └ no ─▶ noted; nothing is found ─▶ the reader sees to the page, and looks again
//! ```
//!
//! An image that is mapped from a disk is read by touching it, and who touches a page that the kernel has dropped waits for the disk. So
//! nothing is touched that is not known to be there. Knows nothing of disks: its owner tells what is there.

use crate::place::Place;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What is known of one file. It belongs to one thread, which both tells and asks; atomics, as an image may be sent to another.
#[derive(Debug)]
pub struct Presence {
    /// A bit for each page.
    pages: Box<[AtomicU64]>,
    /// The page that was wanted, and 1; 0: none was.
    wanted: AtomicU64,
}

/// A page, or a part of one where pages are larger.
pub const PAGE_LEN: u64 = 4 * 1024;

impl Presence {
    /// Of a file of so many bytes, nothing is known.
    pub fn new(len: u64) -> Presence {
        let words = len.div_ceil(PAGE_LEN).div_ceil(64);
        Presence { pages: (0..words).map(|_| AtomicU64::new(0)).collect(), wanted: AtomicU64::new(0) }
    }

    /// The pages that a place of the file touches.
    #[inline]
    pub fn pages(place: Place) -> Range<u64> {
        place.at / PAGE_LEN..(place.at + place.len).div_ceil(PAGE_LEN)
    }

    /// Whether a page is known to be there. What lies beyond the file is: who reads it will be told.
    #[inline]
    pub fn has(&self, page: u64) -> bool {
        self.pages.get(page as usize / 64).is_none_or(|word| word.load(Relaxed) & (1 << (page % 64)) != 0)
    }

    /// A page is there.
    pub fn add(&self, page: u64) {
        if let Some(word) = self.pages.get(page as usize / 64) {
            word.store(word.load(Relaxed) | 1 << (page % 64), Relaxed);
        }
    }

    /// From now on nothing is known.
    pub fn forget(&self) {
        self.pages.iter().for_each(|word| word.store(0, Relaxed));
    }
}

/// What is known of an image: a stretch of a file.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    pub(crate) file: Arc<Presence>,
    /// Where the image begins in the file.
    pub(crate) at: u64,
}

impl Watched {
    /// Whether a place of the image may be read. If not, that is noted.
    #[inline]
    pub(crate) fn has(&self, place: Place) -> bool {
        let mut pages = Presence::pages(Place { at: self.at + place.at, len: place.len });
        // Most places lie within one page.
        if pages.end - pages.start == 1 && self.file.has(pages.start) {
            return true;
        }
        let missing = pages.find(|&page| !self.file.has(page));
        missing.map(|page| self.note(page)).is_none()
    }

    #[cold]
    fn note(&self, page: u64) {
        if self.file.wanted.load(Relaxed) == 0 {
            self.file.wanted.store(page + 1, Relaxed);
        }
    }

    /// The page of the file that was noted first, as a place there. From now on none is.
    #[inline]
    pub(crate) fn wanted(&self) -> Option<Place> {
        let page = self.file.wanted.load(Relaxed).checked_sub(1)?;
        self.file.wanted.store(0, Relaxed);
        Some(Place { at: page * PAGE_LEN, len: PAGE_LEN })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_page_that_is_missing_is_noted_once() {
        let file = Arc::new(Presence::new(10 * PAGE_LEN));
        let image = Watched { file: Arc::clone(&file), at: PAGE_LEN };
        let place = |at, len| Place { at, len };
        file.add(1);
        file.add(3);
        assert!(image.has(place(0, PAGE_LEN)) && image.has(place(10, 20)));
        assert!(image.has(place(PAGE_LEN, 0)), "nothing is always there");
        assert_eq!(image.wanted(), None);
        assert!(!image.has(place(PAGE_LEN - 1, 2)));
        assert!(!image.has(place(5 * PAGE_LEN, 1)));
        assert_eq!(image.wanted(), Some(place(2 * PAGE_LEN, PAGE_LEN)), "the first one, in the file");
        assert_eq!(image.wanted(), None);
        file.add(2);
        assert!(image.has(place(0, 3 * PAGE_LEN)));
        file.forget();
        assert!(!image.has(place(0, 1)));
    }
}
