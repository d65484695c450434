//! Letters: what is being sent, at addresses that do not change until it has been.
//!
//! A small response is copied into its buffer as a whole. A larger one is gathered: what may change (the start) is
//! copied, and the rest is named where it lies.

use std::io::IoSlice;
use tarpon_conn::SPAN_COUNT_MAX;

/// The send_buffers of one worker. As many as were ever under way at once.
#[derive(Default)]
pub(super) struct SendBuffers {
    /// Boxed: their addresses outlive every growth of this list.
    send_buffers: Vec<Box<SendBuffer>>,
    /// Last in, first out: the next buffer is the one most likely to be in the cache.
    free: Vec<u32>,
}

/// One send.
pub(super) struct SendBuffer {
    bytes: [u8; SendBuffer::LEN],
    len: usize,
    parts: [libc::iovec; SPAN_COUNT_MAX],
    message: libc::msghdr,
}

impl SendBuffers {
    /// An empty buffer.
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

    /// It has been sent, or will not be.
    pub(super) fn release(&mut self, number: u32) {
        let buffer = self.get(number);
        (buffer.len, buffer.message.msg_iovlen) = (0, 0);
        self.free.push(number);
    }
}

impl SendBuffer {
    /// Bytes that are copied.
    pub(super) const LEN: usize = 4 * 1024;

    fn new() -> Box<SendBuffer> {
        // SAFETY: an iovec and a msghdr of zeros are valid: null pointers with lengths of 0.
        let (parts, message) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        Box::new(SendBuffer { bytes: [0; SendBuffer::LEN], len: 0, parts, message })
    }

    /// Adds bytes by copy. They must fit.
    #[inline]
    pub(super) fn copy(&mut self, bytes: &[u8]) {
        self.bytes[self.len..][..bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    /// Makes it a gathered one: of the bytes given, in order. Those of them that change are copied in first.
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

    /// What was copied.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// The message of a gathered buffer.
    pub(super) fn message(&self) -> Option<*const libc::msghdr> {
        (self.message.msg_iovlen > 0).then_some(&raw const self.message)
    }
}

/// One stretch of a gathered buffer.
pub(super) enum BufferPart<'b> {
    /// Stays where it is until it has been sent.
    Borrowed(&'b [u8]),
    /// May change.
    Copied(&'b [u8]),
}
