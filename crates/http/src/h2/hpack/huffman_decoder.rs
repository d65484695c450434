//! Decodes strings with the Huffman code of HPACK. RFC 7541, section 5.2.
//!
//! ```text
//! 64 bits ─ the first twelve ─▶ SHORT ─┬─ one or two bytes, and the length of their codes
//!                                      └─ nothing: LONG, by the length of the code
//! ```

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
    let (mut left, mut len) = (8 * coded.len(), 0);
    loop {
        let word = load(coded, left);
        if let Some(room) = to.get_mut(len..).and_then(<[u8]>::first_chunk_mut) {
            let (mut rest, mut text, mut count) = (word, 0, 0);
            // The word has at least 57 bits of the string, or all that are left.
            for _ in 0..4 {
                let codes = &SHORT[(rest >> (64 - SHORT_LEN)) as usize];
                if left < SHORT_LEN || codes.count == 0 {
                    break;
                }
                text |= u64::from(u16::from_le_bytes(codes.bytes)) << (8 * count);
                rest <<= codes.len;
                left -= usize::from(codes.len);
                count += usize::from(codes.count);
            }
            if count > 0 {
                *room = text.to_le_bytes();
                len += count;
                continue;
            }
        }
        // No code of fewer than eight bits consists of ones.
        if left < 8 && word == u64::MAX {
            return Ok(len);
        }
        let codes = &SHORT[(word >> (64 - SHORT_LEN)) as usize];
        let (byte, code_len) =
            if codes.count > 0 { (codes.bytes[0], codes.first_len) } else { long_code(word)? };
        left = left.checked_sub(code_len.into()).ok_or(HpackError::Huffman)?;
        if let Some(to) = to.get_mut(len) {
            *to = byte;
        }
        len += 1;
    }
}

/// Returns at least 57 of the last `left` bits, or all of them, and ones after the end.
#[inline(always)]
fn load(coded: &[u8], left: usize) -> u64 {
    let bit = 8 * coded.len() - left;
    if let Some(bytes) = coded.get(bit / 8..).and_then(<[u8]>::first_chunk) {
        return u64::from_be_bytes(*bytes) << (bit % 8);
    }
    match coded.last_chunk() {
        // At most 56 bits are left.
        Some(bytes) => u64::from_be_bytes(*bytes) << (63 - left) << 1 | u64::MAX >> left,
        None => load_all(coded) << bit | !(u64::MAX << bit),
    }
}

/// Returns the bits of a string of fewer than eight bytes, and ones after its end.
#[inline(never)]
fn load_all(coded: &[u8]) -> u64 {
    let mut bytes = [0xff; 8];
    bytes.iter_mut().zip(coded).for_each(|(to, byte)| *to = *byte);
    u64::from_be_bytes(bytes)
}

/// Returns the byte whose code of more than [`SHORT_LEN`] bits a word begins with, and the length of the code.
fn long_code(word: u64) -> Result<(u8, u8), HpackError> {
    let word = (word >> 32) as u32;
    let codes = LONG.iter().find(|codes| word < codes.end).ok_or(HpackError::Huffman)?;
    let at = codes.first_at + ((word - codes.first) >> (32 - codes.len)) as usize;
    Ok((SORTED[at], codes.len))
}

/// The number of bits that `SHORT` is indexed by: enough for two of the bytes that fields have most, whose codes have five or six bits.
const SHORT_LEN: usize = 12;

/// The length of the longest code in bits.
const CODE_LEN_MAX: usize = 30;

/// The codes that a word begins with.
#[derive(Clone, Copy)]
struct ShortCodes {
    /// The bytes; 0 if there are fewer.
    bytes: [u8; 2],
    /// The length of the first code in bits.
    first_len: u8,
    /// The length of all codes in bits.
    len: u8,
    /// The number of bytes. 0: the first code has more than [`SHORT_LEN`] bits.
    count: u8,
}

/// The codes that a word of [`SHORT_LEN`] bits begins with.
static SHORT: [ShortCodes; 1 << SHORT_LEN] = {
    let none = ShortCodes { bytes: [0; 2], first_len: 0, len: 0, count: 0 };
    let mut table = [none; 1 << SHORT_LEN];
    let mut byte = 0;
    while byte < CODES.len() {
        let (code, len) = CODES[byte];
        if len as usize <= SHORT_LEN {
            let spare = SHORT_LEN - len as usize;
            let mut rest = 0;
            while rest < 1 << spare {
                let codes = ShortCodes { bytes: [byte as u8, 0], first_len: len, len, count: 1 };
                table[(code as usize) << spare | rest] = codes;
                rest += 1;
            }
        }
        byte += 1;
    }
    let mut word = 0;
    while word < table.len() {
        let first = table[word];
        // The first byte of the entry for the bits behind the code, if they hold all of its code.
        let second = table[word << first.len & (table.len() - 1)];
        let len = first.first_len + second.first_len;
        if first.count > 0 && second.count > 0 && len as usize <= SHORT_LEN {
            table[word].bytes[1] = second.bytes[0];
            (table[word].len, table[word].count) = (len, 2);
        }
        word += 1;
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
        let cases: &[(&str, &str, Option<&str>)] = &[
            // case                         bits                                          text
            ("nothing",                     "",                                           Some("")),
            ("three bits of ones",          "00011 111",                                  Some("a")),
            ("no padding",                  "00011 00011 00011 00011 00011 00011 00011 00011", Some("aaaaaaaa")),
            ("seven bits of ones",          "00011 00011 00011 00011 00011 1111111",      Some("aaaaa")),
            ("padding of zeros",            "00011 000",                                  None),
            ("padding of mixed bits",       "00011 101",                                  None),
            ("a byte of padding",           "00011 111 11111111",                         None),
            ("only a byte of padding",      "11111111",                                   None),
            ("half a code",                 "00011 111 11110000",                         None),
            ("EOS",                         "11111111 11111111 11111111 11111111",        None),
            ("EOS between bytes",           "00011 111111111111111111111111111111 00011", None),
        ];
        for &(name, bits, want) in cases {
            let bits: Vec<_> = bits.bytes().filter(|bit| *bit != b' ').map(|bit| bit - b'0').collect();
            let coded: Vec<u8> = bits.chunks(8).map(|byte| byte.iter().fold(0, |byte, bit| byte << 1 | bit)).collect();
            let mut to = [0; 40];
            let got = decode(&coded, &mut to);
            assert_eq!(got.ok().map(|len| &to[..len]), want.map(str::as_bytes), "{name}");
            assert_eq!(decode(&coded, &mut []), got, "{name}, without room");
        }
        assert_eq!(decode(&[0xff; 20], &mut []), Err(HpackError::Huffman));
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
