//! Huge pages: FreeBSD uses them by itself for aligned mappings.

use rustix::mm::MapFlags;
use std::ffi::c_void;

/// No flag needed: unwritten pages reserve no memory.
pub(crate) const NORESERVE: MapFlags = MapFlags::empty();

/// Does nothing.
///
/// # Safety
/// None is needed here.
pub(crate) unsafe fn collapse(_start: *mut c_void, _len: usize) {}
