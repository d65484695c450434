//! What a server has done and does, summed over its workers when somebody asks.
//!
//! ```text
//! counters of worker 0, 1, … ─┐
//! sites, as they are now ─────┴─ sum ─▶ Metrics ─▶ text for Prometheus, or JSON
//! ```
//!
//! Each number was right at some moment while they were read, and not all at the same one.

use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fmt::{self, Write},
};
use tarpon_conn::{Counter, Counters, LATENCY_MS, VERSIONS};
use tarpon_http::{head::Version, status::Status};

/// What a server has done and does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Metrics {
    /// The version of tarpon.
    pub version: String,
    /// What drives the workers.
    pub engine: String,
    /// Threads that serve.
    pub workers: usize,
    /// When it began, in seconds since 1970.
    pub start_unix_s: u64,
    /// Where it is.
    pub state: ServerState,
    /// Connections that were accepted.
    pub accepted: u64,
    /// Connections that are open.
    pub open: u64,
    /// Bytes received, of requests.
    pub received_len: u64,
    /// Bytes sent, of responses.
    pub sent_len: u64,
    /// Responses by status and version.
    pub responses: Vec<Responses>,
    /// Responses whose end has not left: the client was gone, or too slow.
    pub aborted: u64,
    /// Exchanges that were not logged, for want of room.
    pub log_dropped: u64,
    /// How many responses have left within so many milliseconds. Clocks are read once for many requests and have steps of
    /// some milliseconds, so that most have taken no time at all.
    pub latencies: Vec<(u64, u64)>,
    /// Responses that have left.
    pub completed: u64,
    /// The time all of these took together, in milliseconds.
    pub latency_ms: u64,
    /// By number.
    pub sites: Vec<SiteMetrics>,
}

/// Where a server is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ServerState {
    /// It waits for the sites it will serve.
    #[default]
    Starting,
    /// It serves.
    Serving,
    /// It accepts nobody more, and finishes what has begun.
    Draining,
}

/// How often there was such a response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Responses {
    /// The status code.
    pub status: u16,
    /// That of the request: `1.0`, `1.1`, or `none` where its head could not be read.
    pub version: String,
    /// How often.
    pub count: u64,
}

/// A site as it is served now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteMetrics {
    /// Its canonical host, where it has one.
    pub host: Option<String>,
    /// Files.
    pub files: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// How often it was read: 1 at the start, and one more with each change.
    pub loads: u64,
}

impl Metrics {
    /// Adds what the workers have counted.
    pub(crate) fn count<'a>(&mut self, workers: impl Iterator<Item = &'a Counters>) {
        let mut responses = BTreeMap::new();
        let mut latencies = [0; LATENCY_MS.len() + 1];
        let mut closed = 0;
        for counters in workers {
            // In this order: a connection that comes in between is not counted as closed only.
            closed += counters.closed.get();
            self.accepted += counters.accepted.get();
            self.received_len += counters.received_len.get();
            self.sent_len += counters.sent_len.get();
            self.aborted += counters.aborted.get();
            self.log_dropped += counters.log_dropped.get();
            self.latency_ms += counters.latency_ms.get();
            for (sum, class) in latencies.iter_mut().zip(&counters.latencies) {
                *sum += Counter::get(class);
            }
            for status in Status::ALL {
                for version in VERSIONS {
                    *responses.entry((status.code(), name(version))).or_default() +=
                        counters.responses(status, version);
                }
            }
        }
        self.open = self.accepted.saturating_sub(closed);
        self.responses = (responses.into_iter())
            .filter(|&(_, count)| count > 0)
            .map(|((status, version), count)| Responses { status, version: version.to_owned(), count })
            .collect();
        let mut below = 0;
        self.latencies = (LATENCY_MS.iter().zip(&latencies))
            .map(|(&ms, count)| {
                below += count;
                (ms, below)
            })
            .collect();
        self.completed = latencies.iter().sum();
    }

    /// Responses, whatever their status.
    pub fn response_count(&self) -> u64 {
        self.responses.iter().map(|responses| responses.count).sum()
    }

    /// In the text format of Prometheus, version 0.0.4.
    pub fn prometheus(&self) -> String {
        let mut page = PrometheusPage(String::new());
        page.family("build_info", "gauge", "What runs");
        page.row("build_info", &[("version", &self.version), ("engine", &self.engine)], 1);
        page.number("start_time_seconds", "gauge", "When the server began, since 1970", self.start_unix_s);
        page.number("workers", "gauge", "Threads that serve", self.workers as u64);
        let ready = u64::from(self.state == ServerState::Serving);
        page.number("ready", "gauge", "1 while clients are accepted", ready);
        page.number("connections_accepted_total", "counter", "Connections that were accepted", self.accepted);
        page.number("connections_open", "gauge", "Connections that are open", self.open);
        page.number("received_bytes_total", "counter", "Bytes received from clients", self.received_len);
        page.number("sent_bytes_total", "counter", "Bytes sent to clients", self.sent_len);
        page.family("requests_total", "counter", "Requests by status of the response and version of HTTP");
        for Responses { status, version, count } in &self.responses {
            page.row("requests_total", &[("status", &status.to_string()), ("version", version)], *count);
        }
        let help = "Responses whose end has not left, as the client was gone or too slow";
        page.number("responses_aborted_total", "counter", help, self.aborted);
        let help = "Requests that were not logged, as whoever takes the log was too slow";
        page.number("access_log_dropped_total", "counter", help, self.log_dropped);
        self.histogram(&mut page);
        let mut each_site = |name: &str, kind: &str, help: &str, value: fn(&SiteMetrics) -> u64| {
            page.family(name, kind, help);
            for (number, site) in self.sites.iter().enumerate() {
                let host = site.host.as_deref().unwrap_or_default();
                page.row(name, &[("site", &number.to_string()), ("host", host)], value(site));
            }
        };
        each_site("site_files", "gauge", "Files of the site", |site| site.files);
        each_site("site_bytes", "gauge", "Bytes of these files", |site| site.bytes);
        let help = "How often the site was read, at the start and when it had changed";
        each_site("site_loads_total", "counter", help, |site| site.loads);
        page.0
    }

    fn histogram(&self, page: &mut PrometheusPage) {
        let name = "response_duration_seconds";
        page.family(name, "histogram", "From the head of a request to the end of its response");
        for &(ms, count) in &self.latencies {
            page.row(&format!("{name}_bucket"), &[("le", &seconds(ms).to_string())], count);
        }
        page.row(&format!("{name}_bucket"), &[("le", "+Inf")], self.completed);
        page.row(&format!("{name}_sum"), &[], seconds(self.latency_ms));
        page.row(&format!("{name}_count"), &[], self.completed);
    }
}

/// Text for Prometheus.
struct PrometheusPage(String);

impl PrometheusPage {
    fn number(&mut self, name: &str, kind: &str, help: &str, value: u64) {
        self.family(name, kind, help);
        self.row(name, &[], value);
    }

    fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.put(format_args!("# HELP tarpon_{name} {help}.\n# TYPE tarpon_{name} {kind}\n"));
    }

    fn row(&mut self, name: &str, labels: &[(&str, &str)], value: impl fmt::Display) {
        self.put(format_args!("tarpon_{name}"));
        for (number, (label, text)) in labels.iter().enumerate() {
            let (before, text) = (if number == 0 { '{' } else { ',' }, escaped(text));
            self.put(format_args!("{before}{label}=\"{text}\""));
        }
        self.put(format_args!("{} {value}\n", if labels.is_empty() { "" } else { "}" }));
    }

    fn put(&mut self, words: fmt::Arguments<'_>) {
        self.0.write_fmt(words).expect("memory takes all that is written");
    }
}

/// The value of a label.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn seconds(ms: u64) -> f64 {
    ms as f64 / 1_000.0
}

fn name(version: Option<Version>) -> &'static str {
    match version {
        None => "none",
        Some(Version::Http10) => "1.0",
        Some(Version::Http11) => "1.1",
    }
}
