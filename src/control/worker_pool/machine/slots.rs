//! The slots of the workers: a worker's rows in the shared memory, which the next process in the slot inherits. Plain data.
//!
//! ```text
//! prefork   due at … ──▶ starting ──▶ running ── exited ──▶ due after a back-off
//! fork      free ── a client ──▶ starting ──▶ running ── exited ──▶ free
//! ```
//!
//! No operation scans all slots, as with `fork` each connection takes one and frees it.

use super::{free_slots::FreeSlots, start_gate::StartGate};
use crate::control::{
    process::{ProcessId, ProcessSlot},
    worker_pool::vocabulary::ClientId,
};
use std::{collections::BTreeSet, time::Duration};
use tarpon_conn::Tick;

/// The slots of all workers.
#[derive(Debug)]
pub(super) struct WorkerSlots {
    slots: Vec<WorkerSlot>,
    /// With `prefork`: the slots whose process is due, by time.
    due: BTreeSet<(Tick, usize)>,
    /// With `fork`: the slots without a process.
    free: FreeSlots,
    /// The processes that start or run.
    process_count: usize,
    /// The processes that start.
    starting_count: usize,
    pub(super) gate: StartGate,
    /// With `fork`: the slot whose idle flag is set.
    marked: Option<usize>,
}

/// The slot of a worker.
#[derive(Debug, Default)]
struct WorkerSlot {
    process: ProcessSlot,
    /// The client for which the process starts.
    client: Option<ClientId>,
}

impl WorkerSlots {
    /// Returns this many slots without processes.
    pub(super) fn new(count: usize) -> WorkerSlots {
        WorkerSlots {
            slots: (0..count).map(|_| WorkerSlot::default()).collect(),
            due: BTreeSet::new(),
            free: FreeSlots::default(),
            process_count: 0,
            starting_count: 0,
            gate: StartGate::new(),
            marked: None,
        }
    }

    /// Schedules a process in each slot.
    pub(super) fn schedule_all(&mut self, now: Tick) {
        for number in 0..self.slots.len() {
            self.slots[number].process.schedule(now);
            self.update_due(number);
        }
    }

    /// Cancels all scheduled processes.
    pub(super) fn cancel_all(&mut self) {
        for (_, number) in std::mem::take(&mut self.due) {
            self.slots[number].process.cancel();
        }
    }

    /// Frees all slots for clients.
    pub(super) fn free_all(&mut self) {
        self.free = FreeSlots::all(self.slots.len());
    }

    /// Returns whether a worker for a client can start now.
    pub(super) fn can_take_client(&self) -> bool {
        !self.free.is_empty() && self.gate.allows(self.process_count)
    }

    /// Takes the slot for the next client, if a worker can start now.
    pub(super) fn take_for_client(&mut self) -> Option<usize> {
        if self.can_take_client() { self.free.pop_first() } else { None }
    }

    /// Takes the slot whose process is due now, if a worker can start now. One starts at a time: if it fails, the others wait too.
    pub(super) fn take_due(&mut self, now: Tick) -> Option<usize> {
        let &(at, number) = self.due.first()?;
        let can_start = at <= now && self.starting_count == 0 && self.gate.allows(self.process_count);
        can_start.then(|| self.due.pop_first()).map(|_| number)
    }

    /// Returns when a process may be due to start: of a slot, or after a back-off for a client.
    pub(super) fn deadline(&self) -> Option<Tick> {
        let due = self.due.first().map(|&(at, _)| at);
        match self.gate.allows(self.process_count) {
            true => due,
            false => due.max(self.gate.until()),
        }
    }

    /// Notes that the driver was asked to start a process in a slot.
    pub(super) fn begin(&mut self, number: usize, process: ProcessId, client: Option<ClientId>) {
        self.slots[number].process.begin(process);
        self.slots[number].client = client;
        self.process_count += 1;
        self.starting_count += 1;
    }

    /// Notes that the process of a slot runs.
    pub(super) fn started(&mut self, number: usize, now: Tick) {
        self.slots[number].process.started(now);
        self.slots[number].client = None;
        self.starting_count -= 1;
    }

    /// Notes that the process of a slot could not start. Returns the client that it was to serve.
    pub(super) fn start_failed(&mut self, number: usize, now: Tick, schedule: bool) -> Option<ClientId> {
        let slot = &mut self.slots[number];
        // The gate delays the next attempt.
        slot.process.exited(now);
        let client = slot.client.take();
        self.process_count -= 1;
        self.starting_count -= 1;
        if schedule {
            slot.process.schedule(now);
            self.update_due(number);
        }
        client
    }

    /// Notes that the process of a slot has exited. Returns how long it lived.
    pub(super) fn exited(&mut self, number: usize, now: Tick) -> Duration {
        self.process_count -= 1;
        self.slots[number].process.exited(now)
    }

    /// Schedules a replacement for a process that lived this long. Returns the delay.
    pub(super) fn restart(&mut self, number: usize, now: Tick, lived: Duration) -> Duration {
        let delay = self.slots[number].process.restart(now, lived);
        self.update_due(number);
        delay
    }

    /// Frees a slot for a client.
    pub(super) fn free(&mut self, number: usize) {
        self.free.insert(number);
    }

    /// Returns how many processes start or run.
    pub(super) fn process_count(&self) -> usize {
        self.process_count
    }

    /// Returns whether at least one process runs, and no other one is about to start.
    pub(super) fn is_settled(&self, now: Tick) -> bool {
        let can_start =
            self.gate.allows(self.process_count) && self.due.first().is_some_and(|&(at, _)| at <= now);
        self.process_count > 0 && self.starting_count == 0 && !can_start
    }

    /// Returns the processes that run.
    pub(super) fn running(&self) -> impl Iterator<Item = ProcessId> {
        self.slots.iter().filter_map(|slot| slot.process.running())
    }

    /// Returns the changes of idle flags: the slots to clear and to set. With `fork` one flag stands for all free slots, as a worker asks
    /// only whether any is set. It is that of the last one: slots are taken from the front, so it seldom changes.
    pub(super) fn update_idle_flag(&mut self) -> (Option<usize>, Option<usize>) {
        let can_take = self.can_take_client();
        if self.marked.is_some_and(|marked| can_take && self.free.contains(marked)) {
            return (None, None);
        }
        let wanted = if can_take { self.free.last() } else { None };
        (std::mem::replace(&mut self.marked, wanted), wanted)
    }

    fn update_due(&mut self, number: usize) {
        if let Some(at) = self.slots[number].process.due() {
            self.due.insert((at, number));
        }
    }
}
