//! sendfile(2), `SO_NWRITE`.

pub(crate) use super::plain::{accept, accept_blocking, pair, stream};

use rustix::{
    io::Errno,
    net::{RecvFlags, SendFlags, sockopt::set_socket_reuseport},
};
use std::{
    ffi::{c_int, c_short},
    os::fd::{AsFd, AsRawFd},
    ptr,
};

/// The process ignores the signal, as Rust programs do.
pub(crate) const NO_SIGNAL: SendFlags = SendFlags::empty();

/// A program run later has the descriptors that come, if it is not info to close them.
pub(crate) const CLOSE_ON_EXEC: RecvFlags = RecvFlags::empty();

/// Told by poll(2): nothing is info of that here; whoever reads will see it.
pub(crate) const RDHUP: c_short = 0;

/// Of sockets that [share](share_port) a port one has all clients.
pub(crate) const PORTS_BALANCE: bool = false;

/// Others may listen at the same port, if they ask for that too.
pub(crate) fn share_port(socket: impl AsFd) -> Result<(), Errno> {
    set_socket_reuseport(socket, true)
}

/// Whether clients can connect to it: nobody tells, so that the first one will show it.
pub(crate) fn is_listening(_socket: impl AsFd) -> Result<bool, Errno> {
    Ok(true)
}

/// Sends a stretch of a file, or the front of it. 0: there is nothing.
pub(crate) fn send_file(socket: impl AsFd, file: impl AsFd, at: u64, len: usize) -> Result<usize, Errno> {
    let (file, socket) = (file.as_fd().as_raw_fd(), socket.as_fd().as_raw_fd());
    // Asked for; and then, how much it was.
    let mut sent = len as libc::off_t;
    // SAFETY: both descriptors live during the call, which writes how much it has sent, and neither reads headers nor trailers.
    let done = unsafe { libc::sendfile(file, socket, at as libc::off_t, &mut sent, ptr::null_mut(), 0) };
    let errno = Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO);
    match done {
        0 => Ok(sent as usize),
        // What was sent before it had to stop was sent. Of other errors nothing is written.
        _ if matches!(errno, Errno::AGAIN | Errno::INTR) && sent > 0 => Ok(sent as usize),
        _ => Err(errno),
    }
}

/// Bytes that were sent on a socket and have not been acknowledged. 0 where the kernel does not tell.
pub(crate) fn unacked(socket: impl AsFd) -> u64 {
    let (mut unacked, mut len) = (0 as c_int, size_of::<c_int>() as libc::socklen_t);
    let socket = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel answers with one `int`, for which there is room.
    let info = unsafe {
        let to = (&raw mut unacked).cast();
        libc::getsockopt(socket, libc::SOL_SOCKET, libc::SO_NWRITE, to, &mut len)
    };
    if info == 0 { unacked.try_into().unwrap_or(0) } else { 0 }
}
