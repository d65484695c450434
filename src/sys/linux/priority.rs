//! The priority of a thread: setpriority(2).

use rustix::process::setpriority_process;
use std::io;

/// Gives the calling thread a tenth of the processor time of others that want the same core, and lets them interrupt it. No later call can undo
/// it without rights.
pub(crate) fn lower() -> io::Result<()> {
    // Each step of niceness is worth a quarter: ten are worth a tenth.
    Ok(setpriority_process(None, 10)?)
}
