//! What of a file the kernel has in memory, and to have it there: cachestat(2), Linux 6.5, and others.

use rustix::{
    fs::{Advice, fadvise, sendfile},
    io::{Errno, ReadWriteFlags, preadv2},
    param::page_size,
};
use std::{fs::File, io::IoSliceMut, num::NonZeroU64, os::fd::AsRawFd};

/// Begins to read a stretch, and does not wait for it.
pub(crate) fn read_ahead(file: &File, at: u64, len: u64) {
    // Without it, it is read when somebody asks for it.
    let _ = fadvise(file, at, NonZeroU64::new(len), Advice::WillNeed);
}

/// From now on a read of this file brings what is asked for into memory, and nothing behind it; in single pages, of which each is there or not.
///
/// Reading ahead begins with whoever reads, and goes on for megabytes: a worker that only asks whether a byte is there would begin it, and
/// what is wanted would queue behind what may be. Of a large page a part can be there, which a read can do with and a send cannot.
pub(crate) fn disable_read_ahead(file: &File) {
    // It is advice: without it, all goes as well, and slower.
    let _ = fadvise(file, 0, None, Advice::Random);
}

/// Reads a stretch into memory, or the front of it, and moves `at` behind that: by sending it dev_null, which needs all of each page, as
/// sending it to a client will. A read can do with the part of a page that has come. Returns how much it was.
pub(crate) fn fetch(file: &File, at: &mut u64, len: usize, dev_null: &File) -> Result<usize, Errno> {
    sendfile(dev_null, file, Some(at), len)
}

/// Whether a byte is there to be read. Where a file system cannot tell, and for every other error, the send will show.
pub(crate) fn has_byte(file: &File, at: u64) -> bool {
    let mut byte = [0];
    let read = preadv2(file, &mut [IoSliceMut::new(&mut byte)], at, ReadWriteFlags::NOWAIT);
    read != Err(Errno::AGAIN)
}

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
    let result = unsafe { libc::syscall(CACHESTAT, file.as_raw_fd(), &raw const range, &raw mut stat, 0) };
    (result == 0).then(|| stat.cached >= len.div_ceil(page_size() as u64))
}
