//! procctl(2), setproctitle(3), sysctl(3).

use rustix::process::{Signal, getpid, set_parent_process_death_signal};
use std::{
    ffi::{CStr, c_int},
    io, mem, ptr,
};

/// Has the kernel kill this process when its parent ends. `PROC_PDEATHSIG_CTL`.
pub(crate) fn die_with_parent() -> io::Result<()> {
    Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
}

/// Sets the name that `ps` and `top` show.
pub(crate) fn set_name(name: &CStr) {
    // SAFETY: both texts end in a zero, and the second is the one that the first asks for.
    unsafe { libc::setproctitle(c"-%s".as_ptr(), name.as_ptr()) };
}

/// Does nothing: the call is about all threads of a process here.
pub(crate) fn lower_thread_priority() {}

/// Does nothing: the allocator gives memory back by itself.
pub(crate) fn release_free_memory() {}

/// Returns the number of threads of this process.
pub(crate) fn thread_count() -> io::Result<usize> {
    let pid = getpid().as_raw_nonzero().get();
    let what: [c_int; 4] = [libc::CTL_KERN, libc::KERN_PROC, libc::KERN_PROC_PID, pid];
    // SAFETY: plain numbers and pointers, none of which is followed.
    let mut info: libc::kinfo_proc = unsafe { mem::zeroed() };
    let mut len = size_of_val(&info);
    // SAFETY: as many names as there are; of `info` no more than its length is written. Nothing is set.
    let done = unsafe {
        let (names, to) = (what.as_ptr(), (&raw mut info).cast());
        libc::sysctl(names, what.len() as u32, to, &mut len, ptr::null(), 0)
    };
    match done {
        0 => Ok(info.ki_numthreads as usize),
        _ => Err(io::Error::last_os_error()),
    }
}
