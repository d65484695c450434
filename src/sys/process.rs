//! Child processes that go on with the memory of their parent: fork(2), without exec.

pub(crate) use super::system::process::{Process, die_with_parent, set_name};

use super::system::process::{close_between, thread_count};
use rustix::process::{Pid, getpid, getppid};
use std::{
    io,
    marker::PhantomData,
    os::fd::RawFd,
    panic::{AssertUnwindSafe, catch_unwind},
};

/// Starts a child, which runs `main` and ends with the status that this returns. All that the parent has in memory, the child
/// has too; of its descriptors those named here, and standard input, output and error.
///
/// The child does not outlive its parent.
///
/// # Errors
/// This process has other threads: of what they were doing a child would see one half. Or there is no room for another
/// process.
pub(crate) fn spawn(keep: &[RawFd], main: impl FnOnce() -> i32) -> io::Result<Pid> {
    SingleThreaded::new()?.spawn(keep, main)
}

/// That this process has one thread, which may divide it. Whoever has asked begins no other thread.
#[derive(Debug)]
pub(crate) struct SingleThreaded(PhantomData<*const ()>);

impl SingleThreaded {
    /// Asks in a way that a sandbox may bar later.
    ///
    /// # Errors
    /// There are others.
    pub(crate) fn new() -> io::Result<SingleThreaded> {
        match thread_count()? {
            1 => Ok(SingleThreaded(PhantomData)),
            _ => Err(io::Error::other("a process with several threads cannot be divided")),
        }
    }

    /// As [`spawn`].
    pub(crate) fn spawn(&self, keep: &[RawFd], main: impl FnOnce() -> i32) -> io::Result<Pid> {
        let parent = getpid();
        // SAFETY: no other thread was in the middle of anything, neither of ours nor of the C library's: the child may do all
        // that the parent may. It never returns from here, so that nothing of the parent's is done twice.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                let status =
                    catch_unwind(AssertUnwindSafe(|| run_child(parent, keep, main))).unwrap_or(PANICKED);
                // SAFETY: ends this process and nothing else. Exit handlers were registered for the parent, and the child may be
                // confined to calls that they do not know: a leak checker starts a process of its own.
                unsafe { libc::_exit(status) }
            }
            // SAFETY: fork returns the number of the child, which is above 0.
            child => Ok(unsafe { Pid::from_raw_unchecked(child) }),
        }
    }
}

/// What every child does first.
fn run_child(parent: Pid, keep: &[RawFd], main: impl FnOnce() -> i32) -> i32 {
    let begun = die_with_parent().and_then(|()| is_child_of(parent)).and_then(|()| close_all_but(keep));
    match begun {
        Ok(()) => main(),
        Err(error) => {
            eprintln!("tarpon: a child process cannot begin: {error}");
            1
        }
    }
}

/// It may have ended before anybody minded.
fn is_child_of(parent: Pid) -> io::Result<()> {
    match getppid() == Some(parent) {
        true => Ok(()),
        false => Err(io::Error::other("its parent has ended")),
    }
}

/// Closes what the parent had open and the child is not to have.
fn close_all_but(keep: &[RawFd]) -> io::Result<()> {
    let mut kept: Vec<_> = keep.iter().map(|&number| number as u32).collect();
    kept.sort_unstable();
    // Behind standard error.
    let mut next = 3;
    for last in kept.into_iter().map(Some).chain([None]) {
        let end = last.map_or(u32::MAX, |kept| kept.wrapping_sub(1));
        if next <= end {
            // SAFETY: whoever owns these descriptors is in frames of the parent, to which this process does not return.
            unsafe { close_between(next, end)? };
        }
        next = last.map_or(next, |kept| next.max(kept + 1));
    }
    Ok(())
}

/// The exit status of a Rust program that has panicked.
const PANICKED: i32 = 101;
