//! Calls of the system that need unsafe code.
//!
//! | file | content |
//! |---|---|
//! | `arrival.rs` | a connection that knows when the kernel received what it reads |
//! | `file_sender.rs` | ways to send a file to a socket |

#![allow(unsafe_code)]

pub(crate) mod arrival;
pub(crate) mod file_sender;

use std::fs;
use std::io;
use std::net::TcpStream;

use rustix::fd::AsRawFd;

/// Forks. Returns `None` in the child, and the number of the child in the parent.
///
/// # Panics
/// This process has more threads than one: a child would find their locks held for ever.
pub(crate) fn fork() -> io::Result<Option<u32>> {
    assert_eq!(fs::read_dir("/proc/self/task")?.count(), 1, "a process with one thread");
    // SAFETY: this process has one thread, so the child finds no lock that another one holds.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        child => Ok(Some(child as u32)),
    }
}

/// Sets an option of a socket. setsockopt(2).
pub(crate) fn set_option(socket: &TcpStream, level: i32, name: i32, value: &[u8]) -> io::Result<()> {
    // SAFETY: the kernel reads the value, which lives longer than the call.
    let result = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, name, value.as_ptr().cast(), value.len() as u32)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
