//! The integers of HPACK. RFC 7541, section 5.1.
//!
//! ```text
//! first byte   pattern │ prefix: the value, or all ones: then bytes of seven bits follow, the lowest bits first
//! ```

use super::HpackError;

/// The maximum number of bytes after the first. Four of them hold 28 bits, more than any length or index that this server accepts.
const CONTINUATION_COUNT_MAX: usize = 4;

/// Emits an integer in the lower `prefix` bits of a byte, whose upper bits are those of `pattern`, and in the bytes after it. RFC 7541,
/// section 5.1.
pub(super) fn encode(pattern: u8, prefix: u32, value: usize, emit: &mut impl FnMut(u8)) {
    let max = (1 << prefix) - 1;
    let Some(mut rest) = value.checked_sub(max) else { return emit(pattern | value as u8) };
    emit(pattern | max as u8);
    while rest >= 0x80 {
        emit(0x80 | rest as u8);
        rest >>= 7;
    }
    emit(rest as u8);
}

/// Decodes the integer at the start of `bytes`, whose first byte holds it in its lower `prefix` bits. Returns the integer and the number of
/// its bytes, or `None` if more bytes are needed. RFC 7541, section 5.1.
///
/// # Errors
///
/// Returns [`HpackError::Integer`] if the integer has more than five bytes, leading zeros included.
#[inline(always)]
pub(super) fn decode_integer(bytes: &[u8], prefix: u32) -> Result<Option<(usize, usize)>, HpackError> {
    let max = (1 << prefix) - 1;
    let Some(&first) = bytes.first() else { return Ok(None) };
    let value = usize::from(first) & max;
    if value < max { Ok(Some((value, 1))) } else { continue_integer(&bytes[1..], max) }
}

/// Decodes the bytes after the first.
fn continue_integer(bytes: &[u8], max: usize) -> Result<Option<(usize, usize)>, HpackError> {
    let mut value = max;
    for (at, &byte) in bytes.iter().take(CONTINUATION_COUNT_MAX).enumerate() {
        value += (usize::from(byte) & 0x7f) << (7 * at);
        if byte < 0x80 {
            return Ok(Some((value, 2 + at)));
        }
    }
    if bytes.len() < CONTINUATION_COUNT_MAX { Ok(None) } else { Err(HpackError::Integer) }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::vec::Vec;

    use super::*;

    #[test]
    #[rustfmt::skip]
    fn integers_are_coded_as_in_the_rfc() {
        let cases: &[(&str, u32, usize, &[u8])] = &[
            // case                      prefix  value       RFC 7541, section C.1
            ("fits",                     5,      10,         &[0b01010]),
            ("does not fit",             5,      1337,       &[0b11111, 0b1001_1010, 0b1010]),
            ("at the start of a byte",   8,      42,         &[42]),
            ("all ones",                 5,      31,         &[0b11111, 0]),
            ("two bytes",                7,      127 + 128,  &[0x7f, 0x80, 1]),
            ("largest",                  7,      127 + (1 << 28) - 1, &[0x7f, 0xff, 0xff, 0xff, 0x7f]),
        ];
        for &(name, prefix, value, want) in cases {
            let mut got = Vec::new();
            encode(0, prefix, value, &mut |byte| got.push(byte));
            assert_eq!(got, want, "{name}");
            assert_eq!(decode_integer(&got, prefix), Ok(Some((value, got.len()))), "{name}");
            for cut in 0..got.len() {
                assert_eq!(decode_integer(&got[..cut], prefix), Ok(None), "{name}, {cut} bytes");
            }
        }
    }

    #[test]
    #[rustfmt::skip]
    fn long_integers_are_refused() {
        let cases: &[(&str, &[u8])] = &[
            ("does not fit in 28 bits",  &[0x7f, 0x80, 0x80, 0x80, 0x80, 1]),
            ("does not fit in 64 bits",  &[0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]),
            ("zeros that say nothing",   &[0x7f, 0x81, 0x80, 0x80, 0x80, 0]),
            ("refused before its end",   &[0x7f, 0xff, 0xff, 0xff, 0xff]),
        ];
        for &(name, bytes) in cases {
            assert_eq!(decode_integer(bytes, 7), Err(HpackError::Integer), "{name}");
        }
        // As many zeros as fit say nothing, and are valid.
        assert_eq!(decode_integer(&[0x7f, 0x81, 0x80, 0x80, 0], 7), Ok(Some((128, 5))));
    }
}
