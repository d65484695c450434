//! Identity of a path: detects that another file has taken its place: open(2), `O_PATH`.

use rustix::fs::{Mode, OFlags, Stat, fstat, lstat, open};
use std::{io, os::fd::OwnedFd, path::Path};

/// The file that a path named. Held open, so that its inode is not reused.
#[derive(Debug)]
pub(crate) struct Named(OwnedFd);

impl Named {
    /// Opens the file at a path now. Does not follow links.
    pub(crate) fn at(path: &Path) -> io::Result<Named> {
        Ok(Named(open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?))
    }

    /// Returns whether the path still names this file.
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        let id = |stat: Stat| (stat.st_dev, stat.st_ino);
        match (fstat(&self.0), lstat(path)) {
            (Ok(made), Ok(found)) => id(made) == id(found),
            _ => false,
        }
    }
}
