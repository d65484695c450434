//! Adds a seccomp filter to this process: seccomp(2).

use std::{io, ptr};

/// One instruction of a filter.
pub(crate) type FilterInstruction = libc::sock_filter;

/// Adds a filter to those of this process, which has set no_new_privs, or inherited it.
pub(crate) fn add_filter(filter: &[FilterInstruction]) -> io::Result<()> {
    let len = filter.len().try_into().map_err(io::Error::other)?;
    let program = libc::sock_fprog { len, filter: ptr::from_ref(filter).cast_mut().cast() };
    // SAFETY: the kernel reads the program, which is as long as said, during the call, and writes nothing.
    match unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &program) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
