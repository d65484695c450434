//! The server process: worker threads, and a thread that receives messages of the supervisor.
//!
//! ```text
//! supervisor ── sites, logs ─▶ start ─▶ Server with its workers ── Serving ─▶ supervisor
//!            ── sites, logs, shutdown ─▶ control thread ─▶ Handle
//! ```

use crate::{
    base::{
        address::ListenAddress,
        engine::{ChosenEngine, Engine},
        error::{UserError, reason},
        log_config::{LogConfig, LogOwner, Logging},
        settings::{Settings, UnknownHost},
        site_config::SiteConfig,
    },
    control::{
        access_log::LogSink,
        admin::{Admin, Order},
        cgi::{service::CgiBackends, stats::CgiStats},
        client_limits::LimitTables,
        counters::ServerCounters,
        helper_stats::HelperStats,
        kernel_tls,
        listeners::Listener,
        process::{
            channel::{Channel, Descriptors, Receiver, Sender, owned, unshared},
            message::{FromServer, SiteRejection, ToServer},
            shared_files::SharedFiles,
        },
        process_usage::ProcessUsage,
        sandbox::{self, Confinement, Privileges, ServerNeeds},
        server::{Handle, Server, ServerHelpers},
        site_states::SiteStates,
        stats::ServerStats,
        supervisor::Notice,
        upstreams::service::UpstreamBackends,
        worker_pool,
    },
    data::{
        acme_table::AcmeTable,
        worker::{Backends, loader, mailbox::ShutdownMode},
    },
    site::{
        Site,
        descriptor_budget::DescriptorBudget,
        transfer::SiteTransfer,
        virtual_hosts::{VirtualHost, VirtualHosts},
    },
    sys::process::exit_now,
};
use rustix::io::Errno;
use std::{
    error::Error,
    io,
    os::fd::OwnedFd,
    sync::{Arc, Mutex, PoisonError},
    thread,
};

/// What a server process starts with.
pub(crate) struct ServerStart<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) listeners: Vec<Listener>,
    pub(crate) admin: Option<Listener>,
    /// Another server answers at the admin listener until this one serves.
    pub(crate) is_successor: bool,
    pub(crate) sites: &'a [SiteConfig],
    pub(crate) unknown_host: UnknownHost,
    pub(crate) log: &'a LogConfig,
    pub(crate) privileges: &'a Privileges,
    pub(crate) counters: ServerCounters,
    pub(crate) limit_tables: LimitTables,
    /// Certificates and the answers to directories, if any site has names for them.
    pub(crate) acme: Option<Arc<AcmeTable>>,
    /// The CGI programs of the sites, and the numbers of all.
    pub(crate) cgi: Option<CgiBackends>,
    pub(crate) cgi_stats: Option<Arc<CgiStats>>,
    /// The upstream servers of the sites.
    pub(crate) upstreams: Option<UpstreamBackends>,
    /// What the builder knows of the sites.
    pub(crate) states: Arc<SiteStates>,
    pub(crate) emit: fn(Notice<'_>),
}

/// A server that serves.
struct RunningServer {
    server: Server,
    /// Answers until the process ends.
    admin: Option<Admin>,
    chosen: ChosenEngine,
    confinement: Confinement,
    needs: ServerNeeds,
}

/// Runs until the supervisor stops the server. Returns an exit status.
pub(crate) fn run(start: ServerStart<'_>, mut channel: Channel) -> i32 {
    channel.receiver.share_files(&SharedFiles::new(DescriptorBudget::of_process().total_max));
    if worker_pool::runs(start.settings.engine) {
        return worker_pool::run(start, channel);
    }
    let Channel { sender, mut receiver } = channel;
    let supervisor = Arc::new(SupervisorChannel(Mutex::new(sender)));
    let RunningServer { server, admin, chosen, confinement, needs } =
        match start_server(start, &mut receiver, &supervisor) {
            Ok(Some(running)) => running,
            // The supervisor has stopped the server before it had anything to serve.
            Ok(None) => return 0,
            Err(why) => {
                supervisor.send(&FromServer::StartFailed { why });
                return 1;
            }
        };
    let ChosenEngine { engine, fallback_reason } = chosen;
    if let Some(admin) = &admin {
        admin.set_server(server.handle());
    }
    let (handle, control) = (server.handle(), Arc::clone(&supervisor));
    let control = move || receive_messages(&handle, admin, &mut receiver, &control);
    let control = thread::Builder::new().name("control".to_owned()).spawn(control);
    let served = control.and_then(|_| {
        // The last thread runs: the process drops the calls that starting threads took.
        sandbox::confine_running_server(confinement.has_seccomp, needs)
            .map_err(|error| io::Error::other(sandbox::unconfined(&error)))?;
        let confinement = confinement.summary(engine);
        supervisor.send(&FromServer::Serving { engine, fallback_reason, confinement });
        server.join()
    });
    match served {
        Ok(()) => 0,
        Err(error) => {
            supervisor.send(&FromServer::StartFailed { why: error.to_string() });
            1
        }
    }
}

/// Waits for the sites, and starts the server. `None`: the supervisor has stopped it first.
fn start_server(
    start: ServerStart<'_>,
    receiver: &mut Receiver,
    supervisor: &Arc<SupervisorChannel>,
) -> Result<Option<RunningServer>, String> {
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
        ..
    } = start;
    // Opened before the sandbox forbids it.
    let dev_null = loader::dev_null().map_err(|error| error.to_string())?;
    let usage = Arc::new(ProcessUsage::of_this_process());
    let chosen = settings.engine.choose().map_err(|error| error.to_string())?;
    let settings = Settings { engine: chosen.engine, ..settings.clone() };
    let has_tls = listeners.iter().any(Listener::has_tls);
    let kernel_suites = kernel_tls::suites(&settings, has_tls).map_err(|error| error.to_string())?;
    let needs =
        ServerNeeds { rings: chosen.engine == Engine::IoUring, kernel_tls: !kernel_suites.is_empty() };
    privileges.assume().map_err(|error| error.to_string())?;
    let confinement =
        sandbox::confine_server(privileges, needs).map_err(|error| sandbox::unconfined(&error))?;
    // A thread, so not before the sandbox. That the server is starting is an answer too.
    let start_admin = |listener: &Listener, stats: Option<Arc<ServerStats>>| {
        let supervisor = Arc::clone(supervisor);
        Admin::start_with(listener, &counters, stats, move |order, client| supervisor.forward(order, client))
            .map_err(|error| error.to_string())
    };
    let early = admin.as_ref().filter(|_| !is_successor).map(|bound| start_admin(bound, None)).transpose()?;
    // While the builder reads.
    let rows = counters.clone().with_rows(settings.workers().get()).map_err(|error| error.to_string())?;
    let mut pending: Vec<_> = sites.iter().map(|_| PendingSite::default()).collect();
    let mut sinks = Vec::new();
    while !pending.iter().all(PendingSite::is_complete) {
        match receiver.receive().map_err(|error| error.to_string())? {
            Some((ToServer::Site { site, transfer, is_earlier, loads }, descriptors)) => {
                let pending = pending.get_mut(site).ok_or("there is no site of this number")?;
                pending.loads = loads;
                match receive_site(&transfer, descriptors) {
                    Ok(built) => pending.add(built, is_earlier),
                    Err(SiteRejection { why, .. }) if is_earlier => {
                        tracing::warn!("{why}; this earlier version is not kept");
                    }
                    Err(SiteRejection { why, .. }) => return Err(why),
                }
            }
            Some((ToServer::Log { of }, descriptors)) => {
                sinks.extend(log_sink(descriptors, supervisor, of).map(|sink| (of, sink)));
            }
            Some((ToServer::Shutdown { .. }, _)) | None => return Ok(None),
        }
    }
    let loads: Vec<_> = pending.iter().map(|pending| pending.loads).collect();
    let hosts = sites.iter().zip(pending).map(|(config, pending)| pending.host(config, log.logging));
    let hosts = VirtualHosts::new(hosts.collect(), unknown_host).map_err(|error| error.to_string())?;
    let upstream_stats = upstreams.as_ref().map(|upstreams| upstreams.stats.clone());
    let stats = HelperStats { acme, cgi: cgi_stats, upstreams: upstream_stats, states: Some(states) };
    let server = Server::start_with(
        &settings,
        listeners,
        hosts,
        dev_null,
        rows,
        ServerHelpers {
            kernel_suites,
            limit_tables: Some(limit_tables),
            ..helpers(cgi.as_ref(), upstreams.as_ref(), stats, usage).map_err(|error| error.to_string())?
        },
    )
    .map_err(|error| error.to_string())?;
    let handle = server.handle();
    loads.into_iter().enumerate().for_each(|(site, loads)| handle.stats().set_loads(site, loads));
    sinks.into_iter().for_each(|(of, sink)| handle.set_log(of, sink));
    let late = admin
        .as_ref()
        .filter(|_| is_successor)
        .map(|bound| start_admin(bound, Some(Arc::clone(handle.stats()))))
        .transpose()?;
    Ok(Some(RunningServer { server, admin: early.or(late), chosen, confinement, needs }))
}

/// Returns what a server shares with its helpers.
///
/// # Errors
/// There are too many routes to them.
pub(crate) fn helpers(
    cgi: Option<&CgiBackends>,
    upstreams: Option<&UpstreamBackends>,
    stats: HelperStats,
    usage: Arc<ProcessUsage>,
) -> Result<ServerHelpers, UserError> {
    let mut backends = Backends::default();
    cgi.into_iter().try_for_each(|cgi| cgi.add_to(&mut backends))?;
    upstreams.into_iter().try_for_each(|upstreams| upstreams.add_to(&mut backends))?;
    Ok(ServerHelpers {
        acme: stats.acme.clone(),
        backends,
        stats: Some(stats),
        usage: Some(usage),
        ..ServerHelpers::default()
    })
}

/// The versions of a site that have arrived before the server serves.
#[derive(Default)]
pub(crate) struct PendingSite {
    current: Option<Site>,
    /// The latest first.
    earlier: Vec<Site>,
    /// How often the site was loaded since the service started.
    pub(crate) loads: u64,
}

impl PendingSite {
    /// Adds a version.
    pub(crate) fn add(&mut self, site: Site, is_earlier: bool) {
        match is_earlier {
            true => self.earlier.insert(0, site),
            false => self.current = Some(site),
        }
    }

    /// Returns whether the current version has arrived.
    pub(crate) fn is_complete(&self) -> bool {
        self.current.is_some()
    }

    /// Returns the site with its hosts, limits and log.
    ///
    /// # Panics
    /// The site is not complete.
    pub(crate) fn host(self, config: &SiteConfig, logging: Logging) -> VirtualHost {
        let SiteConfig { hosts, redirect_hosts, mount, listen, limits, keep_releases, log, .. } = config;
        VirtualHost {
            site: self.current.expect("the site is complete"),
            earlier: self.earlier,
            names: hosts.clone(),
            redirect_hosts: redirect_hosts.clone(),
            mount: mount.clone(),
            listen: listen.iter().flat_map(ListenAddress::addresses).collect(),
            limits: *limits,
            path_limits: config.path_limits.clone(),
            https_port: config.redirects_to_https.unwrap_or(false).then_some(config.https_port),
            keep_releases: Some(*keep_releases),
            log: log.resolve(logging),
        }
    }
}

/// Handles the messages of the supervisor, as long as it runs.
fn receive_messages(
    server: &Handle,
    mut admin: Option<Admin>,
    receiver: &mut Receiver,
    supervisor: &Arc<SupervisorChannel>,
) {
    loop {
        match receiver.receive() {
            // Earlier versions belong to the start.
            Ok(Some((ToServer::Site { is_earlier: true, .. }, _))) => {}
            Ok(Some((ToServer::Site { site, transfer, loads, .. }, descriptors))) => {
                match receive_site(&transfer, descriptors) {
                    Ok(built) => {
                        server.swap_at(site, built);
                        server.stats().set_loads(site, loads);
                    }
                    Err(rejection) => supervisor.send(&FromServer::SiteRejected { site, rejection }),
                }
            }
            Ok(Some((ToServer::Log { of }, descriptors))) => {
                if let Some(sink) = log_sink(descriptors, supervisor, of) {
                    server.set_log(of, sink);
                }
            }
            Ok(Some((ToServer::Shutdown { mode, grace }, _))) => {
                if mode == ShutdownMode::Drain {
                    // The successor answers at the admin listener.
                    drop(admin.take());
                }
                server.shut_down(mode, grace);
            }
            // Without the supervisor no process could stop this one.
            Ok(None) | Err(_) => exit_now(1),
        }
    }
}

/// Returns the sink of a log, which reports when its reader has gone. `None`: its descriptor was lost. The supervisor then sends another.
fn log_sink(descriptors: Descriptors, supervisor: &Arc<SupervisorChannel>, of: LogOwner) -> Option<LogSink> {
    let supervisor = Arc::clone(supervisor);
    let Some(descriptor) = descriptors.unwrap_or_default().into_iter().next().and_then(owned) else {
        supervisor.send(&FromServer::LogBroken { of });
        return None;
    };
    Some(LogSink::from(descriptor).on_disconnect(move || supervisor.send(&FromServer::LogBroken { of })))
}

/// Returns a site that another process has sent.
///
/// # Errors
/// Its descriptors were lost, or the site is invalid.
pub(crate) fn receive_site(transfer: &SiteTransfer, descriptors: Descriptors) -> Result<Site, SiteRejection> {
    let descriptors = descriptors.map_err(|lost| rejection(&lost, true))?;
    Site::from_transfer(transfer, descriptors).map_err(|error| SiteRejection {
        why: format!("cannot take over the site: {}", reason(&error)),
        is_shortage: is_shortage(&error),
    })
}

/// Returns why a site cannot be used.
pub(crate) fn rejection(why: &dyn Error, is_shortage: bool) -> SiteRejection {
    SiteRejection { why: format!("cannot take over the site: {why}"), is_shortage }
}

/// Returns whether the process or the system is short of descriptors or memory.
pub(crate) fn is_shortage(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM))
}

/// The channel to the supervisor, for several threads.
struct SupervisorChannel(Mutex<Sender>);

impl SupervisorChannel {
    /// Sends a message. A failure means that the supervisor has exited, and the control thread notices that.
    fn send(&self, message: &FromServer) {
        let _ = self.0.lock().unwrap_or_else(PoisonError::into_inner).send(message);
    }

    /// Forwards an order with the connection of its client.
    fn forward(&self, order: Order, client: OwnedFd) {
        let mut sender = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = sender.send_with(&FromServer::AdminRequest { order }, &unshared([client]));
    }
}
