//! Forks the aux process and the workers.

use super::{
    aux_process::{self, AuxStart},
    master::{Master, SharedMemory},
    vocabulary::ClientId,
    worker_process,
};
use crate::{
    control::{
        listeners::Listener,
        process::{ProcessId, channel::Channel, fork::fork},
        stats::ServerStats,
    },
    data::{
        engine::{
            WorkerReady,
            blocking::{self, IdleWait},
        },
        worker::WorkerConfig,
    },
    sys::process::SingleThreaded,
};
use rustix::process::WaitOptions;
use std::{
    io,
    os::fd::{AsFd, AsRawFd, RawFd},
    sync::Arc,
};
use tarpon_conn::Recording;

impl Master<'_> {
    /// Starts the aux process.
    pub(super) fn start_aux(&mut self, process: ProcessId) -> io::Result<()> {
        let &mut Master { is_successor, has_seccomp, .. } = self;
        let is_successor = is_successor && self.sites.is_none();
        let Master { single_threaded, settings, hosts, shared, admin, logs, .. } = self;
        let SharedMemory { counters, rings, .. } = shared;
        let site_count = self.site_configs.len();
        let wakeup = rings.iter().map(|(_, rings)| rings.as_fd().as_raw_fd());
        let admin_sockets = admin.iter().flat_map(Listener::sockets).map(AsRawFd::as_raw_fd);
        let keep: Vec<RawFd> = wakeup.chain(admin_sockets).collect();
        let (engine, worker_count) = (settings.engine, settings.workers().get());
        let main = |channel: Channel| {
            let stats = ServerStats::new(engine, worker_count, counters.clone(), hosts, site_count);
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
        let channel = self.spare_channel.take().map_or_else(Channel::pair, Ok)?;
        let Master {
            single_threaded,
            settings,
            worker_seccomp,
            hosts,
            shared,
            listeners,
            clients,
            sites: all,
            ..
        } = self;
        let sites = all.as_mut().ok_or_else(|| io::Error::other("there are no sites"))?;
        sites.drop_damaged();
        let mut connection = client.and_then(|client| clients.remove(&client));
        let accepts = client.is_none();
        let wakeup = shared.rings.iter().map(|(_, rings)| rings.as_fd().as_raw_fd());
        let accepted = listeners.sockets().iter().filter(|_| accepts);
        let sockets = accepted.chain(connection.as_ref()).map(AsRawFd::as_raw_fd);
        let keep: Vec<RawFd> = sites.descriptors().chain(wakeup).chain(sockets).collect();
        let started = fork(single_threaded, c"tarpon-worker", channel, keep, |channel| {
            let work = || {
                // The filter forbids creating it.
                let idle_wait = if accepts { IdleWait::create()? } else { None };
                worker_seccomp.confine()?;
                // The worker owns the set: a site must live only as long as the worker serves it.
                let sites = all.take().expect("the master had the sites when it forked");
                let config = WorkerConfig {
                    number: slot,
                    worker_count: settings.workers().get(),
                    idle_workers: shared.idle_workers.clone(),
                    listeners: Vec::new(),
                    mailbox: Arc::new(worker_process::mailbox(channel, sites.histories().to_vec())?),
                    sites: sites.sites(),
                    hosts: Arc::clone(hosts),
                    loader: None,
                    connection_count_max: 1,
                    health_path: settings.health_path.as_ref().map(|path| path.as_bytes().into()),
                    counters: shared.counters.row(slot),
                    log: shared.rings.as_ref().map(|(recording, rings)| {
                        // Each process samples with a seed of its own.
                        let seed = recording.seed.wrapping_add(std::process::id().into());
                        (Recording { seed, ..recording.clone() }, rings.producer(slot))
                    }),
                };
                drop(sites);
                match connection.take() {
                    Some(connection) => blocking::serve(config, connection),
                    None => blocking::run(
                        WorkerConfig { listeners: listeners.take(), ..config },
                        idle_wait,
                        WorkerReady::unobserved(),
                    ),
                }
            };
            match work() {
                Ok(()) => 0,
                Err(error) => {
                    tracing::warn!("a worker process failed: {error}");
                    1
                }
            }
        });
        match started {
            Ok((pid, channel)) => {
                self.children.add_silent(process, pid, channel);
                if client.is_some() {
                    self.spare_channel = Channel::pair().ok();
                }
                Ok(())
            }
            Err(error) => {
                clients.extend(client.zip(connection));
                Err(error)
            }
        }
    }
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
