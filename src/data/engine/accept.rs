//! Accepting from a listener that was told to be ready, which may be untrue by now.

use crate::{data::worker::Worker, sys::socket};
use rustix::io::{Errno, ioctl_fionbio};
use std::{io, os::fd::OwnedFd};

/// Accepting must not wait. Listeners are shared, with other processes too, and a server on io_uring before this one has made
/// them wait.
pub(super) fn set_nonblocking(listeners: &[OwnedFd]) -> io::Result<()> {
    listeners.iter().try_for_each(|listener| Ok(ioctl_fionbio(listener, true)?))
}

/// Whoever waits at a listener. `None`: nobody does any more, or there are no descriptors for him, and the gate is shut.
///
/// # Errors
/// The listener is of no use.
pub(super) fn accept<S: Default>(worker: &mut Worker<S>, number: usize) -> io::Result<Option<OwnedFd>> {
    while let Some(listener) = worker.listeners.get(number).filter(|_| worker.may_accept()) {
        match socket::accept(listener) {
            Ok(fd) => return Ok(Some(fd)),
            Err(Errno::AGAIN) => break,
            Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => worker.back_off_accepting(),
            Err(error) if is_fatal(error) => return Err(error.into()),
            // The client has gone again, or accept(2) reports an error of the network that is its own.
            Err(_) => {}
        }
    }
    Ok(None)
}

/// Whether an error of accept means that the listener itself is unusable.
pub(crate) fn is_fatal(error: Errno) -> bool {
    matches!(error, Errno::BADF | Errno::INVAL | Errno::NOTSOCK | Errno::FAULT)
}
