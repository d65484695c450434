//! Writes bytes one after the other into a buffer that may be too small.

use tarpon_http::target;

/// A buffer that is written from its front.
pub(crate) struct BoundedWriter<'t> {
    to: &'t mut [u8],
    len: usize,
}

impl<'t> BoundedWriter<'t> {
    pub(crate) fn new(to: &'t mut [u8]) -> BoundedWriter<'t> {
        BoundedWriter { to, len: 0 }
    }

    /// Appends bytes. Returns `None` if they do not fit.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> Option<()> {
        let end = self.len + bytes.len();
        self.to.get_mut(self.len..end)?.copy_from_slice(bytes);
        self.len = end;
        Some(())
    }

    /// Appends a number in decimal. Returns `None` if it does not fit.
    pub(crate) fn put_number(&mut self, number: u64) -> Option<()> {
        self.put(decimal(number, &mut [0; NUMBER_LEN_MAX]))
    }

    /// Appends a path with its query, or a part of it. Escapes bytes that a URI must not contain but browsers send. Returns `None` if
    /// the result does not fit.
    pub(crate) fn put_escaped(&mut self, target: &[u8]) -> Option<()> {
        let hex = |digit: u8| b"0123456789ABCDEF"[digit as usize];
        target.iter().try_for_each(|&byte| match target::is_query_byte(byte) {
            true => self.put(&[byte]),
            false => self.put(&[b'%', hex(byte >> 4), hex(byte & 15)]),
        })
    }

    /// Returns the number of bytes written.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

/// The number of digits of the largest `u64`.
pub(crate) const NUMBER_LEN_MAX: usize = 20;

/// Writes a number in decimal at the end of `to`, and returns its digits.
pub(crate) fn decimal(number: u64, to: &mut [u8; NUMBER_LEN_MAX]) -> &[u8] {
    let (mut at, mut rest) = (NUMBER_LEN_MAX, number);
    loop {
        at -= 1;
        to[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            return &to[at..];
        }
    }
}
