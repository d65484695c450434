//! The fields and delimiters of a response with byte ranges, or of one that has none: status 206 or 416. RFC 9110, sections 14.4, 14.6,
//! 15.3.7 and 15.5.17.
//!
//! ```text
//! one part    [ prefix ][ Content-Length Content-Range ][ fields of 200 from Content-Type on ][ part ]
//! several     [ prefix ][ Content-Length Content-Type  ][ other fields of 200                ]
//!                       [ delimiter ][ part ][ delimiter ][ part ] … [ close-delimiter ]
//! none        [ prefix ][ Content-Range ][ fields and content of a status page ]
//!                       └── written here ─┘
//! ```
//!
//! The boundary is the entity tag, which is a hash of the content: no content contains its own hash by accident. The author of a
//! content can make it contain its hash on purpose. That deceives only clients that get this file and ignore both Content-Range and
//! Content-Length.

use crate::{
    bounded_writer::{NUMBER_LEN_MAX, decimal},
    generated_text::PRIVATE_LINE,
    pool::BUF_LEN,
    request::RequestPart,
};
use std::ops::Range;
use tarpon_http::range::{self, ByteRange, RANGE_COUNT_MAX, RangeSelection, RangeSet};
use tarpon_site::{FieldBlock, Image, NotResident, Region, Variant};

/// The byte ranges of a request, which are the parts of a response.
pub(crate) struct ByteRanges {
    parts: RangeSet,
    representation: WholeRepresentation,
    is_private: bool,
}

/// A plan of a response with byte ranges. Most plans have none, and a set of ranges is long: when the response is written, the ranges are
/// selected again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlannedRanges {
    /// The value of the Range field.
    field: RequestPart,
    part_count: u8,
    content_len: u64,
    representation: WholeRepresentation,
    /// Shared caches must not keep the response.
    pub(crate) is_private: bool,
}

/// The properties of the whole representation that a response with byte ranges repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WholeRepresentation {
    /// Its length in bytes.
    len: u64,
    /// Its Content-Type line.
    media: Region,
    /// Its entity tag, without quotes.
    boundary: Region,
}

/// The places of the written pieces in their buffer: the fields and, for several parts, the delimiter before each part and the one
/// after the last.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pieces {
    /// The end of each piece, where the next one begins.
    ends: [u16; RANGE_COUNT_MAX + 2],
    count: u8,
}

impl ByteRanges {
    /// Plans a response with these parts, which the Range field selects. Returns the fields that follow the written ones, too. `None`: send the whole representation,
    /// because several parts with their delimiters would be as long, or because its fields are not as a packer writes them.
    pub(crate) fn plan(
        parts: RangeSet,
        field: RequestPart,
        variant: &Variant,
        image: &Image,
    ) -> Result<Option<(PlannedRanges, FieldBlock)>, NotResident> {
        image.check_resident(variant.fields().text)?;
        image.check_resident(variant.etag)?;
        Ok(ByteRanges::plan_resident(parts, field, variant, image))
    }

    /// As [`plan`](ByteRanges::plan), for a variant whose fields and entity tag are in memory.
    fn plan_resident(
        parts: RangeSet,
        field: RequestPart,
        variant: &Variant,
        image: &Image,
    ) -> Option<(PlannedRanges, FieldBlock)> {
        let (_, after_len) = split_line(variant.fields(), b"Content-Length: ", image)?;
        let (media, after_media) = split_line(after_len, b"Content-Type: ", image)?;
        let boundary = Region { at: variant.etag.at + 1, len: variant.etag.len.checked_sub(2)? };
        let representation = WholeRepresentation { len: variant.content.len(), media, boundary };
        let ranges = ByteRanges { parts, representation, is_private: false };
        let content_len = ranges.content_len(image);
        let part_count = ranges.parts().len() as u8;
        let planned = PlannedRanges { field, part_count, content_len, representation, is_private: false };
        if !ranges.is_multipart() {
            return Some((planned, after_len));
        }
        let delimiters_len = ranges.delimiters_len(image);
        let better = content_len < representation.len
            && FIELDS_LEN_MAX + delimiters_len <= BUF_LEN
            && is_boundary(image.bytes(boundary));
        better.then_some((planned, after_media))
    }

    /// Returns the parts, in the order in which they are sent.
    #[inline]
    pub(crate) fn parts(&self) -> &[ByteRange] {
        self.parts.as_slice()
    }

    /// Writes the fields and delimiters to the front of `to`, a whole buffer.
    pub(crate) fn write(&self, image: &Image, to: &mut [u8]) -> Pieces {
        let (mut writer, mut pieces) = (PieceWriter::new(to), Pieces::default());
        if self.is_private {
            writer.put(PRIVATE_LINE);
        }
        writer.put(b"Content-Length: ");
        writer.number(self.content_len(image));
        if self.is_multipart() {
            writer.put(b"\r\nContent-Type: multipart/byteranges; boundary=");
            writer.put(image.bytes(self.representation.boundary));
            writer.put(b"\r\n");
            pieces.end(&writer);
            for number in 0..=self.parts().len() {
                self.write_delimiter(number, image, &mut writer);
                pieces.end(&writer);
            }
        } else {
            writer.put(b"\r\n");
            self.write_content_range(self.parts()[0], &mut writer);
            pieces.end(&writer);
        }
        pieces
    }

    fn is_multipart(&self) -> bool {
        self.parts().len() > 1
    }

    /// Returns the length of the response's content in bytes.
    fn content_len(&self, image: &Image) -> u64 {
        let parts_len: u64 = self.parts().iter().map(|part| part.len).sum();
        let delimiters_len = if self.is_multipart() { self.delimiters_len(image) } else { 0 };
        parts_len + delimiters_len as u64
    }

    fn delimiters_len(&self, image: &Image) -> usize {
        let mut writer = PieceWriter::counting();
        (0..=self.parts().len()).for_each(|number| self.write_delimiter(number, image, &mut writer));
        writer.len
    }

    /// Writes the delimiter before a part with the fields of the part, or the one after the last part. RFC 2046, section 5.1.1.
    fn write_delimiter(&self, number: usize, image: &Image, writer: &mut PieceWriter<'_>) {
        writer.put(if number == 0 { b"--" } else { b"\r\n--" });
        writer.put(image.bytes(self.representation.boundary));
        let Some(&part) = self.parts().get(number) else { return writer.put(b"--\r\n") };
        writer.put(b"\r\n");
        writer.put(image.bytes(self.representation.media));
        self.write_content_range(part, writer);
        writer.put(b"\r\n");
    }

    fn write_content_range(&self, part: ByteRange, writer: &mut PieceWriter<'_>) {
        writer.put(b"Content-Range: bytes ");
        writer.number(part.at);
        writer.put(b"-");
        writer.number(part.last());
        writer.put(b"/");
        writer.number(self.representation.len);
        writer.put(b"\r\n");
    }
}

impl PlannedRanges {
    /// Returns the number of parts.
    #[inline]
    pub(crate) fn part_count(&self) -> usize {
        self.part_count.into()
    }

    /// Returns the length of the response's content in bytes.
    pub(crate) fn content_len(&self) -> u64 {
        self.content_len
    }

    /// Selects the ranges again, in the bytes of the request that were planned.
    pub(crate) fn select(&self, request: &[u8]) -> ByteRanges {
        let &PlannedRanges { representation, is_private, .. } = self;
        match range::select_by(self.field.of(request), representation.len) {
            RangeSelection::Ranges(parts) => ByteRanges { parts, representation, is_private },
            RangeSelection::Whole | RangeSelection::Unsatisfiable => {
                unreachable!("a selection depends on the field alone")
            }
        }
    }
}

/// Writes the Content-Range line of a response that has no part of a representation of `of` bytes. Returns its length.
pub(crate) fn write_unsatisfied(of: u64, to: &mut [u8]) -> usize {
    let mut writer = PieceWriter::new(to);
    writer.put(b"Content-Range: bytes */");
    writer.number(of);
    writer.put(b"\r\n");
    writer.len
}

impl Pieces {
    /// Returns the place of each piece, in the order in which they are sent.
    pub(crate) fn ranges(self) -> impl Iterator<Item = Range<u32>> {
        (0..self.count as usize).map(move |number| {
            let from = number.checked_sub(1).map_or(0, |before| self.ends[before]);
            from.into()..self.ends[number].into()
        })
    }

    /// Notes the end of a piece.
    fn end(&mut self, writer: &PieceWriter<'_>) {
        self.ends[self.count as usize] = writer.len as u16;
        self.count += 1;
    }
}

/// Writes bytes one after the other, or only counts them.
struct PieceWriter<'t> {
    to: Option<&'t mut [u8]>,
    len: usize,
}

impl<'t> PieceWriter<'t> {
    fn new(to: &'t mut [u8]) -> PieceWriter<'t> {
        PieceWriter { to: Some(to), len: 0 }
    }

    fn counting() -> PieceWriter<'t> {
        PieceWriter { to: None, len: 0 }
    }

    fn put(&mut self, bytes: &[u8]) {
        if let Some(to) = &mut self.to {
            to[self.len..][..bytes.len()].copy_from_slice(bytes);
        }
        self.len += bytes.len();
    }

    /// Writes a number in decimal.
    fn number(&mut self, number: u64) {
        self.put(decimal(number, &mut [0; NUMBER_LEN_MAX]));
    }
}

/// Splits the first line from `fields`. Returns `None` if it does not begin with `name`.
fn split_line(fields: FieldBlock, name: &[u8], image: &Image) -> Option<(Region, FieldBlock)> {
    let bytes = image.bytes(fields.text);
    let len = bytes.iter().position(|&byte| byte == b'\n')? as u32 + 1;
    let line = Region { len: len.into(), ..fields.text };
    bytes.starts_with(name).then_some((line, fields.skip(len)))
}

/// Returns whether bytes are a boundary that needs no quotes, of the letters and digits that a hash has. RFC 2046, section 5.1.1.
fn is_boundary(bytes: &[u8]) -> bool {
    (1..=BOUNDARY_LEN_MAX).contains(&bytes.len()) && bytes.iter().all(u8::is_ascii_alphanumeric)
}

/// The maximum length of a boundary in bytes. RFC 2046, section 5.1.1.
const BOUNDARY_LEN_MAX: usize = 70;

/// The maximum length of the fields that are written for several parts: three names, a number, a media type and a boundary.
const FIELDS_LEN_MAX: usize = 184;
const _: () = assert!(
    FIELDS_LEN_MAX
        >= PRIVATE_LINE.len()
            + b"Content-Length: \r\nContent-Type: multipart/byteranges; boundary=\r\n".len()
            + NUMBER_LEN_MAX
            + BOUNDARY_LEN_MAX
);
const _: () = assert!(BUF_LEN <= u16::MAX as usize);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_in_decimal() {
        for number in [0, 1, 9, 10, 1_000, 123_456_789, u64::MAX] {
            let mut to = [0; NUMBER_LEN_MAX];
            let mut writer = PieceWriter::new(&mut to);
            writer.number(number);
            let len = writer.len;
            assert_eq!(to[..len], *number.to_string().as_bytes());
        }
    }

    #[test]
    fn boundary_has_only_letters_and_digits() {
        #[rustfmt::skip]
        let cases: &[(&str, bool)] = &[
            ("0123456789abcdefABCDEF", true),
            ("",                       false),
            ("a b",                    false),
            ("a\"b",                   false),
            ("a-b",                    false),
        ];
        for (bytes, want) in cases {
            assert_eq!(is_boundary(bytes.as_bytes()), *want, "{bytes}");
        }
        assert!(is_boundary(&[b'a'; BOUNDARY_LEN_MAX]) && !is_boundary(&[b'a'; BOUNDARY_LEN_MAX + 1]));
    }
}
