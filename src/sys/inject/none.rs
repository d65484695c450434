//! No fault injection. After inlining nothing is left of these functions: the compiler knows their results.

use super::Call;
use rustix::io::Errno;
use std::{io, os::fd::AsFd, time::Duration};

/// Does nothing.
#[inline(always)]
pub(crate) fn init() -> io::Result<()> {
    Ok(())
}

/// Does nothing.
#[inline(always)]
pub(crate) fn update_clock_offset() {}

/// Returns zero.
#[inline(always)]
pub(crate) fn clock_offset() -> Duration {
    Duration::ZERO
}

/// Returns `true`.
#[inline(always)]
pub(crate) fn compresses() -> bool {
    true
}

/// Returns `len`.
#[inline(always)]
pub(crate) fn before(_: Call, _: impl AsFd, len: usize) -> Result<usize, Errno> {
    Ok(len)
}

/// Returns `Ok`.
#[inline(always)]
pub(crate) fn fails(_: Call) -> Result<(), Errno> {
    Ok(())
}

/// Nothing: a child injects no faults either.
pub(crate) struct NoStream;

impl NoStream {
    /// Does nothing.
    #[inline(always)]
    pub(crate) fn enter(self) {}
}

/// Returns nothing for a child.
#[inline(always)]
pub(crate) fn child_stream() -> NoStream {
    NoStream
}

#[cfg(target_os = "linux")]
mod linux {
    use super::{AsFd, Call, Errno};
    use rustix::event::epoll::{EventData, EventFlags};
    use std::os::fd::RawFd;

    /// Returns `None`.
    #[inline(always)]
    pub(crate) fn short_len(_: Call, _: impl FnOnce() -> usize) -> Option<usize> {
        None
    }

    /// Returns the descriptor of a ring's entry unchanged.
    #[inline(always)]
    pub(crate) fn entry(_: Call, _: u64, descriptor: RawFd) -> RawFd {
        descriptor
    }

    /// Returns the result of a completion unchanged.
    #[inline(always)]
    pub(crate) fn completed(_: u64, result: Result<u32, Errno>) -> Result<u32, Errno> {
        result
    }

    /// Does nothing.
    #[inline(always)]
    pub(crate) fn watched(_: impl AsFd, _: EventData, _: EventFlags) {}

    /// Does nothing.
    #[inline(always)]
    pub(crate) fn raise_edges(_: impl AsFd) {}
}
#[cfg(target_os = "linux")]
pub(crate) use linux::{completed, entry, raise_edges, short_len, watched};
