//! Forks the aux process and the workers.

use super::{
    aux_process::{self, AuxStart},
    channels::WorkerChannel,
    master::{Master, NextWorker, SharedMemory},
    vocabulary::ClientId,
    worker_process,
};
use crate::{
    base::settings::Settings,
    control::{
        listeners::Listener,
        process::{ProcessId, channel::Channel, fork::fork},
        stats::ServerStats,
    },
    data::{
        connection_limit::ConnectionOwner,
        engine::{
            WorkerReady,
            blocking::{self, IdleWait, PreparedWorker},
        },
        worker::{KernelSuites, SocketSettings, StartTime, WorkerConfig, WorkerRows, mailbox::Mailbox},
    },
    site::set::SiteSet,
    sys::process::{SingleThreaded, set_name},
};
use rustix::process::WaitOptions;
use std::{
    io,
    os::fd::{AsFd, AsRawFd, RawFd},
    sync::Arc,
};
use tarpon_conn::{Recording, RouteTable};

/// A fork copies each page of the stack that was ever used, and then each that the master writes before the next. So what has large variables
/// is not inlined into the functions that run for each client.
impl Master<'_> {
    /// Starts the aux process.
    #[inline(never)]
    pub(super) fn start_aux(&mut self, process: ProcessId) -> io::Result<()> {
        let &mut Master { is_successor, has_seccomp, .. } = self;
        let is_successor = is_successor && self.sites.is_none();
        let Master { single_threaded, settings, labels, shared, admin, logs, .. } = self;
        let SharedMemory { counters, rings, .. } = shared;
        let site_count = self.site_configs.len();
        let wakeup = rings.iter().map(|(_, rings)| rings.as_fd().as_raw_fd());
        let admin_sockets = admin.iter().flat_map(Listener::sockets).map(AsRawFd::as_raw_fd);
        let usage = shared.usage.iter().flat_map(|usage| usage.numbers());
        let keep: Vec<RawFd> = wakeup.chain(admin_sockets).chain(usage).collect();
        let (engine, worker_count) = (settings.engine, settings.workers().get());
        let main = |channel: Channel| {
            let stats =
                ServerStats::new(engine, worker_count, counters.clone(), labels, shared.helper_stats.clone())
                    .with_usage(shared.usage.clone())
                    .with_hot_paths(shared.hot_paths.clone());
            let (admin, counters) = (admin.take(), counters.clone());
            let rings = rings.as_ref().map(|(_, rings)| rings);
            let start =
                AuxStart { admin, is_successor, logs, rings, stats, counters, site_count, has_seccomp };
            aux_process::run(start, channel)
        };
        let (pid, channel) = fork(single_threaded, c"tarpon-aux", Channel::pair()?, keep, main)?;
        self.children.add(process, pid, channel);
        Ok(())
    }

    /// Starts a worker: for a client, or, if it is `None`, for all clients that the worker accepts.
    pub(super) fn start_worker(
        &mut self,
        process: ProcessId,
        slot: usize,
        client: Option<ClientId>,
    ) -> io::Result<()> {
        if let Some(keys) = &self.ticket_keys {
            keys.advance();
        }
        if self.sites.as_mut().is_some_and(SiteSet::drop_damaged) {
            self.forget_worker();
        }
        match client {
            Some(client) => self.start_for_client(process, slot, client),
            None => self.start_accepting(process, slot),
        }
    }

    /// Makes what the next worker for a client needs, unless it is there already.
    pub(super) fn prepare_worker(&mut self) -> io::Result<()> {
        let sites = self.sites.as_ref().ok_or_else(no_sites)?;
        self.channels.prepare(|| sites.histories())?;
        if self.next_worker.is_none() {
            self.next_worker = Some(self.new_worker(sites)?);
        }
        Ok(())
    }

    /// Forgets what was made for the next worker: the sites have changed.
    pub(super) fn forget_worker(&mut self) {
        self.next_worker = None;
        self.channels.clear();
    }

    #[inline(never)]
    fn new_worker(&self, sites: &SiteSet) -> io::Result<NextWorker> {
        // Each process replaces it by a mailbox of its own, and so closes it.
        let mailbox = Arc::new(Mailbox::new()?);
        let replaced = mailbox.as_fd().as_raw_fd();
        let wakeup = self.shared.rings.iter().map(|(_, rings)| rings.as_fd().as_raw_fd());
        let helper = self.shared.helper_descriptors();
        let mut keep: Vec<_> = sites.descriptors().chain(wakeup).chain(helper).chain([replaced]).collect();
        let config = worker_config(
            &self.settings,
            &self.socket_settings,
            &self.routes,
            &self.shared,
            sites,
            0,
            mailbox,
        );
        keep.reserve_exact(OWN_DESCRIPTOR_COUNT);
        let config = WorkerConfig { upstream_row: None, ..config };
        Ok(NextWorker { worker: Box::new(PreparedWorker::new(config)?), keep })
    }

    /// Starts a worker for a client. All that it needs is made before the fork: see [`PreparedWorker`].
    #[inline(never)]
    fn start_for_client(&mut self, process: ProcessId, slot: usize, client: ClientId) -> io::Result<()> {
        self.prepare_worker()?;
        let Master { single_threaded, worker_seccomp, shared, clients, sites, next_worker, channels, .. } =
            self;
        let (Some(NextWorker { worker, keep }), Some(WorkerChannel { mailbox, .. })) =
            (next_worker, channels.next())
        else {
            return Err(no_sites());
        };
        let Some(connection) = clients.remove(&client) else {
            return Err(io::Error::other("the client has gone"));
        };
        let start = StartTime::now();
        worker.update(start);
        let own: [RawFd; OWN_DESCRIPTOR_COUNT] = [mailbox.as_fd().as_raw_fd(), connection.fd.as_raw_fd()];
        keep.extend(own);
        let mut connection = Some(connection);
        let started = single_threaded.spawn(keep, || {
            set_name(c"tarpon-worker");
            let connection = connection.take().expect("the master had the client when it forked");
            let log = shared.rings.as_ref().map(|(recording, rings)| {
                // Each process samples with a seed of its own.
                (recording.seed.wrapping_add(client.0), rings.producer(slot))
            });
            let rows = WorkerRows { number: slot, counters: shared.counters.place(slot), start, log };
            // A site must live only as long as the worker serves it.
            let stays_open = || drop(sites.take());
            let serve = || worker.serve(connection, rows, mailbox, stays_open);
            report(worker_seccomp.confine().and_then(|()| serve()))
        });
        keep.retain(|descriptor| !own.contains(descriptor));
        match started {
            Ok(pid) => {
                if let Some(ours) = channels.begin(process) {
                    self.children.add_silent(process, pid, ours);
                }
                // The worker has the connection.
                Ok(())
            }
            Err(error) => {
                clients.extend(connection.map(|connection| (client, connection)));
                Err(error)
            }
        }
    }

    /// Starts a worker that accepts its clients.
    #[inline(never)]
    fn start_accepting(&mut self, process: ProcessId, slot: usize) -> io::Result<()> {
        let Master {
            single_threaded,
            settings,
            socket_settings,
            worker_seccomp,
            routes,
            shared,
            listeners,
            sites: all,
            ..
        } = self;
        let sites = all.as_ref().ok_or_else(no_sites)?;
        let wakeup = shared.rings.iter().map(|(_, rings)| rings.as_fd().as_raw_fd());
        let sockets = listeners.sockets().iter().map(AsRawFd::as_raw_fd);
        let helper = shared.helper_descriptors();
        let keep: Vec<RawFd> = sites.descriptors().chain(wakeup).chain(helper).chain(sockets).collect();
        let channel = Channel::nonblocking_pair()?;
        let (pid, channel) = fork(single_threaded, c"tarpon-worker", channel, keep, |channel| {
            let work = || {
                // The filter forbids creating it.
                let idle_wait = IdleWait::create()?;
                worker_seccomp.confine()?;
                // The worker owns the set: a site must live only as long as the worker serves it.
                let sites = all.take().expect("the master had the sites when it forked");
                let mailbox = Arc::new(worker_process::mailbox(channel, sites.histories()));
                let config = worker_config(settings, socket_settings, routes, shared, &sites, slot, mailbox);
                drop(sites);
                let config = WorkerConfig { listeners: listeners.take(), ..config };
                blocking::run(config, idle_wait, WorkerReady::unobserved())
            };
            report(work())
        })?;
        self.children.add_silent(process, pid, Box::new(channel));
        Ok(())
    }
}

impl SharedMemory {
    /// Returns the descriptors that reach the helpers.
    fn helper_descriptors(&self) -> impl Iterator<Item = RawFd> {
        self.helpers.iter().map(|helper| helper.as_fd().as_raw_fd())
    }
}

/// The descriptors that each worker for a client has for itself: its mailbox and its connection.
const OWN_DESCRIPTOR_COUNT: usize = 2;

/// Returns the configuration of a worker without listeners.
fn worker_config(
    settings: &Settings,
    socket_settings: &Arc<[SocketSettings]>,
    routes: &Arc<[RouteTable]>,
    shared: &SharedMemory,
    sites: &SiteSet,
    slot: usize,
    mailbox: Arc<Mailbox>,
) -> WorkerConfig {
    WorkerConfig {
        backends: shared.backends.clone(),
        upstream_row: Some(slot),
        number: slot,
        worker_count: settings.workers().get(),
        idle_workers: shared.idle_workers.clone(),
        listeners: Vec::new(),
        socket_settings: Arc::clone(socket_settings),
        mailbox,
        sites: sites.sites(),
        routes: Arc::clone(routes),
        loader: None,
        handshakes: None,
        password_jobs: shared.password_jobs.clone(),
        connection_count_max: 1,
        health_path: settings.health_path.as_ref().map(|path| path.as_bytes().into()),
        server_header: settings.server_header,
        head_len_max: settings.max_head_size,
        proxy_trust: Arc::new(settings.proxy_trust.clone()),
        client_limits: shared.client_limits.clone(),
        connection_limit: (shared.connection_limit.as_ref())
            .map(|limit| limit.of(ConnectionOwner::of_place(shared.counters.place(slot)))),
        // Each of its processes serves one connection at a time, and encrypts by itself.
        kernel_suites: KernelSuites::NONE,
        acme: shared.acme.clone(),
        counters: shared.counters.row(slot),
        hot_paths: shared.hot_paths.as_ref().map(|tables| tables.row(slot)),
        log: shared.rings.as_ref().map(|(recording, rings)| {
            // Each process samples with a seed of its own.
            let seed = recording.seed.wrapping_add(std::process::id().into());
            (Recording { seed, ..recording.clone() }, rings.producer(slot))
        }),
    }
}

/// Reports how a worker has ended. Returns its exit status.
fn report(ended: io::Result<()>) -> i32 {
    match ended {
        Ok(()) => 0,
        Err(error) => {
            tracing::warn!("a worker process failed: {error}");
            1
        }
    }
}

fn no_sites() -> io::Error {
    io::Error::other("there are no sites")
}

/// Tries in a child whether a worker can be confined, so that a failure shows before a client waits for a worker.
pub(super) fn try_in_child(
    single_threaded: &SingleThreaded,
    attempt: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    let child = single_threaded.spawn(&mut [], || match attempt() {
        Ok(()) => 0,
        Err(error) => {
            tracing::warn!("a worker process cannot be confined: {error}");
            1
        }
    })?;
    let ended = rustix::io::retry_on_intr(|| rustix::process::waitpid(Some(child), WaitOptions::empty()))?;
    match ended.is_some_and(|(_, status)| status.exit_status() == Some(0)) {
        true => Ok(()),
        false => Err(io::Error::other("a worker process cannot be confined")),
    }
}
