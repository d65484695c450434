//! A server in one process: its worker threads, and the handle that controls them.
//!
//! ```text
//! Server::start ──▶ worker 0, 1, … (a thread each, an engine in each)
//!    Handle ── swap, stop ──▶ the mailboxes of the workers
//! Server::join ◀── the workers end
//! ```

use crate::{
    base::settings::{Http2Use, Settings},
    base::{address::Address, engine::Engine, error::UserError, log_config::LogOwner},
    control::{
        access_log::{AccessLog, LogPlan, LogSink},
        client_limits::{self, LimitTables, SiteLimitsSource},
        counters::ServerCounters,
        helper_stats::HelperStats,
        hot_paths::HotPathTables,
        kernel_tls,
        listeners::{Listener, SocketFile},
        metrics::Metrics,
        process_usage::ProcessUsage,
        stats::ServerStats,
    },
    data::{
        acme_table::AcmeTable,
        connection_limit::ConnectionOwner,
        engine::WorkerReady,
        functions::{self, FunctionThreads},
        log_ring::LogRings,
        upstreams::WorkerUpstreams,
        worker::{
            Backends, KernelSuites, WorkerConfig,
            idle_workers::IdleWorkers,
            loader::{self},
            mailbox::{Mailbox, ShutdownMode, WorkerMessage},
        },
    },
    site::{Site, set::SiteSet, versions::SiteHistory, virtual_hosts::VirtualHosts},
    sys::{cores, priority, shared::SharedArray},
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

/// A running server. It continues when this is dropped; [`Handle::stop`] and [`Server::join`] end it.
#[derive(Debug)]
pub struct Server {
    workers: Vec<JoinHandle<io::Result<()>>>,
    handle: Handle,
    addresses: Vec<Address>,
    /// The files of Unix sockets, removed at the end.
    files: Vec<SocketFile>,
    /// The threads of functions.
    threads: FunctionThreads,
}

/// What a server of a service shares with helpers.
#[derive(Default)]
pub(crate) struct ServerHelpers {
    /// Certificates and the answers to directories.
    pub(crate) acme: Option<Arc<AcmeTable>>,
    /// The backends that helpers run or connect to, and the routes to them.
    pub(crate) backends: Backends,
    pub(crate) stats: Option<HelperStats>,
    /// What the kernel may seal and open of TLS.
    pub(crate) kernel_suites: KernelSuites,
    /// What all servers of the service count of clients. `None`: this is the only server.
    pub(crate) limit_tables: Option<LimitTables>,
    /// What tells the usage of the server process.
    pub(crate) usage: Option<Arc<ProcessUsage>>,
}

/// Controls a running server, from any thread.
#[derive(Clone)]
pub struct Handle {
    mailboxes: Arc<[Arc<Mailbox>]>,
    /// By the number of the site.
    histories: Arc<[Mutex<SiteHistory>]>,
    log: Option<AccessLog>,
    stats: Arc<ServerStats>,
}

impl Server {
    /// Starts a server for a site on these listeners. Returns when all workers run.
    ///
    /// The process must ignore SIGPIPE, as Rust programs do: a client may disconnect while the server sends it a file.
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
    /// For several sites, selected by host, see [`VirtualHosts`].
    ///
    /// # Errors
    /// The process is out of threads or descriptors, or may use no cores; a listener [expects a PROXY
    /// header](Listener::with_proxy_protocol) and no proxy is trusted; clients must speak [HTTP/2](Http2Use::Only), which the engine
    /// does not offer; or the engine is `prefork` or `fork`, whose workers are processes: only [`supervise`](crate::supervise) runs those.
    pub fn start(
        settings: &Settings,
        listeners: Vec<Listener>,
        sites: impl Into<VirtualHosts>,
    ) -> io::Result<Server> {
        let engine = settings.engine.choose().map_err(io::Error::other)?.engine;
        let settings = Settings { engine, ..settings.clone() };
        let counters = ServerCounters::alone(settings.workers().get())?;
        let kernel_suites = kernel_tls::suites(&settings, listeners.iter().any(Listener::has_tls));
        Server::start_with(
            &settings,
            listeners,
            sites,
            loader::dev_null()?,
            counters,
            ServerHelpers {
                usage: Some(Arc::new(ProcessUsage::of_this_process())),
                kernel_suites: kernel_suites.map_err(io::Error::other)?,
                ..ServerHelpers::default()
            },
        )
    }

    /// Starts a server with a [chosen](Engine::choose) engine, in a sandboxed process: it opens no file, so the caller has opened
    /// [`dev_null`](loader::dev_null). There is a row of counters for each worker.
    pub(crate) fn start_with(
        settings: &Settings,
        mut listeners: Vec<Listener>,
        sites: impl Into<VirtualHosts>,
        dev_null: File,
        counters: ServerCounters,
        ServerHelpers { acme, mut backends, stats: helper_stats, kernel_suites, limit_tables, usage }: ServerHelpers,
    ) -> io::Result<Server> {
        let hosts: VirtualHosts = sites.into();
        let policies: Vec<_> = listeners.iter().map(Listener::policy).collect();
        let has_lists = listeners.iter().any(Listener::has_address_list);
        let routes = hosts.routes(&policies).map_err(io::Error::other)?;
        let VirtualHosts { sites, labels, functions, .. } = hosts;
        let limit_tables = limit_tables.map_or_else(LimitTables::new, Ok)?;
        // All workers are threads of this process.
        let owner = ConnectionOwner::of_place(counters.place(0));
        let connection_limit = limit_tables.connection_limit(settings, has_lists, owner, 1);
        let paths = sites.iter().zip(&labels).map(|(site, label)| SiteLimitsSource {
            mount: site.mount.as_ref(),
            label: label.as_deref(),
            paths: &site.path_limits,
        });
        let client_limits = client_limits::resolve(settings, paths, &limit_tables);
        let has_passwords = client_limits.as_ref().is_some_and(|limits| !limits.passwords.is_empty());
        let engine = settings.engine;
        let worker_count = settings.workers().get();
        if !Engine::EMBEDDED.contains(&engine) {
            return Err(io::Error::other(UserError::new(
                format_args!("cannot run the engine {engine} within another program"),
                "its workers are processes, and a process that has threads cannot fork",
                "use the engine threads, which serves in the same way, or run tarpon serve",
            )));
        }
        let is_alone = |listener: &Listener| listener.http2(settings.http2) == Http2Use::Only;
        if engine.is_blocking() && listeners.iter().any(is_alone) {
            return Err(io::Error::other(UserError::new(
                format_args!("cannot serve HTTP/2 alone with the engine {engine}"),
                "it does not offer HTTP/2",
                "use another engine, such as Engine::Auto, or another value of Settings::http2 and Listener::with_http2",
            )));
        }
        if settings.proxy_trust.proxies.is_empty()
            && let Some(listener) = listeners.iter().find(|listener| listener.has_proxy_protocol())
        {
            return Err(io::Error::other(UserError::new(
                format_args!("cannot accept clients on {}", listener.address()),
                "its connections begin with a PROXY header, and no proxy is trusted to send one",
                "name the addresses of the proxies in Settings::proxy_trust",
            )));
        }
        let threads = functions::add(functions, &mut backends).map_err(io::Error::other)?;
        if let Some(upstreams) = backends.upstreams.as_mut().filter(|_| !engine.is_blocking()) {
            upstreams.start_thread()?;
        }
        let tables = backends.add_routes(&routes.tables).map_err(io::Error::other)?;
        let logs: Vec<_> = sites.iter().map(|site| site.log).collect();
        let site_set = SiteSet::new(settings, sites);
        let connection_count_max = connection_count_max(worker_count, site_set.descriptor_count());
        let configured = settings.max_connections.map(|count| (count.get() as usize / worker_count).max(1));
        let connection_count_max = configured.unwrap_or(connection_count_max).min(connection_count_max);
        let sites = site_set.sites();
        let mailboxes: Arc<[_]> =
            (0..worker_count).map(|_| Mailbox::new().map(Arc::new)).collect::<io::Result<_>>()?;
        let hot_paths = HotPathTables::new(settings.hot_paths, worker_count)?;
        let stats = ServerStats::new(engine, worker_count, counters.clone(), &labels, helper_stats)
            .with_usage(usage)
            .with_hot_paths(hot_paths.clone());
        for (number, (versions, _)) in sites.iter().enumerate() {
            stats.site_loaded(number, versions.current.file_count(), versions.current.content_len());
        }
        let logs = LogPlan::new(settings.logging, logs.into_iter().zip(labels), settings.debug);
        let (log, rings) = match logs.recording() {
            Some(recording) => {
                let rings = LogRings::new(worker_count)?;
                (Some(AccessLog::start(&logs, &rings, &counters, &stats)?), Some((recording, rings)))
            }
            None => (None, None),
        };
        let histories = site_set.into_histories().into_iter().map(Mutex::new).collect();
        let handle = Handle { mailboxes, histories, log, stats: Arc::new(stats) };
        let cores = settings.cpu_affinity.then(cores::allowed).transpose()?;
        let loader = engine.start_loader(dev_null)?;
        let has_tls = listeners.iter().any(Listener::has_tls)
            || backends.upstreams.as_ref().is_some_and(WorkerUpstreams::have_tls);
        let handshakes = if has_tls { engine.start_handshakes(worker_count)? } else { None };
        let password_jobs = match has_passwords {
            true => Some(engine.start_password_jobs(limit_tables.password_turns())?),
            false => None,
        };
        let socket_count = engine.socket_count(settings.workers());
        let idle_workers = Arc::new(SharedArray::<IdleWorkers>::new(1)?).row(0);
        idle_workers.set_all_idle(worker_count);
        let proxy_trust = Arc::new(settings.proxy_trust.clone());
        let config = |number| {
            let (mut sockets, mut socket_settings) = (Vec::new(), Vec::new());
            for listener in &listeners {
                sockets.extend(listener.sockets_for(number % socket_count, socket_count)?);
                socket_settings.resize(sockets.len(), listener.settings(&routes, settings.http2));
            }
            io::Result::Ok(WorkerConfig {
                backends: backends.clone(),
                upstream_row: Some(number),
                number,
                worker_count,
                idle_workers: idle_workers.clone(),
                listeners: sockets,
                socket_settings: socket_settings.into(),
                mailbox: handle.mailboxes[number].clone(),
                sites: sites.clone(),
                routes: tables.clone(),
                health_path: settings.health_path.as_ref().map(|path| path.as_bytes().into()),
                server_header: settings.server_header,
                head_len_max: settings.max_head_size,
                proxy_trust: proxy_trust.clone(),
                client_limits: client_limits.clone(),
                connection_limit: connection_limit.clone(),
                kernel_suites,
                acme: acme.clone(),
                loader: loader.clone(),
                handshakes: handshakes.clone(),
                password_jobs: password_jobs.clone(),
                connection_count_max,
                counters: counters.row(number),
                hot_paths: hot_paths.as_ref().map(|tables| tables.row(number)),
                log: rings.as_ref().map(|(recording, rings)| (recording.clone(), rings.producer(number))),
            })
        };
        // Prepare everything before the first worker starts, so that an error leaves none running.
        let configs = (0..worker_count).map(config).collect::<io::Result<Vec<_>>>()?;
        let mut workers = Vec::new();
        let (ready, all_ready) = channel();
        for (number, config) in configs.into_iter().enumerate() {
            let core = cores.as_ref().map(|cores| cores[number % cores.len()]);
            let guard = WorkerGuard { handle: handle.clone(), is_disarmed: false };
            let ready = WorkerReady(ready.clone());
            let has_handshakes = config.handshakes.is_some();
            let run = move || {
                if has_handshakes {
                    // Requests interrupt handshakes. Without it they wait a little.
                    let _ = priority::shorten_slice();
                }
                if let Some(core) = core {
                    cores::pin(core)?;
                }
                engine.run(config, ready)?;
                guard.disarm();
                Ok(())
            };
            workers.push(thread::Builder::new().name(format!("worker {number}")).spawn(run)?);
        }
        drop(ready);
        let ready_count = all_ready.iter().count();
        let addresses = listeners.iter().map(|listener| listener.address().clone()).collect();
        let files = listeners.iter_mut().filter_map(Listener::take_file).collect();
        let server = Server { workers, handle, addresses, files, threads };
        if ready_count < worker_count {
            server.handle.stop(Duration::ZERO);
            server.join()?;
            return Err(io::Error::other("a worker failed to start"));
        }
        Ok(server)
    }

    /// Returns the addresses of the listeners.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Returns a handle that controls the server.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Waits until all workers have ended, and all functions on threads have returned. A worker that fails ends the others too.
    ///
    /// # Errors
    /// The first error of a worker.
    ///
    /// # Panics
    /// If a worker panicked.
    pub fn join(self) -> io::Result<()> {
        let ends: Vec<_> = self.workers.into_iter().map(JoinHandle::join).collect();
        if let Some(log) = &self.handle.log {
            log.end();
        }
        self.threads.join();
        drop(self.files);
        ends.into_iter().try_for_each(|end| end.unwrap_or_else(|panic| resume_unwind(panic)))
    }
}

impl Handle {
    /// Replaces the site. New exchanges are served from `site`; responses under way end with the previous one, and no connection closes.
    /// [`Settings::keep_releases`] sets what the server retains of earlier sites.
    ///
    /// With several sites, it replaces the first.
    pub fn swap(&self, site: Site) {
        self.swap_at(0, site);
    }

    /// Replaces the site of this number, counted from 0 in the order given at the start. The others stay.
    ///
    /// # Panics
    /// If there is no site of this number.
    pub fn swap_at(&self, number: usize, site: Site) {
        // Locked until every mailbox has the site, so that concurrent swaps reach all workers in the same order.
        let mut history = self.histories[number].lock().unwrap_or_else(PoisonError::into_inner);
        self.stats.site_loaded(number, site.file_count(), site.content_len());
        let versions = history.next(site);
        for mailbox in &*self.mailboxes {
            mailbox.post(WorkerMessage::UpdateSite(SiteId::new(number), versions.clone()));
        }
    }

    /// Sets the sink of the access log. Log records wait until every log has a sink. No effect if [`Settings::logging`] is `None`.
    pub fn log_to(&self, sink: LogSink) {
        self.set_log(LogOwner::Server, sink);
    }

    /// Sets the sink of the log that the site of this number has for itself: [`SiteLog::Own`](crate::SiteLog::Own).
    pub fn log_site_to(&self, number: usize, sink: LogSink) {
        self.set_log(LogOwner::Site(number), sink);
    }

    pub(crate) fn set_log(&self, owner: LogOwner, sink: LogSink) {
        if let Some(log) = &self.log {
            log.log_to(owner, sink);
        }
    }

    /// Returns the statistics of the server.
    pub(crate) fn stats(&self) -> &Arc<ServerStats> {
        &self.stats
    }

    /// Returns the metrics of the server.
    pub fn metrics(&self) -> Metrics {
        self.stats.metrics()
    }

    /// Stops the server: it accepts no more clients, finishes exchanges under way, and ends after `grace` at the latest.
    pub fn stop(&self, grace: Duration) {
        self.shut_down(ShutdownMode::Stop, grace);
    }

    /// Drains the server in favour of another one on the same listening sockets: it accepts no more clients, and answers one more request
    /// on each connection, with `Connection: close`. It waits for that request, so that no request meets a closed connection, but no longer
    /// than the idle timeout and `grace`.
    pub fn drain(&self, grace: Duration) {
        self.shut_down(ShutdownMode::Drain, grace);
    }

    /// Stops or drains the server.
    pub(crate) fn shut_down(&self, mode: ShutdownMode, grace: Duration) {
        self.stats.set_draining();
        for mailbox in &*self.mailboxes {
            mailbox.post(WorkerMessage::Shutdown { mode, grace });
        }
    }
}

/// Stops the server when a worker fails or does not start: a server with a part of its workers must not continue.
struct WorkerGuard {
    handle: Handle,
    is_disarmed: bool,
}

impl WorkerGuard {
    fn disarm(mut self) {
        self.is_disarmed = true;
    }
}

impl Drop for WorkerGuard {
    fn drop(&mut self) {
        if !self.is_disarmed {
            self.handle.stop(Duration::ZERO);
        }
    }
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle").field("workers", &self.mailboxes.len()).finish()
    }
}

/// Returns how many connections per worker the limit on open files allows, after the sites and the other descriptors of the process. Further
/// clients wait in the backlog.
fn connection_count_max(worker_count: usize, descriptor_count: usize) -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX).min(CONNECTION_COUNT_MAX);
    let others = descriptor_count + 8 * worker_count + 32;
    (limit.saturating_sub(others) / worker_count).max(1)
}

/// The largest number of connections of a process, even if the limit on open files is larger: some 4 GiB of slots and socket structures.
const CONNECTION_COUNT_MAX: usize = 1 << 20;
