//! Kernel TLS: the kernel seals and opens the records of a TCP connection. Linux, Documentation/networking/tls.rst.

use libc::c_int;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use rustls::ConnectionTrafficSecrets;
use std::{
    io::{self, IoSlice, IoSliceMut},
    mem,
    net::{Ipv4Addr, TcpListener, TcpStream},
    os::fd::{AsFd, AsRawFd},
    ptr,
};
use tarpon_conn::{KernelCipher, KernelKeys, KernelSuite};
use zeroize::Zeroize;

/// The versions and ciphers that the kernel has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KernelSuites {
    tls12: [bool; KernelCipher::ALL.len()],
    tls13: [bool; KernelCipher::ALL.len()],
}

impl KernelSuites {
    /// None.
    pub(crate) const NONE: KernelSuites = {
        let none = [false; KernelCipher::ALL.len()];
        KernelSuites { tls12: none, tls13: none }
    };

    /// Tries all of them, each on a connection of this process with itself. Without TLS in the kernel, one connection shows it.
    pub(crate) fn probe() -> KernelSuites {
        let mut suites = KernelSuites::NONE;
        if connection().is_err() {
            return suites;
        }
        for cipher in KernelCipher::ALL {
            for is_tls13 in [false, true] {
                let suite = KernelSuite { is_tls13, cipher };
                *suites.entry(suite) = takes(suite).is_ok();
            }
        }
        suites
    }

    /// Returns whether the kernel has this one.
    pub(crate) fn has(mut self, suite: KernelSuite) -> bool {
        *self.entry(suite)
    }

    /// Returns whether the kernel has none.
    pub(crate) fn is_empty(self) -> bool {
        self == KernelSuites::NONE
    }

    fn entry(&mut self, suite: KernelSuite) -> &mut bool {
        let row = if suite.is_tls13 { &mut self.tls13 } else { &mut self.tls12 };
        &mut row[suite.cipher as usize]
    }
}

/// Returns the two ends of a connection of this process with itself. The first is [attached](attach).
fn connection() -> io::Result<[TcpStream; 2]> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let client = TcpStream::connect(listener.local_addr()?)?;
    let (server, _) = listener.accept()?;
    attach(&server)?;
    Ok([server, client])
}

/// Gives the kernel keys of this suite for a connection that carries nothing.
fn takes(suite: KernelSuite) -> io::Result<()> {
    let [server, _client] = connection()?;
    let key = match suite.cipher {
        KernelCipher::Aes128Gcm => &[0; 32][..16],
        KernelCipher::Aes256Gcm | KernelCipher::Chacha20Poly1305 => &[0; 32],
    };
    for seals in [true, false] {
        set(&server, suite, seals, 0, key, &[0; IV_LEN])?;
    }
    Ok(())
}

/// Prepares a connection for [keys](install). Until then its bytes pass unchanged.
///
/// # Errors
/// The kernel has no TLS, or the socket is none of TCP.
pub(crate) fn attach(socket: impl AsFd) -> Result<(), Errno> {
    const NAME: &[u8; 4] = b"tls\0";
    set_option(socket, libc::SOL_TCP, libc::TCP_ULP, NAME)
}

/// Gives the kernel the keys of one direction: the first ones, or others after an update.
///
/// # Errors
/// The kernel lacks the suite or memory, or cannot change keys: Linux before 6.14.
pub(crate) fn install(socket: impl AsFd, keys: &KernelKeys) -> Result<(), Errno> {
    let (key, iv) = match &keys.secrets {
        ConnectionTrafficSecrets::Aes128Gcm { key, iv }
        | ConnectionTrafficSecrets::Aes256Gcm { key, iv }
        | ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (key.as_ref(), iv.as_ref()),
        _ => return Err(Errno::OPNOTSUPP),
    };
    let mut iv: [u8; IV_LEN] = iv.try_into().map_err(|_| Errno::INVAL)?;
    if keys.seals && !keys.suite.is_tls13 && keys.suite.cipher != KernelCipher::Chacha20Poly1305 {
        // The kernel counts up from the explicit part of the nonce: RFC 5288, section 3. rustls has used this part for the end of the handshake,
        // changed by the small numbers of its records: a nonce must not come twice.
        iv[SALT_LEN] ^= 0x80;
    }
    set(socket, keys.suite, keys.seals, keys.sequence, key, &iv)
}

/// The length of an initialization vector: its first four bytes are the salt of AES-GCM.
const IV_LEN: usize = 12;
const SALT_LEN: usize = 4;

fn set(
    socket: impl AsFd,
    suite: KernelSuite,
    seals: bool,
    sequence: u64,
    key: &[u8],
    iv: &[u8; IV_LEN],
) -> Result<(), Errno> {
    // The layout of `struct tls12_crypto_info_*` in linux/tls.h: version and cipher, the vector, the key, the salt, and the number.
    let version: u16 = if suite.is_tls13 { 0x0304 } else { 0x0303 };
    let (cipher, salt_len) = match suite.cipher {
        KernelCipher::Aes128Gcm => (libc::TLS_CIPHER_AES_GCM_128, SALT_LEN),
        KernelCipher::Aes256Gcm => (libc::TLS_CIPHER_AES_GCM_256, SALT_LEN),
        KernelCipher::Chacha20Poly1305 => (libc::TLS_CIPHER_CHACHA20_POLY1305, 0),
    };
    let (salt, iv) = iv.split_at(salt_len);
    let parts = [&version.to_ne_bytes()[..], &cipher.to_ne_bytes(), iv, key, salt, &sequence.to_be_bytes()];
    let mut info = parts.concat();
    let direction = if seals { libc::TLS_TX } else { libc::TLS_RX };
    let done = set_option(socket, libc::SOL_TLS, direction, &info);
    info.zeroize();
    done
}

fn set_option(socket: impl AsFd, level: c_int, name: c_int, value: &[u8]) -> Result<(), Errno> {
    let socket = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel reads `value.len()` bytes of the value, and keeps none of them.
    let result = unsafe {
        libc::setsockopt(socket, level, name, value.as_ptr().cast(), value.len() as libc::socklen_t)
    };
    check(result as isize).map(drop)
}

/// The room for one control message with the kind of a record.
#[repr(C)]
union KindControl {
    header: libc::cmsghdr,
    bytes: [u8; CONTROL_LEN],
}

/// More than `CMSG_SPACE(1)` on every architecture.
const CONTROL_LEN: usize = 64;

/// Sends a record of another kind than data, whole, without waiting. sendmsg(2).
///
/// The kernel accepts a record although the socket is full, and would lose it in a close that follows, with the rest of the record before it.
/// So this one waits until the socket has room, in which both leave at once.
///
/// # Errors
/// The socket is full: `AGAIN`.
pub(crate) fn send_record(socket: impl AsFd, kind: u8, bytes: &[u8]) -> Result<(), Errno> {
    let mut polled = [PollFd::new(&socket, PollFlags::OUT)];
    poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
    if polled[0].revents().is_empty() {
        return Err(Errno::AGAIN);
    }
    let mut control = KindControl { bytes: [0; CONTROL_LEN] };
    let mut part = IoSlice::new(bytes);
    // SAFETY: all fields may be zero.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = (&raw mut part).cast();
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control).cast();
    // SAFETY: computes a number.
    message.msg_controllen = unsafe { libc::CMSG_SPACE(1) } as _;
    // SAFETY: the control message has room for a header and a byte: `CONTROL_LEN`. `IoSlice` has the layout of `iovec`, and the kernel reads
    // only.
    let sent = unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_TLS;
        (*header).cmsg_type = libc::TLS_SET_RECORD_TYPE;
        (*header).cmsg_len = libc::CMSG_LEN(1) as _;
        libc::CMSG_DATA(header).write(kind);
        libc::sendmsg(socket.as_fd().as_raw_fd(), &raw const message, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL)
    };
    match check(sent)? {
        len if len == bytes.len() => Ok(()),
        // Its rest would be another record.
        _ => Err(Errno::MSGSIZE),
    }
}

/// Receives a record of any kind without waiting, as far as it fits. Returns its kind and length. recvmsg(2).
pub(crate) fn receive_record(socket: impl AsFd, room: &mut [u8]) -> Result<(u8, usize), Errno> {
    let mut control = KindControl { bytes: [0; CONTROL_LEN] };
    let mut part = IoSliceMut::new(room);
    // SAFETY: all fields may be zero.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = (&raw mut part).cast();
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = CONTROL_LEN as _;
    // SAFETY: `IoSliceMut` has the layout of `iovec`. The kernel writes into `room` and `control`, both as long as the message says.
    let received = unsafe { libc::recvmsg(socket.as_fd().as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) };
    let len = check(received)?;
    // SAFETY: the kernel has filled the control messages, and shortened their length to those that are there.
    let kind = unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        match ptr::NonNull::new(header) {
            Some(_)
                if (*header).cmsg_level == libc::SOL_TLS
                    && (*header).cmsg_type == libc::TLS_GET_RECORD_TYPE =>
            {
                Some(libc::CMSG_DATA(header).read())
            }
            _ => None,
        }
    };
    Ok((kind.unwrap_or(DATA), len))
}

/// The kind of a record with data. RFC 8446, section 5.1.
const DATA: u8 = 23;

fn check(result: isize) -> Result<usize, Errno> {
    usize::try_from(result)
        .map_err(|_| Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))
}
