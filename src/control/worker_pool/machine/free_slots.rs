//! The free slots of `fork`. Plain data.

/// A set of slots: a bit for each, as a tree would write several pages of memory for each client.
#[derive(Debug, Default)]
pub(super) struct FreeSlots(Vec<u64>);

impl FreeSlots {
    /// Returns the set of the first `count` slots.
    pub(super) fn all(count: usize) -> FreeSlots {
        let mut free = FreeSlots(vec![0; count.div_ceil(WORD_LEN)]);
        (0..count).for_each(|slot| free.insert(slot));
        free
    }

    pub(super) fn insert(&mut self, slot: usize) {
        self.0[slot / WORD_LEN] |= 1 << (slot % WORD_LEN);
    }

    pub(super) fn contains(&self, slot: usize) -> bool {
        self.0[slot / WORD_LEN] & 1 << (slot % WORD_LEN) != 0
    }

    /// Takes the first slot.
    pub(super) fn pop_first(&mut self) -> Option<usize> {
        let (number, word) = self.0.iter_mut().enumerate().find(|(_, word)| **word != 0)?;
        let bit = word.trailing_zeros() as usize;
        *word &= *word - 1;
        Some(number * WORD_LEN + bit)
    }

    /// Returns the last slot.
    pub(super) fn last(&self) -> Option<usize> {
        let (number, word) = self.0.iter().enumerate().rfind(|(_, word)| **word != 0)?;
        Some(number * WORD_LEN + word.ilog2() as usize)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }
}

const WORD_LEN: usize = u64::BITS as usize;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_taken_from_the_front() {
        assert!(FreeSlots::default().is_empty());
        for count in [1, 63, 64, 65, 200] {
            let mut free = FreeSlots::all(count);
            assert_eq!(free.last(), Some(count - 1));
            assert!((0..count).all(|slot| free.contains(slot)));
            for slot in 0..count {
                assert_eq!(free.pop_first(), Some(slot));
                assert!(!free.contains(slot));
            }
            assert_eq!((free.pop_first(), free.last(), free.is_empty()), (None, None, true));
            free.insert(count - 1);
            free.insert(0);
            assert_eq!((free.last(), free.pop_first()), (Some(count - 1), Some(0)));
        }
    }
}
