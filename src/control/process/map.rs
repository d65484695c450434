//! Values by process. Plain data.

use super::ProcessId;

/// Values by process, in the order of the identities.
///
/// A sorted list, as identities only grow: a new one goes to the end. It lies on few pages of memory, and a process that forks pays for each
/// page that it writes before its next fork.
#[derive(Debug)]
pub(crate) struct ProcessMap<V>(Vec<(ProcessId, V)>);

impl<V> Default for ProcessMap<V> {
    fn default() -> ProcessMap<V> {
        ProcessMap(Vec::new())
    }
}

impl<V> ProcessMap<V> {
    /// Adds a process, or replaces its value.
    pub(crate) fn insert(&mut self, id: ProcessId, value: V) {
        match self.place(id) {
            Ok(place) => self.0[place].1 = value,
            Err(place) => self.0.insert(place, (id, value)),
        }
    }

    /// Returns the value of a process.
    pub(crate) fn get(&self, id: ProcessId) -> Option<&V> {
        self.place(id).ok().map(|place| &self.0[place].1)
    }

    /// Returns the value of a process, to change it.
    pub(crate) fn get_mut(&mut self, id: ProcessId) -> Option<&mut V> {
        self.place(id).ok().map(|place| &mut self.0[place].1)
    }

    /// Removes a process, and returns its value.
    pub(crate) fn remove(&mut self, id: ProcessId) -> Option<V> {
        self.place(id).ok().map(|place| self.0.remove(place).1)
    }

    /// Returns the processes.
    pub(crate) fn ids(&self) -> impl Iterator<Item = ProcessId> {
        self.0.iter().map(|(id, _)| *id)
    }

    /// Returns the values.
    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.0.iter().map(|(_, value)| value)
    }

    /// Returns whether there is no process.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the place of a process in the list, or where it would be.
    fn place(&self, id: ProcessId) -> Result<usize, usize> {
        self.0.binary_search_by_key(&id, |(id, _)| *id)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::ProcessTable, *};

    #[test]
    fn values_are_found_by_process_and_listed_in_the_order_of_the_identities() {
        let mut table = ProcessTable::default();
        let [a, b, c] = [(); 3].map(|()| table.add(()));
        let mut map = ProcessMap::default();
        assert!(map.is_empty());
        [(b, 2), (a, 1), (c, 3), (b, 4)].into_iter().for_each(|(id, value)| map.insert(id, value));
        assert_eq!((map.ids().collect::<Vec<_>>(), map.values().sum::<i32>()), (vec![a, b, c], 8));
        assert_eq!((map.get(b), map.get(c)), (Some(&4), Some(&3)));
        assert_eq!((map.remove(b), map.remove(b)), (Some(4), None));
        *map.get_mut(c).unwrap() = 5;
        assert_eq!(map.values().collect::<Vec<_>>(), [&1, &5]);
    }
}
