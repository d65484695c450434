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

/// Without a signal, if nobody reads.
pub(crate) const NO_SIGNAL: SendFlags = SendFlags::NOSIGNAL;

/// No program run later has the descriptors that come.
pub(crate) const CLOSE_ON_EXEC: RecvFlags = RecvFlags::CMSG_CLOEXEC;

/// Told by poll(2): the other side has closed its direction. FreeBSD 14; older ones do not tell.
pub(crate) const RDHUP: c_short = libc::POLLRDHUP;

/// Of sockets that [share](share_port) a port each has clients of its own.
pub(crate) const PORTS_BALANCE: bool = true;

/// A socket for streams, which does not wait.
pub(crate) fn stream(family: AddressFamily) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(family, SocketType::STREAM, flags, None)
}

/// Two sockets connected to each other, which keep messages apart, and wait.
pub(crate) fn pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

/// Others may listen at the same port, if they ask for that too.
pub(crate) fn share_port(socket: impl AsFd) -> Result<(), Errno> {
    set_socket_reuseport_lb(socket, true)
}

/// The next client, on a socket that does not wait.
#[inline]
pub(crate) fn accept(listener: impl AsFd) -> Result<OwnedFd, Errno> {
    accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)
}

/// The next client, on a socket that waits.
pub(crate) fn accept_blocking(listener: impl AsFd) -> Result<OwnedFd, Errno> {
    accept_with(listener, SocketFlags::CLOEXEC)
}

/// Whether clients can connect to it.
pub(crate) fn is_listening(socket: impl AsFd) -> Result<bool, Errno> {
    socket_acceptconn(socket)
}

/// Sends a stretch of a file, or the front of it. 0: there is nothing.
pub(crate) fn send_file(socket: impl AsFd, file: impl AsFd, at: u64, len: usize) -> Result<usize, Errno> {
    let (file, socket) = (file.as_fd().as_raw_fd(), socket.as_fd().as_raw_fd());
    let mut sent = 0;
    // SAFETY: both descriptors live during the call, which writes how much it has sent, and neither reads headers nor trailers.
    let done = unsafe { libc::sendfile(file, socket, at as libc::off_t, len, ptr::null_mut(), &mut sent, 0) };
    // What was sent before it had to stop was sent.
    match done == 0 || sent > 0 {
        true => Ok(sent as usize),
        false => Err(errno()),
    }
}

/// Bytes that were sent on a socket and have not been acknowledged. 0 where the kernel does not tell.
pub(crate) fn unacked(socket: impl AsFd) -> u64 {
    const FIONWRITE: Opcode = libc::FIONWRITE as Opcode;
    // SAFETY: the kernel answers with one `int`.
    let unacked = unsafe { ioctl(socket, Getter::<FIONWRITE, c_int>::new()) };
    unacked.ok().and_then(|len| len.try_into().ok()).unwrap_or(0)
}

fn errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}
