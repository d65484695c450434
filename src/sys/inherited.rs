//! Descriptors inherited by number from the parent, such as by socket activation: sd_listen_fds(3).

use std::{
    io,
    os::fd::{FromRawFd, OwnedFd, RawFd},
};

/// Takes ownership of an inherited descriptor and sets close-on-exec. Call it once per number, before the process opens any other
/// descriptor.
///
/// # Errors
/// The number is not open, or is standard input, output or error.
pub(crate) fn take(number: RawFd) -> io::Result<OwnedFd> {
    if number <= libc::STDERR_FILENO {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: sets a flag of the descriptor, if it is open.
    if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was open before this program started and the program has opened none yet, so no other code owns it. The
    // callers take each number once.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}
