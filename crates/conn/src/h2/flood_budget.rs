//! Bounds what a client may ask for without taking part: resets, pings, settings, windows, empty frames.
//!
//! ```text
//! left ─ frame that carries nothing ─▶ less      0: the connection ends with ENHANCE_YOUR_CALM
//!      ─ time, content, an exchange ─▶ more, up to the maximum
//! ```

use crate::Tick;

/// How many more events of a kind a client may cause.
#[derive(Debug)]
pub(super) struct FloodBudget {
    left: u32,
    max: u32,
    per_s: u32,
    /// When time was last added.
    counted_at: Tick,
}

/// The client has caused too many events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flood;

impl FloodBudget {
    /// Returns a budget of `max` events, and of `per_s` more each second.
    pub(super) fn new(max: u32, per_s: u32, now: Tick) -> FloodBudget {
        FloodBudget { left: max, max, per_s, counted_at: now }
    }

    /// Counts an event.
    #[inline]
    pub(super) fn spend(&mut self, now: Tick) -> Result<(), Flood> {
        if self.left == 0 {
            self.add_time(now);
        }
        self.left = self.left.checked_sub(1).ok_or(Flood)?;
        Ok(())
    }

    /// Allows this many more events, as the client takes part.
    #[inline]
    pub(super) fn earn(&mut self, count: u32) {
        self.left = (self.left + count).min(self.max);
    }

    #[cold]
    fn add_time(&mut self, now: Tick) {
        let passed_s = (now.0 - self.counted_at.0) / 1_000;
        self.counted_at = Tick(self.counted_at.0 + passed_s * 1_000);
        self.left = (passed_s * u64::from(self.per_s)).min(self.max.into()) as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_bounded_by_time_and_by_what_the_client_does() {
        let mut budget = FloodBudget::new(3, 2, Tick(0));
        let count_until_flood =
            |budget: &mut FloodBudget, now| (0..100).take_while(|_| budget.spend(Tick(now)).is_ok()).count();
        assert_eq!(count_until_flood(&mut budget, 999), 3);
        assert_eq!(count_until_flood(&mut budget, 1_500), 2, "a second has passed");
        assert_eq!(count_until_flood(&mut budget, 1_999), 0);
        assert_eq!(count_until_flood(&mut budget, 60_000), 3, "no more than the maximum");
        budget.earn(2);
        assert_eq!(count_until_flood(&mut budget, 60_001), 2);
        budget.earn(1_000);
        assert_eq!(count_until_flood(&mut budget, 60_002), 3);
    }
}
