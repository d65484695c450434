//! Cores, and a thread bound to one: sched_setaffinity(2).

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io;

/// Returns the cores that this process may run on.
pub(crate) fn allowed() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).collect())
}

/// Binds the calling thread to a core.
pub(crate) fn pin(core: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(core);
    Ok(sched_setaffinity(None, &set)?)
}
