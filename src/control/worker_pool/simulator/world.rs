//! The world of a simulated pool: its processes, its clients, and the shortages of its system.

use super::SimPool;
use crate::{
    base::log_config::LogOwner,
    control::{
        admin::Order,
        process::{ProcessExit, ProcessId},
        worker_pool::{
            machine::PoolConfig,
            vocabulary::{ArrivalId, ClientId, PoolEvent},
        },
    },
    data::worker::mailbox::ShutdownMode,
};
use std::collections::{BTreeMap, BTreeSet};
use tarpon_conn::Tick;

/// The state of the world.
#[derive(Debug)]
pub(super) struct PoolWorld {
    events: BTreeMap<(Tick, u64), WorldEvent>,
    last_event: u64,
    pub(super) processes: BTreeMap<ProcessId, SimProcess>,
    /// The last process that was started: an identity is never used twice.
    pub(super) last_process: Option<ProcessId>,
    /// Clients that wait in the backlog.
    pub(super) backlog: usize,
    pub(super) are_listeners_open: bool,
    /// Accepted clients whose connection the master holds.
    pub(super) clients: BTreeMap<ClientId, SimClient>,
    /// No process can be forked.
    pub(super) is_short_of_processes: bool,
    /// No descriptor can be opened.
    pub(super) is_short_of_descriptors: bool,
    is_calm: bool,
    /// By the number of the site: the version that new workers serve.
    pub(super) current: Option<Vec<u64>>,
    /// By the number of the worker.
    pub(super) idle: Vec<bool>,
    /// Workers that exited without correcting the shared memory.
    pub(super) unrepaired: BTreeSet<usize>,
    /// The pool has announced the next start of a worker for this time at the latest.
    pub(super) worker_by: Tick,
    /// The pool has announced the next start of the aux process for this time.
    pub(super) aux_by: Tick,
    /// The last time when a client left the backlog, or a slot became free.
    pub(super) last_progress: Tick,
    /// The end of the last back-off after a worker that could not start.
    pub(super) backoff_end: Tick,
    /// The number of workers that ran when a start failed: during the back-off no more run.
    pub(super) worker_max: usize,
}

/// Something that happens by itself.
#[derive(Clone, Copy, Debug)]
pub(super) enum WorldEvent {
    ClientArrives,
    /// A client gives up while it waits in the backlog.
    ClientLeaves,
    ShortageChanges,
    Exits(ProcessId, ProcessExit),
    AuxReports(ProcessId),
}

/// A process that was not reaped.
#[derive(Clone, Debug, Default)]
pub(super) struct SimProcess {
    /// `None`: the aux process.
    pub(super) slot: Option<usize>,
    pub(super) is_killed: bool,
    pub(super) has_end_of_messages: bool,
    /// By the number of the site: the version that a worker serves.
    pub(super) versions: Vec<u64>,
    /// The sites whose counts an aux process has.
    pub(super) counts: BTreeSet<usize>,
    pub(super) logs: Vec<(LogOwner, ArrivalId)>,
    pub(super) shutdown: Option<ShutdownMode>,
}

/// An accepted client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SimClient {
    /// Neither served nor refused.
    Held,
    /// Refused at this time.
    Refused(Tick),
}

impl PoolWorld {
    pub(super) fn new(config: PoolConfig) -> PoolWorld {
        PoolWorld {
            events: BTreeMap::new(),
            last_event: 0,
            processes: BTreeMap::new(),
            last_process: None,
            backlog: 0,
            are_listeners_open: true,
            clients: BTreeMap::new(),
            is_short_of_processes: false,
            is_short_of_descriptors: false,
            is_calm: false,
            current: None,
            idle: vec![false; config.slot_count],
            unrepaired: BTreeSet::new(),
            worker_by: Tick(0),
            aux_by: Tick(0),
            last_progress: Tick(0),
            backoff_end: Tick(0),
            worker_max: 0,
        }
    }

    pub(super) fn schedule(&mut self, at: Tick, event: WorldEvent) {
        self.last_event += 1;
        self.events.insert((at, self.last_event), event);
    }

    pub(super) fn deadline(&self) -> Option<Tick> {
        self.events.first_key_value().map(|(&(at, _), _)| at)
    }

    pub(super) fn take_due(&mut self, now: Tick) -> Option<WorldEvent> {
        self.deadline().filter(|at| *at <= now).and_then(|_| self.events.pop_first()).map(|(_, event)| event)
    }

    pub(super) fn calm(&mut self) {
        self.is_calm = true;
        self.is_short_of_processes = false;
        self.is_short_of_descriptors = false;
        self.events.retain(|_, event| !matches!(event, WorldEvent::Exits(_, exit) if *exit == CRASH));
    }

    pub(super) fn workers(&self) -> impl Iterator<Item = (usize, &SimProcess)> {
        self.processes.values().filter_map(|process| Some((process.slot?, process)))
    }

    pub(super) fn aux(&self) -> Option<&SimProcess> {
        self.processes.values().find(|process| process.slot.is_none())
    }
}

impl SimPool {
    /// Lets an event of the world happen.
    pub(super) fn world_event(&mut self, event: WorldEvent) {
        match event {
            WorldEvent::ClientArrives => {
                if self.config.pool.forks && self.world.are_listeners_open {
                    let count = if self.random.percent(2) { 100 } else { 1 };
                    if self.world.backlog == 0 {
                        self.world.last_progress = self.now;
                    }
                    self.world.backlog = (self.world.backlog + count).min(BACKLOG_MAX);
                    if self.random.percent(10) {
                        self.schedule(3_000, WorldEvent::ClientLeaves);
                    }
                }
                self.schedule(self.config.client_interval_ms, event);
            }
            WorldEvent::ClientLeaves => self.world.backlog = self.world.backlog.saturating_sub(1),
            WorldEvent::ShortageChanges => {
                if !self.world.is_calm {
                    self.world.is_short_of_processes = self.random.percent(40);
                    self.world.is_short_of_descriptors = self.random.percent(20);
                    self.schedule(self.config.shortage_interval_ms, event);
                }
            }
            WorldEvent::Exits(process, exit) => self.exits(process, exit),
            WorldEvent::AuxReports(process) => {
                if self.world.processes.contains_key(&process) {
                    let event = match self.random.percent(50) {
                        true => PoolEvent::LogBroken { of: LogOwner::Server },
                        false => PoolEvent::AdminRequested {
                            request: self.keep(super::ArrivalKind::Request(Order::Reload)),
                        },
                    };
                    self.feed(event);
                    self.schedule(20_000, WorldEvent::AuxReports(process));
                }
            }
        }
    }

    /// Lets a process exit. It may have exited before for another reason.
    fn exits(&mut self, id: ProcessId, exit: ProcessExit) {
        let Some(process) = self.world.processes.remove(&id) else { return };
        if let Some(slot) = process.slot {
            self.world.idle[slot] = self.world.idle[slot] && !exit.is_success();
            self.world.last_progress = self.now;
            if !exit.is_success() {
                self.world.unrepaired.insert(slot);
            }
        }
        self.feed(PoolEvent::Exited { process: id, exit });
    }
}

/// How a process ends that crashes.
pub(super) const CRASH: ProcessExit = ProcessExit::Signal(11);

/// Clients that the kernel lets wait, at most.
const BACKLOG_MAX: usize = 1_000;
