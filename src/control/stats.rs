//! The statistics of a server: the counters of its service, its sites, and its state.
//!
//! The counters are in memory that outlives the server; the rest is in the process that answers the admin listener.

use crate::{
    base::engine::Engine,
    control::{
        counters::ServerCounters,
        exemplars::Exemplars,
        helper_stats::HelperStats,
        hot_paths::HotPathTables,
        metrics::{Metrics, ServerState, SiteMetrics},
        process_usage::ProcessUsage,
    },
};
use rustix::time::{ClockId, clock_gettime};
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

/// The statistics of a server.
#[derive(Debug)]
pub(crate) struct ServerStats {
    engine: Engine,
    /// When the service started, in seconds since 1970.
    start_unix_s: u64,
    counters: ServerCounters,
    worker_count: usize,
    sites: Vec<SiteStats>,
    /// `None`: there are no helpers, as in a server within another program.
    helpers: Option<HelperStats>,
    usage: Option<Arc<ProcessUsage>>,
    hot_paths: Option<HotPathTables>,
    /// Lines that the access log could not write.
    log_lost: Arc<AtomicU64>,
    exemplars: Arc<Exemplars>,
    is_draining: AtomicBool,
}

/// The statistics of a site.
#[derive(Debug)]
struct SiteStats {
    /// The canonical host and the mount.
    host: Option<String>,
    files: AtomicU64,
    bytes: AtomicU64,
    /// How often the site was loaded since the service started.
    loads: AtomicU64,
}

impl ServerStats {
    /// Creates the statistics of a server that starts now, before or after others of its service.
    pub(crate) fn new(
        engine: Engine,
        worker_count: usize,
        counters: ServerCounters,
        labels: &[Option<String>],
        helpers: Option<HelperStats>,
    ) -> ServerStats {
        let entry = |label: &Option<String>| {
            let host = label.clone();
            SiteStats { host, files: AtomicU64::new(0), bytes: AtomicU64::new(0), loads: AtomicU64::new(0) }
        };
        ServerStats {
            engine,
            start_unix_s: counters
                .start_unix_s()
                .unwrap_or_else(|| clock_gettime(ClockId::Realtime).tv_sec.max(0) as u64),
            counters,
            worker_count,
            sites: labels.iter().map(entry).collect(),
            helpers,
            usage: None,
            hot_paths: None,
            log_lost: Arc::default(),
            exemplars: Arc::default(),
            is_draining: AtomicBool::new(false),
        }
    }

    /// Adds what tells the usage of the server process.
    pub(crate) fn with_usage(self, usage: Option<Arc<ProcessUsage>>) -> ServerStats {
        ServerStats { usage, ..self }
    }

    /// Adds the paths that are asked for most.
    pub(crate) fn with_hot_paths(self, hot_paths: Option<HotPathTables>) -> ServerStats {
        ServerStats { hot_paths, ..self }
    }

    /// Returns the counter of the lines that the access log of this process could not write.
    pub(crate) fn log_lost(&self) -> &Arc<AtomicU64> {
        &self.log_lost
    }

    /// Returns the exemplars that the access log of this process keeps.
    pub(crate) fn exemplars(&self) -> &Arc<Exemplars> {
        &self.exemplars
    }

    /// Records that the site of this number was loaded, with its number of files and bytes.
    pub(crate) fn site_loaded(&self, number: usize, files: u64, bytes: u64) {
        let SiteStats { files: of_files, bytes: of_bytes, loads, .. } = &self.sites[number];
        of_files.store(files, Ordering::Relaxed);
        of_bytes.store(bytes, Ordering::Relaxed);
        loads.fetch_add(1, Ordering::Relaxed);
    }

    /// Sets how often a site was loaded since the service started.
    pub(crate) fn set_loads(&self, number: usize, loads: u64) {
        self.sites[number].loads.store(loads, Ordering::Relaxed);
    }

    /// Records that the server accepts no more clients. If a successor serves, call it when the admin listener has ended.
    pub(crate) fn set_draining(&self) {
        self.is_draining.store(true, Ordering::Relaxed);
        self.counters.set_silent();
    }

    /// Returns the metrics of this moment.
    pub(crate) fn metrics(&self) -> Metrics {
        let totals = self.counters.totals();
        let site = |(number, entry): (usize, &SiteStats)| SiteMetrics {
            host: entry.host.clone(),
            files: entry.files.load(Ordering::Relaxed),
            bytes: entry.bytes.load(Ordering::Relaxed),
            loads: entry.loads.load(Ordering::Relaxed),
            responses: totals.site_responses(number).map(Vec::from).unwrap_or_default(),
            reading: None,
        };
        let is_draining = self.is_draining.load(Ordering::Relaxed);
        // Workers that are threads count in the process.
        let worker_cpu_us = if Engine::EMBEDDED.contains(&self.engine) { 0 } else { totals.cpu_us.get() };
        let mut metrics = Metrics {
            process: self.usage.as_ref().map(|usage| usage.metrics(worker_cpu_us)),
            start_unix_s: self.start_unix_s,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            engine: self.engine.name().to_owned(),
            workers: self.worker_count,
            state: if is_draining { ServerState::Draining } else { ServerState::Serving },
            log_lost: self.log_lost.load(Ordering::Relaxed),
            hot_paths: self.hot_paths.as_ref().map(HotPathTables::metrics),
            exemplars: self.exemplars.all(),
            sites: self.sites.iter().enumerate().map(site).collect(),
            ..Metrics::of(&self.counters, &totals)
        };
        if let Some(helpers) = &self.helpers {
            helpers.add_to(&mut metrics);
        }
        metrics
    }
}
