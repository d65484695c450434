//! The port of a server that a test starts later.

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with, sockopt};
use std::{
    net::{Ipv4Addr, SocketAddr},
    os::fd::OwnedFd,
};

/// A local TCP address that no other program gets until this value is dropped: not before the server of the test binds the port, and not
/// after the server has closed it.
///
/// The value holds a bound socket that does not listen. On Linux, another socket can then listen at the address if both have
/// `SO_REUSEADDR`, and the kernel gives the port to no program that asks for any port.
pub(crate) struct ReservedPort {
    pub(crate) address: SocketAddr,
    _socket: Option<OwnedFd>,
}

impl ReservedPort {
    pub(crate) fn new() -> ReservedPort {
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None);
        let socket = socket.expect("a socket");
        sockopt::set_socket_reuseaddr(&socket, true).expect("an option");
        bind(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("a free port");
        let address = getsockname(&socket).expect("an address").try_into().expect("an IP address");
        // Other systems let only one socket have the address.
        ReservedPort { address, _socket: cfg!(target_os = "linux").then_some(socket) }
    }
}
