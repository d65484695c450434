//! Sockets from calls without flags: close-on-exec and non-blocking mode are set afterwards. A child forked in between inherits one
//! extra descriptor, which it closes with all others.

use rustix::{
    io::{Errno, FdFlags, fcntl_setfd, ioctl_fionbio},
    net::{
        self, AddressFamily, SocketFlags, SocketType, socketpair,
        sockopt::{set_socket_recv_buffer_size, set_socket_send_buffer_size},
    },
};
use std::os::fd::{AsFd, OwnedFd};

/// Limit of a message on a socket [pair] in bytes.
const MESSAGE_LEN_MAX: usize = 256 * 1024;

/// Creates a non-blocking stream socket.
pub(crate) fn stream(family: AddressFamily) -> Result<OwnedFd, Errno> {
    set_up(net::socket(family, SocketType::STREAM, None)?, true)
}

/// Creates two connected, blocking sockets that preserve message boundaries.
pub(crate) fn pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::empty(), None)?;
    for socket in [&ours, &theirs] {
        // A whole message must fit.
        set_socket_send_buffer_size(socket, MESSAGE_LEN_MAX)?;
        set_socket_recv_buffer_size(socket, MESSAGE_LEN_MAX)?;
    }
    Ok((set_up(ours, false)?, set_up(theirs, false)?))
}

/// Accepts the next client, as a non-blocking socket.
pub(crate) fn accept(listener: impl AsFd) -> Result<OwnedFd, Errno> {
    set_up(net::accept(listener)?, true)
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
    fn sockets_are_close_on_exec_and_block_as_requested() {
        let listener = stream(AddressFamily::INET).unwrap();
        bind(&listener, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
        listen(&listener, 8).unwrap();
        assert_eq!(accept(&listener).unwrap_err(), Errno::AGAIN, "it does not wait");
        let address = SocketAddr::try_from(net::getsockname(&listener).unwrap()).unwrap();
        let _client = TcpStream::connect(address).unwrap();
        let accepted = accept(&listener).unwrap();
        let (ours, theirs) = pair().unwrap();
        for (name, socket, is_nonblocking) in [
            ("a listener", &listener, true),
            ("a client", &accepted, true),
            ("one end", &ours, false),
            ("the other", &theirs, false),
        ] {
            assert!(fcntl_getfd(socket).unwrap().contains(FdFlags::CLOEXEC), "{name}");
            assert_eq!(fcntl_getfl(socket).unwrap().contains(OFlags::NONBLOCK), is_nonblocking, "{name}");
        }
    }

    #[test]
    fn pair_keeps_messages_apart_up_to_a_long_one() {
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
