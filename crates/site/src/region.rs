//! A stretch of an image, named by where it lies.

use std::ops::Range;

/// A stretch of an image. Stays good for as long as the image it came from; names no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// From the start of the image, in bytes.
    pub at: u64,
    /// In bytes.
    pub len: u64,
}

impl Region {
    /// The place, if it lies within the first `len` bytes.
    #[inline]
    pub(crate) fn within(self, len: u64) -> Option<Region> {
        (self.at <= len && self.len <= len - self.at).then_some(self)
    }

    /// The place as indices. An image lies in memory, so what lies within one fits in a `usize`.
    #[inline]
    pub(crate) fn range(self) -> Range<usize> {
        self.at as usize..(self.at + self.len) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_lies_within_or_nowhere() {
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
