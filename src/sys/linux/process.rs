//! Processes on Linux: prctl(2), close_range(2), /proc.

use rustix::process::{DumpableBehavior, Signal, set_dumpable_behavior, set_parent_process_death_signal};
use std::{ffi::CStr, fs, io};

/// Has the kernel kill this process when its parent ends; a change of user resets it. `PR_SET_PDEATHSIG`.
pub(crate) fn die_with_parent() -> io::Result<()> {
    Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
}

/// Keeps the memory of this process, and of the children that it forks from now on, out of core dumps and from debuggers of the same user,
/// which cannot open its descriptors either. `PR_SET_DUMPABLE`, proc(5).
pub(crate) fn hide_memory() -> io::Result<()> {
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Sets the name that `ps` and `top` show.
pub(crate) fn set_name(name: &CStr) {
    let _ = rustix::thread::set_name(name);
}

/// Lowers the priority of this thread as far as possible: it runs when others leave time. setpriority(2): threads have their own.
pub(crate) fn lower_thread_priority() {
    let _ = rustix::process::setpriority_process(None, 19);
}

/// Gives memory that was freed back to the system: the allocator keeps it for later, and there may be no later. malloc_trim(3).
pub(crate) fn release_free_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: touches free memory only.
    unsafe {
        libc::malloc_trim(0)
    };
}

/// Returns the number of threads of this process.
pub(crate) fn thread_count() -> io::Result<usize> {
    Ok(fs::read_dir("/proc/self/task")?.count())
}

/// Closes all descriptors in this range.
///
/// # Safety
/// No code uses any of them afterwards.
pub(crate) unsafe fn close_between(first: u32, last: u32) -> io::Result<()> {
    // SAFETY: touches no memory; the descriptors are the caller's.
    match unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
