//! Static probes: points that bpftrace, SystemTap and gdb can attach to while the server runs.
//!
//! ```text
//! connection_open(descriptor)   bytes_received(descriptor, count)   bytes_sent(descriptor, count)   connection_close(descriptor)
//! ```
//!
//! A probe is one instruction that does nothing, and a note in the program that tells where it lies and in which registers its arguments
//! are. All engines have the same probes, on Linux. `lab/trace/connections.bt` uses them.

use std::os::fd::{AsRawFd, OwnedFd};

use probe::probe;

/// A worker has accepted a connection.
#[inline(always)]
pub(super) fn connection_open(fd: &OwnedFd) {
    probe!(tarpon, connection_open, fd.as_raw_fd());
}

/// The connection, or its transport, has used bytes that arrived.
#[inline(always)]
pub(super) fn bytes_received(fd: &OwnedFd, count: usize) {
    probe!(tarpon, bytes_received, fd.as_raw_fd(), count);
}

/// Bytes have left.
#[inline(always)]
pub(super) fn bytes_sent(fd: &OwnedFd, count: u64) {
    probe!(tarpon, bytes_sent, fd.as_raw_fd(), count);
}

/// The connection has ended. Its descriptor is still open.
#[inline(always)]
pub(super) fn connection_close(fd: &OwnedFd) {
    probe!(tarpon, connection_close, fd.as_raw_fd());
}
