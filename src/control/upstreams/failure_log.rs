//! Chooses the lines of the log among the reports of workers: a machine without clock and output.
//!
//! ```text
//! first report of a server with a reason ─▶ a line at once
//! further ones ─ counted ─▶ at the end of each interval one line with their number
//! ```
//!
//! So a server that is down takes a few lines, however many requests fail. Everything is bounded: a captured worker sends what it likes.

use crate::{
    control::process::clock::after,
    data::upstreams::reports::{ReportKind, WorkerReport},
};
use std::{mem, time::Duration};
use tarpon_conn::Tick;
use tarpon_site::Printable;

/// How long equal reports are counted before the next line.
pub(super) const REPEAT_INTERVAL: Duration = Duration::from_secs(10);

/// Lines of error output of one server within an interval, at most: those of some requests, and no loop fills a disk.
const ERROR_LINE_COUNT_MAX: u32 = 100;

/// Servers with a reason that are counted at a time, at most.
const GROUP_COUNT_MAX: usize = 256;

/// The choice of lines.
#[derive(Debug, Default)]
pub(super) struct FailureLog {
    groups: Vec<ReportGroup>,
    /// Reports that no line shows: there were too many groups, they were lost on the way, or the output had no room.
    unshown_count: u64,
    /// When their number is shown next.
    unshown_at: Option<Tick>,
}

/// Equal reports.
#[derive(Debug)]
struct ReportGroup {
    server: u16,
    kind: ReportKind,
    reason: String,
    /// The end of the interval.
    end: Tick,
    /// Lines in this interval.
    line_count: u32,
    /// Reports in this interval that no line shows.
    count: u64,
    /// The request of the last of them.
    request: String,
}

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FailureLine {
    /// About a server. All texts are printable.
    Server {
        server: u16,
        text: String,
        /// The method and the path: of the last one, if there are several. Empty: there is none.
        request: String,
        /// How many reports the line stands for.
        count: u64,
    },
    /// So many reports are not shown.
    Unshown(u64),
}

impl FailureLog {
    /// Takes a report. Returns the line that shows it, if there is one now.
    pub(super) fn add(&mut self, now: Tick, report: WorkerReport<'_>) -> Option<FailureLine> {
        let WorkerReport { server, kind, reason, detail, request } = report;
        let (reason, request) = (reason.printable().to_string(), request.printable().to_string());
        let place = self
            .groups
            .iter()
            .position(|group| (group.server, group.kind) == (server, kind) && group.reason == reason);
        let place = match place {
            Some(place) => place,
            None if self.groups.len() == GROUP_COUNT_MAX => {
                self.add_unshown(now, 1);
                return None;
            }
            None => {
                let end = after(now, REPEAT_INTERVAL);
                let (line_count, count) = (0, 0);
                let reason = reason.clone();
                self.groups.push(ReportGroup {
                    server,
                    kind,
                    reason,
                    end,
                    line_count,
                    count,
                    request: String::new(),
                });
                self.groups.len() - 1
            }
        };
        let group = &mut self.groups[place];
        let line_count_max = match kind {
            ReportKind::Failed => 1,
            ReportKind::ErrorOutput => ERROR_LINE_COUNT_MAX,
        };
        if group.line_count >= line_count_max {
            group.count += 1;
            group.request = request;
            return None;
        }
        group.line_count += 1;
        let detail = detail.printable();
        let text = match kind {
            ReportKind::Failed if report.detail.is_empty() => reason,
            ReportKind::Failed => format!("{reason}: {detail}"),
            ReportKind::ErrorOutput => format!("stderr: {detail}"),
        };
        Some(FailureLine::Server { server, text, request, count: 1 })
    }

    /// Counts reports that no line shows.
    pub(super) fn add_unshown(&mut self, now: Tick, count: u64) {
        if count > 0 {
            self.unshown_count += count;
            self.unshown_at.get_or_insert(after(now, REPEAT_INTERVAL));
        }
    }

    /// Returns the next line that is due. `None`: there is none now.
    pub(super) fn next_due(&mut self, now: Tick) -> Option<FailureLine> {
        self.groups.retain(|group| group.end > now || group.count > 0);
        if let Some(group) = self.groups.iter_mut().find(|group| group.end <= now) {
            let (count, request) = (mem::take(&mut group.count), mem::take(&mut group.request));
            // The line counts for the next interval: it has at most one.
            (group.end, group.line_count) = (after(now, REPEAT_INTERVAL), 1);
            let server = group.server;
            let text = match group.kind {
                ReportKind::Failed => {
                    format!("{}; {count} more times within {REPEAT_INTERVAL:?}", group.reason)
                }
                ReportKind::ErrorOutput => {
                    format!("stderr: {count} more lines within {REPEAT_INTERVAL:?} are not shown")
                }
            };
            return Some(FailureLine::Server { server, text, request, count });
        }
        self.unshown_at.take_if(|at| *at <= now)?;
        Some(FailureLine::Unshown(mem::take(&mut self.unshown_count)))
    }

    /// Returns when the next line may be due.
    pub(super) fn deadline(&self) -> Option<Tick> {
        self.groups.iter().map(|group| group.end).chain(self.unshown_at).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed<'a>(server: u16, reason: &'a str, request: &'a str) -> WorkerReport<'a> {
        let (reason, request) = (reason.as_bytes(), request.as_bytes());
        WorkerReport { server, kind: ReportKind::Failed, reason, detail: b"", request }
    }

    fn error_output(line: &[u8]) -> WorkerReport<'_> {
        WorkerReport {
            server: 1,
            kind: ReportKind::ErrorOutput,
            reason: b"",
            detail: line,
            request: b"GET /a",
        }
    }

    fn line(server: u16, text: &str, request: &str, count: u64) -> Option<FailureLine> {
        Some(FailureLine::Server { server, text: text.to_owned(), request: request.to_owned(), count })
    }

    #[test]
    fn first_report_is_shown_at_once_and_a_flood_as_a_number() {
        let mut log = FailureLog::default();
        assert_eq!(log.add(Tick(5), failed(1, "it is late", "GET /a")), line(1, "it is late", "GET /a", 1));
        // Another server, and another reason.
        assert!(log.add(Tick(6), failed(2, "it is late", "GET /a")).is_some());
        assert!(log.add(Tick(7), failed(1, "it is odd", "GET /a")).is_some());
        // One each millisecond, for a minute.
        let mut lines = Vec::new();
        for ms in 8..60_000 {
            while let Some(line) = log.next_due(Tick(ms)) {
                lines.push(line);
            }
            lines.extend(log.add(Tick(ms), failed(1, "it is late", "GET /b")));
        }
        let text = "it is late; 9997 more times within 10s";
        assert_eq!(lines.first().cloned(), line(1, text, "GET /b", 9_997));
        assert_eq!(lines.len(), 5, "{lines:?}");
        // All end.
        assert!(log.next_due(Tick(70_000)).is_some());
        while let Some(at) = log.deadline() {
            assert_eq!(log.next_due(at), None);
        }
        assert!(log.add(Tick(90_000), failed(1, "it is late", "GET /a")).is_some());
    }

    #[test]
    fn error_output_is_shown_up_to_its_limit() {
        let mut log = FailureLog::default();
        let shown = (0..1_000).filter(|_| log.add(Tick(1), error_output(b"x")).is_some()).count();
        assert_eq!(shown, ERROR_LINE_COUNT_MAX as usize);
        let text = "stderr: 900 more lines within 10s are not shown";
        assert_eq!(log.next_due(Tick(10_001)), line(1, text, "GET /a", 900));
    }

    #[test]
    fn texts_of_others_are_printable() {
        let mut log = FailureLog::default();
        let lie = WorkerReport { detail: b"\x1b[2J\n\xff", ..failed(1, "r\r", "GET /\x07\u{202e}") };
        let want = line(1, r"r\r: \x1b[2J\n\xff", r"GET /\x07\u{202e}", 1);
        assert_eq!(log.add(Tick(1), lie), want);
        assert_eq!(log.add(Tick(1), error_output(b"\x9b\\")), line(1, r"stderr: \x9b\\", "GET /a", 1));
    }

    #[test]
    fn number_of_groups_is_bounded_and_the_rest_is_counted() {
        let mut log = FailureLog::default();
        let reasons: Vec<String> = (0..1_000).map(|number| format!("reason {number}")).collect();
        let shown = reasons.iter().filter(|reason| log.add(Tick(1), failed(1, reason, "")).is_some()).count();
        assert_eq!(shown, GROUP_COUNT_MAX);
        log.add_unshown(Tick(2), 5);
        log.add_unshown(Tick(2), 0);
        assert_eq!(log.next_due(Tick(10_000)), None);
        assert_eq!(
            log.next_due(Tick(10_001)),
            Some(FailureLine::Unshown(1_000 - GROUP_COUNT_MAX as u64 + 5))
        );
        assert_eq!((log.next_due(Tick(10_001)), log.deadline()), (None, None));
    }
}
