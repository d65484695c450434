//! Classifies two words of eight bytes. A word has a mark, the top bit, for each byte.

#![cfg_attr(target_arch = "x86_64", allow(dead_code, reason = "only the tests use it"))]

use super::{Block, ByteClass};

#[inline(always)]
pub(crate) fn inside(class: ByteClass, block: &Block) -> u32 {
    mask(block, |word| match class {
        ByteClass::Name => letters(word) | equals(word, b'-'),
        ByteClass::Host => letters(word) | in_range(word, b'0', b'9') | in_range(word, b'-', b'.'),
        ByteClass::Target => in_range(word, b'!', b'~') & !equals(word, b'#'),
        ByteClass::Path => in_range(word, b'!', b'~') & !equals(word, b'#') & !equals(word, b'?'),
        ByteClass::Text => in_range(word, b' ', b'~'),
    })
}

#[inline(always)]
pub(crate) fn equal(byte: u8, block: &Block) -> u32 {
    mask(block, |word| equals(word, byte))
}

#[inline(always)]
fn mask(block: &Block, marks: impl Fn(u64) -> u64) -> u32 {
    let both = u128::from_le_bytes(*block);
    // The product moves the mark of byte n to bit 56 + n; no two of its terms meet in the upper eight bits.
    let bits = |word: u64| ((marks(word) >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32;
    bits(both as u64) | bits((both >> 64) as u64) << 8
}

#[inline(always)]
fn letters(word: u64) -> u64 {
    in_range(word | (ONES * 0x20), b'a', b'z')
}

#[inline(always)]
fn in_range(word: u64, first: u8, last: u8) -> u64 {
    below(word, last + 1) & !below(word, first)
}

#[inline(always)]
fn equals(word: u64, byte: u8) -> u64 {
    below(word ^ (ONES * u64::from(byte)), 1)
}

/// Marks the bytes below `limit`, which is 1 to 128. The sum of each byte stays within the byte.
#[inline(always)]
fn below(word: u64, limit: u8) -> u64 {
    let sum = (word & !TOPS) + ONES * u64::from(0x80 - limit);
    !(sum | word) & TOPS
}

const ONES: u64 = u64::from_ne_bytes([1; 8]);
const TOPS: u64 = ONES << 7;
