//! What came of one reading of the configuration: a keeper, a server, and what they have to know.

use super::{
    Notice, Service,
    caller::Caller,
    child::End,
    journal::Journal,
    keeper,
    lineup::{Legacy, Lineup},
    listeners::Listeners,
    post::Post,
    serving,
    told::{Role, ServingReport},
};
use crate::{
    base::{engine::Engine, error::UserError, settings::Settings},
    control::{
        admin::Order,
        process::message::{FromBuilder, FromServer, ToServer},
        sandbox::Privileges,
    },
};
use rustix::event::PollFd;
use std::{
    error::Error,
    io, mem,
    os::fd::OwnedFd,
    sync::Arc,
    time::{Duration, Instant},
};

/// A keeper and a server of one configuration.
pub(super) struct Generation {
    // Children first: they are ended before anything else is let go of.
    keeper: Post,
    pub(super) server: Post,
    /// Of each source.
    lineups: Vec<Lineup>,
    journals: Vec<Journal>,
    rights: Privileges,
    pub(super) service: Service,
    /// Its server has served.
    has_begun: bool,
    /// What its server chose when it began, or one before it on the same sockets: of these one engine would wait where another
    /// must not.
    chosen: Option<Engine>,
    /// What was asked for at its admin listener.
    orders: Vec<(Order, Caller)>,
    tell: fn(Notice<'_>),
}

/// What a server says when it begins.
pub(super) struct Begun {
    engine: Engine,
    instead: Option<String>,
    confined: Vec<String>,
}

impl Generation {
    /// Without processes so far; with what is kept of sites that were served before.
    pub(super) fn new(
        mut service: Service,
        legacy: &Legacy,
        tell: fn(Notice<'_>),
    ) -> Result<Generation, Box<dyn Error>> {
        let journals = Journal::open_all(&service.log, &service.sites)?;
        service.settings.logging = service.log.access.is_some().then_some(service.log.logging);
        Ok(Generation {
            keeper: Post::new(Role::Builder),
            server: Post::new(Role::Server),
            lineups: service.sites.iter().map(|site| Lineup::new(site, legacy)).collect(),
            journals,
            rights: Privileges::new(service.user.as_deref(), service.sandbox)?,
            service,
            has_begun: false,
            chosen: None,
            orders: Vec::new(),
            tell,
        })
    }

    /// What is kept of its sites for the next.
    pub(super) fn legacy(&self) -> Legacy {
        let sites = self.service.sites.iter().zip(&self.lineups);
        sites.flat_map(|(site, lineup)| lineup.legacy(&site.source)).collect()
    }

    /// Starts both at once: reading a site takes its time. Until the server serves another one may.
    pub(super) fn start(&mut self, listeners: &mut Listeners, is_successor: bool) -> io::Result<()> {
        self.start_keeper(keeper::Start::First)?;
        self.start_server(listeners, is_successor)
    }

    fn start_keeper(&mut self, start: keeper::Start) -> io::Result<()> {
        let (sites, rights, tell) = (&self.service.sites, &self.rights, self.tell);
        self.keeper.start(&[], |channel| keeper::run(sites, rights, start, channel, tell))
    }

    fn start_server(&mut self, listeners: &mut Listeners, is_successor: bool) -> io::Result<()> {
        let (service, rights, tell) = (&self.service, &self.rights, self.tell);
        let Service { settings, sites, unknown_host: unknown, log, .. } = service;
        let settings = &Settings { engine: self.engine(), ..settings.clone() };
        let numbers = listeners.numbers();
        self.server.start(&numbers, |channel| {
            let (listeners, admin) = listeners.take(service);
            let unknown = *unknown;
            let start = serving::Start {
                settings,
                listeners,
                admin,
                is_successor,
                sites,
                unknown,
                log,
                rights,
                tell,
            };
            serving::run(start, channel)
        })?;
        self.server.is_supplied = false;
        self.journals.iter().for_each(|journal| hand(&mut self.server, journal));
        self.supply();
        Ok(())
    }

    /// Opens all logs anew.
    pub(super) fn reopen_logs(&mut self) {
        self.renew_logs(|journal| journal.reopen().map(|()| true));
    }

    /// Hands the server each log that was opened anew, as `renew` says.
    fn renew_logs(&mut self, mut renew: impl FnMut(&mut Journal) -> Result<bool, UserError>) {
        for journal in &mut self.journals {
            match renew(journal) {
                Ok(true) => hand(&mut self.server, journal),
                Ok(false) => {}
                Err(trouble) => (self.tell)(Notice::LogReopenFailed(&trouble)),
            }
        }
    }

    /// Sends a new server all sites, once they are there.
    fn supply(&mut self) {
        let Some(child) = &mut self.server.child else { return };
        if self.server.is_supplied || !self.lineups.iter().all(Lineup::is_whole) {
            return;
        }
        self.server.is_supplied = true;
        for (site, lineup) in self.lineups.iter().enumerate() {
            for (record, descriptors, is_earlier) in lineup.in_order() {
                child.send(
                    &ToServer::Site { site, transfer: record.clone(), is_earlier, loads: 1 },
                    descriptors,
                );
            }
        }
    }

    /// What to wait for.
    pub(super) fn polled(&self) -> Vec<PollFd<'_>> {
        let children = [&self.keeper, &self.server].into_iter().filter_map(|post| post.child.as_ref());
        children.flat_map(|child| child.polled()).collect()
    }

    /// When there is something to do, whatever happens.
    pub(super) fn due(&self) -> Option<Instant> {
        let logs = self.journals.iter().filter(|_| self.has_begun).map(Journal::due);
        logs.chain([self.keeper.due, self.server.due]).flatten().min()
    }

    /// Hears what its processes say. Returns what the server said when it began.
    pub(super) fn hear(&mut self) -> io::Result<Option<Begun>> {
        self.hear_keeper()?;
        let mut begun = None;
        while let Some((message, descriptors)) = self.server.hear()? {
            match message {
                FromServer::Serving { engine, fallback_reason: instead, confinement: confined } => {
                    self.chosen = Some(engine);
                    if !mem::replace(&mut self.has_begun, true) {
                        begun = Some(Begun { engine, instead, confined });
                    }
                }
                FromServer::LogBroken { of } => self.renew_logs(|journal| {
                    let is_broken = journal.owners.contains(&of);
                    if is_broken { journal.reopen().map(|()| true) } else { Ok(false) }
                }),
                FromServer::SiteRejected { why } => (self.tell)(Notice::SiteRejected(&why)),
                FromServer::StartFailed { why } => self.server.why = Some(why),
                FromServer::AdminRequest { order } => {
                    self.orders.extend(
                        descriptors
                            .unwrap_or_default()
                            .into_iter()
                            .next()
                            .map(|client| (order, Caller(client))),
                    );
                }
            }
        }
        Ok(begun)
    }

    /// What was asked for since the last time.
    pub(super) fn take_orders(&mut self) -> Vec<(Order, Caller)> {
        mem::take(&mut self.orders)
    }

    fn hear_keeper(&mut self) -> io::Result<()> {
        while let Some((message, descriptors)) = self.keeper.hear()? {
            match message {
                FromBuilder::Site { site, transfer: record, is_earlier } => {
                    let Some(lineup) = self.lineups.get_mut(site) else { continue };
                    let descriptors: Arc<[OwnedFd]> = descriptors.map_err(io::Error::other)?.into();
                    lineup.add(record.clone(), Arc::clone(&descriptors), is_earlier);
                    match &mut self.server.child {
                        Some(child) if self.server.is_supplied => {
                            child.send(
                                &ToServer::Site { site, transfer: record, is_earlier, loads: 1 },
                                &descriptors,
                            );
                        }
                        _ => self.supply(),
                    }
                }
                FromBuilder::RootReplaced => self.keeper.has_moved = true,
                FromBuilder::StartFailed { why } => self.keeper.why = Some(why),
            }
        }
        Ok(())
    }

    /// Tells what is served. Returns it in one line.
    pub(super) fn tell_served(&self, begun: &Begun, listeners: &Listeners, is_first: bool) -> String {
        let Service { settings, addresses, sites, .. } = &self.service;
        let sites = sites.iter().zip(&self.lineups).filter_map(|(site, lineup)| {
            let record = lineup.current()?;
            Some((site, record.file_count, record.content_len))
        });
        let served = ServingReport {
            sites: sites.collect(),
            addresses: listeners.at(addresses),
            settings: &Settings { engine: begun.engine, ..settings.clone() },
            fallback_reason: begun.instead.as_deref(),
            confinement: &begun.confined,
            admin_in_use: self.service.admin.as_ref().filter(|address| !listeners.has(address)),
        };
        (self.tell)(if is_first { Notice::Serving(&served) } else { Notice::Reloaded(&served) });
        served.to_string()
    }

    /// Where one of its processes has ended: sees to another, or, where nothing has been served yet, tells why there will be none.
    pub(super) fn mind_ends(&mut self) -> io::Result<Option<String>> {
        if let Some(end) = self.keeper.ended() {
            let is_whole = self.lineups.iter().all(Lineup::is_whole);
            if mem::take(&mut self.keeper.has_moved) {
                self.start_keeper(if is_whole { keeper::Start::Moved } else { keeper::Start::First })?;
            } else if self.has_begun {
                self.keeper.again(&end, self.tell);
            } else {
                return Ok(Some(self.keeper.reason(&end)));
            }
        }
        if let Some(end) = self.server.ended() {
            if !self.has_begun {
                return Ok(Some(self.server.reason(&end)));
            }
            self.server.again(&end, self.tell);
        }
        Ok(None)
    }

    /// Does what it is time for.
    pub(super) fn mind_time(&mut self, listeners: &mut Listeners) -> io::Result<()> {
        let now = Instant::now();
        // Before that a file may still be another server's.
        if self.has_begun {
            self.renew_logs(|journal| journal.mind(now));
        }
        if self.keeper.is_due(now) {
            self.start_keeper(keeper::Start::Again)?;
        }
        if self.server.is_due(now) {
            self.start_server(listeners, false)?;
        }
        Ok(())
    }

    /// The engine of its server; as the configuration says, if none has been chosen.
    pub(super) fn engine(&self) -> Engine {
        self.chosen.unwrap_or(self.service.settings.engine)
    }

    /// Its server is to have this engine, which another one has chosen on the same sockets.
    pub(super) fn keep_engine(&mut self, engine: Engine) {
        self.chosen = Some(engine);
    }

    /// Whether its server serves, or is about to.
    pub(super) fn serves(&self) -> bool {
        self.has_begun || self.server.is_supplied
    }

    /// Whether its server has ever served.
    pub(super) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Its server shall end. What it is to leave behind, `farewell` says. Nothing follows changes any more.
    pub(super) fn leave(mut self, farewell: ToServer, grace: Duration) -> Leaving {
        self.keeper.end();
        self.server.due = None;
        if let Some(child) = &mut self.server.child {
            child.say(&farewell);
        }
        Leaving { server: self.server, by: Instant::now() + grace + OVERDUE, stop: None, orders: self.orders }
    }
}

/// Hands a server a log as it is open now.
fn hand(server: &mut Post, journal: &Journal) {
    let Some(child) = &mut server.child else { return };
    for &of in &journal.owners {
        child.send(&ToServer::Log { of }, journal.descriptor());
    }
}

/// A server that is to end.
pub(super) struct Leaving {
    server: Post,
    /// Later than that it is not waited for.
    by: Instant,
    /// When it is to wait no longer for clients that say nothing, and how long it has then.
    stop: Option<(Instant, Duration)>,
    /// What was asked for at its admin listener, which it answered at until just now.
    orders: Vec<(Order, Caller)>,
}

/// How much longer than the grace a server may take to end, for what it does then.
const OVERDUE: Duration = Duration::from_secs(10);

/// How long a client that says nothing is waited for by a server whose successor waits for its end: one that is busy asks within this
/// time, and learns that the connection closes.
const PATIENCE: Duration = Duration::from_secs(1);

impl Leaving {
    pub(super) fn polled(&self) -> Vec<PollFd<'_>> {
        self.server.child.as_ref().map(|child| child.polled()).unwrap_or_default()
    }

    pub(super) fn due(&self) -> Instant {
        self.stop.map_or(self.by, |(at, _)| at.min(self.by))
    }

    /// It leaves its clients to a successor, which begins only when it has ended.
    pub(super) fn soon(mut self, grace: Duration) -> Leaving {
        let patience = PATIENCE.min(grace);
        self.stop = Some((Instant::now() + patience, grace - patience));
        self
    }

    /// It has less time than it was told before.
    pub(super) fn hasten(&mut self, grace: Duration) {
        self.by = self.by.min(Instant::now() + grace + OVERDUE);
        if let Some(child) = &mut self.server.child {
            child.say(&ToServer::Stop { grace });
        }
    }

    /// Does what it is time for.
    pub(super) fn mind_time(&mut self) {
        if let Some((_, grace)) = self.stop.take_if(|(at, _)| *at <= Instant::now()) {
            self.hasten(grace);
        }
    }

    /// What was asked for since the last time.
    pub(super) fn take_orders(&mut self) -> Vec<(Order, Caller)> {
        mem::take(&mut self.orders)
    }

    /// Whether it has ended; if it did not as it was told to, why.
    pub(super) fn has_ended(&mut self) -> io::Result<Option<Result<(), String>>> {
        // What else it says by now concerns nobody.
        while let Some((message, descriptors)) = self.server.hear()? {
            if let FromServer::AdminRequest { order } = message {
                self.orders.extend(
                    descriptors.unwrap_or_default().into_iter().next().map(|client| (order, Caller(client))),
                );
            }
        }
        if self.server.child.is_none() {
            return Ok(Some(Err("there was no server process to stop".to_owned())));
        }
        match self.server.ended() {
            Some(end) if End::is_good(&end) => Ok(Some(Ok(()))),
            Some(end) => Ok(Some(Err(self.server.reason(&end)))),
            None if self.by <= Instant::now() => {
                self.server.end();
                Ok(Some(Err("the server process did not exit in time, and was killed".to_owned())))
            }
            None => Ok(None),
        }
    }
}
