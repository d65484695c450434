//! Connections to backends, which make dynamic content: the worker connects when a pipe needs a connection.

use super::{Slot, Worker, WorkerContext};
use crate::{
    base::error::UserError,
    data::upstreams::{UpstreamLink, WorkerUpstreams},
};
use rustix::io::{Errno, ioctl_fionbio};
use std::{io, os::fd::OwnedFd, sync::Arc};
use tarpon_conn::{
    BackendId, BackendRefusal, BackendRoute, BackendSettings, CollectBudget, Connection, HostName,
    InlineFunction, PathPrefix, Payload, Pipes, RouteTable, RouteTarget, SiteBackends, SiteId, Sites,
    Transport, Unconnected,
};

/// The backends of a server, and the routes to them.
#[derive(Clone, Default)]
pub(crate) struct Backends {
    /// By the number of the backend.
    backends: Vec<Backend>,
    /// The upstreams. `None`: no backend has one.
    pub(crate) upstreams: Option<WorkerUpstreams>,
    /// The functions that a worker calls in the place of a backend, and the memory for the content of their requests.
    inline: Vec<(BackendId, Arc<dyn InlineFunction>)>,
    budget: CollectBudget,
    /// Each for the paths with this prefix, at the hosts that the name matches. `None`: at all hosts.
    pub(crate) routes: Vec<(Option<HostName>, PathPrefix, BackendRoute)>,
    /// Those within sites.
    pub(crate) by_site: Vec<(SiteId, SiteBackends)>,
}

/// A backend of a server.
#[derive(Clone)]
struct Backend {
    settings: BackendSettings,
    target: BackendTarget,
}

/// What a backend connects to.
#[derive(Clone)]
enum BackendTarget {
    Connector(Arc<dyn BackendConnector>),
    /// The servers of the upstream with this number.
    Upstream(u16),
}

impl Backends {
    /// Adds a backend that speaks frames. Returns its number.
    ///
    /// # Errors
    /// There are too many: the numbers have 16 bits.
    pub(crate) fn add(&mut self, connector: Arc<dyn BackendConnector>) -> Result<BackendId, UserError> {
        self.push(BackendSettings::default(), BackendTarget::Connector(connector))
    }

    /// Adds a backend with the servers of an upstream. Returns its number.
    ///
    /// # Errors
    /// As above.
    pub(crate) fn add_upstream(
        &mut self,
        settings: BackendSettings,
        upstream: u16,
    ) -> Result<BackendId, UserError> {
        self.push(settings, BackendTarget::Upstream(upstream))
    }

    fn push(&mut self, settings: BackendSettings, target: BackendTarget) -> Result<BackendId, UserError> {
        let number = u16::try_from(self.backends.len()).map_err(|_| {
            UserError::new(
                "cannot add these routes to functions, programs and upstreams",
                format_args!("there are more than {}", u32::from(u16::MAX) + 1),
                "use fewer routes",
            )
        })?;
        self.backends.push(Backend { settings, target });
        Ok(BackendId(number))
    }

    /// Returns the backends of a site, to add to them.
    pub(crate) fn of_site(&mut self, site: SiteId) -> &mut SiteBackends {
        let place = self.by_site.iter().position(|(of, _)| *of == site).unwrap_or_else(|| {
            self.by_site.push((site, SiteBackends::default()));
            self.by_site.len() - 1
        });
        &mut self.by_site[place].1
    }

    /// Returns the pipes of a worker, and its upstream servers, if there are any.
    pub(super) fn pipes(&self) -> (Pipes, Option<UpstreamLink>) {
        let Some(upstreams) = &self.upstreams else { return (Pipes::default(), None) };
        let upstream = |backend: &Backend| match backend.target {
            BackendTarget::Upstream(number) => Some(number),
            BackendTarget::Connector(_) => None,
        };
        let settings = self.backends.iter().map(|backend| backend.settings.clone()).collect();
        upstreams.pipes(settings, self.backends.iter().map(upstream).collect())
    }

    /// Adds a function that workers call in the place of a backend, which sends the responses that the function leaves to it.
    pub(crate) fn add_inline(&mut self, backend: BackendId, function: Arc<dyn InlineFunction>) {
        self.inline.push((backend, function));
    }

    /// Returns whether there is no backend.
    pub(super) fn is_empty(&self) -> bool {
        self.backends.is_empty()
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

/// Sets the mode of a non-blocking socket.
fn set_mode(socket: &OwnedFd, is_nonblocking: bool) -> Result<(), Errno> {
    if is_nonblocking { Ok(()) } else { ioctl_fionbio(socket, false) }
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

/// A connection for a pipe, with its transport, or why there is none.
type PipeConnection = Result<(OwnedFd, Transport), BackendRefusal>;

impl<S: Default> Worker<S> {
    /// Connects to the backend of the next pipe that needs a connection, or takes the next connection to an upstream server that has come.
    /// Returns its slot, for the engine to start. `is_nonblocking`: the mode of the engine's sockets.
    #[inline]
    pub(crate) fn next_backend(&mut self, is_nonblocking: bool) -> Option<u32> {
        let has_connected = self.upstreams.as_ref().is_some_and(UpstreamLink::has_connected);
        if !self.context.pipes.has_unconnected() && !has_connected {
            return None;
        }
        self.connect_next(is_nonblocking)
    }

    #[cold]
    fn connect_next(&mut self, is_nonblocking: bool) -> Option<u32> {
        while let Some((unconnected, connected)) = self.next_connected(is_nonblocking) {
            match connected {
                Ok((fd, transport)) => {
                    let number = self.slots.next_index();
                    let conn =
                        Connection::to_backend(&mut self.context.conn_resources(), number, unconnected);
                    return Some(self.insert_slot(Slot::new(fd, conn, transport)));
                }
                Err(why) => {
                    let WorkerContext { pipes, pool, now, .. } = &mut self.context;
                    pipes.connect_failed(pool, unconnected, why, *now);
                }
            }
        }
        None
    }

    /// Returns the next pipe for which there is a connection, or none.
    fn next_connected(&mut self, is_nonblocking: bool) -> Option<(Unconnected, PipeConnection)> {
        loop {
            if let Some(arrived) = self.next_arrived(is_nonblocking) {
                return Some(arrived);
            }
            let unconnected = self.context.pipes.next_unconnected(&mut self.context.pool)?;
            if self.slots.is_full() {
                return Some((unconnected, Err(BackendRefusal::Full)));
            }
            let BackendId(number) = unconnected.route.backend;
            match self.backends.backends.get(usize::from(number)).map(|backend| &backend.target) {
                Some(BackendTarget::Connector(connector)) => {
                    let payload = self.context.pipes.take_payload(unconnected.pipe);
                    let connected = match payload {
                        None => connector.connect(is_nonblocking),
                        Some(payload) => connector.connect_with(payload, is_nonblocking),
                    };
                    let connected = connected.map(|fd| (fd, Transport::Plain));
                    return Some((unconnected, connected.map_err(|error| refusal(&error))));
                }
                Some(BackendTarget::Upstream(_)) => {
                    let Some(link) = &mut self.upstreams else { continue };
                    if let Some(result) = link.connect(unconnected, &self.mailbox) {
                        link.add(unconnected, result);
                    }
                }
                None => return Some((unconnected, Err(BackendRefusal::Unreachable))),
            }
        }
    }

    /// Returns what has come from an upstream server for a pipe that still waits for it.
    fn next_arrived(&mut self, is_nonblocking: bool) -> Option<(Unconnected, PipeConnection)> {
        let link = self.upstreams.as_mut()?;
        while let Some((unconnected, result)) = link.next() {
            if !self.context.pipes.awaits(unconnected) {
                link.drop_unused(unconnected.server, result);
                continue;
            }
            // It has come without blocking, whichever engine this is.
            let connected = match result {
                Ok(fd) if self.slots.is_full() || set_mode(&fd, is_nonblocking).is_err() => {
                    link.drop_unused(unconnected.server, Ok(fd));
                    Err(BackendRefusal::Full)
                }
                Ok(fd) => match link.transport(unconnected.server) {
                    Ok(transport) => Ok((fd, transport)),
                    Err(why) => {
                        link.drop_unused(unconnected.server, Ok(fd));
                        Err(why)
                    }
                },
                Err(why) => Err(why),
            };
            return Some((unconnected, connected));
        }
        None
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
