//! How much of a file the kernel has in memory, asked without reading anything: cachestat(2), Linux 6.5.

use rustix::param::page_size;
use std::{fs::File, os::fd::AsRawFd};

/// Whether the kernel has all pages of `len` bytes from `at` on, a multiple of the page size; some of them it may be reading
/// just now. `None`: it does not say, as it is too old, or the file is not ours.
pub(crate) fn has_pages(file: &File, at: u64, len: u64) -> Option<bool> {
    #[repr(C)]
    struct Range {
        at: u64,
        len: u64,
    }
    #[repr(C)]
    #[derive(Default)]
    struct Stat {
        cached: u64,
        dirty: u64,
        writeback: u64,
        evicted: u64,
        recently_evicted: u64,
    }
    /// The same on every architecture that Rust knows.
    const CACHESTAT: libc::c_long = 451;
    let (range, mut stat) = (Range { at, len }, Stat::default());
    // SAFETY: both structures are as the kernel has them, and live during the call, which writes the second one.
    let told = unsafe { libc::syscall(CACHESTAT, file.as_raw_fd(), &raw const range, &raw mut stat, 0) };
    (told == 0).then(|| stat.cached >= len.div_ceil(page_size() as u64))
}
