//! The back-off between two attempts: none after the first exit of a process, then longer each time.

use std::time::Duration;

/// The back-off of one process, log or site: counts the exits and failures in a row.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Backoff {
    count: u32,
}

/// The delay after the second failure in a row.
const FIRST_DELAY: Duration = Duration::from_millis(100);
/// The longest delay: short enough for clients that wait, and long enough to cost nothing.
const DELAY_MAX: Duration = Duration::from_secs(10);
/// A process that has lived this long did not exit because of what made it start.
const LONG_LIFE: Duration = Duration::from_secs(10);

impl Backoff {
    /// Returns the delay until a replacement starts, after a process that lived this long.
    pub(crate) fn after_exit(&mut self, lived: Duration) -> Duration {
        if lived >= LONG_LIFE {
            self.count = 0;
        }
        self.count += 1;
        match self.count {
            1 => Duration::ZERO,
            _ => self.delay(),
        }
    }

    /// Returns the delay until another attempt, after one that failed: the system is short of something, so never zero.
    pub(crate) fn after_failure(&mut self) -> Duration {
        self.count = self.count.max(1) + 1;
        self.delay()
    }

    fn delay(self) -> Duration {
        DELAY_MAX.min(FIRST_DELAY * 2u32.saturating_pow(self.count.saturating_sub(2)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_and_a_long_life_resets_them() {
        let mut backoff = Backoff::default();
        let delays: Vec<_> = (0..11).map(|_| backoff.after_exit(Duration::ZERO).as_millis()).collect();
        assert_eq!(delays, [0, 100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000, 10_000]);
        for _ in 0..100 {
            assert_eq!(backoff.after_exit(LONG_LIFE - Duration::from_millis(1)), DELAY_MAX);
        }
        assert_eq!(backoff.after_exit(LONG_LIFE), Duration::ZERO);
        assert_eq!(backoff.after_exit(Duration::ZERO), FIRST_DELAY);
    }

    #[test]
    fn failed_attempt_is_never_retried_at_once() {
        let mut backoff = Backoff::default();
        let delays: Vec<_> = (0..9).map(|_| backoff.after_failure().as_millis()).collect();
        assert_eq!(delays, [100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000]);
        assert_eq!(backoff.after_exit(LONG_LIFE), Duration::ZERO);
        assert_eq!(backoff.after_failure(), FIRST_DELAY);
    }
}
