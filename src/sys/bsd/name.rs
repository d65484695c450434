//! Identity of a path: detects that another file has taken its place, by inode and creation time.

use rustix::fs::{AtFlags, CWD, Gid, Mode, Uid, chmodat, chownat};
use std::{
    fs::{self, Metadata},
    io,
    os::unix::fs::MetadataExt,
    path::Path,
    time::SystemTime,
};

/// The file that a path named.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Named {
    device: u64,
    inode: u64,
    /// An inode may be given to a successor. `None`: the file system does not say.
    born: Option<SystemTime>,
}

impl Named {
    /// Identifies the file at a path now. Does not follow links.
    pub(crate) fn at(path: &Path) -> io::Result<Named> {
        fs::symlink_metadata(path).map(|meta| Named::of(&meta))
    }

    /// Returns whether the path still names this file.
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        fs::symlink_metadata(path).is_ok_and(|meta| *self == Named::of(&meta))
    }

    /// Sets the mode of a socket file. Another file at the path keeps its own.
    pub(crate) fn set_socket_mode(&self, path: &Path, mode: u32) -> io::Result<()> {
        match self.is_at(path) {
            true => Ok(chmodat(CWD, path, Mode::from_bits_truncate(mode as _), AtFlags::SYMLINK_NOFOLLOW)?),
            false => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Sets the user and the group of a socket file. Another file at the path keeps its own.
    pub(crate) fn set_socket_owner(&self, path: &Path, uid: u32, gid: u32) -> io::Result<()> {
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        match self.is_at(path) {
            true => Ok(chownat(CWD, path, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?),
            false => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Returns the permissions, the user and the group of the file.
    pub(crate) fn permissions(&self, path: &Path) -> io::Result<(u32, u32, u32)> {
        let meta = fs::symlink_metadata(path)?;
        Ok((meta.mode() & 0o777, meta.uid(), meta.gid()))
    }

    fn of(meta: &Metadata) -> Named {
        Named { device: meta.dev(), inode: meta.ino(), born: meta.created().ok() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::{fs::symlink, net::UnixListener};

    #[test]
    fn replaced_file_is_detected() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let make = || drop(UnixListener::bind(&path).unwrap());
        make();
        let first = Named::at(&path).unwrap();
        assert!(first.is_at(&path));
        fs::remove_file(&path).unwrap();
        assert!(!first.is_at(&path), "nothing is there");
        // A file system may give the inode again, and tells times apart only after a moment; an old one tells no time of creation.
        make();
        while first.is_at(&path) && first.born.is_some() {
            fs::remove_file(&path).unwrap();
            make();
        }
        let second = Named::at(&path).unwrap();
        assert!(second.is_at(&path));
        fs::rename(&path, dir.path().join("elsewhere")).unwrap();
        symlink("elsewhere", &path).unwrap();
        assert!(!second.is_at(&path), "a link is not followed");
    }
}
