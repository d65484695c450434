//! What was learned of large files, so that the next pack need not read them again.
//!
//! A file is known by device, inode, size, and both of its times to the nanosecond: whoever writes to it
//! changes the last. Knows nothing of names: a file with two of them is read once.

use crate::media::SniffedType;
use std::collections::HashMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// What earlier packs learned. Keep it from one pack of a site to the next.
#[derive(Debug, Default)]
pub struct BuildCache {
    known: HashMap<FileIdentity, (ContentInfo, Used)>,
}

/// A state of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FileIdentity {
    dev: u64,
    ino: u64,
    len: u64,
    /// Seconds, nanoseconds.
    modified: (i64, i64),
    /// Seconds, nanoseconds.
    changed: (i64, i64),
}

/// What reading a file showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ContentInfo {
    /// In bytes.
    pub(crate) len: u64,
    /// XXH3-128.
    pub(crate) hash: u128,
    pub(crate) look: SniffedType,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Used {
    Now,
    Before,
}

impl BuildCache {
    pub(crate) fn get(&mut self, identity: &FileIdentity) -> Option<ContentInfo> {
        let (known, used) = self.known.get_mut(identity)?;
        *used = Used::Now;
        Some(*known)
    }

    pub(crate) fn insert(&mut self, identity: FileIdentity, known: ContentInfo) {
        self.known.insert(identity, (known, Used::Now));
    }

    /// Forgets what was of no use since the last call: those files are gone, or different.
    pub(crate) fn evict_unused(&mut self) {
        self.known.retain(|_, (_, used)| std::mem::replace(used, Used::Before) == Used::Now);
    }
}

impl FileIdentity {
    pub(crate) fn of(meta: &Metadata) -> FileIdentity {
        FileIdentity {
            dev: meta.dev(),
            ino: meta.ino(),
            len: meta.len(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        }
    }

    /// Seconds since 1970; negative before.
    pub(crate) fn modified_s(&self) -> i64 {
        self.modified.0
    }

    /// Whether a change from now on would show. The clock of a file system ticks more slowly than files can
    /// be written, so of a file that was written just now there could be two states with the same times.
    pub(crate) fn is_settled(&self, now: u64) -> bool {
        i64::try_from(now).is_ok_and(|now| self.changed.0 < now - SETTLED_S)
    }
}

/// Seconds after which a file is settled: the coarsest clock of a file system in use ticks every two (FAT).
const SETTLED_S: i64 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_is_known_and_the_rest_forgotten() {
        let identity = |ino| FileIdentity { dev: 1, ino, len: 9, modified: (5, 0), changed: (5, 0) };
        let known = ContentInfo { len: 9, hash: 7, look: SniffedType::of(b"text") };
        let mut memo = BuildCache::default();
        memo.insert(identity(1), known);
        memo.insert(identity(2), known);
        memo.evict_unused();
        assert_eq!(memo.get(&identity(1)), Some(known));
        memo.evict_unused();
        assert_eq!(memo.get(&identity(1)), Some(known));
        assert_eq!(memo.get(&identity(2)), None);
    }

    #[test]
    fn a_file_written_just_now_is_not_settled() {
        let identity = FileIdentity { dev: 1, ino: 1, len: 9, modified: (0, 0), changed: (1000, 0) };
        for (now, settled) in
            [(0, false), (999, false), (1000, false), (1002, false), (1003, true), (u64::MAX, false)]
        {
            assert_eq!(identity.is_settled(now), settled, "{now}");
        }
    }
}
