//! What a name in the file system leads to, told apart from what takes its place: open(2), `O_PATH`.

use rustix::fs::{Mode, OFlags, Stat, fstat, lstat, open};
use std::{io, os::fd::OwnedFd, path::Path};

/// What lay under a name. Held, so that its inode is not given to a successor.
#[derive(Debug)]
pub(crate) struct Named(OwnedFd);

impl Named {
    /// What lies there now. A link is not followed.
    pub(crate) fn at(path: &Path) -> io::Result<Named> {
        Ok(Named(open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?))
    }

    /// Whether it still does.
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        let id = |stat: Stat| (stat.st_dev, stat.st_ino);
        match (fstat(&self.0), lstat(path)) {
            (Ok(made), Ok(found)) => id(made) == id(found),
            _ => false,
        }
    }
}
