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
//! the first answers each of its connections once more and ends; if it cannot begin, nothing has changed.
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
//! | `caller` | who asked for a reload, and waits to be told what came of it |
//! | `journal` | the access logs, opened for the server |
//! | `backoff` | when another takes its place |
//! | `keeper`, `serving` | what the children do |

mod backoff;
mod caller;
mod channel;
mod child;
mod generation;
mod journal;
mod keeper;
mod lineup;
mod listeners;
mod message;
mod post;
mod serving;
mod told;

pub use told::{Of, Role, Served, Told};

use crate::{
    admin::Order,
    config::{LogConfig, SiteConfig},
    hosts::Unknown,
    listen::Address,
    server::Settings,
    sys::signals::{Signals, die_of},
};
use caller::Caller;
use generation::{Begun, Generation, Leaving};
use listeners::Listeners;
use message::ToServer;
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
    process::Signal,
    time::Timespec,
};
use std::{
    error::Error,
    io, mem,
    time::{Duration, Instant},
};

/// What is to be served, and how.
#[derive(Debug)]
pub struct Service {
    /// How the server runs.
    pub settings: Settings,
    /// Where it listens.
    pub addresses: Vec<Address>,
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
    pub admin: Option<Address>,
    /// Nobody named that place: where it cannot be had, as it is another server's, it is done without.
    pub admin_is_usual: bool,
}

/// Reads the configuration: at the start, and for each reload.
type Read<'a> = &'a dyn Fn() -> Result<Service, Box<dyn Error>>;

/// Serves until a signal says otherwise, SIGTERM or SIGINT; a second one ends the grace. SIGHUP reads the configuration anew: if
/// it can be served, it is from then on, and otherwise that is told and nothing changes.
///
/// What happens meanwhile is told, each time by the process that it happens in.
///
/// # Errors
/// It could not begin; or the server did not end as it was told to.
pub fn supervise(
    read: &dyn Fn() -> Result<Service, Box<dyn Error>>,
    tell: fn(Told<'_>),
) -> Result<(), Box<dyn Error>> {
    let service = read()?;
    let mut listeners = Listeners::default();
    // Before anything else is looked at: a port in use is told at once, not after a long reading.
    listeners.add(&service)?;
    let current = Generation::new(service, tell)?;
    // Before the children, so that what a terminal sends to all processes does not reach them.
    let signals = Signals::block(&[Signal::TERM, Signal::INT, Signal::USR1, Signal::HUP])?;
    let stage = Stage::Serving(Box::new(current));
    Supervisor { stage, next: None, leaving: Vec::new(), listeners, signals, read, tell }.run()
}

struct Supervisor<'a> {
    // Children first: they are ended before anything else is let go of.
    stage: Stage,
    next: Option<Next>,
    /// Servers of generations before.
    leaving: Vec<Leaving>,
    listeners: Listeners,
    signals: Signals,
    read: Read<'a>,
    tell: fn(Told<'_>),
}

/// What the whole of it is at.
enum Stage {
    /// Serving, or about to.
    Serving(Box<Generation>),
    /// All servers shall end.
    Stopping,
}

/// A generation that has not begun.
struct Next {
    generation: Generation,
    /// Nobody listened there before.
    added: Vec<Address>,
    /// Who wait for it.
    callers: Vec<Caller>,
}

impl Supervisor<'_> {
    fn run(&mut self) -> Result<(), Box<dyn Error>> {
        if let Stage::Serving(current) = &mut self.stage {
            current.start(&mut self.listeners, false)?;
        }
        loop {
            self.wait()?;
            while let Some(signal) = self.signals.next()? {
                self.heed(signal)?;
            }
            self.mind_current()?;
            self.mind_next()?;
            self.mind_orders();
            let ended = self.mind_leaving()?;
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
        for generation in current.into_iter().chain(self.next.as_ref().map(|next| &next.generation)) {
            polled.extend(generation.polled());
            due.push(generation.due());
        }
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
            (Signal::HUP, Stage::Serving(_)) => self.reload(None),
            (Signal::USR1 | Signal::HUP, Stage::Stopping) => {}
            // Nobody can be served yet: as if there were no supervisor.
            (_, Stage::Serving(current)) if !current.serves() => die_of(signal),
            (_, Stage::Serving(current)) => {
                let grace = current.service.grace;
                self.stop(grace);
            }
            (_, Stage::Stopping) => self.stop(Duration::ZERO),
        }
        Ok(())
    }

    /// Lets all servers end.
    fn stop(&mut self, grace: Duration) {
        (self.tell)(Told::Stopping(grace));
        if let Some(Next { callers, .. }) = self.next.take() {
            callers.into_iter().for_each(|caller| caller.refuse("the server stops"));
        }
        // Theirs are the last ones then: when they close them, nobody can connect any more.
        self.listeners.close();
        for leaving in &mut self.leaving {
            leaving.hasten(grace);
        }
        if let Stage::Serving(current) = mem::replace(&mut self.stage, Stage::Stopping) {
            self.leaving.push(current.leave(ToServer::Stop { grace }, grace));
        }
    }

    /// Begins another generation, in the place of one that has not begun: who waits for that one waits for this.
    fn reload(&mut self, caller: Option<Caller>) {
        let mut waiting = Vec::new();
        if let Some(Next { generation, added, callers }) = self.next.take() {
            drop(generation);
            self.listeners.remove(&added);
            waiting = callers;
        }
        waiting.extend(caller);
        match self.prepare() {
            Ok((generation, added)) => self.next = Some(Next { generation, added, callers: waiting }),
            Err(error) => self.stay(&error.to_string(), waiting),
        }
    }

    fn prepare(&mut self) -> Result<(Generation, Vec<Address>), Box<dyn Error>> {
        let service = (self.read)()?;
        if let Stage::Serving(current) = &self.stage
            && current.service.settings.engine != service.settings.engine
        {
            // Of sockets that both have, one engine would wait where the other must not.
            return Err("another engine needs another start; see tarpon serve --engine".into());
        }
        let mut generation = Generation::new(service, self.tell)?;
        let added = self.listeners.add(&generation.service)?;
        match generation.start(&mut self.listeners, true) {
            Ok(()) => Ok((generation, added)),
            Err(error) => {
                self.listeners.remove(&added);
                Err(error.into())
            }
        }
    }

    /// What was to be served cannot be, for this reason.
    fn stay(&mut self, why: &str, callers: Vec<Caller>) {
        (self.tell)(Told::Unreloaded(why));
        let why = format!("not reloaded: {why}\nwhat was served before still is");
        callers.into_iter().for_each(|caller| caller.tell_undone(&why));
    }

    fn mind_current(&mut self) -> Result<(), Box<dyn Error>> {
        let Stage::Serving(current) = &mut self.stage else { return Ok(()) };
        // What a process said last is heard before its end is noticed.
        if let Some(begun) = current.hear()? {
            current.tell_served(&begun, &self.listeners, true);
        }
        if let Some(why) = current.mind_ends()? {
            return Err(why.into());
        }
        Ok(current.mind_time(&mut self.listeners)?)
    }

    fn mind_next(&mut self) -> io::Result<()> {
        let Some(Next { generation, .. }) = &mut self.next else { return Ok(()) };
        if let Some(begun) = generation.hear()? {
            self.take_over(&begun);
        } else if let Some(why) = generation.mind_ends()?
            && let Some(Next { added, callers, .. }) = self.next.take()
        {
            self.listeners.remove(&added);
            self.stay(&why, callers);
        }
        Ok(())
    }

    /// The next generation serves: the one before leaves its clients to it.
    fn take_over(&mut self, begun: &Begun) {
        let (Some(Next { generation, callers, .. }), Stage::Serving(current)) =
            (self.next.take(), &mut self.stage)
        else {
            return;
        };
        let former = mem::replace(&mut **current, generation);
        self.listeners.keep(&current.service);
        let grace = former.service.grace;
        self.leaving.push(former.leave(ToServer::Drain { grace }, grace));
        let served = current.tell_served(begun, &self.listeners, false);
        callers.into_iter().for_each(|caller| caller.tell_done(&format!("reloaded: {served}")));
    }

    /// Does what was asked for at the admin listener.
    fn mind_orders(&mut self) {
        let Stage::Serving(current) = &mut self.stage else { return };
        for (order, caller) in current.take_orders() {
            match order {
                Order::Reload => self.reload(Some(caller)),
            }
        }
    }

    /// Forgets servers that have ended. Returns what became of the last of them.
    fn mind_leaving(&mut self) -> io::Result<Result<(), String>> {
        let mut last = Ok(());
        let mut at = 0;
        while at < self.leaving.len() {
            match self.leaving[at].has_ended()? {
                Some(ended) => {
                    drop(self.leaving.remove(at));
                    last = last.and(ended);
                }
                None => at += 1,
            }
        }
        if let (Err(why), Stage::Serving(_)) = (&last, &self.stage) {
            (self.tell)(Told::LeftBadly(why));
        }
        Ok(last)
    }
}
