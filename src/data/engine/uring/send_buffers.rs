//! Send buffers: the memory of sends in flight, at stable addresses.
//!
//! A small response is copied into its buffer as a whole. A larger one is gathered: the buffer holds copies of the parts that may
//! change (the response prefix) and pointers to the others.

use std::io::IoSlice;
use tarpon_conn::SPAN_COUNT_MAX;

/// Send buffers of one worker: as many as were ever in flight at once.
#[derive(Default)]
pub(super) struct SendBuffers {
    /// Boxed, so that addresses stay valid when this list grows.
    send_buffers: Vec<Box<SendBuffer>>,
    /// Last in, first out: the next buffer is the one most likely to be in the cache.
    free: Vec<u32>,
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
    pub(super) fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.send_buffers.push(SendBuffer::new());
            self.send_buffers.len() as u32 - 1
        })
    }

    #[inline]
    pub(super) fn get(&mut self, number: u32) -> &mut SendBuffer {
        &mut self.send_buffers[number as usize]
    }

    /// Frees a buffer whose send has completed or was never submitted.
    pub(super) fn release(&mut self, number: u32) {
        let buffer = self.get(number);
        (buffer.len, buffer.message.msg_iovlen) = (0, 0);
        self.free.push(number);
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
    pub(super) fn gather<'b>(&mut self, parts: impl Iterator<Item = BufferPart<'b>>) {
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
        self.message.msg_iov = self.parts.as_mut_ptr();
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

    /// Returns the message of a gathered send.
    pub(super) fn message(&self) -> Option<*const libc::msghdr> {
        (self.message.msg_iovlen > 0).then_some(&raw const self.message)
    }
}

/// One part of a gathered send.
pub(super) enum BufferPart<'b> {
    /// Stays valid and unchanged until the send completes.
    Borrowed(&'b [u8]),
    /// May change before the send completes.
    Copied(&'b [u8]),
}
