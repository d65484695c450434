//! A place for a process: whether one runs, and when the next one starts. Plain data.
//!
//! ```text
//!            schedule                begin              started
//! empty ───────────────▶ due at … ─────────▶ starting ─────────▶ running
//!   ▲                        ▲                  │ start_failed     │ exited
//!   │                        └──── back-off ◀───┘                  │
//!   └──────────────────────────────────────────────────────────────┘   restart: due after the back-off
//! ```

use super::{Backoff, ProcessId, clock};
use std::time::Duration;
use tarpon_conn::Tick;

/// A place for a process.
#[derive(Debug, Default)]
pub(crate) struct ProcessSlot {
    state: SlotState,
    backoff: Backoff,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum SlotState {
    #[default]
    Empty,
    /// A process starts at this time.
    Due(Tick),
    /// The driver has been asked to start this process, and has not answered.
    Starting(ProcessId),
    /// The process runs, since this time.
    Running(ProcessId, Tick),
}

impl ProcessSlot {
    /// Returns the process that starts or runs.
    pub(crate) fn process(&self) -> Option<ProcessId> {
        match self.state {
            SlotState::Starting(id) | SlotState::Running(id, _) => Some(id),
            SlotState::Empty | SlotState::Due(_) => None,
        }
    }

    /// Returns the process that runs: a message reaches it.
    pub(crate) fn running(&self) -> Option<ProcessId> {
        match self.state {
            SlotState::Running(id, _) => Some(id),
            _ => None,
        }
    }

    /// Returns when a process is due to start.
    pub(crate) fn due(&self) -> Option<Tick> {
        match self.state {
            SlotState::Due(at) => Some(at),
            _ => None,
        }
    }

    /// Returns whether a process is due to start now.
    pub(crate) fn is_due(&self, now: Tick) -> bool {
        self.due().is_some_and(|at| at <= now)
    }

    /// Schedules a process. No effect if one starts or runs.
    pub(crate) fn schedule(&mut self, at: Tick) {
        if self.process().is_none() {
            self.state = SlotState::Due(at);
        }
    }

    /// Cancels a scheduled process. No effect if one starts or runs.
    pub(crate) fn cancel(&mut self) {
        if self.process().is_none() {
            self.state = SlotState::Empty;
        }
    }

    /// Notes that the driver was asked to start this process.
    pub(crate) fn begin(&mut self, id: ProcessId) {
        self.state = SlotState::Starting(id);
    }

    /// Notes that the process runs.
    pub(crate) fn started(&mut self, now: Tick) {
        if let SlotState::Starting(id) = self.state {
            self.state = SlotState::Running(id, now);
        }
    }

    /// Notes that the process could not be started, and schedules another attempt. Returns the delay until then.
    pub(crate) fn start_failed(&mut self, now: Tick) -> Duration {
        let delay = self.backoff.after_failure();
        self.state = SlotState::Due(clock::after(now, delay));
        delay
    }

    /// Notes that the process was reaped. Returns how long it lived. The slot is empty then.
    pub(crate) fn exited(&mut self, now: Tick) -> Duration {
        let since = match self.state {
            SlotState::Running(_, since) => since,
            _ => now,
        };
        self.state = SlotState::Empty;
        clock::between(since, now)
    }

    /// Schedules a replacement for a process that lived this long. Returns the delay until it starts.
    pub(crate) fn restart(&mut self, now: Tick, lived: Duration) -> Duration {
        let delay = self.backoff.after_exit(lived);
        self.schedule(clock::after(now, delay));
        delay
    }
}

#[cfg(test)]
mod tests {
    use super::{super::ProcessTable, *};

    #[test]
    fn slot_follows_a_process_from_its_start_to_its_replacement() {
        let mut table = ProcessTable::default();
        let mut slot = ProcessSlot::default();
        assert_eq!((slot.process(), slot.due()), (None, None));
        slot.schedule(Tick(5));
        assert!(!slot.is_due(Tick(4)) && slot.is_due(Tick(5)));
        let first = table.add(());
        slot.begin(first);
        assert_eq!((slot.process(), slot.running(), slot.due()), (Some(first), None, None));
        assert_eq!(slot.start_failed(Tick(5)), Duration::from_millis(100));
        assert_eq!((table.remove(first), slot.process(), slot.due()), (Some(()), None, Some(Tick(105))));
        let second = table.add(());
        assert_ne!(first, second, "an identity is never used twice");
        slot.begin(second);
        slot.started(Tick(106));
        slot.schedule(Tick(107));
        assert_eq!((slot.running(), slot.due()), (Some(second), None));
        assert_eq!(slot.exited(Tick(20_106)), Duration::from_secs(20));
        assert_eq!((slot.process(), slot.due()), (None, None));
        assert_eq!(slot.restart(Tick(20_106), Duration::from_secs(20)), Duration::ZERO);
        assert!(slot.is_due(Tick(20_106)));
        slot.cancel();
        assert_eq!(slot.due(), None);
    }
}
