//! What a process that was taken over might try, for the tests of its sandbox; and what tests try in a child.

use rustix::{
    mm::{MapFlags, ProtFlags, mmap_anonymous},
    process::{Pid, getppid},
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

/// Asks whether a signal may be sent to this process, by one of its threads: that is the process whose number its filter has, and
/// of a worker process its parent.
pub(crate) fn signal_by_thread() -> io::Result<()> {
    // SAFETY: signal 0 is none.
    match unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::gettid(), 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
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

/// Does something in a child of a program that may have threads: it may not allocate, nor wait for another thread.
pub(crate) fn in_child(attempt: impl FnOnce()) -> io::Result<Pid> {
    // SAFETY: the child does what it was promised to, and ends without a word to what the parent has set up.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            attempt();
            // SAFETY: ends this process.
            unsafe { libc::_exit(0) }
        }
        // SAFETY: fork returns the number of the child, which is above 0.
        child => Ok(unsafe { Pid::from_raw_unchecked(child) }),
    }
}
