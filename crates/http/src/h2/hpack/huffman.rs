//! Encodes strings with the Huffman code of HPACK. RFC 7541, section 5.2.

use super::huffman_code::CODES;

/// Returns the length of the code of `bytes`, padding included.
pub(super) fn encoded_len(bytes: impl Iterator<Item = u8>) -> usize {
    bytes.map(|byte| usize::from(CODES[usize::from(byte)].1)).sum::<usize>().div_ceil(8)
}

/// Emits the code of `bytes`, padded with ones.
pub(super) fn encode(bytes: impl Iterator<Item = u8>, emit: &mut impl FnMut(u8)) {
    // The lowest `len` bits of `bits` are not emitted yet: fewer than 8, and at most 30 more.
    let (mut bits, mut len) = (0_u64, 0);
    for byte in bytes {
        let (code, code_len) = CODES[usize::from(byte)];
        bits = bits << code_len | u64::from(code);
        len += code_len;
        while len >= 8 {
            len -= 8;
            emit((bits >> len) as u8);
        }
    }
    if len > 0 {
        emit((bits << (8 - len)) as u8 | 0xff >> len);
    }
}
