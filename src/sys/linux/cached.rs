//! Page cache: which pages of a file are in memory, and reading them in: cachestat(2), Linux 6.5, and others.

use crate::sys::inject::{self, Call};
use rustix::{
    fs::{Advice, fadvise, sendfile},
    io::{Errno, ReadWriteFlags, preadv2},
    param::page_size,
};
use std::{fs::File, io::IoSliceMut, num::NonZeroU64, os::fd::AsRawFd};

/// Starts to read a range and does not wait.
pub(crate) fn read_ahead(file: &File, at: u64, len: u64) {
    // Advice: without it, the read starts later.
    let _ = fadvise(file, at, NonZeroU64::new(len), Advice::WillNeed);
}

/// Disables read-ahead for a file: reads then fetch single pages.
///
/// Read-ahead starts with any read and continues for megabytes: the probe for one byte would start it, and wanted pages would queue
/// behind. In large folios a part can be present, which suffices for a read and not for a send.
pub(crate) fn disable_read_ahead(file: &File) {
    // Advice: without it, reads are slower.
    let _ = fadvise(file, 0, None, Advice::Random);
}

/// Reads the front of a range into memory, and advances `at`. It sends to `/dev/null`, which needs whole pages, as sending to a
/// client does; a read would accept partial pages. Returns the length.
pub(crate) fn fetch(file: &File, at: &mut u64, len: usize, dev_null: &File) -> Result<usize, Errno> {
    let len = inject::before(Call::Load, dev_null, len)?;
    sendfile(dev_null, file, Some(at), len)
}

/// Returns whether a byte can be read without waiting. Where the file system cannot tell, and for other errors, returns true: the
/// send will show them.
pub(crate) fn has_byte(file: &File, at: u64) -> bool {
    let mut byte = [0];
    let read = inject::fails(Call::Probe)
        .and_then(|()| preadv2(file, &mut [IoSliceMut::new(&mut byte)], at, ReadWriteFlags::NOWAIT));
    read != Err(Errno::AGAIN)
}

/// Returns whether the page cache has all pages of `len` bytes from `at` on, a multiple of the page size; some may still be in
/// flight. `None`: the kernel is too old, or the file is not ours.
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
    /// The same number on all architectures that Rust supports.
    const CACHESTAT: libc::c_long = 451;
    let (range, mut stat) = (Range { at, len }, Stat::default());
    // SAFETY: both structures are as the kernel has them, and live during the call, which writes the second one.
    let result = unsafe { libc::syscall(CACHESTAT, file.as_raw_fd(), &raw const range, &raw mut stat, 0) };
    (result == 0).then(|| stat.cached >= len.div_ceil(page_size() as u64))
}
