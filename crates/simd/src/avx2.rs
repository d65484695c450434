//! Classifies 32 bytes with AVX2.

use core::arch::x86_64::{
    __m256i, _mm256_add_epi8, _mm256_andnot_si256, _mm256_cmpeq_epi8, _mm256_cmpgt_epi8,
    _mm256_movemask_epi8, _mm256_or_si256, _mm256_set_epi64x, _mm256_set1_epi8,
};

use super::{ByteClass, Window};

#[target_feature(enable = "avx2")]
#[inline]
pub(crate) fn inside(class: ByteClass, window: &Window) -> u32 {
    let bytes = load(window);
    match class {
        ByteClass::Name => bits(_mm256_or_si256(letters(bytes), equals(bytes, b'-'))),
        ByteClass::Host => {
            let digits = in_range(bytes, b'0', b'9');
            bits(_mm256_or_si256(_mm256_or_si256(letters(bytes), digits), in_range(bytes, b'-', b'.')))
        }
        ByteClass::Target => bits(_mm256_andnot_si256(equals(bytes, b'#'), in_range(bytes, b'!', b'~'))),
        ByteClass::Path => {
            let others = _mm256_or_si256(equals(bytes, b'#'), equals(bytes, b'?'));
            bits(_mm256_andnot_si256(others, in_range(bytes, b'!', b'~')))
        }
        ByteClass::Text => bits(in_range(bytes, b' ', b'~')),
    }
}

/// Loads a window with one instruction: the optimizer joins the words.
#[target_feature(enable = "avx2")]
#[inline]
fn load(window: &Window) -> __m256i {
    let [first, second, third, fourth] = window.as_chunks().0 else {
        unreachable!("a window has four words")
    };
    let word = |bytes: &[u8; 8]| i64::from_le_bytes(*bytes);
    _mm256_set_epi64x(word(fourth), word(third), word(second), word(first))
}

#[target_feature(enable = "avx2")]
#[inline]
fn bits(marks: __m256i) -> u32 {
    _mm256_movemask_epi8(marks) as u32
}

#[target_feature(enable = "avx2")]
#[inline]
fn letters(bytes: __m256i) -> __m256i {
    in_range(_mm256_or_si256(bytes, _mm256_set1_epi8(0x20)), b'a', b'z')
}

#[target_feature(enable = "avx2")]
#[inline]
fn equals(bytes: __m256i, byte: u8) -> __m256i {
    _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(byte as i8))
}

/// Marks bytes from `first` to `last`. AVX2 compares signed bytes: `last` is moved to the greatest of them.
#[target_feature(enable = "avx2")]
#[inline]
fn in_range(bytes: __m256i, first: u8, last: u8) -> __m256i {
    let moved = _mm256_add_epi8(bytes, _mm256_set1_epi8(i8::MAX - last as i8));
    _mm256_cmpgt_epi8(moved, _mm256_set1_epi8(i8::MAX - (last - first) as i8 - 1))
}
