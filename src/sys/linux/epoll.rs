//! epoll(7), as thin functions: debug builds [`inject`] faults here.

pub(crate) use rustix::event::epoll::{Event, EventData, EventFlags};

use crate::sys::inject::{self, Call};
use rustix::{
    event::{
        Timespec,
        epoll::{self, CreateFlags},
    },
    io::Errno,
};
use std::os::fd::{BorrowedFd, OwnedFd};

/// Creates a set of descriptors to watch.
pub(crate) fn create() -> Result<OwnedFd, Errno> {
    epoll::create(CreateFlags::CLOEXEC)
}

/// Watches a descriptor.
#[inline(always)]
pub(crate) fn add(
    epoll: &OwnedFd,
    descriptor: BorrowedFd<'_>,
    data: EventData,
    flags: EventFlags,
) -> Result<(), Errno> {
    inject::watched(descriptor, data, flags);
    epoll::add(epoll, descriptor, data, flags)
}

/// Changes what is reported of a watched descriptor. The present state counts as a change.
#[cold]
pub(crate) fn modify(
    epoll: &OwnedFd,
    descriptor: BorrowedFd<'_>,
    data: EventData,
    flags: EventFlags,
) -> Result<(), Errno> {
    inject::watched(descriptor, data, flags);
    epoll::modify(epoll, descriptor, data, flags)
}

/// Stops watching a descriptor.
#[inline(always)]
pub(crate) fn delete(epoll: &OwnedFd, descriptor: BorrowedFd<'_>) -> Result<(), Errno> {
    epoll::delete(epoll, descriptor)
}

/// Waits for events for at most `time`. Returns how many of `events` are set.
#[inline(always)]
pub(crate) fn wait(epoll: &OwnedFd, events: &mut [Event], time: Option<&Timespec>) -> Result<usize, Errno> {
    inject::raise_edges(epoll);
    let count = inject::before(Call::Wait, epoll, events.len())?;
    epoll::wait(epoll, &mut events[..count], time)
}
