//! Files without a name, which get one when they are whole: open(2), `O_TMPFILE`, and linkat(2).

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

/// A file without a name, if the file system has such and this system could give it one later.
pub(super) fn create(dir: &Path) -> io::Result<Option<File>> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::open(dir, flags, Mode::from_raw_mode(0o666)).map(File::from) {
        Ok(file) => Ok(Some(file).filter(|file| fs::symlink_metadata(by_number(file)).is_ok())),
        // From file systems that have none, and from kernels that have none.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Gives it its name, which must be free.
pub(super) fn link(file: &File, path: &Path) -> io::Result<()> {
    Ok(rustix::fs::linkat(CWD, by_number(file), CWD, path, AtFlags::SYMLINK_FOLLOW)?)
}

/// The name by which the kernel knows an open file.
fn by_number(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}
