//! The driver of the supervisor: performs its actions, and reports what happens as events.
//!
//! ```text
//! poll ─▶ signals, messages, exits ─▶ events ─▶ Supervisor ─▶ actions ─▶ perform ─┐
//!   ▲                                    ▲                                        │
//!   │                                    └───── result: started, failed, … ◀──────┤
//!   └───────────────────────────── when no event is left ◀────────────────────────┘
//! ```
//!
//! It waits in one poll(2), and nowhere else. It decides nothing.
//!
//! | file | what |
//! |---|---|
//! | `perform` | the actions |
//! | `prepare` | reads a configuration, and opens what it names |
//! | `start` | forks the processes of a generation, and starts a successor |
//! | `receive` | messages of the children |
//! | `announce` | tells the user, systemd and the callers |
//! | `listeners` | the listening sockets of all generations |
//! | `logs` | the descriptors of the logs |
//! | `acme` | certificates, and the helper that obtains them |
//! | `cgi` | ends the helpers that run CGI programs |
//! | `upstreams` | reports what the helper of upstream servers tells |

mod acme;
mod announce;
mod cgi;
mod listeners;
mod logs;
mod perform;
mod prepare;
mod receive;
mod start;
mod upstreams;

use super::{
    Notice, Service,
    event::{Action, CallerId, GenerationId, ProcessStart, SupervisorEvent, SupervisorSignal, VersionId},
    held_versions::InheritedVersion,
    machine::{Predecessor, Supervisor, SupervisorConfig},
};
use crate::{
    control::{
        acme::driver::AcmeDriver,
        cgi::stats::CgiStats,
        client_limits::LimitTables,
        counters::ServiceCounters,
        handover::{
            predecessor::{Inheritance, PredecessorChannel, PredecessorEvent},
            program,
        },
        process::{
            ProcessId,
            channel::{Channel, SentDescriptors, THROTTLE_TIME},
            children::Children,
            clock::{self, MonotonicClock},
            notice_limit::NoticeLimit,
            shared_files::SharedFiles,
        },
        systemd::{self, Systemd},
        tls::tickets::TicketKeys,
    },
    site::{descriptor_budget::DescriptorBudget, transfer::SiteTransfer},
    sys::{
        poll::{PollEntry, poll},
        signals::Signals,
    },
};
pub(super) use listeners::complete_addresses;
pub(crate) use {acme::acme_sets, logs::log_targets};

use libc::{POLLIN, POLLOUT};
use listeners::Listeners;
use prepare::PreparedGeneration;
use rustix::{
    io::Errno,
    process::{Pid, Signal, getpid},
};
use std::{
    cell::OnceCell,
    collections::{BTreeMap, VecDeque},
    error::Error,
    io,
    os::fd::{AsFd, OwnedFd},
    path::PathBuf,
    sync::Arc,
    thread,
    time::Duration,
};
use tarpon_conn::Tick;

/// Reads the configuration: at the start, and for each reload.
pub(super) type ReadConfig<'a> = &'a dyn Fn() -> Result<Service, Box<dyn Error>>;

/// Performs the actions of a supervisor.
pub(super) struct Driver<'a> {
    // Dropped first: the children exit before their resources are closed.
    children: Children,
    machine: Supervisor,
    clock: MonotonicClock,
    events: VecDeque<SupervisorEvent>,
    /// What each child runs.
    starts: BTreeMap<ProcessId, ProcessStart>,
    generations: BTreeMap<GenerationId, PreparedGeneration>,
    versions: BTreeMap<VersionId, (SiteTransfer, SentDescriptors)>,
    version_count: u64,
    /// The connections of the administrators that wait for replies.
    callers: BTreeMap<CallerId, OwnedFd>,
    caller_count: u64,
    listeners: Listeners,
    signals: Signals,
    systemd: Systemd,
    predecessor: &'a mut Option<PredecessorChannel>,
    /// The path of the program file.
    program: io::Result<PathBuf>,
    /// The channel to the predecessor after its commit, and that to a successor: each is at EOF when the other supervisor exits.
    former: Option<PredecessorChannel>,
    successor: Option<Channel>,
    counters: ServiceCounters,
    /// What all servers of this supervisor count of clients.
    limit_tables: LimitTables,
    /// The keys of session tickets of all generations, once one of them has TLS.
    ticket_keys: OnceCell<Arc<TicketKeys>>,
    /// `None`: no configuration has named certificates yet.
    acme: Option<AcmeDriver>,
    /// The helper that obtains certificates for the generation that serves.
    net: Option<ProcessId>,
    /// The numbers of CGI programs, once a configuration has had some.
    cgi_stats: Option<Arc<CgiStats>>,
    /// CGI helpers that are to end, and when they are killed.
    ending_helpers: Vec<(ProcessId, Tick)>,
    /// The generation that serves.
    adopted: Option<GenerationId>,
    /// The files of all versions: those that arrive share them.
    files: SharedFiles,
    read: ReadConfig<'a>,
    emit: fn(Notice<'_>),
    notice_limit: NoticeLimit,
    /// The error of the first configuration, in its own type: a user sees it.
    start_error: Option<Box<dyn Error>>,
    result: Option<Result<(), String>>,
}

/// How long the driver waits before it polls again after poll(2) has failed: the system is out of memory.
const POLL_RETRY_TIME: Duration = Duration::from_millis(10);

/// Messages of a child that has exited, at most: more than a channel holds.
const LAST_MESSAGES_MAX: usize = 4096;

/// How long a program that exits tries to send its successor the commit.
const HANDOVER_TIME_MAX: Duration = Duration::from_secs(5);

impl<'a> Driver<'a> {
    /// Returns a driver that has started nothing. The caller must not have opened descriptors before.
    ///
    /// # Errors
    /// The predecessor has exited, or systemd has passed an unusable socket.
    pub(super) fn new(
        predecessor: &'a mut Option<PredecessorChannel>,
        read: ReadConfig<'a>,
        emit: fn(Notice<'_>),
    ) -> Result<Driver<'a>, Box<dyn Error>> {
        let budget = DescriptorBudget::of_process();
        let files = SharedFiles::new(budget.total_max);
        let inheritance = predecessor.as_mut().map(|channel| channel.inherit(&files)).transpose()?;
        let (mut versions, mut version_count) = (BTreeMap::new(), 0);
        let (listeners, predecessor_state, counters, tickets) = match inheritance {
            Some(Inheritance {
                engine,
                listeners,
                sockets,
                sites,
                start_unix_s,
                counters,
                counter_files,
                tickets,
            }) => {
                let mut inherited = Vec::new();
                for (site, descriptors) in sites {
                    version_count += 1;
                    let id = VersionId(version_count);
                    let version = receive::site_version(id, &site.transfer, descriptors.len());
                    inherited.push(InheritedVersion { source: site.source, version, loads: site.loads });
                    versions.insert(id, (site.transfer, descriptors.into()));
                }
                let listeners = Listeners::inherit(listeners, sockets)?;
                let counters = ServiceCounters::new(start_unix_s, counters, counter_files)?;
                (listeners, Some(Predecessor { engine, inherited }), counters, tickets)
            }
            None => {
                let listeners = Listeners::lent(systemd::sockets()?);
                (listeners, None, ServiceCounters::new(unix_s(), Default::default(), Vec::new())?, None)
            }
        };
        // Blocked before the first child starts, so that a signal of a terminal to all its processes does not reach the children.
        let signals = Signals::block(&[
            Signal::TERM,
            Signal::INT,
            Signal::USR1,
            Signal::HUP,
            Signal::USR2,
            Signal::CHILD,
        ])?;
        let config = SupervisorConfig {
            is_init: getpid() == Pid::INIT,
            has_lent_sockets: listeners.has_lent(),
            predecessor: predecessor_state,
            budget,
        };
        let mut actions = Vec::new();
        let machine = Supervisor::new(config, &mut actions);
        let mut driver = Driver {
            children: Children::default(),
            machine,
            clock: MonotonicClock::new(),
            events: VecDeque::new(),
            starts: BTreeMap::new(),
            generations: BTreeMap::new(),
            versions,
            version_count,
            callers: BTreeMap::new(),
            caller_count: 0,
            listeners,
            signals,
            systemd: Systemd::find(),
            predecessor,
            program: program::path(),
            former: None,
            successor: None,
            counters,
            limit_tables: LimitTables::new()?,
            ticket_keys: tickets.map(TicketKeys::new).map(OnceCell::from).unwrap_or_default(),
            acme: None,
            net: None,
            cgi_stats: None,
            ending_helpers: Vec::new(),
            adopted: None,
            files,
            read,
            emit,
            notice_limit: NoticeLimit::default(),
            start_error: None,
            result: None,
        };
        driver.perform_all(actions);
        Ok(driver)
    }

    /// Runs until the supervisor exits.
    ///
    /// # Errors
    /// The service could not start, or a server did not shut down properly.
    pub(super) fn run(mut self) -> Result<(), Box<dyn Error>> {
        loop {
            while let Some(event) = self.events.pop_front() {
                let mut actions = Vec::new();
                self.machine.handle(self.clock.now(), event, &mut actions);
                self.perform_all(actions);
            }
            if let Some(result) = self.result.take() {
                self.finish_handover();
                self.counters.set_final();
                return result.map_err(|why| self.start_error.take().unwrap_or_else(|| why.into()));
            }
            self.wait();
            self.receive_signals();
            self.receive_messages();
            self.reap();
            self.receive_from_predecessor();
            self.flush_handover();
            self.emit_suppressed();
            self.update_acme();
            self.kill_overdue_helpers();
            self.events.push_back(SupervisorEvent::Timer);
        }
    }

    /// Sends queued messages to the predecessor and the successor. A message to a process that has exited is lost.
    fn flush_handover(&mut self) {
        self.handover_channels().for_each(|channel| drop(channel.sender.flush()));
    }

    /// Sends what is queued for the successor before this program exits: without its commit the successor would exit too.
    fn finish_handover(&mut self) {
        let end = clock::after(self.clock.now(), HANDOVER_TIME_MAX);
        self.flush_handover();
        while self.handover_channels().any(|channel| channel.sender.has_queued()) && self.clock.now() < end {
            thread::sleep(THROTTLE_TIME);
            self.flush_handover();
        }
    }

    fn handover_channels(&mut self) -> impl Iterator<Item = &mut Channel> {
        let predecessors = [self.predecessor.as_mut(), self.former.as_mut()].into_iter().flatten();
        predecessors.map(|predecessor| &mut predecessor.channel).chain(&mut self.successor)
    }

    fn perform_all(&mut self, actions: Vec<Action>) {
        for action in actions {
            self.perform(action);
        }
    }

    /// Waits for an event, or until the next deadline.
    fn wait(&self) {
        let mut polled = vec![PollEntry::new(self.signals.as_fd(), POLLIN)];
        polled.extend(self.children.polled().map(|(_, polled)| polled));
        let predecessors = [self.predecessor.as_ref(), self.former.as_ref()].into_iter().flatten();
        polled.extend(predecessors.map(PredecessorChannel::polled));
        let successor = self.successor.iter().filter(|successor| successor.sender.waits_for_room());
        polled.extend(successor.map(|successor| PollEntry::new(successor.as_fd(), POLLOUT)));
        let helpers = self.ending_helpers.iter().map(|(_, deadline)| *deadline).min();
        let deadlines = [self.machine.deadline(), self.notice_limit.deadline(), helpers];
        let deadline = deadlines.into_iter().flatten().min().map(|deadline| self.clock.until(deadline));
        let predecessors = [self.predecessor.as_ref(), self.former.as_ref()].into_iter().flatten();
        let mut handovers = predecessors.map(|predecessor| &predecessor.channel).chain(&self.successor);
        let is_throttled = handovers.any(|channel| channel.sender.is_throttled());
        let throttled = is_throttled.then_some(THROTTLE_TIME);
        let time =
            [deadline, self.acme_wait(), throttled, self.children.wait_max()].into_iter().flatten().min();
        match poll(&mut polled, time.map(clock::whole_ms)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => thread::sleep(POLL_RETRY_TIME),
        }
    }

    fn receive_signals(&mut self) {
        // Fails only for a descriptor that is no signal descriptor.
        while let Ok(Some(signal)) = self.signals.next() {
            let signal = match signal {
                Signal::HUP => SupervisorSignal::Reload,
                Signal::USR1 => SupervisorSignal::ReopenLogs,
                Signal::USR2 => SupervisorSignal::Upgrade,
                // The driver reaps in every turn of its loop.
                Signal::CHILD => continue,
                signal => SupervisorSignal::Stop(signal.as_raw()),
            };
            self.events.push_back(SupervisorEvent::Signal(signal));
        }
    }

    /// Reports the children that have exited, after their last messages.
    fn reap(&mut self) {
        while let Ok(Some((process, exit))) = self.children.reap() {
            // Another process may have the end of the child, and send on and on.
            self.receive_from(process, LAST_MESSAGES_MAX);
            // A process that has exited cannot take over.
            self.events.retain(|event| event.starts_to_serve() != Some(process));
            self.children.remove(process);
            self.starts.remove(&process);
            self.helper_exited(process);
            self.cgi_helper_exited(process);
            // A worker process of it may live a moment longer: what it holds is forgotten when its slot is used again.
            self.limit_tables.forget_connections(self.counters.free(process));
            self.events.push_back(SupervisorEvent::Exited(process, exit));
        }
    }

    fn receive_from_predecessor(&mut self) {
        if self.former.as_mut().is_some_and(|former| former.receive().is_some()) {
            self.former = None;
            self.counters.set_predecessor_gone();
        }
        let Some(event) = self.predecessor.as_mut().and_then(PredecessorChannel::receive) else { return };
        // Either way the predecessor sends no more.
        let channel = self.predecessor.take();
        let event = match event {
            PredecessorEvent::Committed(callers) => {
                self.former = channel;
                let callers = callers.into_iter().map(|caller| self.add_caller(caller)).collect();
                SupervisorEvent::Committed(callers)
            }
            PredecessorEvent::Gone => SupervisorEvent::PredecessorGone,
        };
        self.events.push_back(event);
    }

    fn add_caller(&mut self, connection: OwnedFd) -> CallerId {
        self.caller_count += 1;
        let id = CallerId(self.caller_count);
        self.callers.insert(id, connection);
        id
    }
}

/// Returns the wall clock in seconds since 1970.
fn unix_s() -> u64 {
    rustix::time::clock_gettime(rustix::time::ClockId::Realtime).tv_sec.max(0) as u64
}
