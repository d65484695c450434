//! What Linux has for processes: pidfd_open(2), prctl(2), close_range(2), /proc.

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
    /// A child that was started just now: nobody has asked yet how it ended.
    pub(crate) fn of(pid: Pid) -> io::Result<Process> {
        Ok(Process(pidfd_open(pid, PidfdFlags::empty())?))
    }

    /// How it has ended, if it has. Told once.
    pub(crate) fn try_wait(&self) -> io::Result<Option<WaitIdStatus>> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        Ok(waitid(WaitId::PidFd(self.0.as_fd()), options)?)
    }

    /// Waits for its end, however it comes.
    pub(crate) fn wait(&self) {
        // Fails where that has been asked before.
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

/// From now on this process is killed when its parent ends; until it becomes another user. `PR_SET_PDEATHSIG`.
pub(crate) fn die_with_parent() -> io::Result<()> {
    Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
}

/// What `ps` and `top` show.
pub(crate) fn set_name(name: &CStr) {
    let _ = rustix::thread::set_name(name);
}

/// How many threads this process has.
pub(crate) fn thread_count() -> io::Result<usize> {
    Ok(fs::read_dir("/proc/self/task")?.count())
}

/// Closes all descriptors of these numbers.
///
/// # Safety
/// Nobody uses one of them any more.
pub(crate) unsafe fn close_between(first: u32, last: u32) -> io::Result<()> {
    // SAFETY: touches no memory; the descriptors are the caller's.
    match unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
