//! What is known of a server as a whole: what its workers have counted, what is served now, and what it is at.
//!
//! The counters lie in memory that forked processes share; the rest is of the process that answers for the server.

use crate::{
    base::engine::Engine,
    control::metrics::{Metrics, ServerState, SiteMetrics},
    sys::shared::SharedArray,
};
use rustix::time::{ClockId, clock_gettime};
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};
use tarpon_conn::{Counters, Hosts, SiteId};

/// What is known of a server.
#[derive(Debug)]
pub(crate) struct ServerStats {
    engine: Engine,
    start_unix_s: u64,
    /// Of each worker.
    counters: Arc<SharedArray<Counters>>,
    worker_count: usize,
    sites: Vec<SiteStats>,
    is_stopping: AtomicBool,
}

/// A site.
#[derive(Debug)]
struct SiteStats {
    /// Its canonical host.
    host: Option<String>,
    files: AtomicU64,
    bytes: AtomicU64,
    /// How often it was read.
    reads: AtomicU64,
}

impl ServerStats {
    /// Of a server that begins now, with so many sites under these names.
    pub(crate) fn new(
        engine: Engine,
        worker_count: usize,
        counters: Arc<SharedArray<Counters>>,
        hosts: &Hosts,
        site_count: usize,
    ) -> ServerStats {
        let entry = |number| {
            let host = hosts.canonical(SiteId::new(number));
            let host = host.map(|name| String::from_utf8_lossy(name).into_owned());
            SiteStats { host, files: AtomicU64::new(0), bytes: AtomicU64::new(0), reads: AtomicU64::new(0) }
        };
        ServerStats {
            engine,
            start_unix_s: clock_gettime(ClockId::Realtime).tv_sec.max(0) as u64,
            counters,
            worker_count,
            sites: (0..site_count).map(entry).collect(),
            is_stopping: AtomicBool::new(false),
        }
    }

    /// The site of this number was read: it has so many files, of so many bytes together.
    pub(crate) fn site_loaded(&self, number: usize, files: u64, bytes: u64) {
        let SiteStats { files: of_files, bytes: of_bytes, reads, .. } = &self.sites[number];
        of_files.store(files, Ordering::Relaxed);
        of_bytes.store(bytes, Ordering::Relaxed);
        reads.fetch_add(1, Ordering::Relaxed);
    }

    /// It accepts nobody more.
    pub(crate) fn set_draining(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
    }

    /// All of it, as of now.
    pub(crate) fn metrics(&self) -> Metrics {
        let site = |entry: &SiteStats| SiteMetrics {
            host: entry.host.clone(),
            files: entry.files.load(Ordering::Relaxed),
            bytes: entry.bytes.load(Ordering::Relaxed),
            loads: entry.reads.load(Ordering::Relaxed),
        };
        let is_stopping = self.is_stopping.load(Ordering::Relaxed);
        let mut metrics = Metrics {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            engine: self.engine.name().to_owned(),
            workers: self.worker_count,
            start_unix_s: self.start_unix_s,
            state: if is_stopping { ServerState::Draining } else { ServerState::Serving },
            sites: self.sites.iter().map(site).collect(),
            ..Metrics::default()
        };
        metrics.count(self.counters.iter());
        metrics
    }
}
