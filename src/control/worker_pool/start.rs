//! Forks the aux process and the workers.

use super::{
    aux_process::{self, AuxStart},
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
        engine::{
            WorkerReady,
            blocking::{self, IdleWait, PreparedWorker},
        },
        worker::{Backends, WorkerConfig, WorkerRows, mailbox::Mailbox},
    },
    site::{set::SiteSet, virtual_hosts::ServerRoutes},
    sys::process::{SingleThreaded, set_name},
};
use rustix::process::WaitOptions;
use std::{
    io,
    os::fd::{AsFd, AsRawFd, RawFd},
    sync::Arc,
};
use tarpon_conn::{Recording, Transport};

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
        let keep: Vec<RawFd> = wakeup.chain(admin_sockets).collect();
        let (engine, worker_count) = (settings.engine, settings.workers().get());
        let main = |channel: Channel| {
            let stats = ServerStats::new(engine, worker_count, counters.clone(), labels);
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
        if self.sites.as_mut().is_some_and(SiteSet::drop_damaged) {
            self.next_worker = None;
        }
        match client {
            Some(client) => self.start_for_client(process, slot, client),
            None => self.start_accepting(process, slot),
        }
    }

    /// Makes what the next worker for a client needs, unless it is there already.
    pub(super) fn prepare_worker(&mut self) -> io::Result<()> {
        if matches!(self.next_worker, Some(NextWorker { channel: Some(_), .. })) {
            return Ok(());
        }
        let sites = self.sites.as_ref().ok_or_else(no_sites)?;
        let (ours, theirs) = Channel::nonblocking_pair()?;
        let mailbox = Arc::new(worker_process::mailbox(theirs, sites.histories()));
        match &mut self.next_worker {
            Some(next) => {
                next.worker.set_mailbox(mailbox);
                next.channel = Some(ours);
            }
            None => {
                let worker = self.new_worker(sites, mailbox)?;
                self.next_worker = Some(NextWorker { worker, channel: Some(ours) });
            }
        }
        Ok(())
    }

    #[inline(never)]
    fn new_worker(&self, sites: &SiteSet, mailbox: Arc<Mailbox>) -> io::Result<Box<PreparedWorker>> {
        let config = worker_config(&self.settings, &self.routes, &self.shared, sites, 0, mailbox);
        Ok(Box::new(PreparedWorker::new(config)?))
    }

    /// Starts a worker for a client. All that it needs is made before the fork: see [`PreparedWorker`].
    fn start_for_client(&mut self, process: ProcessId, slot: usize, client: ClientId) -> io::Result<()> {
        self.prepare_worker()?;
        let Master { single_threaded, worker_seccomp, shared, clients, sites, next_worker, .. } = self;
        let (Some(NextWorker { worker, channel }), Some(all)) = (next_worker, &*sites) else {
            return Err(no_sites());
        };
        let Some(connection) = clients.remove(&client) else {
            return Err(io::Error::other("the client has gone"));
        };
        worker.assign(WorkerRows {
            counters: shared.counters.row(slot),
            log: (shared.rings.as_ref()).map(|(recording, rings)| {
                // Each process samples with a seed of its own.
                (recording.seed.wrapping_add(client.0), rings.producer(slot))
            }),
        });
        let wakeup = shared.rings.iter().map(|(_, rings)| rings.as_fd().as_raw_fd());
        let own = [worker.mailbox().as_fd().as_raw_fd(), connection.as_raw_fd()];
        let keep: Vec<RawFd> = all.descriptors().chain(wakeup).chain(own).collect();
        let mut connection = Some(connection);
        let started = single_threaded.spawn(&keep, || {
            set_name(c"tarpon-worker");
            let connection = connection.take().expect("the master had the client when it forked");
            // A site must live only as long as the worker serves it.
            let stays_open = || drop(sites.take());
            report(worker_seccomp.confine().and_then(|()| worker.serve(connection, stays_open)))
        });
        let pid = match started {
            Ok(pid) => pid,
            Err(error) => {
                clients.extend(connection.map(|connection| (client, connection)));
                return Err(error);
            }
        };
        // The worker has it.
        drop(connection);
        if let Some(channel) = channel.take() {
            self.children.add_silent(process, pid, channel);
        }
        // Before the next client waits for it. If it fails, the next accept tries again.
        if self.prepare_worker().is_err() {
            self.next_worker = None;
        }
        Ok(())
    }

    /// Starts a worker that accepts its clients.
    #[inline(never)]
    fn start_accepting(&mut self, process: ProcessId, slot: usize) -> io::Result<()> {
        let Master {
            single_threaded, settings, worker_seccomp, routes, shared, listeners, sites: all, ..
        } = self;
        let sites = all.as_ref().ok_or_else(no_sites)?;
        let wakeup = shared.rings.iter().map(|(_, rings)| rings.as_fd().as_raw_fd());
        let sockets = listeners.sockets().iter().map(AsRawFd::as_raw_fd);
        let keep: Vec<RawFd> = sites.descriptors().chain(wakeup).chain(sockets).collect();
        let channel = Channel::nonblocking_pair()?;
        let (pid, channel) = fork(single_threaded, c"tarpon-worker", channel, keep, |channel| {
            let work = || {
                // The filter forbids creating it.
                let idle_wait = IdleWait::create()?;
                worker_seccomp.confine()?;
                // The worker owns the set: a site must live only as long as the worker serves it.
                let sites = all.take().expect("the master had the sites when it forked");
                let mailbox = Arc::new(worker_process::mailbox(channel, sites.histories()));
                let config = worker_config(settings, routes, shared, &sites, slot, mailbox);
                drop(sites);
                let config = WorkerConfig { listeners: listeners.take(), ..config };
                blocking::run(config, idle_wait, WorkerReady::unobserved())
            };
            report(work())
        })?;
        self.children.add_silent(process, pid, channel);
        Ok(())
    }
}

/// Returns the configuration of a worker without listeners.
fn worker_config(
    settings: &Settings,
    routes: &Arc<ServerRoutes>,
    shared: &SharedMemory,
    sites: &SiteSet,
    slot: usize,
    mailbox: Arc<Mailbox>,
) -> WorkerConfig {
    WorkerConfig {
        backends: Backends::default(),
        new_transport: || Transport::Plain,
        number: slot,
        worker_count: settings.workers().get(),
        idle_workers: shared.idle_workers.clone(),
        listeners: Vec::new(),
        mailbox,
        sites: sites.sites(),
        routes: Arc::clone(routes),
        loader: None,
        connection_count_max: 1,
        health_path: settings.health_path.as_ref().map(|path| path.as_bytes().into()),
        server_header: settings.server_header,
        counters: shared.counters.row(slot),
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
    let child = single_threaded.spawn(&[], || match attempt() {
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
