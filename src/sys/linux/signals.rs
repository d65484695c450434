//! Signals as a pollable descriptor: signalfd(2).

use rustix::{
    io::{Errno, read},
    process::Signal,
};
use std::{
    io, mem,
    os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd},
    ptr,
};

/// Blocked signals, read from a descriptor.
#[derive(Debug)]
pub(crate) struct Signals(OwnedFd);

impl Signals {
    /// Blocks these signals so that they can be read. Threads and children started later inherit the block.
    pub(crate) fn block(signals: &[Signal]) -> io::Result<Signals> {
        let set = set_of(signals);
        // SAFETY: the set lives during both calls; -1 asks for a new descriptor, which nobody else has.
        unsafe {
            match libc::pthread_sigmask(libc::SIG_BLOCK, &set, ptr::null_mut()) {
                0 => {}
                code => return Err(io::Error::from_raw_os_error(code)),
            }
            match libc::signalfd(-1, &set, libc::SFD_NONBLOCK | libc::SFD_CLOEXEC) {
                -1 => Err(io::Error::last_os_error()),
                descriptor => Ok(Signals(OwnedFd::from_raw_fd(descriptor))),
            }
        }
    }

    /// Returns the next pending signal.
    pub(crate) fn next(&self) -> io::Result<Option<Signal>> {
        let mut info = [0; size_of::<libc::signalfd_siginfo>()];
        match read(&self.0, &mut info) {
            // Its number is the first field.
            Ok(_) => {
                let number = i32::from_ne_bytes(info[..4].try_into().expect("four bytes"));
                Ok(Signal::from_named_raw(number))
            }
            Err(Errno::AGAIN) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Ends this process by the default action of a signal.
pub(crate) fn die_of(signal: Signal) -> ! {
    // SAFETY: restores the default action, unblocks the signal and raises it. The set lives during the call.
    unsafe {
        libc::signal(signal.as_raw(), libc::SIG_DFL);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &set_of(&[signal]), ptr::null_mut());
        libc::raise(signal.as_raw());
    }
    std::process::exit(128 + signal.as_raw())
}

fn set_of(signals: &[Signal]) -> libc::sigset_t {
    // SAFETY: a set of zeros is valid to be emptied, and these are signals that there are.
    unsafe {
        let mut set = mem::zeroed();
        libc::sigemptyset(&mut set);
        for signal in signals {
            libc::sigaddset(&mut set, signal.as_raw());
        }
        set
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
