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
use std::{fs::File, ops::Range};
use tarpon_conn::Tick;
use tarpon_site::Place;

/// What is known of one file.
#[derive(Debug)]
pub(crate) struct Residency {
    /// A bit for each block that was found in memory as a whole.
    known: Vec<u64>,
    /// A bit for each block that was missing again when it had just been read.
    fleeting: Vec<u64>,
    /// Of the file, in bytes.
    len: u64,
    /// When the oldest of that was found out.
    since: Tick,
}

/// The unit of what is known: large enough for a small table, small enough to be read at once from any disk.
const BLOCK_LEN: u64 = 64 * 1024;

/// A page, or a part of one where pages are larger.
const PAGE_LEN: u64 = 4 * 1024;

/// What is known is forgotten so often, in milliseconds: to ask again costs a few microseconds for a block.
const TRUST_MS: u64 = 10_000;

impl Residency {
    /// Of a file of so many bytes, nothing is known.
    pub(crate) fn new(len: u64) -> Residency {
        let words = len.div_ceil(BLOCK_LEN).div_ceil(64) as usize;
        Residency { known: vec![0; words], fleeting: vec![0; words], len, since: Tick(0) }
    }

    /// What has to be read before a stretch of the file can be sent without waiting for a disk: whole blocks. `None`: it is
    /// all there. Asks the kernel where that is not known.
    #[inline]
    pub(crate) fn missing(&mut self, file: &File, place: Place, now: Tick) -> Option<Place> {
        if now > self.since.after(TRUST_MS) {
            self.known.fill(0);
            self.fleeting.fill(0);
            self.since = now;
        }
        let mut blocks = blocks(place);
        let first = blocks.find(|&block| !self.knows(block) && !self.ask(file, block))?;
        Some(Place { at: first * BLOCK_LEN, len: (blocks.end - first) * BLOCK_LEN })
    }

    /// A stretch was read just now. From a slow disk that took a while, in which the kernel may have dropped where it begins: what
    /// is gone again will be missing once more. Only once: who waits shall not wait for ever.
    pub(crate) fn learn(&mut self, file: &File, place: Place) {
        for block in blocks(place) {
            if !self.knows(block) && !self.ask(file, block) {
                match has(&self.fleeting, block) {
                    true => set(&mut self.known, block),
                    false => set(&mut self.fleeting, block),
                }
            }
        }
    }

    /// What lies beyond the file is known: a send will tell that there is nothing.
    #[inline]
    fn knows(&self, block: u64) -> bool {
        let is_beyond = block * BLOCK_LEN >= self.len;
        is_beyond || has(&self.known, block)
    }

    #[cold]
    fn ask(&mut self, file: &File, block: u64) -> bool {
        let at = block * BLOCK_LEN;
        let len = BLOCK_LEN.min(self.len - at);
        // Where nothing is, nothing is begun: to ask by reading would begin to read, here, and may wait for where on the
        // disk the page lies. But what is there may still be on its way.
        let there = has_pages(file, at, len).unwrap_or(true)
            && (at..at + len).step_by(PAGE_LEN as usize).all(|at| has_byte(file, at));
        if there {
            set(&mut self.known, block);
        }
        there
    }
}

#[inline]
fn has(bits: &[u64], block: u64) -> bool {
    bits[block as usize / 64] & (1 << (block % 64)) != 0
}

fn set(bits: &mut [u64], block: u64) {
    bits[block as usize / 64] |= 1 << (block % 64);
}

#[inline]
fn blocks(place: Place) -> Range<u64> {
    let end = place.at + place.len;
    place.at / BLOCK_LEN..end.div_ceil(BLOCK_LEN)
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
        let middle = Place { at: BLOCK_LEN + 10, len: 20 };
        let across = Place { at: BLOCK_LEN + 10, len: BLOCK_LEN };
        let beyond = Place { at: 3 * BLOCK_LEN, len: 10 * BLOCK_LEN };
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
        assert!(known.missing(&file, Place { at: 0, len: 1 }, Tick(TRUST_MS + 1)).is_some());
    }
}
