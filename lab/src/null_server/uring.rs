//! The null server on io_uring: completions only, one system call for a whole batch.
//!
//! ```text
//! listener ── accept, multishot ──▶ connection ── recv, multishot ──▶ buffer ──▶ send the response
//!                                                       ▲                │
//!                                                       └─ returned, once per batch
//! ```
//!
//! One receive gets the responses to what arrived: the requests of a batch must arrive together, and fit in a buffer.

#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::collections::HashMap;
use std::io;
use std::net::TcpListener;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;

use super::NullResponses;
use io_uring::types::{BufRingEntry, Fd};
use io_uring::{IoUring, SubmissionQueue, Submitter, cqueue, opcode, squeue};
use rustix::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use rustix::io::Errno;

/// Sends responses whenever bytes arrive on a connection of `listener`.
pub(super) fn serve(listener: &TcpListener, responses: NullResponses) -> io::Result<()> {
    let mut ring = ring()?;
    let mut buffers = BufferRing::new();
    // SAFETY: the ring has BUFFER_COUNT entries, and `BufferRing` never frees them: they outlive `ring`.
    unsafe {
        ring.submitter().register_buf_ring_with_flags(
            buffers.entries.as_ptr() as u64,
            BUFFER_COUNT,
            GROUP,
            0,
        )?;
    }
    // Owns the connections, so that each closes once. The hot path does not read the map.
    let mut connections: HashMap<RawFd, OwnedFd> = HashMap::new();

    let (submitter, mut submissions, mut completions) = ring.split();
    push(&submitter, &mut submissions, &accept(listener))?;
    loop {
        submissions.sync();
        match submitter.submit_and_wait(1) {
            Ok(_) => {}
            Err(error) if error.raw_os_error() == Some(Errno::INTR.raw_os_error()) => {}
            Err(error) => return Err(error),
        }
        completions.sync();
        for completion in &mut completions {
            let (operation, fd) = split(completion.user_data());
            let (result, flags) = (completion.result(), completion.flags());
            let more = cqueue::more(flags);
            match operation {
                ACCEPT => {
                    if result >= 0 {
                        // SAFETY: the kernel has just created this descriptor for the accept; no other value owns it.
                        connections.insert(result, unsafe { OwnedFd::from_raw_fd(result) });
                        push(&submitter, &mut submissions, &recv(result))?;
                    }
                    if !more {
                        push(&submitter, &mut submissions, &accept(listener))?;
                    }
                }
                RECV => {
                    if let Some(buffer) = cqueue::buffer_select(flags) {
                        buffers.add(buffer);
                    }
                    if result > 0 {
                        let response = responses.to_requests(result as usize);
                        push(&submitter, &mut submissions, &send(fd, response))?;
                    }
                    if result == 0 || (result < 0 && result != -Errno::NOBUFS.raw_os_error()) {
                        connections.remove(&fd);
                    } else if !more {
                        push(&submitter, &mut submissions, &recv(fd))?;
                    }
                }
                // After a failed send a receive fails too, and that closes the connection.
                _ => {}
            }
        }
        buffers.publish();
    }
}

/// Creates a ring, and fails if this host does not support it.
pub(crate) fn probe() -> io::Result<()> {
    // In a separate thread: the kernel destroys a ring later, and then interrupts the thread that created it.
    thread::spawn(|| ring().map(drop)).join().expect("creating a ring does not panic")
}

fn ring() -> io::Result<IoUring> {
    IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_cqsize(COMPLETION_COUNT)
        .build(SUBMISSION_COUNT)
}

fn accept(listener: &TcpListener) -> squeue::Entry {
    opcode::AcceptMulti::new(Fd(listener.as_raw_fd())).build().user_data(join(ACCEPT, 0))
}

fn recv(fd: RawFd) -> squeue::Entry {
    opcode::RecvMulti::new(Fd(fd), GROUP).build().user_data(join(RECV, fd))
}

fn send(fd: RawFd, response: &'static [u8]) -> squeue::Entry {
    opcode::Send::new(Fd(fd), response.as_ptr(), response.len() as u32)
        .flags(MSG_NOSIGNAL | MSG_WAITALL)
        .build()
        .user_data(join(SEND, fd))
}

fn push(submitter: &Submitter<'_>, queue: &mut SubmissionQueue<'_>, entry: &squeue::Entry) -> io::Result<()> {
    // SAFETY: an entry names a descriptor by number; using a closed one only fails. A send reads `response`, which is static.
    // A receive writes into the memory of `BufferRing`, which is never freed.
    while unsafe { queue.push(entry) }.is_err() {
        queue.sync();
        submitter.submit()?;
        queue.sync();
    }
    Ok(())
}

/// Returns the user data of an entry: the operation in the upper half, the descriptor in the lower half.
fn join(operation: u32, fd: RawFd) -> u64 {
    u64::from(operation) << 32 | u64::from(fd as u32)
}

fn split(user_data: u64) -> (u32, RawFd) {
    ((user_data >> 32) as u32, user_data as u32 as RawFd)
}

/// The provided buffers: a ring of entries, of which the kernel takes one per receive. Never freed.
struct BufferRing {
    entries: NonNull<BufRingEntry>,
    bytes: NonNull<u8>,
    /// Entries added so far, modulo 2^16. The kernel sees them after `publish`.
    tail: u16,
}

impl BufferRing {
    fn new() -> BufferRing {
        let mut buffers = BufferRing {
            entries: allocate(usize::from(BUFFER_COUNT) * size_of::<BufRingEntry>()).cast(),
            bytes: allocate(usize::from(BUFFER_COUNT) * BUFFER_LEN),
            tail: 0,
        };
        (0..BUFFER_COUNT).for_each(|buffer| buffers.add(buffer));
        buffers.publish();
        buffers
    }

    /// Adds a buffer to the ring. The kernel sees it after the next `publish`.
    fn add(&mut self, buffer: u16) {
        assert!(buffer < BUFFER_COUNT);
        let at = usize::from(self.tail % BUFFER_COUNT);
        // SAFETY: `at` lies within the entries, and `buffer` within the bytes. The kernel reads only entries before the published
        // tail. The ring holds at most BUFFER_COUNT of them, so this entry is not among them. The code sets single fields,
        // because the spare field of the first entry is the tail.
        unsafe {
            let entry = &mut *self.entries.as_ptr().add(at);
            entry.set_addr(self.bytes.as_ptr().add(usize::from(buffer) * BUFFER_LEN) as u64);
            entry.set_len(BUFFER_LEN as u32);
            entry.set_bid(buffer);
        }
        self.tail = self.tail.wrapping_add(1);
    }

    /// Makes the added entries visible to the kernel.
    fn publish(&self) {
        // SAFETY: the entries are page-aligned, so the tail is aligned. The kernel reads the tail concurrently, hence the atomic.
        unsafe { AtomicU16::from_ptr(BufRingEntry::tail(self.entries.as_ptr()).cast_mut()) }
            .store(self.tail, Ordering::Release);
    }
}

/// Allocates zeroed, page-aligned memory that is never freed.
fn allocate(len: usize) -> NonNull<u8> {
    let layout = Layout::from_size_align(len, PAGE_LEN).expect("a few pages");
    // SAFETY: the length is not zero.
    NonNull::new(unsafe { alloc_zeroed(layout) }).unwrap_or_else(|| handle_alloc_error(layout))
}

const ACCEPT: u32 = 0;
const RECV: u32 = 1;
const SEND: u32 = 2;

/// Submissions per system call; a batch of 64 connections needs 64.
const SUBMISSION_COUNT: u32 = 1024;

/// Completions that can wait: more than a race has connections.
const COMPLETION_COUNT: u32 = 32 << 10;

/// Number of buffers, a power of two. Few and small buffers stay in the CPU cache.
const BUFFER_COUNT: u16 = 256;

/// Bytes of a buffer: enough for any request of a load generator.
const BUFFER_LEN: usize = 2 << 10;

/// The only buffer group.
const GROUP: u16 = 0;

/// Alignment that the kernel requires of the ring.
const PAGE_LEN: usize = 4096;

/// Linux, `include/linux/socket.h`: no SIGPIPE, and the kernel completes short sends by itself.
const MSG_NOSIGNAL: i32 = 0x4000;
const MSG_WAITALL: i32 = 0x100;
