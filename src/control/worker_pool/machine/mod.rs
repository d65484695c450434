//! Decides what the master of a worker pool does. Plain data: no clock, descriptor, process or socket.
//!
//! ```text
//! active ── shutdown ordered ──▶ no worker is left ──▶ ending the aux process ──▶ exited
//!   │              └─ the grace period is over ─▶ overdue: workers are killed ─▲        ▲
//!   └── the supervisor has gone, or a listener is unusable ──▶ killing all processes ───┘
//! ```
//!
//! An event leads to actions, and the driver answers some actions with events: see [`PoolEvent`]. A start that fails is an event like any
//! other: the pool tries again after a back-off, and the processes that run go on serving.

mod admission;
mod ending;
mod free_slots;
mod orders;
mod pending_sites;
mod processes;
mod shutdown;
mod slots;
mod start_gate;

#[cfg(test)]
pub(super) use admission::{REFUSED_COUNT_MAX, REFUSED_TIME};
#[cfg(test)]
pub(super) use ending::{AUX_TIME_MAX, KILL_TIME_MAX};
#[cfg(test)]
pub(super) use shutdown::OVERDUE;

use super::vocabulary::{ArrivalId, ClientId, PoolAction, PoolEvent, PoolNotice, PoolReport};
use crate::{
    base::log_config::LogOwner,
    control::process::{ProcessSlot, ProcessTable},
};
use admission::Admission;
use pending_sites::PendingSites;
use shutdown::PoolShutdown;
use slots::WorkerSlots;
use tarpon_conn::Tick;

/// What a worker pool consists of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolConfig {
    /// The engine is `fork`: each client has a worker of its own.
    pub(crate) forks: bool,
    /// The largest number of workers.
    pub(crate) slot_count: usize,
    /// The number of sites.
    pub(crate) site_count: usize,
    /// The aux process writes a log.
    pub(crate) has_log: bool,
}

/// The state of the master.
#[derive(Debug)]
pub(crate) struct WorkerPool {
    config: PoolConfig,
    processes: ProcessTable<PoolRole>,
    aux: ProcessSlot,
    workers: WorkerSlots,
    admission: Admission,
    sites: PendingSites,
    /// All sites have arrived: workers may start.
    is_serving: bool,
    /// The supervisor knows that the pool serves.
    is_reported: bool,
    /// The descriptor of each log: an aux process that starts later gets it too.
    logs: Vec<(LogOwner, ArrivalId)>,
    shutdown: Option<PoolShutdown>,
    stage: PoolStage,
    /// The time of the last event.
    now: Tick,
}

/// What a process of the pool is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PoolRole {
    Aux,
    /// The worker of this slot.
    Worker(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PoolStage {
    /// Starts, serves, or finishes connections after an order to shut down.
    Active,
    /// The workers were killed. The pool goes on at this time even if one is left.
    Overdue(Tick),
    /// The aux process writes the log records that the workers have left, until this time.
    EndingAux(Tick),
    /// All processes were killed. The pool exits with this status at this time even if one is left.
    Killing(Tick, i32),
    Exited,
}

impl WorkerPool {
    /// Returns a pool that has started nothing. Its first deadline has passed already.
    pub(crate) fn new(config: PoolConfig) -> WorkerPool {
        let mut aux = ProcessSlot::default();
        aux.schedule(Tick(0));
        WorkerPool {
            config,
            processes: ProcessTable::default(),
            aux,
            workers: WorkerSlots::new(config.slot_count),
            admission: Admission::default(),
            sites: PendingSites::new(config.site_count),
            is_serving: false,
            is_reported: false,
            logs: Vec::new(),
            shutdown: None,
            stage: PoolStage::Active,
            now: Tick(0),
        }
    }

    /// Handles an event. Appends what the driver is to do.
    pub(crate) fn handle(&mut self, now: Tick, event: PoolEvent, actions: &mut Vec<PoolAction>) {
        if self.stage == PoolStage::Exited {
            return;
        }
        self.now = now;
        self.workers.gate.expire(now);
        self.admission.expire(now, actions);
        self.update_admission();
        match event {
            PoolEvent::SiteArrived { site, version, is_earlier } => {
                self.add_site(site, version, is_earlier, actions);
            }
            PoolEvent::SiteUnusable { site, is_earlier, rejection } => {
                self.reject_site(site, is_earlier, rejection, actions);
            }
            PoolEvent::LogArrived { of, log } => self.set_log(of, log, actions),
            PoolEvent::LogLost { of, why } => {
                actions.push(PoolAction::Emit(PoolNotice::LogNotReopened { why }));
                // The supervisor sends another descriptor.
                actions.push(PoolAction::Report(PoolReport::LogBroken { of }));
            }
            PoolEvent::ShutdownOrdered { mode, grace } => self.shut_down(mode, grace, actions),
            PoolEvent::SupervisorGone { why } | PoolEvent::ListenerFailed { error: why } => {
                self.abort(why, actions);
            }
            PoolEvent::Started(process) => self.started(process, actions),
            PoolEvent::StartFailed { process, error } => self.start_failed(process, error, actions),
            PoolEvent::Exited { process, exit } => self.exited(process, exit, actions),
            PoolEvent::LogBroken { of } => actions.push(PoolAction::Report(PoolReport::LogBroken { of })),
            PoolEvent::AdminRequested { request } => {
                actions.push(PoolAction::Report(PoolReport::AdminRequest { request }));
            }
            PoolEvent::ClientWaits => {
                self.admission.client_waits();
                self.accept(actions);
            }
            PoolEvent::ClientAccepted(client) => self.admit(client, actions),
            PoolEvent::BacklogEmpty => self.admission.backlog_empty(actions),
            PoolEvent::AcceptFailed { error } => {
                self.worker_start_failed(error, actions);
                self.admission.back_off(self.workers.gate.until().unwrap_or(now));
            }
            PoolEvent::Timer if self.admission.is_closing() => self.accept(actions),
            PoolEvent::Timer => {}
        }
        self.update_admission();
        self.start_processes(actions);
        self.report_serving(actions);
        self.update_idle_flag(actions);
        while self.advance(actions) {}
    }

    /// Returns when [`Timer`](PoolEvent::Timer) is due.
    pub(crate) fn deadline(&self) -> Option<Tick> {
        let aux = self.aux.due();
        let stage = match self.stage {
            PoolStage::Active => self.shutdown.map(PoolShutdown::deadline),
            PoolStage::Overdue(at) | PoolStage::EndingAux(at) | PoolStage::Killing(at, _) => Some(at),
            PoolStage::Exited => return None,
        };
        let workers = self.workers.deadline().filter(|_| self.is_active());
        [aux, stage, workers, self.admission.deadline(self.now)].into_iter().flatten().min()
    }

    /// Returns whether the pool starts, serves, or finishes connections after an order to shut down: workers may start.
    fn is_active(&self) -> bool {
        self.stage == PoolStage::Active
    }

    /// Returns whether the driver reports waiting clients.
    pub(crate) fn polls_listeners(&self, now: Tick) -> bool {
        self.admission.accepts(now)
    }

    /// Accepts a client, if one can be served or refused.
    fn accept(&self, actions: &mut Vec<PoolAction>) {
        if self.admission.accepts(self.now) {
            actions.push(PoolAction::Accept { for_worker: self.workers.can_take_client() });
        }
    }

    /// Starts a worker for an accepted client, or refuses the client.
    fn admit(&mut self, client: ClientId, actions: &mut Vec<PoolAction>) {
        if !self.is_active() {
            actions.push(PoolAction::Close { client });
            return;
        }
        match self.workers.take_for_client() {
            Some(slot) => self.start_worker(slot, Some(client), actions),
            None => self.admission.refuse(client, self.now, actions),
        }
    }

    /// Reports to the supervisor that the pool serves: with `fork`, clients are accepted; with `prefork`, the workers run.
    fn report_serving(&mut self, actions: &mut Vec<PoolAction>) {
        let is_shutting_down = !self.is_active() || self.shutdown.is_some();
        if self.is_serving && !self.is_reported && !is_shutting_down {
            self.is_reported = self.config.forks || self.workers.is_settled(self.now);
            actions.extend(self.is_reported.then_some(PoolAction::Report(PoolReport::Serving)));
        }
    }

    fn update_admission(&mut self) {
        self.admission.update(self.now, !self.workers.can_take_client());
    }

    fn update_idle_flag(&mut self, actions: &mut Vec<PoolAction>) {
        let (cleared, set) = self.workers.update_idle_flag();
        // Set first, so that a worker always finds one.
        actions.extend(set.map(|slot| PoolAction::SetIdle { slot, is_idle: true }));
        actions.extend(cleared.map(|slot| PoolAction::SetIdle { slot, is_idle: false }));
    }
}
