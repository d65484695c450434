//! Accepts from a listener that was reported ready, which may be out of date.

use crate::{data::worker::Worker, sys::socket};
use rustix::io::{Errno, ioctl_fionbio};
use std::{io, os::fd::OwnedFd};

/// Limit of connections accepted in a row, so that open connections wait for few others during a flood. More gain nothing: one more wait for
/// so many costs less than a hundredth of what they cost.
pub(super) const ACCEPT_MAX: usize = 8;

/// Makes the listeners non-blocking. They are shared with other processes, and an earlier server on io_uring has made them blocking.
pub(super) fn set_nonblocking(listeners: &[OwnedFd]) -> io::Result<()> {
    listeners.iter().try_for_each(|listener| Ok(ioctl_fionbio(listener, true)?))
}

/// A connection that was accepted.
#[derive(Debug)]
pub(crate) struct AcceptedSocket {
    pub(crate) fd: OwnedFd,
    /// The number of its listener.
    pub(crate) listener: usize,
}

/// Accepts the next client of a listener. `None`: no client waits, or the worker backs off for lack of descriptors.
///
/// # Errors
/// The listener is unusable.
pub(super) fn accept<S: Default>(worker: &mut Worker<S>, number: usize) -> io::Result<Option<OwnedFd>> {
    while let Some(listener) = worker.listeners.get(number).filter(|_| worker.may_accept()) {
        match socket::accept(listener) {
            Ok(fd) => return Ok(Some(fd)),
            Err(Errno::AGAIN) => break,
            Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => worker.back_off_accepting(),
            Err(error) if is_fatal(error) => return Err(error.into()),
            // The client has gone already, or accept(2) reports an error of this client's network.
            Err(_) => {}
        }
    }
    Ok(None)
}

/// Returns whether an error of accept means that the listener itself is unusable.
pub(crate) fn is_fatal(error: Errno) -> bool {
    matches!(error, Errno::BADF | Errno::INVAL | Errno::NOTSOCK | Errno::FAULT)
}
