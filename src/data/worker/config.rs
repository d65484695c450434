//! Configuration of one worker.

use super::{idle_workers::IdleWorkers, loader::Loader, mailbox::Mailbox};
use crate::{data::log_ring::RingProducer, site::versions::SiteVersions, sys::shared::SharedRow};
use std::{os::fd::OwnedFd, sync::Arc};
use tarpon_conn::{Counters, Hosts, Limits, Recording};

/// Configuration of one worker.
pub(crate) struct WorkerConfig {
    /// Index of this worker in the server.
    pub(crate) number: usize,
    /// Number of workers in the server.
    pub(crate) worker_count: usize,
    /// Which workers are idle, for engines that serve one connection per worker.
    pub(crate) idle_workers: SharedRow<IdleWorkers>,
    /// Listening sockets, non-blocking.
    pub(crate) listeners: Vec<OwnedFd>,
    pub(crate) mailbox: Arc<Mailbox>,
    /// By site number.
    pub(crate) sites: Arc<[(SiteVersions, Limits)]>,
    pub(crate) hosts: Arc<Hosts>,
    /// `None`: the worker reads from disk itself, and blocks.
    pub(crate) loader: Option<Loader>,
    /// Limit of open connections.
    pub(crate) connection_count_max: usize,
    pub(crate) counters: SharedRow<Counters>,
    /// Path of the health check.
    pub(crate) health_path: Option<Arc<[u8]>>,
    /// What to record of exchanges, and the ring for the records.
    pub(crate) log: Option<(Recording, RingProducer)>,
}
