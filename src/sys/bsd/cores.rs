//! CPU affinity: not available on macOS, not implemented for FreeBSD.

use std::io;

/// The cores this process may bind threads to.
///
/// # Errors
/// Always.
pub(crate) fn allowed() -> io::Result<Vec<usize>> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "on this system workers are not bound to cores"))
}

/// Binds the calling thread to a core.
pub(crate) fn pin(_core: usize) -> io::Result<()> {
    allowed().map(drop)
}
