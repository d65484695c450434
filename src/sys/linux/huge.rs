//! Huge pages for what is mapped of a file: madvise(2), `MADV_COLLAPSE`, Linux 6.1.

use rustix::mm::MapFlags;
use std::ffi::c_void;

/// No memory is set aside for what nobody has written yet.
pub(crate) const NORESERVE: MapFlags = MapFlags::NORESERVE;

/// Asks for them, as far as the file is in memory and the system allows. Nothing is lost where it does not.
///
/// # Safety
/// The range is a mapping of the caller.
pub(crate) unsafe fn collapse(start: *mut c_void, len: usize) {
    // SAFETY: other pages, with the same contents, in a range that the caller has mapped.
    unsafe { libc::madvise(start, len, MADV_COLLAPSE) };
}

/// Linux 6.1; the libc crate does not know it with musl.
const MADV_COLLAPSE: libc::c_int = 25;
