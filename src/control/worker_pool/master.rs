//! The driver of a worker pool: waits in one poll(2), passes what happens to the [machine](WorkerPool), and performs what it decides.
//!
//! It never waits elsewhere, and costs the same per event however many workers there are.

use super::{
    channels::WorkerChannels,
    listeners::PoolListeners,
    machine::{PoolConfig, WorkerPool},
    start::try_in_child,
    vocabulary::{ArrivalId, ClientId, PoolAction, PoolEvent},
};
use crate::{
    base::{
        address::ListenAddress, engine::Engine, error::reason, log_config::LogConfig, settings::Settings,
        site_config::SiteConfig,
    },
    control::{
        access_log::LogPlan,
        client_limits::{self, SiteLimitsSource},
        counters::ServerCounters,
        helper_stats::HelperStats,
        hot_paths::HotPathTables,
        listeners::Listener,
        process::{
            ProcessId,
            channel::{Channel, THROTTLE_TIME},
            children::Children,
            clock::{self, MonotonicClock},
            notice_limit::NoticeLimit,
        },
        process_usage::ProcessUsage,
        sandbox::{self, Confinement, WorkerSeccomp},
        server::ServerHelpers,
        server_process::{self, ServerStart},
        supervisor::Notice,
        tls::tickets::TicketKeys,
    },
    data::{
        acme_table::AcmeTable,
        connection_limit::{ConnectionLimit, ConnectionOwner},
        engine::{AcceptedSocket, blocking::PreparedWorker},
        log_ring::LogRings,
        services::ServiceEndpoint,
        worker::{Backends, PasswordJobs, SocketSettings, idle_workers::IdleWorkers},
    },
    site::{
        server_routes::{SiteAddress, server_routes},
        set::SiteSet,
        transfer::SiteTransfer,
    },
    sys::{
        poll::{PollEntry, poll},
        process::SingleThreaded,
        shared::{SharedArray, SharedRow},
        signals::Signals,
    },
};
use libc::{POLLIN, POLLOUT};
use rustix::{io::Errno, process::Signal};
use std::{
    collections::{HashMap, VecDeque},
    io,
    iter::repeat_n,
    mem,
    os::fd::{AsFd, RawFd},
    sync::Arc,
    thread,
    time::Duration,
};
use tarpon_conn::{ClientLimits, Recording, RouteTable};

/// The master. It has a single thread, so that it may fork at any time.
pub(super) struct Master<'a> {
    machine: WorkerPool,
    /// Actions to perform.
    queue: VecDeque<PoolAction>,
    /// Actions that the machine has just decided. Empty between events.
    decided: Vec<PoolAction>,
    /// The entries of the last wait. Kept, so that a wait allocates nothing.
    polled: Vec<PollEntry>,
    /// Decided, and set at the end.
    pub(super) exit_status: Option<i32>,
    pub(super) clock: MonotonicClock,
    /// Reports SIGCHLD.
    signals: Signals,
    /// The channel to the supervisor.
    pub(super) channel: &'a mut Channel,
    /// The channel is at EOF: nothing more is received.
    pub(super) is_supervisor_gone: bool,
    pub(super) single_threaded: SingleThreaded,
    pub(super) settings: Settings,
    pub(super) site_configs: &'a [SiteConfig],
    pub(super) log_config: &'a LogConfig,
    /// A seccomp filter confines this process.
    pub(super) has_seccomp: bool,
    pub(super) emit: fn(Notice<'_>),
    /// The sandbox of this process.
    pub(super) confinement: Confinement,
    pub(super) worker_seccomp: WorkerSeccomp,
    pub(super) routes: Arc<[RouteTable]>,
    /// A name for each site.
    pub(super) labels: Vec<Option<String>>,
    pub(super) shared: SharedMemory,
    pub(super) listeners: PoolListeners,
    /// For each listening socket.
    pub(super) socket_settings: Arc<[SocketSettings]>,
    pub(super) admin: Option<Listener>,
    /// The keys of session tickets. This process makes none, but each worker begins with a copy.
    pub(super) ticket_keys: Option<Arc<TicketKeys>>,
    /// Another server answers at the admin listener until this server serves.
    pub(super) is_successor: bool,
    pub(super) logs: LogPlan,
    pub(super) children: Children,
    /// Messages with descriptors that the machine has not released.
    pub(super) arrivals: HashMap<ArrivalId, super::arrivals::Arrival>,
    /// Accepted clients that no worker serves.
    pub(super) clients: HashMap<ClientId, AcceptedSocket>,
    pub(super) notice_limit: NoticeLimit,
    /// The last number of an arrival or a client.
    last_number: u64,
    /// What new workers serve. `None` until the machine [serves](PoolAction::Serve).
    pub(super) sites: Option<SiteSet>,
    /// By the number of the site: the transfer and the loads of the served version, for the statistics of the aux process.
    pub(super) transfers: Vec<Option<(SiteTransfer, u64)>>,
    /// With `fork`: the next worker, and the channel to it. Both come before the client: without descriptors, the client waits in the backlog.
    pub(super) next_worker: Option<NextWorker>,
    pub(super) channels: WorkerChannels,
}

/// The worker of the next client.
pub(super) struct NextWorker {
    pub(super) worker: Box<PreparedWorker>,
    /// The descriptors that the process inherits, beside those of its own.
    pub(super) keep: Vec<RawFd>,
}

/// Memory that all processes of the pool share.
pub(super) struct SharedMemory {
    /// One row for each worker, and the last for the master.
    pub(super) counters: ServerCounters,
    /// The most frequent paths, one table for each worker.
    pub(super) hot_paths: Option<HotPathTables>,
    pub(super) idle_workers: SharedRow<IdleWorkers>,
    pub(super) rings: Option<(Recording, LogRings)>,
    /// The limits of clients, with what all servers of the service count.
    pub(super) client_limits: Option<Arc<ClientLimits>>,
    /// The limit of the connections of each address.
    pub(super) connection_limit: Option<ConnectionLimit>,
    /// What verifies passwords. `None`: no path has one.
    pub(super) password_jobs: Option<PasswordJobs>,
    /// Also shared with all other processes of the service.
    pub(super) acme: Option<Arc<AcmeTable>>,
    /// The backends of the workers, what their helpers count, and the descriptors that reach the helpers.
    pub(super) backends: Backends,
    pub(super) helper_stats: Option<HelperStats>,
    /// What tells the usage of the master.
    pub(super) usage: Option<Arc<ProcessUsage>>,
    pub(super) helpers: Vec<ServiceEndpoint>,
}

/// What a wait has found.
#[derive(Debug, Default)]
struct MasterReady {
    has_signal: bool,
    supervisor: bool,
    children: Vec<ProcessId>,
    has_client: bool,
}

/// How long the master waits before it polls again after poll(2) has failed: the system is out of memory.
const POLL_RETRY_TIME: Duration = Duration::from_millis(10);

/// Messages that are received from one process before others have their turn.
const MESSAGES_MAX: usize = 64;

impl<'a> Master<'a> {
    /// Confines this process.
    pub(super) fn new(start: ServerStart<'a>, channel: &'a mut Channel) -> Result<Master<'a>, String> {
        let ServerStart {
            settings,
            listeners,
            admin,
            is_successor,
            sites,
            unknown_host,
            log,
            privileges,
            counters,
            limit_tables,
            acme,
            cgi,
            cgi_stats,
            upstreams,
            states,
            emit,
        } = start;
        let unconfined = |error| sandbox::unconfined(&error);
        let in_words = |error: io::Error| error.to_string();
        // These come before the sandbox, which forbids opening files.
        let usage = Arc::new(ProcessUsage::of_this_process());
        let single_threaded = SingleThreaded::new().map_err(in_words)?;
        let signals = Signals::block(&[Signal::CHILD]).map_err(in_words)?;
        privileges.assume().map_err(|error| error.to_string())?;
        let confinement = sandbox::confine_master(privileges).map_err(unconfined)?;
        let has_seccomp = confinement.has_seccomp;
        let worker_seccomp = WorkerSeccomp::new(has_seccomp).map_err(unconfined)?;
        try_in_child(&single_threaded, || worker_seccomp.confine()).map_err(unconfined)?;
        channel.set_nonblocking();
        let addresses = sites.iter().map(|site| SiteAddress {
            names: &site.hosts,
            redirect_hosts: &site.redirect_hosts,
            mount: site.mount.as_ref(),
            listen: site.listen.iter().flat_map(ListenAddress::addresses).collect(),
            https_port: site.redirects_to_https.unwrap_or(false).then_some(site.https_port),
        });
        let labels: Vec<Option<String>> = addresses.clone().map(|address| address.label()).collect();
        let policies: Vec<_> = listeners.iter().map(Listener::policy).collect();
        let routes = server_routes(addresses, unknown_host, &policies).map_err(|error| error.to_string())?;
        let slot_count = settings.workers().get();
        let site_logs = sites.iter().map(|site| site.log.resolve(log.logging)).zip(labels.clone());
        let logs = LogPlan::new(settings.logging, site_logs, settings.debug);
        // A row for each worker, and one for this process.
        let counters = counters.with_rows(slot_count + 1).map_err(in_words)?;
        let upstream_stats = upstreams.as_ref().map(|upstreams| upstreams.stats.clone());
        let stats = HelperStats { acme, cgi: cgi_stats, upstreams: upstream_stats, states: Some(states) };
        let helpers = server_process::helpers(cgi.as_ref(), upstreams.as_ref(), stats, usage);
        let helpers = helpers.map_err(|error| error.to_string())?;
        let endpoints = upstreams.iter().flat_map(|upstreams| upstreams.endpoints()).cloned();
        let endpoints = cgi.iter().map(|cgi| cgi.workers.clone()).chain(endpoints).collect();
        let paths = sites.iter().zip(&labels).map(|(site, label)| SiteLimitsSource {
            mount: site.mount.as_ref(),
            label: label.as_deref(),
            paths: &site.path_limits,
        });
        let client_limits = client_limits::resolve(settings, paths, &limit_tables);
        // The master itself holds no connection.
        let owner = ConnectionOwner::of_place(counters.place(slot_count));
        let has_lists = listeners.iter().any(Listener::has_address_list);
        let connection_limit = limit_tables.connection_limit(settings, has_lists, owner, slot_count);
        let shared = SharedMemory::new(counters, slot_count, &logs, helpers, endpoints).map_err(in_words)?;
        let has_passwords = client_limits.as_ref().is_some_and(|limits| !limits.passwords.is_empty());
        let password_jobs = has_passwords.then(|| PasswordJobs::Here(limit_tables.password_turns().clone()));
        let hot_paths = HotPathTables::new(settings.hot_paths, slot_count).map_err(in_words)?;
        let shared = SharedMemory { hot_paths, client_limits, connection_limit, password_jobs, ..shared };
        let settings_of = |listener: &Listener| {
            repeat_n(listener.settings(&routes, settings.http2), listener.sockets().len())
        };
        let socket_settings = listeners.iter().flat_map(settings_of).collect();
        let routes = shared.backends.add_routes(&routes.tables).map_err(|error| error.to_string())?;
        let ticket_keys = listeners.iter().find_map(Listener::ticket_keys).cloned();
        let listeners = listeners.into_iter().flat_map(Listener::into_sockets).collect();
        let machine = WorkerPool::new(PoolConfig {
            forks: settings.engine == Engine::Fork,
            slot_count,
            site_count: sites.len(),
            has_log: shared.rings.is_some(),
        });
        Ok(Master {
            machine,
            queue: VecDeque::new(),
            decided: Vec::new(),
            polled: Vec::new(),
            exit_status: None,
            clock: MonotonicClock::new(),
            signals,
            channel,
            is_supervisor_gone: false,
            single_threaded,
            settings: settings.clone(),
            site_configs: sites,
            log_config: log,
            has_seccomp,
            emit,
            confinement,
            worker_seccomp,
            routes,
            labels,
            shared,
            listeners: PoolListeners::new(listeners).map_err(in_words)?,
            socket_settings,
            ticket_keys,
            admin,
            is_successor,
            logs,
            children: Children::default(),
            arrivals: HashMap::new(),
            notice_limit: NoticeLimit::default(),
            clients: HashMap::new(),
            last_number: 0,
            sites: None,
            transfers: sites.iter().map(|_| None).collect(),
            next_worker: None,
            channels: WorkerChannels::default(),
        })
    }

    /// Runs until the machine exits. Returns the exit status.
    ///
    /// # Errors
    /// The kernel does not let this process wait or reap.
    pub(super) fn run(&mut self) -> io::Result<i32> {
        self.handle(PoolEvent::Timer);
        loop {
            if let Some(status) = self.exit_status {
                return Ok(status);
            }
            let ready = self.wait();
            if ready.supervisor {
                self.receive_from_supervisor();
            }
            for process in ready.children {
                self.receive_from(process);
            }
            self.children.flush();
            if ready.has_signal {
                self.reap()?;
            }
            if ready.has_client {
                self.handle(PoolEvent::ClientWaits);
            }
            self.emit_suppressed();
            if self.machine.deadline().is_some_and(|at| at <= self.clock.now()) {
                self.handle(PoolEvent::Timer);
            }
        }
    }

    /// Waits for an event or until the next deadline.
    fn wait(&mut self) -> MasterReady {
        let mut polled = mem::take(&mut self.polled);
        polled.clear();
        polled.push(PollEntry::new(self.signals.as_fd(), POLLIN));
        if !self.is_supervisor_gone {
            let output = if self.channel.sender.waits_for_room() { POLLOUT } else { 0 };
            polled.push(PollEntry::new(self.channel.as_fd(), POLLIN | output));
        }
        let first_child = polled.len();
        polled.extend(self.children.polled().map(|(_, entry)| entry));
        let first_listener = polled.len();
        if self.machine.polls_listeners(self.clock.now()) {
            polled.extend(self.listeners.polled());
        }
        let deadlines = [self.machine.deadline(), self.notice_limit.deadline()];
        let deadline = deadlines.into_iter().flatten().min().map(|at| self.clock.until(at));
        let throttled = self.channel.sender.is_throttled().then_some(THROTTLE_TIME);
        let time = [deadline, throttled, self.children.wait_max()].into_iter().flatten().min();
        let ready = match poll(&mut polled, time.map(clock::whole_ms)) {
            Ok(_) => {
                let is_ready = |entry: &PollEntry| entry.revents() != 0;
                let children = self.children.polled().zip(&polled[first_child..first_listener]);
                MasterReady {
                    has_signal: is_ready(&polled[0]),
                    supervisor: polled[1..first_child].iter().any(is_ready) || throttled.is_some(),
                    children: children.filter(|(_, entry)| is_ready(entry)).map(|((id, _), _)| id).collect(),
                    has_client: polled[first_listener..].iter().any(is_ready),
                }
            }
            Err(Errno::INTR) => MasterReady::default(),
            // The system is out of memory.
            Err(_) => {
                thread::sleep(POLL_RETRY_TIME);
                MasterReady::default()
            }
        };
        self.polled = polled;
        ready
    }

    /// Passes an event to the machine, performs what it decides, and passes on the results, until nothing is left to do.
    pub(super) fn handle(&mut self, event: PoolEvent) {
        let mut event = Some(event);
        loop {
            if let Some(event) = event.take() {
                let Master { machine, clock, decided, queue, .. } = self;
                machine.handle(clock.now(), event, decided);
                queue.extend(decided.drain(..));
            }
            let Some(action) = self.queue.pop_front() else { return };
            event = self.perform(action);
        }
    }

    /// Receives and handles messages of the supervisor, and sends those that wait for it.
    fn receive_from_supervisor(&mut self) {
        let _ = self.channel.sender.flush();
        for _ in 0..MESSAGES_MAX {
            let event = match self.channel.receiver.receive() {
                Ok(Some((message, descriptors))) => self.arrived(message, descriptors),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                ended => {
                    self.is_supervisor_gone = true;
                    let why = match ended {
                        Err(error) => reason(&error),
                        _ => "the supervisor has exited".to_owned(),
                    };
                    PoolEvent::SupervisorGone { why }
                }
            };
            self.handle(event);
            if self.is_supervisor_gone || self.exit_status.is_some() {
                return;
            }
        }
    }

    /// Receives and handles messages of a child.
    fn receive_from(&mut self, process: ProcessId) {
        for _ in 0..MESSAGES_MAX {
            // A child that violates the protocol is not received from any more.
            let Ok(Some((message, descriptors))) = self.children.receive(process) else { return };
            if let Some(event) = self.child_reports(message, descriptors) {
                self.handle(event);
            }
        }
    }

    /// Reaps all processes that have exited.
    fn reap(&mut self) -> io::Result<()> {
        while self.signals.next()?.is_some() {}
        while let Some((process, exit)) = self.children.reap()? {
            self.receive_from(process);
            let channel = self.children.remove(process);
            self.channels.end(process, channel, exit.is_success());
            self.handle(PoolEvent::Exited { process, exit });
        }
        Ok(())
    }

    /// Returns a new number for an arrival or a client.
    pub(super) fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }
}

impl SharedMemory {
    fn new(
        counters: ServerCounters,
        slot_count: usize,
        logs: &LogPlan,
        ServerHelpers { acme, backends, stats, usage, .. }: ServerHelpers,
        helpers: Vec<ServiceEndpoint>,
    ) -> io::Result<SharedMemory> {
        let rings = match logs.recording() {
            Some(recording) => Some((recording, LogRings::new(slot_count)?)),
            None => None,
        };
        let idle_workers = Arc::new(SharedArray::new(1)?).row(0);
        Ok(SharedMemory {
            client_limits: None,
            connection_limit: None,
            password_jobs: None,
            counters,
            hot_paths: None,
            idle_workers,
            rings,
            acme,
            backends,
            helper_stats: stats,
            usage,
            helpers,
        })
    }
}
