//! Configuration of one worker.

use super::{
    backends::Backends, clock::StartTime, handshakes::Handshakes, idle_workers::IdleWorkers,
    kernel_tls::KernelSuites, loader::Loader, mailbox::Mailbox,
};
use crate::{
    base::settings::Http2Use,
    data::{
        acme_table::AcmeTable, connection_limit::ConnectionLimit, log_ring::RingProducer,
        password_threads::PasswordThreads, password_turns::PasswordTurns,
    },
    site::versions::SiteVersions,
    sys::shared::SharedRow,
};
use std::{os::fd::OwnedFd, sync::Arc};
use tarpon_conn::{
    AddressList, ClientLimits, Counters, HttpVersions, Limits, PathSampling, PathTable, ProxyTrust,
    Recording, RouteTable, RouteTableId, TlsServerConfig,
};
#[cfg(test)]
use {
    crate::sys::shared::SharedArray,
    tarpon_conn::{Hosts, SiteId},
    tarpon_http::head::HEAD_LEN_USUAL,
};

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
    /// For each listener. The sockets may be those of another process.
    pub(crate) socket_settings: Arc<[SocketSettings]>,
    pub(crate) mailbox: Arc<Mailbox>,
    /// By site number.
    pub(crate) sites: Arc<[(SiteVersions, Limits)]>,
    pub(crate) routes: Arc<[RouteTable]>,
    /// `None`: the worker reads from disk itself, and blocks.
    pub(crate) loader: Option<Loader>,
    /// `None`: the worker runs the handshakes of TLS itself.
    pub(crate) handshakes: Option<Handshakes>,
    /// What verifies passwords. `None`: no path has one.
    pub(crate) password_jobs: Option<PasswordJobs>,
    /// Limit of open connections.
    pub(crate) connection_count_max: usize,
    pub(crate) counters: SharedRow<Counters>,
    /// The most frequent paths, and the sampling of requests.
    pub(crate) hot_paths: Option<(SharedRow<PathTable>, PathSampling)>,
    /// Path of the health check.
    pub(crate) health_path: Option<Arc<[u8]>>,
    /// Whether responses have the field Server.
    pub(crate) server_header: bool,
    /// Limit of the length of a request's head, in bytes.
    pub(crate) head_len_max: usize,
    pub(crate) proxy_trust: Arc<ProxyTrust>,
    /// The limits of clients. `None`: no path has one.
    pub(crate) client_limits: Option<Arc<ClientLimits>>,
    /// The limit of the connections of each address.
    pub(crate) connection_limit: Option<ConnectionLimit>,
    /// Certificates and the answers to directories. `None`: no site has names for which certificates are obtained.
    pub(crate) acme: Option<Arc<AcmeTable>>,
    pub(crate) backends: Backends,
    /// The row of the worker in the table of upstreams. `None`: it gets one [later](WorkerRows).
    pub(crate) upstream_row: Option<usize>,
    /// What the kernel may seal and open of TLS.
    pub(crate) kernel_suites: KernelSuites,
    /// What to record of exchanges, and the ring for the records.
    pub(crate) log: Option<(Recording, RingProducer)>,
}

impl WorkerConfig {
    /// Returns whether the worker may connect to backends.
    pub(crate) fn has_backends(&self) -> bool {
        !self.backends.is_empty()
    }
}

/// What verifies passwords.
#[derive(Clone)]
pub(crate) enum PasswordJobs {
    /// Other threads.
    Threads(PasswordThreads),
    /// The worker itself, when it is its turn: it has one connection.
    Here(PasswordTurns),
}

/// How a worker serves the clients of a listening socket.
#[derive(Clone, Debug, Default)]
pub(crate) struct SocketSettings {
    /// The routes of their requests.
    pub(crate) routes: RouteTableId,
    /// Whether each connection begins with a PROXY header.
    pub(crate) expects_proxy_header: bool,
    /// The addresses that may connect. `None`: those of the server.
    pub(crate) addresses: Option<Arc<AddressList>>,
    /// Whether they may speak HTTP/2, or must.
    pub(crate) http2: Http2Use,
    /// How they are encrypted.
    pub(crate) tls: Option<Arc<TlsServerConfig>>,
}

impl SocketSettings {
    /// Offers HTTP/2 to clients with TLS, before all other protocols, or instead of HTTP/1. A protocol that is no HTTP stays.
    #[cfg(feature = "tls")]
    pub(super) fn offer_http2(&mut self) {
        let Some(tls) = self.tls.as_mut().filter(|_| self.http2 != Http2Use::Off) else { return };
        let mut config = TlsServerConfig::clone(tls);
        if self.http2 == Http2Use::Only {
            config.alpn_protocols.retain(|protocol| !protocol.starts_with(b"http/"));
        }
        config.alpn_protocols.insert(0, b"h2".into());
        *tls = Arc::new(config);
    }

    /// There is no TLS.
    #[cfg(not(feature = "tls"))]
    pub(super) fn offer_http2(&mut self) {}

    /// Returns what clients may speak.
    pub(super) fn versions(&self) -> HttpVersions {
        match self.http2 {
            Http2Use::On => HttpVersions::All,
            Http2Use::Off => HttpVersions::Http1,
            Http2Use::Only => HttpVersions::OnlyHttp2,
        }
    }
}

/// The part of a [`WorkerConfig`] that differs between the processes of a prepared worker.
pub(crate) struct WorkerRows {
    /// The index of the worker in the server.
    pub(crate) number: usize,
    /// The place of the row of counters, among all that lie in the same memory.
    pub(crate) counters: usize,
    pub(crate) start: StartTime,
    /// The seed of [`Recording`], and the ring for the records.
    pub(crate) log: Option<(u64, RingProducer)>,
}

#[cfg(test)]
impl WorkerConfig {
    /// Returns the configuration of one worker of `worker_count`, with a site of one file.
    pub(crate) fn for_test(worker_count: usize, listeners: Vec<OwnedFd>) -> WorkerConfig {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("index.html"), "home").expect("a file");
        let current = Arc::new(crate::site::Site::from_dir(dir.path()).expect("a site"));
        WorkerConfig {
            number: 0,
            worker_count,
            idle_workers: Arc::new(SharedArray::new(1).expect("memory")).row(0),
            // Tests of single connections have no listener.
            socket_settings: vec![SocketSettings::default(); listeners.len().max(1)].into(),
            listeners,
            mailbox: Arc::new(Mailbox::new().expect("a mailbox")),
            sites: [(SiteVersions { current, earlier: [].into() }, Limits::default())].into(),
            routes: [RouteTable::new(Arc::new(Hosts::new(Some(SiteId::FIRST))))].into(),
            loader: None,
            handshakes: None,
            password_jobs: None,
            connection_count_max: 10,
            counters: Arc::new(SharedArray::new(1).expect("memory")).row(0),
            hot_paths: None,
            health_path: None,
            server_header: true,
            head_len_max: HEAD_LEN_USUAL,
            proxy_trust: Arc::default(),
            client_limits: None,
            connection_limit: None,
            acme: None,
            kernel_suites: KernelSuites::NONE,
            backends: Backends::default(),
            upstream_row: Some(0),
            log: None,
        }
    }

    /// Returns the configuration with backends, and the routes to them.
    pub(crate) fn with_backends(self, backends: Backends) -> WorkerConfig {
        let routes = backends.add_routes(&self.routes).expect("no other route");
        WorkerConfig { backends, routes, ..self }
    }
}
