//! The processes of a machine, by identity. Plain data: a driver maps each identity to a process of the kernel.

use super::map::ProcessMap;

/// The identity of a process, from the decision to start it until it is reaped. A machine never uses an identity twice, unlike the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ProcessId(u64);

/// The processes that are starting or running, with their owners: what in the machine each belongs to.
#[derive(Debug)]
pub(crate) struct ProcessTable<O> {
    last: u64,
    owners: ProcessMap<O>,
}

impl<O> Default for ProcessTable<O> {
    fn default() -> ProcessTable<O> {
        ProcessTable { last: 0, owners: ProcessMap::default() }
    }
}

impl<O: Copy> ProcessTable<O> {
    /// Adds a process that is to start.
    pub(crate) fn add(&mut self, owner: O) -> ProcessId {
        self.last += 1;
        let id = ProcessId(self.last);
        self.owners.insert(id, owner);
        id
    }

    /// Returns the owner of a process. `None`: it did not start, or was reaped.
    pub(crate) fn owner(&self, id: ProcessId) -> Option<O> {
        self.owners.get(id).copied()
    }

    /// Removes a process that did not start or was reaped, and returns its owner.
    pub(crate) fn remove(&mut self, id: ProcessId) -> Option<O> {
        self.owners.remove(id)
    }

    /// Returns the processes in the order of their start.
    pub(crate) fn ids(&self) -> impl Iterator<Item = ProcessId> {
        self.owners.ids()
    }

    /// Returns whether no process is starting or running.
    pub(crate) fn is_empty(&self) -> bool {
        self.owners.is_empty()
    }
}
