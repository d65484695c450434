//! Signals as a pollable descriptor: kqueue(2), `EVFILT_SIGNAL`.

use super::queue::Queue;
use rustix::{
    event::kqueue::{Event, EventFilter, EventFlags},
    process::Signal,
};
use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
    ptr,
};

/// Signals whose default action is disabled, read from a queue.
#[derive(Debug)]
pub(crate) struct Signals(Queue);

impl Signals {
    /// Ignores these signals so that they can be read. Threads and children started later ignore them too.
    pub(crate) fn block(signals: &[Signal]) -> io::Result<Signals> {
        let queue = Queue::new()?;
        let info =
            |&signal| Event::new(EventFilter::Signal { signal, times: 0 }, EventFlags::ADD, ptr::null_mut());
        queue.change(&signals.iter().map(info).collect::<Vec<_>>())?;
        // SIGCHLD keeps its default action, which does nothing; if it were ignored, the kernel would reap children itself.
        for signal in signals.iter().filter(|&&signal| signal != Signal::CHILD) {
            // SAFETY: sets a standard disposition; the queue still reports the signal.
            if unsafe { libc::signal(signal.as_raw(), libc::SIG_IGN) } == libc::SIG_ERR {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(Signals(queue))
    }

    /// Returns the next pending signal.
    pub(crate) fn next(&self) -> io::Result<Option<Signal>> {
        let mut events = Vec::with_capacity(1);
        self.0.take(&mut events)?;
        Ok(events.first().and_then(|event| match event.filter() {
            EventFilter::Signal { signal, .. } => Some(signal),
            _ => None,
        }))
    }
}

/// Ends this process by the default action of a signal.
pub(crate) fn die_of(signal: Signal) -> ! {
    // SAFETY: restores the default action, and raises the signal.
    unsafe {
        libc::signal(signal.as_raw(), libc::SIG_DFL);
        libc::raise(signal.as_raw());
    }
    std::process::exit(128 + signal.as_raw())
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
