//! Send buffers: the memory of sends in flight, at stable addresses.
//!
//! ```text
//! take ─▶ SendBuffer ─ copy or gather ─▶ start ─▶ kernel reads ─▶ completed ─▶ free
//! ```
//!
//! A small response is copied into its buffer as a whole. A larger one is gathered: the buffer holds copies of the parts that may
//! change (the response prefix) and pointers to the others. While the kernel reads a buffer, it lies in the table of sends in flight, where
//! no other code reaches it.

use std::{io::IoSlice, mem};
use tarpon_conn::SPAN_COUNT_MAX;

/// Send buffers of one worker: as many as were ever in flight at once.
#[derive(Default)]
pub(super) struct SendBuffers {
    /// Last in, first out: the next buffer is the one most likely to be in the cache.
    free: Vec<Box<SendBuffer>>,
    /// By the number of the slot. Boxed, so that addresses stay valid when this list grows.
    in_flight: Vec<SendInFlight>,
}

/// The operation in flight for the sending side of a slot.
#[derive(Default)]
enum SendInFlight {
    #[default]
    Nothing,
    /// Waits until the socket is writable.
    WaitWritable,
    Buffer(Box<SendBuffer>),
}

/// Memory of one send.
pub(super) struct SendBuffer {
    bytes: [u8; SendBuffer::LEN],
    len: usize,
    parts: [libc::iovec; SPAN_COUNT_MAX],
    message: libc::msghdr,
}

impl SendBuffers {
    /// Takes an empty buffer.
    pub(super) fn take(&mut self) -> Box<SendBuffer> {
        self.free.pop().unwrap_or_else(SendBuffer::new)
    }

    /// Frees a buffer that is not in flight.
    pub(super) fn release(&mut self, mut buffer: Box<SendBuffer>) {
        (buffer.len, buffer.message.msg_iovlen) = (0, 0);
        self.free.push(buffer);
    }

    /// Keeps a buffer until its send [completes](SendBuffers::completed).
    ///
    /// # Panics
    /// Panics if the slot has an operation in flight: its completion would free this buffer too early.
    #[inline]
    pub(super) fn start(&mut self, slot: u32, buffer: Box<SendBuffer>) -> &mut SendBuffer {
        let in_flight = self.idle(slot);
        *in_flight = SendInFlight::Buffer(buffer);
        let SendInFlight::Buffer(buffer) = in_flight else { unreachable!("just put there") };
        buffer
    }

    /// Notes that a slot waits until its socket is writable.
    ///
    /// # Panics
    /// As [`start`](SendBuffers::start).
    pub(super) fn start_wait(&mut self, slot: u32) {
        *self.idle(slot) = SendInFlight::WaitWritable;
    }

    /// Frees the buffer of a slot whose operation has completed.
    #[inline]
    pub(super) fn completed(&mut self, slot: u32) {
        if let Some(SendInFlight::Buffer(buffer)) = self.in_flight.get_mut(slot as usize).map(mem::take) {
            self.release(buffer);
        }
    }

    fn idle(&mut self, slot: u32) -> &mut SendInFlight {
        let slot = slot as usize;
        if self.in_flight.len() <= slot {
            self.in_flight.resize_with(slot + 1, SendInFlight::default);
        }
        assert!(matches!(self.in_flight[slot], SendInFlight::Nothing), "one operation at a time");
        &mut self.in_flight[slot]
    }
}

impl SendBuffer {
    /// Capacity for copied bytes.
    pub(super) const LEN: usize = 4 * 1024;

    fn new() -> Box<SendBuffer> {
        // SAFETY: an iovec and a msghdr of zeros are valid: null pointers with lengths of 0.
        let (parts, message) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        Box::new(SendBuffer { bytes: [0; SendBuffer::LEN], len: 0, parts, message })
    }

    /// Appends a copy of `bytes`, which must fit.
    #[inline]
    pub(super) fn copy(&mut self, bytes: &[u8]) {
        self.bytes[self.len..][..bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    /// Fills the empty buffer with what `copy` writes to its front. Returns whether it wrote anything.
    #[inline]
    pub(super) fn copy_with(&mut self, copy: impl FnOnce(&mut [u8]) -> Option<&[u8]>) -> bool {
        let copied = copy(&mut self.bytes).map(<[u8]>::len);
        self.len = copied.unwrap_or(0);
        copied.is_some()
    }

    /// Turns the buffer into a gathered send of these parts, in order. Parts that may change are copied.
    ///
    /// # Safety
    /// The memory of [`BufferPart::Borrowed`] parts stays allocated until the buffer is [released](SendBuffers::release): if it is sent,
    /// until the send completes.
    pub(super) unsafe fn gather<'b>(&mut self, parts: impl Iterator<Item = BufferPart<'b>>) {
        let mut count = 0;
        for part in parts {
            let bytes = match part {
                BufferPart::Borrowed(bytes) => bytes,
                BufferPart::Copied(bytes) => {
                    let at = self.len;
                    self.copy(bytes);
                    &self.bytes[at..self.len]
                }
            };
            let slice = IoSlice::new(bytes);
            self.parts[count] =
                libc::iovec { iov_base: slice.as_ptr().cast_mut().cast(), iov_len: slice.len() };
            count += 1;
        }
        self.message.msg_iovlen = count as _;
    }

    /// Returns the length of the send in bytes.
    pub(super) fn send_len(&self) -> usize {
        match self.part_count() {
            0 => self.len,
            count => self.parts[..count].iter().map(|part| part.iov_len).sum(),
        }
    }

    /// Shortens the send to its first `len` bytes.
    pub(super) fn shorten(&mut self, len: usize) {
        let count = self.part_count();
        if count == 0 {
            self.len = self.len.min(len);
        }
        let mut left = len;
        for part in &mut self.parts[..count] {
            part.iov_len = part.iov_len.min(left);
            left -= part.iov_len;
        }
    }

    /// Returns the number of parts of a gathered send.
    #[allow(clippy::unnecessary_cast, reason = "the type of the field depends on the C library")]
    fn part_count(&self) -> usize {
        self.message.msg_iovlen as usize
    }

    /// Returns the copied bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Returns the message of a gathered send. It names the parts at the present address of this buffer.
    pub(super) fn message(&mut self) -> Option<*const libc::msghdr> {
        self.message.msg_iov = self.parts.as_mut_ptr();
        (self.message.msg_iovlen > 0).then_some(&raw const self.message)
    }
}

/// One part of a gathered send.
pub(super) enum BufferPart<'b> {
    /// Stays allocated until the send completes.
    Borrowed(&'b [u8]),
    /// May change before the send completes.
    Copied(&'b [u8]),
}
