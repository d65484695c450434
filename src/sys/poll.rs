//! poll(2) over a list that is kept between waits. An entry holds a descriptor's number: after the descriptor is closed, the entry
//! reports an error, or events of a new descriptor with the same number.

use super::inject::{self, Call};
use rustix::io::Errno;
use std::os::fd::{AsRawFd, BorrowedFd};

/// One descriptor to poll.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct PollEntry(libc::pollfd);

/// Requested or returned events: `POLLIN`, `POLLOUT` and so on.
pub(crate) type PollEvents = libc::c_short;

impl PollEntry {
    pub(crate) fn new(descriptor: BorrowedFd<'_>, wanted: PollEvents) -> PollEntry {
        let mut entry = PollEntry(libc::pollfd { fd: descriptor.as_raw_fd(), events: 0, revents: 0 });
        entry.set_events(wanted);
        entry
    }

    /// Sets the requested events. Without any, the kernel reports nothing, not even errors.
    pub(crate) fn set_events(&mut self, wanted: PollEvents) {
        let libc::pollfd { fd, events, .. } = &mut self.0;
        let is_out = *fd < 0;
        if is_out != (wanted == 0) {
            // The kernel skips negative descriptors.
            *fd = !*fd;
        }
        *events = wanted;
    }

    /// Returns the events of the last wait.
    pub(crate) fn revents(&self) -> PollEvents {
        self.0.revents
    }
}

/// Waits for events for at most `wait_ms` milliseconds; `None`: without limit. Returns the number of ready entries.
pub(crate) fn poll(entries: &mut [PollEntry], wait_ms: Option<u64>) -> Result<usize, Errno> {
    inject::fails(Call::Wait)?;
    let wait = wait_ms.map_or(-1, |ms| i32::try_from(ms).unwrap_or(i32::MAX));
    // SAFETY: `PollEntry` is a transparent `pollfd`, the slice is exclusively borrowed during the call, and its length is given.
    let result = unsafe { libc::poll(entries.as_mut_ptr().cast(), entries.len() as libc::nfds_t, wait) };
    usize::try_from(result)
        .map_err(|_| Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{io::Write, os::fd::AsFd, os::unix::net::UnixStream};

    #[test]
    fn only_requested_events_are_reported() {
        let (mut near, far) = UnixStream::pair().unwrap();
        let mut entries = [PollEntry::new(far.as_fd(), libc::POLLIN)];
        assert_eq!(poll(&mut entries, Some(0)), Ok(0));
        near.write_all(b"x").unwrap();
        assert_eq!(poll(&mut entries, None), Ok(1));
        assert_eq!(entries[0].revents(), libc::POLLIN);

        drop(near);
        entries[0].set_events(libc::POLLOUT);
        assert_eq!(poll(&mut entries, None), Ok(1));
        assert_ne!(entries[0].revents() & libc::POLLHUP, 0, "errors are reported without a request");
        entries[0].set_events(0);
        assert_eq!(poll(&mut entries, Some(0)), Ok(0));
        entries[0].set_events(libc::POLLIN);
        assert_eq!(poll(&mut entries, Some(0)), Ok(1), "and back");
    }
}
