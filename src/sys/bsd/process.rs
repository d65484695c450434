//! Processes: what each kind of BSD has of its own, and closing descriptors.

pub(crate) use super::kind::process::{die_with_parent, set_name, thread_count};

use std::io;

/// Does nothing: the helper that needs it does not run here.
pub(crate) fn refuse_tracing() -> io::Result<()> {
    Ok(())
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
