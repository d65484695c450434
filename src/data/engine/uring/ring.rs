//! The ring: submits operations to the kernel and takes their completions.
//!
//! The kernel reads and writes memory after the call that names it has returned. The ring owns that memory until the completion, and
//! leaks it if it is dropped earlier:
//!
//! | operation | the kernel | owned by |
//! |---|---|---|
//! | receive | writes a provided buffer | [`ProvidedBuffers`], until [`Completion::buffer`] hands it to the engine |
//! | send | reads a send buffer | [`SendBuffers`], by slot, until the send completes |
//! | gathered send | also reads what the parts name | the caller of [`SendBuffer::gather`], by its contract |
//! | receive that drops | writes into a place that nothing reads | [`bin`] |
//! | accept, poll, cancel | touches no memory of ours | |
//!
//! A descriptor named by an operation is one of a slot, a listener or the mailbox, all of which the engine keeps open until the operation
//! completes. A descriptor closed too early would name another file, but no memory.

use super::{
    buffers::{BufferGroup, FilledBuffer, ProvidedBuffers},
    send_buffers::{SendBuffer, SendBuffers},
};
use crate::{
    data::{engine::RingFeatures, worker::WAIT_MS_MAX},
    sys::{
        inject::{self, Call},
        io::{DISCARD_LEN_MAX, bin},
    },
};
use io_uring::{
    IoUring, cqueue, opcode,
    register::{Probe, Restriction},
    squeue,
    types::{self, CancelBuilder, Fd, SubmitArgs},
};
use rustix::io::Errno;
use std::{
    collections::VecDeque,
    io,
    mem::{self, ManuallyDrop},
    os::fd::{AsFd, AsRawFd},
    ptr,
    time::Duration,
};

/// Makes a ring, and asks the kernel what it can do.
pub(super) fn features() -> io::Result<RingFeatures> {
    let ring = IoUring::new(1)?;
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe)?;
    let params = ring.params();
    let names = [
        (probe.is_supported(opcode::SendZc::CODE), "zero-copy send"),
        (params.is_feature_recvsend_bundle(), "bundles"),
        (params.is_feature_min_timeout(), "minimum waits"),
    ];
    Ok(RingFeatures {
        operation_count: (0..u8::MAX).filter(|&code| probe.is_supported(code)).count(),
        names: names.into_iter().filter_map(|(has, name)| has.then_some(name)).collect(),
    })
}

/// Submission and completion queue of one worker.
pub(super) struct Ring {
    ring: IoUring,
    /// Memory for received bytes, by the number of its group.
    buffers: ManuallyDrop<Vec<ProvidedBuffers>>,
    /// Memory for bytes to send.
    send_buffers: SendBuffers,
    /// Entries that did not fit into the submission queue, in order.
    overflow: VecDeque<squeue::Entry>,
    /// Number of submitted entries without their last completion.
    pending: usize,
}

/// Operation of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    /// Accept clients at the listener of this number.
    Accept(u32),
    /// Receive bytes for the slot of this number.
    Receive(u32),
    /// Send bytes of the slot, or wait until its socket is writable.
    Send(u32),
    /// Wait for messages in the mailbox.
    Mailbox,
    /// Cancel an accept. The completion of the accept itself shows whether it has ended.
    CancelAccept(u32),
    /// Cancel a receive, likewise.
    CancelReceive(u32),
    /// Cancel a send, likewise.
    CancelSend(u32),
}

/// One completion.
pub(super) struct Completion {
    pub(super) op: Op,
    pub(super) result: Result<u32, Errno>,
    /// The provided buffer with the received bytes; the engine must [offer](Ring::offer) it again.
    pub(super) buffer: Option<FilledBuffer>,
    /// More completions of the same entry follow.
    pub(super) more: bool,
}

impl Ring {
    /// Creates a ring with all that the engine needs: Linux 6.1. `groups`: of provided buffers, by their numbers.
    ///
    /// # Errors
    /// The kernel is older, or the host forbids it.
    pub(super) fn new(groups: &[BufferGroup]) -> io::Result<Ring> {
        let ring: IoUring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_cqsize(COMPLETION_COUNT)
            .setup_r_disabled()
            .build(SUBMISSION_COUNT)?;
        let buffers = groups.iter().map(|&group| ProvidedBuffers::new(group)).collect();
        let buffers = ManuallyDrop::<Vec<_>>::new(buffers);
        for (group, buffers) in groups.iter().zip(&*buffers) {
            let (address, BufferGroup { id, count, .. }) = (buffers.address(), *group);
            // SAFETY: the ring of entries has the length given. It is freed only if no receive is pending, see `drop`; if a call below
            // fails, never.
            unsafe { ring.submitter().register_buf_ring_with_flags(address, count, id, 0)? };
        }
        // A seccomp filter does not see the operations of a ring. These restrictions bound what a compromised worker can do with it.
        ring.submitter().register_restrictions(&mut restrictions())?;
        ring.submitter().register_enable_rings()?;
        Ok(Ring {
            ring,
            buffers,
            send_buffers: SendBuffers::default(),
            overflow: VecDeque::new(),
            pending: 0,
        })
    }

    /// Submits the queued entries and waits for a completion, for at most `wait_ms`. `None`: without limit. Returns `false` if the kernel
    /// had no time to look for completions: a signal arrived, or memory is short for now.
    pub(super) fn wait(&mut self, wait_ms: Option<u64>) -> io::Result<bool> {
        for buffers in &*self.buffers {
            buffers.publish();
        }
        self.submit_overflow()?;
        // The call must not wait for entries that were not submitted.
        let wait_ms = if self.overflow.is_empty() { wait_ms } else { Some(0) };
        let waited = inject::fails(Call::RingWait).map_err(io::Error::from).and_then(|()| {
            match wait_ms.map(|ms| ms.min(WAIT_MS_MAX)) {
                None => self.ring.submit_and_wait(1),
                Some(ms) => {
                    let time = types::Timespec::from(Duration::from_millis(ms));
                    self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&time))
                }
            }
        });
        let has_looked = !matches!(&waited, Err(error) if is_interrupted(error));
        ignore_transient(waited).map(|()| has_looked)
    }

    /// Returns whether completions wait in the kernel, as the queue was full.
    pub(super) fn has_overflow(&mut self) -> bool {
        self.ring.submission().cq_overflow()
    }

    /// Returns the next completion, if there is one.
    pub(super) fn next(&mut self) -> Option<Completion> {
        let entry = self.ring.completion().next()?;
        let more = cqueue::more(entry.flags());
        self.pending -= usize::from(!more);
        let result = u32::try_from(entry.result()).map_err(|_| Errno::from_raw_os_error(-entry.result()));
        let result = inject::completed(entry.user_data(), result);
        let op = Op::from(entry.user_data());
        if let Op::Send(slot) = op {
            self.send_buffers.completed(slot);
        }
        // SAFETY: this completion ends a receive into the buffer, and each completion is taken once.
        let buffer = cqueue::buffer_select(entry.flags()).map(|number| unsafe { FilledBuffer::new(number) });
        Some(Completion { op, result, buffer, more })
    }

    /// Returns the first `len` bytes of a received buffer.
    #[inline]
    pub(super) fn received<'b>(&'b self, buffer: &'b FilledBuffer, len: usize) -> &'b [u8] {
        self.buffers[usize::from(buffer.group().id)].bytes(buffer, len)
    }

    /// Offers a received buffer to the kernel again.
    #[inline]
    pub(super) fn offer(&mut self, buffer: FilledBuffer) {
        self.buffers[usize::from(buffer.group().id)].offer(buffer);
    }

    /// Takes an empty send buffer, for [`send`](Ring::send) or [`release`](Ring::release).
    #[inline]
    pub(super) fn take_send_buffer(&mut self) -> Box<SendBuffer> {
        self.send_buffers.take()
    }

    /// Frees a send buffer that is not sent.
    pub(super) fn release(&mut self, buffer: Box<SendBuffer>) {
        self.send_buffers.release(buffer);
    }

    /// Accepts clients of a listener until cancelled.
    pub(super) fn accept(&mut self, number: u32, listener: impl AsFd) {
        let op = Op::Accept(number);
        let fd = Fd(inject::entry(Call::RingAccept, op.into(), listener.as_fd().as_raw_fd()));
        // SAFETY: names no memory: the address of the client is not requested.
        unsafe { self.push(opcode::AcceptMulti::new(fd).flags(libc::SOCK_CLOEXEC).build(), op) };
    }

    /// Accepts one client.
    pub(super) fn accept_once(&mut self, number: u32, listener: impl AsFd) {
        let op = Op::Accept(number);
        let fd = Fd(inject::entry(Call::RingAccept, op.into(), listener.as_fd().as_raw_fd()));
        let entry =
            opcode::Accept::new(fd, ptr::null_mut(), ptr::null_mut()).flags(libc::SOCK_CLOEXEC).build();
        // SAFETY: names no memory: the address of the client is not requested.
        unsafe { self.push(entry, op) };
    }

    /// Receives until cancelled, each time into a provided buffer of this group.
    pub(super) fn receive(&mut self, slot: u32, socket: impl AsFd, group: BufferGroup) {
        let op = Op::Receive(slot);
        let fd = Fd(inject::entry(Call::RingReceive, op.into(), socket.as_fd().as_raw_fd()));
        // SAFETY: names the group of provided buffers, which this ring owns until the receive completes.
        unsafe { self.push(opcode::RecvMulti::new(fd, group.id).build(), op) };
    }

    /// Receives once, into a provided buffer of this group.
    pub(super) fn receive_once(&mut self, slot: u32, socket: impl AsFd, group: BufferGroup) {
        let op = Op::Receive(slot);
        let fd = Fd(inject::entry(Call::RingReceive, op.into(), socket.as_fd().as_raw_fd()));
        let entry = opcode::Recv::new(fd, ptr::null_mut(), group.len as u32).buf_group(group.id).build();
        // SAFETY: as above: with this flag the kernel takes a buffer of the group, and ignores the null pointer.
        unsafe { self.push(entry.flags(squeue::Flags::BUFFER_SELECT), op) };
    }

    /// Receives once, and drops what was received.
    pub(super) fn discard(&mut self, slot: u32, socket: impl AsFd) {
        let op = Op::Receive(slot);
        let fd = Fd(inject::entry(Call::RingReceive, op.into(), socket.as_fd().as_raw_fd()));
        let entry = opcode::Recv::new(fd, bin(), DISCARD_LEN_MAX as u32).flags(libc::MSG_TRUNC).build();
        // SAFETY: the kernel writes within the bin, which lives as long as the program, and which nothing reads.
        unsafe { self.push(entry, op) };
    }

    /// Sends a buffer once, and keeps it until the send completes.
    ///
    /// # Panics
    /// Panics if the slot has a send in flight, or waits until its socket is writable.
    pub(super) fn send(&mut self, slot: u32, socket: impl AsFd, buffer: Box<SendBuffer>, more: bool) {
        let op = Op::Send(slot);
        let fd = Fd(inject::entry(Call::RingSend, op.into(), socket.as_fd().as_raw_fd()));
        let flags = libc::MSG_NOSIGNAL | if more { libc::MSG_MORE } else { 0 };
        let buffer = self.send_buffers.start(slot, buffer);
        let entry = match buffer.message() {
            None => {
                let bytes = buffer.bytes();
                opcode::Send::new(fd, bytes.as_ptr(), bytes.len() as u32).flags(flags).build()
            }
            Some(message) => opcode::SendMsg::new(fd, message).flags(flags as u32).build(),
        };
        // SAFETY: names the boxed buffer, which `send_buffers` keeps unchanged until `next` takes the completion of this operation: the
        // only one of `Op::Send(slot)`, by the assertion in `start`. Parts elsewhere stay allocated as long, by `SendBuffer::gather`.
        unsafe { self.push(entry, op) };
    }

    /// Waits until a socket is writable.
    ///
    /// # Panics
    /// As [`send`](Ring::send).
    pub(super) fn wait_writable(&mut self, slot: u32, socket: impl AsFd) {
        let fd = Fd(socket.as_fd().as_raw_fd());
        self.send_buffers.start_wait(slot);
        // SAFETY: names no memory.
        unsafe { self.push(opcode::PollAdd::new(fd, libc::POLLOUT as u32).build(), Op::Send(slot)) };
    }

    /// Reports messages in the mailbox until cancelled.
    pub(super) fn watch_mailbox(&mut self, mailbox: impl AsFd) {
        let fd = Fd(mailbox.as_fd().as_raw_fd());
        // SAFETY: names no memory.
        unsafe { self.push(opcode::PollAdd::new(fd, libc::POLLIN as u32).multi(true).build(), Op::Mailbox) };
    }

    /// Cancels an accept in flight. The accept then completes, if it has not just completed.
    ///
    /// The kernel may miss the target: an operation about to be retried is in none of the lists that it searches. Then the cancel
    /// fails, and the engine repeats it.
    pub(super) fn cancel_accept(&mut self, number: u32) {
        self.cancel(Op::Accept(number), Op::CancelAccept(number));
    }

    /// As [`cancel_accept`](Ring::cancel_accept).
    pub(super) fn cancel_receive(&mut self, slot: u32) {
        self.cancel(Op::Receive(slot), Op::CancelReceive(slot));
    }

    /// As [`cancel_accept`](Ring::cancel_accept).
    pub(super) fn cancel_send(&mut self, slot: u32) {
        self.cancel(Op::Send(slot), Op::CancelSend(slot));
    }

    /// Cancels all operations and waits for every completion: after that the kernel touches none of our memory.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        // These were never submitted.
        self.pending -= self.overflow.len();
        self.overflow.clear();
        let mut wait_ms = 0;
        while self.pending > 0 {
            self.wait(Some(wait_ms))?;
            while let Some(completion) = self.next() {
                if let Some(buffer) = completion.buffer {
                    self.offer(buffer);
                }
                // This client was accepted too late.
                if let (Op::Accept(_), Ok(fd)) = (completion.op, completion.result) {
                    drop(super::accepted(fd));
                }
            }
            // Repeated, as the kernel may miss an operation.
            ignore_transient(self.ring.submitter().register_sync_cancel(None, CancelBuilder::any()))?;
            wait_ms = FINISH_WAIT_MS;
        }
        Ok(())
    }

    fn cancel(&mut self, target: Op, op: Op) {
        // SAFETY: names no memory: the target is found by its number.
        unsafe { self.push(opcode::AsyncCancel::new(target.into()).build(), op) };
    }

    /// Queues an entry. The kernel sees it at the next `wait`, in order, and not earlier: otherwise new completions could keep a
    /// batch from ending.
    ///
    /// # Safety
    /// The memory that the entry names stays allocated until its last completion, and no other code writes it, or reads what the kernel
    /// writes.
    unsafe fn push(&mut self, entry: squeue::Entry, op: Op) {
        let entry = entry.user_data(op.into());
        self.pending += 1;
        // SAFETY: promised by the caller.
        if !self.overflow.is_empty() || unsafe { self.ring.submission().push(&entry) }.is_err() {
            self.overflow.push_back(entry);
        }
    }

    /// Moves overflow entries to the submission queue, and submits to make room.
    fn submit_overflow(&mut self) -> io::Result<()> {
        while let Some(entry) = self.overflow.front() {
            // SAFETY: promised by the caller of `push`.
            if unsafe { self.ring.submission().push(entry) }.is_ok() {
                self.overflow.pop_front();
                continue;
            }
            ignore_transient(self.ring.submit())?;
            if self.ring.submission().is_full() {
                break;
            }
        }
        Ok(())
    }
}

impl Drop for Ring {
    /// Frees the memory of operations, or leaks it if one is pending: [`finish`](Ring::finish) was not called, or failed.
    fn drop(&mut self) {
        if self.pending > 0 {
            mem::forget(mem::take(&mut self.send_buffers));
        } else {
            // SAFETY: dropped here only. Without a pending operation the kernel writes to none of the buffers.
            unsafe { ManuallyDrop::drop(&mut self.buffers) };
        }
    }
}

/// The operations that the ring may do.
fn restrictions() -> [Restriction; 9] {
    [
        Restriction::sqe_op(opcode::AcceptMulti::CODE),
        // With one receive or many.
        Restriction::sqe_op(opcode::Recv::CODE),
        Restriction::sqe_op(opcode::Send::CODE),
        Restriction::sqe_op(opcode::SendMsg::CODE),
        Restriction::sqe_op(opcode::PollAdd::CODE),
        Restriction::sqe_op(opcode::AsyncCancel::CODE),
        // The only entry flag: choose a provided buffer.
        Restriction::sqe_flags_allowed(IOSQE_BUFFER_SELECT),
        Restriction::register_op(IORING_REGISTER_SYNC_CANCEL),
        Restriction::register_op(IORING_REGISTER_ENABLE_RINGS),
    ]
}

/// Values of `linux/io_uring.h`.
const IOSQE_BUFFER_SELECT: u8 = 1 << 5;
const IORING_REGISTER_ENABLE_RINGS: u8 = 12;
const IORING_REGISTER_SYNC_CANCEL: u8 = 24;

/// Returns whether an error of a wait says nothing about completions.
fn is_interrupted(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::INTR | Errno::AGAIN))
}

/// Ignores transient errors: timeout; signal; completion queue full or memory short for now; nothing to cancel, or the operation is
/// completing.
fn ignore_transient<T>(called: io::Result<T>) -> io::Result<()> {
    use Errno as E;
    let Err(error) = called else { return Ok(()) };
    match Errno::from_io_error(&error) {
        Some(E::TIME | E::INTR | E::BUSY | E::AGAIN | E::NOENT | E::ALREADY) => Ok(()),
        _ => Err(error),
    }
}

impl From<Op> for u64 {
    fn from(op: Op) -> u64 {
        let (kind, number) = match op {
            Op::Accept(number) => (0, number),
            Op::Receive(slot) => (1, slot),
            Op::Send(slot) => (2, slot),
            Op::Mailbox => (3, 0),
            Op::CancelAccept(number) => (4, number),
            Op::CancelReceive(slot) => (5, slot),
            Op::CancelSend(slot) => (6, slot),
        };
        kind << 32 | u64::from(number)
    }
}

impl From<u64> for Op {
    #[inline]
    fn from(data: u64) -> Op {
        let number = data as u32;
        match data >> 32 {
            0 => Op::Accept(number),
            1 => Op::Receive(number),
            2 => Op::Send(number),
            3 => Op::Mailbox,
            4 => Op::CancelAccept(number),
            5 => Op::CancelReceive(number),
            _ => Op::CancelSend(number),
        }
    }
}

/// Size of the submission queue: enough for a usual batch. Further entries [overflow](Ring::overflow).
const SUBMISSION_COUNT: u32 = 1024;

/// Size of the completion queue; further completions wait in the kernel. Both queues take 128 KiB of locked memory: the usual limit
/// of 8 MiB per user allows some fifty rings.
const COMPLETION_COUNT: u32 = 4 * 1024;

/// Wait in milliseconds for completions at the end, before all remaining operations are cancelled again.
const FINISH_WAIT_MS: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: BufferGroup = BufferGroup::USUAL;
    use std::{
        io::{Read, Write},
        net::{TcpListener, TcpStream},
        os::{fd::OwnedFd, unix::net::UnixStream},
    };

    #[test]
    fn op_survives_the_round_trip() {
        for op in [
            Op::Accept(7),
            Op::Receive(0),
            Op::Send(u32::MAX),
            Op::Mailbox,
            Op::CancelAccept(1 << 31),
            Op::CancelReceive(1),
            Op::CancelSend(2),
        ] {
            assert_eq!(Op::from(u64::from(op)), op);
        }
    }

    /// The bytes of TCP are dropped where they are, and those of a Unix socket are copied and forgotten.
    #[test]
    fn discarded_bytes_take_no_buffer() {
        const LEN: usize = 50_000;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut to_tcp = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (of_unix, mut to_unix) = UnixStream::pair().unwrap();
        to_tcp.write_all(&[7; LEN]).unwrap();
        to_unix.write_all(&[7; LEN]).unwrap();
        let mut ring = Ring::new(&[USUAL]).unwrap();
        for socket in [OwnedFd::from(listener.accept().unwrap().0), OwnedFd::from(of_unix)] {
            let mut dropped = 0;
            while dropped < LEN {
                ring.discard(1, &socket);
                ring.wait(None).unwrap();
                let completion = ring.next().expect("waited for it");
                assert!(completion.op == Op::Receive(1) && completion.buffer.is_none() && !completion.more);
                dropped += completion.result.unwrap() as usize;
            }
            assert_eq!(dropped, LEN);
        }
    }

    #[test]
    fn receives_beyond_queue_and_buffers_all_complete() {
        const COUNT: usize = 2 * SUBMISSION_COUNT as usize;
        let mut ring = Ring::new(&[USUAL]).unwrap();
        let pairs: Vec<_> = (0..COUNT).map(|_| UnixStream::pair().unwrap()).collect();
        for (slot, (ours, theirs)) in pairs.iter().enumerate() {
            (&*theirs).write_all(&[slot as u8]).unwrap();
            ring.receive(slot as u32, ours, USUAL);
        }
        let mut arrived = vec![false; COUNT];
        // A few more than needed if each pass fills all the buffers.
        for _ in 0..4 * COUNT / usize::from(USUAL.count) {
            ring.wait(Some(0)).unwrap();
            while let Some(completion) = ring.next() {
                let Op::Receive(slot) = completion.op else {
                    panic!("{:?} was not asked for", completion.op)
                };
                if let Some(buffer) = completion.buffer {
                    assert_eq!(ring.received(&buffer, completion.result.unwrap() as usize), [slot as u8]);
                    ring.offer(buffer);
                    arrived[slot as usize] = true;
                } else {
                    assert_eq!(completion.result, Err(Errno::NOBUFS));
                    assert!(!completion.more);
                    ring.receive(slot, &pairs[slot as usize].0, USUAL);
                }
            }
        }
        assert_eq!(arrived.iter().filter(|&&arrived| !arrived).count(), 0);
        ring.finish().unwrap();
    }

    #[test]
    fn restricted_ring_refuses_other_operations() {
        let mut ring = Ring::new(&[USUAL]).unwrap();
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let fd = Fd(ours.as_raw_fd());
        let address = [0u8; 16];
        let entries = [
            opcode::OpenAt::new(Fd(libc::AT_FDCWD), c"/etc/passwd".as_ptr()).build(),
            opcode::Connect::new(fd, address.as_ptr().cast(), address.len() as u32).build(),
            opcode::Socket::new(libc::AF_INET, libc::SOCK_STREAM, 0).build(),
            opcode::Splice::new(fd, -1, fd, -1, 1).build(),
            opcode::Send::new(fd, address.as_ptr(), 1).build().flags(squeue::Flags::ASYNC),
        ];
        for entry in entries {
            // SAFETY: `address` and the literal outlive the ring's use here: the refusal completes the entry below.
            unsafe { ring.push(entry, Op::Send(0)) };
            ring.wait(Some(1_000)).unwrap();
            let completion = ring.next().expect("a refusal");
            assert_eq!(completion.result, Err(Errno::ACCESS));
        }
        let refused = ring.ring.submitter().register_files(&[ours.as_raw_fd()]).unwrap_err();
        assert_eq!(Errno::from_io_error(&refused), Some(Errno::ACCESS));
    }

    #[test]
    fn nothing_is_in_flight_at_the_end() {
        let mut ring = Ring::new(&[USUAL]).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        ring.accept(0, &listener);
        let (ours, theirs) = UnixStream::pair().unwrap();
        theirs.set_nonblocking(true).unwrap();
        while (&theirs).write(&[0; 4096]).is_ok() {}
        ring.wait_writable(0, &theirs);
        let mut buffer = ring.take_send_buffer();
        buffer.copy(b"late");
        theirs.set_nonblocking(false).unwrap();
        ring.send(1, &theirs, buffer, false);
        ring.wait(Some(1)).unwrap();
        // And many that were not submitted, half of them with bytes to receive.
        let pair = UnixStream::pair().unwrap();
        for slot in 0..2 * SUBMISSION_COUNT {
            ring.receive(slot, if slot % 2 == 0 { &pair.0 } else { &ours }, USUAL);
        }
        ring.finish().unwrap();
        assert_eq!((ring.pending, ring.overflow.len()), (0, 0));
        assert!(ring.next().is_none());
    }

    #[test]
    #[should_panic = "one operation at a time"]
    fn second_send_of_a_slot_would_free_the_first() {
        let mut ring = Ring::new(&[USUAL]).unwrap();
        let (ours, _theirs) = UnixStream::pair().unwrap();
        ring.wait_writable(7, &ours);
        let buffer = ring.take_send_buffer();
        ring.send(7, &ours, buffer, false);
    }

    #[test]
    fn completed_send_frees_its_buffer_for_the_next() {
        let mut ring = Ring::new(&[USUAL]).unwrap();
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut addresses = Vec::new();
        for _ in 0..3 {
            let mut buffer = ring.take_send_buffer();
            addresses.push(&raw const *buffer);
            buffer.copy(b"bytes");
            ring.send(5, &ours, buffer, false);
            let other = ring.take_send_buffer();
            assert_ne!(&raw const *other, addresses[0], "the kernel may still read the first");
            ring.release(other);
            ring.wait(Some(1_000)).unwrap();
            assert_eq!(ring.next().expect("a completion").result, Ok(5));
            let mut got = [0; 5];
            theirs.read_exact(&mut got).unwrap();
            assert_eq!(&got, b"bytes");
        }
        assert_eq!(addresses, [addresses[0]; 3]);
    }

    #[test]
    fn cancelled_operation_completes_once() {
        let mut ring = Ring::new(&[USUAL]).unwrap();
        let (ours, _theirs) = UnixStream::pair().unwrap();
        ring.cancel_receive(3);
        ring.receive(3, &ours, USUAL);
        ring.cancel_receive(3);
        let mut seen = Vec::new();
        while seen.len() < 3 {
            ring.wait(Some(1_000)).unwrap();
            seen.extend(
                std::iter::from_fn(|| ring.next()).map(|completion| (completion.op, completion.result)),
            );
        }
        let ended = [
            (Op::CancelReceive(3), Err(Errno::NOENT)),
            (Op::CancelReceive(3), Ok(0)),
            (Op::Receive(3), Err(Errno::CANCELED)),
        ];
        for want in ended {
            assert!(seen.contains(&want), "{want:?} in {seen:?}");
        }
        assert_eq!(ring.pending, 0);
    }
}
