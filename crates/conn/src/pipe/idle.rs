//! Backend connections that wait for an exchange.

use super::PipeId;
use crate::backend::ServerId;

/// The idle backend connections of a worker.
#[derive(Debug, Default)]
pub(crate) struct IdleBackends {
    /// The connection used last is the last one: it is taken first, and the others become old enough to close.
    idle: Vec<(ServerId, u32)>,
    /// Connections that are to join a pipe when the engine wakes them.
    assigned: Vec<(u32, PipeId)>,
}

/// The maximum number of idle connections in a worker to a backend that runs in this program or beside it. More would hold sockets of the backend that other workers need.
pub(crate) const IDLE_COUNT_MAX: usize = 8;

impl IdleBackends {
    /// Adds a connection.
    pub(super) fn add(&mut self, server: ServerId, number: u32) {
        self.idle.push((server, number));
    }

    /// Returns the number of connections to a server.
    pub(super) fn count(&self, server: ServerId) -> usize {
        self.idle.iter().filter(|(of, _)| *of == server).count()
    }

    /// Removes a connection that closes. Returns the pipe that it was to join.
    pub(crate) fn remove(&mut self, number: u32) -> Option<PipeId> {
        self.idle.retain(|(_, idle)| *idle != number);
        self.take_assigned(number)
    }

    /// Returns the pipe that a connection is to join, once.
    pub(crate) fn take_assigned(&mut self, number: u32) -> Option<PipeId> {
        let at = self.assigned.iter().position(|(of, _)| *of == number)?;
        Some(self.assigned.swap_remove(at).1)
    }

    /// Takes a connection to a server for a pipe.
    pub(super) fn assign(&mut self, server: ServerId, pipe: PipeId) -> Option<u32> {
        let at = self.idle.iter().rposition(|(of, _)| *of == server)?;
        let (_, number) = self.idle.remove(at);
        self.assigned.push((number, pipe));
        Some(number)
    }

    /// Ends the assignment to a pipe that has closed. Returns the connection, which wakes and finds nothing to join.
    pub(super) fn unassign(&mut self, pipe: PipeId) -> Option<u32> {
        let at = self.assigned.iter().position(|(_, to)| *to == pipe)?;
        Some(self.assigned.swap_remove(at).0)
    }
}
