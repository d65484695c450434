//! Forks a child with a name and a channel to its parent.

use super::channel::Channel;
use crate::sys::process::{SingleThreaded, set_name};
use rustix::process::Pid;
use std::{
    ffi::CStr,
    io,
    os::fd::{AsFd, AsRawFd, RawFd},
};

/// Forks a child, which inherits the descriptors `keep` and exits with the status that `main` returns. The first end of the [`Channel`] is
/// for this process, the other for the child. Returns the process ID of the child, and this end.
///
/// # Errors
/// The process limit is reached, or the process is out of memory.
pub(crate) fn fork(
    single_threaded: &SingleThreaded,
    name: &'static CStr,
    (channel, theirs): (Channel, Channel),
    mut keep: Vec<RawFd>,
    main: impl FnOnce(Channel) -> i32,
) -> io::Result<(Pid, Channel)> {
    keep.push(theirs.as_fd().as_raw_fd());
    let pid = single_threaded.spawn(&mut keep, || {
        set_name(name);
        main(theirs)
    })?;
    Ok((pid, channel))
}
