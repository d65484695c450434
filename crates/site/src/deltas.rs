//! Representations for those who have a dictionary: an earlier release of the same file, mostly. RFC 9842.
//!
//! ```text
//! file, dictionary ─ binary search ─▶ rows of that file and that dictionary, one for each coding
//! ```
//!
//! They lie in a section of their own: records stay as they are, and so does the way of whoever has no dictionary. Knows
//! nothing of dictionaries but their hashes.

use crate::entry::{Variant, Variants};
use crate::format::{Coding, DELTA_LEN, DeltaRow};
use crate::image::Image;

impl Image {
    /// The representations of a file that are coded with the dictionary of this SHA-256.
    pub fn deltas(&self, file: Variants, dictionary: [u8; 32]) -> impl Iterator<Item = (Coding, Variant)> {
        let key = (file.file_at(), dictionary);
        let rows = self.delta_rows();
        let rows = &rows[rows.partition_point(|row| self.delta_key(row).is_some_and(|found| found < key))..];
        let rows = rows.iter().take_while(move |row| self.delta_key(row) == Some(key));
        rows.filter_map(move |row| self.delta(file, row)).map(|(_, coding, variant)| (coding, variant))
    }

    /// All representations of a file that are coded with a dictionary, each with the SHA-256 of that.
    pub fn all_deltas(&self, file: Variants) -> impl Iterator<Item = ([u8; 32], Coding, Variant)> {
        let at = file.file_at();
        let rows = self.delta_rows();
        let rows = &rows[rows.partition_point(|row| DeltaRow::key(row).0 < at)..];
        let rows = rows.iter().take_while(move |row| DeltaRow::key(row).0 == at);
        rows.filter_map(move |row| self.delta(file, row))
    }

    /// What a row is sorted by, if it may be read.
    fn delta_key(&self, row: &[u8; DELTA_LEN]) -> Option<(u64, [u8; 32])> {
        self.is_resident(self.region_of(row)).then(|| DeltaRow::key(row))
    }

    /// What a row says, if it makes sense.
    fn delta(&self, file: Variants, row: &[u8; DELTA_LEN]) -> Option<([u8; 32], Coding, Variant)> {
        let DeltaRow { dictionary, variant: record, .. } = DeltaRow::decode(row)?;
        let variant = Variant::new(&record, self.delta_number(row), self.bounds())?;
        // It was modified when the file was.
        let variant = Variant { last_modified: file.identity.last_modified, ..variant };
        record.coding.needs_dictionary().then_some((dictionary, record.coding, variant))
    }
}
