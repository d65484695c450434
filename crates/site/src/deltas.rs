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
use crate::resident_pages::NotResident;

impl Image {
    /// Returns the variants of a file that need the dictionary with this SHA-256.
    ///
    /// # Errors
    /// A page that the lookup needs is not in memory.
    pub fn deltas(
        &self,
        file: Variants,
        dictionary: [u8; 32],
    ) -> Result<impl Iterator<Item = (Coding, Variant)>, NotResident> {
        let key = (file.file_at(), dictionary);
        let rows = self.delta_rows();
        let (mut begin, mut end) = (0, rows.len());
        while begin < end {
            let middle = begin.midpoint(end);
            match self.delta_key(&rows[middle])? < key {
                true => begin = middle + 1,
                false => end = middle,
            }
        }
        while let Some(row) = rows.get(end)
            && self.delta_key(row)? == key
        {
            end += 1;
        }
        let found = rows[begin..end].iter().filter_map(move |row| self.delta(file, row));
        Ok(found.map(|(_, coding, variant)| (coding, variant)))
    }

    /// Returns all variants of a file that need a dictionary, each with the SHA-256 of the dictionary.
    pub fn all_deltas(&self, file: Variants) -> impl Iterator<Item = ([u8; 32], Coding, Variant)> {
        let at = file.file_at();
        let rows = self.delta_rows();
        let rows = &rows[rows.partition_point(|row| DeltaRow::key(row).0 < at)..];
        let rows = rows.iter().take_while(move |row| DeltaRow::key(row).0 == at);
        rows.filter_map(move |row| self.delta(file, row))
    }

    /// Returns the sort key of a row.
    fn delta_key(&self, row: &[u8; DELTA_LEN]) -> Result<(u64, [u8; 32]), NotResident> {
        self.check_resident(self.region_of(row))?;
        Ok(DeltaRow::key(row))
    }

    /// Decodes a row, or returns `None` if it is damaged.
    fn delta(&self, file: Variants, row: &[u8; DELTA_LEN]) -> Option<([u8; 32], Coding, Variant)> {
        let DeltaRow { dictionary, variant: record, .. } = DeltaRow::decode(row)?;
        let mut variant = Variant::new(&record, self.delta_number(row), self.bounds())?;
        // A delta row has no time of its own.
        variant.last_modified = file.identity.last_modified;
        record.coding.needs_dictionary().then_some((dictionary, record.coding, variant))
    }
}
