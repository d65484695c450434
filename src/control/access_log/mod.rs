//! The access log: a thread joins the records of the workers into exchanges, formats them and writes them.
//!
//! ```text
//! worker ─ records ─▶ ring ─▶ exchange ─▶ format ─▶ writer ─▶ sink
//!                              │           │         │         └ file, standard output, or socket
//!                              │           │         └ of the server, or of one site
//!                              │           └ as its site is configured
//!                              └ the records of the start and the end, joined
//! ```
//!
//! Only this thread waits for a slow reader of the log. A worker whose ring is full drops the records and counts their requests.
//!
//! | file | what |
//! |---|---|
//! | `exchange` | joins records into exchanges, by id |
//! | `format` | the formats of a line |
//! | `escape` | escapes bytes of clients |
//! | `writer` | lines that wait to be written, for each log |
//! | `sink` | where lines go |
//! | `file` | opens the file of a log |
//! | `rotate` | renames a log file and starts the next |
//! | `debug` | logs both heads of each exchange with `tracing` |

mod debug;
mod escape;
mod exchange;
mod file;
mod format;
mod rotate;
mod sink;
mod writer;

pub use rotate::rotate_files;
pub use sink::LogSink;

use crate::{
    base::log_config::{LogOwner, Logging, SiteLog},
    control::{counters::ServerCounters, exemplars::Exemplars, stats::ServerStats},
    data::log_ring::{LogRings, RingConsumer, Wakeup},
};
use debug::DebugTracer;
use exchange::{Exchange, ExchangeStep, Exchanges};
use std::{
    hash::{BuildHasher, Hasher, RandomState},
    io,
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread,
    time::{Duration, Instant},
};
use tarpon_conn::Recording;
use tracing::warn;
use writer::LogWriters;

/// The logs of a running server.
#[derive(Clone)]
pub(crate) struct AccessLog {
    shared: Arc<LogControl>,
    /// Disconnected when the log thread ends.
    ended: Arc<Mutex<mpsc::Receiver<()>>>,
}

struct LogControl {
    wakeup: Arc<Wakeup>,
    orders: Mutex<LogOrders>,
}

/// Orders to the log thread.
#[derive(Default)]
struct LogOrders {
    sinks: Vec<(LogOwner, LogSink)>,
    end: bool,
}

/// What a server logs.
pub(crate) struct LogPlan {
    /// By the number of the site: how to log it, and to which log. `None`: not logged.
    sites: Vec<Option<(Logging, LogOwner)>>,
    /// By the number of the site: its canonical host.
    names: Vec<Option<String>>,
    /// Log each exchange as it happens, with both heads.
    debug: bool,
}

impl LogPlan {
    /// Combines the configuration of the server with that of each site, given with its name.
    pub(crate) fn new(
        server: Option<Logging>,
        sites: impl IntoIterator<Item = (SiteLog, Option<String>)>,
        debug: bool,
    ) -> LogPlan {
        let sites = sites.into_iter().enumerate();
        let (sites, names) = sites.map(|(number, (site, name))| (site.resolve(number, server), name)).unzip();
        LogPlan { sites, names, debug }
    }

    /// Returns what workers record. `None`: nothing.
    pub(crate) fn recording(&self) -> Option<Recording> {
        let one_in: Arc<[_]> =
            self.sites.iter().map(|site| site.map(|(logging, _)| logging.sample)).collect();
        // A random number: the hasher's keys are random.
        let seed = RandomState::new().build_hasher().finish();
        let is_any = one_in.iter().any(Option::is_some);
        (is_any || self.debug).then_some(Recording { one_in, heads: self.debug, seed })
    }
}

impl AccessLog {
    /// Starts the log thread for workers with these rings and counters. Counts in `stats` the lines that cannot be written, and keeps exemplars
    /// there.
    pub(crate) fn start(
        logs: &LogPlan,
        rings: &LogRings,
        counters: &ServerCounters,
        stats: &ServerStats,
    ) -> io::Result<AccessLog> {
        let shared = Arc::new(LogControl { wakeup: Arc::clone(rings.wakeup()), orders: Mutex::default() });
        let (alive, ended) = mpsc::channel();
        let writer = LogThread {
            shared: Arc::clone(&shared),
            sources: rings.consumers().map(|consumer| (consumer, Exchanges::default())).collect(),
            writers: LogWriters::new(logs, Arc::clone(stats.log_lost())),
            exemplars: Arc::clone(stats.exemplars()),
            tracer: DebugTracer::new(logs),
            drops: DropReport::new(counters.clone()),
        };
        thread::Builder::new().name("log".to_owned()).spawn(move || {
            writer.run();
            drop(alive);
        })?;
        Ok(AccessLog { shared, ended: Arc::new(Mutex::new(ended)) })
    }

    /// Writes the lines of an owner to this sink from now on. Does nothing for an owner that logs nothing.
    pub(crate) fn log_to(&self, owner: LogOwner, sink: LogSink) {
        self.send(|orders| orders.sinks.push((owner, sink)));
    }

    /// Writes the remaining records; call it after the workers have ended. Returns after [`END_TIME_MAX`] even if a reader blocks the log.
    /// Drops the records if a log has no sink.
    pub(crate) fn end(&self) {
        self.send(|orders| orders.end = true);
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        // A disconnect means that the thread has ended; a timeout, that the reader of the log is blocked.
        let _ = ended.recv_timeout(END_TIME_MAX);
    }

    fn send(&self, change: impl FnOnce(&mut LogOrders)) {
        change(&mut self.shared.orders.lock().unwrap_or_else(PoisonError::into_inner));
        self.shared.wakeup.wake();
    }
}

/// The state of the log thread.
struct LogThread {
    shared: Arc<LogControl>,
    /// For each worker: its ring, and its exchanges that have not ended.
    sources: Vec<(RingConsumer, Exchanges)>,
    writers: LogWriters,
    exemplars: Arc<Exemplars>,
    tracer: DebugTracer,
    drops: DropReport,
}

impl LogThread {
    fn run(mut self) {
        let (mut end, mut bytes, mut idle_count) = (false, Vec::new(), 0);
        loop {
            let orders =
                std::mem::take(&mut *self.shared.orders.lock().unwrap_or_else(PoisonError::into_inner));
            self.writers.set_sinks(orders.sinks);
            end |= orders.end;
            if !self.writers.has_all_sinks() {
                // Records wait in the rings until every log has a sink.
                if end {
                    return;
                }
                self.shared.wakeup.sleep_for(POLL_INTERVAL);
                continue;
            }
            let has_records = self.drain(&mut bytes);
            if end && !has_records {
                return self.finish();
            }
            self.drops.report_if_due();
            idle_count = if has_records { 0 } else { idle_count + 1 };
            match idle_count {
                0..IDLE_POLL_COUNT => self.shared.wakeup.sleep_for(POLL_INTERVAL),
                _ => {
                    self.shared.wakeup.sleep(|| self.sources.iter().all(|(consumer, _)| consumer.is_empty()))
                }
            }
        }
    }

    /// Writes all new records. Returns whether there were any.
    fn drain(&mut self, bytes: &mut Vec<u8>) -> bool {
        let mut has_records = false;
        for (worker, (consumer, exchanges)) in self.sources.iter_mut().enumerate() {
            bytes.clear();
            consumer.take(bytes);
            has_records |= !bytes.is_empty();
            exchanges.read(bytes, |step| {
                self.tracer.trace(worker, &step);
                self.writers.add(&step);
                if let ExchangeStep::Ended(exchange) = &step {
                    add_exemplar(&self.exemplars, exchange);
                }
            });
        }
        self.writers.write();
        has_records
    }

    fn finish(&mut self) {
        for (worker, (_, exchanges)) in self.sources.iter_mut().enumerate() {
            exchanges.give_up_all(|step| {
                self.tracer.trace(worker, &step);
                self.writers.add(&step);
            });
        }
        self.writers.write();
        self.drops.report();
    }
}

/// Keeps an exchange as an exemplar if it is logged, its response counts in the histogram of durations, and a caller may have kept its trace.
fn add_exemplar(exemplars: &Exemplars, exchange: &Exchange<'_>) {
    let start = &exchange.start;
    let counts = start.is_sampled && start.is_trace_sampled && exchange.is_complete;
    if let (Some(trace_id), true) = (start.trace_id, counts) {
        exemplars.add(trace_id, exchange.took_ms, start.unix_ms);
    }
}

/// Reports requests that were not logged, at intervals.
struct DropReport {
    counters: ServerCounters,
    /// The count of dropped exchanges at the last report.
    reported: u64,
    next: Instant,
}

impl DropReport {
    fn new(counters: ServerCounters) -> DropReport {
        // The rows begin with the numbers of former servers.
        let reported = DropReport::dropped(&counters);
        DropReport { counters, reported, next: Instant::now() }
    }

    fn dropped(counters: &ServerCounters) -> u64 {
        counters.iter().fold(0, |sum, counters| sum.wrapping_add(counters.log_dropped.get()))
    }

    fn report_if_due(&mut self) {
        if self.next <= Instant::now() {
            self.report();
        }
    }

    fn report(&mut self) {
        let dropped = DropReport::dropped(&self.counters);
        if dropped > self.reported {
            let count = dropped - self.reported;
            warn!(count, "{count} requests were not logged: the reader of the access log is too slow");
            self.reported = dropped;
            self.next = Instant::now() + REPORT_INTERVAL;
        }
    }
}

/// The time between two reads of the rings while there are records: long enough to write many lines at once, and short enough that the
/// rings do not fill.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// After this many empty reads, the thread sleeps until a worker wakes it.
const IDLE_POLL_COUNT: u32 = 3;

/// How long [`AccessLog::end`] waits for a blocked reader.
const END_TIME_MAX: Duration = Duration::from_secs(1);

/// The shortest time between two reports of dropped records.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);
