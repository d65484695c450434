//! Descriptors that whoever started this program has left open for it, and named by number: sd_listen_fds(3).

use std::{
    io,
    os::fd::{FromRawFd, OwnedFd, RawFd},
};

/// Takes one of them over: whom this program starts does not have it. To be asked once for each number, before anything else is opened.
///
/// # Errors
/// Nothing is open there, or it is standard input, output or error.
pub(crate) fn take(number: RawFd) -> io::Result<OwnedFd> {
    if number <= libc::STDERR_FILENO {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: asks for a flag of a descriptor, if there is one of that number.
    if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is open, and was before this program began, which has opened nothing so far: nobody here has it. Each number is asked
    // for once, by the callers.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}
