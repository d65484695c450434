//! What a response says of the parts it has, or of those it cannot have: status 206 or 416. RFC 9110, sections 14.4,
//! 14.6, 15.3.7 and 15.5.17.
//!
//! ```text
//! one part    [ start ][ Content-Length Content-Range ][ fields of 200 from Content-Type on ][ part ]
//! several     [ start ][ Content-Length Content-Type  ][ fields of 200 from behind it on    ]
//!                      [ delimiter ][ part ][ delimiter ][ part ] … [ close-delimiter ]
//! none        [ start ][ Content-Range ][ fields and content of a page ]
//!                      └── written here ─┘
//! ```
//!
//! The boundary is the entity-tag, which is a hash of the content: by accident, no content has its own hash in it. Who
//! makes one on purpose, which this hash does not resist, deceives readers of his own file, and of them only those
//! who heed neither Content-Range nor Content-Length.
//!
//! Knows nothing of requests, and not where what it writes will lie.

use crate::pool::BUF_LEN;
use std::ops::Range;
use tarpon_http::range::{ByteRange, RANGE_COUNT_MAX, RangeSet};
use tarpon_site::{Image, Region, Variant};

/// The parts of one representation, and what has to be said of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Partial {
    parts: RangeSet,
    /// Length of the representation, in bytes.
    of: u64,
    /// Its line Content-Type.
    media: Region,
    /// Its entity-tag, without quotes.
    boundary: Region,
}

/// Where in a buffer the pieces lie that were written: the fields, and where there are several parts, the delimiter
/// before each and the one behind them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pieces {
    /// Where each ends, and the next begins.
    ends: [u16; RANGE_COUNT_MAX + 2],
    count: u8,
}

impl Partial {
    /// The parts, and where those fields lie that go behind the written ones. `None`: the whole representation is the
    /// better answer, as several parts with all that is said of them would not be shorter, so that no answer is longer
    /// than a file; or its fields are not as a packer writes them, or not known to be in memory.
    pub(crate) fn new(parts: RangeSet, variant: &Variant, image: &Image) -> Option<(Partial, Region)> {
        if !image.is_resident(variant.fields) || !image.is_resident(variant.etag) {
            return None;
        }
        let (_, behind_len) = split_line(variant.fields, b"Content-Length: ", image)?;
        let (media, behind_media) = split_line(behind_len, b"Content-Type: ", image)?;
        let boundary = Region { at: variant.etag.at + 1, len: variant.etag.len.checked_sub(2)? };
        let partial = Partial { parts, of: variant.content.len(), media, boundary };
        if !partial.is_multipart() {
            return Some((partial, behind_len));
        }
        let delimiters_len = partial.delimiters_len(image);
        let better = partial.content_len(image) < partial.of
            && FIELDS_LEN_MAX + delimiters_len <= BUF_LEN
            && is_boundary(image.bytes(boundary));
        better.then_some((partial, behind_media))
    }

    /// The parts, in the order they are sent.
    #[inline]
    pub(crate) fn parts(&self) -> &[ByteRange] {
        self.parts.as_slice()
    }

    /// Writes all that is said of the parts to the front of `to`, a whole buffer.
    pub(crate) fn write(&self, image: &Image, to: &mut [u8]) -> Pieces {
        let (mut pen, mut pieces) = (Pen::new(to), Pieces::default());
        pen.put(b"Content-Length: ");
        pen.number(self.content_len(image));
        if self.is_multipart() {
            pen.put(b"\r\nContent-Type: multipart/byteranges; boundary=");
            pen.put(image.bytes(self.boundary));
            pen.put(b"\r\n");
            pieces.end(&pen);
            for number in 0..=self.parts().len() {
                self.delimiter(number, image, &mut pen);
                pieces.end(&pen);
            }
        } else {
            pen.put(b"\r\n");
            self.content_range(self.parts()[0], &mut pen);
            pieces.end(&pen);
        }
        pieces
    }

    fn is_multipart(&self) -> bool {
        self.parts().len() > 1
    }

    /// Bytes of the response's content.
    pub(crate) fn content_len(&self, image: &Image) -> u64 {
        let parts_len: u64 = self.parts().iter().map(|part| part.len).sum();
        let delimiters_len = if self.is_multipart() { self.delimiters_len(image) } else { 0 };
        parts_len + delimiters_len as u64
    }

    fn delimiters_len(&self, image: &Image) -> usize {
        let mut pen = Pen::counting();
        (0..=self.parts().len()).for_each(|number| self.delimiter(number, image, &mut pen));
        pen.len
    }

    /// The delimiter before a part, with the fields of the part; or the one behind the last. RFC 2046, section 5.1.1.
    fn delimiter(&self, number: usize, image: &Image, pen: &mut Pen<'_>) {
        pen.put(if number == 0 { b"--" } else { b"\r\n--" });
        pen.put(image.bytes(self.boundary));
        let Some(&part) = self.parts().get(number) else { return pen.put(b"--\r\n") };
        pen.put(b"\r\n");
        pen.put(image.bytes(self.media));
        self.content_range(part, pen);
        pen.put(b"\r\n");
    }

    fn content_range(&self, part: ByteRange, pen: &mut Pen<'_>) {
        pen.put(b"Content-Range: bytes ");
        pen.number(part.at);
        pen.put(b"-");
        pen.number(part.last());
        pen.put(b"/");
        pen.number(self.of);
        pen.put(b"\r\n");
    }
}

/// Writes what is said where no part can be sent of a representation of `of` bytes. Returns its length.
pub(crate) fn write_unsatisfied(of: u64, to: &mut [u8]) -> usize {
    let mut pen = Pen::new(to);
    pen.put(b"Content-Range: bytes */");
    pen.number(of);
    pen.put(b"\r\n");
    pen.len
}

impl Pieces {
    /// Where each lies, in the order they are sent.
    pub(crate) fn ranges(self) -> impl Iterator<Item = Range<u32>> {
        (0..self.count as usize).map(move |number| {
            let from = number.checked_sub(1).map_or(0, |before| self.ends[before]);
            from.into()..self.ends[number].into()
        })
    }

    /// What was written last ends here.
    fn end(&mut self, pen: &Pen<'_>) {
        self.ends[self.count as usize] = pen.len as u16;
        self.count += 1;
    }
}

/// Writes bytes one behind the other, or only counts them.
struct Pen<'t> {
    to: Option<&'t mut [u8]>,
    len: usize,
}

impl<'t> Pen<'t> {
    fn new(to: &'t mut [u8]) -> Pen<'t> {
        Pen { to: Some(to), len: 0 }
    }

    fn counting() -> Pen<'t> {
        Pen { to: None, len: 0 }
    }

    fn put(&mut self, bytes: &[u8]) {
        if let Some(to) = &mut self.to {
            to[self.len..][..bytes.len()].copy_from_slice(bytes);
        }
        self.len += bytes.len();
    }

    /// In decimal.
    fn number(&mut self, number: u64) {
        let (mut digits, mut at, mut rest) = ([0; NUMBER_LEN_MAX], NUMBER_LEN_MAX, number);
        loop {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                return self.put(&digits[at..]);
            }
        }
    }
}

/// The line at the front of `fields`, which must begin with `name`, and what is behind it.
fn split_line(fields: Region, name: &[u8], image: &Image) -> Option<(Region, Region)> {
    let bytes = image.bytes(fields);
    let len = bytes.iter().position(|&byte| byte == b'\n')? as u64 + 1;
    let behind = Region { at: fields.at + len, len: fields.len - len };
    bytes.starts_with(name).then_some((Region { at: fields.at, len }, behind))
}

/// Whether it may be a boundary as it is, without quotes: the part of RFC 2046, section 5.1.1, that a hash needs.
fn is_boundary(bytes: &[u8]) -> bool {
    (1..=BOUNDARY_LEN_MAX).contains(&bytes.len()) && bytes.iter().all(u8::is_ascii_alphanumeric)
}

/// In bytes. RFC 2046, section 5.1.1.
const BOUNDARY_LEN_MAX: usize = 70;

/// Digits of the largest `u64`.
const NUMBER_LEN_MAX: usize = 20;

/// The fields that are written for several parts: two names, a number, a media type and a boundary.
const FIELDS_LEN_MAX: usize = 160;
const _: () = assert!(
    FIELDS_LEN_MAX
        >= b"Content-Length: \r\nContent-Type: multipart/byteranges; boundary=\r\n".len()
            + NUMBER_LEN_MAX
            + BOUNDARY_LEN_MAX
);
const _: () = assert!(BUF_LEN <= u16::MAX as usize);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_written_in_decimal() {
        for number in [0, 1, 9, 10, 1_000, 123_456_789, u64::MAX] {
            let mut to = [0; NUMBER_LEN_MAX];
            let mut pen = Pen::new(&mut to);
            pen.number(number);
            let len = pen.len;
            assert_eq!(to[..len], *number.to_string().as_bytes());
        }
    }

    #[test]
    fn a_boundary_is_made_of_letters_and_digits() {
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
