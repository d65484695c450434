//! Provided buffers: memory that the kernel receives into, one buffer for each arrival.
//!
//! ```text
//! offer ─▶ [ring of entries] ──publish──▶ kernel ──arrival──▶ FilledBuffer ──▶ bytes(), offer …
//! ```
//!
//! The usual ones are few and small, so that received bytes land in memory that is still in the cache. For backends that send more at a time
//! there is a group of larger buffers. The kernel may write to any buffer offered to it, so only a [`FilledBuffer`] gives access
//! to one, and offering it again consumes that.

use crate::sys::inject::{self, Call};
use io_uring::types::BufRingEntry;
use std::{
    alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error},
    ptr::NonNull,
    sync::atomic::{AtomicU16, Ordering},
};
use tarpon_conn::BUF_LEN;

/// A group of provided buffers of one ring.
pub(super) struct ProvidedBuffers {
    group: BufferGroup,
    entries: NonNull<BufRingEntry>,
    bytes: NonNull<u8>,
    /// Number of entries ever offered, modulo 2^16. The kernel has seen it up to the last `publish`.
    tail: u16,
}

/// Number and size of the buffers of a group.
#[derive(Clone, Copy, Debug)]
pub(super) struct BufferGroup {
    /// The number of the group.
    pub(super) id: u16,
    /// The number of its first buffer. Others of the ring have other numbers.
    first: u16,
    /// Number of buffers: a power of two.
    pub(super) count: u16,
    /// Length of one buffer in bytes.
    pub(super) len: usize,
}

impl BufferGroup {
    /// A browser's request fits in a buffer.
    pub(super) const USUAL: BufferGroup = BufferGroup { id: 0, first: 0, count: 256, len: 2 * 1024 };

    /// For backends with long responses: a buffer fits in one of the pool. All together are 512 KiB, as the usual ones.
    pub(super) const LARGE: BufferGroup = BufferGroup { id: 1, first: 256, count: 32, len: 16 * 1024 };
}
const _: () = assert!(BufferGroup::LARGE.len <= BUF_LEN);
const _: () = assert!(BufferGroup::LARGE.first == BufferGroup::USUAL.count);

/// A provided buffer that the kernel has filled and not been offered again. Dropping it loses the buffer until the ring ends.
#[must_use = "the engine offers the buffer again"]
pub(super) struct FilledBuffer(u16);

impl FilledBuffer {
    /// Returns the buffer of this number.
    ///
    /// # Safety
    /// The kernel has completed a receive into the buffer, or it was never offered; and there is no other `FilledBuffer` for it.
    #[inline]
    pub(super) unsafe fn new(number: u16) -> FilledBuffer {
        FilledBuffer(number)
    }

    /// Returns whether the buffer is one of the [usual](BufferGroup::USUAL) ones.
    #[inline]
    pub(super) fn is_usual(&self) -> bool {
        self.0 < BufferGroup::LARGE.first
    }

    /// Returns the group of the buffer.
    #[inline]
    pub(super) fn group(&self) -> BufferGroup {
        if self.is_usual() { BufferGroup::USUAL } else { BufferGroup::LARGE }
    }
}

impl ProvidedBuffers {
    pub(super) fn new(group: BufferGroup) -> ProvidedBuffers {
        let (entries, bytes) = (allocate(entries(group)).cast(), allocate(memory(group)));
        let mut buffers = ProvidedBuffers { group, entries, bytes, tail: 0 };
        for number in group.first..group.first + group.count {
            // SAFETY: each buffer is new, and offered once.
            buffers.offer(unsafe { FilledBuffer::new(number) });
        }
        buffers.publish();
        buffers
    }

    /// Returns the address of the ring of entries.
    pub(super) fn address(&self) -> u64 {
        self.entries.as_ptr() as u64
    }

    /// Returns the first `len` bytes of a buffer.
    #[inline]
    pub(super) fn bytes<'b>(&'b self, buffer: &'b FilledBuffer, len: usize) -> &'b [u8] {
        assert!(len <= self.group.len);
        // SAFETY: the range lies within the allocation, by the assertions here and in `address_of`; the allocation began as zeros. The kernel does not write the buffer before it is offered again, which consumes the `FilledBuffer` borrowed here.
        unsafe { std::slice::from_raw_parts(self.address_of(buffer), len) }
    }

    /// Offers a buffer to the kernel again, from the next `publish` on.
    #[inline]
    pub(super) fn offer(&mut self, buffer: FilledBuffer) {
        let BufferGroup { count, len, .. } = self.group;
        let at = usize::from(self.tail % count);
        let len = inject::short_len(Call::RingBuffer, || len).unwrap_or(len);
        let address = self.address_of(&buffer) as u64;
        // SAFETY: `at` lies within the entries. The kernel reads entries before the published tail only. Each buffer has one
        // `FilledBuffer`, so at most `count` are offered, and the kernel does not read this entry. The fields are set one by one, because the spare
        // field of the first entry is the tail.
        unsafe {
            let entry = &mut *self.entries.as_ptr().add(at);
            entry.set_addr(address);
            entry.set_len(len as u32);
            entry.set_bid(buffer.0);
        }
        self.tail = self.tail.wrapping_add(1);
    }

    fn address_of(&self, buffer: &FilledBuffer) -> *const u8 {
        let index = buffer.0.wrapping_sub(self.group.first);
        assert!(index < self.group.count, "the buffer is one of this group");
        self.bytes.as_ptr().wrapping_add(usize::from(index) * self.group.len)
    }

    /// Publishes the offered buffers to the kernel.
    #[inline]
    pub(super) fn publish(&self) {
        // SAFETY: the tail lies in the first entry. The kernel reads it concurrently, hence an atomic.
        unsafe { AtomicU16::from_ptr(BufRingEntry::tail(self.entries.as_ptr()).cast_mut()) }
            .store(self.tail, Ordering::Release);
    }
}

impl Drop for ProvidedBuffers {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with these layouts. `Ring` drops its buffers only if every receive has completed, and otherwise
        // leaks them.
        unsafe {
            dealloc(self.entries.as_ptr().cast(), entries(self.group));
            dealloc(self.bytes.as_ptr(), memory(self.group));
        }
    }
}

fn entries(group: BufferGroup) -> Layout {
    page(usize::from(group.count) * size_of::<BufRingEntry>())
}

fn memory(group: BufferGroup) -> Layout {
    page(usize::from(group.count) * group.len)
}

/// The kernel requires the entries to be page-aligned.
fn page(len: usize) -> Layout {
    Layout::from_size_align(len, 4096).expect("a few pages")
}

fn allocate(layout: Layout) -> NonNull<u8> {
    // SAFETY: the length is not zero.
    NonNull::new(unsafe { alloc_zeroed(layout) }).unwrap_or_else(|| handle_alloc_error(layout))
}
