//! Sockets: what each kind of BSD has of its own, and what all of them lack.

pub(crate) use super::kind::socket::{
    FOR_US, QUIET, RDHUP, SPREADS, accept, accept_to_wait, is_listening, pair, send_file, share_port, stream,
    unacked,
};

use rustix::net::SendFlags;
use std::{io, os::unix::net::SocketAddr};

/// More is sent at once; nothing can be told of that.
pub(crate) const MORE: SendFlags = SendFlags::empty();

/// The address of a Unix socket that has a name of its own, and none in the file system: there are none such.
pub(crate) fn abstract_address(_name: &[u8]) -> io::Result<SocketAddr> {
    Err(io::ErrorKind::Unsupported.into())
}
