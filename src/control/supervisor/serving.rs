//! The server process: workers, and a thread that hears the supervisor.

use super::{Notice, journal};
use crate::sys::process::exit_now;
use crate::{
    base::{
        engine::{ChosenEngine, Engine},
        log_config::{LogConfig, LogOwner, Logging},
        settings::{Settings, UnknownHost},
        site_config::SiteConfig,
    },
    control::process::{
        channel::{Channel, Descriptors, Receiver, Sender},
        message::{FromServer, ToServer},
    },
    control::worker_pool,
    control::{
        admin::{Admin, Order},
        listeners::Listener,
        sandbox::{self, Confinement, Privileges},
        server::{Handle, Server},
        stats::ServerStats,
    },
    data::worker::loader,
    site::{
        Site,
        transfer::SiteTransfer,
        virtual_hosts::{VirtualHost, VirtualHosts},
    },
};
use std::{
    io,
    os::fd::OwnedFd,
    sync::{Arc, Mutex, PoisonError},
    thread,
};

/// What a server process begins with.
pub(crate) struct Start<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) listeners: Vec<Listener>,
    pub(crate) admin: Option<Listener>,
    /// Another server answers there meanwhile.
    pub(crate) is_successor: bool,
    pub(crate) sites: &'a [SiteConfig],
    pub(crate) unknown: UnknownHost,
    pub(crate) log: &'a LogConfig,
    pub(crate) rights: &'a Privileges,
    pub(crate) tell: fn(Notice<'_>),
}

/// A server that has begun.
struct Begun {
    server: Server,
    /// Answers until the process ends.
    admin: Option<Admin>,
    chosen: ChosenEngine,
    confined: Confinement,
}

/// Runs until it is told to stop. Returns an exit status.
pub(crate) fn run(start: Start<'_>, channel: Channel) -> i32 {
    if worker_pool::runs(start.settings.engine) {
        return worker_pool::run(start, channel);
    }
    let Channel { sender, mut receiver } = channel;
    let sender = Arc::new(Mutex::new(sender));
    let begun = begin(start, &mut receiver, &sender);
    let Begun { server, admin, chosen, confined } = match begun {
        Ok(Some(begun)) => begun,
        // It was told to stop before it had anything to serve.
        Ok(None) => return 0,
        Err(why) => {
            say(&sender, &FromServer::StartFailed { why });
            return 1;
        }
    };
    let ChosenEngine { engine, fallback_reason: instead } = chosen;
    if let Some(admin) = &admin {
        admin.set_server(server.handle());
    }
    let (handle, heard) = (server.handle(), Arc::clone(&sender));
    let control = move || hear(&handle, admin, &mut receiver, &heard);
    let begun = thread::Builder::new().name("control".to_owned()).spawn(control).and_then(|_| {
        // The last thread: what it took to begin is not needed any more.
        sandbox::confine_running_server(confined.has_seccomp, engine == Engine::IoUring)
            .map_err(|error| io::Error::other(sandbox::unconfined(&error)))?;
        let words = confined.summary(engine);
        say(&sender, &FromServer::Serving { engine, fallback_reason: instead, confinement: words });
        Ok(())
    });
    let done = begun.and_then(|()| server.join());
    match done {
        Ok(()) => 0,
        Err(error) => {
            say(&sender, &FromServer::StartFailed { why: error.to_string() });
            1
        }
    }
}

/// Waits for the sites, and starts the server. `None`: there is to be none.
fn begin(
    start: Start<'_>,
    receiver: &mut Receiver,
    sender: &Arc<Mutex<Sender>>,
) -> Result<Option<Begun>, String> {
    let Start { settings, listeners, admin, is_successor, sites, unknown, log, rights, .. } = start;
    // What is opened is opened before.
    let nowhere = loader::dev_null().map_err(|error| error.to_string())?;
    rights.assume().map_err(|trouble| trouble.to_string())?;
    let confined = sandbox::confine_server(rights).map_err(|error| sandbox::unconfined(&error))?;
    // A thread, and so no sooner than now. That there is nothing to serve yet is an answer too.
    let answer = |bound: &Listener, stats: Option<Arc<ServerStats>>| {
        let sender = Arc::clone(sender);
        Admin::start_with(bound, stats, move |order, client| ask(&sender, order, client))
    };
    let early = admin.as_ref().filter(|_| !is_successor);
    let early = early.map(|bound| answer(bound, None)).transpose().map_err(|error| error.to_string())?;
    // While the keeper reads.
    let chosen = settings.engine.choose().map_err(|trouble| trouble.to_string())?;
    let settings = Settings { engine: chosen.engine, ..settings.clone() };
    let mut arrived: Vec<_> = sites.iter().map(|_| Arrived::default()).collect();
    let mut sinks = Vec::new();
    while !arrived.iter().all(Arrived::is_whole) {
        match receiver.receive().map_err(|error| error.to_string())? {
            Some((ToServer::Site { site, transfer: record, is_earlier, .. }, descriptors)) => {
                let arrived = arrived.get_mut(site).ok_or("there is no site of this number")?;
                arrived.add(take_over(&record, descriptors)?, is_earlier);
            }
            Some((ToServer::Log { of }, descriptors)) => {
                sinks.extend(
                    journal::sink(descriptors.unwrap_or_default(), log_broken(sender, of))
                        .map(|sink| (of, sink)),
                );
            }
            Some((ToServer::Stop { .. } | ToServer::Drain { .. }, _)) | None => return Ok(None),
        }
    }
    let hosts = sites.iter().zip(arrived).map(|(config, arrived)| arrived.host(config, log.logging));
    let hosts = VirtualHosts::new(hosts.collect(), unknown).map_err(|trouble| trouble.to_string())?;
    let server =
        Server::start_with(&settings, listeners, hosts, nowhere).map_err(|error| error.to_string())?;
    let handle = server.handle();
    sinks.into_iter().for_each(|(of, sink)| handle.set_log(of, sink));
    let late = admin.as_ref().filter(|_| is_successor);
    let late = late
        .map(|bound| answer(bound, Some(Arc::clone(server.handle().stats()))))
        .transpose()
        .map_err(|error| error.to_string())?;
    Ok(Some(Begun { server, admin: early.or(late), chosen, confined }))
}

/// What has come of a site.
#[derive(Default)]
pub(crate) struct Arrived {
    current: Option<Site>,
    /// The latest first.
    earlier: Vec<Site>,
}

impl Arrived {
    pub(crate) fn add(&mut self, site: Site, is_earlier: bool) {
        match is_earlier {
            true => self.earlier.insert(0, site),
            false => self.current = Some(site),
        }
    }

    /// Whether there is something to serve.
    pub(crate) fn is_whole(&self) -> bool {
        self.current.is_some()
    }

    /// The site with its names, limits and log, once there is one.
    pub(crate) fn host(self, config: &SiteConfig, logging: Logging) -> VirtualHost {
        let SiteConfig { hosts, redirect_hosts, limits, keep_releases, log, .. } = config;
        let (names, redirect_hosts, log) = (hosts.clone(), redirect_hosts.clone(), log.resolve(logging));
        let site = self.current.expect("it was waited for");
        let keep_releases = Some(*keep_releases);
        VirtualHost {
            site,
            earlier: self.earlier,
            names,
            redirect_hosts,
            limits: *limits,
            keep_releases,
            log,
        }
    }
}

/// Does what the supervisor says, for as long as there is one.
fn hear(server: &Handle, mut admin: Option<Admin>, receiver: &mut Receiver, sender: &Arc<Mutex<Sender>>) {
    loop {
        match receiver.receive() {
            // An earlier one is here already, or comes too late.
            Ok(Some((ToServer::Site { is_earlier: true, .. }, _))) => {}
            Ok(Some((ToServer::Site { site, transfer: record, .. }, descriptors))) => {
                match take_over(&record, descriptors) {
                    Ok(built) => server.swap_at(site, built),
                    Err(why) => say(sender, &FromServer::SiteRejected { why }),
                }
            }
            Ok(Some((ToServer::Log { of }, descriptors))) => {
                if let Some(sink) = journal::sink(descriptors.unwrap_or_default(), log_broken(sender, of)) {
                    server.set_log(of, sink);
                }
            }
            Ok(Some((ToServer::Stop { grace }, _))) => server.stop(grace),
            Ok(Some((ToServer::Drain { grace }, _))) => {
                // Its successor answers there.
                drop(admin.take());
                server.drain(grace);
            }
            // Without it nobody could stop us.
            Ok(None) | Err(_) => exit_now(1),
        }
    }
}

/// Tells the supervisor that nobody listens to the log of an owner.
fn log_broken(sender: &Arc<Mutex<Sender>>, of: LogOwner) -> impl FnMut() + Send + 'static {
    let sender = Arc::clone(sender);
    move || say(&sender, &FromServer::LogBroken { of })
}

/// The site that was sent.
pub(crate) fn take_over(record: &SiteTransfer, descriptors: Descriptors) -> Result<Site, String> {
    let unfit = |error: io::Error| format!("cannot take over the site: {error}");
    Site::from_transfer(record, descriptors.map_err(|error| unfit(io::Error::other(error)))?).map_err(unfit)
}

/// Passes on to the supervisor what somebody wants of it.
fn ask(sender: &Mutex<Sender>, order: Order, client: OwnedFd) {
    let mut sender = sender.lock().unwrap_or_else(PoisonError::into_inner);
    // As below.
    let _ = sender.send_with(&FromServer::AdminRequest { order }, &[client].into());
}

fn say(sender: &Mutex<Sender>, message: &FromServer) {
    // Where nobody hears it the supervisor has ended, and that is noticed elsewhere.
    let _ = sender.lock().unwrap_or_else(PoisonError::into_inner).send(message);
}
