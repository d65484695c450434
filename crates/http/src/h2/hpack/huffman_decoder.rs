//! Decodes strings with the Huffman code of HPACK. RFC 7541, section 5.2.
//!
//! ```text
//! 64 bits ─ the first ten ─▶ SHORT ─┬─ a byte, and the length of its code
//!                                   └─ nothing: LONG, by the length of the code
//! ```

use core::iter;

use super::HpackError;
use super::huffman_code::CODES;

/// Decodes a string to the front of `to`. Returns its length, which may exceed that of `to`: then only its start is decoded, and all of it
/// checked.
///
/// # Errors
///
/// Returns [`HpackError::Huffman`] if the string does not end within the last byte, in a part of the code of EOS, or contains EOS.
#[inline]
pub(super) fn decode(coded: &[u8], to: &mut [u8]) -> Result<usize, HpackError> {
    let (mut bit, mut len) = (0, 0);
    // A load has at least 57 bits that are not decoded, enough for this many short codes.
    while let (Some(word), Some(room)) = (
        coded.get(bit / 8..).and_then(<[u8]>::first_chunk),
        to.get_mut(len..).and_then(<[u8]>::first_chunk_mut::<5>),
    ) {
        let word = u64::from_be_bytes(*word) << (bit % 8);
        let (mut rest, mut count) = (word, 0);
        for to in &mut *room {
            let (byte, code_len) = SHORT[(rest >> (64 - SHORT_LEN)) as usize];
            if code_len == 0 {
                break;
            }
            *to = byte;
            rest <<= code_len;
            bit += usize::from(code_len);
            count += 1;
        }
        if count == 0 {
            let (byte, code_len) = long_code(word)?;
            room[0] = byte;
            bit += usize::from(code_len);
            count = 1;
        }
        len += count;
    }
    decode_end(coded, bit, to, len)
}

/// Decodes the end of a string, from a bit on: its last bytes, or all for which `to` has no room.
fn decode_end(coded: &[u8], bit: usize, to: &mut [u8], mut len: usize) -> Result<usize, HpackError> {
    let mut left = 8 * coded.len() - bit;
    loop {
        let mut word = load(coded, left);
        // The word has only a part of a code after so many bits, if the string goes on.
        let reload = left.saturating_sub(LOAD_LEN - CODE_LEN_MAX);
        loop {
            // No code of fewer than eight bits consists of ones.
            if left < 8 && word == u64::MAX {
                return Ok(len);
            }
            let (byte, code_len) = match SHORT[(word >> (64 - SHORT_LEN)) as usize] {
                (_, 0) => long_code(word)?,
                short => short,
            };
            left = left.checked_sub(code_len.into()).ok_or(HpackError::Huffman)?;
            if let Some(to) = to.get_mut(len) {
                *to = byte;
            }
            word = !(!word << code_len);
            len += 1;
            if left < reload {
                break;
            }
        }
    }
}

/// Returns at least [`LOAD_LEN`] of the last `left` bits, and ones after the end.
#[inline(always)]
fn load(coded: &[u8], left: usize) -> u64 {
    match coded.last_chunk() {
        Some(last) if left <= 64 => match u64::from_be_bytes(*last).checked_shl(64 - left as u32) {
            Some(word) => word | u64::MAX.checked_shr(left as u32).unwrap_or(0),
            None => u64::MAX,
        },
        _ => load_part(coded, left),
    }
}

/// Does the same for bits of short strings, and for those that the string does not end with.
#[inline(never)]
fn load_part(coded: &[u8], left: usize) -> u64 {
    let bit = 8 * coded.len() - left;
    let bytes = coded[bit / 8..].iter().copied().chain(iter::repeat(0xff)).take(8);
    let word = bytes.fold(0, |word, byte| word << 8 | u64::from(byte));
    !(!word << (bit % 8))
}

/// Returns the byte whose code of more than [`SHORT_LEN`] bits a word begins with, and the length of the code.
fn long_code(word: u64) -> Result<(u8, u8), HpackError> {
    let word = (word >> 32) as u32;
    let codes = LONG.iter().find(|codes| word < codes.end).ok_or(HpackError::Huffman)?;
    let at = codes.first_at + ((word - codes.first) >> (32 - codes.len)) as usize;
    Ok((SORTED[at], codes.len))
}

/// The number of bits that `SHORT` is indexed by: the codes of nearly all bytes of fields are at most this long.
const SHORT_LEN: usize = 10;

/// The number of bits that a load of 64 has at least, wherever it begins in its first byte.
const LOAD_LEN: usize = 57;

/// The length of the longest code in bits.
const CODE_LEN_MAX: usize = 30;

/// The byte whose code a word of [`SHORT_LEN`] bits begins with, and the length of the code; 0 if it is longer.
static SHORT: [(u8, u8); 1 << SHORT_LEN] = {
    let mut table = [(0, 0); 1 << SHORT_LEN];
    let mut byte = 0;
    while byte < CODES.len() {
        let (code, len) = CODES[byte];
        if len as usize <= SHORT_LEN {
            let spare = SHORT_LEN - len as usize;
            let mut rest = 0;
            while rest < 1 << spare {
                table[(code as usize) << spare | rest] = (byte as u8, len);
                rest += 1;
            }
        }
        byte += 1;
    }
    table
};

/// The codes of one length. They are consecutive numbers, and all longer codes are greater: each code begins where the one before ends.
#[derive(Clone, Copy)]
struct CodesOfLength {
    /// The first code, as the upper bits of a word.
    first: u32,
    /// The end of the codes, as the upper bits of a word.
    end: u32,
    /// The length of the codes in bits.
    len: u8,
    /// The position in `SORTED` of the byte with the first code.
    first_at: usize,
}

/// The codes of more than [`SHORT_LEN`] bits, by their length. EOS lies behind the end of the last.
static LONG: [CodesOfLength; CODE_LEN_MAX - SHORT_LEN] = {
    let mut long = [CodesOfLength { first: 0, end: 0, len: 0, first_at: 0 }; CODE_LEN_MAX - SHORT_LEN];
    let (mut at, mut code) = (0, 0);
    let mut len = 1;
    while len <= CODE_LEN_MAX {
        let (first, first_at) = (code, at);
        while at < SORTED.len() && CODES[SORTED[at] as usize].1 as usize == len {
            code += 1 << (32 - len);
            at += 1;
        }
        if len > SHORT_LEN {
            long[len - SHORT_LEN - 1] = CodesOfLength { first, end: code, len: len as u8, first_at };
        }
        len += 1;
    }
    long
};

/// All bytes in the order of their codes.
static SORTED: [u8; 256] = {
    let mut sorted = [0; 256];
    let (mut count, mut len) = (0, 1);
    while len <= CODE_LEN_MAX {
        // Codes of one length are in the order of their bytes.
        let mut byte = 0;
        while byte < 256 {
            if CODES[byte].1 as usize == len {
                sorted[count] = byte as u8;
                count += 1;
            }
            byte += 1;
        }
        len += 1;
    }
    sorted
};

#[cfg(test)]
mod tests {
    extern crate std;
    use std::vec;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::super::huffman;
    use super::*;

    #[test]
    fn each_byte_has_its_code() {
        for byte in 0..=u8::MAX {
            for count in 1..20 {
                round_trip(&vec![byte; count]);
            }
        }
        assert!(SORTED.is_sorted_by_key(|&byte| {
            let (code, len) = CODES[usize::from(byte)];
            code << (32 - len)
        }));
    }

    #[test]
    #[rustfmt::skip]
    fn padding_is_a_part_of_the_code_of_eos() {
        // RFC 7541, section 5.2
        let cases: &[(&str, &[u8], Result<&[u8], HpackError>)] = &[
            ("nothing",                     b"",                          Ok(b"")),
            ("three bits of ones",          &[0b00011_111],               Ok(b"a")),
            ("no padding",                  &[0b00011_000, 0b11_00011_0, 0b0011_0001, 0b1_00011_00, 0b011_00011], Ok(b"aaaaaaaa")),
            ("seven bits of ones",          &[0b00011_000, 0b11_00011_0, 0b0011_0001, 0b1_1111111], Ok(b"aaaaa")),
            ("padding of zeros",            &[0b00011_000],               Err(HpackError::Huffman)),
            ("padding of mixed bits",       &[0b00011_101],               Err(HpackError::Huffman)),
            ("a byte of padding",           &[0b00011_111, 0xff],         Err(HpackError::Huffman)),
            ("only a byte of padding",      &[0xff],                      Err(HpackError::Huffman)),
            ("half a code",                 &[0b00011_111, 0b1111_0000],  Err(HpackError::Huffman)),
            ("EOS",                         &[0xff, 0xff, 0xff, 0xff],    Err(HpackError::Huffman)),
            ("EOS in long strings",         &[0xff; 20],                  Err(HpackError::Huffman)),
            ("EOS between bytes",           &[0b00011_111, 0xff, 0xff, 0xff, 0b111_00011], Err(HpackError::Huffman)),
        ];
        for &(name, coded, want) in cases {
            let mut to = [0; 40];
            let got = decode(coded, &mut to);
            assert_eq!(got.map(|len| &to[..len]), want, "{name}");
            assert_eq!(decode(coded, &mut []), got, "{name}, without room");
        }
    }

    proptest! {
        #[test]
        fn encoded_strings_are_decoded(text in "[ -~]{0,60}", bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            round_trip(text.as_bytes());
            round_trip(&bytes);
        }

        #[test]
        fn any_bytes_decode_as_bit_by_bit(coded in proptest::collection::vec(any::<u8>(), 0..24), room in 0..40_usize) {
            let mut to = vec![0; room];
            let got = decode(&coded, &mut to);
            let want = bit_by_bit(&coded);
            prop_assert_eq!(got.ok(), want.as_ref().map(Vec::len));
            if let Some(want) = want {
                let len = want.len().min(room);
                prop_assert_eq!(&to[..len], &want[..len]);
            }
        }
    }

    fn round_trip(text: &[u8]) {
        let mut coded = Vec::new();
        huffman::encode(text.iter().copied(), &mut |byte| coded.push(byte));
        for room in [text.len(), text.len() + 1, text.len() + 9] {
            let mut to = vec![0; room];
            assert_eq!(decode(&coded, &mut to), Ok(text.len()), "{text:?}");
            assert_eq!(&to[..text.len()], text);
        }
    }

    /// Decodes as the RFC describes it.
    fn bit_by_bit(coded: &[u8]) -> Option<Vec<u8>> {
        let (mut text, mut code, mut len) = (Vec::new(), 0_u32, 0);
        for bit in coded.iter().flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1)) {
            (code, len) = (code << 1 | u32::from(bit), len + 1);
            if let Some(byte) = CODES.iter().position(|row| *row == (code, len)) {
                text.push(byte as u8);
                (code, len) = (0, 0);
            }
            if len == 30 {
                return None;
            }
        }
        (len < 8 && code == (1 << len) - 1).then_some(text)
    }
}
