//! Processes: kqueue(2), `EVFILT_PROC`, and what each kind of BSD has of its own.

pub(crate) use super::kind::process::{die_with_parent, set_name, thread_count};

use super::queue::Queue;
use rustix::{
    event::kqueue::{Event, EventFilter, EventFlags, ProcessEvents, UserDefinedFlags, UserFlags},
    io::Errno,
    process::{Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process, waitid},
};
use std::{
    cell::Cell,
    io,
    os::fd::{AsFd, BorrowedFd},
    ptr,
};

/// A child of this process. Readable when it has ended.
#[derive(Debug)]
pub(crate) struct Process {
    pid: Pid,
    /// Reports the exit; the event is never taken.
    end: Queue,
    /// How it ended was info: its number may be another's.
    is_gone: Cell<bool>,
}

impl Process {
    /// Opens a child that was forked just now and not reaped yet.
    pub(crate) fn of(pid: Pid) -> io::Result<Process> {
        let end = Queue::new()?;
        let exit = EventFilter::Proc { pid, flags: ProcessEvents::EXIT };
        match end.change(&[Event::new(exit, EventFlags::ADD, ptr::null_mut())]) {
            Ok(()) => {}
            // It has ended already.
            Err(Errno::SRCH) => end.change(&[user(EventFlags::ADD, UserFlags::TRIGGER)])?,
            Err(error) => return Err(error.into()),
        }
        Ok(Process { pid, end, is_gone: Cell::new(false) })
    }

    /// Reaps the child if it has ended, and returns its status once.
    pub(crate) fn try_wait(&self) -> io::Result<Option<WaitIdStatus>> {
        let status = waitid(WaitId::Pid(self.pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG)?;
        self.is_gone.set(self.is_gone.get() || status.is_some());
        Ok(status)
    }

    /// Waits until the child ends, and reaps it.
    pub(crate) fn wait(&self) {
        if !self.is_gone.replace(true) {
            let _ = waitid(WaitId::Pid(self.pid), WaitIdOptions::EXITED);
        }
    }

    /// Kills it, unless it has ended.
    pub(crate) fn kill(&self) {
        if !self.is_gone.get() {
            let _ = kill_process(self.pid, Signal::KILL);
        }
    }
}

impl AsFd for Process {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.end.as_fd()
    }
}

fn user(flags: EventFlags, user: UserFlags) -> Event {
    let filter = EventFilter::User { ident: 0, flags: user, user_flags: UserDefinedFlags::new(0) };
    Event::new(filter, flags, ptr::null_mut())
}

/// Closes all descriptors in this range.
///
/// # Safety
/// No code uses any of them afterwards.
pub(crate) unsafe fn close_between(first: u32, last: u32) -> io::Result<()> {
    // SAFETY: it has no arguments, and cannot fail.
    let count = unsafe { libc::getdtablesize() } as u32;
    for number in first..count.min(last.saturating_add(1)) {
        // SAFETY: the descriptor is the caller's. Most are not open, which does no harm.
        unsafe { libc::close(number as i32) };
    }
    Ok(())
}
