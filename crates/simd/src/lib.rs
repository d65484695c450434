//! Classifies 16 or 32 bytes at a time. A parser skips to the first byte that it must look at.
//!
//! ```text
//! bytes   G E T   / a   H T …          class: TARGET
//! mask    0 0 0 1 0 0 1 0 0 …          bit n: byte n is not in the class
//! ```
//!
//! A package of its own, because the instructions of a processor are unsafe to call, and the parsers forbid unsafe code. On x86-64 a
//! mask takes about ten instructions of SSE2, which every such processor has. Elsewhere it takes about fifty, on two words of eight
//! bytes; that code runs in the tests of every system.
//!
//! [`Work`] on many bytes uses AVX2 where the processor has it: 32 bytes at a time.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod sse2;
mod widest;
mod words;

pub use widest::{Simd, Work, detect_processor, with_widest};

/// Bytes that are classified at once.
pub type Block = [u8; BLOCK_LEN];

/// The length of a [`Block`].
pub const BLOCK_LEN: usize = 16;

/// Bytes that are classified at once where a run is usually longer than a block.
pub type Window = [u8; WINDOW_LEN];

/// The length of a [`Window`].
pub const WINDOW_LEN: usize = 2 * BLOCK_LEN;

/// A set of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteClass {
    /// Letters and `-`: nearly all bytes of field names.
    Name,
    /// Letters, digits, `-` and `.`: nearly all bytes of host names.
    Host,
    /// Visible ASCII without `#`.
    Target,
    /// Visible ASCII without `#` and `?`.
    Path,
    /// Visible ASCII and SP: nearly all bytes of field values.
    Text,
}

/// Returns which bytes of `block` are not in `class`: bit 0 stands for the first byte. The upper 16 bits are set, so the number of trailing
/// zeros is at most 16.
#[inline(always)]
pub fn outside(class: ByteClass, block: &Block) -> u32 {
    !inside(class, block)
}

/// Returns which bytes of `window` are not in `class`: bit 0 stands for the first byte.
#[inline(always)]
pub fn outside_window(class: ByteClass, window: &Window) -> u32 {
    let (blocks, _) = window.as_chunks();
    !(inside(class, &blocks[0]) | inside(class, &blocks[1]) << BLOCK_LEN)
}

/// Returns which bytes of `block` are in `class`. The upper 16 bits are not set.
#[inline(always)]
fn inside(class: ByteClass, block: &Block) -> u32 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has SSE2, and the compiler uses it everywhere. The function accesses no memory but its argument.
    unsafe {
        sse2::inside(class, block)
    }
    #[cfg(not(target_arch = "x86_64"))]
    words::inside(class, block)
}

/// Returns which bytes of `block` equal `byte`: bit 0 stands for the first byte.
#[inline(always)]
pub fn equal(byte: u8, block: &Block) -> u32 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as in `inside`.
    unsafe {
        sse2::equal(byte, block)
    }
    #[cfg(not(target_arch = "x86_64"))]
    words::equal(byte, block)
}

/// Returns the first bytes of `bytes`, followed by zeros if there are fewer than 16. A zero is in no [`ByteClass`].
#[inline(always)]
pub fn padded(bytes: &[u8]) -> Block {
    match bytes.first_chunk() {
        Some(block) => *block,
        None => pad(bytes),
    }
}

/// Loads fewer than 16 bytes, as two words that may overlap.
#[inline(always)]
fn pad(bytes: &[u8]) -> Block {
    let bits = |missing: usize| 8 * (missing as u32 & 15);
    let word = match (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        (Some(first), Some(last)) => {
            let upper =
                u128::from(u64::from_le_bytes(*last).checked_shr(bits(16 - bytes.len())).unwrap_or(0));
            u128::from(u64::from_le_bytes(*first)) | upper << 64
        }
        _ => match (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
            (Some(first), Some(last)) => {
                let upper = u64::from(u32::from_le_bytes(*last)) << bits(bytes.len() - 4);
                u128::from(u64::from(u32::from_le_bytes(*first)) | upper)
            }
            _ => u128::from(bytes.iter().rev().fold(0_u32, |word, &byte| word << 8 | u32::from(byte))),
        },
    };
    word.to_le_bytes()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CLASSES: [ByteClass; 5] =
        [ByteClass::Name, ByteClass::Host, ByteClass::Target, ByteClass::Path, ByteClass::Text];

    #[test]
    fn every_byte_is_classified_at_every_place() {
        for class in CLASSES {
            for byte in 0..=255_u8 {
                for at in 0..BLOCK_LEN {
                    for others in [b'a', 0, 0xff, byte.wrapping_add(1)] {
                        let mut block = [others; BLOCK_LEN];
                        block[at] = byte;
                        assert_masks(class, byte, &block);
                    }
                }
            }
        }
    }

    #[test]
    fn short_input_is_padded_with_zeros() {
        let bytes: Vec<u8> = (1..=20).collect();
        for len in 0..=bytes.len() {
            let mut want = [0; BLOCK_LEN];
            let kept = len.min(BLOCK_LEN);
            want[..kept].copy_from_slice(&bytes[..kept]);
            assert_eq!(padded(&bytes[..len]), want, "{len} bytes");
        }
    }

    proptest! {
        #[test]
        fn masks_agree_with_a_slow_classification(block: Block, byte: u8) {
            for class in CLASSES {
                assert_masks(class, byte, &block);
            }
        }
    }

    fn assert_masks(class: ByteClass, byte: u8, block: &Block) {
        let slow = |test: &dyn Fn(u8) -> bool| {
            block.iter().rev().fold(0_u32, |mask, &byte| mask << 1 | u32::from(test(byte)))
        };
        let inside = slow(&|byte| is_in(class, byte));
        assert_eq!(outside(class, block), !inside, "{class:?} {block:?}");
        assert_eq!(words::inside(class, block), inside, "{class:?} {block:?}");
        let window =
            core::array::from_fn(|at| if at < BLOCK_LEN { block[at] } else { !block[at - BLOCK_LEN] });
        let (of_first, of_second) = (outside(class, block), outside(class, &block.map(|byte| !byte)));
        let want = of_first & 0xffff | of_second << BLOCK_LEN;
        assert_eq!(outside_window(class, &window), want, "{window:?}");
        assert_eq!(with_widest(OutsideWindow(class, &window)), want, "{window:?}");
        let equals = slow(&|other| other == byte);
        assert_eq!((equal(byte, block), words::equal(byte, block)), (equals, equals), "{byte} {block:?}");
    }

    struct OutsideWindow<'a>(ByteClass, &'a Window);

    impl Work for OutsideWindow<'_> {
        type Output = u32;

        fn run(self, simd: impl Simd) -> u32 {
            simd.outside_window(self.0, self.1)
        }
    }

    fn is_in(class: ByteClass, byte: u8) -> bool {
        match class {
            ByteClass::Name => byte.is_ascii_alphabetic() || byte == b'-',
            ByteClass::Host => byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.',
            ByteClass::Target => byte.is_ascii_graphic() && byte != b'#',
            ByteClass::Path => byte.is_ascii_graphic() && byte != b'#' && byte != b'?',
            ByteClass::Text => byte.is_ascii_graphic() || byte == b' ',
        }
    }
}
