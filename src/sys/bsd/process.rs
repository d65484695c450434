//! Processes: what each kind of BSD has of its own, and closing descriptors.

pub(crate) use super::kind::process::{die_with_parent, set_name, thread_count};

use rustix::process::{Resource, Rlimit, setrlimit};
use std::io;

/// Keeps the memory of this process, and of the children that it forks from now on, out of core dumps.
pub(crate) fn hide_memory() -> io::Result<()> {
    Ok(setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?)
}

/// Closes all descriptors in this range.
///
/// # Safety
/// No code uses any of them afterwards.
pub(crate) unsafe fn close_between(first: u32, last: u32) -> io::Result<()> {
    // SAFETY: it has no arguments, and cannot fail.
    let count = unsafe { libc::getdtablesize() } as u32;
    for number in first..count.min(last.saturating_add(1)) {
        // SAFETY: the descriptor is the caller's. Most are not open, which does no harm.
        unsafe { libc::close(number as i32) };
    }
    Ok(())
}
