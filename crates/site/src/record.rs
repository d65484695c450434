//! The record of a path, in place: a lookup returns it undecoded, and the usual response is read from it directly.
//!
//! ```text
//! [ head ┊ first variant ][ coded variants ][ path ]
//!          └ ready: its fields were checked before
//! ```
//!
//! Any other response needs the decoded record: see `entry.rs`.

use crate::entry::{Content, VariantOffer};
use crate::field_block::FieldBlock;
use crate::format::{EntryRecord, RECORD_LEN, ReadyRow, VARIANT_COUNT_MAX, VARIANT_LEN};
use crate::image::Image;

/// The record of a path, undecoded. Its bytes are in memory.
#[derive(Clone, Copy)]
pub struct RawRecord<'i> {
    head: &'i [u8; RECORD_LEN],
    /// The coded variants.
    coded: &'i [u8],
    path: &'i [u8],
    /// The number of the index slot that refers to the record.
    slot: usize,
}

/// The 200 response with a variant whose fields have passed the check of [`Image::is_framed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadyResponse {
    /// The fields, including the empty line.
    pub fields: FieldBlock,
    /// The content.
    pub content: Content,
}

impl<'i> RawRecord<'i> {
    /// Creates the record of these parts. `slot` is the number of the index slot.
    #[inline(always)]
    pub(crate) fn new(
        head: &'i [u8; RECORD_LEN],
        coded: &'i [u8],
        path: &'i [u8],
        slot: usize,
    ) -> RawRecord<'i> {
        RawRecord { head, coded, path, slot }
    }

    /// Returns the head, with the first variant.
    #[inline]
    pub(crate) fn head(self) -> &'i [u8; RECORD_LEN] {
        self.head
    }

    /// Returns the path.
    #[inline(always)]
    pub(crate) fn path(self) -> &'i [u8] {
        self.path
    }

    /// Returns the number of the first response.
    #[inline]
    pub(crate) fn number(self) -> usize {
        self.slot * usize::from(VARIANT_COUNT_MAX)
    }

    /// Returns whether the record is a file with one variant. A record that is damaged may be taken for one.
    #[inline]
    pub fn is_single(self) -> bool {
        EntryRecord::variant_count(self.head) == 1
    }

    /// Returns the length of the content of the first variant.
    #[inline]
    pub fn identity_len(self) -> u64 {
        ReadyRow::content_len(self.first_row())
    }

    /// Returns coding and length of the coded variants, for content negotiation. Includes damaged ones.
    #[inline(always)]
    pub fn offers(self) -> impl Iterator<Item = VariantOffer> {
        VariantOffer::of_rows(self.coded_rows())
    }

    #[inline]
    fn first_row(self) -> &'i [u8; VARIANT_LEN] {
        self.head.last_chunk().expect("a record ends with its first variant")
    }

    #[inline(always)]
    fn coded_rows(self) -> &'i [[u8; VARIANT_LEN]] {
        self.coded.as_chunks().0
    }
}

impl Image {
    /// Returns the response with the first variant of a file, or with the coded variant of `offer`, if the record is one of a file that no
    /// rule concerns, and if the response is [ready](ReadyResponse). `None`: decode the [entry](Image::entry).
    ///
    /// # Panics
    /// May panic if another image returned the record, or another record the offer.
    #[inline(always)]
    pub fn ready_response(
        &self,
        record: RawRecord<'_>,
        offer: Option<VariantOffer>,
    ) -> Option<ReadyResponse> {
        if !EntryRecord::is_plain_file(record.head) {
            return None;
        }
        let (row, number) = match offer {
            None => (record.first_row(), 0),
            Some(offer) => (&record.coded_rows()[offer.number()], 1 + offer.number()),
        };
        let number = record.number() + number;
        // Fields that have passed the check frame a content of this length.
        let row = ReadyRow::decode(row).filter(|_| self.is_validated(number))?;
        let fields = row.fields.within(self.len())?;
        let content = Content::new(row.storage, row.content, self.bounds())?;
        Some(ReadyResponse { fields: FieldBlock::new(fields, number), content })
    }
}
