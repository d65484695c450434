//! Connections to backends, which make dynamic content: the worker connects when a pipe needs a connection.

use super::{Slot, Worker};
use std::{io, os::fd::OwnedFd, sync::Arc};
use tarpon_conn::{
    BackendId, BackendRefusal, BackendRoute, Connection, PathPrefix, RouteTable, RouteTarget, SiteBackends,
    SiteId, Transport,
};

/// The backends of a server, and the routes to them.
#[derive(Clone, Default)]
pub(crate) struct Backends {
    /// By the number of the backend.
    pub(crate) connectors: Vec<Arc<dyn BackendConnector>>,
    /// Each for the paths with this prefix, at all hosts.
    pub(crate) routes: Vec<(PathPrefix, BackendRoute)>,
    /// Those within sites.
    pub(crate) by_site: Vec<(SiteId, SiteBackends)>,
}

impl Backends {
    /// Returns whether a backend gets the addresses of clients.
    pub(super) fn need_peers(&self) -> bool {
        !self.connectors.is_empty()
    }

    /// Returns these routes to sites, and those to backends.
    pub(super) fn add_routes(&self, sites: &Arc<[RouteTable]>) -> Arc<[RouteTable]> {
        if self.routes.is_empty() && self.by_site.is_empty() {
            return Arc::clone(sites);
        }
        let mut tables: Vec<_> = sites.to_vec();
        for (prefix, route) in &self.routes {
            for table in &mut tables {
                // The first route of a prefix stays.
                let _ = table.add(None, prefix.clone(), RouteTarget::Backend(*route));
            }
        }
        for (site, backends) in &self.by_site {
            tables.iter_mut().for_each(|table| table.set_site_backends(*site, backends.clone()));
        }
        tables.into()
    }
}

/// Connects to a backend.
pub(crate) trait BackendConnector: Send + Sync {
    /// Returns a connected stream socket, without waiting.
    fn connect(&self, is_nonblocking: bool) -> io::Result<OwnedFd>;
}

/// Returns why a pipe gets no connection.
fn refusal(error: &io::Error) -> BackendRefusal {
    match error.kind() {
        // The backend exists, and has not come to what was sent before.
        io::ErrorKind::WouldBlock => BackendRefusal::Full,
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
        while let Some((pipe, route)) = self.context.pipes.next_unconnected() {
            let connected = match self.slots.is_full() {
                true => Err(BackendRefusal::Full),
                false => self.connect(route.backend, is_nonblocking).map_err(|error| refusal(&error)),
            };
            match connected {
                Ok(fd) => {
                    let number = self.slots.next_index();
                    let conn =
                        Connection::to_backend(&mut self.context.conn_resources(), number, route, pipe);
                    return Some(self.insert_slot(Slot::new(fd, conn, Transport::Plain)));
                }
                Err(why) => self.context.pipes.refuse(&mut self.context.pool, pipe, why),
            }
        }
        None
    }

    fn connect(&self, BackendId(number): BackendId, is_nonblocking: bool) -> io::Result<OwnedFd> {
        match self.backends.connectors.get(number as usize) {
            Some(connector) => connector.connect(is_nonblocking),
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
