//! A service through starts, ends and upgrades of its servers.

use super::{CounterHandover, ServerCounters, ServiceCounters, table::SERVER_COUNT_MAX};
use crate::control::process::{ProcessId, ProcessTable};
use tarpon_conn::{CounterName, Counters};

/// A supervisor, as far as counters are concerned.
struct SupervisorFixture {
    processes: ProcessTable<()>,
    counters: ServiceCounters,
}

impl SupervisorFixture {
    fn first() -> SupervisorFixture {
        let counters = ServiceCounters::new(1_000, CounterHandover::default(), Vec::new()).unwrap();
        SupervisorFixture { processes: ProcessTable::default(), counters }
    }

    /// Returns a successor, to which `change` applies on its way.
    fn successor(&mut self, change: impl FnOnce(&mut CounterHandover)) -> SupervisorFixture {
        let (handover, descriptors) = self.counters.hand_over().unwrap();
        let mut handover: CounterHandover =
            serde_json::from_str(&serde_json::to_string(&handover).unwrap()).unwrap();
        change(&mut handover);
        let counters = ServiceCounters::new(self.counters.start_unix_s(), handover, descriptors).unwrap();
        SupervisorFixture { processes: ProcessTable::default(), counters }
    }

    fn start(&mut self, row_count: usize) -> (ProcessId, ServerCounters) {
        let process = self.processes.add(());
        (process, self.counters.assign(process).unwrap().with_rows(row_count).unwrap())
    }
}

/// Returns the accepted and open connections.
fn connections(counters: &ServerCounters) -> (u64, u64) {
    let totals: Counters = counters.totals();
    (totals.accepted.get(), totals.accepted.get() - totals.closed.get())
}

#[test]
fn sum_goes_on_when_a_server_is_replaced_and_its_open_connections_are_closed() {
    let mut supervisor = SupervisorFixture::first();
    let (first, of_first) = supervisor.start(2);
    of_first.row(0).accepted.add(5);
    of_first.row(1).accepted.add(7);
    of_first.row(1).closed.add(3);
    assert_eq!((connections(&of_first), of_first.start_unix_s()), ((12, 9), Some(1_000)));
    // The former server sees the next one, too.
    let (second, of_second) = supervisor.start(1);
    of_second.row(0).accepted.add(1);
    assert_eq!([&of_first, &of_second].map(connections), [(13, 10); 2]);
    supervisor.counters.free(first);
    assert_eq!(connections(&of_second), (13, 1));
    supervisor.counters.free(second);
    let (third, of_third) = supervisor.start(3);
    assert_eq!((connections(&of_third), of_third[0].accepted.get()), ((13, 0), 5), "the slot of the first");
    of_third.row(2).accepted.add(2);
    assert_eq!(connections(&of_third), (15, 2));
    supervisor.counters.free(third);
    assert_eq!(connections(&supervisor.start(1).1), (15, 0));
}

#[test]
fn slots_are_used_again_and_are_limited() {
    let mut supervisor = SupervisorFixture::first();
    for _ in 0..3 * SERVER_COUNT_MAX {
        let (process, counters) = supervisor.start(1);
        counters.row(0).accepted.add(1);
        supervisor.counters.free(process);
    }
    let running: Vec<_> = (0..SERVER_COUNT_MAX).map(|_| supervisor.start(1)).collect();
    assert_eq!(connections(&running[0].1), (3 * SERVER_COUNT_MAX as u64, 0));
    let late = supervisor.processes.add(());
    assert!(supervisor.counters.assign(late).is_err(), "no slot is free");
    supervisor.counters.free(late);
    supervisor.counters.free(running[3].0);
    assert!(supervisor.counters.assign(late).unwrap().with_rows(1_026).is_err(), "a slot has fewer rows");
}

#[test]
fn successor_reads_the_numbers_of_its_predecessor_until_and_after_it_exits() {
    let mut former = SupervisorFixture::first();
    let (_, of_former) = former.start(1);
    of_former.row(0).accepted.add(5);
    let mut next = former.successor(|_| {});
    let (process, of_next) = next.start(1);
    of_next.row(0).accepted.add(10);
    of_former.row(0).accepted.add(1);
    // Both answer, and neither may seem to fall behind the other.
    assert_eq!([&of_former, &of_next].map(connections), [(6, 6); 2]);
    of_former.set_silent();
    assert_eq!(connections(&of_next), (16, 16));
    of_former.row(0).accepted.add(1);
    assert_eq!(connections(&of_next), (17, 17), "while it drains");
    // Killed with its server.
    next.counters.set_predecessor_gone();
    drop((former, of_former));
    assert_eq!((connections(&of_next), of_next.start_unix_s()), ((17, 10), Some(1_000)));
    let mut last = next.successor(|handover| {
        assert_eq!((handover.tables.len(), handover.retired["accepted"]), (1, 7), "a sum, and no table");
    });
    assert_eq!(connections(&last.start(1).1), (17, 10));
    next.counters.free(process);
    next.counters.set_final();
    assert_eq!(connections(&last.start(1).1), (17, 0));
}

#[test]
fn sum_of_a_killed_predecessor_includes_the_own_rows() {
    let mut former = SupervisorFixture::first();
    let (_, of_former) = former.start(1);
    of_former.row(0).accepted.add(5);
    let mut next = former.successor(|_| {});
    let (_, of_next) = next.start(1);
    of_next.row(0).accepted.add(10);
    assert_eq!(connections(&of_next), (5, 5));
    next.counters.set_predecessor_gone();
    assert_eq!(connections(&of_next), (15, 10));
}

#[test]
fn predecessors_that_never_report_their_end_are_limited() {
    let mut supervisor = SupervisorFixture::first();
    for count in 1..30 {
        let (process, counters) = supervisor.start(1);
        counters.row(0).accepted.add(1);
        supervisor.counters.free(process);
        let next = supervisor.successor(|handover| assert!(handover.tables.len() <= 9));
        supervisor = next;
        let (process, counters) = supervisor.start(1);
        assert_eq!(connections(&counters), (count, 0));
        supervisor.counters.free(process);
    }
}

#[test]
fn other_layout_is_read_by_names() {
    type LayoutChange = fn(&mut CounterHandover);
    #[rustfmt::skip]
    let cases: &[(&str, LayoutChange, Option<u64>)] = &[
        // case                  change                                                                             accepted; None: any number
        ("the same",             |_| {},  Some(105)),
        ("an unknown name",      |handover| _ = handover.tables[0].places.insert("new".to_owned(), 1),  Some(105)),
        ("an unknown sum",       |handover| _ = handover.retired.insert("new".to_owned(), 1),  Some(105)),
        ("a missing name",       |handover| _ = handover.tables[0].places.remove("accepted"),  Some(100)),
        ("no retired sum",       |handover| handover.retired.clear(),  Some(5)),
        ("no table",             |handover| handover.tables.clear(),  Some(100)),
        ("an empty layout",      |handover| handover.tables[0] = Default::default(),  Some(100)),
        ("beyond the memory",    |handover| handover.tables[0].rows_at = u64::MAX,  Some(100)),
        ("a row beyond it",      |handover| handover.tables[0].row_len = u64::MAX,  None),
        ("many rows",            |handover| handover.tables[0].rows_per_server = u64::MAX,  None),
        ("many slots",           |handover| handover.tables[0].server_count = u64::MAX,  None),
    ];
    for (case, change, accepted) in cases {
        let mut former = SupervisorFixture::first();
        let (_, counters) = former.start(1);
        counters.row(0).accepted.add(5);
        let mut next = former.successor(|handover| {
            handover.retired.insert("accepted".to_owned(), 100);
            change(handover);
        });
        let found = next.start(1).1.totals().accepted.get();
        assert_eq!(accepted.unwrap_or(found), found, "{case}");
    }
}

#[test]
fn every_counter_reaches_the_successor() {
    let mut former = SupervisorFixture::first();
    let (process, counters) = former.start(2);
    for row in 0..2 {
        counters.row(row).each().zip(1..).for_each(|((_, counter), number)| counter.add(number));
    }
    former.counters.free(process);
    former.counters.set_final();
    let mut next = former.successor(|_| {});
    let mut last = next.successor(|handover| assert_eq!(handover.tables.len(), 1));
    for supervisor in [&mut next, &mut last] {
        let totals = supervisor.start(1).1.totals();
        for ((name, counter), number) in totals.each().zip(1_u64..) {
            let expected = if name == CounterName::Plain("closed") { 4 } else { 2 * number };
            assert_eq!(counter.get(), expected, "{name}");
        }
    }
}
