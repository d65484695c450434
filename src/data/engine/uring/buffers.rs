//! Provided buffers: memory that the kernel receives into, one buffer for each arrival.
//!
//! ```text
//! offer ─▶ [ring of entries] ──publish──▶ kernel ──arrival──▶ bytes() ──▶ offer …
//! ```
//!
//! They are few and small, so that received bytes land in memory that is still in the cache. The engine copies them to a pool buffer
//! at once: the kernel may write to any buffer offered to it, so no reference to this memory is held across a call.

use crate::sys::inject::{self, Call};
use io_uring::types::BufRingEntry;
use std::{
    alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error},
    ptr::NonNull,
    sync::atomic::{AtomicU16, Ordering},
};

/// The provided buffers of one ring.
pub(super) struct ProvidedBuffers {
    entries: NonNull<BufRingEntry>,
    bytes: NonNull<u8>,
    /// Number of entries ever offered, modulo 2^16. The kernel has seen it up to the last `publish`.
    tail: u16,
}

impl ProvidedBuffers {
    /// Number of buffers: a power of two.
    pub(super) const COUNT: u16 = 256;

    /// Length of one buffer in bytes: a browser's request fits.
    pub(super) const LEN: usize = 2 * 1024;

    pub(super) fn new() -> ProvidedBuffers {
        let mut buffers =
            ProvidedBuffers { entries: allocate(entries()).cast(), bytes: allocate(memory()), tail: 0 };
        (0..ProvidedBuffers::COUNT).for_each(|buffer| buffers.offer(buffer));
        buffers.publish();
        buffers
    }

    /// Returns the address of the ring of entries.
    pub(super) fn address(&self) -> u64 {
        self.entries.as_ptr() as u64
    }

    /// Returns the first `len` bytes of a buffer that the kernel has filled.
    #[inline]
    pub(super) fn bytes(&self, buffer: u16, len: usize) -> &[u8] {
        assert!(buffer < ProvidedBuffers::COUNT && len <= ProvidedBuffers::LEN);
        // SAFETY: the range lies within the allocation, by the assertion. The kernel has handed this buffer to us and does not write
        // it before the engine offers it again, which takes `&mut self`.
        unsafe {
            std::slice::from_raw_parts(
                self.bytes.as_ptr().add(usize::from(buffer) * ProvidedBuffers::LEN),
                len,
            )
        }
    }

    /// Offers a buffer to the kernel again, from the next `publish` on.
    #[inline]
    pub(super) fn offer(&mut self, buffer: u16) {
        assert!(buffer < ProvidedBuffers::COUNT);
        let at = usize::from(self.tail % ProvidedBuffers::COUNT);
        let len =
            inject::short_len(Call::RingBuffer, || ProvidedBuffers::LEN).unwrap_or(ProvidedBuffers::LEN);
        // SAFETY: `at` lies within the entries, `buffer` within the bytes. The kernel reads entries before the published tail only;
        // at most COUNT buffers are offered, so it does not read this entry. The fields are set one by one, because the spare field
        // of the first entry is the tail.
        unsafe {
            let entry = &mut *self.entries.as_ptr().add(at);
            entry.set_addr(self.bytes.as_ptr().add(usize::from(buffer) * ProvidedBuffers::LEN) as u64);
            entry.set_len(len as u32);
            entry.set_bid(buffer);
        }
        self.tail = self.tail.wrapping_add(1);
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
        // SAFETY: allocated in `new` with these layouts. The ring, declared before its buffers, is closed by now, and `Ring::finish`
        // has seen every receive complete.
        unsafe {
            dealloc(self.entries.as_ptr().cast(), entries());
            dealloc(self.bytes.as_ptr(), memory());
        }
    }
}

fn entries() -> Layout {
    page(usize::from(ProvidedBuffers::COUNT) * size_of::<BufRingEntry>())
}

fn memory() -> Layout {
    page(usize::from(ProvidedBuffers::COUNT) * ProvidedBuffers::LEN)
}

/// The kernel requires the entries to be page-aligned.
fn page(len: usize) -> Layout {
    Layout::from_size_align(len, 4096).expect("a few pages")
}

fn allocate(layout: Layout) -> NonNull<u8> {
    // SAFETY: the length is not zero.
    NonNull::new(unsafe { alloc_zeroed(layout) }).unwrap_or_else(|| handle_alloc_error(layout))
}
