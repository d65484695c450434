//! What is kept from one pack of a site to the next: the hashes and media types of large files, as an unchanged file need not be read again, and
//! compressed variants.
//!
//! A file is identified by device, inode, size, and both of its times in nanoseconds; each write changes the last of them. Names do
//! not matter: a file with two names is read once.

use crate::content::content_hash;
use crate::media::SniffedType;
use crate::variant_cache::VariantCache;
use std::collections::HashMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// What is kept from one pack of a site to the next.
#[derive(Debug, Default)]
pub struct BuildCache {
    pub(crate) contents: ContentCache,
    /// The compressed variants.
    pub variants: VariantCache,
}

/// The results of reading large files.
#[derive(Debug, Default)]
pub(crate) struct ContentCache {
    files: HashMap<FileIdentity, CachedInfo>,
}

/// A file in one state.
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

/// The result of reading a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ContentInfo {
    /// In bytes.
    pub(crate) len: u64,
    /// XXH3-128.
    pub(crate) hash: u128,
    pub(crate) sniffed: SniffedType,
}

#[derive(Debug)]
struct CachedInfo {
    info: ContentInfo,
    /// Whether the current pack used it.
    is_used: bool,
}

impl ContentCache {
    pub(crate) fn get(&mut self, identity: &FileIdentity) -> Option<ContentInfo> {
        let cached = self.files.get_mut(identity)?;
        cached.is_used = true;
        Some(cached.info)
    }

    pub(crate) fn insert(&mut self, identity: FileIdentity, info: ContentInfo) {
        self.files.insert(identity, CachedInfo { info, is_used: true });
    }

    /// Evicts what was not used since the last call: those files no longer exist, or have changed.
    pub(crate) fn evict_unused(&mut self) {
        self.files.retain(|_, cached| std::mem::take(&mut cached.is_used));
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

    /// Returns a hash that no other version of any file of this machine has. A version that another may still replace without another identity, as the
    /// file was written just now, has a hash of its own for this second.
    pub(crate) fn hash(&self, now: u64) -> u128 {
        self.hash_with(if self.is_settled(now) { 0 } else { now })
    }

    /// Returns the hash of a version that was settled when it was read.
    pub(crate) fn settled_hash(&self) -> u128 {
        self.hash_with(0)
    }

    fn hash_with(&self, unsettled: u64) -> u128 {
        let FileIdentity { dev, ino, len, modified, changed } = self;
        content_hash(format!("{dev} {ino} {len} {modified:?} {changed:?} {unsettled}").as_bytes())
    }

    /// Seconds since 1970; negative before.
    pub(crate) fn modified_s(&self) -> i64 {
        self.modified.0
    }

    /// Returns whether any later write would change the identity. The clock of a file system ticks more slowly than a program can
    /// write, so a file that was written just now may have two states with the same times.
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
    fn used_entries_stay_and_unused_ones_are_evicted() {
        let identity = |ino| FileIdentity { dev: 1, ino, len: 9, modified: (5, 0), changed: (5, 0) };
        let info = ContentInfo { len: 9, hash: 7, sniffed: SniffedType::of(b"text") };
        let mut cache = ContentCache::default();
        cache.insert(identity(1), info);
        cache.insert(identity(2), info);
        cache.evict_unused();
        assert_eq!(cache.get(&identity(1)), Some(info));
        cache.evict_unused();
        assert_eq!(cache.get(&identity(1)), Some(info));
        assert_eq!(cache.get(&identity(2)), None);
    }

    #[test]
    fn file_written_just_now_is_not_settled() {
        let identity = FileIdentity { dev: 1, ino: 1, len: 9, modified: (0, 0), changed: (1000, 0) };
        for (now, settled) in
            [(0, false), (999, false), (1000, false), (1002, false), (1003, true), (u64::MAX, false)]
        {
            assert_eq!(identity.is_settled(now), settled, "{now}");
        }
    }
}
