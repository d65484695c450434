//! Values of the embedding program, whose drop is code of that program.

use std::{
    fmt, mem,
    ops::{Deref, DerefMut},
    panic::{AssertUnwindSafe, catch_unwind},
};

/// A value of the embedding program. If its drop panics, the thread that drops it goes on.
pub struct ProgramValue<T> {
    /// `None` only while the value is dropped or taken.
    value: Option<T>,
}

impl<T> ProgramValue<T> {
    /// Returns the value, guarded.
    #[inline]
    pub fn new(value: T) -> ProgramValue<T> {
        ProgramValue { value: Some(value) }
    }

    /// Returns the value without its guard.
    #[inline]
    pub fn into_inner(mut self) -> T {
        self.value.take().expect("it is taken once")
    }
}

impl<T> Deref for ProgramValue<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.value.as_ref().expect("it was not taken")
    }
}

impl<T> DerefMut for ProgramValue<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect("it was not taken")
    }
}

impl<T> Drop for ProgramValue<T> {
    #[inline]
    fn drop(&mut self) {
        if let Some(value) = self.value.take() {
            drop_caught(value);
        }
    }
}

impl<T> fmt::Debug for ProgramValue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProgramValue").finish_non_exhaustive()
    }
}

/// Drops a value of the embedding program. A panic ends here, after the panic hook of the program has reported it.
#[inline]
pub fn drop_caught<T>(value: T) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(value)))
        && let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic)))
    {
        // The value of a panic may panic when it is dropped, and so on without end.
        mem::forget(again);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::panic_any;

    struct NestedPanic(u8);

    impl Drop for NestedPanic {
        fn drop(&mut self) {
            if let Some(next) = self.0.checked_sub(1) {
                panic_any(NestedPanic(next));
            }
        }
    }

    #[test]
    fn panics_of_drops_end_at_the_guard() {
        for depth in 0..5 {
            drop(ProgramValue::new(NestedPanic(depth)));
        }
    }
}
