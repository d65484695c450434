//! What a process that was taken over might try, for the tests of its sandbox.

use rustix::{
    mm::{MapFlags, ProtFlags, mmap_anonymous},
    process::getppid,
};
use std::{io, ptr};

/// Makes memory that holds code.
pub(crate) fn executable() -> io::Result<()> {
    // SAFETY: new memory, which nobody has and nobody uses.
    unsafe { mmap_anonymous(ptr::null_mut(), 4096, ProtFlags::EXEC, MapFlags::PRIVATE)? };
    Ok(())
}

/// Makes another process.
pub(crate) fn divide() -> io::Result<()> {
    // SAFETY: both go on to end at once.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Becomes the debugger of its parent.
pub(crate) fn trace_parent() -> io::Result<()> {
    let parent = getppid().map_or(0, |parent| parent.as_raw_nonzero().get());
    // SAFETY: touches nothing of this process.
    match unsafe { libc::ptrace(libc::PTRACE_SEIZE, parent, 0, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
