//! Huge pages: FreeBSD makes them by itself, of what lies as it should.

use rustix::mm::MapFlags;
use std::ffi::c_void;

/// No memory is set aside for what nobody has written yet: as always.
pub(crate) const NORESERVE: MapFlags = MapFlags::empty();

/// Asks for nothing.
///
/// # Safety
/// None is needed here.
pub(crate) unsafe fn collapse(_start: *mut c_void, _len: usize) {}
