//! Random numbers of a simulator, from a seed: SplitMix64.

use std::{env, ops::Range};

/// Returns the number in an environment variable: `SEED` replays one seed, `TARPON_SEEDS_FACTOR` multiplies the seeds of a test.
///
/// # Panics
/// The variable is not a number.
pub(crate) fn variable(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// A generator of random numbers. The same seed gives the same numbers.
#[derive(Clone, Debug)]
pub(crate) struct SimRandom {
    state: u64,
}

impl SimRandom {
    /// Returns a generator with this seed.
    pub(crate) fn new(seed: u64) -> SimRandom {
        SimRandom { state: seed }
    }

    /// Returns the next number.
    pub(crate) fn number(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number of a range that is not empty.
    pub(crate) fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.number() % (range.end - range.start)
    }

    /// Returns true in this many of 100 cases.
    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.within(0..100) < percent
    }

    /// Returns another generator, so that its user does not change the numbers of this one.
    pub(crate) fn fork(&mut self) -> SimRandom {
        SimRandom::new(self.number())
    }
}
