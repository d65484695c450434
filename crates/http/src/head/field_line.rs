//! Parses a field line. RFC 9112, section 5.

use core::ops::Range;

use tarpon_simd::{BLOCK_LEN, ByteClass, outside, padded};

use super::{HeadError, ParseError};
use crate::token::{TCHAR, VALUE, fast_prefix_len, prefix_len, skip};

/// Offsets in a field line.
pub(crate) struct FieldLine {
    /// The end of the name, which begins at 0. A colon follows.
    pub(super) name: usize,
    /// The end of the value and of the whitespace around it. CRLF follows.
    pub(super) end: usize,
}

impl FieldLine {
    /// Returns the range of the value in `line`, without OWS around it.
    #[inline(always)]
    pub(super) fn value(&self, line: &[u8]) -> Range<usize> {
        let from = self.name + 1;
        let mut rest = &line[from..self.end];
        while let [b' ' | b'\t', behind @ ..] = rest {
            rest = behind;
        }
        let from = self.end - rest.len();
        while let [front @ .., b' ' | b'\t'] = rest {
            rest = front;
        }
        from..from + rest.len()
    }

    /// Returns the length of the line, including its CRLF.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.end + 2
    }
}

/// Parses a line of [`usual_field_lines`](super::usual_field_lines) at the start of `line`. Returns the length of its name, and the bytes after the line.
#[inline(always)]
pub(super) fn usual_field_line(line: &[u8]) -> Option<(usize, &[u8])> {
    let stop = skip(ByteClass::Name, line)?;
    let [b':', behind @ ..] = stop else { return None };
    let name = line.len() - stop.len();
    let [b'\r', b'\n', rest @ ..] = skip(ByteClass::Text, behind)? else { return None };
    (name > 0).then_some((name, rest))
}

/// Parses the field line at the start of `line` if its name consists of letters and `-`, and it contains no HTAB. Returns what
/// [`field_line`] returns, or `None` for other lines.
#[inline(always)]
pub(super) fn short_field_line(line: &[u8]) -> Option<FieldLine> {
    let (name, end) = if line.len() < BLOCK_LEN {
        let block = &padded(line);
        let name = outside(ByteClass::Name, block).trailing_zeros() as usize;
        let value_stops = outside(ByteClass::Text, block) >> (name + 1);
        (name, name + 1 + value_stops.trailing_zeros() as usize)
    } else {
        let name = fast_prefix_len(ByteClass::Name, line);
        (name, name + 1 + fast_prefix_len(ByteClass::Text, line.get(name + 1..)?))
    };
    let is_usual = name > 0 && line.get(name) == Some(&b':') && line.get(end..)?.starts_with(b"\r\n");
    is_usual.then_some(FieldLine { name, end })
}

/// Parses the field line at the start of `line`, which may continue after that line or end within it.
#[inline(never)]
pub(crate) fn field_line(line: &[u8]) -> Result<FieldLine, ParseError> {
    let name = prefix_len(TCHAR, line);
    // RFC 9112, section 5.1: no whitespace between name and colon.
    if name == 0 || line.get(name) != Some(&b':') {
        let error = match line[name..] {
            [b' ' | b'\t', ..] if name == 0 => HeadError::Fold,
            [b'\r' | b'\n', ..] if name == 0 => HeadError::LineEnd,
            _ => HeadError::FieldName,
        };
        return Err(ParseError { at: name, error });
    }
    let end = name + 1 + prefix_len(VALUE, &line[name + 1..]);
    match line[end..] {
        [b'\r', b'\n', ..] => Ok(FieldLine { name, end }),
        // RFC 9112, section 2.2, forbids a bare CR and lets a recipient accept a bare LF; this parser accepts neither.
        [b'\r' | b'\n', ..] => Err(ParseError { at: end, error: HeadError::LineEnd }),
        _ => Err(ParseError { at: end, error: HeadError::FieldValue }),
    }
}

/// Returns name and value of each line of a section that [`parse`](super::parse) has checked.
pub(crate) fn field_lines(section: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    section.split_inclusive(|&byte| byte == b'\n').filter_map(|line| {
        let found = field_line(line).ok()?;
        Some((&line[..found.name], &line[found.value(line)]))
    })
}
