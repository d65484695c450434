//! The access log: what the workers leave of each exchange, put together, formatted and written, on a thread of its own.
//!
//! ```text
//! worker ─ records ─▶ ring ─▶ exchange ─▶ form ─▶ book ─▶ sink
//!                              │           │      │        └ file, standard output, or socket
//!                              │           │      └ the server's, or one of a site's own
//!                              │           └ that of its site
//!                              └ what was begun and what was sent, joined
//! ```
//!
//! Only this thread waits for whoever reads the log. A worker whose ring is full loses records, and counts them.

mod debug;
mod escape;
mod exchange;
mod format;
mod rotate;
mod sink;
mod writer;

pub use rotate::turn;
pub use sink::LogSink;

use crate::{
    base::log_config::{LogOwner, Logging, SiteLog},
    data::log_ring::{LogRings, RingConsumer, Wakeup},
    sys,
};
use debug::DebugTracer;
use exchange::Exchanges;
use std::{
    hash::{BuildHasher, Hasher, RandomState},
    io,
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread,
    time::{Duration, Instant},
};
use tarpon_conn::{Counters, Recording};
use tracing::warn;
use writer::LogWriters;

/// The logs of a server that runs.
#[derive(Clone)]
pub(crate) struct AccessLog {
    shared: Arc<LogControl>,
    /// Told nothing, but disconnected when the log has ended.
    ended: Arc<Mutex<mpsc::Receiver<()>>>,
}

struct LogControl {
    bell: Arc<Wakeup>,
    orders: Mutex<LogOrders>,
}

/// What the log is told.
#[derive(Default)]
struct LogOrders {
    sinks: Vec<(LogOwner, LogSink)>,
    end: bool,
}

/// What is to be logged of a server.
pub(crate) struct LogPlan {
    /// By the number of the site: what, and whose log it goes to.
    sites: Vec<Option<(Logging, LogOwner)>>,
    /// By the number of the site: what it is called.
    names: Vec<Option<String>>,
    /// Each exchange is told as it happens.
    debug: bool,
}

impl LogPlan {
    /// What comes of what is said of the server, and of each site with its name.
    pub(crate) fn new(
        server: Option<Logging>,
        sites: impl IntoIterator<Item = (SiteLog, Option<String>)>,
        debug: bool,
    ) -> LogPlan {
        let sites = sites.into_iter().enumerate();
        let (sites, names) = sites.map(|(number, (site, name))| (site.resolve(number, server), name)).unzip();
        LogPlan { sites, names, debug }
    }

    /// What workers have to record. `None`: nothing.
    pub(crate) fn recording(&self) -> Option<Recording> {
        let one_in: Arc<[_]> =
            self.sites.iter().map(|site| site.map(|(logging, _)| logging.sample)).collect();
        // As good as any chance there is: the keys of a hash, which nobody knows.
        let seed = RandomState::new().build_hasher().finish();
        let is_any = one_in.iter().any(Option::is_some);
        (is_any || self.debug).then_some(Recording { one_in, heads: self.debug, seed })
    }
}

impl AccessLog {
    /// The logs for workers with these rings and these counters.
    pub(crate) fn start(
        logs: &LogPlan,
        rings: &LogRings,
        counters: &Arc<sys::shared::SharedArray<Counters>>,
    ) -> io::Result<AccessLog> {
        let shared = Arc::new(LogControl { bell: Arc::clone(rings.bell()), orders: Mutex::default() });
        let (alive, ended) = mpsc::channel();
        let writer = LogThread {
            shared: Arc::clone(&shared),
            sources: rings.outlets().map(|outlet| (outlet, Exchanges::default())).collect(),
            books: LogWriters::new(logs),
            witness: DebugTracer::new(logs),
            losses: DropReport::new(Arc::clone(counters)),
        };
        thread::Builder::new().name("log".to_owned()).spawn(move || {
            writer.run();
            drop(alive);
        })?;
        Ok(AccessLog { shared, ended: Arc::new(Mutex::new(ended)) })
    }

    /// From now on the lines of an owner go there. Of one that logs nothing it is nothing to say.
    pub(crate) fn log_to(&self, owner: LogOwner, sink: LogSink) {
        self.order(|orders| orders.sinks.push((owner, sink)));
    }

    /// The workers have ended: writes what they have left, if whoever reads it lets it.
    pub(crate) fn end(&self) {
        self.order(|orders| orders.end = true);
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        // It says nothing; either it has ended, or it waits for a reader who does not read.
        let _ = ended.recv_timeout(END_TIME_MAX);
    }

    fn order(&self, give: impl FnOnce(&mut LogOrders)) {
        give(&mut self.shared.orders.lock().unwrap_or_else(PoisonError::into_inner));
        self.shared.bell.ring();
    }
}

/// What the thread has.
struct LogThread {
    shared: Arc<LogControl>,
    /// Of each worker.
    sources: Vec<(RingConsumer, Exchanges)>,
    books: LogWriters,
    witness: DebugTracer,
    losses: DropReport,
}

impl LogThread {
    fn run(mut self) {
        let (mut end, mut bytes, mut idle_count) = (false, Vec::new(), 0);
        loop {
            let orders =
                std::mem::take(&mut *self.shared.orders.lock().unwrap_or_else(PoisonError::into_inner));
            self.books.assign(orders.sinks);
            end |= orders.end;
            if !self.books.is_assigned() {
                // Until somebody says where to, it waits in the rings.
                if end {
                    return;
                }
                self.shared.bell.nap(NAP);
                continue;
            }
            let any = self.drain(&mut bytes);
            if end && !any {
                return self.finish();
            }
            self.losses.tell();
            idle_count = if any { 0 } else { idle_count + 1 };
            match idle_count {
                0..IDLE_COUNT_MAX => self.shared.bell.nap(NAP),
                _ => self.shared.bell.sleep(|| self.sources.iter().all(|(outlet, _)| outlet.is_empty())),
            }
        }
    }

    /// Writes what has come. Returns whether anything has.
    fn drain(&mut self, bytes: &mut Vec<u8>) -> bool {
        let mut any = false;
        for (worker, (outlet, exchanges)) in self.sources.iter_mut().enumerate() {
            bytes.clear();
            outlet.take(bytes);
            any |= !bytes.is_empty();
            exchanges.read(bytes, |step| {
                self.witness.tell(worker, &step);
                self.books.enter(&step);
            });
        }
        self.books.write();
        any
    }

    fn finish(&mut self) {
        for (worker, (_, exchanges)) in self.sources.iter_mut().enumerate() {
            exchanges.end(|step| {
                self.witness.tell(worker, &step);
                self.books.enter(&step);
            });
        }
        self.books.write();
        self.losses.tell_now();
    }
}

/// What could not be logged, told now and then.
struct DropReport {
    counters: Arc<sys::shared::SharedArray<Counters>>,
    /// Exchanges that found no room, when that was told last.
    told: u64,
    next: Instant,
}

impl DropReport {
    fn new(counters: Arc<sys::shared::SharedArray<Counters>>) -> DropReport {
        DropReport { counters, told: 0, next: Instant::now() }
    }

    fn tell(&mut self) {
        if self.next <= Instant::now() {
            self.tell_now();
        }
    }

    fn tell_now(&mut self) {
        let unlogged: u64 = self.counters.iter().map(|counters| counters.log_dropped.get()).sum();
        if unlogged > self.told {
            let count = unlogged - self.told;
            warn!(count, "{count} requests were not logged: whoever takes the access log is too slow");
            self.told = unlogged;
            self.next = Instant::now() + TELL_INTERVAL;
        }
    }
}

/// While there is something to log, the log looks for more so often: rarely enough to write many lines at once, and often
/// enough for the rings.
const NAP: Duration = Duration::from_millis(10);

/// Having found nothing so many times, it sleeps until it is woken.
const IDLE_COUNT_MAX: u32 = 3;

/// At the end, a reader who does not read is waited for not longer than this.
const END_TIME_MAX: Duration = Duration::from_secs(1);

/// What is lost is told of at once, and then not again for so long.
const TELL_INTERVAL: Duration = Duration::from_secs(10);
