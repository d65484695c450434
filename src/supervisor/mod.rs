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
//! | file | what |
//! |---|---|
//! | `told` | what is told of it all, for somebody else to find words |
//! | `message` | what the processes say to each other |
//! | `channel` | how: packets with descriptors |
//! | `lineup` | the sites that were sent last |
//! | `child` | one process, and how it ended |
//! | `journal` | the access log, opened for the server |
//! | `backoff` | when another takes its place |
//! | `keeper`, `serving` | what the children do |

mod backoff;
mod channel;
mod child;
mod journal;
mod keeper;
mod lineup;
mod message;
mod serving;
mod told;

pub use told::{Of, Role, Served, Told};

use crate::{
    config::{LogConfig, SiteConfig},
    engine::Engine,
    hosts::Unknown,
    listen::{Bound, SocketFile},
    sandbox::Rights,
    server::Settings,
    sys::signals::{Signals, die_of},
};
use backoff::Backoff;
use channel::Channel;
use child::{Child, End};
use journal::Journal;
use lineup::Lineup;
use message::{FromKeeper, FromServer, ToServer};
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
    process::Signal,
    time::Timespec,
};
use serde::de::DeserializeOwned;
use std::{
    error::Error,
    io, mem,
    os::fd::{AsRawFd, OwnedFd, RawFd},
    sync::Arc,
    time::{Duration, Instant},
};

/// What is to be served, and how.
#[derive(Debug)]
pub struct Service {
    /// How the server runs.
    pub settings: Settings,
    /// Where it listens.
    pub listeners: Vec<Bound>,
    /// What is served, at least one site.
    pub sites: Vec<SiteConfig>,
    /// What a host means that none of them has.
    pub unknown: Unknown,
    /// How long responses under way may take to finish when a signal tells the program to stop.
    pub grace: Duration,
    /// What is logged. What [`Settings::logging`] says comes from here.
    pub log: LogConfig,
    /// Whom the children become, where the program is started as root; by default `tarpon` or `nobody`.
    pub user: Option<String>,
    /// Whether what they do not need is taken from them.
    pub sandbox: bool,
    /// Where whoever watches over the server is answered.
    pub admin: Option<Bound>,
}

/// Serves until a signal says otherwise, SIGTERM or SIGINT; a second one ends the grace.
///
/// What happens meanwhile is told, each time by the process that it happens in.
///
/// # Errors
/// It could not begin; or the server did not end as it was told to.
pub fn supervise(service: Service, tell: fn(Told<'_>)) -> Result<(), Box<dyn Error>> {
    Supervisor::new(service, tell)?.run()
}

struct Supervisor {
    // Children first: they are ended before anything else is let go of.
    keeper: Post,
    server: Post,
    /// Of each source.
    lineups: Vec<Lineup>,
    journal: Option<Journal>,
    stage: Stage,
    service: Service,
    rights: Rights,
    tell: fn(Told<'_>),
    signals: Signals,
    /// Unix sockets, removed at the end.
    _files: Vec<SocketFile>,
}

/// What the whole of it is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// No site has been served yet: whatever fails is said, and ends it all.
    Starting,
    Serving,
    /// The server shall end, and is ended if it has not by then.
    Stopping {
        by: Instant,
    },
}

/// A place for a process.
struct Post {
    role: Role,
    child: Option<Child>,
    backoff: Backoff,
    /// When there is to be a process again.
    due: Option<Instant>,
    /// Why the process cannot go on, in its own words.
    why: Option<String>,
    /// For a server: that it has been sent the sites.
    is_supplied: bool,
    /// For a keeper: that it asks to be started anew, as it may not read where a site lies now.
    has_moved: bool,
}

/// How much longer than the grace a server may take to end, for what it does then.
const OVERDUE: Duration = Duration::from_secs(10);

impl Supervisor {
    fn new(mut service: Service, tell: fn(Told<'_>)) -> Result<Supervisor, Box<dyn Error>> {
        let journal = Journal::open(&service.log)?;
        service.settings.logging = journal.is_some().then_some(service.log.logging);
        let files =
            service.listeners.iter_mut().chain(&mut service.admin).filter_map(Bound::take_file).collect();
        Ok(Supervisor {
            keeper: Post::new(Role::Keeper),
            server: Post::new(Role::Server),
            lineups: service.sites.iter().map(Lineup::new).collect(),
            journal,
            stage: Stage::Starting,
            rights: Rights::new(service.user.as_deref(), service.sandbox)?,
            service,
            tell,
            // Before the children, so that what a terminal sends to all processes does not reach them.
            signals: Signals::block(&[Signal::TERM, Signal::INT, Signal::USR1])?,
            _files: files,
        })
    }

    fn run(&mut self) -> Result<(), Box<dyn Error>> {
        // Both at once: reading a site takes its time.
        self.start_keeper(keeper::Start::First)?;
        self.start_server()?;
        loop {
            self.wait()?;
            while let Some(signal) = self.signals.next()? {
                self.heed(signal)?;
            }
            // What a process said last is heard before its end is noticed.
            self.hear_keeper()?;
            self.hear_server()?;
            if let Some(end) = self.keeper.ended()? {
                self.keeper_ended(end)?;
            }
            if let Some(end) = self.server.ended()?
                && self.server_ended(end)?
            {
                return Ok(());
            }
            self.mind_time()?;
        }
    }

    fn start_keeper(&mut self, start: keeper::Start) -> io::Result<()> {
        let (sites, rights, tell) = (&self.service.sites, &self.rights, self.tell);
        self.keeper.start(&[], |channel| keeper::run(sites, rights, start, channel, tell))
    }

    fn start_server(&mut self) -> io::Result<()> {
        let Service { settings, listeners, sites, unknown, admin, .. } = &mut self.service;
        let sockets = listeners.iter().chain(&*admin).flat_map(Bound::sockets);
        let sockets: Vec<_> = sockets.map(AsRawFd::as_raw_fd).collect();
        let rights = &self.rights;
        // The child has a memory of its own, in which the listeners are its own.
        self.server.start(&sockets, |channel| {
            let (listeners, admin) = (mem::take(listeners), admin.take());
            let start = serving::Start { settings, listeners, admin, sites, unknown: *unknown, rights };
            serving::run(start, channel)
        })?;
        self.server.is_supplied = false;
        self.hand_log();
        self.supply()
    }

    /// Hands the server the log as it is open now.
    fn hand_log(&mut self) {
        if let (Some(child), Some(journal)) = (&mut self.server.child, &self.journal) {
            child.send(&ToServer::Log, journal.descriptor());
        }
    }

    /// Opens the log anew, if there is one.
    fn reopen_log(&mut self) {
        match self.journal.as_mut().map(Journal::reopen) {
            Some(Ok(())) => self.hand_log(),
            Some(Err(trouble)) => (self.tell)(Told::LogStays(&trouble)),
            None => {}
        }
    }

    /// Sends a new server all sites, once they are there.
    fn supply(&mut self) -> io::Result<()> {
        let Some(child) = &mut self.server.child else { return Ok(()) };
        if self.server.is_supplied || !self.lineups.iter().all(Lineup::is_whole) {
            return Ok(());
        }
        self.server.is_supplied = true;
        for (site, lineup) in self.lineups.iter().enumerate() {
            for (record, descriptors, is_earlier) in lineup.in_order() {
                child.send(&ToServer::Site { site, record: record.clone(), is_earlier }, descriptors);
            }
        }
        Ok(())
    }

    /// Until something happens, or it is time for something.
    fn wait(&self) -> io::Result<()> {
        let mut polled = vec![PollFd::new(&self.signals, PollFlags::IN)];
        for child in [&self.keeper, &self.server].into_iter().filter_map(|post| post.child.as_ref()) {
            polled.extend(child.polled());
        }
        let stop_by = match self.stage {
            Stage::Stopping { by } => Some(by),
            _ => None,
        };
        let log = self.journal.as_ref().and_then(Journal::due);
        let next = [self.keeper.due, self.server.due, stop_by, log].into_iter().flatten().min();
        let time = next.map(|at| at.saturating_duration_since(Instant::now()));
        let time =
            time.map(|time| Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() });
        match poll(&mut polled, time.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn heed(&mut self, signal: Signal) -> io::Result<()> {
        if signal == Signal::USR1 {
            self.reopen_log();
            return Ok(());
        }
        let grace = match self.stage {
            // Nobody can be served yet: as if there were no supervisor.
            Stage::Starting if !self.server.is_supplied => die_of(signal),
            Stage::Starting | Stage::Serving => self.service.grace,
            Stage::Stopping { .. } => Duration::ZERO,
        };
        (self.tell)(Told::Stopping(grace));
        self.stage = Stage::Stopping { by: Instant::now() + grace + OVERDUE };
        self.keeper.end();
        self.server.due = None;
        // Its own are the last ones then: when it closes them, nobody can connect any more.
        self.service.listeners.clear();
        match &mut self.server.child {
            Some(child) => child.say(&ToServer::Stop { grace }),
            None => self.server.due = Some(Instant::now()),
        }
        Ok(())
    }

    fn hear_keeper(&mut self) -> io::Result<()> {
        while let Some((message, descriptors)) = self.keeper.hear()? {
            match message {
                FromKeeper::Site { site, record, is_earlier } => {
                    let Some(lineup) = self.lineups.get_mut(site) else { continue };
                    let descriptors: Arc<[OwnedFd]> = descriptors.into();
                    lineup.add(record.clone(), Arc::clone(&descriptors), is_earlier);
                    match &mut self.server.child {
                        Some(child) if self.server.is_supplied => {
                            child.send(&ToServer::Site { site, record, is_earlier }, &descriptors);
                        }
                        _ => self.supply()?,
                    }
                }
                FromKeeper::Moved => self.keeper.has_moved = true,
                FromKeeper::Refused { why } => self.keeper.why = Some(why),
            }
        }
        Ok(())
    }

    fn hear_server(&mut self) -> io::Result<()> {
        while let Some((message, _)) = self.server.hear()? {
            match message {
                FromServer::Serving { engine, instead, confined } => {
                    if self.stage == Stage::Starting {
                        self.stage = Stage::Serving;
                        self.tell_serving(engine, instead, &confined);
                    }
                }
                FromServer::LogBroken => self.reopen_log(),
                FromServer::Unfit { why } => (self.tell)(Told::Unfit(&why)),
                FromServer::Refused { why } => self.server.why = Some(why),
            }
        }
        Ok(())
    }

    fn tell_serving(&self, engine: Engine, instead: Option<String>, confined: &[String]) {
        let Service { settings, listeners, sites, .. } = &self.service;
        let sites = sites.iter().zip(&self.lineups).filter_map(|(site, lineup)| {
            let record = lineup.current()?;
            Some((site, record.file_count, record.content_len))
        });
        (self.tell)(Told::Serving(&Served {
            sites: sites.collect(),
            addresses: listeners.iter().map(Bound::address).collect(),
            settings: &Settings { engine, ..settings.clone() },
            instead: instead.as_deref(),
            confined,
        }));
    }

    fn keeper_ended(&mut self, end: End) -> Result<(), Box<dyn Error>> {
        match self.stage {
            Stage::Starting => Err(self.keeper.reason(&end).into()),
            Stage::Serving if mem::take(&mut self.keeper.has_moved) => {
                Ok(self.start_keeper(keeper::Start::Moved)?)
            }
            Stage::Serving => {
                self.keeper.again(&end, self.tell);
                Ok(())
            }
            Stage::Stopping { .. } => Ok(()),
        }
    }

    /// Returns whether it was to end.
    fn server_ended(&mut self, end: End) -> Result<bool, Box<dyn Error>> {
        match self.stage {
            Stage::Starting => Err(self.server.reason(&end).into()),
            Stage::Serving => {
                self.server.again(&end, self.tell);
                Ok(false)
            }
            Stage::Stopping { .. } if end.is_good() => Ok(true),
            Stage::Stopping { .. } => Err(self.server.reason(&end).into()),
        }
    }

    /// Does what it is time for.
    fn mind_time(&mut self) -> Result<(), Box<dyn Error>> {
        let now = Instant::now();
        match self.journal.as_mut().map(|journal| journal.mind(now)) {
            Some(Ok(true)) => self.hand_log(),
            Some(Err(trouble)) => (self.tell)(Told::LogStays(&trouble)),
            Some(Ok(false)) | None => {}
        }
        if let Stage::Stopping { by } = self.stage {
            if self.server.child.is_none() {
                return Err("there was no server process to be stopped".into());
            }
            if by <= now {
                self.server.end();
                return Err("the server process did not end in time, and was killed".into());
            }
            return Ok(());
        }
        if self.keeper.is_due(now) {
            self.start_keeper(keeper::Start::Again)?;
        }
        if self.server.is_due(now) {
            self.start_server()?;
        }
        Ok(())
    }
}

impl Post {
    fn new(role: Role) -> Post {
        Post {
            role,
            child: None,
            backoff: Backoff::default(),
            due: None,
            why: None,
            is_supplied: false,
            has_moved: false,
        }
    }

    fn start(&mut self, keep: &[RawFd], main: impl FnOnce(Channel) -> i32) -> io::Result<()> {
        (self.due, self.why) = (None, None);
        self.child = Some(Child::start(self.role, keep, main)?);
        Ok(())
    }

    /// Ends it, and waits for that.
    fn end(&mut self) {
        (self.due, self.child) = (None, None);
    }

    /// What it says, with descriptors.
    fn hear<M: DeserializeOwned>(&mut self) -> io::Result<Option<(M, Vec<OwnedFd>)>> {
        let Some(child) = &mut self.child else { return Ok(None) };
        match child.hear() {
            Ok(heard) => Ok(heard),
            Err(error) => {
                // No process of ours says such things: it is not believed any more.
                self.why = Some(format!("it said something that is no message: {error}"));
                child.kill();
                Ok(None)
            }
        }
    }

    /// How it ended, if it has just now.
    fn ended(&mut self) -> io::Result<Option<End>> {
        let Some(child) = &self.child else { return Ok(None) };
        let end = child.ended()?;
        if end.is_some() {
            self.child = None;
        }
        Ok(end)
    }

    /// Why it has ended: in its own words, or how.
    fn reason(&mut self, end: &End) -> String {
        self.why.take().unwrap_or_else(|| format!("the {} process {end}", self.role))
    }

    /// It has ended, and another will take its place.
    fn again(&mut self, end: &End, tell: fn(Told<'_>)) {
        let after = self.backoff.after(end.lived);
        let how = match self.why.take() {
            Some(why) => format!("{end}: {why}"),
            None => end.to_string(),
        };
        tell(Told::Ended { role: self.role, how: &how, again_after: after });
        self.due = Some(Instant::now() + after);
    }

    fn is_due(&self, now: Instant) -> bool {
        self.due.is_some_and(|due| due <= now)
    }
}
