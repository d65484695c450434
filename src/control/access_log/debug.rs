//! Logs exchanges as they happen, for debugging: through `tracing`, at level DEBUG.
//!
//! | event | when | its fields |
//! |---|---|---|
//! | `request_start` | the response is queued | `connection`, `client`, `site`, `time`, `request`, `response`: both heads |
//! | `request_end` | the response is sent, or the client has gone | `connection`, `line`, `status`, `bytes`, `duration_ms`, `complete` |
//!
//! Bytes of clients are escaped to lines of printable ASCII.

use super::{
    LogPlan, escape,
    exchange::{Exchange, ExchangeStep},
};
use tarpon_conn::{RecordedText, RequestStart};
use tarpon_http::date::format_rfc3339_ms;
use tracing::debug;

/// Logs exchanges, if debugging is on.
pub(super) struct DebugTracer {
    is_on: bool,
    /// The canonical hosts, by the number of the site.
    names: Vec<Option<String>>,
}

impl DebugTracer {
    pub(super) fn new(logs: &LogPlan) -> DebugTracer {
        DebugTracer { is_on: logs.debug, names: logs.names.clone() }
    }

    /// Logs a step of an exchange of this worker.
    pub(super) fn trace(&self, worker: usize, step: &ExchangeStep<'_>) {
        match step {
            _ if !self.is_on => {}
            ExchangeStep::Started(start) => self.trace_start(worker, start),
            ExchangeStep::Ended(exchange) => trace_end(worker, exchange),
        }
    }

    fn trace_start(&self, worker: usize, start: &RequestStart<'_>) {
        let name = || self.names.get(start.site as usize).cloned().flatten();
        // With a single site, its name adds nothing.
        let site =
            (self.names.len() > 1).then(|| name().unwrap_or_else(|| format!("number {}", start.site + 1)));
        debug!(
            connection = connection(worker, start),
            client = start.client.map(|client| client.to_string()),
            site,
            time = str::from_utf8(&format_rfc3339_ms(start.unix_ms)).unwrap_or_default(),
            request = lines(start.request),
            response = lines(start.response),
            "request_start"
        );
    }
}

fn trace_end(worker: usize, exchange: &Exchange<'_>) {
    let start = &exchange.start;
    debug!(
        connection = connection(worker, start),
        line = lines(start.line),
        status = start.status,
        bytes = exchange.content_len,
        duration_ms = exchange.took_ms,
        complete = exchange.is_complete,
        "request_end"
    );
}

/// Returns a name for the connection, unique while it is open.
fn connection(worker: usize, start: &RequestStart<'_>) -> String {
    format!("{worker}.{}", start.connection)
}

fn lines(text: RecordedText<'_>) -> String {
    let mut lines = escape::lines(text.bytes);
    if text.cut {
        lines += "...";
    }
    lines
}
