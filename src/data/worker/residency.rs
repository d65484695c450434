//! What of a file is in memory, as far as one worker knows: a worker never waits for a disk.
//!
//! ```text
//! about to send ─▶ known? ─ no ─▶ ask the kernel, page by page ─ missing ─▶ the loader reads it, the client waits
//!                    └ yes ─▶ send ◀─ there, known from now on ┘ ◀────────────── ask again ┘
//! ```
//!
//! What is known is believed for some seconds, as the kernel may drop pages that nobody has used. Knows nothing of
//! connections.

use crate::sys::cached::{has_byte, has_pages};
use std::{fs::File, ops::Range, sync::Arc};
use tarpon_conn::Tick;
use tarpon_site::{PAGE_LEN, Region, ResidentPages};

/// What is known of one file.
#[derive(Debug)]
pub(crate) struct Residency {
    /// The pages that were found in memory.
    known: Arc<ResidentPages>,
    /// Those that were missing again when they had just been read.
    fleeting: ResidentPages,
    /// Of the file, in bytes.
    len: u64,
    /// When the oldest of that was found out.
    since: Tick,
}

/// What is missing is read in such pieces of the file: small enough to come at once from any disk, and neighbours are often wanted next.
const BLOCK_LEN: u64 = 64 * 1024;

/// What is known is forgotten so often, in milliseconds: to ask again costs a few microseconds for 64 KiB.
const TRUST_MS: u64 = 10_000;

impl Residency {
    /// Of a file of so many bytes, nothing is known.
    pub(crate) fn new(len: u64) -> Residency {
        let (known, fleeting) = (Arc::new(ResidentPages::new(len)), ResidentPages::new(len));
        Residency { known, fleeting, len, since: Tick(0) }
    }

    /// The pages that are known to be there, as of any time.
    pub(crate) fn known(&self) -> Arc<ResidentPages> {
        Arc::clone(&self.known)
    }

    /// What has to be read before a stretch of the file can be sent without waiting for a disk: whole blocks. `None`: it is
    /// all there. Asks the kernel where that is not known. Of pages beside it nothing is asked: who is hot may lie next to who is cold.
    #[inline]
    pub(crate) fn missing(&mut self, file: &File, place: Region, now: Tick) -> Option<Region> {
        if now > self.since.after(TRUST_MS) {
            self.known.clear();
            self.fleeting.clear();
            self.since = now;
        }
        let mut pages = ResidentPages::pages_of(place);
        let first = pages.clone().find(|&page| !self.known.contains(page))?;
        pages.start = first;
        self.ask(file, pages).map(|pages| {
            let at = pages.start * PAGE_LEN / BLOCK_LEN * BLOCK_LEN;
            Region { at, len: (pages.end * PAGE_LEN).next_multiple_of(BLOCK_LEN) - at }
        })
    }

    /// A stretch was read just now. From a slow disk that took a while, in which the kernel may have dropped where it begins: what
    /// is gone again will be missing once more. Only once: who waits shall not wait for ever.
    pub(crate) fn learn(&mut self, file: &File, place: Region) {
        for page in ResidentPages::pages_of(place) {
            if !self.known.contains(page) && self.ask(file, page..page + 1).is_some() {
                match self.fleeting.contains(page) {
                    true => self.known.insert(page),
                    false => self.fleeting.insert(page),
                }
            }
        }
    }

    /// Those of these pages from the first one on that is not there. `None`: all are.
    #[cold]
    fn ask(&self, file: &File, mut pages: Range<u64>) -> Option<Range<u64>> {
        // Where nothing is, nothing is begun: to ask by reading would begin to read, here, and may wait for where on the
        // disk the page lies. But what is there may still be on its way.
        let has = |pages: &Range<u64>| {
            let at = pages.start * PAGE_LEN;
            let end = (pages.end * PAGE_LEN).min(self.len);
            has_pages(file, at, end.saturating_sub(at)).unwrap_or(true)
        };
        let has_all = has(&pages);
        let missing = pages.find(|&page| {
            let there = self.known.contains(page)
                || (has_all || has(&(page..page + 1))) && has_byte(file, page * PAGE_LEN);
            if there {
                self.known.insert(page);
            }
            !there
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
        let mut known = Residency::new(3 * BLOCK_LEN);
        drop_all();
        assert!(known.missing(&file, middle, Tick(1)).is_some());
        assert!(known.missing(&file, beyond, Tick(1)).is_none(), "the send will tell");

        file.read_exact_at(&mut vec![0; BLOCK_LEN as usize], BLOCK_LEN).unwrap();
        assert!(known.missing(&file, middle, Tick(1)).is_none());
        drop_all();
        assert!(known.missing(&file, middle, Tick(1)).is_none(), "believed");
        assert!(known.missing(&file, across, Tick(1)).is_some(), "the second block was never there");
        assert!(known.missing(&file, middle, Tick(TRUST_MS + 1)).is_some(), "not for ever");

        known.learn(&file, across);
        assert!(
            known.missing(&file, across, Tick(TRUST_MS + 1)).is_some(),
            "it was dropped while it was read"
        );
        known.learn(&file, across);
        assert!(
            known.missing(&file, across, Tick(TRUST_MS + 1)).is_none(),
            "that it comes and goes is borne"
        );
        assert!(known.missing(&file, Region { at: 0, len: 1 }, Tick(TRUST_MS + 1)).is_some());
    }
}
