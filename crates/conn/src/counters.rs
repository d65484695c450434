//! The counters of a worker.
//!
//! Each counter has one writer, the worker: counting is a load and a store, without a lock. Any number of readers may read the counters.
//! A reader does not see all of them at the same instant. The counters of two workers share no cache line.

use std::{
    fmt, iter,
    sync::atomic::{AtomicU64, Ordering},
};
use tarpon_http::{head::Version, status::Status};

/// The counters of one worker. They only grow. All fields are atomics, so zero bytes are valid.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Counters {
    /// Accepted connections.
    pub accepted: Counter,
    /// Closed connections.
    pub closed: Counter,
    /// Bytes received.
    pub received_len: Counter,
    /// Bytes sent.
    pub sent_len: Counter,
    /// Responses that were not sent completely, because the client had closed the connection or was too slow.
    pub aborted: Counter,
    /// Exchanges that are missing in the log, because their records did not fit.
    pub log_dropped: Counter,
    /// Recorded exchanges in which a trusted proxy has sent a malformed list of addresses.
    pub client_malformed: Counter,
    /// Connections that were closed because of their PROXY header: it is missing, malformed or late, or the peer is not trusted.
    pub proxy_refused: Counter,
    /// Connections that were reset because their address had too many.
    pub connections_limited: Counter,
    /// Connections that were reset because their address is denied.
    pub connections_denied: Counter,
    /// Floods of connections that clients reset before they sent anything.
    pub reset_floods: Counter,
    /// Requests that were refused because their client's address is denied.
    pub requests_denied: Counter,
    /// Requests that were refused because their client had sent too many.
    pub requests_limited: Counter,
    /// Requests that were refused because they had no credentials, or wrong ones.
    pub requests_unauthorized: Counter,
    /// Passwords that were verified, and right.
    pub passwords_right: Counter,
    /// Passwords that were verified, and wrong.
    pub passwords_wrong: Counter,
    /// Passwords that were not verified, because too many others waited.
    pub passwords_busy: Counter,
    /// Requests with credentials that had been verified before.
    pub passwords_remembered: Counter,
    /// Full handshakes of TLS 1.3.
    pub tls13_full: Counter,
    /// Handshakes of TLS 1.3 that resumed a session.
    pub tls13_resumed: Counter,
    /// Full handshakes of TLS 1.2.
    pub tls12_full: Counter,
    /// Handshakes of TLS 1.2 that resumed a session.
    pub tls12_resumed: Counter,
    /// Connections that failed in TLS: a handshake without agreement, an invalid record, or a request without TLS.
    pub tls_failed: Counter,
    /// Connections whose keys went to the kernel.
    pub tls_kernel: Counter,
    /// Connections whose keys could have gone to the kernel, which lacks what they need.
    pub tls_kernel_refused: Counter,
    /// Connections that ended because the kernel cannot change keys.
    pub tls_kernel_no_update: Counter,
    /// Connections that changed to HTTP/2.
    pub http2_connections: Counter,
    /// Streams of HTTP/2 that clients have cancelled.
    pub http2_resets: Counter,
    /// Connections of HTTP/2 that ended because the client caused too much work: resets, or frames that carry nothing.
    pub http2_floods: Counter,
    /// Responses by duration: each in the first class of [`LATENCY_US`] whose end is not below its duration, or in the last class.
    pub latencies: [Counter; LATENCY_US.len() + 1],
    /// The sum of these durations, in microseconds.
    pub latency_us: Counter,
    /// CPU time of the worker, in microseconds. An idle worker lacks what it has used since it last counted.
    pub cpu_us: Counter,
    /// Responses by status and version.
    responses: ResponseCounters,
    /// Responses by site and class of status.
    sites: SiteCounters,
}

/// Responses by status and version.
#[derive(Debug)]
#[repr(transparent)]
struct ResponseCounters([[Counter; VERSIONS.len()]; Status::ALL.len()]);

impl Default for ResponseCounters {
    // The standard library has it for arrays up to 32 items.
    fn default() -> ResponseCounters {
        ResponseCounters(std::array::from_fn(|_| Default::default()))
    }
}

/// Responses of the first sites, by the classes 2xx to 5xx.
#[derive(Debug)]
#[repr(transparent)]
struct SiteCounters([[Counter; STATUS_CLASSES]; COUNTED_SITES]);

impl Default for SiteCounters {
    fn default() -> SiteCounters {
        SiteCounters(std::array::from_fn(|_| Default::default()))
    }
}

/// A counter with one writer.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

/// The name of a counter, the same in all versions of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterName {
    /// A counter that a worker has once.
    Plain(&'static str),
    /// Responses that took at most this many microseconds, and more than the previous class. `None`: the last class.
    Latency(Option<u64>),
    /// Responses with this status to requests of this version. `None`: the head was invalid or incomplete.
    Responses(Status, Option<Version>),
    /// Responses of the site with this number, with a status of this class: 2 for 2xx.
    Site(usize, usize),
}

/// The upper ends of the classes of durations, in microseconds: the default buckets of Prometheus, and five below them.
pub const LATENCY_US: [u64; 16] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
    2_500_000, 5_000_000, 10_000_000,
];

/// The number of sites whose responses are counted by site: the first ones. Each takes half a cache line in the row of each worker.
pub const COUNTED_SITES: usize = 64;

/// The classes of final statuses, 2xx to 5xx.
pub const STATUS_CLASSES: usize = 4;

/// The place of each status in the counters of a site, by [`Status::index`].
const CLASS_OF: [u8; Status::ALL.len()] = {
    let (mut classes, mut number) = ([0; Status::ALL.len()], 0);
    while number < classes.len() {
        classes[number] = (Status::ALL[number].code() / 100 - 2) as u8;
        number += 1;
    }
    classes
};

/// The versions that are counted separately. `None`: the head was invalid or incomplete.
pub const VERSIONS: [Option<Version>; 4] =
    [None, Some(Version::Http10), Some(Version::Http11), Some(Version::Http2)];

impl Counter {
    /// Adds to the counter. Only its single writer may call this.
    #[inline]
    pub fn add(&self, count: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
    }

    /// Returns the current value.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Counters {
    /// Returns all counters with their names. `closed` comes before `accepted`: otherwise a reader could count a connection that opens and
    /// closes between the two reads as closed only.
    pub fn each(&self) -> impl Iterator<Item = (CounterName, &Counter)> {
        let plain = [
            ("closed", &self.closed),
            ("accepted", &self.accepted),
            ("received_len", &self.received_len),
            ("sent_len", &self.sent_len),
            ("aborted", &self.aborted),
            ("log_dropped", &self.log_dropped),
            ("client_malformed", &self.client_malformed),
            ("proxy_refused", &self.proxy_refused),
            ("connections_limited", &self.connections_limited),
            ("connections_denied", &self.connections_denied),
            ("reset_floods", &self.reset_floods),
            ("requests_denied", &self.requests_denied),
            ("requests_limited", &self.requests_limited),
            ("requests_unauthorized", &self.requests_unauthorized),
            ("passwords_right", &self.passwords_right),
            ("passwords_wrong", &self.passwords_wrong),
            ("passwords_busy", &self.passwords_busy),
            ("passwords_remembered", &self.passwords_remembered),
            ("tls13_full", &self.tls13_full),
            ("tls13_resumed", &self.tls13_resumed),
            ("tls12_full", &self.tls12_full),
            ("tls12_resumed", &self.tls12_resumed),
            ("tls_failed", &self.tls_failed),
            ("tls_kernel", &self.tls_kernel),
            ("tls_kernel_refused", &self.tls_kernel_refused),
            ("tls_kernel_no_update", &self.tls_kernel_no_update),
            ("http2_connections", &self.http2_connections),
            ("http2_resets", &self.http2_resets),
            ("http2_floods", &self.http2_floods),
            ("latency_us", &self.latency_us),
            ("cpu_us", &self.cpu_us),
        ];
        let plain = plain.into_iter().map(|(name, counter)| (CounterName::Plain(name), counter));
        let ends = LATENCY_US.into_iter().map(Some).chain([None]);
        let latencies = ends.zip(&self.latencies).map(|(end, counter)| (CounterName::Latency(end), counter));
        let responses = Status::ALL.into_iter().zip(&self.responses.0).flat_map(|(status, row)| {
            let name = move |version| CounterName::Responses(status, version);
            iter::zip(VERSIONS, row).map(move |(version, counter)| (name(version), counter))
        });
        let sites = self.sites.0.iter().enumerate().flat_map(|(site, row)| {
            row.iter().zip(2..).map(move |(counter, class)| (CounterName::Site(site, class), counter))
        });
        plain.chain(latencies).chain(responses).chain(sites)
    }

    /// Adds the counters of another worker. Only the single writer of `self` may call this.
    pub fn add_all(&self, other: &Counters) {
        // In the order of `each`.
        self.each().zip(other.each()).for_each(|((_, sum), (_, counter))| sum.add(counter.get()));
    }

    /// Returns the number of responses with this status to requests of this version.
    pub fn responses(&self, status: Status, version: Option<Version>) -> u64 {
        self.responses.0[status.index()][index(version)].get()
    }

    /// Returns the number of responses of a site by the class of their status, 2xx to 5xx. `None`: they are not counted by site.
    pub fn site_responses(&self, site: usize) -> Option<[u64; STATUS_CLASSES]> {
        self.sites.0.get(site).map(|row| std::array::from_fn(|class| row[class].get()))
    }

    /// Counts a client that was refused before it sent anything: it got one response, with this status and length. `None`: its handshake
    /// failed, with an alert of this length.
    pub fn refused(&self, status: Option<Status>, len: u64) {
        self.accepted.add(1);
        match status {
            Some(status) => self.responded(status, None, None),
            None => self.tls_failed.add(1),
        }
        self.sent_len.add(len);
        self.closed.add(1);
    }

    /// Counts the open connections as closed, because the worker ended without closing them. Only the next writer may call this.
    pub fn lose_open(&self) {
        self.closed.add(self.accepted.get().saturating_sub(self.closed.get()));
    }

    /// Counts a queued response. `site`: the number of the site that it is counted for.
    #[inline]
    pub(crate) fn responded(&self, status: Status, version: Option<Version>, site: Option<usize>) {
        self.responses.0[status.index()][index(version)].add(1);
        if let Some(row) = site.and_then(|site| self.sites.0.get(site)) {
            row[CLASS_OF[status.index()] as usize % STATUS_CLASSES].add(1);
        }
    }

    /// Counts responses that were sent completely, each after `us` microseconds.
    #[inline]
    pub(crate) fn completed(&self, count: u64, us: u64) {
        let class = LATENCY_US.iter().position(|&end| us <= end).unwrap_or(LATENCY_US.len());
        self.latencies[class].add(count);
        self.latency_us.add(count * us);
    }
}

impl fmt::Display for CounterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            CounterName::Plain(name) => f.write_str(name),
            CounterName::Latency(Some(us)) => write!(f, "latency_{us}_us"),
            CounterName::Latency(None) => f.write_str("latency_max"),
            CounterName::Responses(status, version) => {
                let version = version.map_or("none", |version| match version {
                    Version::Http10 => "1.0",
                    Version::Http11 => "1.1",
                    Version::Http2 => "2",
                });
                write!(f, "responses_{}_{version}", status.code())
            }
            CounterName::Site(site, class) => write!(f, "site_{site}_{class}xx"),
        }
    }
}

/// Returns the place of a version in [`VERSIONS`].
#[inline]
fn index(version: Option<Version>) -> usize {
    version.map_or(0, |version| 1 + version as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_the_indices_of_their_table() {
        for (place, version) in VERSIONS.into_iter().enumerate() {
            assert_eq!(index(version), place);
        }
    }

    #[test]
    fn all_counters_have_distinct_names_and_are_added() {
        let (counters, sum) = (Counters::default(), Counters::default());
        let names: std::collections::BTreeSet<_> =
            counters.each().map(|(name, _)| name.to_string()).collect();
        assert_eq!(names.len(), counters.each().count());
        // The alignment pads to whole cache lines.
        let len = names.len() * size_of::<Counter>();
        assert_eq!(
            size_of::<Counters>(),
            len.next_multiple_of(align_of::<Counters>()),
            "no counter is missing"
        );
        for ((_, counter), number) in counters.each().zip(1..) {
            counter.add(number);
        }
        sum.closed.add(u64::MAX);
        (0..2).for_each(|_| sum.add_all(&counters));
        for ((name, counter), number) in sum.each().zip(1_u64..) {
            let expected = if name == CounterName::Plain("closed") { 1 } else { 2 * number };
            assert_eq!(counter.get(), expected, "{name}: a sum wraps");
        }
    }

    #[test]
    fn a_duration_belongs_to_the_first_class_that_is_not_below_it() {
        for (us, class) in
            [(0, 0), (100, 0), (101, 1), (10_000_000, 15), (10_000_001, 16), (u64::MAX / 4, 16)]
        {
            let counters = Counters::default();
            counters.completed(2, us);
            let counts: Vec<_> = counters.latencies.iter().map(Counter::get).collect();
            assert_eq!(counts[class], 2, "{us} µs: {counts:?}");
            assert_eq!(counts.iter().sum::<u64>(), 2);
            assert_eq!(counters.latency_us.get(), 2 * us);
        }
    }
}
