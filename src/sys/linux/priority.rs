//! The priority of a thread: setpriority(2), sched_setattr(2).

use rustix::process::{getpriority_process, setpriority_process};
use std::{io, mem, time::Duration};

/// What a thread that lowers its priority adds to its niceness. Each step is worth a quarter, so it gets a quarter of a core that other threads
/// keep busy: enough to go on.
const NICENESS: i32 = 5;

/// The least that Linux accepts. A request takes a tenth of it.
const SHORTEST_SLICE: Duration = Duration::from_micros(100);

/// Gives the calling thread less processor time than others that want the same core. No later call can undo it without rights.
pub(crate) fn lower() -> io::Result<()> {
    // On Linux these calls are for a thread.
    Ok(setpriority_process(None, getpriority_process(None)?.saturating_add(NICENESS))?)
}

/// Gives the calling thread short slices of time: since Linux 6.12 it interrupts threads with longer ones as soon as it wakes up. Its share of the
/// processor stays. Does nothing to a thread of another policy than the usual one.
pub(crate) fn shorten_slice() -> io::Result<()> {
    const LEN: u32 = size_of::<libc::sched_attr>() as u32;
    // SAFETY: a structure of numbers, for which zeros are valid.
    let mut attributes: libc::sched_attr = unsafe { mem::zeroed() };
    // SAFETY: the kernel writes at most this length.
    let got = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, LEN, 0) };
    if got != 0 {
        return Err(io::Error::last_os_error());
    }
    if attributes.sched_policy != libc::SCHED_OTHER as u32 {
        return Ok(());
    }
    attributes.sched_flags = 0;
    attributes.sched_runtime = SHORTEST_SLICE.as_nanos() as u64;
    // SAFETY: the kernel only reads the attributes.
    match unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
