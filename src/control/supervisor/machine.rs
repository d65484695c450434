//! The supervisor as a machine: events go in, actions come out. It reads no clock, and has no descriptor and no process.
//!
//! ```text
//!           Prepare             Serving                      order                     Serving
//! program ──────────▶ starting ─────────▶ serving ──────────────────────▶ change ──────────────▶ serving, the former server drains
//!                        │                  │ ▲                             │ fails
//!                        │ fails, signal    │ └─────────────────────────────┘
//!                        ▼                  ▼ signal, successor serves
//!                      exit ◀─────────── stopping: no listeners, all servers drain
//! ```
//!
//! After the first generation serves, only an order ends the program: whatever fails is retried, or changes nothing.

use super::{
    draining::DrainingServer,
    event::{
        Action, Announcement, AnnouncementKind, CallerId, GenerationId, OrderOutcome, ProcessStart,
        ServingInfo, SiteVersion, SupervisorEvent, SupervisorNotice, SupervisorSignal, SystemdState, ToChild,
        VersionLost,
    },
    generation::{Context, Generation, GenerationPlan},
    held_versions::{InheritedVersion, VersionUses},
    orders::PendingOrders,
};
use crate::{
    base::engine::Engine,
    control::{
        admin::Order,
        process::{
            ProcessExit, ProcessId, ProcessTable, clock,
            message::{FromServer, SiteRejection},
        },
    },
    data::worker::mailbox::ShutdownMode,
    site::descriptor_budget::DescriptorBudget,
};
use std::{mem, time::Duration};
use tarpon_conn::Tick;

/// What the supervisor starts with.
#[derive(Debug)]
pub(super) struct SupervisorConfig {
    /// This is process 1 of a container: with it the kernel kills all others.
    pub(super) is_init: bool,
    /// systemd owns some of the listeners: after the exit of this program, clients wait for the next.
    pub(super) has_lent_sockets: bool,
    /// The program that this one takes over from.
    pub(super) predecessor: Option<Predecessor>,
    pub(super) budget: DescriptorBudget,
}

/// What the predecessor has handed over.
#[derive(Debug)]
pub(super) struct Predecessor {
    /// The engine that uses the listeners.
    pub(super) engine: Engine,
    pub(super) inherited: Vec<InheritedVersion>,
}

/// The supervisor.
#[derive(Debug)]
pub(super) struct Supervisor {
    config: SupervisorConfig,
    phase: Phase,
    processes: ProcessTable<Owner>,
    uses: VersionUses,
    /// The generation that serves, or the first one. `None`: the program exits, or the first one is being prepared.
    current: Option<Generation>,
    change: Option<Change>,
    pending: PendingOrders,
    draining: Vec<DrainingServer>,
    generation_count: u64,
    /// After a handover, the grace period that a first signal leaves to the clients.
    handover_grace: Option<Duration>,
}

/// What in the supervisor a process belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Builder(GenerationId),
    Server(GenerationId),
    /// By the number of the helper in its generation.
    Helper(GenerationId, usize),
    Successor,
}

#[derive(Debug)]
enum Phase {
    /// The first generation has not served.
    Starting {
        predecessor: Option<PredecessorPhase>,
    },
    Serving,
    /// The program exits when all processes have.
    Stopping {
        result: Result<(), String>,
    },
    Exited,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PredecessorPhase {
    /// It serves.
    Serving,
    /// This program has notified it that it serves too, and waits for the answer.
    Notified,
}

/// A reload or an upgrade under way.
#[derive(Debug)]
struct Change {
    order: Order,
    callers: Vec<CallerId>,
    kind: ChangeKind,
    deadline: Tick,
    /// Why the successor cannot go on, in its own words.
    failure: Option<String>,
}

#[derive(Debug)]
enum ChangeKind {
    /// The driver prepares a generation.
    Preparing(GenerationId),
    /// A generation starts.
    Generation(Box<Generation>),
    /// A successor starts.
    Successor(ProcessId),
}

impl Change {
    /// Returns the generation that starts.
    fn generation(&self) -> Option<&Generation> {
        match &self.kind {
            ChangeKind::Generation(generation) => Some(generation),
            _ => None,
        }
    }

    /// Returns the generation that starts.
    fn generation_mut(&mut self) -> Option<&mut Generation> {
        match &mut self.kind {
            ChangeKind::Generation(generation) => Some(generation),
            _ => None,
        }
    }

    /// Returns whether this process is the successor that starts.
    fn has_successor(&self, process: ProcessId) -> bool {
        matches!(self.kind, ChangeKind::Successor(known) if known == process)
    }
}

/// How long a new program may take to read its configuration: then it knows what it is to do.
const FIRST_MESSAGE_TIME_MAX: Duration = Duration::from_secs(5);

/// How long a generation or a successor may take to serve: longer than it takes to read the largest site from the slowest disk.
const START_TIME_MAX: Duration = Duration::from_secs(900);

/// Servers that drain at a time, at most. Until there are fewer, the next order waits.
pub(super) const DRAINING_COUNT_MAX: usize = 8;

const STOPPING: &str = "the server is stopping, or its successor serves; try again";

impl Supervisor {
    /// Returns a supervisor, which first prepares a generation.
    pub(super) fn new(config: SupervisorConfig, actions: &mut Vec<Action>) -> Supervisor {
        let predecessor = config.predecessor.as_ref().map(|_| PredecessorPhase::Serving);
        let mut uses = VersionUses::default();
        let inherited = config.predecessor.iter().flat_map(|predecessor| &predecessor.inherited);
        // Held until the first generation has chosen among them.
        inherited.for_each(|inherited| uses.hold(inherited.version.id));
        let mut supervisor = Supervisor {
            config,
            phase: Phase::Starting { predecessor },
            processes: ProcessTable::default(),
            uses,
            current: None,
            change: None,
            pending: PendingOrders::default(),
            draining: Vec::new(),
            generation_count: 0,
            handover_grace: None,
        };
        let id = supervisor.next_generation();
        actions.push(Action::Prepare(id));
        supervisor
    }

    fn next_generation(&mut self) -> GenerationId {
        self.generation_count += 1;
        GenerationId(self.generation_count)
    }

    /// Handles an event, and appends the actions that follow. The driver carries them out in order.
    pub(super) fn handle(&mut self, now: Tick, event: SupervisorEvent, actions: &mut Vec<Action>) {
        use SupervisorEvent as Event;
        match event {
            Event::Timer => {}
            Event::Signal(signal) => self.signal(now, signal, actions),
            Event::Prepared(id, Ok(plan)) => self.prepared(now, id, plan, actions),
            Event::Prepared(id, Err(why)) => self.prepare_failed(now, id, why, actions),
            Event::Started(process) => {
                for generation in self.generations() {
                    generation.started(process, now);
                }
            }
            Event::StartFailed(process, error) => self.start_failed(now, process, error, actions),
            Event::SiteBuilt { builder, site, version, is_earlier } => {
                self.site_built(now, builder, site, version, is_earlier, actions);
            }
            Event::RootReplaced(process) => {
                if let Some((generation, _)) = self.generation_of(process, now, actions) {
                    generation.root_replaced();
                }
            }
            Event::Failed(process, why) => self.set_failure(process, why),
            Event::Server(process, message, caller) => self.server(now, process, message, caller, actions),
            Event::SuccessorReady(process) => self.successor_ready(now, process),
            Event::SuccessorServes(process) => self.hand_over(now, process, actions),
            Event::Malformed(process, why) => {
                // No program of ours sends such messages: this process is not trusted any more.
                let is_successor = self.processes.owner(process) == Some(Owner::Successor);
                let whose = if is_successor { "the new program" } else { "it" };
                self.set_failure(process, format!("{whose} sent a malformed message: {why}"));
                actions.push(Action::Kill(process));
            }
            Event::Exited(process, exit) => self.exited(now, process, exit, actions),
            Event::LogOpened(log) => {
                if let Some(generation) = self.generation(log.0) {
                    generation.log_opened(log, actions);
                }
            }
            Event::LogOpenFailed(log, error) => {
                let generation = self.generation(log.0);
                if generation.is_some_and(|generation| generation.logs.open_failed(log, now)) {
                    actions.push(Action::Emit(SupervisorNotice::LogReopenFailed(error)));
                }
            }
            Event::LogRotateFailed(log, error) => {
                let generation = self.generation(log.0);
                if generation.is_some_and(|generation| generation.logs.rotate_failed(log)) {
                    actions.push(Action::Emit(SupervisorNotice::LogReopenFailed(error)));
                }
            }
            Event::CertificatesChanged(id) => {
                // Of a generation that another replaces, the files do not matter any more.
                if self.current.as_ref().is_some_and(|current| current.id == id) {
                    self.order(Order::Reload, None, actions);
                }
            }
            Event::Committed(callers) => self.committed(now, callers, actions),
            Event::PredecessorGone => {
                if let Phase::Starting { predecessor: Some(_) } = self.phase {
                    self.fail(now, "the predecessor has exited".to_owned(), actions);
                }
            }
        }
        self.update(now, actions);
    }

    /// Returns when the next [`Timer`](SupervisorEvent::Timer) is due.
    pub(super) fn deadline(&self) -> Option<Tick> {
        let change = self.change.as_ref();
        let draining = self.draining.iter().filter_map(DrainingServer::deadline);
        [
            self.current.as_ref().and_then(Generation::deadline),
            change.and_then(Change::generation).and_then(Generation::deadline),
            change.map(|change| change.deadline),
        ]
        .into_iter()
        .flatten()
        .chain(draining)
        .min()
    }

    /// Returns the engine of the predecessor, whose listeners this program uses.
    pub(super) fn inherited_engine(&self) -> Option<Engine> {
        self.config.predecessor.as_ref().map(|predecessor| predecessor.engine)
    }

    /// Returns the versions that the supervisor holds, for a successor.
    pub(super) fn inherit(&self) -> Vec<InheritedVersion> {
        self.current.as_ref().map(Generation::inherit).unwrap_or_default()
    }

    /// Returns the versions that are or were served, the latest last. Some of them may have been dropped.
    pub(super) fn known_versions(&self) -> Vec<InheritedVersion> {
        let inherited = self.config.predecessor.iter().flat_map(|predecessor| &predecessor.inherited);
        inherited.cloned().chain(self.inherit()).collect()
    }

    /// Returns the versions that the current server is to serve, for the invariants of the simulator.
    #[cfg(test)]
    pub(super) fn current_versions(&self) -> Vec<super::event::VersionId> {
        self.current.as_ref().map(Generation::current_versions).unwrap_or_default()
    }

    /// Does what is due.
    fn update(&mut self, now: Tick, actions: &mut Vec<Action>) {
        let Supervisor { config, processes, uses, current, change, .. } = self;
        let mut cx = Context { now, processes, uses, budget: config.budget, actions };
        let of_change = change.as_mut().and_then(Change::generation_mut);
        for generation in current.iter_mut().chain(of_change) {
            generation.update(&mut cx);
        }
        for server in &mut self.draining {
            server.update(now, actions);
        }
        if self.change.as_ref().is_some_and(|change| change.deadline <= now) {
            let why = match self.change.as_ref().map(|change| &change.kind) {
                Some(ChangeKind::Successor(_)) => "the new program did not serve in time, and was killed",
                _ => "the server did not start in time",
            };
            self.change_failed(now, why.to_owned(), actions);
        }
        while let Phase::Serving = self.phase
            && self.change.is_none()
            && self.draining.len() < DRAINING_COUNT_MAX
            && let Some((order, callers)) = self.pending.next()
        {
            self.start_change(now, order, callers, actions);
        }
        if let Phase::Stopping { result } = &mut self.phase
            && self.processes.is_empty()
        {
            actions.push(Action::Exit(mem::replace(result, Ok(()))));
            self.phase = Phase::Exited;
        }
    }

    /// Returns the current generation and the one that starts.
    fn generations(&mut self) -> impl Iterator<Item = &mut Generation> {
        let of_change = self.change.as_mut().and_then(Change::generation_mut);
        self.current.as_mut().into_iter().chain(of_change)
    }

    /// Returns the generation with this identity.
    fn generation(&mut self, id: GenerationId) -> Option<&mut Generation> {
        self.generations().find(|generation| generation.id == id)
    }

    /// Returns the upgrade whose successor is this process.
    fn upgrade_to(&mut self, process: ProcessId) -> Option<&mut Change> {
        self.change.as_mut().filter(|change| change.has_successor(process))
    }

    /// Returns the generation of a process that is not about to exit: builder, server or helper.
    fn generation_of<'a>(
        &'a mut self,
        process: ProcessId,
        now: Tick,
        actions: &'a mut Vec<Action>,
    ) -> Option<(&'a mut Generation, Context<'a>)> {
        let Supervisor { config, processes, uses, current, change, .. } = self;
        let of_change = change.as_mut().and_then(Change::generation_mut);
        let generation = current.iter_mut().chain(of_change).find(|generation| generation.has(process))?;
        Some((generation, Context { now, processes, uses, budget: config.budget, actions }))
    }

    // Starting.

    fn prepared(&mut self, now: Tick, id: GenerationId, plan: GenerationPlan, actions: &mut Vec<Action>) {
        let is_first = matches!(self.phase, Phase::Starting { .. });
        let is_next = self
            .change
            .as_ref()
            .is_some_and(|change| matches!(change.kind, ChangeKind::Preparing(preparing) if preparing == id));
        if !is_first && !is_next {
            actions.push(Action::Forget(id));
            return;
        }
        let (inherited, engine) = match &self.config.predecessor {
            Some(predecessor) if is_first => (predecessor.inherited.clone(), Some(predecessor.engine)),
            _ => (self.inherit(), self.current.as_ref().map(|current| current.engine)),
        };
        let mut generation = Generation::new(id, plan, &inherited, engine, &mut self.uses);
        let is_successor = !is_first || self.config.predecessor.is_some();
        let Supervisor { config, processes, uses, .. } = self;
        let mut cx = Context { now, processes, uses, budget: config.budget, actions };
        generation.start(is_successor, &mut cx);
        match &mut self.change {
            Some(change) => {
                (change.kind, change.deadline) =
                    (ChangeKind::Generation(Box::new(generation)), clock::after(now, START_TIME_MAX));
            }
            None => {
                self.current = Some(generation);
                inherited.iter().for_each(|inherited| self.uses.release(inherited.version.id, actions));
            }
        }
    }

    fn prepare_failed(&mut self, now: Tick, id: GenerationId, why: String, actions: &mut Vec<Action>) {
        match &self.change {
            Some(Change { kind: ChangeKind::Preparing(preparing), .. }) if *preparing == id => {
                self.change_failed(now, why, actions);
            }
            _ if matches!(self.phase, Phase::Starting { .. }) => self.fail(now, why, actions),
            _ => {}
        }
    }

    fn start_failed(&mut self, now: Tick, process: ProcessId, error: String, actions: &mut Vec<Action>) {
        let Some(owner) = self.processes.remove(process) else { return };
        if owner == Owner::Successor {
            return self.change_failed(now, error, actions);
        }
        // Its generation was retired before the result arrived.
        if let Some(place) = self.draining.iter().position(|server| server.process == process) {
            let DrainingServer { helpers, .. } = self.draining.remove(place);
            return actions.extend(helpers.into_iter().map(Action::Kill));
        }
        if let Some((generation, mut cx)) = self.generation_of(process, now, actions) {
            let id = generation.id;
            if let Err(why) = generation.start_failed(owner, error, &mut cx) {
                self.generation_failed(now, id, why, actions);
            }
        }
    }

    /// Handles the failure of a generation that has not served.
    fn generation_failed(&mut self, now: Tick, id: GenerationId, why: String, actions: &mut Vec<Action>) {
        match self.current.as_ref().is_some_and(|current| current.id == id) {
            true => self.fail(now, why, actions),
            false => self.change_failed(now, why, actions),
        }
    }

    /// Exits with all processes, as the program cannot start.
    fn fail(&mut self, now: Tick, why: String, actions: &mut Vec<Action>) {
        self.phase = Phase::Stopping { result: Err(why) };
        self.pending.refuse("the server cannot start", actions);
        let Supervisor { config, processes, uses, current, .. } = self;
        let mut cx = Context { now, processes, uses, budget: config.budget, actions };
        if let Some(generation) = current.take() {
            generation.abandon(&mut cx);
        }
    }

    // Messages.

    fn site_built(
        &mut self,
        now: Tick,
        builder: ProcessId,
        site: usize,
        version: Result<SiteVersion, VersionLost>,
        is_earlier: bool,
        actions: &mut Vec<Action>,
    ) {
        match self.generation_of(builder, now, actions) {
            Some((generation, mut cx)) => {
                let id = generation.id;
                if let Err(why) = generation.site_built(site, version, is_earlier, &mut cx) {
                    self.generation_failed(now, id, why, actions);
                }
            }
            None => actions.extend(version.map(|version| Action::DropVersion(version.id))),
        }
    }

    fn server(
        &mut self,
        now: Tick,
        process: ProcessId,
        message: FromServer,
        caller: Option<CallerId>,
        actions: &mut Vec<Action>,
    ) {
        match message {
            FromServer::Serving { engine, fallback_reason, confinement } => {
                let info = ServingInfo { engine, fallback_reason, confinement };
                let Some((generation, _)) = self.generation_of(process, now, actions) else { return };
                let id = generation.id;
                if generation.serves(info) {
                    match self.current.as_ref().is_some_and(|current| current.id == id) {
                        true => self.first_serves(now, actions),
                        false => self.take_over(now, actions),
                    }
                }
            }
            FromServer::LogBroken { of } => {
                if let Some((generation, _)) = self.generation_of(process, now, actions) {
                    generation.logs.broken(of, now);
                }
            }
            FromServer::SiteRejected { site, rejection } => {
                let SiteRejection { why, is_shortage } = rejection;
                let generation = self.generation_of(process, now, actions).filter(|_| is_shortage);
                let retry_delay = generation.and_then(|(generation, _)| generation.site_lost(site, now));
                actions.push(Action::Emit(SupervisorNotice::SiteRejected { why, retry_delay }));
            }
            FromServer::StartFailed { why } => self.set_failure(process, why),
            FromServer::AdminRequest { order } => self.order(order, caller, actions),
        }
    }

    /// Notes why a process cannot go on: its exit is reported with this reason.
    fn set_failure(&mut self, process: ProcessId, why: String) {
        if let Some(upgrade) = self.upgrade_to(process) {
            upgrade.failure = Some(why);
        } else if let Some(server) = self.draining.iter_mut().find(|server| server.process == process) {
            server.why = Some(why);
        } else if let Some(generation) = self.generations().find(|generation| generation.has(process)) {
            generation.failed(process, why);
        }
    }

    /// Announces that the first generation serves. If there is a predecessor, notifies it first.
    fn first_serves(&mut self, now: Tick, actions: &mut Vec<Action>) {
        match &mut self.phase {
            Phase::Starting { predecessor: Some(phase) } => {
                *phase = PredecessorPhase::Notified;
                actions.push(Action::NotifyPredecessor);
            }
            _ => self.announce(now, AnnouncementKind::Started, Vec::new(), actions),
        }
    }

    /// Takes over from the predecessor, which has left.
    fn committed(&mut self, now: Tick, callers: Vec<CallerId>, actions: &mut Vec<Action>) {
        match self.phase {
            Phase::Starting { predecessor: Some(PredecessorPhase::Notified) } => {
                actions.push(Action::OwnSocketFiles(true));
                // An administrator who has renamed a log file meanwhile has told the predecessor.
                self.current.iter_mut().for_each(|current| current.logs.reopen(now));
                self.announce(now, AnnouncementKind::Upgraded, callers, actions);
            }
            _ => actions.extend(
                callers.into_iter().map(|caller| Action::Reply(caller, OrderOutcome::Refused(STOPPING))),
            ),
        }
    }

    /// Announces that the current generation serves.
    fn announce(
        &mut self,
        now: Tick,
        kind: AnnouncementKind,
        callers: Vec<CallerId>,
        actions: &mut Vec<Action>,
    ) {
        let Some(current) = &mut self.current else { return };
        let Some(serving) = current.serving.clone() else { return };
        current.logs.start(now);
        self.phase = Phase::Serving;
        let (generation, sites) = (current.id, current.site_sizes());
        actions.push(Action::AdoptListeners(generation));
        let announcement = Announcement { generation, kind, serving, sites, callers };
        actions.push(Action::Announce(Box::new(announcement)));
    }

    // Orders.

    fn order(&mut self, order: Order, caller: Option<CallerId>, actions: &mut Vec<Action>) {
        match self.phase {
            Phase::Starting { .. } | Phase::Serving => self.pending.add(order, caller, actions),
            Phase::Stopping { .. } | Phase::Exited => {
                actions.extend(caller.map(|caller| Action::Reply(caller, OrderOutcome::Refused(STOPPING))));
            }
        }
    }

    fn start_change(&mut self, now: Tick, order: Order, callers: Vec<CallerId>, actions: &mut Vec<Action>) {
        actions.push(Action::Notify(SystemdState::Reloading));
        let (kind, deadline) = match order {
            Order::Reload => {
                let id = self.next_generation();
                actions.push(Action::Prepare(id));
                (ChangeKind::Preparing(id), START_TIME_MAX)
            }
            Order::Upgrade if self.config.is_init => {
                let why = "process 1 of a container cannot be upgraded; start another container";
                return order_failed(order, why, callers, actions);
            }
            Order::Upgrade => {
                let Some(current) = &self.current else { return };
                let process = self.processes.add(Owner::Successor);
                actions.push(Action::Start(process, ProcessStart::Successor(current.engine)));
                (ChangeKind::Successor(process), FIRST_MESSAGE_TIME_MAX)
            }
        };
        let deadline = clock::after(now, deadline);
        self.change = Some(Change { order, callers, kind, deadline, failure: None });
    }

    /// Abandons the reload or upgrade, which cannot succeed: nothing changes.
    fn change_failed(&mut self, now: Tick, why: String, actions: &mut Vec<Action>) {
        let Some(Change { order, callers, kind, .. }) = self.change.take() else { return };
        self.abandon(now, kind, actions);
        order_failed(order, &why, callers, actions);
    }

    fn abandon(&mut self, now: Tick, kind: ChangeKind, actions: &mut Vec<Action>) {
        let Supervisor { config, processes, uses, .. } = self;
        match kind {
            // The driver answers later, and is told then.
            ChangeKind::Preparing(_) => {}
            ChangeKind::Generation(generation) => {
                generation.abandon(&mut Context { now, processes, uses, budget: config.budget, actions });
            }
            ChangeKind::Successor(process) => actions.push(Action::Kill(process)),
        }
    }

    /// Makes the next generation, which serves, the current one. The former one leaves its clients to it.
    fn take_over(&mut self, now: Tick, actions: &mut Vec<Action>) {
        let Some(Change { callers, kind: ChangeKind::Generation(next), .. }) = self.change.take() else {
            return;
        };
        let former = self.current.replace(*next);
        let Some(current) = &mut self.current else { return };
        // An administrator who has renamed a log file meanwhile has told the former generation.
        current.logs.reopen(now);
        if let Some(former) = former {
            self.retire(now, former, ShutdownMode::Drain, actions);
        }
        self.announce(now, AnnouncementKind::Reloaded, callers, actions);
    }

    fn successor_ready(&mut self, now: Tick, process: ProcessId) {
        if let Some(upgrade) = self.upgrade_to(process) {
            upgrade.deadline = clock::after(now, START_TIME_MAX);
        }
    }

    /// Leaves the clients to the successor, which serves, and exits.
    fn hand_over(&mut self, now: Tick, process: ProcessId, actions: &mut Vec<Action>) {
        let upgrade = self.change.take_if(|change| change.has_successor(process));
        let Some(Change { callers, .. }) = upgrade else { return };
        actions.push(Action::Emit(SupervisorNotice::Upgraded(process)));
        // Only the main process of a service may say which process that is.
        actions.push(Action::Notify(SystemdState::MainProcess(process)));
        actions.push(Action::OwnSocketFiles(false));
        actions.push(Action::CloseListeners);
        actions.push(Action::Send(process, ToChild::Commit { callers }));
        actions.push(Action::Release(process));
        self.processes.remove(process);
        self.pending.refuse(STOPPING, actions);
        self.phase = Phase::Stopping { result: Ok(()) };
        if let Some(current) = self.current.take() {
            self.handover_grace = Some(current.grace);
            self.retire(now, current, ShutdownMode::Drain, actions);
        }
    }

    // Stopping.

    fn signal(&mut self, now: Tick, signal: SupervisorSignal, actions: &mut Vec<Action>) {
        match (signal, &self.phase) {
            (SupervisorSignal::ReopenLogs, Phase::Serving) => {
                self.current.iter_mut().for_each(|current| current.logs.reopen(now));
            }
            (SupervisorSignal::Reload, _) => self.order(Order::Reload, None, actions),
            (SupervisorSignal::Upgrade, _) => self.order(Order::Upgrade, None, actions),
            (SupervisorSignal::ReopenLogs, _) => {}
            (SupervisorSignal::Stop(number), Phase::Starting { .. }) => {
                // No client can be served yet: as if there were no supervisor.
                match self.current.as_ref().is_some_and(Generation::may_serve) {
                    true => self.stop(now, actions),
                    false => actions.push(Action::Die(number)),
                }
            }
            (SupervisorSignal::Stop(_), _) => self.stop(now, actions),
        }
    }

    /// Stops all servers: within the grace period at the first signal, at once at the next.
    fn stop(&mut self, now: Tick, actions: &mut Vec<Action>) {
        let grace = match &self.current {
            Some(current) => current.grace,
            None => self.handover_grace.take().unwrap_or_default(),
        };
        actions.push(Action::Emit(SupervisorNotice::Stopping(grace)));
        actions.push(Action::Notify(SystemdState::Stopping));
        if let Some(Change { callers, kind, .. }) = self.change.take() {
            self.abandon(now, kind, actions);
            let refused = OrderOutcome::Refused("the server is stopping");
            actions.extend(callers.into_iter().map(|caller| Action::Reply(caller, refused.clone())));
        }
        self.pending.refuse(STOPPING, actions);
        // The servers have the last descriptors of the listeners then: when they close them, no client can connect any more.
        actions.push(Action::CloseListeners);
        for server in &mut self.draining {
            server.stop(now, grace, actions);
        }
        if let Some(current) = self.current.take() {
            self.phase = Phase::Stopping { result: Ok(()) };
            // With sockets of systemd, clients wait for the next server: no client needs to meet a connection that was just closed.
            let is_lent = self.config.has_lent_sockets;
            let mode = if is_lent { ShutdownMode::Drain } else { ShutdownMode::Stop };
            self.retire(now, current, mode, actions);
            if is_lent && let Some(server) = self.draining.last_mut() {
                server.limit_patience(now, grace);
            }
        }
    }

    /// Ends a generation that has served.
    fn retire(&mut self, now: Tick, generation: Generation, mode: ShutdownMode, actions: &mut Vec<Action>) {
        let grace = generation.grace;
        let Supervisor { config, processes, uses, .. } = self;
        let mut cx = Context { now, processes, uses, budget: config.budget, actions };
        match generation.retire(&mut cx) {
            (Some(process), helpers) => {
                self.draining.push(DrainingServer::start(process, helpers, now, mode, grace, actions));
            }
            // The server has exited, and another was due.
            (None, helpers) => actions.extend(helpers.into_iter().map(Action::Kill)),
        }
    }

    fn exited(&mut self, now: Tick, process: ProcessId, exit: ProcessExit, actions: &mut Vec<Action>) {
        let Some(owner) = self.processes.remove(process) else { return };
        if let Some(place) = self.draining.iter().position(|server| server.process == process) {
            let DrainingServer { helpers, is_overdue, why, .. } = self.draining.remove(place);
            actions.extend(helpers.into_iter().map(Action::Kill));
            let result = match (exit.is_success(), is_overdue) {
                (true, _) => Ok(()),
                (false, true) => Err("the server process did not exit in time, and was killed".to_owned()),
                (false, false) => Err(why.unwrap_or_else(|| format!("the server process {exit}"))),
            };
            return self.drained(result, actions);
        }
        if owner == Owner::Successor {
            if let Some(upgrade) = self.upgrade_to(process) {
                let why = upgrade.failure.take().unwrap_or_else(|| format!("the new program {exit}"));
                self.change_failed(now, why, actions);
            }
            return;
        }
        if let Some((generation, mut cx)) = self.generation_of(process, now, actions) {
            let id = generation.id;
            if let Err(why) = generation.exited(owner, exit, &mut cx) {
                self.generation_failed(now, id, why, actions);
            }
        }
    }

    /// Notes the result of a server that has drained and exited.
    fn drained(&mut self, drained: Result<(), String>, actions: &mut Vec<Action>) {
        match &mut self.phase {
            Phase::Stopping { result } => {
                if result.is_ok() {
                    *result = drained;
                }
            }
            _ => {
                if let Err(why) = drained {
                    actions.push(Action::Emit(SupervisorNotice::DrainFailed(why)));
                }
            }
        }
    }
}

fn order_failed(order: Order, why: &str, callers: Vec<CallerId>, actions: &mut Vec<Action>) {
    actions.push(Action::Emit(SupervisorNotice::OrderFailed(order, why.to_owned())));
    let (what, otherwise) = match order {
        Order::Reload => ("not reloaded", "still serving the previous configuration"),
        Order::Upgrade => ("not upgraded", "the old process still serves"),
    };
    let text = format!("{what}: {why}\n{otherwise}");
    actions.push(Action::Notify(SystemdState::Ready(text.clone())));
    let replies = callers.into_iter().map(|caller| Action::Reply(caller, OrderOutcome::Failed(text.clone())));
    actions.extend(replies);
}
