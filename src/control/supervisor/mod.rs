//! The processes of `tarpon serve`.
//!
//! ```text
//! supervisor   one thread: signals, listening sockets, what was sent last; starts the others, and starts them again
//!  │
//!  ├─ keeper   watches what the sites are made of, and builds them ──┐ descriptors and a few numbers,
//!  └─ server   workers; has the listeners, and the sites it is sent ◀┘ by way of the supervisor
//! ```
//!
//! The others are children that were forked and never exec'ed: what they need at their start is in memory already. Either may
//! end, in whatever way: the supervisor has the listening sockets, on which clients wait meanwhile, and the sites, and
//! starts another in its place. When the supervisor ends, so do they.
//!
//! A reload is another generation of both, beside the first one and on the same listening sockets. When it serves, the server of
//! the first answers each of its connections once more and ends; if it cannot begin, nothing has changed. An upgrade is the same with
//! another supervisor, of the program as its file is now.
//!
//! | file | what |
//! |---|---|
//! | `told` | what is told of it all, for somebody else to find words |
//! | `message` | what the processes say to each other |
//! | `channel` | how: packets with descriptors |
//! | `generation` | the processes of one configuration, and those of one before that are to end |
//! | `listeners` | the sockets of all generations |
//! | `lineup` | the sites that were sent last |
//! | `post`, `child` | one process, and how it ended |
//! | `caller` | who asked for a reload or an upgrade, and waits to be told what came of it |
//! | `heir`, `former`, `program` | another supervisor that takes over; the one it takes over from; where its program lies |
//! | `journal` | the access logs, opened for the server |
//! | `backoff` | when another takes its place |
//! | `keeper`, `serving` | what the children do |
//! | `crew` | a server that is several processes itself |

pub(super) mod backoff;
mod caller;
pub(super) mod channel;
pub(super) mod child;
mod former;
mod generation;
mod heir;
pub(super) mod journal;
mod keeper;
mod lineup;
mod listeners;
pub(super) mod message;
mod post;
mod program;
pub(super) mod serving;
mod told;

pub use told::{Notice, Role, ServingReport, SiteLabel};

use crate::{
    base::{
        address::Address,
        admin_access::AdminAccess,
        engine::Engine,
        error::reason,
        log_config::LogConfig,
        settings::{Settings, UnknownHost},
        site_config::SiteConfig,
    },
    control::{
        admin::Order,
        systemd::{self, Systemd},
    },
    sys::signals::{Signals, die_of},
};
use caller::Caller;
use former::Former;
use generation::{Begun, Generation, Leaving};
use heir::{Course, Heir};
use lineup::Legacy;
use listeners::Listeners;
use message::ToServer;
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
    process::{Pid, Signal, getpid},
    time::Timespec,
};
use std::{
    error::Error,
    io, mem,
    path::PathBuf,
    time::{Duration, Instant},
};
use tarpon_site::Printable;

/// A service: its sites, addresses, settings and logs.
#[derive(Debug)]
pub struct Service {
    /// The settings of the server.
    pub settings: Settings,
    /// The addresses of the listeners. If empty: the sockets of systemd, if there are any, or else the [default](crate::default_addresses).
    pub addresses: Vec<Address>,
    /// The sites, at least one.
    pub sites: Vec<SiteConfig>,
    /// How to answer a request for an unknown host.
    pub unknown_host: UnknownHost,
    /// How long responses under way may take to finish after a signal to stop.
    pub grace_period: Duration,
    /// The configuration of the logs, from which [`Settings::logging`] is set.
    pub log: LogConfig,
    /// The user that the children become if the program starts as root; by default `tarpon` or `nobody`.
    pub user: Option<String>,
    /// Whether to confine the children.
    pub sandbox: bool,
    /// The address of the admin listener.
    pub admin: Option<Address>,
    /// The admin address is the default: if another server uses it, this one runs without an admin listener.
    pub admin_is_default: bool,
    /// Which clients may use the admin listener.
    pub admin_access: AdminAccess,
}

/// Reads the configuration: at the start, and for each reload.
type Read<'a> = &'a dyn Fn() -> Result<Service, Box<dyn Error>>;

/// Serves until SIGTERM or SIGINT; a second one ends the grace period. SIGHUP reads the configuration again and serves it; SIGUSR2 starts the
/// program file again, which takes over. If either fails, a notice reports it and nothing changes.
///
/// Each process passes its notices to `tell`. The supervisor notifies systemd and uses its sockets, if systemd has started the program: so the
/// caller must not have opened descriptors before.
///
/// # Errors
/// The service could not start, or the server did not shut down properly.
pub fn supervise(
    read: &dyn Fn() -> Result<Service, Box<dyn Error>>,
    tell: fn(Notice<'_>),
) -> Result<(), Box<dyn Error>> {
    let mut former = Former::find()?;
    let done = match Supervisor::new(&mut former, read, tell) {
        Ok(mut supervisor) => {
            let done = supervisor.run();
            former = supervisor.former.take();
            done
        }
        Err(error) => Err(error),
    };
    done.map_err(|error| match former {
        Some(former) => former.refuse(&*error),
        None => error,
    })
}

struct Supervisor<'a> {
    // Children first: they are ended before anything else is let go of.
    stage: Stage,
    next: Option<Next>,
    /// Servers of generations before.
    leaving: Vec<Leaving>,
    /// Where another program has taken over, and nobody has told this one to stop: what a first signal leaves to its clients.
    last_grace: Option<Duration>,
    listeners: Listeners,
    signals: Signals,
    systemd: Systemd,
    /// The program that this one is to take over from, as long as it is not done.
    former: Option<Former>,
    /// Where the program lies.
    program: io::Result<PathBuf>,
    read: Read<'a>,
    tell: fn(Notice<'_>),
}

/// What the whole of it is at.
enum Stage {
    /// Serving, or about to.
    Serving(Box<Generation>),
    /// All servers shall end.
    Stopping,
}

/// What is to take over, and has not begun.
struct Next {
    trial: Trial,
    /// Who wait for it.
    callers: Vec<Caller>,
}

enum Trial {
    /// Another generation, and where nobody listened before it.
    Generation(Box<Generation>, Vec<Address>),
    /// Another program.
    Program(Heir),
}

impl Trial {
    /// What was asked for.
    fn order(&self) -> Order {
        match self {
            Trial::Generation(..) => Order::Reload,
            Trial::Program(_) => Order::Upgrade,
        }
    }
}

impl<'a> Supervisor<'a> {
    /// Without processes so far.
    fn new(
        former: &mut Option<Former>,
        read: Read<'a>,
        tell: fn(Notice<'_>),
    ) -> Result<Self, Box<dyn Error>> {
        let (engine, mut listeners, legacy) = match former {
            Some(former) => {
                let (engine, listeners, legacy) = former.legacy()?;
                (Some(engine), listeners, legacy)
            }
            None => (None, Listeners::lent(systemd::sockets()?), Legacy::new()),
        };
        let program = program::path();
        let mut service = read()?;
        listeners.settle(&mut service);
        match engine {
            Some(engine) if service.settings.engine == Engine::Auto && engine.may_be_auto() => {}
            Some(engine) => check_engine(engine, &service)?,
            None => listeners.check_lent(&service)?,
        }
        // Before anything else is looked at: a port in use is told at once, not after a long reading.
        listeners.add(&service)?;
        let mut current = Generation::new(service, &legacy, tell)?;
        if let Some(engine) = engine {
            current.keep_engine(engine);
        }
        // Before the children, so that what a terminal sends to all processes does not reach them.
        let signals = Signals::block(&[Signal::TERM, Signal::INT, Signal::USR1, Signal::HUP, Signal::USR2])?;
        former.as_mut().map(Former::has_taken).transpose()?;
        Ok(Supervisor {
            stage: Stage::Serving(Box::new(current)),
            next: None,
            leaving: Vec::new(),
            last_grace: None,
            listeners,
            signals,
            systemd: Systemd::find(),
            former: former.take(),
            program,
            read,
            tell,
        })
    }

    fn run(&mut self) -> Result<(), Box<dyn Error>> {
        if let Stage::Serving(current) = &mut self.stage {
            current.start(&mut self.listeners, self.former.is_some())?;
        }
        loop {
            self.wait()?;
            self.former.as_ref().map(Former::mind).transpose()?;
            // Who serves already is not abandoned for what is asked for now.
            self.mind_next()?;
            while let Some(signal) = self.signals.next()? {
                self.heed(signal)?;
            }
            self.mind_current()?;
            self.mind_next()?;
            let mut orders = Vec::new();
            let ended = self.mind_leaving(&mut orders)?;
            if let Stage::Serving(current) = &mut self.stage {
                orders.extend(current.take_orders());
            }
            self.mind_orders(orders);
            if let Stage::Stopping = self.stage
                && self.leaving.is_empty()
            {
                return ended.map_err(Into::into);
            }
        }
    }

    /// Until something happens, or it is time for something.
    fn wait(&self) -> io::Result<()> {
        let mut polled = vec![PollFd::new(&self.signals, PollFlags::IN)];
        let mut due: Vec<Option<Instant>> = Vec::new();
        let current = match &self.stage {
            Stage::Serving(current) => Some(&**current),
            Stage::Stopping => None,
        };
        let next = self.next.as_ref().map(|next| &next.trial);
        let begins = match next {
            Some(Trial::Generation(generation, _)) => Some(&**generation),
            Some(Trial::Program(heir)) => {
                polled.extend(heir.polled());
                due.push(Some(heir.due()));
                None
            }
            None => None,
        };
        for generation in current.into_iter().chain(begins) {
            polled.extend(generation.polled());
            due.push(generation.due());
        }
        polled.extend(self.former.as_ref().map(Former::polled));
        for leaving in &self.leaving {
            polled.extend(leaving.polled());
            due.push(Some(leaving.due()));
        }
        let time = due.into_iter().flatten().min().map(|at| at.saturating_duration_since(Instant::now()));
        let time =
            time.map(|time| Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() });
        match poll(&mut polled, time.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn heed(&mut self, signal: Signal) -> io::Result<()> {
        match (signal, &mut self.stage) {
            (Signal::USR1, Stage::Serving(current)) => current.reopen_logs(),
            (Signal::HUP, Stage::Serving(_)) => self.change(Order::Reload, None),
            (Signal::USR2, Stage::Serving(_)) => self.change(Order::Upgrade, None),
            (Signal::USR1 | Signal::HUP | Signal::USR2, Stage::Stopping) => {}
            // Nobody can be served yet: as if there were no supervisor.
            (_, Stage::Serving(current)) if !current.serves() => die_of(signal),
            (_, Stage::Serving(current)) => {
                let grace = current.service.grace_period;
                self.stop(grace);
            }
            (_, Stage::Stopping) => {
                let grace = self.last_grace.take().unwrap_or_default();
                self.stop(grace);
            }
        }
        Ok(())
    }

    /// Lets all servers end.
    fn stop(&mut self, grace: Duration) {
        (self.tell)(Notice::Stopping(grace));
        self.systemd.stopping();
        if let Some(Next { callers, .. }) = self.next.take() {
            callers.into_iter().for_each(|caller| caller.refuse("the server is stopping"));
        }
        // Theirs are the last ones then: when they close them, nobody can connect any more.
        self.listeners.close();
        for leaving in &mut self.leaving {
            leaving.hasten(grace);
        }
        if let Stage::Serving(current) = mem::replace(&mut self.stage, Stage::Stopping) {
            // Whoever connects waits for a server that systemd starts: then no client needs to meet a connection that was just closed.
            let leaving = match self.listeners.has_lent() {
                true => current.leave(ToServer::Drain { grace }, grace).soon(grace),
                false => current.leave(ToServer::Stop { grace }, grace),
            };
            self.leaving.push(leaving);
        }
    }

    /// Begins another generation or another program, in the place of one that has not begun. Who waits for such a one waits for this.
    fn change(&mut self, order: Order, caller: Option<Caller>) {
        let mut waiting = Vec::new();
        if let Some(Next { trial, callers }) = self.next.take() {
            let former = trial.order();
            self.abandon(trial);
            match former == order {
                true => waiting = callers,
                false => self.stay(former, "a newer order replaced this one", callers),
            }
        }
        waiting.extend(caller);
        self.systemd.reloading();
        let trial = match order {
            Order::Reload => self.prepare(),
            Order::Upgrade => self.prepare_heir(),
        };
        match trial {
            Ok(trial) => self.next = Some(Next { trial, callers: waiting }),
            Err(error) => self.stay(order, &error.to_string(), waiting),
        }
    }

    /// Ends what has not begun.
    fn abandon(&mut self, trial: Trial) {
        if let Trial::Generation(generation, added) = trial {
            drop(generation);
            self.listeners.remove(&added);
        }
    }

    fn prepare(&mut self) -> Result<Trial, Box<dyn Error>> {
        let mut service = (self.read)()?;
        self.listeners.settle(&mut service);
        let Stage::Serving(current) = &self.stage else { return Err("the server is stopping".into()) };
        check_engine(current.service.settings.engine, &service)?;
        let mut generation = Box::new(Generation::new(service, &current.legacy(), self.tell)?);
        generation.keep_engine(current.engine());
        let added = self.listeners.add(&generation.service)?;
        match generation.start(&mut self.listeners, true) {
            Ok(()) => Ok(Trial::Generation(generation, added)),
            Err(error) => {
                self.listeners.remove(&added);
                Err(error.into())
            }
        }
    }

    fn prepare_heir(&mut self) -> Result<Trial, Box<dyn Error>> {
        let Stage::Serving(current) = &self.stage else { return Err("the server is stopping".into()) };
        if !current.has_begun() {
            return Err("nothing is served yet".into());
        }
        // With it the kernel ends all the others.
        if getpid() == Pid::INIT {
            return Err("process 1 of a container cannot be upgraded; start another container".into());
        }
        let program =
            self.program.as_ref().map_err(|error| format!("cannot find the file of the program: {error}"))?;
        let (listeners, sockets) = self.listeners.bequeath()?;
        let engine = current.engine();
        let heir = Heir::start(program, engine, listeners, &sockets, current.legacy());
        let heir =
            heir.map_err(|error| format!("cannot start {}: {}", program.printable(), reason(&error)))?;
        Ok(Trial::Program(heir))
    }

    /// What was to take over cannot, for this reason.
    fn stay(&mut self, order: Order, why: &str, callers: Vec<Caller>) {
        let (told, what, otherwise) = match order {
            Order::Reload => {
                (Notice::ReloadFailed(why), "not reloaded", "still serving the previous configuration")
            }
            Order::Upgrade => (Notice::UpgradeFailed(why), "not upgraded", "the old process still serves"),
        };
        (self.tell)(told);
        let words = format!("{what}: {why}\n{otherwise}");
        self.systemd.ready(&words);
        callers.into_iter().for_each(|caller| caller.tell_undone(&words));
    }

    fn mind_current(&mut self) -> Result<(), Box<dyn Error>> {
        let Stage::Serving(current) = &mut self.stage else { return Ok(()) };
        // What a process said last is heard before its end is noticed.
        if let Some(begun) = current.hear()? {
            self.begin(&begun)?;
        }
        let Stage::Serving(current) = &mut self.stage else { return Ok(()) };
        if let Some(why) = current.mind_ends()? {
            return Err(why.into());
        }
        Ok(current.mind_time(&mut self.listeners)?)
    }

    /// The first generation serves; where there is a program before this one, beside it.
    fn begin(&mut self, begun: &Begun) -> io::Result<()> {
        let Stage::Serving(current) = &mut self.stage else { return Ok(()) };
        let mut callers = Vec::new();
        if let Some(former) = self.former.take() {
            callers = former.succeed()?;
            self.listeners.own(true);
            self.listeners.keep(&current.service);
            // Whoever has renamed its file meanwhile has told the other program.
            current.reopen_logs();
        }
        let served = current.tell_served(begun, &self.listeners, true);
        self.systemd.ready(&served);
        let said = format!("upgraded: process {}, tarpon {VERSION}; {served}", getpid().as_raw_nonzero());
        callers.into_iter().for_each(|caller| caller.tell_done(&said));
        Ok(())
    }

    fn mind_next(&mut self) -> io::Result<()> {
        let Some(Next { trial, .. }) = &mut self.next else { return Ok(()) };
        let (begun, failed) = match trial {
            Trial::Generation(generation, _) => match generation.hear()? {
                Some(begun) => (Some(begun), None),
                None => (None, generation.mind_ends()?),
            },
            Trial::Program(heir) => match heir.mind()? {
                Course::Beginning => (None, None),
                Course::Failed(why) => (None, Some(why)),
                Course::Serving => {
                    self.hand_over();
                    return Ok(());
                }
            },
        };
        if let Some(begun) = begun {
            self.take_over(&begun);
        } else if let Some(why) = failed
            && let Some(Next { trial, callers }) = self.next.take()
        {
            let order = trial.order();
            self.abandon(trial);
            self.stay(order, &why, callers);
        }
        Ok(())
    }

    /// The next generation serves: the one before leaves its clients to it.
    fn take_over(&mut self, begun: &Begun) {
        let Stage::Serving(current) = &mut self.stage else { return };
        let Some(Next { trial: Trial::Generation(generation, _), callers }) = self.next.take() else {
            return;
        };
        let former = mem::replace(current, generation);
        self.listeners.keep(&current.service);
        // Whoever has renamed its file meanwhile has told the one before.
        current.reopen_logs();
        let grace = former.service.grace_period;
        self.leaving.push(former.leave(ToServer::Drain { grace }, grace));
        let served = current.tell_served(begun, &self.listeners, false);
        self.systemd.ready(&served);
        callers.into_iter().for_each(|caller| caller.tell_done(&format!("reloaded: {served}")));
    }

    /// Another program serves: this one leaves its clients to it, and ends.
    fn hand_over(&mut self) {
        let Some(Next { trial: Trial::Program(heir), callers }) = self.next.take() else { return };
        (self.tell)(Notice::Upgraded(heir.id));
        // Only the main process may say which is.
        self.systemd.main_process(heir.id);
        self.listeners.own(false);
        self.listeners.close();
        heir.release(callers.into_iter().map(|Caller(client)| client).collect());
        if let Stage::Serving(current) = mem::replace(&mut self.stage, Stage::Stopping) {
            let grace = current.service.grace_period;
            self.leaving.push(current.leave(ToServer::Drain { grace }, grace));
            self.last_grace = Some(grace);
        }
    }

    /// Does what was asked for at the admin listener.
    fn mind_orders(&mut self, orders: Vec<(Order, Caller)>) {
        for (order, caller) in orders {
            match self.stage {
                Stage::Serving(_) => self.change(order, Some(caller)),
                Stage::Stopping => {
                    caller.refuse("the server is stopping, or its successor serves; try again")
                }
            }
        }
    }

    /// Forgets servers that have ended. Returns what became of the last of them.
    fn mind_leaving(&mut self, orders: &mut Vec<(Order, Caller)>) -> io::Result<Result<(), String>> {
        let mut last = Ok(());
        let mut at = 0;
        while at < self.leaving.len() {
            self.leaving[at].mind_time();
            let ended = self.leaving[at].has_ended()?;
            orders.extend(self.leaving[at].take_orders());
            match ended {
                Some(ended) => {
                    drop(self.leaving.remove(at));
                    last = last.and(ended);
                }
                None => at += 1,
            }
        }
        if let (Err(why), Stage::Serving(_)) = (&last, &self.stage) {
            (self.tell)(Notice::DrainFailed(why));
        }
        Ok(last)
    }
}

/// Of sockets that two servers have at once, one engine would wait where the other must not.
fn check_engine(current: Engine, service: &Service) -> Result<(), &'static str> {
    match current == service.settings.engine {
        true => Ok(()),
        false => Err("a change of the engine needs a restart; see tarpon serve --engine"),
    }
}

const VERSION: &str = env!("CARGO_PKG_VERSION");
