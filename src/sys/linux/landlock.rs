//! The version of Landlock: landlock_create_ruleset(2).

use std::{io, ptr};

/// Returns the version that the kernel has.
///
/// # Errors
/// The kernel lacks Landlock, or it is switched off.
pub(crate) fn version() -> io::Result<i32> {
    let (attributes, len) = (ptr::null::<libc::c_void>(), 0_usize);
    // SAFETY: with this flag the kernel reads and writes no memory, and makes no descriptor.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, attributes, len, VERSION) };
    match i32::try_from(version) {
        Ok(version) if version > 0 => Ok(version),
        _ => Err(io::Error::last_os_error()),
    }
}

/// `LANDLOCK_CREATE_RULESET_VERSION`; the libc crate does not know it everywhere.
const VERSION: u32 = 1;
