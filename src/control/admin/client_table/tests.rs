//! Tests of the client table: single rules, and bounds under random facts.

use super::*;
use proptest::prelude::*;

/// Fills a table with the clients 0, 1, 2 and so on, at time 0.
fn full() -> ClientTable<usize> {
    let mut table = ClientTable::new();
    for client in 0..CLIENT_COUNT_MAX {
        assert_eq!(table.accepted(client, Tick(0)), (client, None));
    }
    table
}

#[test]
fn newcomer_evicts_the_client_that_has_been_silent_longest() {
    type Act = fn(&mut ClientTable<usize>);
    #[rustfmt::skip]
    let cases: &[(&str, Act, usize)] = &[
        // case                                  before the newcomer comes                            evicted
        ("all silent",                           |_| (),                                              0),
        ("the first has sent a byte",            |table| table.received(0, b"G"),                     1),
        ("all but one have sent a byte",         |table| for slot in 0..CLIENT_COUNT_MAX {
                                                     if slot != 40 { table.received(slot, b"G") }
                                                 },                                                   40),
        ("one has a response that it does not read", |table| assert!(table.answered(9, b"ab".into()).is_empty()), 0),
        ("one reads its response",               |table| {
                                                     table.answered(0, b"ab".into());
                                                     assert!(!table.sent(0, 1, Tick(0)));
                                                 },                                                   1),
        ("one has its whole response",           |table| {
                                                     table.answered(9, b"ab".into());
                                                     assert!(table.sent(9, 2, Tick(0)));
                                                 },                                                   9),
    ];
    for (name, act, evicted) in cases {
        let mut table = full();
        act(&mut table);
        assert_eq!(table.accepted(1000, Tick(0)), (*evicted, Some(*evicted)), "{name}");
        assert_eq!(table.client(*evicted), Some((&1000, ClientNeed::Request)), "{name}");
    }
}

#[test]
fn flood_of_silent_clients_evicts_its_own() {
    let mut table = full();
    let (slot, _) = table.accepted(1000, Tick(0));
    // As many clients as fit between two bytes of a client do not evict it.
    for byte in 0..3 {
        for client in 1..CLIENT_COUNT_MAX {
            assert_ne!(table.accepted(2000 + client, Tick(0)).1, Some(1000), "byte {byte}");
        }
        table.received(slot, b"G");
    }
    assert_eq!(table.request(slot), b"GGG");
}

#[test]
fn client_expires_after_its_lifetime_whatever_it_sends() {
    let mut table = ClientTable::new();
    let (silent, _) = table.accepted("silent", Tick(5));
    let (slow, _) = table.accepted("slow", Tick(7));
    assert_eq!(table.deadline(), Some(Tick(5 + LIFETIME_MS)));
    assert!(table.expired(Tick(4 + LIFETIME_MS)).is_empty());
    table.received(slow, b"G");
    assert_eq!(table.expired(Tick(5 + LIFETIME_MS)), ["silent"]);
    assert_eq!((table.client(silent), table.deadline()), (None, Some(Tick(7 + LIFETIME_MS))));
    assert_eq!(table.expired(Tick(7 + LIFETIME_MS)), ["slow"]);
    assert_eq!(table.deadline(), None);
}

#[test]
fn client_with_its_response_lingers_briefly() {
    for (answered_at, deadline) in [(0, LINGER_MS), (LIFETIME_MS - 1, LIFETIME_MS)] {
        let mut table = ClientTable::new();
        let (slot, _) = table.accepted((), Tick(0));
        table.answered(slot, b"abc".into());
        assert!(!table.sent(slot, 2, Tick(answered_at)));
        assert_eq!((table.unsent(slot), table.deadline()), (&b"c"[..], Some(Tick(LIFETIME_MS))));
        assert!(table.sent(slot, 1, Tick(answered_at)));
        assert_eq!(table.client(slot), Some((&(), ClientNeed::Discard)));
        assert_eq!(table.deadline(), Some(Tick(deadline)));
        table.received(slot, &[b'x'; 2 * REQUEST_LEN_MAX]);
        assert_eq!(table.request(slot), b"", "discarded");
    }
}

#[test]
fn accept_backoff_pauses_accepting_only() {
    let mut table = ClientTable::new();
    let (slot, _) = table.accepted((), Tick(0));
    table.accept_failed(Tick(10));
    assert_eq!((table.accepts(), table.deadline()), (false, Some(Tick(10 + ACCEPT_BACKOFF_MS))));
    table.received(slot, b"G");
    table.answered(slot, b"x".into());
    assert!(table.sent(slot, 1, Tick(20)), "the client is served meanwhile");
    assert!(table.expired(Tick(9 + ACCEPT_BACKOFF_MS)).is_empty() && !table.accepts());
    assert!(table.expired(Tick(10 + ACCEPT_BACKOFF_MS)).is_empty() && table.accepts());
}

#[test]
fn ending_table_waits_briefly_for_its_clients() {
    let mut table = ClientTable::new();
    let (slot, _) = table.accepted("quick", Tick(0));
    table.accepted("silent", Tick(0));
    table.end(Tick(50));
    assert!(!table.accepts() && !table.has_ended());
    table.answered(slot, b"x".into());
    assert!(table.sent(slot, 1, Tick(60)));
    assert_eq!(table.closed(slot), Some("quick"));
    assert_eq!(table.deadline(), Some(Tick(50 + END_MS)));
    assert_eq!(table.expired(Tick(50 + END_MS)), ["silent"]);
    assert!(table.has_ended());
}

#[test]
fn clients_that_read_nothing_make_room_for_other_responses() {
    let mut table = full();
    let response = || vec![b'x'; UNSENT_LEN_MAX / 4];
    for slot in 0..4 {
        assert!(table.answered(slot, response()).is_empty(), "the limit is not exceeded");
    }
    assert!(!table.sent(0, 1, Tick(0)));
    assert_eq!(table.answered(10, response()), [1], "the client 0 reads");
    assert_eq!(table.answered(11, vec![b'x'; 2 * UNSENT_LEN_MAX]), [2, 3, 10, 0], "however long");
    assert_eq!(table.unsent(11).len(), 2 * UNSENT_LEN_MAX);
}

#[test]
fn streams_get_an_event_each_second_and_end_with_the_listener() {
    let mut table = ClientTable::new();
    for number in 0..STREAM_COUNT_MAX {
        assert!(table.has_stream_slot(), "{number}");
        let (slot, _) = table.accepted(number, Tick(0));
        assert!(table.streams(slot, b"head".into(), Tick(0)).is_empty());
        assert_eq!(table.client(slot), Some((&number, ClientNeed::Send)));
        assert!(!table.sent(slot, 4, Tick(10)), "a stream has no end");
        assert_eq!(table.client(slot), Some((&number, ClientNeed::Discard)));
    }
    assert!(!table.has_stream_slot());
    assert_eq!(table.deadline(), Some(Tick(EVENT_INTERVAL_MS)));
    assert!(!table.takes_event(Tick(EVENT_INTERVAL_MS - 1)));
    for second in 1..30 {
        let now = Tick(second * EVENT_INTERVAL_MS);
        assert!(table.takes_event(now) && !table.takes_event(now), "second {second}");
        // The client 0 reads nothing: it gets one event, and then no more until it has read it.
        let given = table.add_event(b"event");
        let expected = if second * EVENT_INTERVAL_MS < 10 + LIFETIME_MS {
            STREAM_COUNT_MAX
        } else {
            STREAM_COUNT_MAX - 1
        };
        assert_eq!(
            given.len(),
            expected - usize::from(second > 1 && expected == STREAM_COUNT_MAX),
            "second {second}"
        );
        for slot in given {
            if slot != 0 {
                table.sent(slot, 5, now);
            }
        }
        let expired = table.expired(now.after(10));
        assert_eq!(
            expired.is_empty(),
            now.after(10) != Tick(10 + LIFETIME_MS),
            "second {second}: {expired:?}"
        );
    }
    assert!(table.has_stream_slot(), "the client 0 has gone");
    let (other, _) = table.accepted(100, Tick(40_000));
    let mut ended = table.end(Tick(40_000));
    ended.sort_unstable();
    assert_eq!(ended, (1..STREAM_COUNT_MAX).collect::<Vec<_>>());
    assert!(!table.takes_event(Tick(50_000)) && table.client(other).is_some());
    assert_eq!(table.deadline(), Some(Tick(40_000 + END_MS)), "no event is to come");
    assert_eq!(table.closed(other), Some(100));
    assert!(table.has_ended());
}

#[test]
fn streams_leave_slots_for_others() {
    let mut table = full();
    for slot in 0..STREAM_COUNT_MAX {
        table.streams(slot, b"x".into(), Tick(0));
        table.sent(slot, 1, Tick(0));
    }
    // Newcomers evict silent clients before those that have got an event since.
    for newcomer in 0..CLIENT_COUNT_MAX - STREAM_COUNT_MAX {
        let (slot, _) = table.accepted(1000 + newcomer, Tick(0));
        assert!(slot >= STREAM_COUNT_MAX, "{newcomer}");
    }
    // An event that is too long for the memory is not sent.
    assert!(table.add_event(&vec![0; UNSENT_LEN_MAX + 1]).is_empty());
    assert_eq!(table.add_event(&vec![0; UNSENT_LEN_MAX / 2]).len(), 2);
}

/// What happens to a table.
#[derive(Clone, Debug)]
enum Fact {
    Accepted,
    Received(usize, usize),
    Answered(usize, usize),
    Streams(usize),
    Event(usize),
    Sent(usize, usize),
    Closed(usize),
    Passed(u64),
}

fn fact() -> impl Strategy<Value = Fact> {
    let slot = 0..CLIENT_COUNT_MAX;
    prop_oneof![
        // Many more clients than slots within a lifetime.
        9 => Just(Fact::Accepted),
        4 => (slot.clone(), 0..2000usize).prop_map(|(slot, len)| Fact::Received(slot, len)),
        2 => (slot.clone(), 1..UNSENT_LEN_MAX / 3).prop_map(|(slot, len)| Fact::Answered(slot, len)),
        2 => slot.clone().prop_map(Fact::Streams),
        1 => (1..UNSENT_LEN_MAX).prop_map(Fact::Event),
        2 => (slot.clone(), 1..UNSENT_LEN_MAX / 3).prop_map(|(slot, len)| Fact::Sent(slot, len)),
        1 => slot.prop_map(Fact::Closed),
        1 => (0..LIFETIME_MS / 8).prop_map(Fact::Passed),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn bounds_hold_whatever_clients_do(facts in prop::collection::vec(fact(), 1..600)) {
        let mut table = ClientTable::new();
        let mut now = Tick(0);
        // For each client: when it was accepted, and the number of the fact of its last activity.
        let mut model: Vec<(Tick, usize)> = Vec::new();
        let mut open = std::collections::BTreeSet::new();
        let mut streams = std::collections::BTreeSet::new();
        for (number, fact) in facts.into_iter().enumerate() {
            let client_in = |table: &ClientTable<usize>, slot| table.client(slot).map(|(&id, need)| (id, need));
            match fact {
                Fact::Accepted => {
                    let id = model.len();
                    let was_full = open.len() == CLIENT_COUNT_MAX;
                    let lingers = |table: &ClientTable<usize>, id: usize| {
                        table.clients().any(|(_, &other, need)| other == id && need == ClientNeed::Discard)
                            && !streams.contains(&id)
                    };
                    let longest_silent = |ids: &mut dyn Iterator<Item = usize>| ids.min_by_key(|&id| model[id].1);
                    let expected = longest_silent(&mut open.iter().copied().filter(|&id| lingers(&table, id)))
                        .or_else(|| longest_silent(&mut open.iter().copied()));
                    let (slot, evicted) = table.accepted(id, now);
                    prop_assert_eq!(evicted, expected.filter(|_| was_full));
                    evicted.map(|id| open.remove(&id));
                    prop_assert_eq!(client_in(&table, slot), Some((id, ClientNeed::Request)));
                    open.insert(id);
                    model.push((now, number));
                }
                Fact::Received(slot, len) => if let Some((id, ClientNeed::Request | ClientNeed::Discard)) = client_in(&table, slot) {
                    let len = len.min(table.room(slot));
                    table.received(slot, &vec![b'x'; len]);
                    model[id].1 = number;
                }
                Fact::Answered(slot, len) => if let Some((_, ClientNeed::Request)) = client_in(&table, slot) {
                    for id in table.answered(slot, vec![b'x'; len]) {
                        prop_assert!(open.remove(&id));
                    }
                    prop_assert_eq!(table.unsent(slot).len(), len);
                }
                Fact::Streams(slot) => if let Some((id, ClientNeed::Request)) = client_in(&table, slot) {
                    let open_streams = streams.intersection(&open).count();
                    prop_assert_eq!(table.has_stream_slot(), open_streams < STREAM_COUNT_MAX);
                    if table.has_stream_slot() {
                        for id in table.streams(slot, b"head".into(), now) {
                            prop_assert!(open.remove(&id));
                        }
                        streams.insert(id);
                        model[id].0 = now;
                    }
                }
                Fact::Event(len) => if table.takes_event(now) {
                    table.add_event(&vec![b'x'; len]);
                }
                Fact::Sent(slot, len) => if let Some((id, ClientNeed::Send)) = client_in(&table, slot) {
                    let rest = table.unsent(slot).len();
                    let len = len.min(rest);
                    prop_assert_eq!(table.sent(slot, len, now), len == rest && !streams.contains(&id));
                    model[id].1 = number;
                    if len == rest && streams.contains(&id) {
                        model[id].0 = now;
                    }
                }
                Fact::Closed(slot) => if let Some(id) = table.closed(slot) {
                    open.remove(&id);
                }
                Fact::Passed(ms) => {
                    let deadline = table.deadline();
                    now = now.after(ms);
                    let expired = table.expired(now);
                    prop_assert!(expired.is_empty() || deadline.is_some_and(|at| at <= now));
                    for id in expired {
                        prop_assert!(open.remove(&id));
                    }
                    prop_assert!(open.iter().all(|&id| now < model[id].0.after(LIFETIME_MS)));
                }
            }
            prop_assert_eq!(table.clients().map(|(_, &id, _)| id).collect::<std::collections::BTreeSet<_>>(), open.clone());
            prop_assert!(open.len() <= CLIENT_COUNT_MAX);
            prop_assert!(table.unsent_len() <= UNSENT_LEN_MAX, "each response here is shorter");
            prop_assert!((0..CLIENT_COUNT_MAX).all(|slot| table.request(slot).len() <= REQUEST_LEN_MAX));
        }
    }
}
