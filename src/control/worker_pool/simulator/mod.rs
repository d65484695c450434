//! Runs the machine of a worker pool in a world of random faults, with a clock of its own.
//!
//! ```text
//! scenario ── messages of the supervisor, time ──▶ SimPool ─┬─ PoolEvent ──▶ machine
//!    ▲                                                      └─ PoolAction ◀─────┘
//!    └──────── messages to the supervisor, exit                 │ performed in the world, checked by the invariants
//! ```
//!
//! | file | what |
//! |---|---|
//! | `world` | processes that run and die, clients that come and go, shortages |
//! | `perform` | performs actions in the world, and checks each |
//! | `invariants` | what holds whenever the master waits |
//! | `scenario` | random lives of a pool |

mod invariants;
mod perform;
mod scenario;
mod world;

use super::{
    machine::{AUX_TIME_MAX, KILL_TIME_MAX, OVERDUE, PoolConfig, WorkerPool},
    vocabulary::{ArrivalId, PoolAction, PoolEvent},
};
use crate::{
    base::log_config::LogOwner,
    control::process::{
        ProcessExit, clock,
        message::{FromServer, SiteRejection, ToServer},
        random::SimRandom,
    },
    data::worker::mailbox::ShutdownMode,
};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};
use tarpon_conn::Tick;
use world::{PoolWorld, WorldEvent};

/// A worker pool in a world of its own: a server process, to a supervisor.
pub(crate) struct SimPool {
    config: SimPoolConfig,
    machine: WorkerPool,
    queue: VecDeque<PoolAction>,
    world: PoolWorld,
    random: SimRandom,
    now: Tick,
    messages: Vec<FromServer>,
    /// Messages with descriptors that the machine has not released.
    arrivals: BTreeMap<ArrivalId, ArrivalKind>,
    last_number: u64,
    expected: Expected,
    exit: Option<ProcessExit>,
    /// What has happened.
    seen: BTreeSet<&'static str>,
}

/// What the world is like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SimPoolConfig {
    pub(crate) pool: PoolConfig,
    /// The longest time between two clients.
    pub(crate) client_interval_ms: u64,
    /// The longest time between two shortages of processes or descriptors.
    pub(crate) shortage_interval_ms: u64,
    /// How many of 100 workers crash.
    pub(crate) crash_percent: u64,
    /// How many of 100 messages with descriptors lose them.
    pub(crate) lost_percent: u64,
}

/// What a message with descriptors brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ArrivalKind {
    Version { site: usize, number: u64 },
    Log,
    Request(crate::control::admin::Order),
}

/// What the pool must do, as the messages to it demand.
#[derive(Debug, Default)]
struct Expected {
    /// By the number of the site: the last version that arrived.
    versions: Vec<Option<u64>>,
    /// The last log that arrived for each owner.
    logs: Vec<(LogOwner, ArrivalId)>,
    shutdown: Option<ShutdownMode>,
    /// The pool exits at this time at the latest.
    exit_by: Option<Tick>,
    /// The pool cannot go on, and exits with status 1.
    is_aborted: bool,
    /// The pool has reported that it serves.
    is_reported: bool,
}

impl SimPoolConfig {
    /// Returns a random configuration.
    pub(crate) fn random(random: &mut SimRandom) -> SimPoolConfig {
        let slot_count = if random.percent(10) { 80 } else { random.within(1..6) as usize };
        SimPoolConfig {
            pool: PoolConfig {
                forks: random.percent(65),
                slot_count,
                site_count: random.within(1..4) as usize,
                has_log: random.percent(70),
            },
            client_interval_ms: [20, 200, 3_000][random.within(0..3) as usize],
            shortage_interval_ms: [1_000, 10_000, 100_000][random.within(0..3) as usize],
            crash_percent: [0, 5, 50][random.within(0..3) as usize],
            lost_percent: [0, 0, 20][random.within(0..3) as usize],
        }
    }
}

impl SimPool {
    /// Starts a pool.
    pub(crate) fn new(now: Tick, random: SimRandom, config: SimPoolConfig) -> SimPool {
        let versions = vec![None; config.pool.site_count];
        let mut pool = SimPool {
            config,
            machine: WorkerPool::new(config.pool),
            queue: VecDeque::new(),
            world: PoolWorld::new(config.pool),
            random,
            now,
            messages: Vec::new(),
            arrivals: BTreeMap::new(),
            last_number: 0,
            expected: Expected { versions, ..Expected::default() },
            exit: None,
            seen: BTreeSet::new(),
        };
        pool.schedule(1, WorldEvent::ClientArrives);
        pool.schedule(config.shortage_interval_ms, WorldEvent::ShortageChanges);
        pool.wake(now);
        pool
    }

    /// Returns the versions that the pool serves, by the number of the site.
    pub(crate) fn versions(&self) -> &[u64] {
        self.world.current.as_deref().unwrap_or_default()
    }

    /// Receives a message of the supervisor.
    pub(crate) fn receive(&mut self, now: Tick, message: ToServer) {
        if self.exit.is_some() {
            return;
        }
        self.now = now;
        let is_lost = self.random.percent(self.config.lost_percent);
        let event = match message {
            ToServer::Site { site, transfer, is_earlier, .. } => {
                let is_serving = self.world.current.is_some();
                if is_lost {
                    let is_start = !is_earlier && !is_serving && self.expected.shutdown.is_none();
                    if is_start {
                        self.expect_abort();
                    }
                    let rejection = SiteRejection { why: "no room".to_owned(), is_shortage: true };
                    PoolEvent::SiteUnusable { site, is_earlier, rejection }
                } else {
                    let number = transfer.file_count;
                    if !is_earlier && self.expected.shutdown.is_none() {
                        self.expected.versions[site] = Some(number);
                    }
                    let version = self.keep(ArrivalKind::Version { site, number });
                    PoolEvent::SiteArrived { site, version, is_earlier }
                }
            }
            ToServer::Log { of } if !is_lost => {
                let log = self.keep(ArrivalKind::Log);
                self.expected.logs.retain(|(owner, _)| *owner != of);
                self.expected.logs.push((of, log));
                PoolEvent::LogArrived { of, log }
            }
            ToServer::Log { of } => PoolEvent::LogLost { of, why: "no room".to_owned() },
            ToServer::Shutdown { mode, grace } => self.shutdown(mode, grace),
        };
        self.feed(event);
        self.wake(now);
    }

    fn shutdown(&mut self, mode: ShutdownMode, grace: Duration) -> PoolEvent {
        self.expected.shutdown = self.expected.shutdown.max(Some(mode));
        self.expect_exit(grace + OVERDUE + KILL_TIME_MAX + AUX_TIME_MAX + KILL_TIME_MAX);
        PoolEvent::ShutdownOrdered { mode, grace }
    }

    fn expect_exit(&mut self, within: Duration) {
        let by = clock::after(self.now, within);
        self.expected.exit_by = Some(self.expected.exit_by.map_or(by, |before| before.min(by)));
    }

    fn expect_abort(&mut self) {
        self.expected.is_aborted = true;
        self.expect_exit(KILL_TIME_MAX);
    }

    /// Notes that the supervisor has exited.
    pub(crate) fn supervisor_gone(&mut self, now: Tick) {
        self.now = now;
        self.expect_abort();
        self.feed(PoolEvent::SupervisorGone { why: "the supervisor has exited".to_owned() });
        self.wake(now);
    }

    /// Kills the master, and with it all processes of the pool.
    pub(crate) fn kill(&mut self) {
        self.exit.get_or_insert(ProcessExit::Signal(9));
    }

    /// Ends all faults that have not begun.
    pub(crate) fn calm(&mut self) {
        self.config.crash_percent = 0;
        self.config.lost_percent = 0;
        self.world.calm();
    }

    /// Returns when [`wake`](SimPool::wake) is due.
    pub(crate) fn deadline(&self) -> Option<Tick> {
        if self.exit.is_some() {
            return None;
        }
        self.machine.deadline().into_iter().chain(self.world.deadline()).min()
    }

    /// Lets happen what is due.
    pub(crate) fn wake(&mut self, now: Tick) {
        self.now = now;
        for _ in 0..STEP_COUNT_MAX {
            if self.exit.is_some() {
                return;
            }
            // The order in which poll(2) is evaluated does not matter.
            let sources: [fn(&mut SimPool) -> bool; 3] = [Self::happen, Self::client_waits, Self::timer];
            let first = self.random.within(0..3) as usize;
            if !(0..3).any(|number| sources[(first + number) % 3](self)) {
                self.check();
                return;
            }
        }
        panic!("{now:?}: the pool spins: {:?}", self.machine);
    }

    fn happen(&mut self) -> bool {
        let Some(event) = self.world.take_due(self.now) else { return false };
        self.world_event(event);
        true
    }

    fn client_waits(&mut self) -> bool {
        let waits = self.world.backlog > 0 && self.machine.polls_listeners(self.now);
        if waits {
            self.feed(PoolEvent::ClientWaits);
        }
        waits
    }

    fn timer(&mut self) -> bool {
        let is_due = self.machine.deadline().is_some_and(|at| at <= self.now);
        if is_due {
            self.feed(PoolEvent::Timer);
        }
        is_due
    }

    /// Takes the messages to the supervisor.
    pub(crate) fn take_messages(&mut self) -> Vec<FromServer> {
        std::mem::take(&mut self.messages)
    }

    /// Returns how the master has exited.
    pub(crate) fn exit(&self) -> Option<ProcessExit> {
        self.exit
    }

    /// Passes an event to the machine, and performs what it decides, as the driver does.
    fn feed(&mut self, event: PoolEvent) {
        let (mut event, mut decided) = (Some(event), Vec::new());
        loop {
            if let Some(event) = event.take() {
                self.machine.handle(self.now, event, &mut decided);
                self.queue.extend(decided.drain(..));
            }
            let Some(action) = self.queue.pop_front() else { return };
            event = self.perform(action);
        }
    }

    fn keep(&mut self, kind: ArrivalKind) -> ArrivalId {
        self.last_number += 1;
        let id = ArrivalId(self.last_number);
        self.arrivals.insert(id, kind);
        id
    }

    fn schedule(&mut self, within_ms: u64, event: WorldEvent) {
        let at = self.now.after(self.random.within(0..within_ms + 1));
        self.world.schedule(at, event);
    }
}

/// Steps at one time, at most: clients that wait, and processes that exit.
const STEP_COUNT_MAX: usize = 20_000;
