//! Collects the lines of each log until they are written: one log for the server, and one for each site that has its own.

use super::{LogPlan, LogSink, exchange::ExchangeStep, format::Formatter};
use crate::base::error::reason;
use crate::base::log_config::{LogOwner, Logging};
use std::{
    mem,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use tracing::warn;

/// All logs, and which of them each site writes to.
pub(super) struct LogWriters {
    /// By the number of the site. `None`: the site is not logged.
    sites: Vec<Option<WriterEntry>>,
    writers: Vec<LogWriter>,
    /// Counts the lines that were lost.
    lost: Arc<AtomicU64>,
}

/// How the exchanges of a site are logged.
struct WriterEntry {
    formatter: Formatter,
    /// The index of the log in `writers`.
    writer: usize,
}

/// One log: its sink, and the lines not written yet.
struct LogWriter {
    owner: LogOwner,
    /// The host of the site, for a log of one site.
    name: Option<String>,
    sink: Option<LogSink>,
    lines: Vec<u8>,
    /// The error of the last write, already reported, and the lines that were lost since.
    error: Option<String>,
    lost: u64,
}

impl LogWriters {
    /// Creates a writer for each owner that logs.
    pub(super) fn new(logs: &LogPlan, lost: Arc<AtomicU64>) -> LogWriters {
        let mut writers: Vec<LogWriter> = Vec::new();
        let entry = |site: &Option<(Logging, LogOwner)>| {
            let (logging, owner) = (*site)?;
            let known = writers.iter().position(|writer| writer.owner == owner);
            let writer = known.unwrap_or_else(|| {
                writers.push(LogWriter::new(owner, logs));
                writers.len() - 1
            });
            Some(WriterEntry { formatter: Formatter::new(logging.format, logging.client_ip), writer })
        };
        LogWriters { sites: logs.sites.iter().map(entry).collect(), writers, lost }
    }

    /// Sets the sinks of these owners. An owner that logs nothing is ignored.
    pub(super) fn set_sinks(&mut self, sinks: Vec<(LogOwner, LogSink)>) {
        for (owner, sink) in sinks {
            if let Some(writer) = self.writers.iter_mut().find(|writer| writer.owner == owner) {
                writer.sink = Some(sink);
            }
        }
    }

    /// Returns whether every log has a sink.
    pub(super) fn has_all_sinks(&self) -> bool {
        self.writers.iter().all(|writer| writer.sink.is_some())
    }

    /// Adds the line of an ended exchange, if its site is logged and the exchange is in the sample.
    pub(super) fn add(&mut self, step: &ExchangeStep<'_>) {
        let ExchangeStep::Ended(exchange) = step else { return };
        let entry = self.sites.get_mut(exchange.start.site as usize);
        if let (Some(Some(WriterEntry { formatter, writer })), true) = (entry, exchange.start.is_sampled) {
            formatter.line(exchange, &mut self.writers[*writer].lines);
        }
    }

    /// Writes all collected lines to the sinks.
    pub(super) fn write(&mut self) {
        self.writers.iter_mut().for_each(|writer| writer.write(&self.lost));
    }
}

impl LogWriter {
    fn new(owner: LogOwner, logs: &LogPlan) -> LogWriter {
        let name = match owner {
            LogOwner::Server => None,
            LogOwner::Site(number) => logs.names[number].clone(),
        };
        LogWriter { owner, name, sink: None, lines: Vec::new(), error: None, lost: 0 }
    }

    fn write(&mut self, lost_count: &AtomicU64) {
        let Some(sink) = self.sink.as_mut().filter(|_| !self.lines.is_empty()) else { return };
        let written = sink.write(&self.lines);
        self.lines.clear();
        let why = written.as_ref().err().map(|failed| reason(&failed.error));
        let lost = written.err().map_or(0, |failed| failed.lost);
        self.lost += lost;
        lost_count.fetch_add(lost, Ordering::Relaxed);
        if why != self.error {
            let name = self.name.as_ref().map(|name| format!(" of {name}")).unwrap_or_default();
            match &why {
                Some(why) => warn!(
                    "cannot write the access log{name}: {why}; lines are lost until it can be written again"
                ),
                None => {
                    let lost = mem::take(&mut self.lost);
                    warn!(lost, "the access log{name} can be written again; lines that were lost: {lost}");
                }
            }
            self.error = why;
        }
    }
}
