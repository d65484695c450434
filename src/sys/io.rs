//! Calls that move bytes over sockets, as thin functions: debug builds [`inject`] faults here.

use super::{
    inject::{self, Call},
    socket::NO_SIGNAL,
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    net::{self, RecvAncillaryBuffer, RecvFlags, RecvMsg, SendAncillaryBuffer, SendFlags},
};
use std::{
    cell::UnsafeCell,
    io::{self, IoSlice, IoSliceMut},
    os::fd::{AsFd, AsRawFd},
    time::Duration,
};

/// Receives into `room` from a non-blocking socket. recv(2).
#[inline(always)]
pub(crate) fn receive(socket: impl AsFd, room: &mut [u8]) -> Result<usize, Errno> {
    let len = inject::before(Call::Receive, &socket, room.len())?;
    let (len, _) = net::recv(socket, &mut room[..len], RecvFlags::empty())?;
    Ok(len)
}

/// Drops what a non-blocking socket holds, up to [`DISCARD_LEN_MAX`] bytes. Returns how many. recv(2).
pub(crate) fn discard(socket: impl AsFd) -> Result<usize, Errno> {
    let len = inject::before(Call::Receive, &socket, DISCARD_LEN_MAX)?;
    let (bin, flags) = (bin(), libc::MSG_TRUNC);
    // SAFETY: the kernel writes within the bin, which nothing reads.
    match unsafe { libc::recv(socket.as_fd().as_raw_fd(), bin.cast(), len, flags) } {
        ..0 => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)),
        len => Ok(len as usize),
    }
}

/// Returns a place for [`DISCARD_LEN_MAX`] bytes that nothing reads. Linux drops bytes of TCP without a copy, if a call has the flag `MSG_TRUNC`:
/// tcp(7). Those of a Unix socket, and all on other systems, land there, so the place takes memory only in that case.
pub(crate) fn bin() -> *mut u8 {
    static BIN: Bin = Bin(UnsafeCell::new([0; DISCARD_LEN_MAX]));
    BIN.0.get().cast()
}

struct Bin(UnsafeCell<[u8; DISCARD_LEN_MAX]>);

// SAFETY: there is no reference to the bytes, and nothing reads them. Only the kernel writes them.
unsafe impl Sync for Bin {}

/// The most that one call drops: few calls for a client that sends without a pause, and a short one.
pub(crate) const DISCARD_LEN_MAX: usize = 512 * 1024;

/// Receives into `parts`, one after another, without waiting. recvmsg(2).
pub(crate) fn receive_gathered(socket: impl AsFd, parts: &mut [IoSliceMut<'_>]) -> Result<usize, Errno> {
    let whole = parts.iter().map(|part| part.len()).sum();
    let len = inject::before(Call::Receive, &socket, whole)?;
    let (flags, control) = (RecvFlags::DONTWAIT, &mut RecvAncillaryBuffer::default());
    match parts {
        [first, ..] if len < whole => {
            let len = len.min(first.len());
            net::recvmsg(socket, &mut [IoSliceMut::new(&mut first[..len])], control, flags)
        }
        parts => net::recvmsg(socket, parts, control, flags),
    }
    .map(|received| received.bytes)
}

/// Sends the front of `bytes` to a non-blocking socket. send(2).
#[inline(always)]
pub(crate) fn send(socket: impl AsFd, bytes: &[u8], flags: SendFlags) -> Result<usize, Errno> {
    let len = inject::before(Call::Send, &socket, bytes.len())?;
    net::send(socket, &bytes[..len], flags)
}

/// Sends the front of `parts` to a non-blocking socket. sendmsg(2).
#[inline(always)]
pub(crate) fn send_gathered(
    socket: impl AsFd,
    parts: &[IoSlice<'_>],
    flags: SendFlags,
) -> Result<usize, Errno> {
    let whole = parts.iter().map(|part| part.len()).sum();
    let len = inject::before(Call::Send, &socket, whole)?;
    if len < whole {
        return net::sendmsg(socket, &front(parts, len), &mut SendAncillaryBuffer::default(), flags);
    }
    net::sendmsg(socket, parts, &mut SendAncillaryBuffer::default(), flags)
}

/// Returns the first `len` bytes of `parts`.
fn front<'b>(parts: &'b [IoSlice<'_>], mut len: usize) -> Vec<IoSlice<'b>> {
    let part = |part: &'b IoSlice<'_>| {
        let part = &part[..part.len().min(len)];
        len -= part.len();
        IoSlice::new(part)
    };
    parts.iter().map(part).collect()
}

/// Sends a packet with descriptors over a channel, and waits for room if `is_blocking`. sendmsg(2)
#[inline(always)]
pub(crate) fn send_packet(
    socket: impl AsFd,
    bytes: &[u8],
    descriptors: &mut SendAncillaryBuffer<'_, '_, '_>,
    has_descriptors: bool,
    is_blocking: bool,
) -> Result<(), Errno> {
    inject::fails(if is_blocking { Call::BlockingChannelSend } else { Call::ChannelSend })?;
    if has_descriptors {
        inject::fails(Call::SendDescriptors)?;
    }
    let flags = if is_blocking { NO_SIGNAL } else { NO_SIGNAL | SendFlags::DONTWAIT };
    net::sendmsg(socket, &[IoSlice::new(bytes)], descriptors, flags).map(drop)
}

/// Receives a packet with descriptors from a channel. recvmsg(2).
#[inline(always)]
pub(crate) fn receive_packet(
    socket: impl AsFd,
    bytes: &mut [u8],
    descriptors: &mut RecvAncillaryBuffer<'_>,
    flags: RecvFlags,
) -> Result<RecvMsg, Errno> {
    inject::fails(Call::ChannelReceive)?;
    net::recvmsg(socket, &mut [IoSliceMut::new(bytes)], descriptors, flags)
}

/// Returns whether a few lines can be written to standard output and standard error now, or fail at once. A stopped terminal takes none, and
/// neither does a pipe whose reader does not read.
pub(crate) fn output_has_room() -> bool {
    let (out, err) = (io::stdout(), io::stderr());
    let mut polled = [PollFd::new(&out, PollFlags::OUT), PollFd::new(&err, PollFlags::OUT)];
    let count = polled.len();
    poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).map_or(true, |ready| ready == count)
}

/// Converts a wait for the kernel.
#[inline]
pub(crate) fn timespec(time: Duration) -> Timespec {
    // The kernel's longest wait outlasts the machine, too.
    Timespec::try_from(time).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 })
}

/// Waits until a descriptor is ready. poll(2).
#[inline(always)]
pub(crate) fn wait(descriptors: &mut [PollFd<'_>], time: Option<&Timespec>) -> Result<usize, Errno> {
    inject::fails(Call::Wait)?;
    poll(descriptors, time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::Write,
        net::{TcpListener, TcpStream},
        os::unix::net::UnixStream,
    };

    #[test]
    fn discarded_bytes_are_gone() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (of_unix, mut to_unix) = UnixStream::pair().unwrap();
        client.write_all(&[7; 50_000]).unwrap();
        to_unix.write_all(&[7; 50_000]).unwrap();
        drop((client, to_unix));
        let dropped = |socket: &dyn AsFd| -> usize {
            let drops = std::iter::repeat_with(|| discard(socket.as_fd()));
            drops.map(|len| len.expect("bytes or the end")).take_while(|&len| len > 0).sum()
        };
        assert_eq!(dropped(&listener.accept().unwrap().0), 50_000);
        assert_eq!(dropped(&of_unix), 50_000);
    }
}
