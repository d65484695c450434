//! Where lines are kept until they are written: a book for the server, and one for each site that has a log of its own.

use super::{LogPlan, LogSink, exchange::ExchangeStep, format::Formatter};
use crate::base::error::reason;
use crate::base::log_config::{LogOwner, Logging};
use tracing::warn;

/// The books, and which of them a site's exchanges are entered in.
pub(super) struct LogWriters {
    /// By the number of the site. `None`: in none.
    sites: Vec<Option<WriterEntry>>,
    books: Vec<LogWriter>,
}

/// How the exchanges of a site are logged.
struct WriterEntry {
    scribe: Formatter,
    /// By its number.
    book: usize,
}

/// A log: where its lines go, and those that have not gone yet.
struct LogWriter {
    owner: LogOwner,
    /// The name of that, if it is not the server's.
    of: Option<String>,
    sink: Option<LogSink>,
    lines: Vec<u8>,
    /// Why something could not be written, as told last.
    failed: Option<String>,
}

impl LogWriters {
    /// A book for each owner that has something to log.
    pub(super) fn new(logs: &LogPlan) -> LogWriters {
        let mut books: Vec<LogWriter> = Vec::new();
        let entry = |site: &Option<(Logging, LogOwner)>| {
            let (logging, owner) = (*site)?;
            let known = books.iter().position(|book| book.owner == owner);
            let book = known.unwrap_or_else(|| {
                books.push(LogWriter::new(owner, logs));
                books.len() - 1
            });
            Some(WriterEntry { scribe: Formatter::new(logging.format, logging.client_ip), book })
        };
        LogWriters { sites: logs.sites.iter().map(entry).collect(), books }
    }

    /// From now on the lines of these owners go there. Of one that logs nothing it is nothing to say.
    pub(super) fn assign(&mut self, sinks: Vec<(LogOwner, LogSink)>) {
        for (owner, sink) in sinks {
            if let Some(book) = self.books.iter_mut().find(|book| book.owner == owner) {
                book.sink = Some(sink);
            }
        }
    }

    /// Whether it is known of all where they go.
    pub(super) fn is_assigned(&self) -> bool {
        self.books.iter().all(|book| book.sink.is_some())
    }

    /// Enters the line of an exchange that is over, as its site wants it, unless it is none for a log.
    pub(super) fn enter(&mut self, step: &ExchangeStep<'_>) {
        let ExchangeStep::Over(exchange) = step else { return };
        let of = self.sites.get_mut(exchange.begun.site as usize);
        if let (Some(Some(WriterEntry { scribe, book })), true) = (of, exchange.begun.is_sampled) {
            scribe.line(exchange, &mut self.books[*book].lines);
        }
    }

    /// Writes to the sinks what has been entered.
    pub(super) fn write(&mut self) {
        self.books.iter_mut().for_each(LogWriter::write);
    }
}

impl LogWriter {
    fn new(owner: LogOwner, logs: &LogPlan) -> LogWriter {
        let of = match owner {
            LogOwner::Server => None,
            LogOwner::Site(number) => logs.names[number].clone(),
        };
        LogWriter { owner, of, sink: None, lines: Vec::new(), failed: None }
    }

    fn write(&mut self) {
        let Some(sink) = self.sink.as_mut().filter(|_| !self.lines.is_empty()) else { return };
        let written = sink.write(&self.lines);
        self.lines.clear();
        let why = written.err().map(|error| reason(&error));
        if why != self.failed {
            let of = self.of.as_ref().map(|of| format!(" of {of}")).unwrap_or_default();
            match &why {
                Some(why) => warn!(
                    "cannot write the access log{of}: {why}; lines are lost until it can be written again"
                ),
                None => warn!("the access log{of} can be written again"),
            }
            self.failed = why;
        }
    }
}
