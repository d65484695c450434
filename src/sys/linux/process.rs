//! Processes on Linux: pidfd_open(2), prctl(2), close_range(2), /proc.

use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitIdStatus, pidfd_open, pidfd_send_signal,
    set_parent_process_death_signal, waitid,
};
use std::{
    ffi::CStr,
    fs, io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

/// A child of this process. Readable when it has ended.
#[derive(Debug)]
pub(crate) struct Process(OwnedFd);

impl Process {
    /// Opens a child that was forked just now and not reaped yet.
    pub(crate) fn of(pid: Pid) -> io::Result<Process> {
        Ok(Process(pidfd_open(pid, PidfdFlags::empty())?))
    }

    /// Reaps the child if it has ended, and returns its status once.
    pub(crate) fn try_wait(&self) -> io::Result<Option<WaitIdStatus>> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        Ok(waitid(WaitId::PidFd(self.0.as_fd()), options)?)
    }

    /// Waits until the child ends, and reaps it.
    pub(crate) fn wait(&self) {
        // Fails if it was reaped before.
        let _ = waitid(WaitId::PidFd(self.0.as_fd()), WaitIdOptions::EXITED);
    }

    /// Kills it, unless it has ended.
    pub(crate) fn kill(&self) {
        let _ = pidfd_send_signal(&self.0, Signal::KILL);
    }
}

impl AsFd for Process {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Has the kernel kill this process when its parent ends; a change of user resets it. `PR_SET_PDEATHSIG`.
pub(crate) fn die_with_parent() -> io::Result<()> {
    Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
}

/// Sets the name that `ps` and `top` show.
pub(crate) fn set_name(name: &CStr) {
    let _ = rustix::thread::set_name(name);
}

/// Returns the number of threads of this process.
pub(crate) fn thread_count() -> io::Result<usize> {
    Ok(fs::read_dir("/proc/self/task")?.count())
}

/// Closes all descriptors in this range.
///
/// # Safety
/// No code uses any of them afterwards.
pub(crate) unsafe fn close_between(first: u32, last: u32) -> io::Result<()> {
    // SAFETY: touches no memory; the descriptors are the caller's.
    match unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
