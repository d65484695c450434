//! The fields of a response, in each form that an image has: as text for HTTP/1, and as an HPACK block for HTTP/2.
//!
//! ```text
//! fields of a response:   [ place of the HPACK block, 8 ][ Content-Length … │ Content-Type … │ … ETag … ][ content ]
//! section of the blocks:  … [ content-length │ content-type │ … etag … ] …
//!                             └ 200            └ 206          └ 304
//! ```
//!
//! A [`FieldBlock`] names the text. The block is found only if a protocol asks for it: HTTP/1 reads neither its place nor its bytes.

use crate::format::{HPACK_PLACE_LEN, HpackPlace};
use crate::hpack;
use crate::image::Image;
use crate::region::Region;
use crate::resident_pages::NotResident;

/// The fields of a response, or those at their end. It borrows nothing of the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldBlock {
    /// The field lines and the empty line that ends them.
    pub text: Region,
    /// The length of the fields before `text`.
    skipped_len: u32,
    /// The number of the response; see [`Image::is_framed`].
    number: usize,
}

impl FieldBlock {
    /// No fields and no empty line: the response has none from an image.
    pub const EMPTY: FieldBlock = FieldBlock::checked(Region { at: 0, len: 0 });

    /// Creates the block of all fields of a response.
    #[inline]
    pub(crate) const fn new(text: Region, number: usize) -> FieldBlock {
        FieldBlock { text, skipped_len: 0, number }
    }

    /// Creates the block of all fields of a response that was checked when the image was opened.
    pub(crate) const fn checked(text: Region) -> FieldBlock {
        FieldBlock::new(text, CHECKED_AT_OPENING)
    }

    /// Returns the block without the first `len` bytes of its text.
    ///
    /// # Panics
    /// Panics if the text is shorter.
    #[inline]
    #[must_use]
    pub fn skip(self, len: u32) -> FieldBlock {
        let rest = self.text.len.checked_sub(len.into()).expect("a part of the text");
        let text = Region { at: self.text.at + u64::from(len), len: rest };
        FieldBlock { text, skipped_len: self.skipped_len + len, ..self }
    }

    /// Returns the text of all fields of the response.
    fn whole_text(&self) -> Region {
        let skipped_len = u64::from(self.skipped_len);
        Region { at: self.text.at - skipped_len, len: self.text.len + skipped_len }
    }
}

impl Image {
    /// Returns the HPACK block of these fields, without a field whose line began before them. `None`: the image is forged. The server
    /// asks for fields that [frame](Image::is_framed) their response.
    ///
    /// The block uses and changes no dynamic table, and has the names and values of the text, in the same order: the first call for a
    /// response checks it.
    ///
    /// # Errors
    /// A page that the lookup needs is not in memory.
    pub fn hpack(&self, fields: FieldBlock) -> Result<Option<Region>, NotResident> {
        if fields == FieldBlock::EMPTY {
            return Ok(Some(fields.text));
        }
        let whole_text = fields.whole_text();
        let Some(block) = self.hpack_block(whole_text)? else { return Ok(None) };
        let bytes = self.resident_bytes(block)?;
        if fields.number != CHECKED_AT_OPENING && !self.validated_hpack().has(fields.number) {
            if !hpack::is_block_of(bytes, self.resident_bytes(whole_text)?) {
                return Ok(None);
            }
            self.validated_hpack().add(fields.number);
        }
        let skipped = Region { len: fields.skipped_len.into(), ..whole_text };
        let skipped_len = match begun_lines(self.resident_bytes(skipped)?) {
            0 => Some(0),
            count => hpack::fields_len(bytes, count),
        };
        Ok(skipped_len.map(|len| Region { at: block.at + len as u64, len: block.len - len as u64 }))
    }

    /// Returns whether the fields of a response have an HPACK block. For responses that are checked when the image is opened.
    pub(crate) fn has_hpack(&self, fields: FieldBlock) -> bool {
        let block = self.hpack_block(fields.text).ok().flatten();
        block.is_some_and(|block| hpack::is_block_of(self.bytes(block), self.bytes(fields.text)))
    }

    /// Returns the block whose place precedes this text. `None`: it is outside of the section.
    fn hpack_block(&self, text: Region) -> Result<Option<Region>, NotResident> {
        let Some(at) = text.at.checked_sub(HPACK_PLACE_LEN as u64) else { return Ok(None) };
        let place = self.resident_bytes(Region { at, len: HPACK_PLACE_LEN as u64 })?;
        let place = HpackPlace::decode(place.first_chunk().expect("as long as a place"));
        let section = self.hpack_section();
        let within = Region { at: place.at.into(), len: place.len.into() }.within(section.len);
        Ok(within.map(|block| Region { at: section.at + block.at, ..block }))
    }
}

/// Returns the number of lines that begin in a text.
fn begun_lines(text: &[u8]) -> usize {
    text.split_inclusive(|&byte| byte == b'\n').count()
}

/// Instead of the number of a response.
const CHECKED_AT_OPENING: usize = usize::MAX;
