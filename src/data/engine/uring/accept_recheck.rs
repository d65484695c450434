//! Looks at the accept queues again, several times after the start.
//!
//! The kernel wakes one process for each new client. The rings of a killed server wait at the listeners until the kernel has freed them in
//! the background. If the kernel wakes such a ring, the client stays in the accept queue, and the workers of the next server notice it only
//! when another client connects. An accept that starts takes from the queue first, so starting the accepts anew finds such a client.
//!
//! Each wait is twice as long as the one before it. A client thus waits at most as long again as the rings took.

use tarpon_conn::Tick;

/// The first wait in milliseconds.
const FIRST_MS: u64 = 16;
/// The last wait in milliseconds: a busy kernel has freed the rings by then.
const LAST_MS: u64 = 16_384;

/// The times at which a worker starts its accepts anew.
pub(super) struct AcceptRecheck {
    /// `None`: no more.
    due: Option<Tick>,
    wait_ms: u64,
}

impl AcceptRecheck {
    /// Returns the times of a worker that starts now.
    pub(super) fn new(now: Tick) -> AcceptRecheck {
        AcceptRecheck { due: Some(now.after(FIRST_MS)), wait_ms: FIRST_MS }
    }

    /// Returns the milliseconds until the next time.
    #[inline]
    pub(super) fn wait_ms(&self, now: Tick) -> Option<u64> {
        self.due.map(|due| due.0.saturating_sub(now.0))
    }

    /// Returns whether a time has come. The next one follows.
    #[inline]
    pub(super) fn take_due(&mut self, now: Tick) -> bool {
        let is_due = self.due.is_some_and(|due| due <= now);
        if is_due {
            self.wait_ms *= 2;
            self.due = (self.wait_ms <= LAST_MS).then(|| now.after(self.wait_ms));
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_and_end() {
        let mut recheck = AcceptRecheck::new(Tick(1_000));
        let (mut now, mut waits) = (Tick(1_000), Vec::new());
        while let Some(wait_ms) = recheck.wait_ms(now) {
            assert!(!recheck.take_due(now));
            waits.push(wait_ms);
            now = now.after(wait_ms);
            assert!(recheck.take_due(now));
        }
        assert_eq!(waits, [16, 32, 64, 128, 256, 512, 1_024, 2_048, 4_096, 8_192, 16_384]);
        assert!(!recheck.take_due(now.after(100_000)));
    }
}
