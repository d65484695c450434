//! Sockets on Linux.

use crate::sys::inject::{self, Call};
use rustix::{
    fs::{Mode, fchmod, sendfile},
    io::Errno,
    ioctl::{Getter, Opcode, ioctl},
    net::{
        AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind,
        socket_with, socketpair,
        sockopt::{set_socket_reuseport, socket_acceptconn, socket_peercred},
    },
    process::Pid,
};
use std::{
    ffi::{c_int, c_short},
    io,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        linux::net::SocketAddrExt,
        unix::net::SocketAddr,
    },
};

/// No SIGPIPE if the peer has closed.
pub(crate) const NO_SIGNAL: SendFlags = SendFlags::NOSIGNAL;

/// More is sent at once: what goes now may wait for it, to share a segment.
pub(crate) const MORE: SendFlags = SendFlags::MORE;

/// Received descriptors are close-on-exec.
pub(crate) const CLOSE_ON_EXEC: RecvFlags = RecvFlags::CMSG_CLOEXEC;

/// Reported by poll(2): the peer has closed its direction.
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
    inject::fails(Call::Pair)?;
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

/// Returns the process that created a [`pair`] which its other end has passed on: `SO_PEERCRED`, unix(7).
pub(crate) fn peer_process(socket: impl AsFd) -> Option<Pid> {
    socket_peercred(socket).ok().map(|credentials| credentials.pid)
}

/// Returns an abstract Unix socket address, which has no file.
pub(crate) fn abstract_address(name: &[u8]) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(name)
}

/// Binds a Unix socket whose file gets no permission that `mode` lacks, at no time. The umask may take further ones.
pub(crate) fn bind_with_mode(socket: impl AsFd, address: &SocketAddrUnix, mode: u32) -> Result<(), Errno> {
    // The kernel gives the file the mode of the socket without the umask: `unix_bind_bsd` in net/unix/af_unix.c. The umask itself belongs to the
    // whole process, which may have threads that create files.
    fchmod(&socket, Mode::from_raw_mode(mode))?;
    bind(socket, address)
}

/// Lets other sockets listen at the same port, if they set this too.
pub(crate) fn share_port(socket: impl AsFd) -> Result<(), Errno> {
    set_socket_reuseport(socket, true)
}

/// Lets clients send with the first packet, up to this many at a time that have not proved their addresses: `TCP_FASTOPEN`, tcp(7).
pub(crate) fn set_fast_open(socket: impl AsFd, pending_max: u32) -> Result<(), Errno> {
    set_tcp_option(socket, libc::TCP_FASTOPEN, pending_max)
}

/// Has a listener hold back clients that have sent nothing for about a second, or hand over each at once: `TCP_DEFER_ACCEPT`, tcp(7).
pub(crate) fn hold_silent(listener: impl AsFd, holds: bool) -> Result<(), Errno> {
    set_tcp_option(listener, libc::TCP_DEFER_ACCEPT, holds.into())
}

/// Limits how many bytes the kernel takes beyond those on their way to the client: a send and poll(2) find the socket full from there on.
/// `TCP_NOTSENT_LOWAT`, tcp(7).
pub(crate) fn limit_unsent(socket: impl AsFd, len: u32) -> Result<(), Errno> {
    set_tcp_option(socket, libc::TCP_NOTSENT_LOWAT, len)
}

/// Returns whether [`hold_silent`] is set.
#[cfg(test)]
pub(crate) fn is_holding_silent(listener: impl AsFd) -> bool {
    tcp_option(listener, libc::TCP_DEFER_ACCEPT) > 0
}

/// Returns the limit of [`limit_unsent`].
#[cfg(test)]
pub(crate) fn unsent_max(socket: impl AsFd) -> u32 {
    tcp_option(socket, libc::TCP_NOTSENT_LOWAT)
}

/// Returns an option of TCP that is a number.
#[cfg(test)]
fn tcp_option(socket: impl AsFd, name: c_int) -> u32 {
    let (mut value, mut len) = (0, size_of::<u32>() as libc::socklen_t);
    // SAFETY: the kernel writes a number of this length, which lives through the call; the descriptor is open.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            name,
            (&raw mut value).cast(),
            &raw mut len,
        )
    };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
    value
}

/// Sets an option of TCP that is a number.
fn set_tcp_option(socket: impl AsFd, name: c_int, value: u32) -> Result<(), Errno> {
    let value = c_int::try_from(value).map_err(|_| Errno::INVAL)?;
    // SAFETY: the value is a number of this length, which lives through the call; the descriptor is open.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            name,
            (&raw const value).cast(),
            size_of::<c_int>() as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error().raw_os_error().map_or(Errno::INVAL, Errno::from_raw_os_error))
    }
}

/// Accepts the next client, as a non-blocking socket.
#[inline]
pub(crate) fn accept(listener: impl AsFd) -> Result<OwnedFd, Errno> {
    inject::fails(Call::Accept)?;
    accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)
}

/// Accepts the next client of a blocking listener, as a blocking socket.
#[inline]
pub(crate) fn accept_blocking(listener: impl AsFd) -> Result<OwnedFd, Errno> {
    inject::fails(Call::BlockingAccept)?;
    accept_with(listener, SocketFlags::CLOEXEC)
}

/// Returns whether the socket listens.
pub(crate) fn is_listening(socket: impl AsFd) -> Result<bool, Errno> {
    socket_acceptconn(socket)
}

/// Sends the front of a file range. Returns 0 at the end of the file.
#[inline]
pub(crate) fn send_file(socket: impl AsFd, file: impl AsFd, at: u64, len: usize) -> Result<usize, Errno> {
    let len = inject::before(Call::SendFile, &socket, len)?;
    let mut at = at;
    sendfile(socket, file, Some(&mut at), len)
}

/// Returns the number of sent bytes without acknowledgement; 0 if the kernel does not report it.
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
        os::unix::fs::MetadataExt,
    };

    #[test]
    fn file_of_a_bound_socket_has_no_permission_that_its_mode_lacks() {
        let dir = tempfile::tempdir().unwrap();
        for mode in [0o600, 0o400, 0o000] {
            let path = dir.path().join(mode.to_string());
            let socket = stream(AddressFamily::UNIX).unwrap();
            bind_with_mode(&socket, &SocketAddrUnix::new(&path).unwrap(), mode).unwrap();
            assert_eq!(path.symlink_metadata().unwrap().mode() & 0o777 & !mode, 0, "{mode:o}");
        }
    }

    #[test]
    fn unread_bytes_are_not_acknowledged() {
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
