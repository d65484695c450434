//! Sockets made with calls that take no flags: each is set up afterwards, by calls of its own. A process that is divided in between has one
//! descriptor too many; it closes that with all others.

use rustix::{
    io::{Errno, FdFlags, fcntl_setfd, ioctl_fionbio},
    net::{
        self, AddressFamily, SocketFlags, SocketType, socketpair,
        sockopt::{set_socket_recv_buffer_size, set_socket_send_buffer_size},
    },
};
use std::os::fd::{AsFd, OwnedFd};

/// Bytes of a message between two sockets of a [pair], at most.
const MESSAGE_LEN_MAX: usize = 256 * 1024;

/// A socket for streams, which does not wait.
pub(crate) fn stream(family: AddressFamily) -> Result<OwnedFd, Errno> {
    set_up(net::socket(family, SocketType::STREAM, None)?, true)
}

/// Two sockets connected to each other, which keep messages apart, and wait.
pub(crate) fn pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::empty(), None)?;
    for socket in [&ours, &theirs] {
        // What is sent at once has to fit.
        set_socket_send_buffer_size(socket, MESSAGE_LEN_MAX)?;
        set_socket_recv_buffer_size(socket, MESSAGE_LEN_MAX)?;
    }
    Ok((set_up(ours, false)?, set_up(theirs, false)?))
}

/// The next client, on a socket that does not wait.
pub(crate) fn accept(listener: impl AsFd) -> Result<OwnedFd, Errno> {
    set_up(net::accept(listener)?, true)
}

/// The next client, on a socket that waits, whatever its listener does.
pub(crate) fn accept_blocking(listener: impl AsFd) -> Result<OwnedFd, Errno> {
    set_up(net::accept(listener)?, false)
}

fn set_up(socket: OwnedFd, is_nonblocking: bool) -> Result<OwnedFd, Errno> {
    fcntl_setfd(&socket, FdFlags::CLOEXEC)?;
    ioctl_fionbio(&socket, is_nonblocking)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::{
        fs::{OFlags, fcntl_getfl},
        io::fcntl_getfd,
        net::{RecvFlags, SendFlags, bind, listen, recv, send},
    };
    use std::net::{Ipv4Addr, SocketAddr, TcpStream};

    #[test]
    fn no_socket_is_for_another_program_and_each_waits_or_not_as_is_said() {
        let listener = stream(AddressFamily::INET).unwrap();
        bind(&listener, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
        listen(&listener, 8).unwrap();
        assert_eq!(accept(&listener).unwrap_err(), Errno::AGAIN, "it does not wait");
        let address = SocketAddr::try_from(net::getsockname(&listener).unwrap()).unwrap();
        let _clients = [TcpStream::connect(address).unwrap(), TcpStream::connect(address).unwrap()];
        let (nonblocking, blocking) = (accept(&listener).unwrap(), accept_blocking(&listener).unwrap());
        let (ours, theirs) = pair().unwrap();
        for (name, socket, is_nonblocking) in [
            ("a listener", &listener, true),
            ("a client", &nonblocking, true),
            ("a client to wait for", &blocking, false),
            ("one end", &ours, false),
            ("the other", &theirs, false),
        ] {
            assert!(fcntl_getfd(socket).unwrap().contains(FdFlags::CLOEXEC), "{name}");
            assert_eq!(fcntl_getfl(socket).unwrap().contains(OFlags::NONBLOCK), is_nonblocking, "{name}");
        }
    }

    #[test]
    fn a_pair_keeps_messages_apart_up_to_a_long_one() {
        let (ours, theirs) = pair().unwrap();
        let long = vec![b'x'; 64 * 1024];
        let mut room = vec![0; 2 * long.len()];
        for message in [&b"one"[..], b"another", &long] {
            send(&ours, message, SendFlags::empty()).unwrap();
        }
        for message in [&b"one"[..], b"another", &long] {
            let (len, _) = recv(&theirs, &mut room[..], RecvFlags::empty()).unwrap();
            assert_eq!(&room[..len], message);
        }
    }
}
