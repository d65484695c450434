//! How long a process is waited with that takes the place of one which has ended: not at all, and each time longer.

use std::time::Duration;

/// How often it has happened lately.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    count: u32,
}

/// The second time in a row.
const FIRST: Duration = Duration::from_millis(100);
/// However often: soon enough for clients that wait, and seldom enough to cost nothing.
const LONGEST: Duration = Duration::from_secs(10);
/// Who has lived so long did not end by what made it begin.
const LONG_LIFE: Duration = Duration::from_secs(10);

impl Backoff {
    /// One that has lived so long has ended. Returns when the next may begin.
    pub(crate) fn after(&mut self, lived: Duration) -> Duration {
        if lived >= LONG_LIFE {
            self.count = 0;
        }
        self.count += 1;
        match self.count {
            1 => Duration::ZERO,
            count => LONGEST.min(FIRST * 2u32.saturating_pow(count - 2)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_begins_at_once_then_later_and_later_and_forgets_after_a_long_life() {
        let mut backoff = Backoff::default();
        let waits: Vec<_> = (0..11).map(|_| backoff.after(Duration::ZERO).as_millis()).collect();
        assert_eq!(waits, [0, 100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000, 10_000]);
        for _ in 0..100 {
            assert_eq!(backoff.after(LONG_LIFE - Duration::from_millis(1)), LONGEST);
        }
        assert_eq!(backoff.after(LONG_LIFE), Duration::ZERO);
        assert_eq!(backoff.after(Duration::ZERO), FIRST);
    }
}
