//! Parses a field line. RFC 9112, section 5.

use tarpon_simd::{BLOCK_LEN, ByteClass, Simd, WINDOW_LEN, Window, outside, outside_window, padded};

use super::{HeadError, ParseError};
use crate::token::{TCHAR, VALUE, prefix_len};

/// Offsets in a field line.
pub(crate) struct FieldLine {
    /// The end of the name, which begins at 0. A colon follows.
    pub(super) name: usize,
    /// The end of the value and of the whitespace around it. CRLF follows.
    pub(super) end: usize,
}

impl FieldLine {
    /// Returns the offset and the bytes of the value in `line`, without OWS around it.
    #[inline(always)]
    pub(super) fn value<'a>(&self, line: &'a [u8]) -> (usize, &'a [u8]) {
        let mut value = &line[self.name + 1..self.end];
        // SP and HTAB are the only bytes of a value up to SP.
        while let [..=b' ', behind @ ..] = value {
            value = behind;
        }
        let at = self.end - value.len();
        while let [front @ .., ..=b' '] = value {
            value = front;
        }
        (at, value)
    }

    /// Returns the length of the line, including its CRLF.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.end + 2
    }
}

/// Parses the line `Host`, with a host name and perhaps a port, at the start of `lines`: RFC 9110, section 7.2, asks clients to send it first.
/// Returns the value, and the bytes after the line. Returns `None` for other lines, among them valid ones.
#[inline(always)]
pub(super) fn first_host_line(lines: &[u8]) -> Option<(&[u8], &[u8])> {
    let (front, value) = lines.split_first_chunk::<HOST_VALUE_AT>()?;
    let (name, separator) = front.split_first_chunk()?;
    if u32::from_le_bytes(*name) | 0x2020_2020 != u32::from_le_bytes(*b"host") || separator != b": " {
        return None;
    }
    let mut rest = value;
    while let len @ 1.. = outside(ByteClass::Host, &padded(rest)).trailing_zeros() as usize {
        rest = &rest[len..];
        if len < BLOCK_LEN {
            break;
        }
    }
    let name_len = value.len() - rest.len();
    if let [b':', port @ ..] = rest {
        rest = &port[port.iter().take_while(|byte| byte.is_ascii_digit()).count()..];
    }
    match rest {
        [b'\r', b'\n', behind @ ..] if name_len > 0 => Some((&value[..value.len() - rest.len()], behind)),
        _ => None,
    }
}

/// The offset of the value in the line of [`first_host_line`].
pub(super) const HOST_VALUE_AT: usize = 6;

/// Parses the field line at the start of `lines` if its name consists of letters and `-`, and its value of visible ASCII and SP. Returns the
/// length of the name, and the bytes after the line. Returns `None` for other lines, for a name that is not complete in the first
/// [`WINDOW_LEN`] bytes, and if `lines` is shorter than [`FRONT_LEN`].
#[inline(always)]
pub(super) fn usual_field_line(simd: impl Simd, lines: &[u8]) -> Option<(usize, &[u8])> {
    let front = lines.first_chunk::<FRONT_LEN>()?;
    let window: &Window = front.first_chunk()?;
    let name = simd.outside_window(ByteClass::Name, window).trailing_zeros() as usize;
    if name == 0 || *front.get(name)? != b':' {
        return None;
    }
    let end = match simd.outside_window(ByteClass::Text, window) {
        0 => skip_text(simd, &lines[WINDOW_LEN..], lines)?,
        stops => &lines[stops.trailing_zeros() as usize..],
    };
    Some((name, end.strip_prefix(b"\r\n")?))
}

/// The number of bytes that [`usual_field_line`] needs: a window, and the byte after it, which may be the LF of the line.
pub(super) const FRONT_LEN: usize = WINDOW_LEN + 1;

/// Returns `rest` from the first byte that is not [`ByteClass::Text`]. It follows at least a window of such bytes at the end of `lines`.
#[inline(always)]
fn skip_text<'a>(simd: impl Simd, mut rest: &'a [u8], lines: &'a [u8]) -> Option<&'a [u8]> {
    while let Some((window, behind)) = rest.split_first_chunk() {
        let stops = simd.outside_window(ByteClass::Text, window);
        if stops != 0 {
            return Some(&rest[stops.trailing_zeros() as usize..]);
        }
        rest = behind;
    }
    // Fewer bytes are left than a window has, so it begins before them.
    let last = lines.last_chunk::<WINDOW_LEN>()?;
    let stops = simd.outside_window(ByteClass::Text, last);
    last.get(stops.trailing_zeros() as usize..)
}

/// Parses the field line at the start of `line` if it is usual; see [`usual_field_line`]. `line` is the end of `seen` and has at most
/// [`WINDOW_LEN`] bytes, so the window begins before it. Returns what [`field_line`] returns, or `None` for other lines.
#[inline(always)]
pub(super) fn last_field_line(seen: &[u8], line: &[u8]) -> Option<FieldLine> {
    let window = seen.last_chunk::<WINDOW_LEN>()?;
    let before = WINDOW_LEN.checked_sub(line.len())?;
    let end_of = |class| (u64::from(outside_window(class, window)) >> before).trailing_zeros() as usize;
    let (name, end) = (end_of(ByteClass::Name), end_of(ByteClass::Text));
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
pub(crate) fn field_lines(section: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
    section.split_inclusive(|&byte| byte == b'\n').filter_map(|line| {
        let found = field_line(line).ok()?;
        Some((&line[..found.name], found.value(line).1))
    })
}
