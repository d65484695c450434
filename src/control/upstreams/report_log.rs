//! Writes the failures of upstream servers to the log, as events: those that workers report, and those of this process.

use super::failure_log::{FailureLine, FailureLog};
use crate::{
    data::{
        services::HelperEndpoint,
        upstreams::{
            reports::{self, ReportKind, WorkerReport},
            table::UpstreamTable,
        },
    },
    sys::{io::output_has_room, poll::PollEntry},
};
use libc::POLLIN;
use std::os::fd::AsFd;
use tarpon_conn::Tick;
use tarpon_site::Printable;

/// The log of a helper.
#[derive(Debug)]
pub(super) struct ReportLog {
    endpoint: HelperEndpoint,
    /// By the number of the server: the name of its upstream, and its address.
    names: Vec<(String, String)>,
    lines: FailureLog,
    /// Lost reports that were counted already.
    seen_lost: u64,
    /// Some workers have not exited.
    has_workers: bool,
}

/// Reports that the helper receives in one turn of its loop, at most: connections do not wait for a flood of them.
const REPORTS_PER_TURN: usize = 256;

impl ReportLog {
    pub(super) fn new(
        endpoint: HelperEndpoint,
        names: Vec<(String, String)>,
        table: &UpstreamTable,
    ) -> ReportLog {
        // Those of an earlier helper.
        let seen_lost = table.lost_reports();
        ReportLog { endpoint, names, lines: FailureLog::default(), seen_lost, has_workers: true }
    }

    /// Writes the lines that are due, and those of the reports that workers have sent.
    pub(super) fn turn(&mut self, now: Tick, table: &UpstreamTable) {
        let ReportLog { endpoint, names, lines, seen_lost, has_workers } = self;
        while let Some(line) = lines.next_due(now) {
            emit(names, lines, now, line);
        }
        *has_workers = reports::receive(endpoint, REPORTS_PER_TURN, |report| {
            // A number beyond the table comes from no worker of ours.
            if usize::from(report.server) < names.len()
                && let Some(line) = lines.add(now, report)
            {
                emit(names, lines, now, line);
            }
        });
        let lost = table.lost_reports();
        lines.add_unshown(now, lost.wrapping_sub(std::mem::replace(seen_lost, lost)));
    }

    /// Writes a failure that this process has found, or counts it.
    pub(super) fn failed(&mut self, now: Tick, server: u16, reason: &str) {
        let reason = reason.as_bytes();
        let report = WorkerReport { server, kind: ReportKind::Failed, reason, detail: b"", request: b"" };
        if let Some(line) = self.lines.add(now, report) {
            emit(&self.names, &mut self.lines, now, line);
        }
    }

    /// Returns what to wait for: readable when a worker has sent a report.
    pub(super) fn polled(&self) -> Option<PollEntry> {
        self.has_workers.then(|| PollEntry::new(self.endpoint.as_fd(), POLLIN))
    }

    /// Returns when [`turn`](ReportLog::turn) may write the next line.
    pub(super) fn deadline(&self) -> Option<Tick> {
        self.lines.deadline()
    }
}

fn emit(names: &[(String, String)], lines: &mut FailureLog, now: Tick, line: FailureLine) {
    let count = match line {
        FailureLine::Server { count, .. } | FailureLine::Unshown(count) => count,
    };
    // A reader of the output that stands still must not stop the helper.
    if !output_has_room() {
        return lines.add_unshown(now, count);
    }
    match line {
        FailureLine::Server { server, text, request, count } => {
            let Some((upstream, server)) = names.get(usize::from(server)) else { return };
            let (upstream, server) = (upstream.printable().to_string(), server.printable().to_string());
            let (text, request) = (shortened(&text, TEXT_LEN_MAX), shortened(&request, REQUEST_LEN_MAX));
            let in_brackets = if request.is_empty() { String::new() } else { format!(" ({request})") };
            tracing::warn!(
                upstream,
                server,
                request,
                count,
                "upstream {upstream}: {server}: {text}{in_brackets}"
            );
        }
        FailureLine::Unshown(count) => {
            tracing::warn!(count, "{count} more failures of upstream servers are not shown");
        }
    }
}

/// The maximum length of texts of a line in bytes, as JSON. A line with both, the request twice, has less than a page: a pipe that has room
/// takes it as a whole.
const TEXT_LEN_MAX: usize = 1_500;
const REQUEST_LEN_MAX: usize = 300;

/// Returns the front of a text that has at most `max` bytes as JSON.
fn shortened(text: &str, max: usize) -> String {
    let mut len = 0;
    let is_within = |char: &char| {
        len += if ['"', '\\'].contains(char) { 2 } else { char.len_utf8() };
        len <= max
    };
    let front: String = text.chars().take_while(is_within).collect();
    if front.len() < text.len() { front + "…" } else { front }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_short_as_json() {
        #[rustfmt::skip]
        let cases = [
            // text       shortened
            ("",          ""),
            ("abcdef",    "abcdef"),
            ("abcdefg",   "abcdef…"),
            ("a\\b\"c",   "a\\b\"…"),
            ("äöü",       "äöü"),
            ("äöüä",      "äöü…"),
        ];
        for (text, want) in cases {
            assert_eq!(shortened(text, 6), want, "{text}");
        }
    }
}
