//! Work with the widest instructions that the processor has.

use super::{ByteClass, Window, outside_window};

/// The instructions that classify bytes.
pub trait Simd: Copy {
    /// Returns which bytes of `window` are not in `class`: bit 0 stands for the first byte.
    fn outside_window(self, class: ByteClass, window: &Window) -> u32;
}

/// Work on enough bytes to be worth a choice of instructions.
pub trait Work {
    /// The result.
    type Output;

    /// Does the work. Must be `#[inline(always)]`: the compiler makes a copy for each choice.
    fn run(self, simd: impl Simd) -> Self::Output;
}

/// Does `work` with the widest instructions that this processor has.
#[inline(always)]
pub fn with_widest<W: Work>(work: W) -> W::Output {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { with_avx2(work) };
    }
    with_usual(work)
}

/// Looks for the instructions of this processor now, so that a process forked later finds the answer: in a virtual machine each question traps,
/// and all take tens of microseconds.
pub fn detect_processor() {
    #[cfg(target_arch = "x86_64")]
    let _ = std::arch::is_x86_feature_detected!("avx2");
}

/// The instructions that every processor of this architecture has.
#[derive(Clone, Copy)]
struct Usual;

impl Simd for Usual {
    #[inline(always)]
    fn outside_window(self, class: ByteClass, window: &Window) -> u32 {
        outside_window(class, window)
    }
}

#[inline(never)]
fn with_usual<W: Work>(work: W) -> W::Output {
    work.run(Usual)
}

/// AVX2. Only [`with_avx2`] creates it.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
struct Avx2;

#[cfg(target_arch = "x86_64")]
impl Simd for Avx2 {
    #[inline(always)]
    fn outside_window(self, class: ByteClass, window: &Window) -> u32 {
        // SAFETY: the value exists only on a processor with AVX2. The function accesses no memory but its argument.
        !unsafe { super::avx2::inside(class, window) }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline(never)]
fn with_avx2<W: Work>(work: W) -> W::Output {
    work.run(Avx2)
}
