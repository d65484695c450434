//! The upstream servers of a worker: asks for connections, and takes those that have come.

use super::{
    balance::{Balancer, UpstreamRow},
    connect::{ConnectRequest, ConnectResult},
    plan::UpstreamPlans,
    table::UpstreamTable,
    thread::{ConnectJob, ConnectThread},
    transport::UpstreamTransport,
    waiting::WaitingConnector,
};
use crate::data::{services::ServiceEndpoint, worker::mailbox::Mailbox};
use std::{
    collections::VecDeque,
    fmt,
    hash::{BuildHasher, Hasher, RandomState},
    io,
    sync::Arc,
    time::Duration,
};
use tarpon_conn::{BackendRefusal, BackendSettings, Pipes, ServerEvent, ServerId, Transport, Unconnected};

/// The upstreams of a server, for all its workers.
#[derive(Clone)]
pub(crate) struct WorkerUpstreams {
    pub(crate) plans: Arc<UpstreamPlans>,
    pub(crate) table: Arc<UpstreamTable>,
    /// By the number of the server.
    pub(crate) transports: Arc<[UpstreamTransport]>,
    pub(crate) helper: ServiceEndpoint,
    /// Takes reports about servers.
    pub(crate) reports: ServiceEndpoint,
    /// Asks for connections. `None`: each worker waits for its own.
    pub(crate) thread: Option<ConnectThread>,
}

/// The upstream servers of a worker.
pub(crate) struct UpstreamLink {
    plans: Arc<UpstreamPlans>,
    table: Arc<UpstreamTable>,
    transports: Arc<[UpstreamTransport]>,
    row: UpstreamRow,
    connector: UpstreamConnector,
    /// What has come for pipes.
    connected: VecDeque<(Unconnected, ConnectResult)>,
}

enum UpstreamConnector {
    Thread(ConnectThread),
    // A worker has one of both, and this one is larger.
    Waiting(Box<WaitingConnector>),
}

impl WorkerUpstreams {
    /// Starts the thread that asks for the connections of all workers.
    ///
    /// # Errors
    /// The system is out of threads or descriptors.
    pub(crate) fn start_thread(&mut self) -> io::Result<()> {
        self.thread = Some(ConnectThread::start(self.helper.clone(), Arc::clone(&self.table))?);
        Ok(())
    }

    /// Returns whether connections to any server begin with a handshake.
    pub(crate) fn have_tls(&self) -> bool {
        self.transports.iter().any(UpstreamTransport::has_tls)
    }

    /// Returns the pipes of a worker, which choose servers, and its part of the upstreams. `by_backend`: the upstream of each backend.
    pub(crate) fn pipes(
        &self,
        settings: Arc<[BackendSettings]>,
        by_backend: Arc<[Option<u16>]>,
    ) -> (Pipes, Option<UpstreamLink>) {
        let row = UpstreamRow::default();
        let WorkerUpstreams { plans, table, transports, helper, reports, thread } = self;
        let balancer = Balancer::new(
            Arc::clone(plans),
            Arc::clone(table),
            row.clone(),
            by_backend,
            Some(reports.clone()),
        );
        let connector = match thread {
            Some(thread) => UpstreamConnector::Thread(thread.clone()),
            None => {
                let waiting = WaitingConnector::new(helper.clone(), Arc::clone(table));
                UpstreamConnector::Waiting(Box::new(waiting))
            }
        };
        let link = UpstreamLink {
            plans: Arc::clone(plans),
            table: Arc::clone(table),
            transports: Arc::clone(transports),
            row,
            connector,
            connected: VecDeque::new(),
        };
        let mut pipes = Pipes::new(settings, Box::new(balancer));
        // A random number: the hasher's keys are random.
        pipes.set_seed(RandomState::new().build_hasher().finish());
        (pipes, Some(link))
    }
}

impl UpstreamLink {
    /// Takes a row of the table, and forgets what its former worker has left.
    pub(crate) fn take_row(&self, row: usize) {
        self.row.set(row);
        self.table.reset_row(row);
    }

    /// Forgets what is so now: the worker ends.
    pub(crate) fn end(&self) {
        self.table.reset_row(self.row.get());
    }

    /// Asks for the connection of a pipe. Returns what has come at once. `None`: it comes as a message.
    pub(crate) fn connect(
        &mut self,
        unconnected: Unconnected,
        mailbox: &Arc<Mailbox>,
    ) -> Option<ConnectResult> {
        // Servers of upstreams alone come here.
        let server = unconnected.server.upstream_number().unwrap_or(u16::MAX);
        let timeout = self.plans.of_server(server.into()).map_or(Duration::ZERO, |plan| plan.connect_timeout);
        let request = ConnectRequest { server, row: self.row.get().try_into().unwrap_or(u16::MAX) };
        match &mut self.connector {
            UpstreamConnector::Waiting(waiting) => Some(waiting.connect(request, timeout)),
            UpstreamConnector::Thread(thread) => {
                thread.push(ConnectJob { request, timeout, mailbox: Arc::clone(mailbox), unconnected });
                None
            }
        }
    }

    /// Keeps what has come until the worker takes it.
    pub(crate) fn add(&mut self, unconnected: Unconnected, result: ConnectResult) {
        self.connected.push_back((unconnected, result));
    }

    /// Returns what has come next.
    pub(crate) fn next(&mut self) -> Option<(Unconnected, ConnectResult)> {
        self.connected.pop_front()
    }

    /// Returns whether something has come.
    #[inline]
    pub(crate) fn has_connected(&self) -> bool {
        !self.connected.is_empty()
    }

    /// Closes a connection that no pipe waits for. It was open, so it counts.
    pub(crate) fn drop_unused(&self, server: ServerId, unused: ConnectResult) {
        if let (Some(server), Ok(_)) = (server.upstream_number(), &unused) {
            self.table.note(self.row.get(), server.into(), ServerEvent::Opened);
            drop(unused);
            self.table.note(self.row.get(), server.into(), ServerEvent::Closed);
        }
    }

    /// Returns the transport of a new connection to a server. Without one the server counts as unreachable.
    pub(crate) fn transport(&self, server: ServerId) -> Result<Transport, BackendRefusal> {
        let transport = server.upstream_number().and_then(|number| self.transports.get(usize::from(number)));
        transport.and_then(|transport| transport.open().ok()).ok_or(BackendRefusal::Unreachable)
    }
}

impl fmt::Debug for WorkerUpstreams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerUpstreams").field("plans", &self.plans).finish_non_exhaustive()
    }
}
