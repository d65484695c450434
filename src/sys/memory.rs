//! Sealed memory: an image is written once to a memfd, sealed, and mapped.
//!
//! ```text
//! memfd ──write──▶ seal ──▶ map: reads by path and head
//!                    └────▶ descriptor: sendfile of larger stretches
//! ```

pub(crate) use super::system::sealed::{file, freeze};

use super::system::{huge, sealed};
use bytes::Bytes;
use rustix::{
    mm::{MapFlags, ProtFlags, mlock, mmap, mmap_anonymous, munmap},
    param::page_size,
};
use std::{ffi::c_void, fs::File, io, ops::Range, ptr};
use tarpon_site::Region;

/// Seals a file of [`file()`] against every change, and maps it.
pub(crate) fn seal(file: &File) -> io::Result<Bytes> {
    freeze(file)?;
    map_sealed(file)
}

/// Maps a file that was sealed against every change.
///
/// # Errors
/// The file is not sealed.
pub(crate) fn map_sealed(file: &File) -> io::Result<Bytes> {
    if !sealed::is_frozen(file)? {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the memory of the image is not sealed"));
    }
    Ok(Bytes::from_owner(MemoryMap::new(file, Region { at: 0, len: len(file)? })?))
}

/// Returns the length of a file. Uses fstat(2), which takes no path and which the sandbox allows.
pub(crate) fn len(file: &File) -> io::Result<u64> {
    Ok(rustix::fs::fstat(file)?.st_size.try_into().unwrap_or(0))
}

/// A read-only mapping of a region of a file.
#[derive(Debug)]
pub(crate) struct MemoryMap {
    /// Invariant: `len` bytes from here are mapped for reading until this is dropped.
    start: *const c_void,
    len: usize,
}

impl MemoryMap {
    /// Maps a region of a file that begins on a page. An unsealed file may change during a read, like shared memory: the caller must
    /// treat the contents as bytes to send, and handle SIGBUS.
    pub(crate) fn new(file: &File, region: Region) -> io::Result<MemoryMap> {
        let len = usize::try_from(region.len).map_err(|_| io::ErrorKind::FileTooLarge)?;
        // SAFETY: a new mapping, at a place the kernel chooses, so no memory in use is touched. Whole pages.
        // Private rather than shared: kernels before 6.7 refuse a shared mapping of a file sealed against writing.
        let start = unsafe {
            mmap(ptr::null_mut(), pages(len), ProtFlags::READ, MapFlags::PRIVATE, file, region.at)?
        };
        Ok(MemoryMap { start, len })
    }

    /// Maps in huge pages, as far as the file is in memory and the system allows: fewer TLB misses. Otherwise the mapping has normal
    /// pages.
    pub(crate) fn huge(file: &File, region: Region) -> io::Result<MemoryMap> {
        let map = MemoryMap { start: aligned(pages(region.len as usize))?, len: region.len as usize };
        // SAFETY: replaces address space reserved just now, which is unmapped with `map`. Collapsing keeps the contents.
        unsafe {
            let (start, len) = (map.start.cast_mut(), pages(map.len));
            mmap(start, len, ProtFlags::READ, MapFlags::PRIVATE | MapFlags::FIXED, file, region.at)?;
            huge::collapse(start, len);
        }
        Ok(map)
    }

    /// Reads the last byte: a fault shows that the file ends before that page.
    #[inline]
    pub(crate) fn touch_last_page(&self) {
        if let Some(last) = self.as_ref().last() {
            // SAFETY: a byte of the map; volatile, so that the compiler keeps the read.
            unsafe { ptr::read_volatile(last) };
        }
    }

    /// Locks the last page in memory, if the limit allows: touching it then never waits for a disk.
    pub(crate) fn lock_last_page(&self) {
        let end = self.pages().end.cast_mut();
        // SAFETY: the last page of the map. It is unlocked with the map.
        let _ = unsafe { mlock(end.wrapping_byte_sub(page_size()), page_size()) };
    }

    /// Returns the address of the first byte and the end of the last page.
    pub(crate) fn pages(&self) -> Range<*const c_void> {
        self.start..self.start.wrapping_byte_add(pages(self.len))
    }
}

impl AsRef<[u8]> for MemoryMap {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        // SAFETY: mapped for reading, by the invariant. We never write it; `new` says which other writers there may be.
        unsafe { std::slice::from_raw_parts(self.start.cast(), self.len) }
    }
}

impl Drop for MemoryMap {
    fn drop(&mut self) {
        // SAFETY: every borrow of the bytes borrows `self` or the `Bytes` that owns it, and both have ended. The call fails only for
        // a mapping that does not exist.
        let _ = unsafe { munmap(self.start.cast_mut(), pages(self.len)) };
    }
}

/// Reserves `len` bytes of address space that begin on a huge page.
fn aligned(len: usize) -> io::Result<*const c_void> {
    let reserved_len = len.checked_add(HUGE_LEN).ok_or(io::ErrorKind::FileTooLarge)?;
    // SAFETY: a new mapping that no other code knows of; both ends are unmapped again.
    unsafe {
        let flags = MapFlags::PRIVATE | huge::NORESERVE;
        let reserved = mmap_anonymous(ptr::null_mut(), reserved_len, ProtFlags::empty(), flags)?;
        let before = reserved.addr().next_multiple_of(HUGE_LEN) - reserved.addr();
        let start = reserved.wrapping_byte_add(before);
        if before > 0 {
            munmap(reserved, before)?;
        }
        munmap(start.wrapping_byte_add(len), reserved_len - before - len)?;
        Ok(start)
    }
}

/// The usual size of a huge page.
const HUGE_LEN: usize = 2 << 20;

/// Rounds a length up to whole pages: at least one, for an empty file too.
fn pages(len: usize) -> usize {
    len.max(1).next_multiple_of(page_size())
}

// SAFETY: the mapping belongs to no thread, and we never write it.
unsafe impl Send for MemoryMap {}
// SAFETY: as above; all access is by shared reads.
unsafe impl Sync for MemoryMap {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_sealed_file_is_mapped_as_written_and_cannot_change() {
        let mut file = file().unwrap();
        file.write_all(b"tarpon").unwrap();
        let bytes = seal(&file).unwrap();
        assert_eq!(&bytes[..], b"tarpon");
        assert!(file.write_all(b"!").is_err(), "sealed against writing");
        assert!(file.set_len(0).is_err(), "sealed against shrinking");
        drop(file);
        assert_eq!(&bytes[..], b"tarpon", "the map outlives the descriptor");
    }
}
