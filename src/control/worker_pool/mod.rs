//! The server process of `prefork` and `fork`: one thread that controls, and the processes that it has forked.
//!
//! ```text
//! supervisor ── sites, log, stop ──▶ control ─┬─ the same ─▶ desk      log and admin listener, with threads of its own
//!                                             ├─ the same ─▶ worker    one connection at a time: engine/blocking.rs
//!                                             └─ the same ─▶ worker
//!
//!               shared memory: what each worker counts and records, and who of them is free
//! ```
//!
//! A worker has a place: its rows in that memory, which it leaves to the next one. With `prefork` there is somebody in each place;
//! with `fork`, in as many as there are connections.
//!
//! | file | what |
//! |---|---|
//! | `member` | a process, and the channel to it |
//! | `desk`, `worker` | what the processes do |

mod acceptor;
mod aux_process;
mod child;
mod worker_process;

use super::supervisor::{
    Notice, Role,
    backoff::Backoff,
    channel::Channel,
    child::End,
    message::{FromServer, ToServer},
    serving::{Arrived, Start, take_over},
};
use crate::{
    base::{
        engine::Engine,
        log_config::{LogConfig, LogOwner},
        settings::Settings,
        site_config::SiteConfig,
    },
    control::{
        access_log::LogPlan,
        listeners::Listener,
        sandbox::{self, Confinement, WorkerSeccomp},
        stats::ServerStats,
    },
    data::{
        engine::{WorkerReady, blocking},
        log_ring::LogRings,
        worker::{WorkerConfig, idle_workers::IdleWorkers},
    },
    site::{set::SiteSet, transfer::SiteTransfer, virtual_hosts},
    sys::{
        process::SingleThreaded,
        shared::{SharedArray, SharedRow},
        signals::Signals,
    },
};
use acceptor::Acceptor;
use child::PoolProcess;
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
    process::{Signal, WaitOptions, wait},
    time::Timespec,
};
use std::{
    collections::BTreeSet,
    io, mem,
    os::fd::{AsFd, AsRawFd, OwnedFd, RawFd},
    sync::Arc,
    time::{Duration, Instant},
};
use tarpon_conn::{Counters, Hosts, Recording, SiteId};

/// Whether this engine's workers are processes, which a master forks.
pub(crate) fn runs(engine: Engine) -> bool {
    matches!(engine, Engine::Prefork | Engine::Fork)
}

/// Runs until it is told to stop. Returns an exit status.
pub(crate) fn run(start: Start<'_>, mut channel: Channel) -> i32 {
    let begun = Master::begin(start, &mut channel);
    match begun.and_then(|mut control| control.run(&mut channel)) {
        Ok(()) => 0,
        Err(why) => {
            // Where nobody hears it the supervisor has ended, and so do we.
            let _ = channel.sender.say(&FromServer::Refused { why });
            1
        }
    }
}

/// The process that controls. Without a thread but this one, so that it may be divided at any time.
struct Master<'a> {
    alone: SingleThreaded,
    /// That a process has ended.
    signals: Signals,
    settings: Settings,
    configs: &'a [SiteConfig],
    /// System calls of this process are filtered.
    in_calls: bool,
    tell: fn(Notice<'_>),
    confined: Option<Confinement>,
    narrowing: WorkerSeccomp,
    hosts: Arc<Hosts>,
    shared: SharedMemory,
    /// Where clients come.
    porter: Acceptor,
    admin: Option<Listener>,
    /// Another server answers there until this one serves.
    is_successor: bool,
    desk: PoolSlot,
    log: &'a LogConfig,
    logs: LogPlan,
    /// Where they go, as the desk was told: for another one.
    sinks: Vec<(LogOwner, Arc<[OwnedFd]>)>,
    /// By number of the site: what has come so far.
    arrived: Vec<Arrived>,
    records: Vec<Option<SiteTransfer>>,
    /// `None`: not all has come.
    stock: Option<SiteSet>,
    workers: Vec<PoolSlot>,
    /// With `fork`: places of nobody.
    free: BTreeSet<usize>,
    /// With `fork`: until when no other process is tried, as there was no room for one.
    crowded: Option<Instant>,
    /// For the next connection.
    spare: Option<(Channel, Channel)>,
    leaving: Option<PoolDraining>,
}

/// What lies in memory that all processes share.
struct SharedMemory {
    /// Of each worker; and the last of them of this process.
    counters: Arc<SharedArray<Counters>>,
    roster: SharedRow<IdleWorkers>,
    rings: Option<(Recording, LogRings)>,
}

/// A place for a process.
#[derive(Default)]
struct PoolSlot {
    member: Option<PoolProcess>,
    backoff: Backoff,
    /// When there is to be one.
    due: Option<Instant>,
}

/// The end has been announced.
struct PoolDraining {
    farewell: ToServer,
    /// Later than that nobody is waited for.
    by: Instant,
}

/// How much longer than the grace a worker may take to end, for what it does then.
const OVERDUE: Duration = Duration::from_secs(2);

/// How long the desk may take to write what the workers have left.
const DESK_TIME_MAX: Duration = Duration::from_secs(3);

impl<'a> Master<'a> {
    fn begin(start: Start<'a>, channel: &mut Channel) -> Result<Master<'a>, String> {
        let Start { settings, listeners, admin, is_successor, sites, unknown, log, rights, tell } = start;
        let unconfined = |error| sandbox::unconfined(&error);
        let in_words = |error: io::Error| error.to_string();
        // What is opened is opened before.
        let alone = SingleThreaded::new().map_err(in_words)?;
        let signals = Signals::block(&[Signal::CHILD]).map_err(in_words)?;
        rights.assume().map_err(|trouble| trouble.to_string())?;
        let confined = sandbox::confine_control(rights).map_err(unconfined)?;
        let in_calls = confined.in_calls;
        let narrowing = WorkerSeccomp::new(in_calls).map_err(unconfined)?;
        try_in_child(&alone, || narrowing.confine()).map_err(unconfined)?;
        channel.waits_no_more().map_err(in_words)?;
        let names = sites.iter().map(|site| (&site.hosts[..], &site.redirect_hosts[..]));
        let hosts =
            Arc::new(virtual_hosts::host_table(names, unknown).map_err(|trouble| trouble.to_string())?);
        let count = settings.workers().get();
        let of_sites = sites.iter().enumerate().map(|(number, site)| {
            let name = hosts.canonical(SiteId::new(number));
            (site.log.resolve(log.logging), name.map(|name| String::from_utf8_lossy(name).into_owned()))
        });
        let logs = LogPlan::new(settings.logging, of_sites, settings.debug);
        let shared = SharedMemory::new(count, &logs).map_err(in_words)?;
        let listeners = listeners.into_iter().flat_map(Listener::into_sockets).collect();
        let porter = Acceptor::new(listeners, shared.counters.part(count)).map_err(in_words)?;
        let mut control = Master {
            alone,
            signals,
            settings: settings.clone(),
            configs: sites,
            in_calls,
            tell,
            confined: Some(confined),
            narrowing,
            hosts,
            shared,
            porter,
            admin,
            is_successor,
            desk: PoolSlot::default(),
            log,
            logs,
            sinks: Vec::new(),
            arrived: sites.iter().map(|_| Arrived::default()).collect(),
            records: sites.iter().map(|_| None).collect(),
            stock: None,
            workers: (0..count).map(|_| PoolSlot::default()).collect(),
            free: BTreeSet::new(),
            crowded: None,
            spare: None,
            leaving: None,
        };
        control.start_desk().map_err(in_words)?;
        Ok(control)
    }

    fn run(&mut self, channel: &mut Channel) -> Result<(), String> {
        loop {
            self.wait(channel).map_err(|error| error.to_string())?;
            self.hear(channel)?;
            self.hear_desk(channel);
            self.reap().map_err(|error| error.to_string())?;
            self.mind_members();
            self.mind_desk();
            if self.stock.is_some() {
                self.mind_places().map_err(|error| error.to_string())?;
            }
            if let Some(leaving) = &self.leaving {
                let is_late = leaving.by <= Instant::now();
                if is_late || self.workers.iter().all(|post| post.member.is_none()) && !self.porter.is_open()
                {
                    self.end_desk();
                    return Ok(());
                }
            }
        }
    }

    /// Until something happens, or it is time for something.
    fn wait(&mut self, channel: &Channel) -> io::Result<()> {
        let mut flags = PollFlags::IN;
        flags.set(PollFlags::OUT, channel.sender.is_waiting());
        let mut polled = vec![PollFd::new(&self.signals, PollFlags::IN), PollFd::new(channel, flags)];
        polled.extend(self.desk.member.as_ref().and_then(|member| member.polled(true)));
        let workers = self.workers.iter().filter_map(|post| post.member.as_ref());
        polled.extend(workers.filter_map(|member| member.polled(false)));
        let is_full = self.is_full();
        if self.forks() && self.stock.is_some() {
            polled.extend(self.porter.polled(is_full));
        }
        let posts = self.workers.iter().chain([&self.desk]).filter_map(|post| post.due);
        let by = self.leaving.as_ref().map(|leaving| leaving.by);
        let due = posts.chain(by).chain(self.crowded).chain(self.porter.due(is_full)).min();
        let time = due.map(|at| at.saturating_duration_since(Instant::now()));
        let time =
            time.map(|time| Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() });
        match poll(&mut polled, time.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn forks(&self) -> bool {
        self.settings.engine == Engine::Fork
    }

    /// Does what the supervisor says.
    fn hear(&mut self, channel: &mut Channel) -> Result<(), String> {
        let _ = channel.sender.flush();
        loop {
            let (message, descriptors) = match channel.receiver.receive() {
                Ok(Some(heard)) => heard,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Ok(None) => return Err("the supervisor has ended".to_owned()),
                Err(error) => return Err(error.to_string()),
            };
            let descriptors: Arc<[OwnedFd]> = descriptors.into();
            match message {
                ToServer::Site { site, record, is_earlier } => {
                    self.site(site, record, is_earlier, &descriptors, channel)?;
                }
                ToServer::Log { of } => {
                    self.tell_desk(&message, &descriptors);
                    self.sinks.retain(|(owner, _)| *owner != of);
                    self.sinks.push((of, descriptors));
                }
                ToServer::Stop { .. } | ToServer::Drain { .. } => self.leave(message),
            }
        }
    }

    /// A site has come: the first time it is waited for, later it takes another's place.
    fn site(
        &mut self,
        number: usize,
        record: SiteTransfer,
        is_earlier: bool,
        descriptors: &Arc<[OwnedFd]>,
        channel: &mut Channel,
    ) -> Result<(), String> {
        let ours: io::Result<Vec<_>> = descriptors.iter().map(OwnedFd::try_clone).collect();
        let built = ours.map_err(|error| error.to_string()).and_then(|ours| take_over(&record, ours));
        let Some(stock) = &mut self.stock else {
            let arrived = self.arrived.get_mut(number).ok_or("there is no site of this number")?;
            arrived.add(built?, is_earlier);
            if !is_earlier {
                self.show_desk(number, record);
            }
            return self.open_when_all_is_there(channel);
        };
        if is_earlier || self.leaving.is_some() {
            return Ok(());
        }
        match built {
            Ok(built) => {
                stock.swap(number, built);
                let message = ToServer::Site { site: number, record: record.clone(), is_earlier };
                self.tell_workers(&message, descriptors);
                self.show_desk(number, record);
            }
            Err(why) => drop(channel.sender.say(&FromServer::Unfit { why })),
        }
        Ok(())
    }

    /// Once there is something to serve everywhere: serves.
    fn open_when_all_is_there(&mut self, channel: &mut Channel) -> Result<(), String> {
        if self.leaving.is_some() || !self.arrived.iter().all(Arrived::is_whole) {
            return Ok(());
        }
        let arrived = mem::take(&mut self.arrived);
        let sites =
            self.configs.iter().zip(arrived).map(|(config, arrived)| arrived.host(config, self.log.logging));
        self.stock = Some(SiteSet::new(&self.settings, sites.collect()));
        if self.forks() {
            for place in 0..self.workers.len() {
                self.vacate(place);
            }
        } else {
            let now = Instant::now();
            self.workers.iter_mut().for_each(|post| post.due = Some(now));
            // Whoever hears that it serves may count them.
            self.mind_places().map_err(|error| error.to_string())?;
        }
        let engine = self.settings.engine;
        let words = self.confined.take().unwrap_or_default().words(engine);
        let said = channel.sender.say(&FromServer::Serving { engine, instead: None, confined: words });
        said.map_err(|error| error.to_string())
    }

    /// The end is near.
    fn leave(&mut self, farewell: ToServer) {
        let (ToServer::Stop { grace } | ToServer::Drain { grace }) = farewell else { return };
        let by = Instant::now() + grace + OVERDUE;
        let by = self.leaving.as_ref().map_or(by, |before| before.by.min(by));
        self.tell_workers(&farewell, &Arc::default());
        self.tell_desk(&farewell, &Arc::default());
        self.workers.iter_mut().for_each(|post| post.due = None);
        // Who is in the backlog has begun; closing the listeners would reset them. With `prefork` the workers have them.
        match self.forks() && self.stock.is_some() {
            true => self.porter.close_when_empty(matches!(farewell, ToServer::Drain { .. })),
            false => self.porter.close(),
        }
        self.leaving = Some(PoolDraining { farewell, by });
    }

    fn tell_workers(&mut self, message: &ToServer, descriptors: &Arc<[OwnedFd]>) {
        for member in self.workers.iter_mut().filter_map(|post| post.member.as_mut()) {
            member.send(message, descriptors);
        }
    }

    fn tell_desk(&mut self, message: &ToServer, descriptors: &Arc<[OwnedFd]>) {
        if let Some(member) = &mut self.desk.member {
            member.send(message, descriptors);
        }
    }

    /// Shows the desk what is served: numbers only.
    fn show_desk(&mut self, site: usize, record: SiteTransfer) {
        let message = ToServer::Site { site, record: record.clone(), is_earlier: false };
        self.tell_desk(&message, &Arc::default());
        self.records[site] = Some(record);
    }

    /// Passes on what the desk says.
    fn hear_desk(&mut self, channel: &mut Channel) {
        let Some(desk) = &mut self.desk.member else { return };
        while let Some((message, descriptors)) = desk.hear::<FromServer>() {
            if let FromServer::LogBroken { .. } | FromServer::Asked { .. } = message {
                let _ = channel.sender.send(&message, &descriptors.into());
            }
        }
    }

    /// Notices who has ended. Nobody is left a zombie.
    fn reap(&mut self) -> io::Result<()> {
        while self.signals.next()?.is_some() {}
        loop {
            let (pid, status) = match wait(WaitOptions::NOHANG) {
                Ok(Some(ended)) => ended,
                Ok(None) | Err(Errno::CHILD) => return Ok(()),
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            let is_it = |post: &PoolSlot| post.member.as_ref().is_some_and(|member| member.pid() == pid);
            if is_it(&self.desk) {
                let end = self.desk.member.take().expect("it is there").ended(status);
                self.desk.again(Role::Aux, &end, self.tell);
            } else if let Some(place) = self.workers.iter().position(is_it) {
                let end = self.workers[place].member.take().expect("it is there").ended(status);
                self.worker_ended(place, &end);
            }
        }
    }

    fn worker_ended(&mut self, place: usize, end: &End) {
        if !end.is_good() {
            // It could not say so itself.
            self.shared.counters[place].lose_open();
            self.shared.roster.set(place, false);
        }
        if self.forks() {
            if !end.is_good() {
                (self.tell)(Notice::ConnectionLost(&end.to_string()));
            }
            self.vacate(place);
        } else if self.leaving.is_none() {
            self.workers[place].again(Role::Worker, end, self.tell);
        }
    }

    /// A place is free for a connection.
    fn vacate(&mut self, place: usize) {
        self.free.insert(place);
        match self.crowded {
            Some(_) => self.not_crowded(),
            None => self.shared.roster.set(place, true),
        }
        self.porter.has_room();
    }

    /// A connection takes a place.
    fn take(&mut self, place: usize) {
        self.free.remove(&place);
        self.shared.roster.set(place, false);
    }

    fn mind_members(&mut self) {
        for post in self.workers.iter_mut().chain([&mut self.desk]) {
            if let Some(member) = &mut post.member {
                member.flush();
            }
        }
    }

    /// Sees to it that there is a desk again where one has ended.
    fn mind_desk(&mut self) {
        let now = Instant::now();
        if self.desk.is_due(now) && self.start_desk().is_err() {
            // No room for another process: there may be, later.
            self.desk.due = Some(now + FULL_TIME);
        }
    }

    /// Sees to it that there is a process wherever there should be one.
    fn mind_places(&mut self) -> io::Result<()> {
        let now = Instant::now();
        if !self.forks() {
            for place in 0..self.workers.len() {
                let is_due = self.workers[place].is_due(now);
                let mut start = || self.start_worker(place, Channel::pair()?, &mut None);
                if is_due && start().is_err() {
                    // No room for another process: there may be, later.
                    self.workers[place].due = Some(now + FULL_TIME);
                }
            }
            return Ok(());
        }
        if self.crowded.is_some_and(|by| by <= now) {
            self.not_crowded();
        }
        while self.crowded.is_none()
            && let Some(place) = self.free.first().copied()
        {
            // Before somebody is accepted: without descriptors clients wait in the backlog.
            let Some(channel) = self.spare.take().or_else(|| Channel::pair().ok()) else {
                self.crowd(now);
                break;
            };
            let mut connection = self.porter.accept()?;
            if connection.is_none() {
                self.spare = Some(channel);
                break;
            }
            self.take(place);
            if self.start_worker(place, channel, &mut connection).is_err() {
                self.free.insert(place);
                self.crowd(now);
                if let Some(connection) = connection {
                    self.porter.refuse(connection);
                }
                break;
            }
        }
        self.porter.mind(self.is_full())
    }

    /// With `fork`: whether nobody can be served now but by those who are.
    fn is_full(&self) -> bool {
        self.free.is_empty() || self.crowded.is_some()
    }

    /// There is no room for another process: for a while, or until one ends, it is as if all places were taken. Who serves a
    /// connection that is not used is to hear of it.
    fn crowd(&mut self, now: Instant) {
        self.crowded = Some(now + FULL_TIME);
        self.free.iter().for_each(|&place| self.shared.roster.set(place, false));
    }

    /// There may be room again.
    fn not_crowded(&mut self) {
        self.crowded = None;
        self.free.iter().for_each(|&place| self.shared.roster.set(place, true));
    }

    fn start_desk(&mut self) -> io::Result<()> {
        self.desk.due = None;
        let &mut Master { is_successor, in_calls, .. } = self;
        let is_successor = is_successor && self.stock.is_none();
        let Master { alone, settings, hosts, shared, admin, logs, .. } = self;
        let SharedMemory { counters, rings, .. } = shared;
        let sites = self.configs.len();
        let bell = rings.iter().map(|(_, rings)| rings.as_fd().as_raw_fd());
        let keep: Vec<_> =
            bell.chain(admin.iter().flat_map(Listener::sockets).map(AsRawFd::as_raw_fd)).collect();
        let keep: Vec<RawFd> = keep;
        let (engine, worker_count) = (settings.engine, settings.workers().get());
        let mut member = PoolProcess::start(alone, c"tarpon-desk", Channel::pair()?, &keep, |channel| {
            let ledger = ServerStats::new(engine, worker_count, Arc::clone(counters), hosts, sites);
            let (admin, counters) = (admin.take(), Arc::clone(counters));
            let rings = rings.as_ref().map(|(_, rings)| rings);
            aux_process::run(
                aux_process::AuxStart { admin, is_successor, logs, rings, ledger, counters, sites, in_calls },
                channel,
            )
        })?;
        for (of, sink) in &self.sinks {
            member.send(&ToServer::Log { of: *of }, sink);
        }
        for (site, record) in self.records.iter().enumerate() {
            if let Some(record) = record.clone() {
                member.send(&ToServer::Site { site, record, is_earlier: false }, &Arc::default());
            }
        }
        if let Some(leaving) = &self.leaving {
            member.send(&leaving.farewell, &Arc::default());
        }
        self.desk.member = Some(member);
        Ok(())
    }

    /// Lets go of the desk, and waits until it has written what is left.
    fn end_desk(&mut self) {
        let Some(desk) = self.desk.member.take() else { return };
        let pid = desk.pid();
        drop(desk);
        let by = Instant::now() + DESK_TIME_MAX;
        while Instant::now() < by {
            match rustix::process::waitpid(Some(pid), WaitOptions::NOHANG) {
                Ok(None) => {
                    let time = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
                    let _ = poll(&mut [PollFd::new(&self.signals, PollFlags::IN)], Some(&time));
                    while let Ok(Some(_)) = self.signals.next() {}
                }
                _ => return,
            }
        }
    }

    /// Starts a worker: for one connection, or for all that it accepts.
    fn start_worker(
        &mut self,
        place: usize,
        channel: (Channel, Channel),
        connection: &mut Option<OwnedFd>,
    ) -> io::Result<()> {
        let Master { alone, settings, narrowing, hosts, shared, porter, stock: all, .. } = self;
        let Some(stock) = all else { return Ok(()) };
        stock.drop_damaged();
        let is_for_all = connection.is_none();
        let bell = shared.rings.iter().map(|(_, rings)| rings.as_fd().as_raw_fd());
        let listeners = porter.listeners().iter().filter(|_| connection.is_none());
        let own = listeners.chain(connection.as_ref()).map(AsRawFd::as_raw_fd);
        let keep: Vec<RawFd> = stock.descriptors().chain(bell).chain(own).collect();
        if is_for_all {
            // Before it begins: from then on it says so itself, and may be busy at once.
            shared.roster.set(place, true);
        }
        let started = PoolProcess::start(alone, c"tarpon-worker", channel, &keep, |channel| {
            let work = || {
                narrowing.confine()?;
                // Not kept beside the outfit: a site is there for as long as it is served.
                let stock = all.take().expect("it was there when the process was made");
                let outfit = WorkerConfig {
                    number: place,
                    worker_count: settings.workers().get(),
                    roster: shared.roster.clone(),
                    listeners: Vec::new(),
                    mailbox: Arc::new(worker_process::mailbox(channel, stock.histories().to_vec())?),
                    sites: stock.sites(),
                    hosts: Arc::clone(hosts),
                    loader: None,
                    connection_count_max: 1,
                    health_path: settings.health_path.as_ref().map(|path| path.as_bytes().into()),
                    counters: shared.counters.part(place),
                    log: shared.rings.as_ref().map(|(recording, rings)| {
                        // Chance begins elsewhere in each process.
                        let seed = recording.seed.wrapping_add(std::process::id().into());
                        (Recording { seed, ..recording.clone() }, rings.inlet(place))
                    }),
                };
                drop(stock);
                match connection.take() {
                    Some(connection) => blocking::serve(outfit, connection),
                    None => blocking::run(
                        WorkerConfig { listeners: porter.take(), ..outfit },
                        WorkerReady::unheard(),
                    ),
                }
            };
            match work() {
                Ok(()) => 0,
                Err(error) => {
                    tracing::warn!("a worker process cannot go on: {error}");
                    1
                }
            }
        });
        let mut member = started.inspect_err(|_| self.shared.roster.set(place, false))?;
        if let Some(leaving) = &self.leaving {
            member.send(&leaving.farewell, &Arc::default());
        }
        self.workers[place].member = Some(member);
        self.workers[place].due = None;
        Ok(())
    }
}

/// How long nobody is tried to be started where there was no room for another process.
const FULL_TIME: Duration = Duration::from_secs(1);

/// Whether a child can do something that every worker does before it meets a client: known before a client waits for one.
fn try_in_child(alone: &SingleThreaded, attempt: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let child = alone.spawn(&[], || match attempt() {
        Ok(()) => 0,
        Err(error) => {
            tracing::warn!("a worker process cannot be confined: {error}");
            1
        }
    })?;
    let ended = rustix::io::retry_on_intr(|| rustix::process::waitpid(Some(child), WaitOptions::empty()))?;
    match ended.is_some_and(|(_, status)| status.exit_status() == Some(0)) {
        true => Ok(()),
        false => Err(io::Error::other("a worker process cannot be")),
    }
}

impl SharedMemory {
    fn new(count: usize, logs: &LogPlan) -> io::Result<SharedMemory> {
        let rings = match logs.recording() {
            Some(recording) => Some((recording, LogRings::new(count)?)),
            None => None,
        };
        let roster = Arc::new(SharedArray::new(1)?).part(0);
        Ok(SharedMemory { counters: Arc::new(SharedArray::new(count + 1)?), roster, rings })
    }
}

impl PoolSlot {
    /// Its process has ended, and another will take its place.
    fn again(&mut self, role: Role, end: &End, tell: fn(Notice<'_>)) {
        let after = self.backoff.after(end.lived);
        tell(Notice::Ended { role, how: &end.to_string(), again_after: after });
        self.due = Some(Instant::now() + after);
    }

    fn is_due(&self, now: Instant) -> bool {
        self.due.is_some_and(|due| due <= now)
    }
}
