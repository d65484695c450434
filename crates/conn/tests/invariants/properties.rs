//! Properties for any bytes, cuts and times.

use super::{
    records::recorded,
    sites::{LARGE_LEN, sim_of, sim_on_disk, site},
    twice_the_cases,
};
use proptest::{
    collection::vec,
    prelude::*,
    sample::{Index, select},
};
use tarpon_conn::{
    Close, RECORD_PLAIN_LEN_MAX, SiteId,
    sim::{Cuts, Sim, Through},
};

proptest! {
    #![proptest_config(twice_the_cases())]

    #[test]
    fn the_bytes_sent_do_not_depend_on_cuts(bytes in requests(), cuts in vec(cuts(), 1..60), several: bool, through in through()) {
        let (whole, _) = answer(sim_of(several), &bytes, &[Cuts::NONE]);
        let (cut, _) = answer(sim_of(several).through(&through), &bytes, &cuts);
        prop_assert!(whole == cut, "{} and {}", whole.escape_ascii(), cut.escape_ascii());
    }

    #[test]
    fn the_bytes_sent_do_not_depend_on_residency(bytes in requests(), cuts in vec(cuts(), 1..60), several: bool, through in through()) {
        let (resident, _) = answer(sim_of(several), &bytes, &[Cuts::NONE]);
        let (loaded, _) = answer(sim_on_disk(several).through(&through), &bytes, &cuts);
        prop_assert!(resident == loaded, "{} and {}", resident.escape_ascii(), loaded.escape_ascii());
    }

    /// Without records, usual exchanges are answered at once; with them, in steps.
    #[test]
    fn the_bytes_sent_do_not_depend_on_records(bytes in requests(), cuts in vec(cuts(), 1..60), several: bool, on_disk: bool) {
        let [without, with] = [false, true].map(|is_recorded| {
            let sim = if on_disk { sim_on_disk(several) } else { sim_of(several) };
            let mut sim = if is_recorded { recorded(sim, false) } else { sim };
            let answered = answer_all(&mut sim, &bytes, &cuts);
            let counts: Vec<_> = sim.counters.each().map(|(name, counter)| (name.to_string(), counter.get())).collect();
            (answered, sim.deadline_ms(), counts)
        });
        prop_assert_eq!(without, with);
    }

    #[test]
    fn a_client_that_closes_its_sending_side_still_gets_all_responses(bytes in requests(), cuts in cuts(), several: bool, through in through()) {
        let (whole, _) = answer(sim_of(several), &bytes, &[Cuts::NONE]);
        let mut sim = sim_of(several).through(&through);
        sim.client_sends(&bytes);
        sim.client_ends();
        sim.run(cuts);
        prop_assert!(sim.wire == whole);
        prop_assert_eq!(sim.close(), Close::Both, "the connection closes");
        prop_assert_eq!(sim.client_has_alert(), !matches!(through, Through::Plain), "a sealing transport says so");
    }

    /// For any order of bytes, time, sends, a stop and a swap: the invariants hold, and at last the connection closes.
    #[test]
    fn the_invariants_hold_for_any_order_of_events(
        bytes in requests(),
        ops in vec((0u8..6, 0usize..200, 0u64..40_000), 0..60),
        several: bool,
        through in through(),
    ) {
        let mut sim = sim_of(several).through(&through);
        let mut bytes = &bytes[..];
        for (op, amount, ms) in ops {
            match op {
                0 | 1 => {
                    let (now, later) = bytes.split_at(amount.min(bytes.len()));
                    sim.client_sends(now);
                    bytes = later;
                }
                2 => sim.run(Cuts { read: amount + 1, send: 0 }),
                3 => { sim.step(Cuts { read: amount + 1, send: amount + 1 }); }
                4 => sim.pass(ms),
                _ if amount < 3 => sim.stop(),
                _ if amount < 6 => sim.drain(),
                _ if amount < 20 => { sim.sites.swap(SiteId::FIRST, site("changed")); }
                _ => sim.run(Cuts { read: amount + 1, send: amount + 1 }),
            }
            sim.sites.retire().for_each(drop);
        }
        sim.client_ends();
        sim.run(Cuts::NONE);
        prop_assert_eq!(sim.close(), Close::Both);
        prop_assert_eq!((sim.bufs_held(), sim.sites.holder_count()), (0, 0));
    }

    /// Each head gets one response, of at most the largest length. Bytes that are no head get one, the last. The number of steps is linear
    /// in the bytes.
    #[test]
    fn no_request_costs_more_than_the_largest_response(bytes in requests(), cuts in cuts(), several: bool, through in through()) {
        let mut sim = sim_of(several).through(&through);
        sim.client_sends(&bytes);
        sim.client_ends();
        let heads = bytes.windows(4).filter(|end| end == b"\r\n\r\n").count();
        // A step reads, sends or offers the inbox. After an offer of which the connection consumes nothing, the next step reads or sends.
        // A record has at least 20 plain bytes, and as much overhead at most, the handshake included.
        let wire_factor = if let Through::Plain = through { 1 } else { 2 };
        let records = |plain_len: usize| (wire_factor - 1) * (plain_len / RECORD_LEN_MIN + 9);
        let reads = (wire_factor * bytes.len() + 9).div_ceil(cuts.read) + records(bytes.len());
        let len_max = (heads + 1) * (LARGE_LEN + HEAD_LEN_MAX);
        let sends = (wire_factor * len_max).div_ceil(cuts.send) + records(len_max);
        let steps = (0..2 * (reads + heads + sends) + 9).take_while(|_| sim.step(cuts)).count();
        prop_assert!(!sim.step(cuts), "after {steps} steps the engine still makes progress");
        prop_assert!(sim.wire.len() <= len_max, "{} bytes for {heads} heads", sim.wire.len());
        prop_assert_eq!(sim.close(), Close::Both);
        prop_assert_eq!((sim.bufs_held(), sim.sites.holder_count()), (0, 0));
    }

    /// No connection waits forever: time alone closes each.
    #[test]
    fn time_closes_every_connection(bytes in requests(), cuts in cuts(), reads: bool, several: bool, through in through()) {
        let mut sim = sim_of(several).through(&through);
        sim.client_sends(&bytes);
        sim.run(Cuts { send: if reads { cuts.send } else { 0 }, ..cuts });
        for _ in 0..4 {
            let ms = sim.deadline_ms();
            sim.pass(ms);
            sim.run(Cuts { send: if reads { cuts.send } else { 0 }, ..cuts });
        }
        prop_assert_eq!(sim.close(), Close::Both);
    }
}

/// The length of the longest head of a response: a redirect with a query of 8 KiB.
const HEAD_LEN_MAX: usize = 10_000;

/// Valid and invalid requests, complete or not.
const PIECES: &[&[u8]] = &[
    b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nIf-None-Match: *\r\n\r\n",
    b"HEAD /middle HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /middle HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /empty HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /middle HTTP/1.1\r\nHost: a\r\nRange: bytes=19000-\r\n\r\n",
    b"GET /large HTTP/1.1\r\nHost: a\r\nRange: bytes=-9\r\n\r\n",
    b"GET /large HTTP/1.1\r\nHost: a\r\nRange: bytes=5-6,10-19\r\n\r\n",
    b"GET /large HTTP/1.1\r\nHost: a\r\nRange: bytes=5-6,10-19,30-39,50-59,-1,70-79\r\n\r\n",
    b"GET /middle HTTP/1.1\r\nHost: a\r\nConnection: close\r\nRange: bytes=0-0,2-2,4-4,6-6,8-8,-1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nRange: bytes=5-\r\n\r\n",
    b"GET /dir?query=1 HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /d%69r/../nope HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    b"GET / HTTP/1.0\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 30\r\n\r\nGET /none HTTP/1.1\r\nHost: a\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\nT: u\r\n\r\n",
    b"PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n",
    b"BREW / HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x.b:80\r\n\r\n",
    b"GET http://a/small HTTP/1.1\r\nHost: b\r\n\r\n",
    b"GET /small|?q HTTP/1.1\r\nHost: WWW.b.\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: www.b:8080\r\nContent-Length: 3\r\n\r\nabc",
    b"HEAD / HTTP/1.1\r\nHost: unknown\r\n\r\n",
    b"GET / HTTP/3.0\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\nHost: a\n\n",
    b"\r\n",
    b"GET / HTTP/1.1\r\nHost: a",
    b"\x16\x03\x01",
];

pub(crate) fn requests() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        20 => select(PIECES).prop_map(<[u8]>::to_vec),
        1 => vec(any::<u8>(), 0..40),
        1 => (0usize..20_000).prop_map(|len| [b"GET / HTTP/1.1\r\nHost: a\r\nX: ", vec![b'x'; len].as_slice(), b"\r\n\r\n"].concat()),
    ];
    let whole = vec(piece, 0..12).prop_map(|pieces| pieces.concat());
    let edits = prop_oneof![3 => Just(Vec::new()), 1 => vec(edit(), 1..6)];
    (whole, edits).prop_map(|(mut bytes, edits)| {
        edits.iter().for_each(|edit| edit.apply(&mut bytes));
        bytes
    })
}

/// An edit that may damage a request.
#[derive(Clone, Debug)]
enum Edit {
    Put(Index, u8),
    Remove(Index),
    Double(Index, usize),
    End(Index),
}

fn edit() -> impl Strategy<Value = Edit> {
    let at = any::<Index>;
    let byte = prop_oneof![any::<u8>(), select(b"\r\n \t:,;/%.0fF".as_slice())];
    prop_oneof![
        4 => (at(), byte).prop_map(|(at, byte)| Edit::Put(at, byte)),
        2 => at().prop_map(Edit::Remove),
        2 => (at(), 1usize..60).prop_map(|(at, len)| Edit::Double(at, len)),
        1 => at().prop_map(Edit::End),
    ]
}

impl Edit {
    fn apply(&self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        let at = |at: &Index| at.index(bytes.len());
        match self {
            Edit::Put(place, byte) => {
                let place = at(place);
                bytes[place] = *byte;
            }
            Edit::Remove(place) => {
                bytes.remove(at(place));
            }
            Edit::Double(place, len) => {
                let place = at(place);
                let copy = bytes[place..bytes.len().min(place + len)].to_vec();
                bytes.splice(place..place, copy);
            }
            Edit::End(place) => bytes.truncate(at(place)),
        }
    }
}

pub(crate) fn cuts() -> impl Strategy<Value = Cuts> {
    let read = prop_oneof![1usize..40, Just(100), Just(1_460), Just(usize::MAX)];
    let send = prop_oneof![1usize..40, Just(150), Just(1_460), Just(usize::MAX)];
    (read, send).prop_map(|(read, send)| Cuts { read, send })
}

/// The shortest records of a sealing transport in these properties.
const RECORD_LEN_MIN: usize = 20;

/// No transport in between, or one with records of any, of small and of the largest lengths.
pub(crate) fn through() -> impl Strategy<Value = Through> {
    let lens = select(&[RECORD_LEN_MIN..=RECORD_PLAIN_LEN_MAX, RECORD_LEN_MIN..=1_000][..]);
    prop_oneof![
        2 => Just(Through::Plain),
        2 => (any::<u64>(), lens).prop_map(|(seed, record_lens)| Through::Scrambled { seed, record_lens }),
        1 => Just(Through::LARGEST),
    ]
}

/// Returns the bytes that a client receives for `bytes`, and what the connection closes.
fn answer(mut sim: Sim, bytes: &[u8], cuts: &[Cuts]) -> (Vec<u8>, Close) {
    answer_all(&mut sim, bytes, cuts)
}

fn answer_all(sim: &mut Sim, bytes: &[u8], cuts: &[Cuts]) -> (Vec<u8>, Close) {
    sim.client_sends(bytes);
    for &cuts in cuts {
        sim.step(cuts);
    }
    sim.run(*cuts.last().unwrap_or(&Cuts::NONE));
    (std::mem::take(&mut sim.wire), sim.close())
}
