//! Sockets: what each kind of BSD has of its own, and what all of them lack.

pub(crate) use super::kind::socket::{
    CLOSE_ON_EXEC, NO_SIGNAL, PORTS_BALANCE, RDHUP, accept, accept_blocking, is_listening, pair, send_file,
    share_port, stream, unacked,
};

use rustix::net::SendFlags;
use std::{io, os::unix::net::SocketAddr};

/// More is sent at once; nothing can be info of that.
pub(crate) const MORE: SendFlags = SendFlags::empty();

/// The address of a Unix socket that has a name of its own, and none in the file system: there are none such.
pub(crate) fn abstract_address(_name: &[u8]) -> io::Result<SocketAddr> {
    Err(io::ErrorKind::Unsupported.into())
}
