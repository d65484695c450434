//! Connections that the helper has sent to workers, and that the workers have not counted yet.
//!
//! ```text
//! open = connecting + in transit + counted by workers
//! ```
//!
//! The helper alone opens connections, so with these numbers it never exceeds the limit of a server.

use crate::data::upstreams::table::UpstreamTable;
use std::collections::HashMap;
use tarpon_conn::Tick;

/// The connections in transit to one server, by the row of the worker.
#[derive(Debug, Default)]
pub(super) struct Transit(HashMap<u16, SentConnections>);

#[derive(Clone, Copy, Debug)]
struct SentConnections {
    /// How many the worker will have received when all have arrived.
    expected: u64,
    /// When the last was sent.
    at: Tick,
}

/// A worker that has not counted a connection after this time in milliseconds has exited.
const TRANSIT_MS_MAX: u64 = 10_000;

impl Transit {
    /// Notes that a connection was sent to the worker of this row, which has counted `received` so far.
    pub(super) fn add(&mut self, row: u16, received: u64, now: Tick) {
        let former = self.0.get(&row).filter(|sent| sent.is_valid(received, now));
        let expected = former.map_or(received, |sent| sent.expected) + 1;
        self.0.insert(row, SentConnections { expected, at: now });
    }

    /// Returns how many connections to a server are in transit.
    pub(super) fn count(&mut self, server: usize, table: &UpstreamTable, now: Tick) -> u64 {
        let mut count = 0;
        self.0.retain(|&row, sent| {
            let received = table.opened(row.into(), server);
            let is_valid = sent.is_valid(received, now);
            if is_valid {
                count += sent.expected - received;
            }
            is_valid
        });
        count
    }
}

impl SentConnections {
    /// Returns whether connections are still in transit.
    fn is_valid(&self, received: u64, now: Tick) -> bool {
        received < self.expected && now < self.at.after(TRANSIT_MS_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tarpon_conn::ServerEvent::Opened;

    #[test]
    fn connection_is_in_transit_until_its_worker_counts_it_or_has_exited() {
        let (table, mut transit) = (UpstreamTable::new(1, 2).unwrap(), Transit::default());
        (0..2).for_each(|row| table.reset_row(row));
        let mut add = |row: u16, at: u64| transit.add(row, table.opened(row.into(), 1), Tick(at));
        // From an earlier helper.
        table.note(0, 1, Opened);
        add(0, 0);
        add(0, 1);
        add(1, 2);
        assert_eq!(transit.count(1, &table, Tick(3)), 3);
        table.note(0, 1, Opened);
        assert_eq!(transit.count(1, &table, Tick(4)), 2);
        table.note(0, 1, Opened);
        assert_eq!(transit.count(1, &table, Tick(5)), 1);
        assert_eq!(transit.count(1, &table, Tick(2 + TRANSIT_MS_MAX)), 0, "its worker has exited");
        transit.add(1, table.opened(1, 1), Tick(20_000));
        assert_eq!(transit.count(1, &table, Tick(20_000)), 1);
    }
}
