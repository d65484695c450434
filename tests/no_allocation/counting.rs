//! The allocator of the system, which counts the calls of all threads but those that are excused.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    sync::atomic::{AtomicU64, Ordering},
};

/// The allocator of the system, which counts its calls.
struct Counting;

static COUNT: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Whether the test does not count the allocations of this thread.
    static EXCUSED: Cell<bool> = const { Cell::new(false) };
}

/// Excuses the allocations of this thread.
pub(crate) fn excuse_this_thread() {
    EXCUSED.set(true);
}

/// Returns how many allocations were counted.
pub(crate) fn allocation_count() -> u64 {
    COUNT.load(Ordering::Relaxed)
}

/// Returns how many allocations a call makes in this thread, which is excused otherwise. No other thread that is not excused may run.
pub(crate) fn allocations_of<T>(call: impl FnOnce() -> T) -> (T, u64) {
    let before = allocation_count();
    EXCUSED.set(false);
    let result = call();
    EXCUSED.set(true);
    (result, allocation_count() - before)
}

fn count() {
    // A thread that exits may have dropped the value already; no worker exits during the test.
    if EXCUSED.try_with(|excused| !excused.get()).unwrap_or(false) {
        COUNT.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: every call goes to the allocator of the system unchanged; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps what `alloc` demands.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps what `alloc_zeroed` demands.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, len: usize) -> *mut u8 {
        count();
        // SAFETY: the caller keeps what `realloc` demands.
        unsafe { System.realloc(at, layout, len) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps what `dealloc` demands.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;
