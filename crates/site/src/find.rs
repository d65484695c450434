//! The index from path to entry: a hash table with open addressing and linear probing.
//!
//! ```text
//! hash(path) ─ lower half → first slot ─ tag or path differs → next slot, around the end
//!                              └ empty → not found
//! ```
//!
//! If a page that a lookup needs is not in memory, the lookup returns [`NotResident`].

use crate::entry::{Entry, Variant, VariantOffer, Variants};
use crate::format::{Coding, EntryRecord, IndexSlot, RECORD_LEN, SLOT_COUNT_MIN, SLOT_LEN, hash, tag};
use crate::image::Image;
use crate::record::RawRecord;
use crate::region::Region;
use crate::resident_pages::NotResident;
use std::iter;

impl Image {
    /// Finds the entry of a path, which is decoded and begins with `/`. Ignores damaged records.
    ///
    /// # Errors
    /// A page that the lookup needs is not in memory.
    #[inline(never)]
    pub fn find(&self, path: &[u8]) -> Result<Option<Entry>, NotResident> {
        Ok(self.find_record(path)?.and_then(|record| self.entry(record)))
    }

    /// Finds the record of a path, which is decoded and begins with `/`.
    ///
    /// # Errors
    /// A page that the lookup needs is not in memory.
    #[inline(always)]
    pub fn find_record(&self, path: &[u8]) -> Result<Option<RawRecord<'_>>, NotResident> {
        let hash = hash(path);
        match self.probe(hash, 0, path)? {
            Probe::Found(record) => Ok(Some(record)),
            Probe::Empty => Ok(None),
            Probe::Other => self.find_further(hash, path),
        }
    }

    /// Finds the record of a path that is not in the first slot of its hash.
    #[inline(never)]
    fn find_further(&self, hash: u64, path: &[u8]) -> Result<Option<RawRecord<'_>>, NotResident> {
        // The search ends after one round even if the index has no empty slot. No packer writes such an index, but a forged image
        // may have one.
        for step in 1..self.slots().len() {
            match self.probe(hash, step, path)? {
                Probe::Found(record) => return Ok(Some(record)),
                Probe::Empty => break,
                Probe::Other => {}
            }
        }
        Ok(None)
    }

    /// Looks for a path in the slot at this step of the search.
    #[inline(always)]
    fn probe(&self, hash: u64, step: usize, path: &[u8]) -> Result<Probe<'_>, NotResident> {
        let slots = self.slots();
        let number = (hash as usize).wrapping_add(step) & (slots.len() - 1);
        let slot = &slots[number];
        self.check_resident(self.region_of(slot))?;
        let Some(slot) = IndexSlot::decode(slot) else { return Ok(Probe::Empty) };
        if slot.tag == tag(hash)
            && let Some(record) = self.record(slot.at(), number)?
            && is_same(record.path(), path)
        {
            return Ok(Probe::Found(record));
        }
        Ok(Probe::Other)
    }

    /// Returns every path with its entry, in the order of the index. Servers do not need it; tests and tools do. Skips records that are
    /// not in memory.
    pub fn entries(&self) -> impl Iterator<Item = (&[u8], Entry)> {
        self.slots().iter().enumerate().filter_map(|(number, slot)| {
            let record = self.record(IndexSlot::decode(slot)?.at(), number).ok()??;
            Some((record.path(), self.entry(record)?))
        })
    }

    /// Returns the coded variants of a file. Skips damaged ones.
    ///
    /// # Panics
    /// May panic if another image returned the file.
    pub fn coded_variants(&self, file: Variants) -> impl Iterator<Item = (Coding, Variant)> {
        self.offers(file).filter_map(move |offer| Some((offer.coding, self.variant(file, offer)?)))
    }

    /// Returns coding and length of the coded variants of a file, for content negotiation. Includes damaged ones.
    ///
    /// # Panics
    /// May panic if another image returned the file.
    #[inline]
    pub fn offers(&self, file: Variants) -> impl Iterator<Item = VariantOffer> {
        file.offers(self.as_bytes())
    }

    /// Returns the variant of an offer, or `None` if it is damaged.
    ///
    /// # Panics
    /// May panic if another image returned the file, or if the offer is one of another file.
    #[inline]
    pub fn variant(&self, file: Variants, offer: VariantOffer) -> Option<Variant> {
        file.variant(offer, self.as_bytes(), self.bounds())
    }

    /// Decodes a record. `None`: it is damaged.
    #[inline]
    pub fn entry(&self, record: RawRecord<'_>) -> Option<Entry> {
        let at = self.region_of(record.head()).at;
        Entry::new(&EntryRecord::decode(record.head())?, at, record.number(), self.bounds())
    }

    /// Returns the record at `at`, which index slot number `slot` refers to. `None`: it is out of bounds.
    #[inline(always)]
    fn record(&self, at: u64, slot: usize) -> Result<Option<RawRecord<'_>>, NotResident> {
        let record = self.as_bytes().get(at as usize..).unwrap_or_default();
        let Some(head) = record.first_chunk() else { return Ok(None) };
        self.check_resident(self.region_of(head))?;
        let path = EntryRecord::path_range(head);
        // Includes the coded variants, which precede the path.
        let Some(whole) = record.get(..path.end) else { return Ok(None) };
        self.check_rest_resident(Region { at: self.region_of(head).at, len: path.end as u64 })?;
        let (coded, path) = whole[RECORD_LEN..].split_at(path.start - RECORD_LEN);
        Ok(Some(RawRecord::new(head, coded, path, slot)))
    }
}

/// The content of an index slot.
enum Probe<'i> {
    Found(RawRecord<'i>),
    /// Nothing: no slot has the path.
    Empty,
    /// Another path.
    Other,
}

/// Returns whether two paths are the same. Paths are short: a call of `memcmp` would cost more than their words.
#[inline(always)]
fn is_same(path: &[u8], wanted: &[u8]) -> bool {
    if path.len() != wanted.len() {
        return false;
    }
    let (Some(last), Some(wanted_last)) = (path.last_chunk::<8>(), wanted.last_chunk()) else {
        return path.iter().eq(wanted);
    };
    let mut words = iter::zip(path.as_chunks::<8>().0, wanted.as_chunks().0);
    last == wanted_last && words.all(|(word, wanted)| word == wanted)
}

/// Builds the index for records, each given by the hash of its path and its offset. Returns `None` if an offset is too large for a
/// slot.
pub fn build_index(records: &[(u64, u64)]) -> Option<Vec<[u8; SLOT_LEN]>> {
    let mut slots = vec![[0; SLOT_LEN]; (2 * records.len()).next_power_of_two().max(SLOT_COUNT_MIN)];
    let mask = slots.len() - 1;
    for &(hash, at) in records {
        let slot = IndexSlot::new(hash, at)?;
        let mut number = hash as usize & mask;
        while IndexSlot::decode(&slots[number]).is_some() {
            number = (number + 1) & mask;
        }
        slots[number] = slot.encode();
    }
    Some(slots)
}
