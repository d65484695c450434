//! A running server: its workers, and the handle that tells them what to do.
//!
//! ```text
//! Server::start ──▶ worker 0, 1, … (a thread each, an engine in each)
//!    Handle ── swap, stop ──▶ their mailboxes
//! Server::join ◀── they end
//! ```

use crate::{
    base::settings::Settings,
    base::{address::Address, engine::Engine, error::UserError, log_config::LogOwner},
    control::{
        access_log::{AccessLog, LogPlan, LogSink},
        listeners::{Listener, SocketFile},
        metrics::Metrics,
        stats::ServerStats,
    },
    data::{
        engine::WorkerReady,
        log_ring::LogRings,
        worker::{
            WorkerConfig,
            idle_workers::IdleWorkers,
            loader::{self},
            mailbox::{Mailbox, ShutdownMode, WorkerMessage},
        },
    },
    site::{Site, set::SiteSet, versions::SiteHistory, virtual_hosts::VirtualHosts},
    sys::{cores, shared::SharedArray},
};
use rustix::process::{Resource, getrlimit};
use std::{
    fs::File,
    io,
    panic::resume_unwind,
    sync::{Arc, Mutex, PoisonError, mpsc::channel},
    thread::{self, JoinHandle},
    time::Duration,
};
use tarpon_conn::SiteId;

/// A running server. Dropped, it goes on; [`Handle::stop`] and [`Server::join`] end it.
#[derive(Debug)]
pub struct Server {
    workers: Vec<JoinHandle<io::Result<()>>>,
    handle: Handle,
    addresses: Vec<Address>,
    /// Unix sockets, removed at the end.
    files: Vec<SocketFile>,
}

/// Tells a running server what to do, from any thread.
#[derive(Clone)]
pub struct Handle {
    mailboxes: Arc<[Arc<Mailbox>]>,
    /// By the number of the site.
    recents: Arc<[Mutex<SiteHistory>]>,
    log: Option<AccessLog>,
    ledger: Arc<ServerStats>,
}

impl Server {
    /// Serves a site on sockets that listen. Returns when the workers have begun.
    ///
    /// The process must ignore SIGPIPE, as Rust programs do: a client may go while a file is sent to it.
    ///
    /// ```no_run
    /// use std::{net::TcpListener, time::Duration};
    /// use tarpon::{Server, Settings, Site};
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let server = Server::start(&Settings::default(), vec![listener.try_into()?], Site::from_dir("public")?)?;
    /// let handle = server.handle();
    /// std::thread::spawn(move || {
    ///     std::thread::sleep(Duration::from_secs(3600));
    ///     handle.stop(Duration::from_secs(10));
    /// });
    /// server.join()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Several sites are told apart by host: see [`VirtualHosts`].
    ///
    /// # Errors
    /// Threads, descriptors or cores are lacking; or the engine is one of processes, `prefork` or `fork`, which only
    /// [`supervise`](crate::supervise) has.
    pub fn start(
        settings: &Settings,
        listeners: Vec<Listener>,
        sites: impl Into<VirtualHosts>,
    ) -> io::Result<Server> {
        let engine = settings.engine.choose().map_err(io::Error::other)?.engine;
        Server::start_with(&Settings { engine, ..settings.clone() }, listeners, sites, loader::nowhere()?)
    }

    /// The same with an engine that was [chosen](Engine::choose), for a process that cannot open [`nowhere`](loader::nowhere) any more.
    /// Opens no file.
    pub(crate) fn start_with(
        settings: &Settings,
        mut listeners: Vec<Listener>,
        sites: impl Into<VirtualHosts>,
        nowhere: File,
    ) -> io::Result<Server> {
        let VirtualHosts { sites, hosts } = sites.into();
        let engine = settings.engine;
        let worker_count = settings.workers().get();
        if !Engine::EMBEDDED.contains(&engine) {
            return Err(io::Error::other(UserError::new(
                format_args!("cannot run the engine {engine} within another program"),
                "its workers are processes, and a process that has threads cannot be divided",
                "take threads, which serves in the same way, or run tarpon serve",
            )));
        }
        let logs: Vec<_> = sites.iter().map(|site| site.log).collect();
        let stock = SiteSet::new(settings, sites);
        let connection_count_max = connection_count_max(worker_count, stock.descriptor_count());
        let sites = stock.sites();
        let mailboxes: Arc<[_]> =
            (0..worker_count).map(|_| Mailbox::new().map(Arc::new)).collect::<io::Result<_>>()?;
        let counters = Arc::new(SharedArray::new(worker_count)?);
        let ledger = ServerStats::new(engine, worker_count, Arc::clone(&counters), &hosts, sites.len());
        for (number, (lineup, _)) in sites.iter().enumerate() {
            ledger.read(number, lineup.current.file_count(), lineup.current.content_len());
        }
        let logs = logs.into_iter().enumerate().map(|(number, log)| {
            let name = hosts.canonical(SiteId::new(number));
            (log, name.map(|name| String::from_utf8_lossy(name).into_owned()))
        });
        let logs = LogPlan::new(settings.logging, logs, settings.debug);
        let (log, rings) = match logs.recording() {
            Some(recording) => {
                let rings = LogRings::new(worker_count)?;
                (Some(AccessLog::start(&logs, &rings, &counters)?), Some((recording, rings)))
            }
            None => (None, None),
        };
        let recents = stock.into_histories().into_iter().map(Mutex::new).collect();
        let handle = Handle { mailboxes, recents, log, ledger: Arc::new(ledger) };
        let allowed = settings.cpu_affinity.then(cores::allowed).transpose()?;
        let loader = engine.start_loader(nowhere)?;
        let socket_count = engine.socket_count(settings.workers());
        let roster = Arc::new(SharedArray::<IdleWorkers>::new(1)?).part(0);
        roster.open(worker_count);
        let outfit = |number| {
            let sockets =
                listeners.iter().map(|bound| bound.sockets_for(number % socket_count, socket_count));
            io::Result::Ok(WorkerConfig {
                number,
                worker_count,
                roster: roster.clone(),
                listeners: sockets.collect::<io::Result<Vec<_>>>()?.into_iter().flatten().collect(),
                mailbox: handle.mailboxes[number].clone(),
                sites: sites.clone(),
                hosts: hosts.clone(),
                health_path: settings.health_path.as_ref().map(|path| path.as_bytes().into()),
                loader: loader.clone(),
                connection_count_max,
                counters: counters.part(number),
                log: rings.as_ref().map(|(recording, rings)| (recording.clone(), rings.inlet(number))),
            })
        };
        // All that a worker needs is there before the first one begins.
        let outfits = (0..worker_count).map(outfit).collect::<io::Result<Vec<_>>>()?;
        let mut workers = Vec::new();
        let (begun, all_begun) = channel();
        for (number, outfit) in outfits.into_iter().enumerate() {
            let core = allowed.as_ref().map(|cores| cores[number % cores.len()]);
            let whole = WorkerGuard { handle: handle.clone(), ended_as_told: false };
            let begun = WorkerReady(begun.clone());
            let run = move || {
                if let Some(core) = core {
                    cores::pin(core)?;
                }
                engine.run(outfit, begun)?;
                whole.ended_as_told();
                Ok(())
            };
            workers.push(thread::Builder::new().name(format!("worker {number}")).spawn(run)?);
        }
        drop(begun);
        let begun_count = all_begun.iter().count();
        let addresses = listeners.iter().map(|bound| bound.address().clone()).collect();
        let files = listeners.iter_mut().filter_map(Listener::take_file).collect();
        let server = Server { workers, handle, addresses, files };
        if begun_count < worker_count {
            server.handle.stop(Duration::ZERO);
            server.join()?;
            return Err(io::Error::other("a worker ended before it began"));
        }
        Ok(server)
    }

    /// Where it listens.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// What tells it to stop, or to serve another site.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Waits until all workers have ended. One that fails ends the others too.
    ///
    /// # Errors
    /// The first error that ended a worker.
    ///
    /// # Panics
    /// If a worker did.
    pub fn join(self) -> io::Result<()> {
        let ends: Vec<_> = self.workers.into_iter().map(JoinHandle::join).collect();
        if let Some(log) = &self.handle.log {
            log.end();
        }
        drop(self.files);
        ends.into_iter().try_for_each(|end| end.unwrap_or_else(|panic| resume_unwind(panic)))
    }
}

impl Handle {
    /// From now on new exchanges are served from `site`. Responses under way end as they began, and no
    /// connection is closed. What of earlier sites is kept: [`Settings::keep_releases`].
    ///
    /// Of several sites, the first is meant.
    pub fn swap(&self, site: Site) {
        self.swap_at(0, site);
    }

    /// The same for the site of this number, counted from 0 in the order they were given. The others stay as they are.
    ///
    /// # Panics
    /// If there is no such site.
    pub fn swap_at(&self, number: usize, site: Site) {
        // Until all have been told: two swaps at once come to every worker in the same order.
        let mut recent = self.recents[number].lock().unwrap_or_else(PoisonError::into_inner);
        self.ledger.read(number, site.file_count(), site.content_len());
        let lineup = recent.next(site);
        for mailbox in &*self.mailboxes {
            mailbox.post(WorkerMessage::Swap(SiteId::new(number), lineup.clone()));
        }
    }

    /// From now on the access log goes there; until it is told of each log where it goes, what is to be logged waits. Nothing comes
    /// of it where [`Settings::logging`] is `None`.
    pub fn log_to(&self, sink: LogSink) {
        self.log_of(LogOwner::Server, sink);
    }

    /// The same for the log that the site of this number has for itself: [`SiteLog::Own`](crate::SiteLog::Own).
    pub fn log_site_to(&self, number: usize, sink: LogSink) {
        self.log_of(LogOwner::Site(number), sink);
    }

    pub(crate) fn log_of(&self, owner: LogOwner, sink: LogSink) {
        if let Some(log) = &self.log {
            log.log_to(owner, sink);
        }
    }

    /// What is known of the server.
    pub(crate) fn ledger(&self) -> &Arc<ServerStats> {
        &self.ledger
    }

    /// What the server has done and does.
    pub fn metrics(&self) -> Metrics {
        self.ledger.metrics()
    }

    /// Accepts nothing more, finishes what has begun, and ends after `grace-period` at the latest.
    pub fn stop(&self, grace: Duration) {
        self.leave(ShutdownMode::Stop, grace);
    }

    /// Leaves its clients to another server that has the same listening sockets: accepts nothing more, and answers each
    /// connection once more, with `Connection: close`. A client that does not ask is waited for, so that no request meets
    /// a connection that was just closed; but not longer than it may be idle, and not longer than `grace-period`.
    pub fn drain(&self, grace: Duration) {
        self.leave(ShutdownMode::Drain, grace);
    }

    fn leave(&self, farewell: ShutdownMode, grace: Duration) {
        self.ledger.stopping();
        for mailbox in &*self.mailboxes {
            mailbox.post(WorkerMessage::Leave { farewell, grace });
        }
    }
}

/// Held by a worker while it runs. Where it failed, or never began, the others must not go on as a part of a
/// server.
struct WorkerGuard {
    handle: Handle,
    ended_as_told: bool,
}

impl WorkerGuard {
    fn ended_as_told(mut self) {
        self.ended_as_told = true;
    }
}

impl Drop for WorkerGuard {
    fn drop(&mut self) {
        if !self.ended_as_told {
            self.handle.stop(Duration::ZERO);
        }
    }
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle").field("workers", &self.mailboxes.len()).finish()
    }
}

/// What the limit on open files leaves for the connections of a worker, beside the sites and what every process has open.
/// Beyond it clients wait in the backlog.
fn connection_count_max(worker_count: usize, descriptor_count: usize) -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX).min(CONNECTION_COUNT_MAX);
    let others = descriptor_count + 8 * worker_count + 32;
    (limit.saturating_sub(others) / worker_count).max(1)
}

/// Connections of one process at most, wherever the limit on open files is larger: some 4 GiB of slots and
/// socket structures.
const CONNECTION_COUNT_MAX: usize = 1 << 20;
