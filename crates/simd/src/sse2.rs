//! Classifies 16 bytes with SSE2.

use core::arch::x86_64::{
    __m128i, _mm_add_epi8, _mm_andnot_si128, _mm_cmpeq_epi8, _mm_cmpgt_epi8, _mm_movemask_epi8, _mm_or_si128,
    _mm_set_epi64x, _mm_set1_epi8,
};

use super::{Block, ByteClass};

#[target_feature(enable = "sse2")]
#[inline]
pub(crate) fn inside(class: ByteClass, block: &Block) -> u32 {
    let bytes = load(block);
    match class {
        ByteClass::Name => bits(_mm_or_si128(letters(bytes), equals(bytes, b'-'))),
        ByteClass::Host => {
            let digits = in_range(bytes, b'0', b'9');
            bits(_mm_or_si128(_mm_or_si128(letters(bytes), digits), in_range(bytes, b'-', b'.')))
        }
        ByteClass::Target => bits(_mm_andnot_si128(equals(bytes, b'#'), in_range(bytes, b'!', b'~'))),
        ByteClass::Path => {
            let others = _mm_or_si128(equals(bytes, b'#'), equals(bytes, b'?'));
            bits(_mm_andnot_si128(others, in_range(bytes, b'!', b'~')))
        }
        ByteClass::Text => bits(in_range(bytes, b' ', b'~')),
    }
}

#[target_feature(enable = "sse2")]
#[inline]
pub(crate) fn equal(byte: u8, block: &Block) -> u32 {
    bits(equals(load(block), byte))
}

/// Loads a block with one instruction: the optimizer joins the two words.
#[target_feature(enable = "sse2")]
#[inline]
fn load(block: &Block) -> __m128i {
    let both = u128::from_le_bytes(*block);
    _mm_set_epi64x((both >> 64) as i64, both as i64)
}

#[target_feature(enable = "sse2")]
#[inline]
fn bits(marks: __m128i) -> u32 {
    _mm_movemask_epi8(marks) as u32
}

#[target_feature(enable = "sse2")]
#[inline]
fn letters(bytes: __m128i) -> __m128i {
    in_range(_mm_or_si128(bytes, _mm_set1_epi8(0x20)), b'a', b'z')
}

#[target_feature(enable = "sse2")]
#[inline]
fn equals(bytes: __m128i, byte: u8) -> __m128i {
    _mm_cmpeq_epi8(bytes, _mm_set1_epi8(byte as i8))
}

/// Marks bytes from `first` to `last`. SSE2 compares signed bytes: `last` is moved to the greatest of them.
#[target_feature(enable = "sse2")]
#[inline]
fn in_range(bytes: __m128i, first: u8, last: u8) -> __m128i {
    let moved = _mm_add_epi8(bytes, _mm_set1_epi8(i8::MAX - last as i8));
    _mm_cmpgt_epi8(moved, _mm_set1_epi8(i8::MAX - (last - first) as i8 - 1))
}
