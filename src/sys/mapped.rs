//! A file that may be truncated, mapped twice: once for user code to read, once for the kernel to read.
//!
//! ```text
//! file ─┬─ map ─▶ read here         truncated: SIGBUS, survived; damaged from then on     see `fault`
//!       └─ map ─▶ named in a send   truncated: the send fails with EFAULT, or ends short
//! ```
//!
//! Two maps, because the handler puts zeros into the first one, which the kernel must not send.
//!
//! A truncated file reads as zeros to the end of its new last page, without a fault. So every check for damage also touches the
//! file's former last page.

use super::{fault::MapWatch, memory::MemoryMap};
use bytes::Bytes;
use std::{fs::File, io, sync::Arc};
use tarpon_site::Region;

/// Both maps of a file.
#[derive(Debug)]
pub(crate) struct Mapped {
    /// Dropped before the map it watches.
    watch: MapWatch,
    read: MemoryMap,
    for_kernel: MemoryMap,
}

impl Mapped {
    /// Maps a region of a file that begins on a page; offsets below count from there. A file in memory may use huge pages.
    ///
    /// # Errors
    /// The file system cannot map, or the address space is full.
    pub(crate) fn new(file: &File, region: Region, huge: bool) -> io::Result<Mapped> {
        let read = if huge { MemoryMap::huge(file, region)? } else { MemoryMap::new(file, region)? };
        let for_kernel = MemoryMap::new(file, region)?;
        // SAFETY: our read-only mapping, which lives as long as the watch. Callers of `bytes` check for zeros.
        let watch = unsafe { MapWatch::new(read.pages())? };
        let mapped = Mapped { watch, read, for_kernel };
        // First touched here, where waiting for the disk is allowed.
        mapped.is_damaged();
        mapped.read.lock_last_page();
        Ok(mapped)
    }

    /// Returns a region of the file as an image's bytes. [`is_damaged`](Mapped::is_damaged) covers these too.
    pub(crate) fn image(self: &Arc<Mapped>, region: Region) -> Option<Bytes> {
        within(&self.read, region)?;
        Some(
            Bytes::from_owner(MappedRead(Arc::clone(self)))
                .slice(region.at as usize..(region.at + region.len) as usize),
        )
    }

    /// Returns bytes of the file. Copy them at once, then discard the copy if [`is_damaged`](Mapped::is_damaged). `None`: the region
    /// is outside.
    #[inline]
    pub(crate) fn bytes(&self, region: Region) -> Option<&[u8]> {
        within(&self.read, region)
    }

    /// Returns the same bytes for a system call, which fails where pages are missing. User code must not read them: SIGBUS.
    #[inline]
    pub(crate) fn bytes_for_kernel(&self, region: Region) -> Option<&[u8]> {
        within(&self.for_kernel, region)
    }

    /// Returns the length in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.read.as_ref().len() as u64
    }

    /// Returns whether the file was truncated by a page or more: bytes read may be zeros.
    #[inline]
    pub(crate) fn is_damaged(&self) -> bool {
        self.read.touch_last_page();
        self.watch.is_damaged()
    }
}

/// Keeps the map while its bytes are in use.
struct MappedRead(Arc<Mapped>);

impl AsRef<[u8]> for MappedRead {
    fn as_ref(&self) -> &[u8] {
        self.0.read.as_ref()
    }
}

#[inline]
fn within(map: &MemoryMap, region: Region) -> Option<&[u8]> {
    let (at, len) = (usize::try_from(region.at).ok()?, usize::try_from(region.len).ok()?);
    map.as_ref().get(at..)?.get(..len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::{io::Errno, net};
    use std::{env, io::Write, os::unix::net::UnixStream, process::Command};

    #[test]
    fn a_truncated_file_reads_as_zeros_and_is_damaged_and_the_kernel_sends_none() {
        let page_len = rustix::param::page_size();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![b'x'; 3 * page_len]).unwrap();
        let whole = Region { at: 0, len: 3 * page_len as u64 };
        let mapped = Mapped::new(&file, whole, false).unwrap();
        let page_region = |page: usize| Region { at: (page * page_len) as u64, len: page_len as u64 };
        assert!(mapped.bytes(page_region(2)).unwrap().iter().all(|&byte| byte == b'x'));
        assert!(mapped.bytes(page_region(3)).is_none() && mapped.bytes_for_kernel(page_region(3)).is_none());

        file.set_len(page_len as u64).unwrap();
        assert!(mapped.bytes(page_region(1)).unwrap().iter().all(|&byte| byte == 0));
        assert!(mapped.is_damaged());
        assert!(
            mapped.bytes(page_region(0)).unwrap().iter().all(|&byte| byte == b'x'),
            "what is there stays"
        );

        let (socket, _peer) = UnixStream::pair().unwrap();
        let sent =
            net::send(&socket, mapped.bytes_for_kernel(page_region(1)).unwrap(), net::SendFlags::empty());
        assert_eq!(sent, Err(Errno::FAULT));
    }

    #[test]
    fn a_file_truncated_within_a_page_is_damaged_without_a_fault_there() {
        let page_len = rustix::param::page_size();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![b'x'; 2 * page_len]).unwrap();
        let whole = Region { at: 0, len: 2 * page_len as u64 };
        let mapped = Mapped::new(&file, whole, false).unwrap();
        assert!(!mapped.is_damaged());
        file.set_len(10).unwrap();
        assert_eq!(mapped.bytes(Region { at: 8, len: 4 }), Some(&b"xx\0\0"[..]));
        assert!(mapped.is_damaged());
    }

    /// Runs the test program again as a child, which dies.
    #[test]
    fn a_fault_elsewhere_ends_the_process_as_before() {
        const AGAIN: &str = "TARPON_TEST_FAULT";
        if env::var_os(AGAIN).is_some() {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(b"x").unwrap();
            let whole = Region { at: 0, len: 1 };
            let (watched, other) =
                (Mapped::new(&file, whole, false).unwrap(), MemoryMap::new(&file, whole).unwrap());
            file.set_len(0).unwrap();
            assert_eq!(watched.bytes(whole), Some(&b"\0"[..]));
            std::hint::black_box(other.as_ref().to_vec());
            return;
        }
        let name = "sys::mapped::tests::a_fault_elsewhere_ends_the_process_as_before";
        let ended = Command::new(env::current_exe().unwrap())
            .args([name, "--exact"])
            .env(AGAIN, "1")
            .output()
            .unwrap();
        use std::os::unix::process::ExitStatusExt;
        assert_eq!(ended.status.signal(), Some(libc::SIGBUS), "{ended:?}");
    }
}
