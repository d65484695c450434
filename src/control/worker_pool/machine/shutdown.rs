//! The orders to shut a pool down, merged: the stricter mode and the earlier end win, in whatever order they arrive. Plain data.

use crate::{
    control::{process::clock, worker_pool::vocabulary::PoolMessage},
    data::worker::mailbox::ShutdownMode,
};
use std::time::Duration;
use tarpon_conn::Tick;

/// A shutdown under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PoolShutdown {
    pub(super) mode: ShutdownMode,
    /// The end of the grace period.
    end: Tick,
}

/// How much longer than the grace period a worker may take to exit.
pub(in crate::control::worker_pool) const OVERDUE: Duration = Duration::from_secs(2);

impl PoolShutdown {
    /// Returns the shutdown that an order starts, or that it makes of the one under way.
    pub(super) fn merge(
        before: Option<PoolShutdown>,
        now: Tick,
        mode: ShutdownMode,
        grace: Duration,
    ) -> PoolShutdown {
        let ordered = PoolShutdown { mode, end: clock::after(now, grace) };
        before.map_or(ordered, |before| PoolShutdown {
            mode: before.mode.max(mode),
            end: before.end.min(ordered.end),
        })
    }

    /// Returns the message for a process that learns of the shutdown now.
    pub(super) fn message(self, now: Tick) -> PoolMessage {
        PoolMessage::Shutdown { mode: self.mode, grace: clock::between(now, self.end) }
    }

    /// Returns when the workers that are left are killed.
    pub(super) fn deadline(self) -> Tick {
        clock::after(self.end, OVERDUE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ShutdownMode::{Drain, Stop};

    #[test]
    fn stricter_mode_and_earlier_end_win() {
        #[rustfmt::skip]
        let cases = [
            // orders: at, mode, grace                    merged, at 1000
            (vec![(0, Drain, 5_000)],                     (Drain, 4_000)),
            (vec![(0, Drain, 5_000), (500, Stop, 9_000)], (Stop, 4_000)),
            (vec![(0, Stop, 5_000), (500, Drain, 9_000)], (Stop, 4_000)),
            (vec![(0, Stop, 9_000), (500, Drain, 1_000)], (Stop, 500)),
            (vec![(0, Stop, 9_000), (500, Stop, 0)],      (Stop, 0)),
        ];
        for (orders, (mode, grace_ms)) in cases {
            let merged = orders.iter().fold(None, |before, &(at, mode, grace_ms)| {
                Some(PoolShutdown::merge(before, Tick(at), mode, Duration::from_millis(grace_ms)))
            });
            let grace = Duration::from_millis(grace_ms);
            let want = PoolMessage::Shutdown { mode, grace };
            assert_eq!(merged.unwrap().message(Tick(1_000)), want, "{orders:?}");
        }
    }
}
