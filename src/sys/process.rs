//! Child processes by fork(2) without exec: they continue with a copy of their parent's memory.

pub(crate) use super::system::process::{
    die_with_parent, hide_memory, lower_thread_priority, release_free_memory, set_name,
};

use super::{
    inject,
    system::process::{close_between, thread_count},
};
use rustix::process::{Pid, getpid, getppid};
use std::{
    io, iter,
    marker::PhantomData,
    os::fd::RawFd,
    panic::{AssertUnwindSafe, catch_unwind},
};

/// Proof that this process has one thread and may fork: the state of other threads would be inconsistent in the child. The holder must not
/// start threads.
#[derive(Debug)]
pub(crate) struct SingleThreaded(PhantomData<*const ()>);

impl SingleThreaded {
    /// Checks the number of threads; a sandbox may forbid this call later.
    ///
    /// # Errors
    /// The process has other threads.
    pub(crate) fn new() -> io::Result<SingleThreaded> {
        match thread_count()? {
            1 => Ok(SingleThreaded(PhantomData)),
            _ => Err(io::Error::other("cannot fork: the process has threads")),
        }
    }

    /// Forks a child, which runs `main` and exits with its status. The child inherits the parent's memory, the descriptors in `keep`, and
    /// standard input, output and error. It does not outlive its parent. Sorts `keep`.
    ///
    /// # Errors
    /// The process limit is reached, or the process is out of memory.
    pub(crate) fn spawn(&self, keep: &mut [RawFd], main: impl FnOnce() -> i32) -> io::Result<Pid> {
        let (parent, faults) = (getpid(), inject::child_stream());
        // Here, as the child copies each page that it writes.
        keep.sort_unstable();
        // SAFETY: this process has no other thread, so no lock or allocator state is inconsistent: the child may do all that the
        // parent may. The child never returns from here, so none of the parent's code runs twice.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                faults.enter();
                let status =
                    catch_unwind(AssertUnwindSafe(|| run_child(parent, keep, main))).unwrap_or(PANICKED);
                exit_now(status)
            }
            // SAFETY: fork returns the number of the child, which is above 0.
            child => Ok(unsafe { Pid::from_raw_unchecked(child) }),
        }
    }
}

/// Ends this process at once, from any thread, without exit handlers.
///
/// `std::process::exit` runs the handlers that the parent registered, and its second caller waits in pause(2) for the first: the sandbox
/// forbids the calls of both.
#[inline(always)]
pub(crate) fn exit_now(status: i32) -> ! {
    // SAFETY: ends this process, and touches no memory of it.
    unsafe { libc::_exit(status) }
}

/// Prepares a child, closes all descriptors but these, and runs its `main`. Returns the exit status.
fn run_child(parent: Pid, keep: &[RawFd], main: impl FnOnce() -> i32) -> i32 {
    let prepared = die_with_parent().and_then(|()| {
        // SAFETY: the owners of these descriptors are in stack frames of the parent, to which this process does not return.
        gaps(keep).try_for_each(|(first, last)| unsafe { close_between(first, last) })
    });
    // A parent that has exited already reported why, and nothing waits for this process.
    if getppid() != Some(parent) {
        return 1;
    }
    match prepared {
        Ok(()) => main(),
        Err(error) => {
            eprintln!("tarpon: cannot start a child process: {error}");
            1
        }
    }
}

/// Returns the ranges of descriptors between those in `keep`, which are sorted, and the standard ones.
fn gaps(keep: &[RawFd]) -> impl Iterator<Item = (u32, u32)> {
    let kept = keep.iter().map(|&number| number as u32).filter(|&number| number >= FIRST_AFTER_STANDARD);
    let starts = iter::once(FIRST_AFTER_STANDARD).chain(kept.clone().map(|number| number + 1));
    let ends = kept.map(|number| number - 1).chain(iter::once(u32::MAX));
    starts.zip(ends).filter(|(first, last)| first <= last)
}

/// The descriptor after standard error.
const FIRST_AFTER_STANDARD: u32 = 3;

/// Exit status of a Rust program that panicked.
const PANICKED: i32 = 101;

#[cfg(test)]
mod tests {
    use super::*;

    /// Kept descriptors, and the ranges of the others.
    type GapsCase<'a> = (&'a [RawFd], &'a [(u32, u32)]);

    #[test]
    fn gaps_are_all_descriptors_but_the_kept_and_the_standard_ones() {
        #[rustfmt::skip]
        let cases: &[GapsCase<'_>] = &[
            (&[],           &[(3, u32::MAX)]),
            (&[3],          &[(4, u32::MAX)]),
            (&[0, 5, 5, 9], &[(3, 4), (6, 8), (10, u32::MAX)]),
            (&[3, 4],       &[(5, u32::MAX)]),
        ];
        for (keep, want) in cases {
            assert_eq!(gaps(keep).collect::<Vec<_>>(), *want, "{keep:?}");
        }
    }
}
