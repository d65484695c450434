//! proc_pidinfo of libproc, pthread_setname_np.

use rustix::process::getpid;
use std::{ffi::CStr, io, mem};

/// Does nothing: a child ends when its channel closes, so a worker that hangs outlives its parent.
pub(crate) fn die_with_parent() -> io::Result<()> {
    Ok(())
}

/// Sets the name that a debugger shows; `ps` does not show it.
pub(crate) fn set_name(name: &CStr) {
    // SAFETY: it ends in a zero.
    unsafe { libc::pthread_setname_np(name.as_ptr()) };
}

/// Does nothing: the call is about all threads of a process here.
pub(crate) fn lower_thread_priority() {}

/// Does nothing: the allocator gives memory back by itself.
pub(crate) fn release_free_memory() {}

/// Returns the number of threads of this process.
pub(crate) fn thread_count() -> io::Result<usize> {
    // SAFETY: plain numbers.
    let mut info: libc::proc_taskinfo = unsafe { mem::zeroed() };
    let (pid, len) = (getpid().as_raw_nonzero().get(), size_of_val(&info) as i32);
    // SAFETY: `info` is what this flavor writes, and no more than its length is written.
    let written = unsafe { libc::proc_pidinfo(pid, libc::PROC_PIDTASKINFO, 0, (&raw mut info).cast(), len) };
    match written == len {
        true => Ok(info.pti_threadnum as usize),
        false => Err(io::Error::last_os_error()),
    }
}
