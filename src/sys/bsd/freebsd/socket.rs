//! accept4(2), sendfile(2), `SO_REUSEPORT_LB`, `FIONWRITE`.

use rustix::{
    io::Errno,
    ioctl::{Getter, Opcode, ioctl},
    net::{
        AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, accept_with, socket_with, socketpair,
        sockopt::{set_socket_reuseport_lb, socket_acceptconn},
    },
};
use std::{
    ffi::{c_int, c_short},
    os::fd::{AsFd, AsRawFd, OwnedFd},
    ptr,
};

/// No SIGPIPE if the peer has closed.
pub(crate) const NO_SIGNAL: SendFlags = SendFlags::NOSIGNAL;

/// Received descriptors are close-on-exec.
pub(crate) const CLOSE_ON_EXEC: RecvFlags = RecvFlags::CMSG_CLOEXEC;

/// Reported by poll(2): the peer has closed its direction. FreeBSD 14 and later.
pub(crate) const RDHUP: c_short = libc::POLLRDHUP;

/// The kernel balances clients over sockets that [share a port](share_port).
pub(crate) const PORTS_BALANCE: bool = true;

/// Creates a non-blocking stream socket.
pub(crate) fn stream(family: AddressFamily) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(family, SocketType::STREAM, flags, None)
}

/// Creates two connected, blocking sockets that preserve message boundaries.
pub(crate) fn pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

/// Lets other sockets listen at the same port, if they set this too.
pub(crate) fn share_port(socket: impl AsFd) -> Result<(), Errno> {
    set_socket_reuseport_lb(socket, true)
}

/// Accepts the next client, as a non-blocking socket.
#[inline]
pub(crate) fn accept(listener: impl AsFd) -> Result<OwnedFd, Errno> {
    accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)
}

/// Returns whether the socket listens.
pub(crate) fn is_listening(socket: impl AsFd) -> Result<bool, Errno> {
    socket_acceptconn(socket)
}

/// Sends the front of a file range. Returns 0 at the end of the file.
pub(crate) fn send_file(socket: impl AsFd, file: impl AsFd, at: u64, len: usize) -> Result<usize, Errno> {
    let (file, socket) = (file.as_fd().as_raw_fd(), socket.as_fd().as_raw_fd());
    let mut sent = 0;
    // SAFETY: both descriptors live during the call, which writes how much it has sent, and neither reads headers nor trailers.
    let done = unsafe { libc::sendfile(file, socket, at as libc::off_t, len, ptr::null_mut(), &mut sent, 0) };
    // A partial send counts as success.
    match done == 0 || sent > 0 {
        true => Ok(sent as usize),
        false => Err(errno()),
    }
}

/// Returns the number of sent bytes without acknowledgement; 0 if the kernel does not report it.
pub(crate) fn unacked(socket: impl AsFd) -> u64 {
    const FIONWRITE: Opcode = libc::FIONWRITE as Opcode;
    // SAFETY: the kernel answers with one `int`.
    let unacked = unsafe { ioctl(socket, Getter::<FIONWRITE, c_int>::new()) };
    unacked.ok().and_then(|len| len.try_into().ok()).unwrap_or(0)
}

fn errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}
