//! The counters of a service in its supervisor: which server has which slot, and what a successor gets.
//!
//! ```text
//! start ─▶ slot of a server that was reaped long ago ─ reap ─▶ its open connections count as closed; the slot is free
//! ```

use super::{
    CounterHandover, CounterHistory, ServerCounters,
    predecessors::{PredecessorTable, from_names, to_names},
    table::{CounterTable, ROWS_PER_SERVER, SERVER_COUNT_MAX},
};
use crate::control::process::ProcessId;
use std::{
    collections::{BTreeMap, VecDeque},
    fs::File,
    io,
    ops::Range,
    os::fd::OwnedFd,
    sync::Arc,
};
use tarpon_conn::Counters;

/// The counters of a service.
#[derive(Debug)]
pub(crate) struct ServiceCounters {
    history: Arc<CounterHistory>,
    /// The file of the table.
    file: File,
    /// The files of the tables of predecessors, in their order. `None`: the predecessor has exited.
    predecessor_files: Vec<Option<File>>,
    slots: BTreeMap<ProcessId, usize>,
    /// Free slots that were used before. The first was freed first.
    free: VecDeque<usize>,
    /// How many slots were used.
    used_count: usize,
}

/// Predecessors that may still count when this program hands over, at most. Older ones count as they are then: a supervisor that was killed
/// never reports its end.
const TABLE_COUNT_MAX: usize = 8;

impl ServiceCounters {
    /// Returns the counters of a service that has started at this time, in seconds since 1970. `handover`: from the predecessor, with its
    /// descriptors.
    ///
    /// # Errors
    /// The process is out of descriptors or memory.
    pub(crate) fn new(
        start_unix_s: u64,
        handover: CounterHandover,
        descriptors: Vec<OwnedFd>,
    ) -> io::Result<ServiceCounters> {
        let (table, file) = CounterTable::new()?;
        let (mut predecessors, mut predecessor_files) = (Vec::new(), Vec::new());
        for (layout, descriptor) in handover.tables.into_iter().zip(descriptors) {
            let file = File::from(descriptor);
            predecessors.push(PredecessorTable::map(&file, layout)?);
            predecessor_files.push(Some(file));
        }
        let retired = from_names(&handover.retired);
        let history = CounterHistory { start_unix_s, retired, predecessors, table };
        Ok(ServiceCounters {
            history: Arc::new(history),
            file,
            predecessor_files,
            slots: BTreeMap::new(),
            free: VecDeque::new(),
            used_count: 0,
        })
    }

    /// Returns when the service started, in seconds since 1970.
    pub(crate) fn start_unix_s(&self) -> u64 {
        self.history.start_unix_s
    }

    /// Assigns a slot to a server that is to start.
    ///
    /// # Errors
    /// Too many servers run.
    pub(crate) fn assign(&mut self, process: ProcessId) -> io::Result<ServerCounters> {
        // A worker process may live a moment longer than its master. So the slot that was freed last is not used again, unless all slots
        // were used.
        let slot = match self.free.len() {
            0 | 1 if self.used_count < SERVER_COUNT_MAX => {
                self.used_count += 1;
                self.used_count - 1
            }
            _ => self.free.pop_front().ok_or_else(|| io::Error::other("too many servers have not exited"))?,
        };
        self.slots.insert(process, slot);
        self.history.table.set_answering(slot, true);
        let start = slot * ROWS_PER_SERVER;
        Ok(ServerCounters {
            rows: Arc::clone(&self.history.table.rows),
            own: start..start,
            service: Some((Arc::clone(&self.history), slot)),
        })
    }

    /// Frees the slot of a server that was reaped or did not start. Returns the places of its rows.
    pub(crate) fn free(&mut self, process: ProcessId) -> Range<usize> {
        let Some(slot) = self.slots.remove(&process) else { return 0..0 };
        self.history.table.rows_of(slot).iter().for_each(Counters::lose_open);
        self.history.table.set_answering(slot, false);
        self.free.push_back(slot);
        slot * ROWS_PER_SERVER..(slot + 1) * ROWS_PER_SERVER
    }

    /// Returns all counters for a successor, with the descriptors of the tables.
    ///
    /// # Errors
    /// The process is out of descriptors.
    pub(crate) fn hand_over(&mut self) -> io::Result<(CounterHandover, Vec<OwnedFd>)> {
        self.close_files();
        let retired = Counters::default();
        retired.add_all(&self.history.retired);
        let (mut tables, mut descriptors) = (Vec::new(), Vec::new());
        let count = self.predecessor_files.len();
        for (number, (table, file)) in
            self.history.predecessors.iter().zip(&self.predecessor_files).enumerate()
        {
            match file.as_ref().filter(|_| count - number < TABLE_COUNT_MAX) {
                Some(file) => {
                    tables.push(table.layout.clone());
                    descriptors.push(file.try_clone()?.into());
                }
                None => table.add_to(&retired, true),
            }
        }
        tables.push(CounterTable::layout());
        descriptors.push(self.file.try_clone()?.into());
        Ok((CounterHandover { retired: to_names(&retired), tables }, descriptors))
    }

    /// Notes that the predecessor has exited.
    pub(crate) fn set_predecessor_gone(&mut self) {
        self.history.table.set_predecessor_gone();
        self.close_files();
    }

    /// Notes that the supervisor has reaped its last server.
    pub(crate) fn set_final(&self) {
        self.history.table.set_final();
    }

    /// Closes the files of predecessors that have exited. Their numbers stay mapped.
    fn close_files(&mut self) {
        for (number, file) in self.predecessor_files.iter_mut().enumerate() {
            if self.history.is_over(number) {
                *file = None;
            }
        }
    }
}
