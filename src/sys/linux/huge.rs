//! Huge pages for file mappings: madvise(2), `MADV_COLLAPSE`, Linux 6.1.

use rustix::mm::MapFlags;
use std::ffi::c_void;

/// Reserves no memory for unwritten pages.
pub(crate) const NORESERVE: MapFlags = MapFlags::NORESERVE;

/// Asks for huge pages, as far as the file is in memory and the system allows. Failure is harmless.
///
/// # Safety
/// The range is a mapping of the caller.
pub(crate) unsafe fn collapse(start: *mut c_void, len: usize) {
    // SAFETY: other pages, with the same contents, in a range that the caller has mapped.
    unsafe { libc::madvise(start, len, MADV_COLLAPSE) };
}

/// Linux 6.1; the libc crate does not know it with musl.
const MADV_COLLAPSE: libc::c_int = 25;
