//! The statistics of a server: the counters of its workers, its sites, and its state.
//!
//! The counters are in memory that forked processes share; the rest is in the process that answers the admin listener.

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

/// The statistics of a server.
#[derive(Debug)]
pub(crate) struct ServerStats {
    engine: Engine,
    /// When the service started.
    start_unix_s: AtomicU64,
    /// One row for each worker.
    counters: Arc<SharedArray<Counters>>,
    worker_count: usize,
    sites: Vec<SiteStats>,
    is_draining: AtomicBool,
}

/// The statistics of a site.
#[derive(Debug)]
struct SiteStats {
    /// The canonical host.
    host: Option<String>,
    files: AtomicU64,
    bytes: AtomicU64,
    /// How often the site was loaded.
    loads: AtomicU64,
}

impl ServerStats {
    /// Creates the statistics of a server that starts now.
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
            SiteStats { host, files: AtomicU64::new(0), bytes: AtomicU64::new(0), loads: AtomicU64::new(0) }
        };
        ServerStats {
            engine,
            start_unix_s: AtomicU64::new(clock_gettime(ClockId::Realtime).tv_sec.max(0) as u64),
            counters,
            worker_count,
            sites: (0..site_count).map(entry).collect(),
            is_draining: AtomicBool::new(false),
        }
    }

    /// Records that the site of this number was loaded, with its number of files and bytes.
    pub(crate) fn site_loaded(&self, number: usize, files: u64, bytes: u64) {
        let SiteStats { files: of_files, bytes: of_bytes, loads, .. } = &self.sites[number];
        of_files.store(files, Ordering::Relaxed);
        of_bytes.store(bytes, Ordering::Relaxed);
        loads.fetch_add(1, Ordering::Relaxed);
    }

    /// Sets when the service started, in seconds since 1970: before this server, if this one replaces another.
    pub(crate) fn set_start(&self, unix_s: u64) {
        self.start_unix_s.store(unix_s, Ordering::Relaxed);
    }

    /// Sets how often a site was loaded since the service started.
    pub(crate) fn set_loads(&self, number: usize, loads: u64) {
        self.sites[number].loads.store(loads, Ordering::Relaxed);
    }

    /// Records that the server accepts no more clients.
    pub(crate) fn set_draining(&self) {
        self.is_draining.store(true, Ordering::Relaxed);
    }

    /// Returns the metrics of this moment.
    pub(crate) fn metrics(&self) -> Metrics {
        let site = |entry: &SiteStats| SiteMetrics {
            host: entry.host.clone(),
            files: entry.files.load(Ordering::Relaxed),
            bytes: entry.bytes.load(Ordering::Relaxed),
            loads: entry.loads.load(Ordering::Relaxed),
        };
        let is_draining = self.is_draining.load(Ordering::Relaxed);
        let mut metrics = Metrics {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            engine: self.engine.name().to_owned(),
            workers: self.worker_count,
            start_unix_s: self.start_unix_s.load(Ordering::Relaxed),
            state: if is_draining { ServerState::Draining } else { ServerState::Serving },
            sites: self.sites.iter().map(site).collect(),
            ..Metrics::default()
        };
        metrics.count(self.counters.iter());
        metrics
    }
}
