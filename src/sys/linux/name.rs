//! Identity of a path: detects that another file has taken its place: open(2), `O_PATH`.

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Stat, Uid, chmod, chownat, fstat, lstat, open};
use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
    path::Path,
};

/// The file that a path named. Held open, so that its inode is not reused.
#[derive(Debug)]
pub(crate) struct Named(OwnedFd);

impl Named {
    /// Opens the file at a path now. Does not follow links.
    pub(crate) fn at(path: &Path) -> io::Result<Named> {
        Ok(Named(open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?))
    }

    /// Sets the mode of a socket file, unless it has that mode. Another file at the path keeps its own.
    pub(crate) fn set_socket_mode(&self, _path: &Path, mode: u32) -> io::Result<()> {
        let found = fstat(&self.0)?.st_mode;
        if FileType::from_raw_mode(found) != FileType::Socket {
            return Err(io::Error::other("the file is not a socket"));
        }
        if found & 0o777 != mode {
            // fchmod(2) refuses a descriptor of O_PATH; its link in /proc leads to the file: open(2), O_PATH.
            chmod(format!("/proc/self/fd/{}", self.0.as_raw_fd()), Mode::from_raw_mode(mode))?;
        }
        Ok(())
    }

    /// Sets the user and the group of a socket file.
    pub(crate) fn set_socket_owner(&self, _path: &Path, uid: u32, gid: u32) -> io::Result<()> {
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        // An empty path stands for the file of the descriptor: fchownat(2), AT_EMPTY_PATH.
        Ok(chownat(&self.0, "", Some(uid), Some(gid), AtFlags::EMPTY_PATH)?)
    }

    /// Returns the permissions, the user and the group of the file.
    pub(crate) fn permissions(&self, _path: &Path) -> io::Result<(u32, u32, u32)> {
        let stat = fstat(&self.0)?;
        Ok((stat.st_mode & 0o777, stat.st_uid, stat.st_gid))
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs,
        os::unix::{fs::PermissionsExt, net::UnixListener},
    };

    #[test]
    fn mode_is_that_of_the_identified_socket_only() {
        let dir = tempfile::tempdir().unwrap();
        let (path, moved) = (dir.path().join("socket"), dir.path().join("moved"));
        let mode = |path: &Path| path.symlink_metadata().unwrap().permissions().mode() & 0o777;
        let _listener = UnixListener::bind(&path).unwrap();
        let named = Named::at(&path).unwrap();
        for wanted in [0o600, 0o666, 0o000] {
            named.set_socket_mode(&path, wanted).unwrap();
            assert_eq!(mode(&path), wanted);
        }
        fs::rename(&path, &moved).unwrap();
        fs::write(&path, "another").unwrap();
        let other = mode(&path);
        named.set_socket_mode(&path, 0o640).unwrap();
        assert_eq!((mode(&path), mode(&moved)), (other, 0o640));
        assert!(Named::at(&path).unwrap().set_socket_mode(&path, 0o600).is_err(), "not a socket");
        assert_eq!(mode(&path), other);
    }
}
