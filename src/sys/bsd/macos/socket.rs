//! sendfile(2), `SO_NWRITE`.

pub(crate) use super::plain::{accept, pair, stream};

use rustix::{
    io::Errno,
    net::{RecvFlags, SendFlags, sockopt::set_socket_reuseport},
};
use std::{
    ffi::{c_int, c_short},
    os::fd::{AsFd, AsRawFd},
    ptr,
};

/// No flag needed: Rust programs ignore SIGPIPE.
pub(crate) const NO_SIGNAL: SendFlags = SendFlags::empty();

/// Received descriptors are not close-on-exec here.
pub(crate) const CLOSE_ON_EXEC: RecvFlags = RecvFlags::empty();

/// poll(2) does not report a half-closed peer here: a read returns EOF.
pub(crate) const RDHUP: c_short = 0;

/// One of the sockets that [share a port](share_port) gets all clients.
pub(crate) const PORTS_BALANCE: bool = false;

/// Lets other sockets listen at the same port, if they set this too.
pub(crate) fn share_port(socket: impl AsFd) -> Result<(), Errno> {
    set_socket_reuseport(socket, true)
}

/// Returns true: macOS does not report it, so the first accept will fail instead.
pub(crate) fn is_listening(_socket: impl AsFd) -> Result<bool, Errno> {
    Ok(true)
}

/// Sends the front of a file range. Returns 0 at the end of the file.
pub(crate) fn send_file(socket: impl AsFd, file: impl AsFd, at: u64, len: usize) -> Result<usize, Errno> {
    let (file, socket) = (file.as_fd().as_raw_fd(), socket.as_fd().as_raw_fd());
    // Input: the requested length; output: the length sent.
    let mut sent = len as libc::off_t;
    // SAFETY: both descriptors live during the call, which writes how much it has sent, and neither reads headers nor trailers.
    let done = unsafe { libc::sendfile(file, socket, at as libc::off_t, &mut sent, ptr::null_mut(), 0) };
    let errno = Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO);
    match done {
        0 => Ok(sent as usize),
        // A partial send counts as success. Other errors write no length.
        _ if matches!(errno, Errno::AGAIN | Errno::INTR) && sent > 0 => Ok(sent as usize),
        _ => Err(errno),
    }
}

/// Returns the number of sent bytes without acknowledgement; 0 if the kernel does not report it.
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
