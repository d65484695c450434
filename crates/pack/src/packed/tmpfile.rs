//! Files without a name, which can get a name later: `O_TMPFILE` of open(2), and linkat(2).

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

/// Creates a file without a name. `None`: the file system does not support it, or `link` would fail, since /proc is not mounted.
pub(super) fn create(dir: &Path) -> io::Result<Option<File>> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::open(dir, flags, Mode::from_raw_mode(0o666)).map(File::from) {
        Ok(file) => Ok(Some(file).filter(|file| fs::symlink_metadata(by_number(file)).is_ok())),
        // The file system or the kernel does not support `O_TMPFILE`.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Gives a file a name. Fails if the name exists.
pub(super) fn link(file: &File, path: &Path) -> io::Result<()> {
    Ok(rustix::fs::linkat(CWD, by_number(file), CWD, path, AtFlags::SYMLINK_FOLLOW)?)
}

/// Returns the path of an open file in /proc.
fn by_number(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}
