//! A seeded generator of numbers: SplitMix64, Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.

use std::ops::Range;

/// A generator: the same seed gives the same numbers.
#[derive(Clone, Debug)]
pub(super) struct SimRandom(u64);

impl SimRandom {
    pub(super) fn new(seed: u64) -> SimRandom {
        SimRandom(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number in a range.
    pub(super) fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.next() % (range.end - range.start)
    }

    /// Returns whether an event with this probability, in percent, happens.
    pub(super) fn percent(&mut self, percent: u64) -> bool {
        self.within(0..100) < percent
    }

    /// Returns one of these.
    pub(super) fn pick<'a, T>(&mut self, among: &'a [T]) -> Option<&'a T> {
        (!among.is_empty()).then(|| &among[self.within(0..among.len() as u64) as usize])
    }
}
