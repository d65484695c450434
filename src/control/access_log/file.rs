//! The file of a log: opened for appending, safely in a directory of other users.

use crate::sys::access;
use rustix::io::ioctl_fionbio;
use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{FileTypeExt, OpenOptionsExt},
    path::Path,
};

/// Opens a file for appending: several processes may write, and logrotate may truncate it. A named pipe without a reader is an error, not a
/// wait. fifo(7).
///
/// Does not follow a symbolic link at the end of the path: the supervisor may be root, and other users may write to the directory of a log.
/// A new file is readable by its owner and group only, as a log names clients and their requests.
pub(super) fn append(path: &Path) -> io::Result<File> {
    let file = options(path).create(true).mode(MODE).open(path)?;
    // Writes may block.
    ioctl_fionbio(&file, false)?;
    Ok(file)
}

/// Checks whether [`append`] would open the file. Creates none, and opens no named pipe: its reader would take that for the end of the log.
pub(super) fn check_append(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => access::may_create(path),
        Err(error) => Err(error),
        Ok(found) if found.file_type().is_fifo() => access::may_write(path),
        Ok(_) => options(path).open(path).map(drop),
    }
}

fn options(path: &Path) -> OpenOptions {
    let links = if is_stream(path) { 0 } else { libc::O_NOFOLLOW };
    let mut options = File::options();
    options.append(true).custom_flags(libc::O_NONBLOCK | links);
    options
}

/// The mode of a new file, before the umask.
const MODE: u32 = 0o640;

/// Returns whether the path names a standard stream: these are links on every system, and lead to what the program was started with.
pub(super) fn is_stream(path: &Path) -> bool {
    [Path::new("/dev/stdout"), Path::new("/dev/stderr")].contains(&path)
}
