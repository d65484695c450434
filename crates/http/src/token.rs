//! Character classes, and fast scans for the end of a run of bytes in a class.
//!
//! RFC 9110, sections 5.5 and 5.6.2; RFC 3986, sections 2 and 3.2.2.

use tarpon_simd::{BLOCK_LEN, ByteClass, outside, padded};

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

/// Returns `bytes` from the first byte that is not in `class`, or `None` if the scan reaches the last 15 bytes.
#[inline(always)]
pub(crate) fn skip(class: ByteClass, bytes: &[u8]) -> Option<&[u8]> {
    let mut rest = bytes;
    loop {
        let (block, behind) = rest.split_first_chunk::<BLOCK_LEN>()?;
        let stops = outside(class, block) as u16;
        if stops != 0 {
            return Some(&rest[stops.trailing_zeros() as usize % BLOCK_LEN..]);
        }
        rest = behind;
    }
}

/// Returns how many bytes at the start of `bytes` are in `class`.
#[inline(always)]
pub(crate) fn fast_prefix_len(class: ByteClass, bytes: &[u8]) -> usize {
    let mut rest = bytes;
    loop {
        let len = outside(class, &padded(rest)).trailing_zeros() as usize;
        if len < BLOCK_LEN {
            return bytes.len() - rest.len() + len;
        }
        rest = &rest[BLOCK_LEN..];
    }
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
    extern crate std;
    use proptest::prelude::*;

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

    proptest! {
        #[test]
        fn fast_scans_agree_with_slow_ones(bytes in "[a-zA-Z0-9-]{0,40}[-a ~:#_.%\t\r\n\x7f\u{80}]{0,20}[a-z]{0,20}") {
            for from in 0..=bytes.len() {
                let bytes = &bytes.as_bytes()[from..];
                for (fast, class) in PARTS {
                    let len = fast_prefix_len(fast, bytes);
                    prop_assert!(skip(fast, bytes).is_none_or(|rest| rest == &bytes[len..]), "{:?}", fast);
                    prop_assert!(len <= prefix_len(class, bytes), "{:?}", fast);
                    let may_continue = |byte: u8| match fast {
                        ByteClass::Name => !byte.is_ascii_alphabetic() && byte != b'-',
                        ByteClass::Host => !byte.is_ascii_alphanumeric() && byte != b'-' && byte != b'.',
                        ByteClass::Target => false,
                        ByteClass::Path => byte == b'?',
                        ByteClass::Text => byte == b'\t' || byte >= 0x80,
                    };
                    let ends = bytes.get(len).is_none_or(|&byte| !in_class(class, byte) || may_continue(byte));
                    prop_assert!(ends, "{:?}", fast);
                }
            }
        }
    }

    /// The classes of the fast scans, each with the class of which it is a part.
    const PARTS: [(ByteClass, u8); 5] = [
        (ByteClass::Name, TCHAR),
        (ByteClass::Host, REG_NAME),
        (ByteClass::Target, TARGET),
        (ByteClass::Path, TARGET),
        (ByteClass::Text, VALUE),
    ];
}
