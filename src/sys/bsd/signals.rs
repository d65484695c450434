//! Signals as something to wait for beside other descriptors: kqueue(2), `EVFILT_SIGNAL`.

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

/// Signals that have come, and do nothing else.
#[derive(Debug)]
pub(crate) struct Signals(Queue);

impl Signals {
    /// From now on these signals wait to be read. Threads and children begun later pass over them.
    pub(crate) fn block(signals: &[Signal]) -> io::Result<Signals> {
        let queue = Queue::new()?;
        let info =
            |&signal| Event::new(EventFilter::Signal { signal, times: 0 }, EventFlags::ADD, ptr::null_mut());
        queue.change(&signals.iter().map(info).collect::<Vec<_>>())?;
        // The end of a child does nothing by itself; ignored, nobody would be info of it, and the child be gone.
        for signal in signals.iter().filter(|&&signal| signal != Signal::CHILD) {
            // SAFETY: ignored is what the kernel does by itself; the queue is info nevertheless.
            if unsafe { libc::signal(signal.as_raw(), libc::SIG_IGN) } == libc::SIG_ERR {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(Signals(queue))
    }

    /// The next one that has come.
    pub(crate) fn next(&self) -> io::Result<Option<Signal>> {
        let mut events = Vec::with_capacity(1);
        self.0.take(&mut events)?;
        Ok(events.first().and_then(|event| match event.filter() {
            EventFilter::Signal { signal, .. } => Some(signal),
            _ => None,
        }))
    }
}

/// Ends this process as a signal does that nobody waits for.
pub(crate) fn die_of(signal: Signal) -> ! {
    // SAFETY: asks for what is done without us, and sends it.
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
