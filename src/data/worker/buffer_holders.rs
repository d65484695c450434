//! The slots whose connections hold buffers of the pool, the longest holder first: the worker evicts it when buffers run low.
//!
//! A list through an array with a link for each slot, so that each change costs the same however many connections there are.

/// The slots that hold buffers.
#[derive(Default)]
pub(super) struct BufferHolders {
    /// By the index of the slot.
    links: Vec<HolderLink>,
    ends: Option<HolderEnds>,
}

#[derive(Clone, Copy, Default)]
pub(super) struct HolderLink {
    is_holder: bool,
    before: Option<u32>,
    after: Option<u32>,
}

#[derive(Clone, Copy)]
struct HolderEnds {
    longest: u32,
    latest: u32,
}

impl BufferHolders {
    /// Notes whether a slot holds buffers.
    #[inline]
    pub(super) fn set(&mut self, slot: u32, is_holder: bool) {
        let was_holder = self.links.get(slot as usize).is_some_and(|link| link.is_holder);
        if was_holder != is_holder {
            self.change(slot, is_holder);
        }
    }

    /// Returns the slot that has held buffers longest.
    pub(super) fn longest(&self) -> Option<u32> {
        self.ends.map(|ends| ends.longest)
    }

    #[cold]
    fn change(&mut self, slot: u32, is_holder: bool) {
        if self.links.len() <= slot as usize {
            self.links.resize(slot as usize + 1, HolderLink::default());
        }
        if is_holder {
            let before = self.ends.map(|ends| ends.latest);
            self.links[slot as usize] = HolderLink { is_holder, before, after: None };
            if let Some(before) = before {
                self.links[before as usize].after = Some(slot);
            }
            let longest = self.ends.map_or(slot, |ends| ends.longest);
            self.ends = Some(HolderEnds { longest, latest: slot });
        } else {
            let HolderLink { before, after, .. } = std::mem::take(&mut self.links[slot as usize]);
            if let Some(before) = before {
                self.links[before as usize].after = after;
            }
            if let Some(after) = after {
                self.links[after as usize].before = before;
            }
            self.ends = self.ends.and_then(|HolderEnds { longest, latest }| {
                let longest = if longest == slot { after? } else { longest };
                let latest = if latest == slot { before? } else { latest };
                Some(HolderEnds { longest, latest })
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn longest_holder_comes_first() {
        let mut holders = BufferHolders::default();
        assert_eq!(holders.longest(), None);
        for slot in [3, 0, 7] {
            holders.set(slot, true);
        }
        holders.set(0, true);
        assert_eq!(holders.longest(), Some(3));
        holders.set(3, false);
        assert_eq!(holders.longest(), Some(0), "it was a holder already");
        holders.set(0, false);
        holders.set(0, true);
        assert_eq!(holders.longest(), Some(7));
        holders.set(7, false);
        holders.set(0, false);
        holders.set(5, false);
        assert_eq!(holders.longest(), None);
    }

    proptest! {
        #[test]
        fn list_agrees_with_a_vector(changes in proptest::collection::vec((0..8_u32, any::<bool>()), 0..100)) {
            let (mut holders, mut model) = (BufferHolders::default(), Vec::new());
            for (slot, is_holder) in changes {
                holders.set(slot, is_holder);
                match model.iter().position(|&known| known == slot) {
                    Some(at) if !is_holder => drop(model.remove(at)),
                    None if is_holder => model.push(slot),
                    _ => {}
                }
                prop_assert_eq!(holders.longest(), model.first().copied());
            }
        }
    }
}
