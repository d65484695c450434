//! What holds whenever the master waits.

use super::{
    ArrivalKind, SimPool,
    world::{SimClient, SimProcess},
};
use crate::control::worker_pool::machine::{REFUSED_COUNT_MAX, REFUSED_TIME};
use tarpon_conn::Tick;

/// The time until a waiting client is refused, if the pool makes no progress.
const STALL_MS: u64 = 2_000;

impl SimPool {
    /// Checks all invariants.
    pub(super) fn check(&self) {
        let deadline = self.machine.deadline();
        assert!(deadline.is_none_or(|at| at > self.now), "the timer was handled");
        if let Some(by) = self.expected.exit_by {
            assert!(self.now < by, "the pool has not exited: {:?}", self.machine);
            assert!(deadline.is_some_and(|at| at <= by), "the pool does not end by itself");
        }
        self.check_clients();
        self.check_processes();
        self.check_idle_flags();
        self.check_arrivals();
        if self.expected.exit_by.is_none() {
            self.check_service();
        }
    }

    /// Every accepted client is served or refused at once, and closed soon after a refusal.
    fn check_clients(&self) {
        let clients = &self.world.clients;
        assert!(clients.len() <= REFUSED_COUNT_MAX, "{} refused clients", clients.len());
        for (client, state) in clients {
            let SimClient::Refused(at) = *state else { panic!("{client:?} is neither served nor refused") };
            assert!(self.now < at.after(REFUSED_TIME.as_millis() as u64), "{client:?} stays open");
        }
    }

    /// Each process has what was sent to all.
    fn check_processes(&self) {
        assert!(self.world.workers().count() <= self.config.pool.slot_count);
        for process in self.world.processes.values().filter(|process| !process.is_killed) {
            let is_ending = process.slot.is_none() && process.has_end_of_messages;
            if !is_ending {
                self.check_process(process);
            }
        }
        assert!(
            self.world.unrepaired.is_empty(),
            "the shared memory of {:?} is corrected",
            self.world.unrepaired
        );
    }

    fn check_process(&self, process: &SimProcess) {
        match process.slot {
            Some(slot) => {
                assert_eq!(Some(&process.versions), self.world.current.as_ref(), "the worker in slot {slot}");
                assert_eq!(process.shutdown, self.expected.shutdown, "the worker in slot {slot}");
            }
            None => {
                let site_count = self.world.current.as_ref().map_or(0, Vec::len);
                assert_eq!(process.counts.len(), site_count, "the aux process has the counts");
                assert_eq!(process.shutdown.is_some(), self.expected.shutdown.is_some());
                let sorted = |logs: &[_]| {
                    let mut logs: Vec<_> = logs.iter().map(|(_, log)| *log).collect();
                    logs.sort();
                    logs
                };
                assert_eq!(
                    sorted(&process.logs),
                    sorted(&self.expected.logs),
                    "the aux process has the logs"
                );
            }
        }
    }

    /// A flag is set only for a worker that can take a client.
    fn check_idle_flags(&self) {
        let workers: Vec<_> = self.world.workers().map(|(slot, _)| slot).collect();
        for (slot, _) in self.world.idle.iter().enumerate().filter(|(_, is_idle)| **is_idle) {
            let is_running = workers.contains(&slot);
            assert_eq!(is_running, !self.config.pool.forks, "slot {slot} counts as idle");
        }
    }

    /// No descriptor leaks.
    fn check_arrivals(&self) {
        let is_log = |kind: &&ArrivalKind| **kind == ArrivalKind::Log;
        let log_count = self.arrivals.values().filter(is_log).count();
        assert_eq!(log_count, self.expected.logs.len());
        if self.world.current.is_some() || self.expected.exit_by.is_some() {
            let is_bounded = self.arrivals.len() == log_count || self.expected.is_aborted;
            assert!(is_bounded, "the pool holds {:?}", self.arrivals);
        }
    }

    /// The pool serves, and starts what is missing, at the time that it has announced.
    fn check_service(&self) {
        let world = &self.world;
        self.check_due("an aux process", world.aux().is_none(), world.aux_by);
        if let Some(current) = &world.current {
            let wanted: Vec<_> = self.expected.versions.iter().copied().flatten().collect();
            assert_eq!(*current, wanted, "the latest versions are served");
        }
        let is_serving = world.current.is_some();
        let (count, slot_count) = (world.workers().count(), self.config.pool.slot_count);
        let by = world.worker_by;
        if self.config.pool.forks {
            assert_eq!(self.expected.is_reported, is_serving);
            let waits = is_serving && world.backlog > 0;
            self.check_due("a worker", waits && count < slot_count, by);
            let refusal = world.last_progress.max(world.worker_by).after(STALL_MS);
            self.check_due("a refusal", waits, refusal);
            let is_any_idle = world.idle.contains(&true);
            let is_calm = by <= self.now;
            assert!(!is_serving || !is_calm || is_any_idle == (count < slot_count), "a free slot is shown");
        } else {
            self.check_due("a worker", is_serving && count < slot_count, by);
            assert!(
                !is_serving || self.expected.is_reported || by > self.now,
                "the pool reports that it serves"
            );
        }
    }

    /// Checks that what is missing comes before this time.
    fn check_due(&self, what: &str, is_missing: bool, by: Tick) {
        if is_missing {
            assert!(self.now < by, "{what} is missing: {:?}", self.machine);
            assert!(
                self.machine.deadline().is_some_and(|at| at <= by),
                "{what} never comes: {:?}",
                self.machine
            );
        }
    }

    /// Checks that the pool serves after the longest back-off without faults.
    pub(crate) fn check_recovered(&mut self, now: Tick) {
        self.wake(now);
        let (count, slot_count) = (self.world.workers().count(), self.config.pool.slot_count);
        if self.expected.exit_by.is_none() && self.world.current.is_some() {
            assert!(self.expected.is_reported && self.world.aux().is_some());
            match self.config.pool.forks {
                true => assert!(self.world.backlog == 0 || count == slot_count),
                false => assert_eq!(count, slot_count),
            }
        }
    }
}
