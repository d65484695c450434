//! Sockets: the calls of each BSD, and stand-ins for features that all of them lack.

pub(crate) use super::kind::socket::{
    CLOSE_ON_EXEC, NO_SIGNAL, PORTS_BALANCE, RDHUP, accept, accept_blocking, is_listening, pair, send_file,
    share_port, stream, unacked,
};

use rustix::net::SendFlags;
use std::{io, os::unix::net::SocketAddr};

/// More bytes follow at once: no flag for that here.
pub(crate) const MORE: SendFlags = SendFlags::empty();

/// Fails: abstract Unix socket addresses exist on Linux only.
pub(crate) fn abstract_address(_name: &[u8]) -> io::Result<SocketAddr> {
    Err(io::ErrorKind::Unsupported.into())
}
