//! Starts the successor: the program file, with the arguments of this program.

use super::VARIABLE;
use crate::control::{process::channel::Channel, systemd};
use rustix::{
    io::{FdFlags, fcntl_setfd},
    process::Pid,
};
use std::{
    env, io,
    os::{
        fd::{AsFd, AsRawFd},
        unix::process::CommandExt,
    },
    path::Path,
    process::Command,
};

/// Starts a program. Returns its process ID and the channel to it.
///
/// # Errors
/// The program cannot be started.
pub(in crate::control) fn start(program: &Path) -> io::Result<(Pid, Channel)> {
    let (channel, theirs) = Channel::pair()?;
    // This process starts no other program before it closes this end.
    fcntl_setfd(&theirs, FdFlags::empty())?;
    let mut arguments = env::args_os();
    let mut command = Command::new(program);
    command.arg0(arguments.next().unwrap_or_else(|| program.into())).args(arguments);
    for variable in systemd::LISTEN_VARIABLES {
        command.env_remove(variable);
    }
    command.env(VARIABLE, theirs.as_fd().as_raw_fd().to_string());
    // The standard library unblocks all signals for the new program.
    let spawned = command.spawn()?;
    Ok((Pid::from_child(&spawned), channel))
}
