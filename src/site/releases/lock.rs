//! One process at a time changes a directory of releases. flock(2).

use rustix::fs::{FlockOperation, flock};
use std::{
    fs::File,
    io::{self, Read, Seek, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    process,
};

/// The right to change the directory, until this is dropped or the process ends, however it ends.
#[derive(Debug)]
pub(super) struct ReleaseLock {
    /// Stays where it is: another process may wait for it already.
    _file: File,
}

impl ReleaseLock {
    /// Takes the lock. While another process has it, tells which, if that is known, and waits.
    pub(super) fn take(path: &Path, held_by: impl FnOnce(Option<u32>)) -> io::Result<ReleaseLock> {
        // Whose directory it is may not be who changes it: no link leads elsewhere.
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false).custom_flags(libc::O_NOFOLLOW);
        let mut file = options.open(path)?;
        if let Err(error) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
            if error != rustix::io::Errno::WOULDBLOCK {
                return Err(error.into());
            }
            let mut holder = String::new();
            // Whoever has just taken it may not have said who it is.
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
