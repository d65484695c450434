//! The master: receives sites and orders from the supervisor, passes them on to the processes of the pool, and shuts the pool down.

use super::{
    acceptor::Acceptor,
    slots::{PoolSlot, end_aux},
    start::try_in_child,
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
        counters::ServerCounters,
        listeners::Listener,
        process::{
            channel::Channel,
            message::{FromServer, ToServer},
        },
        sandbox::{self, Confinement, WorkerSeccomp},
        server_process::{PendingSite, ServerStart as Start, receive_site as take_over},
        supervisor::Notice,
    },
    data::{log_ring::LogRings, worker::idle_workers::IdleWorkers},
    site::{set::SiteSet, transfer::SiteTransfer, virtual_hosts},
    sys::{
        process::SingleThreaded,
        shared::{SharedArray, SharedRow},
        signals::Signals,
    },
};
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
    process::Signal,
    time::Timespec,
};
use std::{
    collections::BTreeSet,
    io, mem,
    os::fd::OwnedFd,
    sync::Arc,
    time::{Duration, Instant},
};
use tarpon_conn::{Hosts, Recording, SiteId};

/// The master. It has a single thread, so that it may fork at any time.
pub(super) struct Master<'a> {
    pub(super) single_threaded: SingleThreaded,
    /// Reports SIGCHLD.
    pub(super) signals: Signals,
    pub(super) settings: Settings,
    pub(super) site_configs: &'a [SiteConfig],
    /// A seccomp filter confines this process.
    pub(super) has_seccomp: bool,
    pub(super) emit: fn(Notice<'_>),
    /// The sandbox of this process. `None` after the master has reported it to the supervisor.
    confinement: Option<Confinement>,
    pub(super) worker_seccomp: WorkerSeccomp,
    pub(super) hosts: Arc<Hosts>,
    pub(super) shared: SharedMemory,
    pub(super) acceptor: Acceptor,
    pub(super) admin: Option<Listener>,
    /// Another server answers at the admin listener until this server serves.
    pub(super) is_successor: bool,
    pub(super) aux: PoolSlot,
    log_config: &'a LogConfig,
    pub(super) logs: LogPlan,
    /// The descriptors of each log: an aux process that starts later gets them too.
    pub(super) log_sinks: Vec<(LogOwner, Arc<[OwnedFd]>)>,
    /// By the number of the site: the versions that the supervisor has sent. Empty once the pool serves.
    pending: Vec<PendingSite>,
    /// By the number of the site: its last transfer, without descriptors, and how often it was loaded. An aux process that starts later gets it too.
    pub(super) transfers: Vec<Option<(SiteTransfer, u64)>>,
    /// `None` until the supervisor has sent every site.
    pub(super) sites: Option<SiteSet>,
    pub(super) workers: Vec<PoolSlot>,
    /// With `fork`: slots without a process.
    pub(super) free_slots: BTreeSet<usize>,
    /// With `fork`: the time of the next attempt after a failed fork.
    pub(super) fork_after: Option<Instant>,
    /// With `fork`: the channel for the next worker.
    pub(super) spare_channel: Option<(Channel, Channel)>,
    pub(super) draining: Option<PoolDraining>,
}

/// Memory that all processes of the pool share.
pub(super) struct SharedMemory {
    /// One row for each worker, and the last for the master.
    pub(super) counters: ServerCounters,
    pub(super) idle_workers: SharedRow<IdleWorkers>,
    pub(super) rings: Option<(Recording, LogRings)>,
}

/// A shutdown under way.
pub(super) struct PoolDraining {
    /// The latest message about the shutdown, for processes that start later.
    pub(super) message: ToServer,
    /// The master exits at this time at the latest.
    deadline: Instant,
}

/// How much longer than the grace period a worker may take to exit.
const OVERDUE: Duration = Duration::from_secs(2);

impl<'a> Master<'a> {
    /// Confines this process and starts the aux process.
    pub(super) fn new(start: Start<'a>, channel: &mut Channel) -> Result<Master<'a>, String> {
        let Start {
            settings,
            listeners,
            admin,
            is_successor,
            sites,
            unknown_host: unknown,
            log,
            privileges: rights,
            counters,
            emit: tell,
            ..
        } = start;
        let unconfined = |error| sandbox::unconfined(&error);
        let in_words = |error: io::Error| error.to_string();
        // These two come before the sandbox, which forbids opening files.
        let single_threaded = SingleThreaded::new().map_err(in_words)?;
        let signals = Signals::block(&[Signal::CHILD]).map_err(in_words)?;
        rights.assume().map_err(|error| error.to_string())?;
        let confinement = sandbox::confine_master(rights).map_err(unconfined)?;
        let has_seccomp = confinement.has_seccomp;
        let worker_seccomp = WorkerSeccomp::new(has_seccomp).map_err(unconfined)?;
        try_in_child(&single_threaded, || worker_seccomp.confine()).map_err(unconfined)?;
        channel.set_nonblocking().map_err(in_words)?;
        let names = sites.iter().map(|site| (&site.hosts[..], &site.redirect_hosts[..]));
        let hosts = Arc::new(virtual_hosts::host_table(names, unknown).map_err(|error| error.to_string())?);
        let count = settings.workers().get();
        let site_logs = sites.iter().enumerate().map(|(number, site)| {
            let name = hosts.canonical(SiteId::new(number));
            (site.log.resolve(log.logging), name.map(|name| String::from_utf8_lossy(name).into_owned()))
        });
        let logs = LogPlan::new(settings.logging, site_logs, settings.debug);
        let shared = SharedMemory::new(counters.with_rows(count + 1).map_err(in_words)?, count, &logs)
            .map_err(in_words)?;
        let listeners = listeners.into_iter().flat_map(Listener::into_sockets).collect();
        let acceptor = Acceptor::new(listeners, shared.counters.row(count)).map_err(in_words)?;
        let mut master = Master {
            single_threaded,
            signals,
            settings: settings.clone(),
            site_configs: sites,
            has_seccomp,
            emit: tell,
            confinement: Some(confinement),
            worker_seccomp,
            hosts,
            shared,
            acceptor,
            admin,
            is_successor,
            aux: PoolSlot::default(),
            log_config: log,
            logs,
            log_sinks: Vec::new(),
            pending: sites.iter().map(|_| PendingSite::default()).collect(),
            transfers: sites.iter().map(|_| None).collect(),
            sites: None,
            workers: (0..count).map(|_| PoolSlot::default()).collect(),
            free_slots: BTreeSet::new(),
            fork_after: None,
            spare_channel: None,
            draining: None,
        };
        master.start_aux().map_err(in_words)?;
        Ok(master)
    }

    /// Runs the event loop until a shutdown is complete.
    pub(super) fn run(&mut self, channel: &mut Channel) -> Result<(), String> {
        loop {
            self.wait(channel).map_err(|error| error.to_string())?;
            self.receive(channel)?;
            self.receive_from_aux(channel);
            self.reap().map_err(|error| error.to_string())?;
            self.flush_processes();
            self.update_aux();
            if self.sites.is_some() {
                self.update_slots().map_err(|error| error.to_string())?;
            }
            if let Some(draining) = &self.draining {
                let is_late = draining.deadline <= Instant::now();
                if is_late
                    || self.workers.iter().all(|slot| slot.process.is_none()) && !self.acceptor.is_open()
                {
                    end_aux(&mut self.aux, &mut self.signals);
                    return Ok(());
                }
            }
        }
    }

    /// Waits for an event or until the next deadline.
    fn wait(&mut self, channel: &Channel) -> io::Result<()> {
        let mut flags = PollFlags::IN;
        flags.set(PollFlags::OUT, channel.sender.waits_for_room());
        let mut polled = vec![PollFd::new(&self.signals, PollFlags::IN), PollFd::new(channel, flags)];
        polled.extend(self.aux.process.as_ref().and_then(|process| process.polled(true)));
        let workers = self.workers.iter().filter_map(|slot| slot.process.as_ref());
        polled.extend(workers.filter_map(|process| process.polled(false)));
        let is_full = self.is_full();
        if self.forks() && self.sites.is_some() {
            polled.extend(self.acceptor.polled(is_full));
        }
        let starts = self.workers.iter().chain([&self.aux]).filter_map(|slot| slot.start_at);
        let deadline = self.draining.as_ref().map(|draining| draining.deadline);
        let due = starts.chain(deadline).chain(self.fork_after).chain(self.acceptor.due(is_full)).min();
        let time = due.map(|at| at.saturating_duration_since(Instant::now()));
        let time =
            time.map(|time| Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() });
        match poll(&mut polled, time.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns whether the engine is `fork`, with a process for each connection.
    pub(super) fn forks(&self) -> bool {
        self.settings.engine == Engine::Fork
    }

    /// Receives and handles messages of the supervisor.
    fn receive(&mut self, channel: &mut Channel) -> Result<(), String> {
        let _ = channel.sender.flush();
        loop {
            let (message, descriptors) = match channel.receiver.receive() {
                Ok(Some(received)) => received,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Ok(None) => return Err("the supervisor has exited".to_owned()),
                Err(error) => return Err(error.to_string()),
            };
            let descriptors: Arc<[OwnedFd]> = descriptors.unwrap_or_default().into();
            match message {
                ToServer::Site { site, transfer: record, is_earlier, loads } => {
                    self.add_site(site, (record, loads), is_earlier, &descriptors, channel)?;
                }
                ToServer::Log { of } => {
                    self.send_to_aux(&message, &descriptors);
                    self.log_sinks.retain(|(owner, _)| *owner != of);
                    self.log_sinks.push((of, descriptors));
                }
                ToServer::Stop { .. } | ToServer::Drain { .. } => self.shut_down(message),
            }
        }
    }

    /// Adds a version of a site. Until the pool serves, it counts towards the start; later, it replaces the version that is served.
    fn add_site(
        &mut self,
        number: usize,
        (record, loads): (SiteTransfer, u64),
        is_earlier: bool,
        descriptors: &Arc<[OwnedFd]>,
        channel: &mut Channel,
    ) -> Result<(), String> {
        let ours: io::Result<Vec<_>> = descriptors.iter().map(OwnedFd::try_clone).collect();
        let built = ours.map_err(|error| error.to_string()).and_then(|ours| take_over(&record, Ok(ours)));
        let Some(sites) = &mut self.sites else {
            let pending = self.pending.get_mut(number).ok_or("there is no site of this number")?;
            pending.add(built, is_earlier, loads)?;
            if !is_earlier {
                self.send_site_to_aux(number, record, loads);
            }
            return self.serve_if_complete(channel);
        };
        if is_earlier || self.draining.is_some() {
            return Ok(());
        }
        match built {
            Ok(built) => {
                sites.swap(number, built);
                let message = ToServer::Site { site: number, transfer: record.clone(), is_earlier, loads };
                self.send_to_workers(&message, descriptors);
                self.send_site_to_aux(number, record, loads);
            }
            Err(why) => drop(channel.sender.send(&FromServer::SiteRejected { why })),
        }
        Ok(())
    }

    /// Starts to serve if the supervisor has sent the current version of every site.
    fn serve_if_complete(&mut self, channel: &mut Channel) -> Result<(), String> {
        if self.draining.is_some() || !self.pending.iter().all(PendingSite::is_complete) {
            return Ok(());
        }
        let pending = mem::take(&mut self.pending);
        let logging = self.log_config.logging;
        let sites =
            self.site_configs.iter().zip(pending).map(|(config, pending)| pending.host(config, logging));
        self.sites = Some(SiteSet::new(&self.settings, sites.collect()));
        if self.forks() {
            for slot in 0..self.workers.len() {
                self.free_slot(slot);
            }
        } else {
            let now = Instant::now();
            self.workers.iter_mut().for_each(|slot| slot.start_at = Some(now));
            // The message below reports that the server serves, so its workers must exist before.
            self.update_slots().map_err(|error| error.to_string())?;
        }
        let engine = self.settings.engine;
        let confined = self.confinement.take().unwrap_or_default().summary(engine);
        let sent = channel.sender.send(&FromServer::Serving {
            engine,
            fallback_reason: None,
            confinement: confined,
        });
        sent.map_err(|error| error.to_string())
    }

    /// Starts a shutdown, or shortens the one under way.
    fn shut_down(&mut self, message: ToServer) {
        let (ToServer::Stop { grace } | ToServer::Drain { grace }) = message else { return };
        let deadline = Instant::now() + grace + OVERDUE;
        let deadline = self.draining.as_ref().map_or(deadline, |before| before.deadline.min(deadline));
        self.send_to_workers(&message, &Arc::default());
        self.send_to_aux(&message, &Arc::default());
        self.workers.iter_mut().for_each(|slot| slot.start_at = None);
        // When the last descriptor of a listener closes, the kernel resets the clients in its backlog. With `fork` the master accepts them
        // first; with `prefork` the workers have the listeners too.
        match self.forks() && self.sites.is_some() {
            true => self.acceptor.close_when_empty(matches!(message, ToServer::Drain { .. })),
            false => self.acceptor.close(),
        }
        self.draining = Some(PoolDraining { message, deadline });
    }

    fn send_to_workers(&mut self, message: &ToServer, descriptors: &Arc<[OwnedFd]>) {
        for process in self.workers.iter_mut().filter_map(|slot| slot.process.as_mut()) {
            process.send(message, descriptors);
        }
    }

    fn send_to_aux(&mut self, message: &ToServer, descriptors: &Arc<[OwnedFd]>) {
        if let Some(process) = &mut self.aux.process {
            process.send(message, descriptors);
        }
    }

    /// Sends a site transfer to the aux process without the descriptors: its statistics need only the counts.
    fn send_site_to_aux(&mut self, site: usize, record: SiteTransfer, loads: u64) {
        let message = ToServer::Site { site, transfer: record.clone(), is_earlier: false, loads };
        self.send_to_aux(&message, &Arc::default());
        self.transfers[site] = Some((record, loads));
    }

    /// Forwards reports of broken logs and admin requests from the aux process to the supervisor.
    fn receive_from_aux(&mut self, channel: &mut Channel) {
        let Some(aux) = &mut self.aux.process else { return };
        while let Some((message, descriptors)) = aux.receive::<FromServer>() {
            if let FromServer::LogBroken { .. } | FromServer::AdminRequest { .. } = message {
                let _ = channel.sender.send_with(&message, &descriptors.into());
            }
        }
    }
}

impl SharedMemory {
    fn new(counters: ServerCounters, count: usize, logs: &LogPlan) -> io::Result<SharedMemory> {
        let rings = match logs.recording() {
            Some(recording) => Some((recording, LogRings::new(count)?)),
            None => None,
        };
        let idle_workers = Arc::new(SharedArray::new(1)?).row(0);
        Ok(SharedMemory { counters, idle_workers, rings })
    }
}
