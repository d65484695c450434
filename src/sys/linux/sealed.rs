//! Sealed files in memory: memfd_create(2), and the seals of fcntl(2).

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, memfd_create};
use std::{fs::File, io};

/// Creates an empty file, to be written and then [frozen](freeze).
pub(crate) fn file() -> io::Result<File> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    Ok(File::from(memfd_create("tarpon-image", flags)?))
}

/// Creates an empty file, to be shared and never sealed.
pub(crate) fn shared_file() -> io::Result<File> {
    Ok(File::from(memfd_create("tarpon-counters", MemfdFlags::CLOEXEC)?))
}

/// Seals a file of [`file()`] against every change.
pub(crate) fn freeze(file: &File) -> io::Result<()> {
    Ok(fcntl_add_seals(file, SEALS)?)
}

/// Returns whether the file is sealed.
pub(crate) fn is_frozen(file: &File) -> io::Result<bool> {
    Ok(fcntl_get_seals(file)?.contains(SEALS))
}

/// Neither length nor contents may change, nor the seals.
const SEALS: SealFlags =
    SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::WRITE).union(SealFlags::SEAL);
