//! Bytes written one behind the other, where they may be too many. Knows nothing of what they say.

use tarpon_http::target;

/// A buffer that is written from its front on.
pub(crate) struct Room<'t> {
    to: &'t mut [u8],
    len: usize,
}

impl<'t> Room<'t> {
    pub(crate) fn new(to: &'t mut [u8]) -> Room<'t> {
        Room { to, len: 0 }
    }

    /// None: they do not fit.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> Option<()> {
        let end = self.len + bytes.len();
        self.to.get_mut(self.len..end)?.copy_from_slice(bytes);
        self.len = end;
        Some(())
    }

    /// A path with its query, or a part of it, as it may be sent: browsers send bytes that no URI has.
    pub(crate) fn put_escaped(&mut self, target: &[u8]) -> Option<()> {
        let hex = |digit: u8| b"0123456789ABCDEF"[digit as usize];
        target.iter().try_for_each(|&byte| match target::is_query_byte(byte) {
            true => self.put(&[byte]),
            false => self.put(&[b'%', hex(byte >> 4), hex(byte & 15)]),
        })
    }

    /// How much has been written, in bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}
