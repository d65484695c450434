//! Records in memory that all processes of a service share.
//!
//! Each record is guarded by a number that is odd while the record is written: a reader that meets an odd or a changed number reads again.
//! No reader waits for a lock, and a process that is killed leaves none.

use crate::sys::shared::SharedArray;
use std::{
    hint, io,
    sync::atomic::{AtomicU64, Ordering, fence},
    thread,
    time::Duration,
};

/// Records of bytes. One process writes, any may read.
#[derive(Debug)]
pub(crate) struct RecordTable {
    /// For each record: its number of changes, its length, its bytes.
    words: SharedArray<AtomicU64>,
    count: usize,
    len_max: usize,
}

/// How often a reader tries again before it gives up: the writer was killed within a record, or other threads have displaced it.
const TRY_COUNT_MAX: usize = 1000;

/// How often a reader that may wait does so after a pause. Together the pauses are longer than the kernel keeps a displaced writer waiting.
const PAUSE_COUNT_MAX: usize = 200;
const PAUSE: Duration = Duration::from_micros(100);

impl RecordTable {
    /// Maps this many empty records of at most this many bytes. Their pages cost nothing until they are used.
    pub(crate) fn new(count: usize, len_max: usize) -> io::Result<RecordTable> {
        let words = SharedArray::zeros(count * RecordTable::words_of(len_max))?;
        Ok(RecordTable { words, count, len_max })
    }

    fn words_of(len_max: usize) -> usize {
        2 + len_max.div_ceil(8)
    }

    fn record(&self, number: usize) -> Option<&[AtomicU64]> {
        let len = RecordTable::words_of(self.len_max);
        (number < self.count).then(|| &self.words[number * len..][..len])
    }

    /// Returns whether there is no record of this number.
    pub(crate) fn is_empty(&self, number: usize) -> bool {
        self.record(number).is_none_or(|record| record[1].load(Ordering::Relaxed) == 0)
    }

    /// Replaces a record. Returns whether it fits.
    pub(crate) fn write(&self, number: usize, bytes: &[u8]) -> bool {
        let Some([changes, len, words @ ..]) = self.record(number).filter(|_| bytes.len() <= self.len_max)
        else {
            return false;
        };
        // Odd, whatever it was before.
        let before = changes.load(Ordering::Relaxed) | 1;
        changes.store(before, Ordering::Relaxed);
        fence(Ordering::Release);
        len.store(bytes.len() as u64, Ordering::Relaxed);
        for (word, bytes) in words.iter().zip(bytes.chunks(8)) {
            let mut padded = [0; 8];
            padded[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_ne_bytes(padded), Ordering::Relaxed);
        }
        changes.store(before.wrapping_add(1), Ordering::Release);
        true
    }

    /// Reads a record into `to`, and waits for a writer that other threads have displaced. `None`: there is none of this number, or its writer was killed.
    /// Workers must not wait: they [read](RecordTable::read).
    pub(crate) fn read_patiently(&self, number: usize, to: &mut Vec<u8>) -> Option<()> {
        self.record(number)?;
        for _ in 0..PAUSE_COUNT_MAX {
            if self.read(number, to).is_some() {
                return Some(());
            }
            thread::sleep(PAUSE);
        }
        None
    }

    /// Reads a record into `to`. `None`: there is none of this number, or it is being written just now.
    pub(crate) fn read(&self, number: usize, to: &mut Vec<u8>) -> Option<()> {
        let [changes, len, words @ ..] = self.record(number)? else { return None };
        for _ in 0..TRY_COUNT_MAX {
            let before = changes.load(Ordering::Acquire);
            let len = usize::try_from(len.load(Ordering::Relaxed)).unwrap_or(usize::MAX).min(self.len_max);
            to.clear();
            for word in &words[..len.div_ceil(8)] {
                to.extend(word.load(Ordering::Relaxed).to_ne_bytes());
            }
            to.truncate(len);
            fence(Ordering::Acquire);
            if before % 2 == 0 && changes.load(Ordering::Relaxed) == before {
                return Some(());
            }
            hint::spin_loop();
        }
        None
    }
}
