//! What the kernel knows of a socket, and tells only by `ioctl`.

use rustix::ioctl::{Getter, Opcode, ioctl};
use std::{ffi::c_int, os::fd::AsFd};

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
