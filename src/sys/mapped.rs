//! A file that others may change, mapped twice: once for us to read, once for the kernel to read on our behalf.
//!
//! ```text
//! file ─┬─ map ─▶ read here         truncated: SIGBUS, survived; damaged from then on     see `fault`
//!       └─ map ─▶ named in a send   truncated: the send fails with EFAULT, or ends short
//! ```
//!
//! Two, because surviving a fault puts zeros into the first one, which the kernel must not send.
//!
//! A file that is truncated keeps zeros to the end of its new last page, which read without a fault. So whoever asks whether
//! there was one has the page that was the last touched too.

use super::{fault::MapWatch, memory::MemoryMap};
use bytes::Bytes;
use std::{fs::File, io, sync::Arc};
use tarpon_site::Region;

/// The maps of a file.
#[derive(Debug)]
pub(crate) struct Mapped {
    /// Dropped before the map it watches.
    watch: MapWatch,
    read: MemoryMap,
    for_kernel: MemoryMap,
}

impl Mapped {
    /// Maps a stretch of a file, which begins on a page: to all below, it is the file. One that is in memory may be mapped in
    /// huge pages.
    ///
    /// # Errors
    /// The file system cannot map, or the address space is full.
    pub(crate) fn new(file: &File, region: Region, huge: bool) -> io::Result<Mapped> {
        let read = if huge { MemoryMap::huge(file, region)? } else { MemoryMap::new(file, region)? };
        let for_kernel = MemoryMap::new(file, region)?;
        // SAFETY: our mapping for reading only, which lives as long as the watch. `bytes` tells of the zeros.
        let watch = unsafe { MapWatch::new(read.pages())? };
        let mapped = Mapped { watch, read, for_kernel };
        // The first time here, where the disk may be waited for.
        mapped.is_damaged();
        mapped.read.lock_last_page();
        Ok(mapped)
    }

    /// A stretch of the file as an image's bytes. Of those too [`is_damaged`](Mapped::is_damaged) tells.
    pub(crate) fn image(self: &Arc<Mapped>, region: Region) -> Option<Bytes> {
        within(&self.read, region)?;
        Some(
            Bytes::from_owner(MappedRead(Arc::clone(self)))
                .slice(region.at as usize..(region.at + region.len) as usize),
        )
    }

    /// Bytes of the file, to be copied at once. When that is done, [`is_damaged`](Mapped::is_damaged) tells whether
    /// they are to be thrown away. `None`: there is no such place.
    #[inline]
    pub(crate) fn bytes(&self, region: Region) -> Option<&[u8]> {
        within(&self.read, region)
    }

    /// The same for the kernel alone, which fails where there is nothing. Not to be read: that would be SIGBUS.
    #[inline]
    pub(crate) fn bytes_for_kernel(&self, region: Region) -> Option<&[u8]> {
        within(&self.for_kernel, region)
    }

    /// How long it is, in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.read.as_ref().len() as u64
    }

    /// The file is truncated by a page or more: what was read of it may be zeros.
    #[inline]
    pub(crate) fn is_damaged(&self) -> bool {
        self.read.touch_last_page();
        self.watch.is_damaged()
    }
}

/// The map we read, kept for as long as its bytes are.
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

    /// Runs itself again: that process ends.
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
