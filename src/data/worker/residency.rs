//! Residency: which pages of a file one worker knows to be in memory. A worker never waits for a disk.
//!
//! ```text
//! about to send ─▶ resident? ─ no ─▶ first_missing the kernel, page by page ─ missing ─▶ the loader reads it, the client waits
//!                    └ yes ─▶ send ◀─ is_resident, resident from now on ┘ ◀────────────── first_missing again ┘
//! ```
//!
//! The answers are kept for some seconds, as the kernel may evict pages. Knows nothing of connections.

use crate::sys::cached::{has_byte, has_pages};
use std::{fs::File, ops::Range, sync::Arc};
use tarpon_conn::Tick;
use tarpon_site::{PAGE_LEN, Region, ResidentPages};

/// Known residency of one file.
#[derive(Debug)]
pub(crate) struct Residency {
    /// Pages found in memory.
    resident: Arc<ResidentPages>,
    /// Pages found missing again right after the loader had read them.
    dropped_once: ResidentPages,
    /// File length in bytes.
    len: u64,
    /// The answers are valid until this time.
    valid_until: Tick,
}

/// Missing pages are read in blocks of this size: small enough for any disk to return at once, and neighbours are often wanted next.
const BLOCK_LEN: u64 = 64 * 1024;

/// Answers are dropped after this many milliseconds: to ask again costs a few microseconds for 64 KiB.
const VALID_MS: u64 = 10_000;

impl Residency {
    /// Creates the state of a file of `len` bytes: no page is known to be in memory.
    pub(crate) fn new(len: u64) -> Residency {
        let (resident, dropped_once) = (Arc::new(ResidentPages::new(len)), ResidentPages::new(len));
        Residency { resident, dropped_once, len, valid_until: Tick(VALID_MS) }
    }

    /// Returns the pages known to be in memory; the set is shared and stays current.
    pub(crate) fn resident(&self) -> Arc<ResidentPages> {
        Arc::clone(&self.resident)
    }

    /// Returns whether all pages of a region are known to be in memory.
    #[inline]
    pub(crate) fn is_known(&self, region: Region, now: Tick) -> bool {
        now <= self.valid_until && ResidentPages::pages_of(region).all(|page| self.resident.contains(page))
    }

    /// Returns the blocks that must be read before a region can be sent without waiting for a disk. `None`: all pages are in memory.
    /// Asks the kernel for unknown pages, and only for pages of the region: a hot region may lie next to a cold one.
    #[cold]
    pub(crate) fn missing(&mut self, file: &File, region: Region, now: Tick) -> Option<Region> {
        if now > self.valid_until {
            self.resident.clear();
            self.dropped_once.clear();
            self.valid_until = now.after(VALID_MS);
        }
        let mut pages = ResidentPages::pages_of(region);
        let first = pages.clone().find(|&page| !self.resident.contains(page))?;
        pages.start = first;
        self.first_missing(file, pages).map(|pages| {
            let at = pages.start * PAGE_LEN / BLOCK_LEN * BLOCK_LEN;
            Region { at, len: (pages.end * PAGE_LEN).next_multiple_of(BLOCK_LEN) - at }
        })
    }

    /// Records that the loader has read a region. During a slow read the kernel may already have evicted the first pages: these count
    /// as missing once more. The second time they count as resident, so that no client waits for ever.
    pub(crate) fn mark_read(&mut self, file: &File, region: Region) {
        for page in ResidentPages::pages_of(region) {
            if !self.resident.contains(page) && self.first_missing(file, page..page + 1).is_some() {
                match self.dropped_once.contains(page) {
                    true => self.resident.insert(page),
                    false => self.dropped_once.insert(page),
                }
            }
        }
    }

    /// Returns these pages from the first missing one on. `None`: all are in memory.
    fn first_missing(&self, file: &File, mut pages: Range<u64>) -> Option<Range<u64>> {
        // First a call that reads nothing: a probing read of a missing page would start disk I/O and could wait for file system
        // metadata. The probing read follows for pages that the kernel may still be reading.
        let cached = |pages: &Range<u64>| {
            let at = pages.start * PAGE_LEN;
            let end = (pages.end * PAGE_LEN).min(self.len);
            has_pages(file, at, end.saturating_sub(at)).unwrap_or(true)
        };
        let all_cached = cached(&pages);
        let missing = pages.find(|&page| {
            let is_resident = self.resident.contains(page)
                || (all_cached || cached(&(page..page + 1))) && has_byte(file, page * PAGE_LEN);
            if is_resident {
                self.resident.insert(page);
            }
            !is_resident
        });
        missing.map(|page| page..pages.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{Advice, fadvise};
    use std::{env, io::Write, os::unix::fs::FileExt};

    #[test]
    fn evicted_pages_are_missing_until_read() {
        // The directory of the program: temporary directories may be on tmpfs.
        let program = env::current_exe().unwrap();
        let mut file = tempfile::tempfile_in(program.parent().unwrap()).unwrap();
        file.write_all(&vec![b'x'; 3 * BLOCK_LEN as usize]).unwrap();
        file.sync_all().unwrap();
        let drop_all = || fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        let middle = Region { at: BLOCK_LEN + 10, len: 20 };
        let across = Region { at: BLOCK_LEN + 10, len: BLOCK_LEN };
        let beyond = Region { at: 3 * BLOCK_LEN, len: 10 * BLOCK_LEN };
        let mut resident = Residency::new(3 * BLOCK_LEN);
        drop_all();
        assert!(resident.missing(&file, middle, Tick(1)).is_some());
        assert!(resident.missing(&file, beyond, Tick(1)).is_none(), "beyond the end: the send fails");

        file.read_exact_at(&mut vec![0; BLOCK_LEN as usize], BLOCK_LEN).unwrap();
        assert!(resident.missing(&file, middle, Tick(1)).is_none());
        drop_all();
        assert!(resident.missing(&file, middle, Tick(1)).is_none(), "the answer is kept");
        assert!(resident.missing(&file, across, Tick(1)).is_some(), "the second block was never is_resident");
        assert!(resident.missing(&file, middle, Tick(VALID_MS + 1)).is_some(), "the answer expires");

        resident.mark_read(&file, across);
        assert!(resident.missing(&file, across, Tick(VALID_MS + 1)).is_some(), "evicted while it was read");
        resident.mark_read(&file, across);
        assert!(
            resident.missing(&file, across, Tick(VALID_MS + 1)).is_none(),
            "evicted twice: treated as resident"
        );
        assert!(resident.missing(&file, Region { at: 0, len: 1 }, Tick(VALID_MS + 1)).is_some());
    }
}
