//! Path to entry: filling the index, and searching it. Open addressing with linear probing.
//!
//! ```text
//! hash(path) ─ lower half → first slot ─ tag differs, or path → next slot, around the end
//!                              └ empty → nothing there
//! ```
//!
//! Of an image on a disk, what is not known to be in memory is not there, and [wanted](Image::wanted).

use crate::entry::{Entry, Variant, VariantOffer, Variants};
use crate::format::{Coding, EntryRecord, IndexSlot, RECORD_LEN, SLOT_COUNT_MIN, SLOT_LEN, hash, tag};
use crate::image::Image;

impl Image {
    /// What lies at a path: decoded, beginning with `/`. A record that is damaged is not there.
    #[inline]
    pub fn find(&self, path: &[u8]) -> Option<Entry> {
        let hash = hash(path);
        let slots = self.slots();
        let mask = slots.len() - 1;
        // At most once around: an index without an empty slot is nothing a packer writes, but an image may be
        // hostile.
        for probe in 0..slots.len() {
            let number = (hash as usize).wrapping_add(probe) & mask;
            let slot = &slots[number];
            if !self.is_resident(self.region_of(slot)) {
                return None;
            }
            let slot = IndexSlot::decode(slot)?;
            if slot.tag == tag(hash)
                && let Some((found, head)) = self.record(slot.at())
                && found == path
            {
                return self.entry(slot.at(), number, head);
            }
        }
        None
    }

    /// Every path with its entry, in the order of the index. For tests and for looking into an image.
    pub fn entries(&self) -> impl Iterator<Item = (&[u8], Entry)> {
        self.slots().iter().enumerate().filter_map(|(number, slot)| {
            let at = IndexSlot::decode(slot)?.at();
            let (path, head) = self.record(at)?;
            Some((path, self.entry(at, number, head)?))
        })
    }

    /// The representations of a file that have a content coding. One that is damaged is passed over.
    ///
    /// # Panics
    /// If the file is not one this image found, and lies outside.
    pub fn coded_variants(&self, file: Variants) -> impl Iterator<Item = (Coding, Variant)> {
        self.offers(file).filter_map(move |offer| Some((offer.coding, self.variant(file, offer)?)))
    }

    /// The same, as far as a choice among them has to know them; damaged ones too.
    ///
    /// # Panics
    /// As above.
    #[inline]
    pub fn offers(&self, file: Variants) -> impl Iterator<Item = VariantOffer> {
        file.offers(self.as_bytes())
    }

    /// The one that is chosen. None if it is damaged.
    ///
    /// # Panics
    /// As above, or if it is an offer of another file.
    #[inline]
    pub fn variant(&self, file: Variants, offer: VariantOffer) -> Option<Variant> {
        file.variant(offer, self.as_bytes(), self.bounds())
    }

    /// The path of the record at `at`, and the front of it.
    #[inline]
    fn record(&self, at: u64) -> Option<(&[u8], &[u8; RECORD_LEN])> {
        let record = self.as_bytes().get(at as usize..)?;
        let head = record.first_chunk()?;
        if !self.is_resident(self.region_of(head)) {
            return None;
        }
        let path = EntryRecord::path_range(head);
        // With the coded variants, which lie before it.
        let whole = record.get(..path.end)?;
        self.is_resident(self.region_of(whole)).then(|| (&whole[path.start..], head))
    }

    /// What the record at `at` says, to which a slot leads, if it makes sense.
    #[inline]
    fn entry(&self, at: u64, slot: usize, head: &[u8; RECORD_LEN]) -> Option<Entry> {
        Entry::new(&EntryRecord::decode(head)?, at, slot, self.bounds())
    }
}

/// The index for records given by the hash of their path and where they lie. None if one lies too far off for
/// a slot.
pub fn build_index(records: &[(u64, u64)]) -> Option<Vec<[u8; SLOT_LEN]>> {
    let mut slots = vec![[0; SLOT_LEN]; (2 * records.len()).next_power_of_two().max(SLOT_COUNT_MIN)];
    let mask = slots.len() - 1;
    for &(hash, at) in records {
        let slot = IndexSlot::new(hash, at)?;
        let mut place = hash as usize & mask;
        while IndexSlot::decode(&slots[place]).is_some() {
            place = (place + 1) & mask;
        }
        slots[place] = slot.encode();
    }
    Some(slots)
}
