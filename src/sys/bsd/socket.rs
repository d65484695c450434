//! Sockets: the calls of each BSD, and stand-ins for features that all of them lack.

pub(crate) use super::kind::socket::{
    CLOSE_ON_EXEC, NO_SIGNAL, PORTS_BALANCE, RDHUP, accept, is_listening, pair, send_file, share_port,
    stream, unacked,
};

use rustix::{
    fs::Mode,
    io::Errno,
    net::{SendFlags, SocketAddrUnix, bind},
    process::{Pid, umask},
};
use std::{
    io,
    os::{fd::AsFd, unix::net::SocketAddr},
};

/// The systems tell the user of a peer, but not its process.
pub(crate) fn peer_process(_socket: impl AsFd) -> Option<Pid> {
    None
}

/// More bytes follow at once: no flag for that here.
pub(crate) const MORE: SendFlags = SendFlags::empty();

/// Binds a Unix socket whose file gets no permission that `mode` lacks, at no time.
pub(crate) fn bind_with_mode(socket: impl AsFd, address: &SocketAddrUnix, mode: u32) -> Result<(), Errno> {
    // fchmod(2) has no effect on a socket here. The supervisor has a single thread, so no other one creates a file meanwhile.
    let before = umask(Mode::from_bits_truncate(!mode as _));
    let bound = bind(socket, address);
    umask(before);
    bound
}

/// Fails: abstract Unix socket addresses exist on Linux only.
pub(crate) fn abstract_address(_name: &[u8]) -> io::Result<SocketAddr> {
    Err(io::ErrorKind::Unsupported.into())
}

/// The systems have no common limit; their buffers of a socket are smaller than those of Linux.
pub(crate) fn limit_unsent(_: impl AsFd, _len: u32) -> Result<(), Errno> {
    Err(Errno::OPNOTSUPP)
}

/// The systems have filters in its place, which an administrator loads.
pub(crate) fn hold_silent(_: impl AsFd, _holds: bool) -> Result<(), Errno> {
    Err(Errno::OPNOTSUPP)
}

/// There is none: each of them has an option of its own, with other rules.
pub(crate) fn set_fast_open(_: impl AsFd, _pending_max: u32) -> Result<(), Errno> {
    Err(Errno::OPNOTSUPP)
}
