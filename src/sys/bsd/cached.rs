//! What of a file the kernel has in memory: it is not asked, so all of it is taken to be there, and a worker that sends what is
//! not waits for the disk.

use rustix::io::{Errno, pread};
use std::fs::File;

/// Begins to read a stretch: as soon as somebody asks for it.
pub(crate) fn read_ahead(_file: &File, _at: u64, _len: u64) {}

/// From now on a read of this file brings what is asked for into memory, and nothing behind it.
pub(crate) fn disable_read_ahead(_file: &File) {}

/// Reads a stretch into memory, or the front of it, and moves `at` behind that. Returns how much it was.
pub(crate) fn fetch(file: &File, at: &mut u64, len: usize, _nowhere: &File) -> Result<usize, Errno> {
    let read = pread(file, &mut vec![0; len], *at)?;
    *at += read as u64;
    Ok(read)
}

/// Whether a byte is there to be read.
pub(crate) fn has_byte(_file: &File, _at: u64) -> bool {
    true
}

/// Whether the kernel has all pages of a stretch. `None`: it does not say.
pub(crate) fn has_pages(_file: &File, _at: u64, _len: u64) -> Option<bool> {
    None
}
