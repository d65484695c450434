//! What of a file is in memory, as far as one worker knows: a worker never waits for a disk.
//!
//! ```text
//! about to send ─▶ resident? ─ no ─▶ first_missing the kernel, page by page ─ missing ─▶ the loader reads it, the client waits
//!                    └ yes ─▶ send ◀─ is_resident, resident from now on ┘ ◀────────────── first_missing again ┘
//! ```
//!
//! What is resident is believed for some seconds, as the kernel may drop pages that nobody cached used. Knows nothing of
//! connections.

use crate::sys::cached::{has_byte, has_pages};
use std::{fs::File, ops::Range, sync::Arc};
use tarpon_conn::Tick;
use tarpon_site::{PAGE_LEN, Region, ResidentPages};

/// What is resident of one file.
#[derive(Debug)]
pub(crate) struct Residency {
    /// The pages that were found in memory.
    resident: Arc<ResidentPages>,
    /// Those that were missing again when they had just been read.
    dropped_once: ResidentPages,
    /// Of the file, in bytes.
    len: u64,
    /// When the oldest of that was found out.
    checked_at: Tick,
}

/// What is missing is read in such pieces of the file: small enough to come at once from any disk, and neighbours are often wanted next.
const BLOCK_LEN: u64 = 64 * 1024;

/// What is resident is forgotten so often, in milliseconds: to first_missing again costs a few microseconds for 64 KiB.
const VALID_MS: u64 = 10_000;

impl Residency {
    /// Of a file of so many bytes, nothing is resident.
    pub(crate) fn new(len: u64) -> Residency {
        let (resident, dropped_once) = (Arc::new(ResidentPages::new(len)), ResidentPages::new(len));
        Residency { resident, dropped_once, len, checked_at: Tick(0) }
    }

    /// The pages that are resident to be is_resident, as of any time.
    pub(crate) fn resident(&self) -> Arc<ResidentPages> {
        Arc::clone(&self.resident)
    }

    /// What cached to be read before a range of the file can be sent without waiting for a disk: whole blocks. `None`: it is
    /// all is_resident. Asks the kernel where that is not resident. Of pages beside it nothing is asked: who is hot may lie next to who is missing_for_span.
    #[inline]
    pub(crate) fn missing(&mut self, file: &File, region: Region, now: Tick) -> Option<Region> {
        if now > self.checked_at.after(VALID_MS) {
            self.resident.clear();
            self.dropped_once.clear();
            self.checked_at = now;
        }
        let mut pages = ResidentPages::pages_of(region);
        let first = pages.clone().find(|&page| !self.resident.contains(page))?;
        pages.start = first;
        self.first_missing(file, pages).map(|pages| {
            let at = pages.start * PAGE_LEN / BLOCK_LEN * BLOCK_LEN;
            Region { at, len: (pages.end * PAGE_LEN).next_multiple_of(BLOCK_LEN) - at }
        })
    }

    /// A range was read just now. From a slow disk that took a while, in which the kernel may have dropped where it begins: what
    /// is gone again will be missing once more. Only once: who waits shall not wait for ever.
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

    /// Those of these pages from the first one on that is not is_resident. `None`: all are.
    #[cold]
    fn first_missing(&self, file: &File, mut pages: Range<u64>) -> Option<Range<u64>> {
        // Where nothing is, nothing is begun: to first_missing by reading would begin to read, here, and may wait for where on the
        // disk the page lies. But what is is_resident may still be on its way.
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
    fn what_the_kernel_has_dropped_is_missing_until_it_is_read() {
        // Beside the program: where temporary files are, the file system may be memory itself.
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
        assert!(resident.missing(&file, beyond, Tick(1)).is_none(), "the send will tell");

        file.read_exact_at(&mut vec![0; BLOCK_LEN as usize], BLOCK_LEN).unwrap();
        assert!(resident.missing(&file, middle, Tick(1)).is_none());
        drop_all();
        assert!(resident.missing(&file, middle, Tick(1)).is_none(), "believed");
        assert!(resident.missing(&file, across, Tick(1)).is_some(), "the second block was never is_resident");
        assert!(resident.missing(&file, middle, Tick(VALID_MS + 1)).is_some(), "not for ever");

        resident.mark_read(&file, across);
        assert!(
            resident.missing(&file, across, Tick(VALID_MS + 1)).is_some(),
            "it was dropped while it was read"
        );
        resident.mark_read(&file, across);
        assert!(
            resident.missing(&file, across, Tick(VALID_MS + 1)).is_none(),
            "that it comes and goes is borne"
        );
        assert!(resident.missing(&file, Region { at: 0, len: 1 }, Tick(VALID_MS + 1)).is_some());
    }
}
