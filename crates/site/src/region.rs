//! A range of bytes of an image or of a file beside it.

use std::ops::Range;

/// A range of bytes. It holds an offset and not a pointer, so it borrows nothing; it is valid for the image that returned it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// The offset from the start, in bytes.
    pub at: u64,
    /// The length in bytes.
    pub len: u64,
}

impl Region {
    /// Returns the region if it is within the first `len` bytes.
    #[inline]
    pub(crate) fn within(self, len: u64) -> Option<Region> {
        (self.at <= len && self.len <= len - self.at).then_some(self)
    }

    /// Returns the region as indices. An image is in memory, so offsets within it fit in a `usize`.
    #[inline]
    pub(crate) fn range(self) -> Range<usize> {
        self.at as usize..(self.at + self.len) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn region_is_within_or_refused() {
        #[rustfmt::skip]
        let cases: &[(&str, u64, u64, u64, bool)] = &[
            // case                 at        len       of        within
            ("all",                 0,        10,       10,       true),
            ("nothing, at the end", 10,       0,        10,       true),
            ("one too long",        1,        10,       10,       false),
            ("after the end",       11,       0,        10,       false),
            ("the sum wraps",       2,        u64::MAX, 10,       false),
            ("the sum wraps to 1",  u64::MAX, 2,        10,       false),
            ("largest",             0,        u64::MAX, u64::MAX, true),
        ];
        for &(name, at, len, of, within) in cases {
            assert_eq!(Region { at, len }.within(of).is_some(), within, "{name}");
        }
    }
}
