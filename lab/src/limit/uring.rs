//! The null server on io_uring: completions only, one system call for a whole batch.
//!
//! ```text
//! listener ── accept, multishot ──▶ connection ── recv, multishot ──▶ buffer ──▶ send the response
//!                                                       ▲                │
//!                                                       └─ given back, once per batch
//! ```
//!
//! One receive, one response: a client that pipelines would be answered too seldom.

#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::collections::HashMap;
use std::io;
use std::net::TcpListener;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;

use io_uring::types::{BufRingEntry, Fd};
use io_uring::{IoUring, SubmissionQueue, Submitter, cqueue, opcode, squeue};
use rustix::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use rustix::io::Errno;

/// Answers `response` to anything that arrives on a connection of `listener`.
pub(super) fn serve(listener: &TcpListener, response: &'static [u8]) -> io::Result<()> {
    let mut ring = ring()?;
    let mut buffers = Buffers::new();
    // SAFETY: the ring of entries is as long as told, and `Buffers` never frees it: it outlives `ring`.
    unsafe {
        ring.submitter().register_buf_ring_with_flags(
            buffers.entries.as_ptr() as u64,
            BUFFER_COUNT,
            GROUP,
            0,
        )?;
    }
    // The connections, so that each is closed once. The hot path does not look here.
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
            let (act, fd) = split(completion.user_data());
            let (result, flags) = (completion.result(), completion.flags());
            let more = cqueue::more(flags);
            match act {
                ACCEPT => {
                    if result >= 0 {
                        // SAFETY: the kernel has just made this descriptor for us; nobody else holds it.
                        connections.insert(result, unsafe { OwnedFd::from_raw_fd(result) });
                        push(&submitter, &mut submissions, &recv(result))?;
                    }
                    if !more {
                        push(&submitter, &mut submissions, &accept(listener))?;
                    }
                }
                RECV => {
                    if let Some(buffer) = cqueue::buffer_select(flags) {
                        buffers.give(buffer);
                    }
                    if result > 0 {
                        push(&submitter, &mut submissions, &send(fd, response))?;
                    }
                    if result == 0 || (result < 0 && result != -Errno::NOBUFS.raw_os_error()) {
                        connections.remove(&fd);
                    } else if !more {
                        push(&submitter, &mut submissions, &recv(fd))?;
                    }
                }
                // A send that failed is followed by a receive that fails, which ends the connection.
                _ => {}
            }
        }
        buffers.publish();
    }
}

/// Whether this host offers such a ring.
pub(crate) fn probe() -> io::Result<()> {
    // On a thread of its own: the kernel ends a ring later, and interrupts the thread that made it.
    thread::spawn(|| ring().map(drop)).join().expect("making a ring does not panic")
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
    // SAFETY: an entry names a descriptor by number, which at worst is closed; a send reads `response`, which
    // is static; a receive writes into `Buffers`, which are leaked.
    while unsafe { queue.push(entry) }.is_err() {
        queue.sync();
        submitter.submit()?;
        queue.sync();
    }
    Ok(())
}

/// What a completion completes, in the upper half of its user data; the descriptor in the lower.
fn join(act: u32, fd: RawFd) -> u64 {
    u64::from(act) << 32 | u64::from(fd as u32)
}

fn split(user_data: u64) -> (u32, RawFd) {
    ((user_data >> 32) as u32, user_data as u32 as RawFd)
}

/// The provided buffers: a ring of entries from which the kernel takes one per receive. Never freed.
struct Buffers {
    entries: NonNull<BufRingEntry>,
    bytes: NonNull<u8>,
    /// Entries ever offered, modulo 2^16. The kernel has seen it up to the last `publish`.
    tail: u16,
}

impl Buffers {
    fn new() -> Buffers {
        let mut buffers = Buffers {
            entries: allocate(usize::from(BUFFER_COUNT) * size_of::<BufRingEntry>()).cast(),
            bytes: allocate(usize::from(BUFFER_COUNT) * BUFFER_LEN),
            tail: 0,
        };
        (0..BUFFER_COUNT).for_each(|buffer| buffers.give(buffer));
        buffers.publish();
        buffers
    }

    /// Offers a buffer to the kernel again, from the next `publish` on.
    fn give(&mut self, buffer: u16) {
        assert!(buffer < BUFFER_COUNT);
        let at = usize::from(self.tail % BUFFER_COUNT);
        // SAFETY: `at` lies within the entries and `buffer` within the bytes. The kernel reads entries before
        // the published tail only. At most BUFFER_COUNT buffers are out, so that this entry is not one of
        // those. The fields are set one by one: the first entry's spare field is the tail.
        unsafe {
            let entry = &mut *self.entries.as_ptr().add(at);
            entry.set_addr(self.bytes.as_ptr().add(usize::from(buffer) * BUFFER_LEN) as u64);
            entry.set_len(BUFFER_LEN as u32);
            entry.set_bid(buffer);
        }
        self.tail = self.tail.wrapping_add(1);
    }

    /// Lets the kernel see what was given.
    fn publish(&self) {
        // SAFETY: the entries begin on a page. The tail is read by the kernel at the same time, hence an
        // atomic.
        unsafe { AtomicU16::from_ptr(BufRingEntry::tail(self.entries.as_ptr()).cast_mut()) }
            .store(self.tail, Ordering::Release);
    }
}

/// Zeroed memory on a page, for ever.
fn allocate(len: usize) -> NonNull<u8> {
    let layout = Layout::from_size_align(len, PAGE_LEN).expect("a few pages");
    // SAFETY: the length is not zero.
    NonNull::new(unsafe { alloc_zeroed(layout) }).unwrap_or_else(|| handle_alloc_error(layout))
}

const ACCEPT: u32 = 0;
const RECV: u32 = 1;
const SEND: u32 = 2;

/// Submissions before the kernel must be called; a batch of 64 connections needs 64.
const SUBMISSION_COUNT: u32 = 1024;

/// Completions that may wait: more than there are connections in a race.
const COMPLETION_COUNT: u32 = 32 << 10;

/// Few and small: a receive lands in memory that is still in the cache. A power of two.
const BUFFER_COUNT: u16 = 256;

/// Bytes of a provided buffer: any request of a load generator.
const BUFFER_LEN: usize = 2 << 10;

/// The only group of provided buffers.
const GROUP: u16 = 0;

/// Alignment the kernel asks of the ring.
const PAGE_LEN: usize = 4096;

/// Linux, `include/linux/socket.h`: no SIGPIPE; and the kernel itself repeats a short send.
const MSG_NOSIGNAL: i32 = 0x4000;
const MSG_WAITALL: i32 = 0x100;
