//! A wake-up that any thread can trigger, as a pollable descriptor: a pipe.

use rustix::io::ioctl_fionbio;
use std::{
    io::{self, PipeReader, PipeWriter, Read, Write, pipe},
    os::fd::{AsFd, BorrowedFd},
};

/// Readable from [`wake`](Wake::wake) to [`clear`](Wake::clear).
#[derive(Debug)]
pub(crate) struct Wake {
    reader: PipeReader,
    writer: PipeWriter,
}

impl Wake {
    pub(crate) fn new() -> io::Result<Wake> {
        let (reader, writer) = pipe()?;
        ioctl_fionbio(&reader, true)?;
        ioctl_fionbio(&writer, true)?;
        Ok(Wake { reader, writer })
    }

    pub(crate) fn wake(&self) {
        // It fails only when the pipe is full, and then it is readable anyway.
        let _ = (&self.writer).write(&[0]);
    }

    pub(crate) fn clear(&self) {
        // After more wake-ups than this, the reader wakes once more for nothing.
        let _ = (&self.reader).read(&mut [0; 256]);
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    #[test]
    fn readable_from_wake_to_clear() {
        let wake = Wake::new().unwrap();
        let is_awake = || {
            poll(&mut [PollFd::new(&wake, PollFlags::IN)], Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) == Ok(1)
        };
        wake.clear();
        assert!(!is_awake(), "clear does not wait");
        // More than a pipe takes.
        for count in [1, 2, 100_000] {
            for _ in 0..count {
                wake.wake();
            }
            assert!(is_awake(), "{count}");
            while is_awake() {
                wake.clear();
            }
        }
        wake.wake();
        assert!(is_awake());
    }
}
