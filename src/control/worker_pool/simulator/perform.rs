//! Performs the actions of the machine in the world, and checks that each is allowed.

use super::{
    ArrivalKind, SimPool,
    world::{CRASH, SimClient, SimProcess, WorldEvent},
};
use crate::{
    base::engine::Engine,
    control::{
        process::{ProcessExit, ProcessId, clock, message::FromServer},
        supervisor::Role,
        worker_pool::vocabulary::{
            ArrivalId, ClientId, PoolAction, PoolEvent, PoolMessage, PoolNotice, PoolReport,
        },
    },
    data::worker::mailbox::ShutdownMode,
};

impl SimPool {
    /// Performs an action. Returns the event that answers it.
    pub(super) fn perform(&mut self, action: PoolAction) -> Option<PoolEvent> {
        self.note(&action);
        match action {
            PoolAction::StartAux { process } => return Some(self.start_aux(process)),
            PoolAction::StartWorker { process, slot, client } => {
                return Some(self.start_worker(process, slot, client));
            }
            PoolAction::Accept { .. } => return Some(self.accept()),
            PoolAction::Send { process, message } => self.send(process, message),
            PoolAction::EndMessages { process } => {
                let aux = self.world.processes.get_mut(&process).expect("the aux process was not reaped");
                assert!(aux.slot.is_none() && !aux.has_end_of_messages);
                aux.has_end_of_messages = true;
                if !self.random.percent(5) {
                    self.schedule(1_500, WorldEvent::Exits(process, ProcessExit::Status(0)));
                }
            }
            PoolAction::Kill { process } => {
                self.world.processes.get_mut(&process).expect("the process was not reaped").is_killed = true;
                // A process may wait for a disk.
                if !self.random.percent(2) {
                    self.schedule(5, WorldEvent::Exits(process, ProcessExit::Signal(9)));
                }
            }
            PoolAction::Refuse { client } => {
                let before = self.world.clients.insert(client, SimClient::Refused(self.now));
                assert_eq!(before, Some(SimClient::Held), "a client is refused once");
            }
            PoolAction::Close { client } => {
                assert!(self.world.clients.remove(&client).is_some(), "a connection is closed once");
            }
            PoolAction::CloseListeners => self.close_listeners(),
            PoolAction::Serve { sites } => {
                assert_eq!((sites.len(), &self.world.current), (self.config.pool.site_count, &None));
                let mut current = Vec::new();
                for (number, arrivals) in sites.into_iter().enumerate() {
                    for version in arrivals.earlier {
                        self.use_version(version, number);
                    }
                    current.push(self.use_version(arrivals.current, number));
                }
                self.world.current = Some(current);
            }
            PoolAction::Replace { site, version } => {
                let Some(&ArrivalKind::Version { site: of, number }) = self.arrivals.get(&version) else {
                    panic!("{version:?} is not a version");
                };
                assert_eq!(of, site);
                self.world.current.as_mut().expect("the pool serves")[site] = number;
            }
            PoolAction::Release { arrival } => {
                assert!(self.arrivals.remove(&arrival).is_some(), "{arrival:?} is released once");
            }
            PoolAction::Report(report) => self.report(report),
            PoolAction::Emit(notice) => self.notice(&notice),
            PoolAction::SetIdle { slot, is_idle } => self.world.idle[slot] = is_idle,
            PoolAction::RepairSlot { slot } => {
                assert!(self.world.unrepaired.remove(&slot), "the worker in slot {slot} exited as it should");
                self.world.idle[slot] = false;
            }
            PoolAction::Exit { status } => self.exits_with(status),
        }
        None
    }

    /// Notes what happened in this life, so that a test can tell whether the world is rich enough.
    fn note(&mut self, action: &PoolAction) {
        let is_late = self.expected.exit_by.is_some();
        let situation = match action {
            PoolAction::StartAux { .. } if is_late => "an aux process starts to write the rest",
            PoolAction::StartWorker { client: Some(_), .. } if is_late => "a client of the backlog is served",
            PoolAction::StartWorker { client: None, .. } => "a worker starts",
            PoolAction::StartWorker { .. } => "a client is served",
            PoolAction::Refuse { .. } if is_late => "a client of the backlog is refused",
            PoolAction::Refuse { .. } => "a client is refused",
            PoolAction::Kill { .. } if self.expected.is_aborted => "a process is killed",
            PoolAction::Kill { process } => match self.world.processes.get(process) {
                Some(SimProcess { slot: None, .. }) => "a late aux process is killed",
                _ => "a late worker is killed",
            },
            PoolAction::Replace { .. } => "a site changes",
            PoolAction::Report(PoolReport::SiteRejected { .. }) => "a site is rejected",
            PoolAction::Report(PoolReport::AdminRequest { .. }) => "a request is forwarded",
            PoolAction::Emit(PoolNotice::ReleaseNotKept { .. }) => "a release is not kept",
            PoolAction::Emit(PoolNotice::LogNotReopened { .. }) => "a log is lost",
            PoolAction::Emit(PoolNotice::ConnectionLost { .. }) => "a connection is lost",
            PoolAction::Emit(PoolNotice::ProcessEnded { role: Role::Aux, .. }) => "an aux process crashes",
            PoolAction::Emit(PoolNotice::ProcessEnded { .. }) => "a worker crashes",
            PoolAction::Emit(PoolNotice::StartFailed { role: Role::Aux, .. }) => {
                "an aux process does not start"
            }
            PoolAction::Emit(PoolNotice::StartFailed { .. }) => "a worker does not start",
            PoolAction::Exit { .. } if self.world.processes.is_empty() => "all processes are reaped",
            PoolAction::Exit { .. } => "a killed process is left",
            _ => return,
        };
        self.seen.insert(situation);
    }

    fn start_aux(&mut self, process: ProcessId) -> PoolEvent {
        assert!(self.world.aux().is_none(), "there is one aux process");
        self.check_new(process);
        if self.world.is_short_of_processes || self.world.is_short_of_descriptors {
            return PoolEvent::StartFailed { process, error: "resource temporarily unavailable".to_owned() };
        }
        self.world.processes.insert(process, SimProcess::default());
        if self.random.percent(self.config.crash_percent) {
            self.schedule(20_000, WorldEvent::Exits(process, CRASH));
        }
        self.schedule(20_000, WorldEvent::AuxReports(process));
        PoolEvent::Started(process)
    }

    fn start_worker(&mut self, process: ProcessId, slot: usize, client: Option<ClientId>) -> PoolEvent {
        let Some(versions) = self.world.current.clone() else { panic!("a worker needs sites") };
        assert!(slot < self.config.pool.slot_count);
        assert!(self.world.workers().all(|(taken, _)| taken != slot), "slot {slot} has one process");
        assert!(!self.world.unrepaired.contains(&slot), "slot {slot} is repaired");
        assert_eq!(client.is_some(), self.config.pool.forks);
        assert!(self.world.are_listeners_open || client.is_some());
        assert!(self.config.pool.forks || self.world.idle[slot], "the flag is set before the start");
        self.check_new(process);
        let worker_count = self.world.workers().count();
        let is_allowed = self.world.backoff_end <= self.now || worker_count < self.world.worker_max;
        assert!(is_allowed, "a start fails once per back-off");
        if let Some(client) = client {
            assert_eq!(self.world.clients.get(&client), Some(&SimClient::Held), "a client is served once");
        }
        if self.world.is_short_of_processes || client.is_none() && self.world.is_short_of_descriptors {
            self.world.worker_max = worker_count;
            return PoolEvent::StartFailed { process, error: "resource temporarily unavailable".to_owned() };
        }
        client.map(|client| self.world.clients.remove(&client));
        self.world
            .processes
            .insert(process, SimProcess { slot: Some(slot), versions, ..SimProcess::default() });
        let crashes = self.random.percent(self.config.crash_percent);
        let exit = if crashes { CRASH } else { ProcessExit::Status(0) };
        if client.is_some() {
            let life_ms = [50, 5_000, 60_000][self.random.within(0..3) as usize];
            self.schedule(life_ms, WorldEvent::Exits(process, exit));
        } else if crashes {
            let life_ms = [0, 1_000, 20_000][self.random.within(0..3) as usize];
            self.schedule(life_ms, WorldEvent::Exits(process, exit));
        }
        PoolEvent::Started(process)
    }

    fn check_new(&mut self, process: ProcessId) {
        assert!(self.world.last_process < Some(process), "{process:?} is new");
        assert!(!self.expected.is_aborted, "a pool that ends at once starts nothing");
        self.world.last_process = Some(process);
    }

    fn accept(&mut self) -> PoolEvent {
        assert!(self.config.pool.forks && self.world.are_listeners_open);
        if self.world.is_short_of_descriptors {
            self.world.worker_max = self.world.workers().count();
            return PoolEvent::AcceptFailed { error: "too many open files".to_owned() };
        }
        if self.world.backlog == 0 {
            return PoolEvent::BacklogEmpty;
        }
        self.world.backlog -= 1;
        self.world.last_progress = self.now;
        self.last_number += 1;
        let client = ClientId(self.last_number);
        self.world.clients.insert(client, SimClient::Held);
        PoolEvent::ClientAccepted(client)
    }

    fn close_listeners(&mut self) {
        assert!(self.world.are_listeners_open, "the listeners are closed once");
        self.world.are_listeners_open = false;
        let is_late = self.expected.exit_by.is_some_and(|by| by <= self.now.after(AFTER_GRACE_MS));
        let is_whole = self.world.backlog == 0 || self.world.current.is_none();
        assert!(
            is_whole || is_late || self.expected.is_aborted,
            "the close resets {} clients",
            self.world.backlog
        );
        self.world.backlog = 0;
    }

    fn send(&mut self, process: ProcessId, message: PoolMessage) {
        let arrivals = &self.arrivals;
        let to = self.world.processes.get_mut(&process).expect("the process was not reaped");
        assert!(!to.has_end_of_messages, "no message follows the last one");
        match message {
            PoolMessage::Site { site, version } => {
                let Some(&ArrivalKind::Version { number, .. }) = arrivals.get(&version) else {
                    panic!("{version:?} is not a version");
                };
                to.versions[site] = number;
            }
            PoolMessage::SiteCounts { site } => {
                assert!(to.slot.is_none());
                to.counts.insert(site);
            }
            PoolMessage::Log { of, log } => {
                assert!(to.slot.is_none() && arrivals.get(&log) == Some(&ArrivalKind::Log));
                to.logs.retain(|(owner, _)| *owner != of);
                to.logs.push((of, log));
            }
            PoolMessage::Shutdown { mode, grace } => {
                assert!(to.shutdown <= Some(mode), "a stop does not become a drain");
                to.shutdown = Some(mode);
                let is_stubborn = self.random.percent(10);
                if to.slot.is_some() && !is_stubborn {
                    let within_ms =
                        if mode == ShutdownMode::Stop { grace.as_millis() / 4 } else { grace.as_millis() };
                    self.schedule(within_ms as u64, WorldEvent::Exits(process, ProcessExit::Status(0)));
                }
            }
        }
    }

    fn use_version(&mut self, version: ArrivalId, site: usize) -> u64 {
        match self.arrivals.remove(&version) {
            Some(ArrivalKind::Version { site: of, number }) if of == site => number,
            other => panic!("{version:?} is {other:?}"),
        }
    }

    fn report(&mut self, report: PoolReport) {
        self.messages.push(match report {
            PoolReport::Serving => {
                assert!(!self.expected.is_reported && self.expected.shutdown.is_none());
                assert!(self.config.pool.forks || self.world.workers().next().is_some());
                self.expected.is_reported = true;
                let engine = if self.config.pool.forks { Engine::Fork } else { Engine::Prefork };
                FromServer::Serving { engine, fallback_reason: None, confinement: Vec::new() }
            }
            PoolReport::SiteRejected { site, rejection } => FromServer::SiteRejected { site, rejection },
            PoolReport::LogBroken { of } => FromServer::LogBroken { of },
            PoolReport::AdminRequest { request } => match self.arrivals.remove(&request) {
                Some(ArrivalKind::Request(order)) => FromServer::AdminRequest { order },
                other => panic!("{request:?} is {other:?}"),
            },
            PoolReport::StartFailed { why } => {
                assert!(self.expected.is_aborted, "{why}");
                FromServer::StartFailed { why }
            }
        });
    }

    /// Checks a notice, and what it announces.
    fn notice(&mut self, notice: &PoolNotice) {
        let (role, delay) = match *notice {
            PoolNotice::StartFailed { role, retry_delay, .. } => {
                assert!(retry_delay.as_millis() >= 100);
                (role, retry_delay)
            }
            PoolNotice::ProcessEnded { role, restart_delay, .. } => (role, restart_delay),
            _ => return,
        };
        assert!(delay.as_millis() <= u128::from(BACKOFF_MAX_MS), "{notice:?}");
        let by = clock::after(self.now, delay);
        match (role, notice) {
            (Role::Aux, _) => self.world.aux_by = by,
            (_, PoolNotice::StartFailed { .. }) => {
                let before = std::mem::replace(&mut self.world.backoff_end, by);
                assert!(before <= self.now, "one notice per back-off");
                self.world.worker_by = self.world.worker_by.max(by);
            }
            _ => self.world.worker_by = self.world.worker_by.max(by),
        }
    }

    fn exits_with(&mut self, status: i32) {
        for (id, process) in &self.world.processes {
            assert!(process.is_killed, "{id:?} is left behind: {process:?}");
        }
        assert!(self.expected.exit_by.is_some(), "no order ends the pool");
        assert_eq!(status, i32::from(self.expected.is_aborted));
        self.exit = Some(ProcessExit::Status(status));
    }
}

/// The longest back-off.
const BACKOFF_MAX_MS: u64 = 10_000;

/// The time between the end of the grace period and the last possible exit.
const AFTER_GRACE_MS: u64 = 2_000 + 1_000 + 3_000 + 1_000;
