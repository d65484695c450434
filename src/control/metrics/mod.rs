//! The metrics of a service, summed over its workers on request.
//!
//! ```text
//! counters of all workers ─┐
//! current sites ───────────┴─ sum ─▶ Metrics ─▶ text for Prometheus, OpenMetrics, or JSON
//! ```
//!
//! The numbers are not a snapshot: each is exact at some moment during the read.

mod helpers;

pub use helpers::{
    CertificateMetrics, CgiMetrics, ProcessMetrics, ReadFailure, SiteReading, UpstreamMetrics, UpstreamState,
};

pub use super::exemplars::Exemplar;

use super::counters::ServerCounters;
use std::fmt::{self, Write};
use tarpon_conn::{Counters, LATENCY_US, VERSIONS};
use tarpon_http::{head::Version, status::Status};

/// The metrics of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "program", derive(serde::Serialize, serde::Deserialize), serde(default))]
#[non_exhaustive]
pub struct Metrics {
    /// The version of tarpon.
    pub version: String,
    /// The engine of the workers.
    pub engine: String,
    /// The number of workers.
    pub workers: usize,
    /// The start of the service, in seconds since 1970. Reloads, upgrades and restarted processes do not change it.
    pub start_unix_s: u64,
    /// The state of the server.
    pub state: ServerState,
    /// Accepted connections.
    pub accepted: u64,
    /// Open connections.
    pub open: u64,
    /// Bytes received, of requests.
    pub received_len: u64,
    /// Bytes sent, of responses.
    pub sent_len: u64,
    /// Responses by status and version.
    pub responses: Vec<Responses>,
    /// Responses aborted before their end: the client disconnected or was too slow.
    pub aborted: u64,
    /// Exchanges missing in the access log, as its ring was full.
    pub log_dropped: u64,
    /// Lines that the access log could not write, as on a full disk, since this server process started.
    pub log_lost: u64,
    /// Logged exchanges in which a trusted proxy has sent a malformed list of addresses: the log has the address of the proxy.
    pub client_malformed: u64,
    /// Connections closed because of their PROXY header: it is missing, malformed or late, or the peer is not trusted.
    pub proxy_refused: u64,
    /// Connections reset because their address had too many open. They count neither as accepted nor as open.
    pub connections_limited: u64,
    /// Connections reset because their address may not connect. They count neither as accepted nor as open.
    pub connections_denied: u64,
    /// Floods of connections that clients reset before they sent anything: the kernel then holds silent ones back for a while.
    pub reset_floods: u64,
    /// Requests refused with 403 because the address of their client is denied.
    pub requests_denied: u64,
    /// Requests refused with 429 because their client had sent too many.
    pub requests_limited: u64,
    /// Requests refused with 401 because they had no password, or a wrong one.
    pub requests_unauthorized: u64,
    /// Passwords that were verified and right.
    pub passwords_right: u64,
    /// Passwords that were verified and wrong.
    pub passwords_wrong: u64,
    /// Passwords that were not verified, because too many others waited.
    pub passwords_busy: u64,
    /// Requests with a password that had been verified before.
    pub passwords_remembered: u64,
    /// TLS handshakes by version and kind.
    pub tls_handshakes: Vec<TlsHandshakes>,
    /// Connections that failed in TLS: no agreement with the client, an invalid record, or a request without TLS.
    pub tls_failed: u64,
    /// Connections whose keys of TLS went to the kernel.
    pub tls_kernel: u64,
    /// Connections of TLS that the kernel could not take.
    pub tls_kernel_refused: u64,
    /// Connections that ended because the kernel cannot change keys.
    pub tls_kernel_no_update: u64,
    /// Connections that changed to HTTP/2.
    pub http2_connections: u64,
    /// Streams of HTTP/2 that clients have cancelled.
    pub http2_resets: u64,
    /// Connections of HTTP/2 that the server has ended because the client caused too much work.
    pub http2_floods: u64,
    /// How many responses were sent within each number of microseconds. A worker reads its clock once when it wakes, so a response that is sent
    /// at once takes 0 µs.
    pub latencies: Vec<(u64, u64)>,
    /// Responses sent completely.
    pub completed: u64,
    /// The sum of the durations of these responses, in microseconds.
    pub latency_us: u64,
    /// By the classes of [`latencies`](Metrics::latencies), and one more: the last logged request with a sampled trace that took so long. The text
    /// formats have them, and JSON does not.
    #[cfg_attr(feature = "program", serde(skip))]
    pub exemplars: Vec<Option<Exemplar>>,
    /// CPU time of the workers, in microseconds.
    pub worker_cpu_us: u64,
    /// What the process takes that answers. `None`: the system does not tell.
    pub process: Option<ProcessMetrics>,
    /// The CGI programs, if any configuration since the start had some.
    pub cgi: Option<CgiMetrics>,
    /// The paths that are asked for most. `None`: they are not counted.
    pub hot_paths: Option<HotPathMetrics>,
    /// The sites, by number.
    pub sites: Vec<SiteMetrics>,
    /// The servers of upstreams. A reload begins their numbers anew.
    pub upstreams: Vec<UpstreamMetrics>,
    /// The certificates that are obtained by ACME.
    pub certificates: Vec<CertificateMetrics>,
}

/// The state of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "program",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "lowercase")
)]
pub enum ServerState {
    /// The server waits for its sites.
    #[default]
    Starting,
    /// The server serves.
    Serving,
    /// The server accepts no more clients, and finishes exchanges under way.
    Draining,
}

/// The number of responses with a status and a version.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "program", derive(serde::Serialize, serde::Deserialize))]
pub struct Responses {
    /// The status code.
    pub status: u16,
    /// The version of the request: `1.0`, `1.1`, or `none` if its head was malformed.
    pub version: String,
    /// The number of responses.
    pub count: u64,
}

/// The number of complete TLS handshakes of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "program", derive(serde::Serialize, serde::Deserialize))]
pub struct TlsHandshakes {
    /// The version: `1.2` or `1.3`.
    pub version: String,
    /// Whether they resumed a session.
    pub is_resumed: bool,
    /// The number of handshakes.
    pub count: u64,
}

/// The paths that are asked for most, by a sample of the last requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "program", derive(serde::Serialize, serde::Deserialize), serde(default))]
pub struct HotPathMetrics {
    /// One request in this many is in the sample.
    pub one_in: u32,
    /// The size of the sample. Older requests count less.
    pub samples: u64,
    /// The most frequent paths, the first one first.
    pub paths: Vec<PathMetrics>,
}

/// A path that is asked for often.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "program", derive(serde::Serialize, serde::Deserialize), serde(default))]
pub struct PathMetrics {
    /// The number of the site, from 0.
    pub site: usize,
    /// The path as the client sent it, without a query, at most 128 bytes. It may have any characters: escape them before they reach a
    /// terminal or a page.
    pub path: String,
    /// Whether the path is longer.
    pub is_cut: bool,
    /// Requests of the sample for this path, at least.
    pub count: u64,
}

/// The metrics of a site.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "program", derive(serde::Serialize, serde::Deserialize), serde(default))]
pub struct SiteMetrics {
    /// The canonical host, if the site has one.
    pub host: Option<String>,
    /// The number of files.
    pub files: u64,
    /// The bytes of these files.
    pub bytes: u64,
    /// How often the site was loaded: 1 at the start, and one more with each reload.
    pub loads: u64,
    /// Responses by the class of their status, 2xx to 5xx, since the service started or was upgraded; of the site that had this number before, too. Empty: the
    /// site is not among the first 64.
    pub responses: Vec<u64>,
    /// How the site was read. `None`: no builder reads it, as in a server within another program.
    pub reading: Option<SiteReading>,
}

impl SiteMetrics {
    /// Returns whether the last read of the site has failed: it is served as it was before.
    pub fn is_stale(&self) -> bool {
        self.reading.as_ref().is_some_and(|reading| reading.failure.is_some())
    }
}

impl Metrics {
    /// Returns the metrics of a server that waits for its sites.
    pub(crate) fn of(counters: &ServerCounters, totals: &Counters) -> Metrics {
        let mut metrics = Metrics {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            start_unix_s: counters.start_unix_s().unwrap_or_default(),
            ..Metrics::default()
        };
        metrics.set_totals(totals);
        metrics
    }

    /// Sets the numbers of the workers.
    fn set_totals(&mut self, totals: &Counters) {
        self.accepted = totals.accepted.get();
        self.open = self.accepted.saturating_sub(totals.closed.get());
        self.received_len = totals.received_len.get();
        self.sent_len = totals.sent_len.get();
        self.aborted = totals.aborted.get();
        self.log_dropped = totals.log_dropped.get();
        self.client_malformed = totals.client_malformed.get();
        self.proxy_refused = totals.proxy_refused.get();
        self.connections_limited = totals.connections_limited.get();
        self.connections_denied = totals.connections_denied.get();
        self.reset_floods = totals.reset_floods.get();
        self.requests_denied = totals.requests_denied.get();
        self.requests_limited = totals.requests_limited.get();
        self.requests_unauthorized = totals.requests_unauthorized.get();
        self.passwords_right = totals.passwords_right.get();
        self.passwords_wrong = totals.passwords_wrong.get();
        self.passwords_busy = totals.passwords_busy.get();
        self.passwords_remembered = totals.passwords_remembered.get();
        let handshakes = [
            ("1.3", false, &totals.tls13_full),
            ("1.3", true, &totals.tls13_resumed),
            ("1.2", false, &totals.tls12_full),
            ("1.2", true, &totals.tls12_resumed),
        ];
        self.tls_handshakes.clear();
        self.tls_handshakes.extend(handshakes.map(|(version, is_resumed, counter)| TlsHandshakes {
            version: version.to_owned(),
            is_resumed,
            count: counter.get(),
        }));
        self.tls_failed = totals.tls_failed.get();
        self.tls_kernel = totals.tls_kernel.get();
        self.tls_kernel_refused = totals.tls_kernel_refused.get();
        self.tls_kernel_no_update = totals.tls_kernel_no_update.get();
        self.http2_connections = totals.http2_connections.get();
        self.http2_resets = totals.http2_resets.get();
        self.http2_floods = totals.http2_floods.get();
        self.latency_us = totals.latency_us.get();
        self.worker_cpu_us = totals.cpu_us.get();
        let responses = Status::ALL.into_iter().flat_map(|status| {
            VERSIONS.map(|version| Responses {
                status: status.code(),
                version: name(version).to_owned(),
                count: totals.responses(status, version),
            })
        });
        self.responses = responses.filter(|responses| responses.count > 0).collect();
        let mut below = 0_u64;
        self.latencies.clear();
        for (&us, counter) in LATENCY_US.iter().zip(&totals.latencies) {
            below = below.wrapping_add(counter.get());
            self.latencies.push((us, below));
        }
        self.completed = below.wrapping_add(totals.latencies[LATENCY_US.len()].get());
    }

    /// Returns the number of responses of any status.
    pub fn response_count(&self) -> u64 {
        self.responses.iter().map(|responses| responses.count).sum()
    }

    /// Returns how many connections and requests limits and address lists have refused.
    pub(crate) fn refused(&self) -> u64 {
        self.connections_limited + self.connections_denied + self.requests_limited + self.requests_denied
    }

    /// Returns the metrics in the text format of Prometheus, version 0.0.4.
    pub fn prometheus(&self) -> String {
        self.page(MetricsFormat::Prometheus)
    }

    /// Returns the metrics in the text format OpenMetrics, version 1.0.0, with exemplars.
    pub fn openmetrics(&self) -> String {
        self.page(MetricsFormat::OpenMetrics) + "# EOF\n"
    }

    fn page(&self, format: MetricsFormat) -> String {
        let mut page = MetricsPage { text: String::new(), format };
        page.family("build_info", "gauge", "Version and engine of the server");
        page.row("build_info", &[("version", &self.version), ("engine", &self.engine)], 1);
        page.number("start_time_seconds", "gauge", "Start of the service, since 1970", self.start_unix_s);
        page.number("workers", "gauge", "Number of workers", self.workers as u64);
        let ready = u64::from(self.state == ServerState::Serving);
        page.number("ready", "gauge", "1 while the server accepts clients", ready);
        page.number("connections_accepted_total", "counter", "Accepted connections", self.accepted);
        page.number("connections_open", "gauge", "Open connections", self.open);
        page.number("received_bytes_total", "counter", "Bytes received from clients", self.received_len);
        page.number("sent_bytes_total", "counter", "Bytes sent to clients", self.sent_len);
        page.family("requests_total", "counter", "Requests by response status and HTTP version");
        for Responses { status, version, count } in &self.responses {
            page.row("requests_total", &[("status", &status.to_string()), ("version", version)], *count);
        }
        let help = "Responses aborted before their end, as the client disconnected or was too slow";
        page.number("responses_aborted_total", "counter", help, self.aborted);
        let help = "Requests missing in the access log, as its reader was too slow";
        page.number("access_log_dropped_total", "counter", help, self.log_dropped);
        let help = "Lines that the access log could not write, as on a full disk";
        page.number("access_log_lost_total", "counter", help, self.log_lost);
        let help = "Logged requests whose client is unknown, as a trusted proxy has sent a malformed list of addresses";
        page.number("client_address_malformed_total", "counter", help, self.client_malformed);
        let help =
            "Connections closed as their PROXY header is missing, malformed, late, or not of a trusted proxy";
        page.number("proxy_header_refused_total", "counter", help, self.proxy_refused);
        let help = "Connections reset, as their address had too many open";
        page.number("connections_limited_total", "counter", help, self.connections_limited);
        let help = "Connections reset, as their address may not connect";
        page.number("connections_denied_total", "counter", help, self.connections_denied);
        let help =
            "Floods of connections reset before they sent anything: silent ones are held back for a while";
        page.number("reset_floods_total", "counter", help, self.reset_floods);
        let help = "Requests refused with 403, as the address of their client is denied";
        page.number("requests_denied_total", "counter", help, self.requests_denied);
        let help = "Requests refused with 429, as their client had sent too many";
        page.number("requests_limited_total", "counter", help, self.requests_limited);
        let help = "Requests refused with 401, as they had no password or a wrong one";
        page.number("requests_unauthorized_total", "counter", help, self.requests_unauthorized);
        page.family("passwords_total", "counter", "Passwords of requests by what became of them");
        for (result, count) in [
            ("right", self.passwords_right),
            ("wrong", self.passwords_wrong),
            ("busy", self.passwords_busy),
            ("remembered", self.passwords_remembered),
        ] {
            page.row("passwords_total", &[("result", result)], count);
        }
        page.family("tls_handshakes_total", "counter", "Complete TLS handshakes");
        for TlsHandshakes { version, is_resumed, count } in &self.tls_handshakes {
            let kind = if *is_resumed { "resumed" } else { "full" };
            page.row("tls_handshakes_total", &[("version", version), ("kind", kind)], *count);
        }
        let help =
            "Connections that failed in TLS: no agreement, an invalid record, or a request without TLS";
        page.number("tls_failures_total", "counter", help, self.tls_failed);
        let help = "Connections that the kernel encrypts";
        page.number("tls_kernel_connections_total", "counter", help, self.tls_kernel);
        let help = "Connections whose version or cipher of TLS the kernel lacks";
        page.number("tls_kernel_refused_total", "counter", help, self.tls_kernel_refused);
        let help = "Connections that ended as the client changed its keys, which the kernel cannot follow";
        page.number("tls_kernel_updates_failed_total", "counter", help, self.tls_kernel_no_update);
        let help = "Connections that changed to HTTP/2";
        page.number("http2_connections_total", "counter", help, self.http2_connections);
        let help = "Streams of HTTP/2 that clients have cancelled";
        page.number("http2_resets_total", "counter", help, self.http2_resets);
        let help = "Connections of HTTP/2 ended as the client caused too much work: resets, or frames that carry nothing";
        page.number("http2_floods_total", "counter", help, self.http2_floods);
        self.histogram(&mut page);
        let mut each_site = |name: &str, kind: &str, help: &str, value: fn(&SiteMetrics) -> u64| {
            page.family(name, kind, help);
            for (number, site) in self.sites.iter().enumerate() {
                let host = site.host.as_deref().unwrap_or_default();
                page.row(name, &[("site", &number.to_string()), ("host", host)], value(site));
            }
        };
        each_site("site_files", "gauge", "Number of files of the site", |site| site.files);
        each_site("site_bytes", "gauge", "Bytes of the files of the site", |site| site.bytes);
        let help = "How often the site was loaded, at the start and by reloads";
        each_site("site_loads_total", "counter", help, |site| site.loads);
        page.family(
            "site_requests_total",
            "counter",
            "Requests of the site by the class of the response status",
        );
        for (number, site) in self.sites.iter().enumerate() {
            let host = site.host.as_deref().unwrap_or_default();
            for (class, count) in (2..).zip(&site.responses) {
                let labels =
                    [("site", &*number.to_string()), ("host", host), ("status", &format!("{class}xx"))];
                page.row("site_requests_total", &labels, count);
            }
        }
        let help = "CPU time of the workers";
        page.family("worker_cpu_seconds_total", "counter", help);
        page.row("worker_cpu_seconds_total", &[], seconds(self.worker_cpu_us));
        if let Some(process) = &self.process {
            process_page(process, &mut page);
        }
        self.readings(&mut page);
        if !self.certificates.is_empty() {
            self.certificates(&mut page);
        }
        if !self.upstreams.is_empty() {
            self.upstreams(&mut page);
        }
        if let Some(cgi) = &self.cgi {
            page.number("cgi_programs_running", "gauge", "CGI programs that run", cgi.running);
            page.number("cgi_requests_queued", "gauge", "Requests that wait for a CGI program", cgi.queued);
            page.number(
                "cgi_programs_started_total",
                "counter",
                "CGI programs that were started",
                cgi.started,
            );
            let help = "CGI programs that could not start, or gave no valid or whole response";
            page.number("cgi_programs_failed_total", "counter", help, cgi.failed);
            let help = "CGI programs that were killed because they took too long";
            page.number("cgi_programs_timed_out_total", "counter", help, cgi.timed_out);
            let help = "Requests refused with 503 because too many waited for CGI programs";
            page.number("cgi_requests_refused_total", "counter", help, cgi.refused);
        }
        page.text
    }

    /// Writes which version of each site is live, and whether the last read has failed.
    fn readings(&self, page: &mut MetricsPage) {
        let sites = self.sites.iter().enumerate();
        let read: Vec<_> = sites
            .filter_map(|(number, site)| Some((number.to_string(), site, site.reading.as_ref()?)))
            .collect();
        if read.is_empty() {
            return;
        }
        page.family("site_info", "gauge", "The version of the site that is live");
        for (number, site, reading) in &read {
            let host = site.host.as_deref().unwrap_or_default();
            let release = reading.release.as_deref().unwrap_or_default();
            let labels = [
                ("site", &**number),
                ("host", host),
                ("path", &reading.path),
                ("release", release),
                ("digest", &reading.digest),
            ];
            page.row("site_info", &labels, 1);
        }
        let mut each = |name: &str, help: &str, value: fn(&SiteReading) -> u64| {
            page.family(name, "gauge", help);
            for (number, site, reading) in &read {
                let host = site.host.as_deref().unwrap_or_default();
                page.row(name, &[("site", number), ("host", host)], value(reading));
            }
        };
        let help =
            "1 if the last read of the site succeeded, 0 if it failed and the version before is served";
        each("site_last_load_success", help, |reading| u64::from(reading.failure.is_none()));
        let help = "When the site was read with success last, since 1970";
        each("site_last_load_success_timestamp_seconds", help, |reading| reading.read_unix_s);
        let help = "Since when the version that is live has been served, since 1970";
        each("site_live_since_timestamp_seconds", help, |reading| reading.live_since_unix_s);
        let help = "Files and directories of the site that cannot be read, and answer 403 or 500";
        each("site_unreadable_files", help, |reading| reading.unreadable);
    }

    fn upstreams(&self, page: &mut MetricsPage) {
        let mut each = |name: &str, kind: &str, help: &str, value: fn(&UpstreamMetrics) -> u64| {
            let name = format!("upstream_{name}");
            page.family(&name, kind, help);
            for server in &self.upstreams {
                page.row(&name, &[("upstream", &server.upstream), ("server", &server.server)], value(server));
            }
        };
        let help = "1 while the upstream server gets requests";
        each("server_up", "gauge", help, |server| u64::from(server.state == UpstreamState::Up));
        let help = "Open connections to the upstream server";
        each("connections_open", "gauge", help, |server| server.open);
        let help = "Open connections to the upstream server that wait for a request";
        each("connections_idle", "gauge", help, |server| server.idle);
        let help = "Requests in progress at the upstream server";
        each("requests_in_progress", "gauge", help, |server| server.in_progress);
        each("requests_total", "counter", "Requests to the upstream server", |server| server.requests);
        let help = "Requests whose connection closed, or whose response was invalid";
        each("requests_failed_total", "counter", help, |server| server.failed);
        let help = "Requests to which the upstream server did not respond in time";
        each("requests_timed_out_total", "counter", help, |server| server.timed_out);
        let help = "Requests that were repeated, as their connection had closed";
        each("requests_retried_total", "counter", help, |server| server.retried);
        let help = "Responses of the upstream server with a status of 500 or more";
        each("server_errors_total", "counter", help, |server| server.server_errors);
        let help = "Connections to the upstream server that were opened";
        each("connects_total", "counter", help, |server| server.connects);
        let help = "Connections to the upstream server that could not be opened";
        each("connect_failures_total", "counter", help, |server| server.connect_failures);
    }

    fn certificates(&self, page: &mut MetricsPage) {
        let mut each = |name: &str, help: &str, value: fn(&CertificateMetrics) -> Option<u64>| {
            page.family(name, "gauge", help);
            for certificate in &self.certificates {
                if let Some(value) = value(certificate) {
                    page.row(name, &[("names", &certificate.names.join(" "))], value);
                }
            }
        };
        let help = "End of the validity of the certificate, since 1970; 0 if there is none";
        each("certificate_not_after_seconds", help, |state| Some(state.not_after_unix_s.unwrap_or(0)));
        let help = "When the certificate is to be renewed, since 1970";
        each("certificate_renewal_seconds", help, |state| state.renewal_unix_s);
        let help = "Failed orders of the certificate since the last success";
        each("certificate_order_failures", help, |state| Some(state.failures));
    }

    fn histogram(&self, page: &mut MetricsPage) {
        let name = "response_duration_seconds";
        page.family(name, "histogram", "Time from the head of a request to the end of its response");
        let buckets = self.latencies.iter().map(|&(us, count)| (page.number_label(seconds(us)), count));
        let buckets: Vec<_> = buckets.chain([("+Inf".to_owned(), self.completed)]).collect();
        let mut exemplars = self.exemplars.iter();
        for (end, count) in &buckets {
            let exemplar = exemplars.next().and_then(Option::as_ref);
            page.bucket(&format!("{name}_bucket"), end, *count, exemplar);
        }
        page.row(&format!("{name}_sum"), &[], seconds(self.latency_us));
        page.row(&format!("{name}_count"), &[], self.completed);
    }
}

/// Writes what a process takes, under the names that all programs use.
fn process_page(process: &ProcessMetrics, page: &mut MetricsPage) {
    let mut row = |name: &str, kind: &str, help: &str, value: Option<f64>| {
        if let Some(value) = value {
            let family = page.family_name(name, kind);
            page.put(format_args!(
                "# HELP process_{family} {help}.\n# TYPE process_{family} {kind}\nprocess_{name} {value}\n"
            ));
        }
    };
    let number = |value: Option<u64>| value.map(|value| value as f64);
    let help = "CPU time of the server process, with that of worker processes";
    row("cpu_seconds_total", "counter", help, Some(seconds(process.cpu_us)));
    row(
        "resident_memory_bytes",
        "gauge",
        "Resident memory of the server process",
        number(process.resident_len),
    );
    row("virtual_memory_bytes", "gauge", "Address space of the server process", number(process.virtual_len));
    row("open_fds", "gauge", "Open descriptors of the server process", number(process.open_descriptors));
    row("max_fds", "gauge", "Limit on its descriptors", number(process.descriptor_max));
    let help = "Start of the server process, since 1970: a restart of it changes this";
    row("start_time_seconds", "gauge", help, Some(process.start_unix_s as f64));
}

/// A text format of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MetricsFormat {
    /// That of Prometheus, version 0.0.4.
    Prometheus,
    /// OpenMetrics, version 1.0.0: the family of a counter has no `_total`, and buckets have exemplars.
    OpenMetrics,
}

/// A page in a text format.
struct MetricsPage {
    text: String,
    format: MetricsFormat,
}

impl MetricsPage {
    fn number(&mut self, name: &str, kind: &str, help: &str, value: u64) {
        self.family(name, kind, help);
        self.row(name, &[], value);
    }

    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let name = self.family_name(name, kind);
        self.put(format_args!("# HELP tarpon_{name} {help}.\n# TYPE tarpon_{name} {kind}\n"));
    }

    /// Returns the name of a family: that of its samples, or without their ending.
    fn family_name<'n>(&self, name: &'n str, kind: &str) -> &'n str {
        match (self.format, kind) {
            (MetricsFormat::OpenMetrics, "counter") => name.strip_suffix("_total").unwrap_or(name),
            _ => name,
        }
    }

    /// Returns the end of a bucket. OpenMetrics writes 1.0, and not 1.
    fn number_label(&self, value: f64) -> String {
        match self.format {
            MetricsFormat::Prometheus => value.to_string(),
            MetricsFormat::OpenMetrics => format!("{value:?}"),
        }
    }

    /// Writes a bucket of a histogram.
    fn bucket(&mut self, name: &str, end: &str, count: u64, exemplar: Option<&Exemplar>) {
        match exemplar.filter(|_| self.format == MetricsFormat::OpenMetrics) {
            None => self.row(name, &[("le", end)], count),
            Some(Exemplar { trace_id, took_ms, unix_ms }) => {
                let (took, at) = (*took_ms as f64 / 1e3, *unix_ms as f64 / 1e3);
                let labels = [("le", end)];
                self.row(name, &labels, format_args!("{count} # {{trace_id=\"{trace_id}\"}} {took} {at:.3}"));
            }
        }
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
        self.text.write_fmt(words).expect("writing to a String cannot fail");
    }
}

/// Escapes the value of a label.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

fn name(version: Option<Version>) -> &'static str {
    match version {
        None => "none",
        Some(Version::Http10) => "1.0",
        Some(Version::Http11) => "1.1",
        Some(Version::Http2) => "2",
    }
}
