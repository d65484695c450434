//! Pauses the start of workers after a failure: the system is short of processes, descriptors or memory. Plain data.
//!
//! ```text
//! open ── a start fails ──▶ limited until the back-off ends: as many workers as run now, and no more
//!   ▲                           │ a worker exits: its replacement may start
//!   └──── the back-off ends ────┘
//! ```
//!
//! One gate for all workers, as they need the same resources: a shortage costs one attempt, and one notice, per back-off.

use crate::control::process::{Backoff, clock};
use std::time::Duration;
use tarpon_conn::Tick;

/// Decides whether another worker may start.
#[derive(Debug)]
pub(super) struct StartGate {
    backoff: Backoff,
    limit: Option<StartLimit>,
    /// A failure after this time has nothing to do with the last one.
    calm_after: Tick,
}

/// The limit after a failure.
#[derive(Clone, Copy, Debug)]
struct StartLimit {
    /// The number of workers that ran when a start failed.
    process_count_max: usize,
    until: Tick,
}

/// How long starts must have succeeded before the back-off begins anew: at the limit of the system, starts succeed and fail in turn.
const CALM_TIME: Duration = Duration::from_secs(10);

impl StartGate {
    /// Returns an open gate.
    pub(super) fn new() -> StartGate {
        StartGate { backoff: Backoff::default(), limit: None, calm_after: Tick(0) }
    }

    /// Returns whether a worker may start beside this many others.
    pub(super) fn allows(&self, process_count: usize) -> bool {
        self.limit.is_none_or(|limit| process_count < limit.process_count_max)
    }

    /// Returns when the back-off ends.
    pub(super) fn until(&self) -> Option<Tick> {
        self.limit.map(|limit| limit.until)
    }

    /// Ends the back-off if it is over.
    pub(super) fn expire(&mut self, now: Tick) {
        self.limit = self.limit.filter(|limit| limit.until > now);
    }

    /// Notes that a worker could not start beside this many others. Returns the back-off, unless one runs already.
    pub(super) fn failed(&mut self, now: Tick, process_count: usize) -> Option<Duration> {
        if let Some(limit) = &mut self.limit {
            limit.process_count_max = process_count;
            return None;
        }
        if self.calm_after <= now {
            self.backoff = Backoff::default();
        }
        let delay = self.backoff.after_failure();
        let until = clock::after(now, delay);
        self.limit = Some(StartLimit { process_count_max: process_count, until });
        self.calm_after = clock::after(until, CALM_TIME);
        Some(delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_start_limits_the_workers_until_the_back_off_ends() {
        let mut gate = StartGate::new();
        assert!(gate.allows(1_000));
        assert_eq!(gate.failed(Tick(0), 7), Some(Duration::from_millis(100)));
        assert_eq!((gate.allows(7), gate.allows(6), gate.until()), (false, true, Some(Tick(100))));
        // A worker has exited, and its replacement does not start either.
        assert_eq!(gate.failed(Tick(50), 6), None);
        assert_eq!((gate.allows(6), gate.allows(5), gate.until()), (false, true, Some(Tick(100))));
        gate.expire(Tick(99));
        assert!(!gate.allows(6));
        gate.expire(Tick(100));
        assert!(gate.allows(6));
    }

    #[test]
    fn back_off_grows_until_starts_succeed_for_a_while() {
        let (mut gate, mut now) = (StartGate::new(), Tick(0));
        for delay_ms in [100, 200, 400] {
            assert_eq!(gate.failed(now, 6), Some(Duration::from_millis(delay_ms)));
            now = now.after(delay_ms + 10_000 - 1);
            gate.expire(now);
        }
        now = now.after(1);
        assert_eq!(gate.failed(now, 6), Some(Duration::from_millis(100)));
    }
}
