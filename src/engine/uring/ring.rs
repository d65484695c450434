//! The ring: what is asked of the kernel, and what it has done.
//!
//! Everything unsafe about submitting is here: an entry names memory that must stay where it is until the entry has
//! completed. It lies in [`Buffers`] and [`Letters`], which outlive the ring's last completion, and in images and pool
//! buffers, which an outbox holds until the engine reports them sent.
//!
//! [`Letters`]: super::letters::Letters

use super::{buffers::Buffers, letters::Letter};
use io_uring::{
    IoUring, cqueue, opcode, squeue,
    types::{self, CancelBuilder, Fd, SubmitArgs},
};
use rustix::io::Errno;
use std::{
    io,
    os::fd::{AsFd, AsRawFd},
};

/// Submissions and completions of one worker.
pub(super) struct Ring {
    ring: IoUring,
    /// Memory that is received into.
    pub(super) buffers: Buffers,
    /// Entries whose last completion has not been seen.
    pending: usize,
}

/// What a completion completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// A client was accepted at the listener of this number.
    Accept(u32),
    /// Bytes have arrived for the slot of this number.
    Receive(u32),
    /// Bytes of the slot have left.
    Send(u32),
    /// The slot's socket has room.
    Room(u32),
    /// There is mail.
    Mail,
    /// Something was cancelled: its own completion tells.
    Cancel,
}

/// One completion.
pub(super) struct Done {
    pub(super) act: Act,
    pub(super) result: Result<u32, Errno>,
    /// The buffer that was received into, to be given back.
    pub(super) buffer: Option<u16>,
    /// More completions of the same entry follow.
    pub(super) more: bool,
}

impl Ring {
    /// A ring with all that the engine needs: Linux 6.1.
    ///
    /// # Errors
    /// The kernel is older, or the host forbids it.
    pub(super) fn new() -> io::Result<Ring> {
        let ring: IoUring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_cqsize(COMPLETION_COUNT)
            .build(SUBMISSION_COUNT)?;
        let buffers = Buffers::new();
        // SAFETY: the ring of entries has the length told, and `finish` sees the last completion before it is freed.
        unsafe {
            ring.submitter().register_buf_ring_with_flags(buffers.address(), Buffers::COUNT, GROUP, 0)?
        };
        Ok(Ring { ring, buffers, pending: 0 })
    }

    /// Submits what was asked for and waits for a completion, at most `wait_ms`. `None`: for ever.
    pub(super) fn wait(&mut self, wait_ms: Option<u64>) -> io::Result<()> {
        self.buffers.publish();
        let entered = match wait_ms {
            None => self.ring.submit_and_wait(1),
            Some(ms) => {
                let time = types::Timespec::new().sec(ms / 1_000).nsec((ms % 1_000) as u32 * 1_000_000);
                self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&time))
            }
        };
        match entered {
            Ok(_) => Ok(()),
            Err(error) => match Errno::from_io_error(&error) {
                // The time is over; a signal; more completions than fit, which the next call brings.
                Some(Errno::TIME | Errno::INTR | Errno::BUSY | Errno::AGAIN) => Ok(()),
                _ => Err(error),
            },
        }
    }

    /// The next completion, if there is one already.
    pub(super) fn next(&mut self) -> Option<Done> {
        let entry = self.ring.completion().next()?;
        let more = cqueue::more(entry.flags());
        self.pending -= usize::from(!more);
        let result = u32::try_from(entry.result()).map_err(|_| Errno::from_raw_os_error(-entry.result()));
        Some(Done {
            act: Act::from(entry.user_data()),
            result,
            buffer: cqueue::buffer_select(entry.flags()),
            more,
        })
    }

    /// Accepts every client of a listener.
    pub(super) fn accept(&mut self, number: u32, listener: impl AsFd) -> io::Result<()> {
        let fd = Fd(listener.as_fd().as_raw_fd());
        self.push(opcode::AcceptMulti::new(fd).flags(libc::SOCK_CLOEXEC).build(), Act::Accept(number))
    }

    /// Receives all that arrives, each time into a provided buffer.
    pub(super) fn receive(&mut self, slot: u32, socket: impl AsFd) -> io::Result<()> {
        let fd = Fd(socket.as_fd().as_raw_fd());
        self.push(opcode::RecvMulti::new(fd, GROUP).build(), Act::Receive(slot))
    }

    /// Sends a letter, once.
    ///
    /// The caller keeps it, and all that it names, until this has completed.
    pub(super) fn send(
        &mut self,
        slot: u32,
        socket: impl AsFd,
        letter: &Letter,
        more: bool,
    ) -> io::Result<()> {
        let fd = Fd(socket.as_fd().as_raw_fd());
        let flags = libc::MSG_NOSIGNAL | if more { libc::MSG_MORE } else { 0 };
        let entry = match letter.message() {
            None => {
                let bytes = letter.bytes();
                opcode::Send::new(fd, bytes.as_ptr(), bytes.len() as u32).flags(flags).build()
            }
            Some(message) => opcode::SendMsg::new(fd, message).flags(flags as u32).build(),
        };
        self.push(entry, Act::Send(slot))
    }

    /// Waits for room in a socket.
    pub(super) fn room(&mut self, slot: u32, socket: impl AsFd) -> io::Result<()> {
        let fd = Fd(socket.as_fd().as_raw_fd());
        self.push(opcode::PollAdd::new(fd, libc::POLLOUT as u32).build(), Act::Room(slot))
    }

    /// Waits for mail, again and again.
    pub(super) fn mail(&mut self, mailbox: impl AsFd) -> io::Result<()> {
        let fd = Fd(mailbox.as_fd().as_raw_fd());
        self.push(opcode::PollAdd::new(fd, libc::POLLIN as u32).multi(true).build(), Act::Mail)
    }

    /// Ends what was begun and has not completed; it then completes, if it has not just done so.
    pub(super) fn cancel(&mut self, act: Act) -> io::Result<()> {
        self.push(opcode::AsyncCancel::new(act.into()).build(), Act::Cancel)
    }

    /// Cancels everything, and sees each entry complete: the kernel then touches none of our memory.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        self.ring.submitter().submit()?;
        match self.ring.submitter().register_sync_cancel(None, CancelBuilder::any()) {
            Err(error) if Errno::from_io_error(&error) != Some(Errno::NOENT) => return Err(error),
            _ => {}
        }
        while self.pending > 0 {
            self.wait(None)?;
            while let Some(done) = self.next() {
                if let Some(buffer) = done.buffer {
                    self.buffers.give(buffer);
                }
                // Accepted too late to be served.
                if let (Act::Accept(_), Ok(fd)) = (done.act, done.result) {
                    drop(super::accepted(fd));
                }
            }
        }
        Ok(())
    }

    fn push(&mut self, entry: squeue::Entry, act: Act) -> io::Result<()> {
        let entry = entry.user_data(act.into());
        // SAFETY: what the entry names stays: see the module. A descriptor named by it is open, and if it is closed
        // before the kernel looks, the entry fails or is about nothing of ours.
        while unsafe { self.ring.submission().push(&entry) }.is_err() {
            self.ring.submitter().submit()?;
        }
        self.pending += 1;
        Ok(())
    }
}

impl From<Act> for u64 {
    fn from(act: Act) -> u64 {
        let (kind, number) = match act {
            Act::Accept(number) => (0, number),
            Act::Receive(slot) => (1, slot),
            Act::Send(slot) => (2, slot),
            Act::Room(slot) => (3, slot),
            Act::Mail => (4, 0),
            Act::Cancel => (5, 0),
        };
        kind << 32 | u64::from(number)
    }
}

impl From<u64> for Act {
    #[inline]
    fn from(data: u64) -> Act {
        let number = data as u32;
        match data >> 32 {
            0 => Act::Accept(number),
            1 => Act::Receive(number),
            2 => Act::Send(number),
            3 => Act::Room(number),
            4 => Act::Mail,
            _ => Act::Cancel,
        }
    }
}

/// Submissions before the kernel must be called: more than one batch asks for.
const SUBMISSION_COUNT: u32 = 1024;

/// Completions that may wait in the ring; more wait in the kernel.
const COMPLETION_COUNT: u32 = 16 * 1024;

/// The only group of provided buffers.
const GROUP: u16 = 0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_act_comes_back_as_it_was_asked() {
        for act in
            [Act::Accept(7), Act::Receive(0), Act::Send(u32::MAX), Act::Room(1 << 31), Act::Mail, Act::Cancel]
        {
            assert_eq!(Act::from(u64::from(act)), act);
        }
    }
}
