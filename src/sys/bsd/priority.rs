//! The priority of a thread. On these systems the calls are for a whole process.

use std::io;

/// Changes nothing.
pub(crate) fn lower() -> io::Result<()> {
    Ok(())
}

/// Changes nothing.
pub(crate) fn shorten_slice() -> io::Result<()> {
    Ok(())
}
