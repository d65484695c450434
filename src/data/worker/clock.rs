//! The wall clock, and the longest wait.

use crate::sys::{self, clock::WALL};
use rustix::time::{Timespec, clock_gettime};
use std::time::Duration;

/// Returns the wall clock in milliseconds since 1970.
pub(super) fn unix_ms() -> u64 {
    let now = clock_gettime(WALL);
    now.tv_sec.max(0) as u64 * 1_000 + now.tv_nsec as u64 / 1_000_000
}

/// Longest single wait in milliseconds: the limit of `epoll_wait`.
pub(crate) const WAIT_MS_MAX: u64 = i32::MAX as u64;

/// Converts a wait in milliseconds, shortened to the longest single wait.
pub(crate) fn timespec(ms: u64) -> Timespec {
    sys::io::timespec(Duration::from_millis(ms.min(WAIT_MS_MAX)))
}
