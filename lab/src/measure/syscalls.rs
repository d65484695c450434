//! System calls per request, counted by the kernel at the tracepoint `raw_syscalls:sys_enter`.
//!
//! The tracepoint slows every system call, so the lab counts in separate windows that it does not time.

use std::fs;
use std::io;

use perf_event::events::Tracepoint;
use perf_event::{Builder, Counter};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount};

use super::cpu::ServerThreads;
use crate::error::LabError;

/// Mounts tracefs unless it is mounted. Call it only in a private mount namespace.
pub(crate) fn mount_tracefs() -> io::Result<()> {
    if fs::exists(format!("{TRACEFS}/events"))? {
        return Ok(());
    }
    Ok(mount("tracefs", TRACEFS, "tracefs", MountFlags::empty(), None)?)
}

/// Counts the system calls of threads, and of threads that they create.
pub(crate) struct SyscallCounter {
    counters: Vec<Counter>,
}

impl SyscallCounter {
    /// Opens a counter for each thread. The counters are off until [`start`](SyscallCounter::start).
    pub(crate) fn of(threads: &ServerThreads) -> Result<SyscallCounter, LabError> {
        let id = fs::read_to_string(format!("{TRACEFS}/events/raw_syscalls/sys_enter/id"))
            .map_err(|error| format!("no tracepoints ({TRACEFS}: {error})"))?;
        let tracepoint = Tracepoint::with_id(id.trim().parse()?);
        let mut counters = Vec::new();
        for thread in threads.ids() {
            let mut builder = Builder::new(tracepoint);
            let counter = builder.observe_pid(*thread).include_kernel().inherit(true).build();
            match counter {
                // The thread has exited.
                Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => {}
                counter => counters.push(counter.map_err(|error| format!("perf_event_open: {error}"))?),
            }
        }
        Ok(SyscallCounter { counters })
    }

    /// Starts counting.
    pub(crate) fn start(&mut self) -> io::Result<()> {
        self.counters.iter_mut().try_for_each(Counter::enable)
    }

    /// Stops counting, and returns the number of system calls.
    pub(crate) fn stop(&mut self) -> io::Result<u64> {
        self.counters.iter_mut().try_for_each(Counter::disable)?;
        self.counters.iter_mut().map(Counter::read).sum()
    }
}

/// The usual mount point of tracefs.
const TRACEFS: &str = "/sys/kernel/tracing";
