//! Page cache: not queried here. All pages count as resident, so a worker that sends a missing page waits for the disk.

use rustix::io::{Errno, pread};
use std::fs::File;

/// Does nothing: the read itself fetches the range.
pub(crate) fn read_ahead(_file: &File, _at: u64, _len: u64) {}

/// Does nothing: read-ahead stays on.
pub(crate) fn disable_read_ahead(_file: &File) {}

/// Reads the front of a range into memory, and advances `at`. Returns the length.
pub(crate) fn fetch(file: &File, at: &mut u64, len: usize, _dev_null: &File) -> Result<usize, Errno> {
    let read = pread(file, &mut vec![0; len], *at)?;
    *at += read as u64;
    Ok(read)
}

/// Returns true: the kernel is not asked.
pub(crate) fn has_byte(_file: &File, _at: u64) -> bool {
    true
}

/// Returns `None`: the kernel is not asked.
pub(crate) fn has_pages(_file: &File, _at: u64, _len: u64) -> Option<bool> {
    None
}
