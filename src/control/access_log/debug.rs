//! Exchanges told as they happen, to whoever looks for what goes wrong: through `tracing`, at level DEBUG.
//!
//! | event | when | its fields |
//! |---|---|---|
//! | `request_start` | the response is queued | `connection`, `client`, `site`, `time`, `request`, `response`: both heads |
//! | `request_end` | it has left, or the client | `connection`, `line`, `status`, `bytes`, `duration_ms`, `complete` |
//!
//! Whatever a client has said, it is lines of printable ASCII here.

use super::{
    LogPlan, escape,
    exchange::{Exchange, ExchangeStep},
};
use jiff::Timestamp;
use tarpon_conn::{Begun, Text};
use tracing::debug;

/// Tells of exchanges, where that is asked for.
pub(super) struct DebugTracer {
    is_on: bool,
    /// By the number of the site.
    names: Vec<Option<String>>,
}

impl DebugTracer {
    pub(super) fn new(logs: &LogPlan) -> DebugTracer {
        DebugTracer { is_on: logs.debug, names: logs.names.clone() }
    }

    /// What happens to an exchange of the worker of this number.
    pub(super) fn tell(&self, worker: usize, step: &ExchangeStep<'_>) {
        match step {
            _ if !self.is_on => {}
            ExchangeStep::Begun(begun) => self.begun(worker, begun),
            ExchangeStep::Over(exchange) => over(worker, exchange),
        }
    }

    fn begun(&self, worker: usize, begun: &Begun<'_>) {
        let name = || self.names.get(begun.site as usize).cloned().flatten();
        // Of one site alone it need not be said which.
        let site =
            (self.names.len() > 1).then(|| name().unwrap_or_else(|| format!("number {}", begun.site + 1)));
        let time = Timestamp::from_millisecond(begun.unix_ms as i64).unwrap_or_default();
        debug!(
            connection = connection(worker, begun),
            client = begun.accepted.peer.map(|peer| peer.to_string()),
            site,
            time = format!("{time:.3}"),
            request = lines(begun.request),
            response = lines(begun.response),
            "request_start"
        );
    }
}

fn over(worker: usize, exchange: &Exchange<'_>) {
    let begun = &exchange.begun;
    debug!(
        connection = connection(worker, begun),
        line = lines(begun.line),
        status = begun.status,
        bytes = exchange.content_len,
        duration_ms = exchange.took_ms,
        complete = !exchange.cut,
        "request_end"
    );
}

/// Names a connection as long as it is open; then perhaps another one.
fn connection(worker: usize, begun: &Begun<'_>) -> String {
    format!("{worker}.{}", begun.accepted.number)
}

fn lines(said: Text<'_>) -> String {
    let mut lines = escape::lines(said.bytes);
    if said.cut {
        lines += "...";
    }
    lines
}
