//! Variants that are compressed with a dictionary, usually an earlier release of the same file. RFC 9842.
//!
//! ```text
//! file, hash of dictionary ─ binary search ─▶ rows with this file and dictionary, one per coding
//! ```
//!
//! The rows have their own section, so a request without a dictionary does not read them. The image stores only the hashes of the
//! dictionaries.

use crate::entry::{Variant, Variants};
use crate::format::{Coding, DELTA_LEN, DeltaRow};
use crate::image::Image;

impl Image {
    /// Returns the variants of a file that need the dictionary with this SHA-256.
    pub fn deltas(&self, file: Variants, dictionary: [u8; 32]) -> impl Iterator<Item = (Coding, Variant)> {
        let key = (file.file_at(), dictionary);
        let rows = self.delta_rows();
        let rows = &rows[rows.partition_point(|row| self.delta_key(row).is_some_and(|found| found < key))..];
        let rows = rows.iter().take_while(move |row| self.delta_key(row) == Some(key));
        rows.filter_map(move |row| self.delta(file, row)).map(|(_, coding, variant)| (coding, variant))
    }

    /// Returns all variants of a file that need a dictionary, each with the SHA-256 of the dictionary.
    pub fn all_deltas(&self, file: Variants) -> impl Iterator<Item = ([u8; 32], Coding, Variant)> {
        let at = file.file_at();
        let rows = self.delta_rows();
        let rows = &rows[rows.partition_point(|row| DeltaRow::key(row).0 < at)..];
        let rows = rows.iter().take_while(move |row| DeltaRow::key(row).0 == at);
        rows.filter_map(move |row| self.delta(file, row))
    }

    /// Returns the sort key of a row, or `None` if the row is not in memory.
    fn delta_key(&self, row: &[u8; DELTA_LEN]) -> Option<(u64, [u8; 32])> {
        self.is_resident(self.region_of(row)).then(|| DeltaRow::key(row))
    }

    /// Decodes a row, or returns `None` if it is damaged.
    fn delta(&self, file: Variants, row: &[u8; DELTA_LEN]) -> Option<([u8; 32], Coding, Variant)> {
        let DeltaRow { dictionary, variant: record, .. } = DeltaRow::decode(row)?;
        let variant = Variant::new(&record, self.delta_number(row), self.bounds())?;
        // A delta row has no time of its own.
        let variant = Variant { last_modified: file.identity.last_modified, ..variant };
        record.coding.needs_dictionary().then_some((dictionary, record.coding, variant))
    }
}
