//! The world of a supervisor: performs actions as a kernel would, with faults, and runs the processes.

use super::{
    super::{
        event::{
            Action, AnnouncementKind, BuilderStart, CallerId, GenerationId, OrderOutcome, ProcessStart,
            SiteVersion, SupervisorEvent, SupervisorNotice, SystemdState, ToChild, VersionId, VersionLost,
        },
        generation::{GenerationPlan, SitePlan},
        held_versions::InheritedVersion,
        log_files::LogFilePlan,
        machine::{Predecessor, Supervisor, SupervisorConfig},
    },
    script::pick,
};
use crate::{
    base::{engine::Engine, error::UserError, log_config::LogOwner},
    control::{
        admin::Order,
        helpers::HelperKind,
        process::{
            ProcessExit, ProcessId,
            message::{FromServer, SiteRejection},
            random::SimRandom,
        },
        worker_pool::simulator::SimPool,
    },
    site::descriptor_budget::DescriptorBudget,
};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    mem,
    time::Duration,
};
use tarpon_conn::Tick;

/// How likely each fault is, in percent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Faults {
    /// A start fails: fork, socketpair, a program file that is gone.
    pub(super) start_fails: u64,
    /// A process exits instead of its next step.
    pub(super) crash: u64,
    /// A message is garbage.
    pub(super) garbage: u64,
    /// The descriptors of a version are lost.
    pub(super) lost: u64,
    /// A process does not do its next step.
    pub(super) hang: u64,
    /// A configuration cannot be prepared.
    pub(super) unprepared: u64,
    /// A log cannot be opened.
    pub(super) log_fails: u64,
}

/// The world.
pub(super) struct World {
    pub(super) now: Tick,
    pub(super) random: SimRandom,
    pub(super) faults: Faults,
    pub(super) machine: Supervisor,
    /// What happens later, in order.
    pub(super) agenda: BTreeMap<(Tick, u64), WorldStep>,
    pub(super) step_count: u64,
    /// Events that the machine has not handled.
    events: VecDeque<SupervisorEvent>,
    pub(super) processes: BTreeMap<ProcessId, SimChild>,
    generations: BTreeMap<GenerationId, GenerationPlan>,
    announced: Option<GenerationId>,
    versions: BTreeSet<VersionId>,
    version_count: u64,
    pub(super) callers: BTreeSet<CallerId>,
    caller_count: u64,
    pub(super) grace: Duration,
    /// Server processes are worker pools.
    pub(super) is_pooled: bool,
    /// No more faults begin.
    pub(super) is_calm: bool,
    /// Processes are this many times as fast as in a usual world.
    pub(super) speed: u64,
    pub(super) has_served: bool,
    /// An order to end the program was given, or the program was handed over.
    pub(super) may_exit: bool,
    listeners_open: bool,
    has_predecessor: bool,
    pub(super) exit: Option<Result<(), String>>,
    is_verbose: bool,
    pub(super) history: WorldHistory,
}

/// What has happened in a world, so that the test knows that its worlds are worth their time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WorldHistory {
    pub(super) served: u64,
    pub(super) reloaded: u64,
    pub(super) upgraded: u64,
    pub(super) handed_over: u64,
    pub(super) order_failed: u64,
    pub(super) order_refused: u64,
    pub(super) start_failed: u64,
    pub(super) restarted: u64,
    pub(super) too_large: u64,
    pub(super) overdue: u64,
    pub(super) stopped: u64,
    pub(super) most_draining: u64,
    /// Files of certificates have changed.
    pub(super) renewed: u64,
    pub(super) pool_served: u64,
    pub(super) pool_orphaned: u64,
    /// Versions that a server had no room for.
    pub(super) site_lost: u64,
}

/// A process.
pub(super) struct SimChild {
    pub(super) start: ProcessStart,
    outbox: VecDeque<SupervisorEvent>,
    /// Sites that a server has not received, or a builder has not built.
    pub(super) missing_sites: BTreeSet<usize>,
    /// What a server serves.
    pub(super) served: BTreeMap<usize, VersionId>,
    /// Sites that a server had no room for, and when it gets them again at the latest.
    lost_sites: BTreeMap<usize, Tick>,
    pub(super) serves: bool,
    pub(super) is_ending: bool,
    /// The process was killed, or exits by itself.
    pub(super) is_exiting: bool,
    /// A successor has reported that it has read its configuration.
    is_ready: bool,
    /// The server process is a worker pool.
    pub(super) pool: Option<Box<SimPool>>,
}

#[derive(Debug)]
pub(super) enum WorldStep {
    /// A process does something.
    Process(ProcessId),
    /// The next message of a process arrives.
    Deliver(ProcessId),
    /// Something is due in a worker pool.
    Pool(ProcessId),
    /// A process exits.
    Exit(ProcessId, ProcessExit),
    /// The predecessor answers.
    Predecessor,
}

/// The longest time without a server after the faults have ended: the longest back-off, and the start of a builder and a server.
const OUTAGE_MAX: u64 = 30_000;

/// Events within this time may be handled in one turn of the driver's loop, in milliseconds.
const BATCH_TIME: u64 = 5;

/// The longest time until a server gets a site again: its message arrives, and the longest back-off.
const RESEND_MAX: u64 = 15_000;

const BUDGET: DescriptorBudget =
    DescriptorBudget { current_max: 12, kept_max: 8, total_max: 32, unshared_max: 12 };

impl World {
    pub(super) fn new(seed: u64, is_verbose: bool) -> World {
        let mut random = SimRandom::new(seed);
        let has_predecessor = random.percent(20);
        let mut versions = BTreeSet::new();
        let inherited = (0..random.within(0..3)).map(|number| {
            versions.insert(VersionId(number));
            InheritedVersion {
                source: number.to_string(),
                version: SiteVersion {
                    id: VersionId(number),
                    descriptor_count: 1,
                    file_count: 1,
                    content_len: 1,
                    content_id: u128::from(number),
                },
                loads: number,
            }
        });
        let inherited: Vec<_> = inherited.collect();
        let predecessor = Predecessor { engine: Engine::Epoll, inherited };
        let config = SupervisorConfig {
            is_init: random.percent(10),
            has_lent_sockets: random.percent(20),
            predecessor: has_predecessor.then_some(predecessor),
            budget: BUDGET,
        };
        if !has_predecessor {
            versions.clear();
        }
        let mut actions = Vec::new();
        let machine = Supervisor::new(config, &mut actions);
        let grace = Duration::from_secs(random.within(0..31));
        // In a fast world, one reload follows the other while servers still drain.
        let speed = if random.percent(20) { 50 } else { 1 };
        let is_pooled = random.percent(15);
        let mut world = World {
            now: Tick(0),
            random,
            faults: Faults::default(),
            machine,
            agenda: BTreeMap::new(),
            step_count: 0,
            events: VecDeque::new(),
            processes: BTreeMap::new(),
            generations: BTreeMap::new(),
            announced: None,
            versions,
            version_count: 10,
            callers: BTreeSet::new(),
            caller_count: 0,
            grace,
            is_pooled,
            is_calm: false,
            speed,
            has_served: false,
            may_exit: false,
            listeners_open: true,
            has_predecessor,
            exit: None,
            is_verbose,
            history: WorldHistory::default(),
        };
        world.perform_all(actions);
        world.handle_events();
        world
    }

    /// Runs until this time, or until the supervisor exits.
    pub(super) fn run_until(&mut self, end: Tick) {
        while self.exit.is_none() {
            let next = self.agenda.first_key_value().map(|(&(at, _), _)| at);
            let deadline = self.machine.deadline();
            let Some(at) = [next, deadline].into_iter().flatten().min().filter(|at| *at <= end) else {
                break;
            };
            self.now = self.now.max(at);
            match next.is_some_and(|next| next <= at) {
                true => {
                    // Often several messages have arrived when the supervisor looks.
                    let mut batch_len = if self.random.percent(50) { self.random.within(2..5) } else { 1 };
                    while batch_len > 0
                        && let Some(entry) = self.agenda.first_entry()
                        && entry.key().0 <= self.now.after(BATCH_TIME)
                    {
                        batch_len -= 1;
                        let step = entry.remove();
                        self.step(step);
                    }
                    self.handle_events();
                }
                false => {
                    self.handle(SupervisorEvent::Timer);
                    assert!(
                        self.exit.is_some() || self.machine.deadline().is_none_or(|at| at > self.now),
                        "a deadline that has passed stays: {:?}",
                        self.machine
                    );
                }
            }
        }
        self.now = self.now.max(end);
    }

    pub(super) fn handle(&mut self, event: SupervisorEvent) {
        self.events.push_back(event);
        self.handle_events();
    }

    /// Handles all events, as the driver does: the result of an action comes behind the events that already wait.
    fn handle_events(&mut self) {
        while let Some(event) = self.events.pop_front() {
            if self.exit.is_some() {
                return;
            }
            if self.is_verbose {
                eprintln!("{:>8} {event:?}", self.now.0);
            }
            let mut actions = Vec::new();
            self.machine.handle(self.now, event, &mut actions);
            self.perform_all(actions);
            self.check();
        }
    }

    fn perform_all(&mut self, actions: Vec<Action>) {
        let mut results = Vec::new();
        for action in actions {
            if self.is_verbose {
                eprintln!("         └ {action:?}");
            }
            self.perform(action, &mut results);
        }
        self.events.extend(results);
    }

    fn perform(&mut self, action: Action, events: &mut Vec<SupervisorEvent>) {
        match action {
            Action::Prepare(id) => events.push(self.prepare(id)),
            Action::Start(process, start) => events.push(self.start(process, start)),
            Action::Send(process, message) => self.send(process, message),
            Action::Kill(process) => self.kill(process),
            Action::Release(process) => {
                let released = self.processes.remove(&process);
                assert!(released.is_some_and(|process| process.serves), "the successor serves");
                self.history.handed_over += 1;
                self.may_exit = true;
            }
            Action::DropVersion(id) => assert!(self.versions.remove(&id), "{id:?} was dropped before"),
            Action::OpenLog(log) => events.push(match self.random.percent(self.faults.log_fails) {
                false => SupervisorEvent::LogOpened(log),
                true => SupervisorEvent::LogOpenFailed(log, UserError::new("cannot log", "full", "free")),
            }),
            Action::CheckLog(log) if self.random.percent(self.faults.log_fails) => events
                .push(SupervisorEvent::LogRotateFailed(log, UserError::new("cannot rotate", "full", "free"))),
            Action::CheckLog(log) if self.random.percent(5) => events.push(SupervisorEvent::LogOpened(log)),
            Action::CheckLog(_) => {}
            Action::CheckCertificates(id) => {
                assert!(self.generations.contains_key(&id), "{id:?} is known");
                if self.random.percent(50) {
                    self.history.renewed += 1;
                    events.push(SupervisorEvent::CertificatesChanged(id));
                }
            }
            Action::AdoptListeners(id) => {
                assert!(self.generations.contains_key(&id), "{id:?} is known");
            }
            Action::Forget(id) => assert!(self.generations.remove(&id).is_some(), "{id:?} is known"),
            Action::CloseListeners => {
                assert!(self.may_exit || self.has_successor(), "the port closes without an order");
                self.listeners_open = false;
            }
            Action::OwnSocketFiles(_) => {}
            Action::Emit(notice) => self.count(&notice),
            Action::Announce(announcement) => {
                self.has_served = true;
                match announcement.kind {
                    AnnouncementKind::Started => self.history.served += 1,
                    AnnouncementKind::Upgraded => self.history.upgraded += 1,
                    AnnouncementKind::Reloaded => self.history.reloaded += 1,
                }
                self.announced = Some(announcement.generation);
                for caller in announcement.callers {
                    self.answered(caller);
                }
            }
            Action::Notify(SystemdState::MainProcess(process)) => {
                assert!(self.processes.contains_key(&process), "the main process runs");
            }
            Action::Notify(_) => {}
            Action::Reply(caller, outcome) => {
                self.history.order_refused += u64::from(matches!(outcome, OrderOutcome::Refused(_)));
                self.answered(caller);
            }
            Action::NotifyPredecessor => self.plan(WorldStep::Predecessor, 0..1_000),
            Action::Die(_) => {
                assert!(!self.has_served && self.may_exit, "a service that runs does not die");
                self.processes.clear();
                self.callers.clear();
                self.versions.clear();
                self.exit = Some(Ok(()));
            }
            Action::Exit(result) => {
                assert!(self.may_exit || !self.has_served, "exits without an order: {result:?}");
                assert!(self.processes.is_empty(), "not reaped: {:?}", self.processes.keys());
                assert!(!self.has_served || !self.listeners_open, "the port is open to the end");
                self.exit = Some(result);
            }
        }
    }

    fn count(&mut self, notice: &SupervisorNotice) {
        let history = &mut self.history;
        match notice {
            SupervisorNotice::OrderFailed(..) => history.order_failed += 1,
            SupervisorNotice::StartFailed { .. } => history.start_failed += 1,
            SupervisorNotice::ProcessEnded { .. } => history.restarted += 1,
            SupervisorNotice::SiteReloadFailed(_) => history.too_large += 1,
            SupervisorNotice::DrainFailed(_) => history.overdue += 1,
            SupervisorNotice::Stopping(_) => history.stopped += 1,
            _ => {}
        }
    }

    fn prepare(&mut self, id: GenerationId) -> SupervisorEvent {
        if self.random.percent(self.faults.unprepared) {
            return SupervisorEvent::Prepared(id, Err("the configuration is invalid".to_owned()));
        }
        let site = |number: u64, random: &mut SimRandom| SitePlan {
            source: number.to_string(),
            label: number.to_string(),
            kept_max: random.within(0..4) as usize,
        };
        let plan = GenerationPlan {
            grace: self.grace,
            engine: Engine::Epoll,
            sites: (0..self.random.within(1..4)).map(|number| site(number, &mut self.random)).collect(),
            logs: (0..self.random.within(0..3))
                .map(|_| LogFilePlan { owners: vec![LogOwner::Server], rotates: self.random.percent(50) })
                .collect(),
            helpers: (0..self.random.within(0..2)).map(|_| HelperKind::StandIn).collect(),
            has_certificates: self.random.percent(60),
        };
        self.generations.insert(id, plan.clone());
        SupervisorEvent::Prepared(id, Ok(plan))
    }

    fn start(&mut self, process: ProcessId, start: ProcessStart) -> SupervisorEvent {
        assert!(!self.processes.contains_key(&process), "{process:?} is not new");
        let same = |other: &&SimChild| match (start, other.start) {
            (ProcessStart::Builder(new, _), ProcessStart::Builder(old, _)) => new == old,
            (ProcessStart::Server { generation: new, .. }, ProcessStart::Server { generation: old, .. }) => {
                new == old
            }
            (ProcessStart::Successor(..), ProcessStart::Successor(..)) => true,
            (ProcessStart::Helper(new, _), ProcessStart::Helper(old, _)) => new == old,
            _ => false,
        };
        let others = self.processes.values().filter(|other| !other.is_exiting && !other.is_ending).find(same);
        assert!(others.is_none(), "{start:?} runs already");
        if self.random.percent(self.faults.start_fails) {
            return SupervisorEvent::StartFailed(process, "Resource temporarily unavailable".to_owned());
        }
        let site_count = match start {
            ProcessStart::Builder(id, _) | ProcessStart::Server { generation: id, .. } => {
                self.generations[&id].sites.len()
            }
            ProcessStart::Helper(..) | ProcessStart::Successor(..) => 0,
        };
        let sim = SimChild {
            start,
            outbox: VecDeque::new(),
            missing_sites: (0..site_count).collect(),
            lost_sites: BTreeMap::new(),
            served: BTreeMap::new(),
            serves: false,
            is_ending: false,
            is_exiting: false,
            is_ready: false,
            pool: None,
        };
        self.processes.insert(process, sim);
        if self.is_pooled && matches!(start, ProcessStart::Server { .. }) {
            self.start_pool(process, site_count);
            return SupervisorEvent::Started(process);
        }
        self.plan(WorldStep::Process(process), 1..2_000 / self.speed);
        SupervisorEvent::Started(process)
    }

    fn send(&mut self, process: ProcessId, message: ToChild) {
        if let ToChild::Site { version, .. } = &message {
            assert!(self.versions.contains(version), "{version:?} was dropped");
        }
        if let ToChild::Commit { callers } = &message {
            callers.iter().for_each(|caller| self.answered(*caller));
        }
        if let ToChild::Shutdown { .. } = &message {
            self.may_end(process);
        }
        let grace = self.grace.as_millis() as u64;
        let hangs = self.random.percent(self.faults.hang);
        let is_lost = self.random.percent(self.faults.lost);
        if self.send_to_pool(process, &message) {
            return;
        }
        let Some(sim) = self.processes.get_mut(&process) else { return };
        match message {
            ToChild::Site { site, is_earlier: false, .. } if is_lost && sim.missing_sites.is_empty() => {
                let rejection = SiteRejection { why: "no room".to_owned(), is_shortage: true };
                let message = FromServer::SiteRejected { site, rejection };
                self.history.site_lost += 1;
                sim.lost_sites.insert(site, self.now.after(RESEND_MAX));
                self.emit(process, SupervisorEvent::Server(process, message, None));
            }
            ToChild::Site { site, version, is_earlier: false, .. } => {
                sim.missing_sites.remove(&site);
                sim.lost_sites.remove(&site);
                sim.served.insert(site, version);
            }
            ToChild::Shutdown { .. } => {
                sim.is_ending = true;
                if !hangs {
                    let status = ProcessExit::Status(if self.random.percent(5) { 1 } else { 0 });
                    self.plan(WorldStep::Exit(process, status), 1..grace + 2);
                }
            }
            _ => {}
        }
    }

    /// The serving server may end only if another serves, or after an order.
    fn may_end(&self, process: ProcessId) {
        // Another may have exited since its last message: then the supervisor starts the next at once.
        let others = self.processes.iter().any(|(&id, sim)| id != process && sim.serves && !sim.is_ending);
        let is_needed = self.processes.get(&process).is_some_and(|sim| sim.serves && !sim.is_ending);
        let is_successor = |sim: &SimChild| matches!(sim.start, ProcessStart::Successor(..));
        let is_garbled = self.processes.get(&process).is_some_and(|sim| sim.is_exiting || is_successor(sim));
        assert!(!is_needed || others || self.may_exit || is_garbled, "the server that serves is ended");
    }

    pub(super) fn kill(&mut self, process: ProcessId) {
        let Some(sim) = self.processes.get_mut(&process) else { return };
        if !sim.is_exiting {
            sim.is_exiting = true;
            sim.pool.iter_mut().for_each(|pool| pool.kill());
            self.plan(WorldStep::Exit(process, ProcessExit::Signal(9)), 0..20);
        }
    }

    pub(super) fn plan(&mut self, step: WorldStep, after: std::ops::Range<u64>) {
        self.step_count += 1;
        let at = self.now.after(self.random.within(after));
        self.agenda.insert((at, self.step_count), step);
    }

    fn answered(&mut self, caller: CallerId) {
        assert!(self.callers.remove(&caller), "{caller:?} was answered before");
    }

    /// An administrator gives an order through this server.
    pub(super) fn order(&mut self, server: ProcessId, order: Order) {
        self.caller_count += 1;
        let caller = CallerId(self.caller_count);
        self.callers.insert(caller);
        let message = FromServer::AdminRequest { order };
        self.handle(SupervisorEvent::Server(server, message, Some(caller)));
    }

    /// Returns the processes that could be killed or give orders.
    pub(super) fn living(&self, is_wanted: impl Fn(&SimChild) -> bool) -> Vec<ProcessId> {
        let living = self.processes.iter().filter(|(_, sim)| !sim.is_exiting && is_wanted(sim));
        living.map(|(&id, _)| id).collect()
    }

    fn has_successor(&self) -> bool {
        let is_successor = |sim: &SimChild| matches!(sim.start, ProcessStart::Successor(..));
        self.processes.values().any(|sim| is_successor(sim) && sim.serves)
    }

    fn step(&mut self, step: WorldStep) {
        match step {
            WorldStep::Process(process) => self.step_process(process),
            WorldStep::Pool(process) => self.wake_pool(process),
            WorldStep::Deliver(process) => {
                if let Some(event) = self.processes.get_mut(&process).and_then(|sim| sim.outbox.pop_front()) {
                    self.events.push_back(event);
                }
            }
            WorldStep::Exit(process, exit) => {
                // The driver delivers the last messages of a process before its exit.
                while let Some(event) =
                    self.processes.get_mut(&process).and_then(|sim| sim.outbox.pop_front())
                {
                    self.events.push_back(event);
                }
                if self.processes.remove(&process).is_some() {
                    self.events.retain(|event| event.starts_to_serve() != Some(process));
                    self.events.push_back(SupervisorEvent::Exited(process, exit));
                }
            }
            WorldStep::Predecessor => {
                let event = match self.random.percent(self.faults.crash) {
                    true => SupervisorEvent::PredecessorGone,
                    false => {
                        self.caller_count += 1;
                        self.callers.insert(CallerId(self.caller_count));
                        SupervisorEvent::Committed(vec![CallerId(self.caller_count)])
                    }
                };
                self.handle(event);
            }
        }
    }

    /// A process does what it would do next.
    fn step_process(&mut self, process: ProcessId) {
        let faults = self.faults;
        let Some(sim) = self.processes.get(&process).filter(|sim| !sim.is_exiting && !sim.is_ending) else {
            return;
        };
        let start = sim.start;
        if self.random.percent(faults.crash) {
            let exits = [ProcessExit::Status(1), ProcessExit::Status(101), ProcessExit::Signal(11)];
            let exit = *pick(&mut self.random, &exits).expect("there are some");
            return self.end(process, exit);
        }
        if self.random.percent(faults.garbage) {
            return self.emit(process, SupervisorEvent::Malformed(process, "garbage".to_owned()));
        }
        if self.random.percent(faults.hang) {
            return;
        }
        match start {
            ProcessStart::Builder(id, start) => self.step_builder(process, id, start),
            ProcessStart::Server { .. } => self.step_server(process),
            // A helper does nothing that the supervisor notices, but it may crash.
            ProcessStart::Helper(..) => self.plan(WorldStep::Process(process), 10..5_000),
            ProcessStart::Successor(..) => self.step_successor(process),
        }
    }

    fn end(&mut self, process: ProcessId, exit: ProcessExit) {
        if let Some(sim) = self.processes.get_mut(&process) {
            sim.is_exiting = true;
        }
        self.plan(WorldStep::Exit(process, exit), 0..20);
    }

    /// Sends a message of a process, which arrives later.
    pub(super) fn emit(&mut self, process: ProcessId, event: SupervisorEvent) {
        if let Some(sim) = self.processes.get_mut(&process) {
            sim.outbox.push_back(event);
            self.plan(WorldStep::Deliver(process), 0..50);
        }
    }

    fn step_builder(&mut self, process: ProcessId, id: GenerationId, start: BuilderStart) {
        let Some(sim) = self.processes.get_mut(&process) else { return };
        let first = sim.missing_sites.pop_first().filter(|_| start == BuilderStart::First);
        if first.is_none() && self.random.percent(10) {
            self.emit(process, SupervisorEvent::RootReplaced(process));
            return self.end(process, ProcessExit::Status(0));
        }
        if start == BuilderStart::First && self.random.percent(self.faults.crash) {
            self.emit(process, SupervisorEvent::Failed(process, "no such directory".to_owned()));
            return self.end(process, ProcessExit::Status(1));
        }
        let Some(site_count) = self.generations.get(&id).map(|plan| plan.sites.len() as u64) else { return };
        let site = first.unwrap_or(self.random.within(0..site_count) as usize);
        if first.is_some() && self.random.percent(20) {
            let version = self.version();
            self.emit(
                process,
                SupervisorEvent::SiteBuilt { builder: process, site, version, is_earlier: true },
            );
        }
        let version = self.version();
        self.emit(process, SupervisorEvent::SiteBuilt { builder: process, site, version, is_earlier: false });
        self.plan(WorldStep::Process(process), 1..if first.is_some() { 500 / self.speed } else { 20_000 });
    }

    fn version(&mut self) -> Result<SiteVersion, VersionLost> {
        // Now and then more than fit.
        let count_max = if self.random.percent(5) { 20 } else { 4 };
        let descriptor_count = self.random.within(0..count_max) as usize;
        if self.random.percent(self.faults.lost) {
            return Err(VersionLost { descriptor_count, unfit_count: None });
        }
        self.version_count += 1;
        let id = VersionId(self.version_count);
        self.versions.insert(id);
        let content_id = u128::from(self.random.within(0..6));
        Ok(SiteVersion { id, descriptor_count, file_count: 1, content_len: 1, content_id })
    }

    fn step_server(&mut self, process: ProcessId) {
        let is_unlucky = self.random.percent(self.faults.crash);
        let Some(sim) = self.processes.get_mut(&process) else { return };
        match (sim.serves, sim.missing_sites.is_empty()) {
            (false, true) if is_unlucky => {
                let why = "out of memory".to_owned();
                self.emit(process, SupervisorEvent::Server(process, FromServer::StartFailed { why }, None));
                return self.end(process, ProcessExit::Status(1));
            }
            (false, true) => {
                sim.serves = true;
                let message = FromServer::Serving {
                    engine: Engine::Epoll,
                    fallback_reason: None,
                    confinement: Vec::new(),
                };
                self.emit(process, SupervisorEvent::Server(process, message, None));
            }
            (true, _) => {
                let message = match self.random.percent(50) {
                    true => FromServer::LogBroken { of: LogOwner::Server },
                    false => {
                        let rejection =
                            SiteRejection { why: "it is truncated".to_owned(), is_shortage: false };
                        FromServer::SiteRejected { site: self.random.within(0..9) as usize, rejection }
                    }
                };
                self.emit(process, SupervisorEvent::Server(process, message, None));
            }
            // It waits for its sites.
            (false, false) => {}
        }
        let serves = self.processes.get(&process).is_some_and(|sim| sim.serves);
        let speed = if serves { 1 } else { self.speed };
        self.plan(WorldStep::Process(process), 10..5_000 / speed);
    }

    fn step_successor(&mut self, process: ProcessId) {
        let is_unlucky = self.random.percent(self.faults.crash);
        let Some(sim) = self.processes.get_mut(&process) else { return };
        let event = match mem::replace(&mut sim.is_ready, true) {
            false => SupervisorEvent::SuccessorReady(process),
            true if is_unlucky => {
                let why = "the configuration is invalid".to_owned();
                self.emit(process, SupervisorEvent::Failed(process, why));
                return self.end(process, ProcessExit::Status(1));
            }
            true => {
                sim.serves = true;
                SupervisorEvent::SuccessorServes(process)
            }
        };
        self.emit(process, event);
        if !self.processes.get(&process).is_none_or(|sim| sim.serves) {
            self.plan(WorldStep::Process(process), 1..4_000);
        }
    }

    /// Checks what holds after each event.
    fn check(&mut self) {
        assert!(self.callers.len() <= 4 * super::super::orders::CALLER_COUNT_MAX, "callers pile up");
        let ending = self.processes.values().filter(|sim| sim.is_ending && !sim.is_exiting).count();
        self.history.most_draining = self.history.most_draining.max(ending as u64);
        assert!(ending <= super::super::machine::DRAINING_COUNT_MAX + 1, "draining servers pile up");
        let starting = self.processes.values().filter(|sim| {
            !sim.is_exiting && !sim.is_ending && matches!(sim.start, ProcessStart::Successor(..))
        });
        let generations = self.generations.keys().filter(|&&id| Some(id) != self.announced).count();
        assert!(
            self.may_exit || starting.count() + generations <= 1,
            "more than one change at a time: {:?}",
            self.generations.keys()
        );
        let is_active = |sim: &&SimChild| sim.serves && !sim.is_ending && !sim.is_exiting;
        for sim in self.processes.values().filter(is_active) {
            assert!(
                sim.lost_sites.values().all(|by| self.now <= *by),
                "a site that was lost is not sent again"
            );
        }
        if self.has_served && !self.may_exit {
            assert!(self.listeners_open, "the port is closed");
        }
        assert!(self.versions.len() <= 80, "versions pile up");
    }

    /// Lets the faults end, and checks that the service serves what was built last.
    pub(super) fn recover(&mut self) {
        self.faults = Faults::default();
        self.is_calm = true;
        self.calm_pools();
        // A process that hangs is the business of an administrator.
        for process in self.living(|_| true) {
            self.plan(WorldStep::Process(process), 0..1_000);
        }
        let end = self.now.after(OUTAGE_MAX + 900_000 * u64::from(!self.has_served));
        self.run_until(end);
        if self.exit.is_some() || self.may_exit {
            return;
        }
        assert!(self.has_served, "the service never serves: {:?}", self.machine);
        let generation = self.announced.expect("a generation serves");
        let server = self.processes.values().find(|sim| {
            sim.serves
                && !sim.is_exiting
                && !sim.is_ending
                && matches!(sim.start, ProcessStart::Server { generation: id, .. } if id == generation)
        });
        let Some(server) = server else {
            panic!("no server serves {generation:?}: {:?}", self.processes.keys());
        };
        let helper_count = self.generations[&generation].helpers.len();
        let is_helper =
            |sim: &&SimChild| matches!(sim.start, ProcessStart::Helper(id, _) if id == generation);
        assert_eq!(self.processes.values().filter(is_helper).count(), helper_count, "the helpers run");
        if server.pool.is_some() {
            return self.check_pool();
        }
        let served: Vec<_> = server.served.values().copied().collect();
        assert_eq!(served, self.machine.current_versions(), "the server has the latest versions");
    }

    /// Forgets what the driver holds: its process is gone.
    pub(super) fn forget_all(&mut self) {
        self.callers.clear();
        self.versions.clear();
    }

    /// Checks that nothing is left when the supervisor has exited.
    pub(super) fn check_end(&self) {
        assert!(self.processes.is_empty(), "not reaped: {:?}", self.processes.keys());
        assert!(self.callers.is_empty(), "not answered: {:?}", self.callers);
        assert!(!self.has_served || self.versions.is_empty(), "not closed: {:?}", self.versions);
    }

    /// Returns whether a predecessor still serves.
    pub(super) fn has_predecessor(&self) -> bool {
        self.has_predecessor
    }
}
