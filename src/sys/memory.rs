//! Memory with a descriptor: an image is written once, sealed, and mapped.
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

/// Maps a file that somebody else has sealed against every change.
///
/// # Errors
/// It is not.
pub(crate) fn map_sealed(file: &File) -> io::Result<Bytes> {
    if !sealed::is_frozen(file)? {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the memory of the image is not sealed"));
    }
    Ok(Bytes::from_owner(MemoryMap::new(file, Region { at: 0, len: len(file)? })?))
}

/// How long a file is. By fstat(2), which takes no path: it is what the sandbox of a server allows.
pub(crate) fn len(file: &File) -> io::Result<u64> {
    Ok(rustix::fs::fstat(file)?.st_size.try_into().unwrap_or(0))
}

/// A mapping of a file, or of a stretch of it.
#[derive(Debug)]
pub(crate) struct MemoryMap {
    /// Invariant: `len` bytes from here are mapped for reading until this is dropped.
    start: *const c_void,
    len: usize,
}

impl MemoryMap {
    /// Maps a stretch of a file, which begins on a page. One that is not sealed may change while it is read, as memory
    /// shared with another process may; who maps it takes care that nothing but bytes to send is made of it, and of
    /// SIGBUS.
    pub(crate) fn new(file: &File, region: Region) -> io::Result<MemoryMap> {
        let len = usize::try_from(region.len).map_err(|_| io::ErrorKind::FileTooLarge)?;
        // SAFETY: a new mapping, at a place the kernel chooses, so no memory in use is touched. Whole pages.
        // Private rather than shared: kernels before 6.7 refuse a shared mapping of a file sealed against writing.
        let start = unsafe {
            mmap(ptr::null_mut(), pages(len), ProtFlags::READ, MapFlags::PRIVATE, file, region.at)?
        };
        Ok(MemoryMap { start, len })
    }

    /// The same in huge pages, as far as the file is in memory and the system allows: fewer misses of the TLB. Nothing
    /// is lost where it does not.
    pub(crate) fn huge(file: &File, region: Region) -> io::Result<MemoryMap> {
        let map = MemoryMap { start: aligned(pages(region.len as usize))?, len: region.len as usize };
        // SAFETY: takes the place of address space that was reserved just now, and is unmapped with `map`. Then other pages
        // are asked for, with the same contents.
        unsafe {
            let (start, len) = (map.start.cast_mut(), pages(map.len));
            mmap(start, len, ProtFlags::READ, MapFlags::PRIVATE | MapFlags::FIXED, file, region.at)?;
            huge::collapse(start, len);
        }
        Ok(map)
    }

    /// Reads its last byte: a fault shows that the file ends before that page.
    #[inline]
    pub(crate) fn touch_last_page(&self) {
        if let Some(last) = self.as_ref().last() {
            // SAFETY: a byte of the map, read whatever the compiler believes to know of it.
            unsafe { ptr::read_volatile(last) };
        }
    }

    /// Keeps its last page in memory, where one page more may be locked: whoever touches it does not wait for a disk.
    pub(crate) fn lock_last_page(&self) {
        let end = self.pages().end.cast_mut();
        // SAFETY: the last page of the map. It is unlocked with the map.
        let _ = unsafe { mlock(end.wrapping_byte_sub(page_size()), page_size()) };
    }

    /// Its first byte, and the end of its last page.
    pub(crate) fn pages(&self) -> Range<*const c_void> {
        self.start..self.start.wrapping_byte_add(pages(self.len))
    }
}

impl AsRef<[u8]> for MemoryMap {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        // SAFETY: mapped for reading, by the invariant. We never write it; who else may is said at `new`.
        unsafe { std::slice::from_raw_parts(self.start.cast(), self.len) }
    }
}

impl Drop for MemoryMap {
    fn drop(&mut self) {
        // SAFETY: whoever borrowed the bytes borrowed `self`, or holds the `Bytes` that owns it; both are over.
        // It fails only for a mapping that does not exist.
        let _ = unsafe { munmap(self.start.cast_mut(), pages(self.len)) };
    }
}

/// Reserves so many bytes of address space, which begin on a huge page.
fn aligned(len: usize) -> io::Result<*const c_void> {
    let reserved_len = len.checked_add(HUGE_LEN).ok_or(io::ErrorKind::FileTooLarge)?;
    // SAFETY: a new mapping that nobody knows of, of which the ends are unmapped again.
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

/// A huge page, as large as processors of today have them most.
const HUGE_LEN: usize = 2 << 20;

/// The whole pages that so many bytes are mapped as: one at least, for an empty file too.
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
