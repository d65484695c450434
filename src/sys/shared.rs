//! Memory shared with the children that a process forks later: mmap(2), `MAP_SHARED`.
//!
//! ```text
//! parent ── new ──▶ [ item 0 │ item 1 │ item 2 ] ◀── the same pages ── children, whatever became of their parent
//! ```
//!
//! Threads use it like any other memory. Unwritten pages cost nothing, and fork copies none of them.
//!
//! Memory of a [`shared_file`] can be shared with a process that is no child: it receives the descriptor.

pub(crate) use super::system::sealed::shared_file;

use super::{memory, system::huge::NORESERVE};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use std::{
    fs::File,
    io, mem,
    ops::Deref,
    ptr::{self, NonNull},
    slice,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use tarpon_conn::Counters;

/// Items shared with all processes forked later. They must be atomics or made of atomics.
#[derive(Debug)]
pub(crate) struct SharedArray<T: Sync> {
    /// Invariant: `count` items from here are initialised, and mapped until this is dropped.
    start: NonNull<T>,
    count: usize,
}

/// One item of a shared array.
#[derive(Debug)]
pub(crate) struct SharedRow<T: Sync> {
    /// Invariant: points to an item of `_all`.
    item: NonNull<T>,
    _all: Arc<SharedArray<T>>,
}

/// A type with zero bytes as a valid value.
///
/// # Safety
/// That is so.
pub(crate) unsafe trait Zeroed: Sync {}

// SAFETY: zero bytes are a number.
unsafe impl Zeroed for AtomicU64 {}
// SAFETY: consists of `AtomicU64` alone, and of padding.
unsafe impl Zeroed for Counters {}

/// Numbers in memory that another program writes: read only.
#[derive(Debug)]
pub(crate) struct ForeignWords(SharedArray<AtomicU64>);

impl<T: Sync + Default> SharedArray<T> {
    /// Creates `count` default items.
    pub(crate) fn new(count: usize) -> io::Result<SharedArray<T>> {
        let shared = SharedArray { start: map(count)?, count };
        for number in 0..count {
            // SAFETY: within the mapping, which no other code knows of yet, and aligned, as pages are.
            unsafe { shared.start.add(number).write(T::default()) };
        }
        Ok(shared)
    }
}

impl SharedArray<AtomicU64> {
    /// Creates `count` zeros. Their pages are not touched.
    pub(crate) fn zeros(count: usize) -> io::Result<SharedArray<AtomicU64>> {
        // New pages are zeros, which are valid numbers.
        Ok(SharedArray { start: map(count)?, count })
    }
}

impl<T: Zeroed> SharedArray<T> {
    /// Maps `count` items of a file that begin at this page. It is as long as they need, at least.
    pub(crate) fn map(file: &File, at: u64, count: usize) -> io::Result<SharedArray<T>> {
        Ok(SharedArray { start: map_file(file, at, count, ProtFlags::READ | ProtFlags::WRITE)?, count })
    }
}

impl ForeignWords {
    /// Maps a file of another program. Its processes do not shorten it.
    pub(crate) fn map(file: &File) -> io::Result<ForeignWords> {
        let count = memory::len(file)? as usize / size_of::<AtomicU64>();
        Ok(ForeignWords(SharedArray { start: map_file(file, 0, count, ProtFlags::READ)?, count }))
    }

    /// Returns the number at this place. `None`: it is beyond the memory.
    pub(crate) fn get(&self, place: u64) -> Option<u64> {
        let word = self.0.get(usize::try_from(place).ok()?)?;
        // A load writes nothing: the hardware loads a word without a lock.
        Some(word.load(Ordering::Relaxed))
    }
}

impl<T: Sync> SharedArray<T> {
    /// Returns the item of this number.
    pub(crate) fn row(self: &Arc<Self>, number: usize) -> SharedRow<T> {
        SharedRow { item: NonNull::from(&self[number]), _all: Arc::clone(self) }
    }
}

/// Maps memory for `count` items.
fn map<T: Sync>(count: usize) -> io::Result<NonNull<T>> {
    check_item::<T>();
    let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | NORESERVE);
    // SAFETY: a new mapping, at a place the kernel chooses, so no memory in use is touched.
    let start = unsafe { mmap_anonymous(ptr::null_mut(), len::<T>(count), prot, flags)? };
    NonNull::new(start.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

/// Maps `count` items of a file from this page on.
fn map_file<T: Zeroed>(file: &File, at: u64, count: usize, prot: ProtFlags) -> io::Result<NonNull<T>> {
    check_item::<T>();
    let len = len::<T>(count);
    if at.checked_add(len as u64).is_none_or(|end| memory::len(file).map_or(true, |file_len| file_len < end))
    {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    // SAFETY: a new mapping, at a place the kernel chooses, so no memory in use is touched. Items are zero bytes, or what a process of this
    // program or another one has written to their atomics.
    let start = unsafe { mmap(ptr::null_mut(), len, prot, MapFlags::SHARED, file, at)? };
    NonNull::new(start.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

fn check_item<T: Sync>() {
    const {
        // Items are never dropped: resources belong to one process, and no process knows that it is the last.
        assert!(!mem::needs_drop::<T>());
        assert!(mem::align_of::<T>() <= PAGE_LEN_MIN);
    }
}

/// Returns the length of `count` items in bytes, at least 1.
fn len<T>(count: usize) -> usize {
    (count * size_of::<T>()).max(1)
}

/// No architecture has smaller pages.
const PAGE_LEN_MIN: usize = 4096;

impl<T: Sync> Deref for SharedArray<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: by the invariant. Only shared references exist, which `T: Sync` allows.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.count) }
    }
}

impl<T: Sync> Deref for SharedRow<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: by the invariant; `_all` is held for as long as this is.
        unsafe { self.item.as_ref() }
    }
}

impl<T: Sync> SharedRow<T> {
    /// Points to the item of this number instead. Writes nothing but this: a count of references lies on another page.
    pub(crate) fn select(&mut self, number: usize) {
        self.item = NonNull::from(&self._all[number]);
    }
}

impl<T: Sync> Clone for SharedRow<T> {
    fn clone(&self) -> SharedRow<T> {
        SharedRow { item: self.item, _all: Arc::clone(&self._all) }
    }
}

impl<T: Sync> Drop for SharedArray<T> {
    fn drop(&mut self) {
        // SAFETY: a borrow of an item borrows `self`, or holds an `Arc` of it. Items need no drop. The call fails only for a mapping
        // that does not exist.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), len::<T>(self.count)) };
    }
}

// SAFETY: the mapping belongs to no thread, and all access is by shared references, which `T: Sync` allows.
unsafe impl<T: Sync> Send for SharedArray<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for SharedArray<T> {}
// SAFETY: as above; it is such a reference, with what keeps it alive.
unsafe impl<T: Sync> Send for SharedRow<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for SharedRow<T> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::attempts;
    use rustix::process::{WaitOptions, waitpid};
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn parent_reads_what_child_writes() {
        let shared: Arc<SharedArray<AtomicU64>> = Arc::new(SharedArray::new(3).unwrap());
        let parts: Vec<_> = (0..3).map(|number| shared.row(number)).collect();
        let child = attempts::in_child(|| parts[1].store(7, Relaxed)).unwrap();
        waitpid(Some(child), WaitOptions::empty()).unwrap();
        assert_eq!(shared.iter().map(|item| item.load(Relaxed)).collect::<Vec<_>>(), [0, 7, 0]);
        let mut row = shared.row(0);
        row.select(1);
        assert_eq!(row.load(Relaxed), 7);
        assert!(SharedArray::zeros(1 << 20).unwrap().iter().all(|item| item.load(Relaxed) == 0));
        assert!(SharedArray::<AtomicU64>::new(0).unwrap().is_empty());
    }

    #[test]
    fn words_of_a_file_are_read_through_another_mapping() {
        let file = shared_file().unwrap();
        file.set_len(1 << 20).unwrap();
        let written: SharedArray<AtomicU64> = SharedArray::map(&file, 1 << 16, 3).unwrap();
        let read = ForeignWords::map(&file.try_clone().unwrap()).unwrap();
        drop(file);
        written[2].store(7, Relaxed);
        assert_eq!([(1 << 13) + 1, (1 << 13) + 2].map(|place| read.get(place)), [Some(0), Some(7)]);
        assert_eq!([1 << 17, u64::MAX].map(|place| read.get(place)), [None; 2]);
        let short = shared_file().unwrap();
        assert!(SharedArray::<AtomicU64>::map(&short, 0, 1).is_err(), "an access would be a SIGBUS");
        assert!(SharedArray::<AtomicU64>::map(&short, u64::MAX, 1).is_err());
    }
}
