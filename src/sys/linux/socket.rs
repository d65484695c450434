//! Sockets, as Linux makes them, sends on them and tells of them.

use rustix::{
    fs::sendfile,
    io::Errno,
    ioctl::{Getter, Opcode, ioctl},
    net::{
        AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, accept_with, socket_with, socketpair,
        sockopt::{set_socket_reuseport, socket_acceptconn},
    },
};
use std::{
    ffi::{c_int, c_short},
    io,
    os::{
        fd::{AsFd, OwnedFd},
        linux::net::SocketAddrExt,
        unix::net::SocketAddr,
    },
};

/// Without a signal, if nobody reads.
pub(crate) const NO_SIGNAL: SendFlags = SendFlags::NOSIGNAL;

/// More is sent at once: what goes now may wait for it, to share a segment.
pub(crate) const MORE: SendFlags = SendFlags::MORE;

/// No program run later has the descriptors that come.
pub(crate) const CLOSE_ON_EXEC: RecvFlags = RecvFlags::CMSG_CLOEXEC;

/// Told by poll(2): the other side has closed its direction.
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

/// The address of a Unix socket that has a name of its own, and none in the file system.
pub(crate) fn abstract_address(name: &[u8]) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(name)
}

/// Others may listen at the same port, if they ask for that too.
pub(crate) fn share_port(socket: impl AsFd) -> Result<(), Errno> {
    set_socket_reuseport(socket, true)
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
#[inline]
pub(crate) fn send_file(socket: impl AsFd, file: impl AsFd, at: u64, len: usize) -> Result<usize, Errno> {
    let mut at = at;
    sendfile(socket, file, Some(&mut at), len)
}

/// Bytes that were sent on a socket and have not been acknowledged. 0 where the kernel does not tell.
pub(crate) fn unacked(socket: impl AsFd) -> u64 {
    // SAFETY: the kernel answers with one `int`, for every kind of socket: tcp(7) and unix(7), SIOCOUTQ, which has the
    // number of TIOCOUTQ.
    let unacked = unsafe { ioctl(socket, Getter::<SIOCOUTQ, c_int>::new()) };
    unacked.ok().and_then(|len| len.try_into().ok()).unwrap_or(0)
}

const SIOCOUTQ: Opcode = libc::TIOCOUTQ as Opcode;

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::{Read, Write},
        net::{TcpListener, TcpStream},
    };

    #[test]
    fn what_a_client_has_no_room_for_is_not_acknowledged() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        assert_eq!(unacked(&server), 0);
        server.set_nonblocking(true).unwrap();
        let mut sent = 0;
        while let Ok(len) = server.write(&[0; 64 * 1024]) {
            sent += len as u64;
        }
        let before = unacked(&server);
        assert!((1..sent).contains(&before), "{before} of {sent}");
        client.read_exact(&mut vec![0; before as usize]).unwrap();
        assert!(unacked(&server) < before);
    }
}
