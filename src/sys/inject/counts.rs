//! Counts of injected faults, in a file that the processes of a server share with a test.
//!
//! ```text
//! 40 bytes for each row of the table:   name, padded with zeros (32)   count, native endian (8)
//! ```

use super::table::FAULTS;
use rustix::mm::{MapFlags, ProtFlags, mmap};
use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::Path,
    ptr::{self, NonNull},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// The mapped file.
#[derive(Debug)]
pub(super) struct FaultCounts(NonNull<AtomicU64>);

// SAFETY: the mapping stays for the life of the process, and all access is atomic.
unsafe impl Send for FaultCounts {}
// SAFETY: as above.
unsafe impl Sync for FaultCounts {}

const NAME_LEN: usize = 32;
const ROW_LEN: usize = NAME_LEN + size_of::<u64>();

impl FaultCounts {
    /// Maps a file, and makes it if it is missing. The counts of an earlier program stay.
    pub(super) fn open(path: &Path) -> io::Result<FaultCounts> {
        let file = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
        let len = FAULTS.len() * ROW_LEN;
        file.set_len(len as u64)?;
        for (number, row) in FAULTS.iter().enumerate() {
            let mut name = [0; NAME_LEN];
            name[..row.name.len()].copy_from_slice(row.name.as_bytes());
            file.write_all_at(&name, (number * ROW_LEN) as u64)?;
        }
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, at a place that the kernel chooses.
        let start = unsafe { mmap(ptr::null_mut(), len, prot, MapFlags::SHARED, &file, 0)? };
        NonNull::new(start.cast()).map(FaultCounts).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    /// Counts a fault of this row.
    pub(super) fn add(&self, row: usize) {
        assert!(row < FAULTS.len());
        // SAFETY: within the mapping, by the assertion, and aligned: the mapping is, and a row is five words long.
        let count = unsafe { self.0.add((row * ROW_LEN + NAME_LEN) / size_of::<u64>()).as_ref() };
        count.fetch_add(1, Relaxed);
    }
}
