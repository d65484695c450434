//! The files of sites that a process holds: a version that arrives shares those that have not changed.
//!
//! ```text
//! packet ─▶ descriptors ─ share ─▶ known: the descriptor that is held, and the new one is closed
//!                                └▶ new: it becomes known as long as a version holds it
//! ```

use rustix::fs::{FileType, OFlags, fcntl_getfl, fstat};
use std::{
    collections::HashMap,
    fs::File,
    sync::{Arc, Mutex, PoisonError, Weak},
};

/// The files that a process holds for its sites, for all channels on which versions arrive.
#[derive(Clone, Debug)]
pub(crate) struct SharedFiles(Arc<Mutex<KnownFiles>>);

#[derive(Debug)]
struct KnownFiles {
    files: HashMap<FileState, Weak<File>>,
    /// Files that may be held at once.
    count_max: usize,
}

/// What tells an unchanged file from others. An inode that is held open keeps its number. Size and times tell files apart on a file system
/// whose numbers are not unique.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct FileState {
    device: u64,
    inode: u64,
    len: i64,
    /// Seconds and nanoseconds of the last change of the content and of the inode.
    times: [i64; 4],
    /// How the file was opened: a shared descriptor never grants more than its duplicate.
    flags: OFlags,
}

impl SharedFiles {
    /// Returns a set that knows no files. `count_max`: files that may be held at once.
    pub(crate) fn new(count_max: usize) -> SharedFiles {
        SharedFiles(Arc::new(Mutex::new(KnownFiles { files: HashMap::new(), count_max })))
    }

    /// Adds files that this process holds already.
    pub(crate) fn add<'a>(&self, files: impl Iterator<Item = &'a Arc<File>>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for file in files {
            if let Some(state) = FileState::of(file) {
                known.files.insert(state, Arc::downgrade(file));
            }
        }
    }

    /// Returns the descriptor that this process holds of an unchanged file, and closes the new one; otherwise the new one, and `true`.
    pub(super) fn share(&self, file: File) -> (Arc<File>, bool) {
        let Some(state) = FileState::of(&file) else { return (Arc::new(file), true) };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(held) = known.files.get(&state).and_then(Weak::upgrade) {
            return (held, false);
        }
        let file = Arc::new(file);
        known.files.insert(state, Arc::downgrade(&file));
        (file, true)
    }

    /// Returns how many files may be held at once.
    pub(crate) fn count_max(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).count_max
    }

    /// Forgets the files that no version holds any more. Returns how many more may be held.
    pub(super) fn room(&self) -> usize {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.files.retain(|_, file| file.strong_count() > 0);
        known.count_max.saturating_sub(known.files.len())
    }
}

impl FileState {
    /// Returns the state of a file that is open for reading only, as the large files and archives of sites are. `None`: it is not shared.
    fn of(file: &File) -> Option<FileState> {
        let flags =
            fcntl_getfl(file).ok().filter(|flags| !flags.intersects(OFlags::WRONLY | OFlags::RDWR))?;
        let stat = fstat(file).ok()?;
        #[allow(clippy::unnecessary_cast, reason = "the types differ between systems")]
        (FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile).then_some(FileState {
            device: stat.st_dev as u64,
            inode: stat.st_ino as u64,
            len: stat.st_size as i64,
            times: [stat.st_mtime, stat.st_mtime_nsec as _, stat.st_ctime, stat.st_ctime_nsec as _],
            flags,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn unchanged_file_is_shared_while_it_is_held() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "one").unwrap();
        let open = || File::open(&path).unwrap();
        let files = SharedFiles::new(3);
        let (first, is_new) = files.share(open());
        assert!(is_new);
        let (again, is_new) = files.share(open());
        assert!(!is_new && Arc::ptr_eq(&first, &again), "unchanged");
        let (writable, is_new) = files.share(File::options().read(true).write(true).open(&path).unwrap());
        assert!(is_new && !Arc::ptr_eq(&first, &writable), "open for writing");
        fs::write(&path, "changed").unwrap();
        let (changed, is_new) = files.share(open());
        assert!(is_new && !Arc::ptr_eq(&first, &changed), "changed");
        fs::rename(dir.path().join("file"), dir.path().join("old")).unwrap();
        fs::write(&path, "changed").unwrap();
        let (replaced, is_new) = files.share(open());
        assert!(is_new && !Arc::ptr_eq(&changed, &replaced), "replaced");
        assert_eq!(files.room(), 0);
        drop((first, again, changed));
        assert_eq!(files.room(), 2);
        assert!(files.share(File::open(dir.path().join("old")).unwrap()).1, "no longer held");
        let others = SharedFiles::new(3);
        others.add([&replaced].into_iter());
        assert!(Arc::ptr_eq(&others.share(open()).0, &replaced));
    }
}
