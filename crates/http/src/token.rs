//! Character classes, and fast scans for the end of a run of bytes in a class.
//!
//! RFC 9110, sections 5.5 and 5.6.2; RFC 3986, sections 2 and 3.2.2.

/// Bytes of a token: `tchar` of RFC 9110, section 5.6.2.
pub(crate) const TCHAR: u8 = 1;
/// Bytes of a field value: VCHAR, obs-text, SP and HTAB; RFC 9110, section 5.5.
pub(crate) const VALUE: u8 = 1 << 1;
/// Bytes of a request target: VCHAR without `#`, because clients never send a fragment; RFC 9112, section 3.2.
pub(crate) const TARGET: u8 = 1 << 2;
/// Bytes of a reg-name other than `%`: unreserved and sub-delims (RFC 3986, section 3.2.2) without comma; see `host`.
pub(crate) const REG_NAME: u8 = 1 << 3;
/// Bytes between the quotes of an entity-tag: etagc of RFC 9110, section 8.8.3.
pub(crate) const ETAG: u8 = 1 << 4;

/// Returns whether `byte` is in `class`.
#[inline(always)]
pub(crate) fn in_class(class: u8, byte: u8) -> bool {
    CLASSES[byte as usize] & class != 0
}

/// Returns how many bytes at the start of `bytes` are in `class`.
#[inline(always)]
pub(crate) fn prefix_len(class: u8, bytes: &[u8]) -> usize {
    bytes.iter().position(|&byte| !in_class(class, byte)).unwrap_or(bytes.len())
}

/// Returns `prefix_len(VALUE, bytes)`, but checks eight bytes at a time, because values are most of a browser's request.
#[inline(always)]
pub(crate) fn value_prefix_len(bytes: &[u8]) -> usize {
    let mut rest = bytes;
    while let Some((word, behind)) = rest.split_first_chunk::<8>() {
        let stops = controls(u64::from_le_bytes(*word));
        if stops == 0 {
            rest = behind;
            continue;
        }
        rest = &rest[stops.trailing_zeros() as usize / 8..];
        match rest {
            [b'\t', behind @ ..] => rest = behind,
            _ => return bytes.len() - rest.len(),
        }
    }
    bytes.len() - rest.len() + prefix_len(VALUE, rest)
}

/// Sets the top bit of each byte of `word` that is below SP or equal to DEL. The lowest mark is exact; a byte above it may be
/// marked by mistake, because the subtraction borrows from it.
#[inline(always)]
const fn controls(word: u64) -> u64 {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    let low = word.wrapping_sub(ONES * 0x20) & !word;
    let del = word ^ (ONES * 0x7f);
    let del = del.wrapping_sub(ONES) & !del;
    (low | del) & (ONES << 7)
}

static CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = classes_of(byte as u8);
        byte += 1;
    }
    classes
};

const fn classes_of(byte: u8) -> u8 {
    let visible = byte.is_ascii_graphic();
    let obs_text = byte >= 0x80;
    let mut classes = 0;
    if byte.is_ascii_alphanumeric() || in_list(byte, b"!#$%&'*+-.^_`|~") {
        classes |= TCHAR;
    }
    if visible || obs_text || byte == b' ' || byte == b'\t' {
        classes |= VALUE;
    }
    if visible && byte != b'#' {
        classes |= TARGET;
    }
    if byte.is_ascii_alphanumeric() || in_list(byte, b"-._~!$&'()*+;=") {
        classes |= REG_NAME;
    }
    if visible && byte != b'"' || obs_text {
        classes |= ETAG;
    }
    classes
}

const fn in_list(byte: u8, list: &[u8]) -> bool {
    let mut at = 0;
    while at < list.len() {
        if list[at] == byte {
            return true;
        }
        at += 1;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_has_the_size_of_its_grammar() {
        let cases = [
            // class, number of bytes in it
            (TCHAR, 62 + 15),
            (VALUE, 94 + 128 + 2),
            (TARGET, 93),
            (REG_NAME, 62 + 4 + 10),
            (ETAG, 93 + 128),
        ];
        for (class, want) in cases {
            assert_eq!((0..=255).filter(|&byte| in_class(class, byte)).count(), want, "class {class}");
        }
    }

    #[test]
    fn fast_scan_of_a_value_agrees_with_the_slow_one() {
        for byte in 0..=255 {
            for at in 0..20 {
                for second in [b'a', b'\t', b'\r', 0x80, 0x7f] {
                    let mut bytes = [b'v'; 24];
                    bytes[at] = byte;
                    bytes[at + 2] = second;
                    assert_eq!(
                        value_prefix_len(&bytes),
                        prefix_len(VALUE, &bytes),
                        "{byte:#x} at {at}, then {second:#x}"
                    );
                }
            }
        }
    }
}
