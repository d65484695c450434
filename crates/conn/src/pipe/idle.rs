//! Backend connections that wait for an exchange.

use super::PipeId;
use crate::backend::BackendId;

/// The idle backend connections of a worker.
#[derive(Debug, Default)]
pub(crate) struct IdleBackends {
    /// The connection used last is the last one: it is taken first, and the others become old enough to close.
    idle: Vec<(BackendId, u32)>,
    /// Connections that are to join a pipe when the engine wakes them.
    assigned: Vec<(u32, PipeId)>,
}

/// The maximum number of idle connections to one backend in a worker. More would hold sockets of the backend that other workers need.
pub(crate) const IDLE_COUNT_MAX: usize = 8;

impl IdleBackends {
    /// Adds a connection. Returns `false` if there are enough: the connection closes.
    pub(crate) fn add(&mut self, backend: BackendId, number: u32) -> bool {
        self.idle.retain(|(_, idle)| *idle != number);
        let count = self.idle.iter().filter(|(of, _)| *of == backend).count();
        let is_wanted = count < IDLE_COUNT_MAX;
        if is_wanted {
            self.idle.push((backend, number));
        }
        is_wanted
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

    /// Takes a connection to a backend for a pipe.
    pub(super) fn assign(&mut self, backend: BackendId, pipe: PipeId) -> Option<u32> {
        let at = self.idle.iter().rposition(|(of, _)| *of == backend)?;
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
