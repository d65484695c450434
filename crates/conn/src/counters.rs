//! What one worker has done, counted for whoever asks.
//!
//! Each number has one writer, the worker, so that counting is a load and a store without a lock; and any number of
//! readers, who may see one number a moment earlier than another. The numbers of a worker share no line of a cache with
//! those of another one.

use std::{
    fmt, iter,
    sync::atomic::{AtomicU64, Ordering},
};
use tarpon_http::{head::Version, status::Status};

/// The numbers of one worker. They only grow. They are atomics alone, so zero bytes are valid.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Counters {
    /// Connections that were accepted.
    pub accepted: Counter,
    /// Connections that are over.
    pub closed: Counter,
    /// Bytes received.
    pub received_len: Counter,
    /// Bytes sent.
    pub sent_len: Counter,
    /// Responses whose end has not left: the client was gone, or too slow.
    pub aborted: Counter,
    /// Exchanges that a log has not learnt of, for want of room.
    pub log_dropped: Counter,
    /// Responses by how long they took, each in the first class of [`LATENCY_MS`] that is not shorter, or in the last.
    pub latencies: [Counter; LATENCY_MS.len() + 1],
    /// The sum of these times, in milliseconds.
    pub latency_ms: Counter,
    /// Responses by status and version.
    responses: [[Counter; VERSIONS.len()]; Status::ALL.len()],
}

/// A number with one writer.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

/// The name of a counter, the same in all versions of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterName {
    /// A counter that a worker has once.
    Plain(&'static str),
    /// Responses that took at most this many milliseconds, and longer than the class before; `None`: the last class.
    Latency(Option<u64>),
    /// Responses with this status to requests of this version.
    Responses(Status, Option<Version>),
}

/// Upper ends of the classes of times, in milliseconds: those that Prometheus takes where nobody says which.
pub const LATENCY_MS: [u64; 11] = [5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000];

/// Versions that are told apart; `None` is of a request whose head could not be read.
pub const VERSIONS: [Option<Version>; 3] = [None, Some(Version::Http10), Some(Version::Http11)];

impl Counter {
    /// Adds to it. For its only writer.
    #[inline]
    pub fn add(&self, count: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
    }

    /// As of now.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Counters {
    /// All counters with their names. `closed` comes before `accepted`: otherwise a reader could see a connection that opens and closes in
    /// between as closed only.
    pub fn each(&self) -> impl Iterator<Item = (CounterName, &Counter)> {
        let plain = [
            ("closed", &self.closed),
            ("accepted", &self.accepted),
            ("received_len", &self.received_len),
            ("sent_len", &self.sent_len),
            ("aborted", &self.aborted),
            ("log_dropped", &self.log_dropped),
            ("latency_ms", &self.latency_ms),
        ];
        let plain = plain.into_iter().map(|(name, counter)| (CounterName::Plain(name), counter));
        let ends = LATENCY_MS.into_iter().map(Some).chain([None]);
        let latencies = ends.zip(&self.latencies).map(|(end, counter)| (CounterName::Latency(end), counter));
        let responses = Status::ALL.into_iter().zip(&self.responses).flat_map(|(status, row)| {
            let name = move |version| CounterName::Responses(status, version);
            iter::zip(VERSIONS, row).map(move |(version, counter)| (name(version), counter))
        });
        plain.chain(latencies).chain(responses)
    }

    /// Adds the numbers of another worker. For the only writer of these.
    pub fn add_all(&self, other: &Counters) {
        // In order: see `each`.
        self.each().zip(other.each()).for_each(|((_, sum), (_, counter))| sum.add(counter.get()));
    }

    /// Responses with this status to requests of this version.
    pub fn responses(&self, status: Status, version: Option<Version>) -> u64 {
        self.responses[status.index()][index(version)].get()
    }

    /// A client was refused before it had said anything: it was sent one response of this length, with this status.
    pub fn refused(&self, status: Status, len: u64) {
        self.accepted.add(1);
        self.responded(status, None);
        self.sent_len.add(len);
        self.closed.add(1);
    }

    /// Its worker has ended without a word: what was open is so no more. For whoever takes the worker's place as the writer.
    pub fn lose_open(&self) {
        self.closed.add(self.accepted.get().saturating_sub(self.closed.get()));
    }

    #[inline]
    pub(crate) fn responded(&self, status: Status, version: Option<Version>) {
        self.responses[status.index()][index(version)].add(1);
    }

    /// So many responses have left, after so long.
    #[inline]
    pub(crate) fn completed(&self, count: u64, ms: u64) {
        let class = LATENCY_MS.iter().position(|&end| ms <= end).unwrap_or(LATENCY_MS.len());
        self.latencies[class].add(count);
        self.latency_ms.add(count * ms);
    }
}

impl fmt::Display for CounterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            CounterName::Plain(name) => f.write_str(name),
            CounterName::Latency(Some(ms)) => write!(f, "latency_{ms}_ms"),
            CounterName::Latency(None) => f.write_str("latency_max"),
            CounterName::Responses(status, version) => {
                let version = version.map_or("none", |version| match version {
                    Version::Http10 => "1.0",
                    Version::Http11 => "1.1",
                });
                write!(f, "responses_{}_{version}", status.code())
            }
        }
    }
}

#[inline]
fn index(version: Option<Version>) -> usize {
    version.map_or(0, |version| 1 + version as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_counted_as_itself() {
        for (place, version) in VERSIONS.into_iter().enumerate() {
            assert_eq!(index(version), place);
        }
    }

    #[test]
    fn all_counters_have_a_name_of_their_own_and_are_added() {
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
    fn a_time_belongs_to_the_first_class_that_is_not_shorter() {
        for (ms, class) in [(0, 0), (5, 0), (6, 1), (10_000, 10), (10_001, 11), (u64::MAX / 4, 11)] {
            let counters = Counters::default();
            counters.completed(2, ms);
            let counts: Vec<_> = counters.latencies.iter().map(Counter::get).collect();
            assert_eq!(counts[class], 2, "{ms} ms: {counts:?}");
            assert_eq!(counts.iter().sum::<u64>(), 2);
            assert_eq!(counters.latency_ms.get(), 2 * ms);
        }
    }
}
