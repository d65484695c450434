//! A connection that knows when the kernel received what it reads.

use std::io::{self, Read, Write};
use std::mem::{self, MaybeUninit};
use std::net::TcpStream;
use std::ptr;
use std::time::{Duration, Instant, SystemTime};

use rustix::fd::AsRawFd;

use super::set_option;

/// A connection, and when the last bytes that were read from it arrived. SO_TIMESTAMPNS: socket(7).
pub(crate) struct ArrivalStream {
    stream: TcpStream,
    arrived: Option<Instant>,
}

impl ArrivalStream {
    /// Asks the kernel for the times.
    pub(crate) fn new(stream: TcpStream) -> io::Result<ArrivalStream> {
        set_option(&stream, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1_i32.to_ne_bytes())?;
        Ok(ArrivalStream { stream, arrived: None })
    }

    /// Returns when the last bytes that were read arrived. `None`: the kernel has not noted it, as it does not for some time after it was asked.
    pub(crate) fn arrived(&self) -> Option<Instant> {
        self.arrived
    }
}

impl Read for ArrivalStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        // Room for one message of control, aligned as its head.
        let mut control = [MaybeUninit::<libc::cmsghdr>::uninit(); 4];
        // SAFETY: a message without address, parts and control is valid.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
        (message.msg_control, message.msg_controllen) = (control.as_mut_ptr().cast(), size_of_val(&control));
        // SAFETY: the kernel writes to the buffer and to the control, which both live longer than the call, and no more than their lengths.
        let result = unsafe { libc::recvmsg(self.stream.as_raw_fd(), &raw mut message, 0) };
        let len = usize::try_from(result).map_err(|_| io::Error::last_os_error())?;
        // SAFETY: the kernel has written the head of the control, or tells that none is there; both lie within the array.
        self.arrived = unsafe { libc::CMSG_FIRSTHDR(&raw const message).as_ref() }.and_then(|head| {
            let is_time = head.cmsg_level == libc::SOL_SOCKET && head.cmsg_type == libc::SCM_TIMESTAMPNS;
            // SAFETY: a control of this type has a timespec.
            let time = is_time
                .then(|| unsafe { ptr::read_unaligned(libc::CMSG_DATA(head).cast::<libc::timespec>()) })?;
            let since_epoch = Duration::new(time.tv_sec.try_into().ok()?, time.tv_nsec.try_into().ok()?);
            // The kernel tells the time of day.
            let ago = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH + since_epoch).ok()?;
            Instant::now().checked_sub(ago)
        });
        Ok(len)
    }
}

impl Write for ArrivalStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread::sleep;

    #[test]
    fn arrival_is_when_the_bytes_were_sent_and_not_when_they_were_read() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut ours =
            ArrivalStream::new(TcpStream::connect(listener.local_addr().unwrap()).unwrap()).unwrap();
        let (mut theirs, _) = listener.accept().unwrap();
        // The kernel begins to note times soon after it was asked, and this process may stand still while it measures.
        for _ in 0..ATTEMPT_COUNT {
            let before = Instant::now();
            theirs.write_all(b"response").unwrap();
            let after = Instant::now();
            sleep(Duration::from_millis(50));
            ours.read_exact(&mut [0; 8]).unwrap();
            let Some(arrived) = ours.arrived() else { continue };
            let tolerance = Duration::from_millis(10);
            if before <= arrived + tolerance && arrived <= after + tolerance {
                return;
            }
        }
        panic!("no time between those before and after the sending, in {ATTEMPT_COUNT} attempts");
    }

    const ATTEMPT_COUNT: usize = 100;
}
