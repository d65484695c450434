//! Connections for a worker that has one client: it waits for each in place.

use super::{
    connect::{ConnectRequest, ConnectResult, ConnectServices, WAIT_MARGIN, refusal, result},
    table::UpstreamTable,
};
use crate::{
    data::services::{RequestId, ServiceEndpoint, ServiceError},
    sys::poll::{PollEntry, poll},
};
use libc::POLLIN;
use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};
use tarpon_conn::{BackendRefusal, ServerEvent};

/// The connections of a worker to upstream servers.
pub(crate) struct WaitingConnector {
    services: ConnectServices,
    table: Arc<UpstreamTable>,
    /// Requests that the worker has stopped waiting for.
    abandoned: Vec<(RequestId, ConnectRequest)>,
}

/// How long a worker waits before it tries again to reach a helper that has not received what was sent before.
const BUSY_WAIT: Duration = Duration::from_millis(20);

impl WaitingConnector {
    pub(crate) fn new(endpoint: ServiceEndpoint, table: Arc<UpstreamTable>) -> WaitingConnector {
        WaitingConnector { services: ConnectServices::new(endpoint), table, abandoned: Vec::new() }
    }

    /// Returns a connection. Waits for it as long as the helper may take, and a little longer.
    pub(crate) fn connect(&mut self, request: ConnectRequest, timeout: Duration) -> ConnectResult {
        let end = Instant::now() + timeout + WAIT_MARGIN;
        let id = loop {
            match self.services.request(&request) {
                Ok(id) => break id,
                Err(ServiceError::Busy) if Instant::now() < end => {
                    self.receive_abandoned();
                    thread::sleep(BUSY_WAIT);
                }
                Err(error) => return Err(refusal(error)),
            }
        };
        loop {
            while let Some(reply) = self.services.receive() {
                match reply.request == id {
                    true => return result(reply),
                    false => self.drop_late(reply.request, result(reply)),
                }
            }
            let left = end.saturating_duration_since(Instant::now());
            let Some(session) = self.services.session().filter(|_| !left.is_zero()) else {
                self.abandoned.push((id, request));
                return Err(BackendRefusal::TimedOut);
            };
            let wait_ms = left.as_millis() as u64 + 1;
            // An error means that this process is out of memory, or was interrupted: the loop ends in time.
            if poll(&mut [PollEntry::new(session, POLLIN)], Some(wait_ms)).is_err() {
                thread::yield_now();
            }
        }
    }

    fn receive_abandoned(&mut self) {
        while let Some(reply) = self.services.receive() {
            self.drop_late(reply.request, result(reply));
        }
    }

    /// Closes a connection that comes too late. It was open, so it counts.
    fn drop_late(&mut self, id: RequestId, late: ConnectResult) {
        let Some(place) = self.abandoned.iter().position(|(abandoned, _)| *abandoned == id) else { return };
        let (_, ConnectRequest { server, row }) = self.abandoned.swap_remove(place);
        if late.is_ok() {
            self.table.note(row.into(), server.into(), ServerEvent::Opened);
            self.table.note(row.into(), server.into(), ServerEvent::Closed);
        }
    }
}
