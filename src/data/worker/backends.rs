//! Connections to backends, which make dynamic content: the worker connects when a pipe needs a connection.

use super::{Slot, Worker, WorkerContext};
use crate::base::error::UserError;
use rustix::io::Errno;
use std::{io, os::fd::OwnedFd, sync::Arc};
use tarpon_conn::{
    BackendId, BackendRefusal, BackendRoute, CollectBudget, Connection, HostName, InlineFunction, PathPrefix,
    Payload, RouteTable, RouteTarget, SiteBackends, SiteId, Sites, Transport, Unconnected,
};

/// The backends of a server, and the routes to them.
#[derive(Clone, Default)]
pub(crate) struct Backends {
    /// By the number of the backend.
    connectors: Vec<Arc<dyn BackendConnector>>,
    /// The functions that a worker calls in the place of a backend, and the memory for the content of their requests.
    inline: Vec<(BackendId, Arc<dyn InlineFunction>)>,
    budget: CollectBudget,
    /// Each for the paths with this prefix, at the hosts that the name matches. `None`: at all hosts.
    pub(crate) routes: Vec<(Option<HostName>, PathPrefix, BackendRoute)>,
    /// Those within sites.
    pub(crate) by_site: Vec<(SiteId, SiteBackends)>,
}

impl Backends {
    /// Adds a backend. Returns its number.
    ///
    /// # Errors
    /// There are too many: the numbers have 16 bits.
    pub(crate) fn add(&mut self, connector: Arc<dyn BackendConnector>) -> Result<BackendId, UserError> {
        let number = u16::try_from(self.connectors.len()).map_err(|_| {
            UserError::new(
                "cannot add these routes to functions and programs",
                format_args!("there are more than {}", u32::from(u16::MAX) + 1),
                "use fewer routes",
            )
        })?;
        self.connectors.push(connector);
        Ok(BackendId(number))
    }

    /// Adds a function that workers call in the place of a backend, which sends the responses that the function leaves to it.
    pub(crate) fn add_inline(&mut self, backend: BackendId, function: Arc<dyn InlineFunction>) {
        self.inline.push((backend, function));
    }

    /// Returns whether a backend gets the addresses of clients.
    pub(super) fn need_peers(&self) -> bool {
        !self.connectors.is_empty()
    }

    /// Adds the functions that a worker calls to its sites.
    pub(super) fn add_functions(&self, sites: &mut Sites) {
        for (backend, function) in &self.inline {
            sites.add_function(*backend, Arc::clone(function), &self.budget);
        }
    }

    /// Returns these routes to sites, and those to backends.
    ///
    /// # Errors
    /// A route to a backend has the host and prefix of another route.
    pub(crate) fn add_routes(&self, sites: &Arc<[RouteTable]>) -> Result<Arc<[RouteTable]>, UserError> {
        if self.routes.is_empty() && self.by_site.is_empty() {
            return Ok(Arc::clone(sites));
        }
        let mut tables: Vec<_> = sites.to_vec();
        for table in &mut tables {
            for (host, prefix, route) in &self.routes {
                table.add(host.as_ref(), prefix.clone(), RouteTarget::Backend(*route)).map_err(|_| {
                    let host = host.as_ref().map(HostName::to_string).unwrap_or_default();
                    UserError::new(
                        format_args!("cannot add the route {host}{prefix}"),
                        "another route or site is there",
                        "use another path or host, or distinguish the requests in one function",
                    )
                })?;
            }
            for (site, backends) in &self.by_site {
                table.set_site_backends(*site, backends.clone());
            }
        }
        Ok(tables.into())
    }
}

/// Connects to a backend.
pub(crate) trait BackendConnector: Send + Sync {
    /// Returns a connected stream socket, without waiting.
    fn connect(&self, is_nonblocking: bool) -> io::Result<OwnedFd>;

    /// Returns a connected stream socket, for the pipe that has carried this payload. Without waiting.
    fn connect_with(&self, payload: Payload, is_nonblocking: bool) -> io::Result<OwnedFd> {
        drop(payload);
        self.connect(is_nonblocking)
    }
}

/// Returns why a pipe gets no connection.
fn refusal(error: &io::Error) -> BackendRefusal {
    match error.kind() {
        // The backend exists, and has not come to what was sent before.
        io::ErrorKind::WouldBlock => BackendRefusal::Full,
        _ if matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE)) => BackendRefusal::Full,
        _ => BackendRefusal::Unreachable,
    }
}

impl<S: Default> Worker<S> {
    /// Connects to the backend of the next pipe that needs a connection. Returns its slot, for the engine to start. `is_nonblocking`: the
    /// mode of the engine's sockets.
    #[inline]
    pub(crate) fn next_backend(&mut self, is_nonblocking: bool) -> Option<u32> {
        if !self.context.pipes.has_unconnected() {
            return None;
        }
        self.connect_next(is_nonblocking)
    }

    #[cold]
    fn connect_next(&mut self, is_nonblocking: bool) -> Option<u32> {
        while let Some(unconnected) = self.context.pipes.next_unconnected(&mut self.context.pool) {
            let connected = match self.slots.is_full() {
                true => Err(BackendRefusal::Full),
                false => self.connect(unconnected, is_nonblocking).map_err(|error| refusal(&error)),
            };
            match connected {
                Ok(fd) => {
                    let number = self.slots.next_index();
                    let conn =
                        Connection::to_backend(&mut self.context.conn_resources(), number, unconnected);
                    return Some(self.insert_slot(Slot::new(fd, conn, Transport::Plain)));
                }
                Err(why) => {
                    let WorkerContext { pipes, pool, now, .. } = &mut self.context;
                    pipes.connect_failed(pool, unconnected, why, *now);
                }
            }
        }
        None
    }

    fn connect(
        &mut self,
        Unconnected { pipe, route, .. }: Unconnected,
        is_nonblocking: bool,
    ) -> io::Result<OwnedFd> {
        let BackendId(number) = route.backend;
        let payload = self.context.pipes.take_payload(pipe);
        match self.backends.connectors.get(number as usize) {
            Some(connector) => match payload {
                None => connector.connect(is_nonblocking),
                Some(payload) => connector.connect_with(payload, is_nonblocking),
            },
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Returns the number of connections whose pipes have changed.
    #[inline]
    pub(crate) fn woken_count(&self) -> usize {
        self.context.pipes.scheduled_count()
    }

    /// Returns the next connection whose pipe has changed. The engine drives it.
    #[inline]
    pub(crate) fn next_woken(&mut self) -> Option<u32> {
        while let Some(index) = self.context.pipes.next_scheduled() {
            if let Some(slot) = self.slots.get_mut(index) {
                slot.conn.woken(&mut self.context.conn_resources());
                return Some(index);
            }
        }
        None
    }
}
