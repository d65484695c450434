//! The lock of a releases directory: one process at a time changes it. flock(2).

use rustix::fs::{FlockOperation, flock};
use std::{
    fs::File,
    io::{self, Read, Seek, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    process,
};

/// The lock, held until this is dropped or the process ends.
#[derive(Debug)]
pub(super) struct ReleaseLock {
    /// The lock file, which is never removed, as another process may already wait for its lock.
    _file: File,
}

impl ReleaseLock {
    /// Takes the lock. If another process holds it, calls `held_by` with the PID of that process, if known, and waits.
    pub(super) fn take(path: &Path, held_by: impl FnOnce(Option<u32>)) -> io::Result<ReleaseLock> {
        // The directory may belong to another user than this process, so the lock file must not be a link to a different file.
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false).custom_flags(libc::O_NOFOLLOW);
        let mut file = options.open(path)?;
        if let Err(error) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
            if error != rustix::io::Errno::WOULDBLOCK {
                return Err(error.into());
            }
            let mut holder = String::new();
            // A process that has just taken the lock may not have written its PID yet.
            let _ = file.read_to_string(&mut holder);
            held_by(holder.trim().parse().ok());
            flock(&file, FlockOperation::LockExclusive)?;
        }
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{}", process::id())?;
        Ok(ReleaseLock { _file: file })
    }
}
