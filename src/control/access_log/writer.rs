//! Where lines are kept until they are written: a book for the server, and one for each site that has a log of its own.

use super::{LogSink, Logs, exchange::Step, format::Scribe};
use crate::base::error::reason;
use crate::base::log_config::{Logging, Owner};
use tracing::warn;

/// The books, and which of them a site's exchanges are entered in.
pub(super) struct Books {
    /// By the number of the site. `None`: in none.
    sites: Vec<Option<Entry>>,
    books: Vec<Book>,
}

/// How the exchanges of a site are logged.
struct Entry {
    scribe: Scribe,
    /// By its number.
    book: usize,
}

/// A log: where its lines go, and those that have not gone yet.
struct Book {
    owner: Owner,
    /// The name of that, if it is not the server's.
    of: Option<String>,
    sink: Option<LogSink>,
    lines: Vec<u8>,
    /// Why something could not be written, as told last.
    failed: Option<String>,
}

impl Books {
    /// A book for each owner that has something to log.
    pub(super) fn new(logs: &Logs) -> Books {
        let mut books: Vec<Book> = Vec::new();
        let entry = |site: &Option<(Logging, Owner)>| {
            let (logging, owner) = (*site)?;
            let known = books.iter().position(|book| book.owner == owner);
            let book = known.unwrap_or_else(|| {
                books.push(Book::new(owner, logs));
                books.len() - 1
            });
            Some(Entry { scribe: Scribe::new(logging.form, logging.addresses), book })
        };
        Books { sites: logs.sites.iter().map(entry).collect(), books }
    }

    /// From now on the lines of these owners go there. Of one that logs nothing it is nothing to say.
    pub(super) fn assign(&mut self, sinks: Vec<(Owner, LogSink)>) {
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
    pub(super) fn enter(&mut self, step: &Step<'_>) {
        let Step::Over(exchange) = step else { return };
        let of = self.sites.get_mut(exchange.begun.site as usize);
        if let (Some(Some(Entry { scribe, book })), true) = (of, exchange.begun.is_sampled) {
            scribe.line(exchange, &mut self.books[*book].lines);
        }
    }

    /// Writes to the sinks what has been entered.
    pub(super) fn write(&mut self) {
        self.books.iter_mut().for_each(Book::write);
    }
}

impl Book {
    fn new(owner: Owner, logs: &Logs) -> Book {
        let of = match owner {
            Owner::Server => None,
            Owner::Site(number) => logs.names[number].clone(),
        };
        Book { owner, of, sink: None, lines: Vec::new(), failed: None }
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
