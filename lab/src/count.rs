//! System calls per request, counted by the kernel: the tracepoint `raw_syscalls:sys_enter`.
//!
//! The tracepoint costs time in every call, so it has windows of its own, beside the timed ones.

use std::fs;
use std::io;

use perf_event::events::Tracepoint;
use perf_event::{Builder, Counter};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount};

use crate::Trouble;
use crate::cpu::Threads;

/// Mounts tracefs if it is not there. Only for a mount namespace of our own.
pub(crate) fn mount_tracefs() -> io::Result<()> {
    if fs::exists(format!("{TRACEFS}/events"))? {
        return Ok(());
    }
    Ok(mount("tracefs", TRACEFS, "tracefs", MountFlags::empty(), None)?)
}

/// Counts the system calls of some threads, and of those they start.
pub(crate) struct Calls {
    counters: Vec<Counter>,
}

impl Calls {
    /// Prepares counting; nothing is counted yet.
    pub(crate) fn of(threads: &Threads) -> Result<Calls, Trouble> {
        let id = fs::read_to_string(format!("{TRACEFS}/events/raw_syscalls/sys_enter/id"))
            .map_err(|error| format!("no tracepoints ({TRACEFS}: {error})"))?;
        let tracepoint = Tracepoint::with_id(id.trim().parse()?);
        let mut counters = Vec::new();
        for thread in threads.ids() {
            let mut builder = Builder::new(tracepoint);
            let counter = builder.observe_pid(*thread).include_kernel().inherit(true).build();
            match counter {
                // Its process has ended.
                Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => {}
                counter => counters.push(counter.map_err(|error| format!("perf_event_open: {error}"))?),
            }
        }
        Ok(Calls { counters })
    }

    /// Begins to count.
    pub(crate) fn start(&mut self) -> io::Result<()> {
        self.counters.iter_mut().try_for_each(Counter::enable)
    }

    /// Stops, and tells how many there were.
    pub(crate) fn stop(&mut self) -> io::Result<u64> {
        self.counters.iter_mut().try_for_each(Counter::disable)?;
        self.counters.iter_mut().map(Counter::read).sum()
    }
}

/// Where tracefs is mounted by convention.
const TRACEFS: &str = "/sys/kernel/tracing";
