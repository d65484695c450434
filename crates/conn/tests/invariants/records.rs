//! The records for the log: every exchange begun is ended once, and its line does not depend on how the bytes left.

use super::{
    properties::{cuts, requests},
    sites::{OTHER, sim, sim_of},
    twice_the_cases,
};
use proptest::{collection::vec, prelude::*};
use std::{collections::HashMap, num::NonZeroU32};
use tarpon_conn::{
    Close, ExchangeId, Record, Recording, Records, SiteId,
    sim::{Cuts, Sim},
};

/// A line of a log: request line, status, length of the content sent, whether the response is complete.
type Line = (Vec<u8>, u16, u64, bool);

/// Joins the records of a simulation.
#[derive(Default)]
struct Joined {
    /// By place: the id, the line so far.
    open: HashMap<u32, (ExchangeId, Line)>,
    lines: Vec<Line>,
}

impl Joined {
    /// Takes all records out of the simulation.
    fn take(&mut self, sim: &mut Sim) {
        let mut bytes = sim.records.bytes();
        while let Some((record, len)) = Record::read(bytes) {
            bytes = &bytes[len..];
            match record {
                Record::Start(start) => {
                    let line = (start.line.bytes.to_vec(), start.status, start.content_len, true);
                    let before = self.open.insert(start.id.place, (start.id, line));
                    assert_eq!(before, None, "an exchange begins at the place of an open one");
                }
                Record::End(end) => {
                    let (id, line) = self.open.remove(&end.id.place).expect("only an open exchange ends");
                    assert_eq!(id, end.id);
                    let (text, status, content_len, _) = line;
                    assert!(end.content_len <= content_len, "{} of {content_len} bytes", end.content_len);
                    assert!(!end.is_complete || end.content_len == content_len, "complete, but not whole");
                    self.lines.push((text, status, end.content_len, end.is_complete));
                }
            }
        }
        assert!(bytes.is_empty(), "the records are whole");
        assert_eq!(sim.records.take_lost(), 0, "the buffer has room");
        sim.records.clear();
    }
}

proptest! {
    #![proptest_config(twice_the_cases())]

    /// With partial sends, pipelining, time-outs, an eviction, a stop and a swap: every exchange begun is ended once, at the latest when the
    /// connection closes.
    #[test]
    fn every_exchange_begun_is_ended_once(
        bytes in requests(),
        ops in vec((0u8..7, 0usize..200, 0u64..40_000), 0..60),
        several: bool,
        heads: bool,
    ) {
        let mut sim = recorded(sim_of(several), heads);
        let (mut joined, mut bytes) = (Joined::default(), &bytes[..]);
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
                _ if sim.close() == Close::Both => {}
                _ if amount < 3 => sim.stop(),
                _ if amount < 6 => sim.drain(),
                _ if amount < 9 => sim.evict(),
                _ if amount < 20 => { sim.sites.swap(SiteId::FIRST, OTHER.clone()); }
                _ => { sim.step(Cuts { read: usize::MAX, send: 20 * amount + 1 }); }
            }
            sim.sites.retire().for_each(drop);
            joined.take(&mut sim);
        }
        sim.client_ends();
        while sim.step(Cuts::NONE) {
            joined.take(&mut sim);
        }
        prop_assert_eq!(sim.close(), Close::Both);
        prop_assert!(joined.open.is_empty(), "after the close {:?} are open", joined.open);
        let aborted_count = joined.lines.iter().filter(|(.., is_complete)| !is_complete).count();
        prop_assert!(aborted_count as u64 <= sim.counters.aborted.get());
    }

    #[test]
    fn a_line_does_not_depend_on_how_the_bytes_left(bytes in requests(), cuts in vec(cuts(), 1..60), several: bool) {
        let lines = |cuts: &[Cuts]| {
            let mut sim = recorded(sim_of(several), false);
            let mut joined = Joined::default();
            sim.client_sends(&bytes);
            sim.client_ends();
            let mut cuts = cuts.iter().chain(std::iter::repeat(cuts.last().unwrap_or(&Cuts::NONE)));
            while sim.step(*cuts.next().expect("endless")) {
                joined.take(&mut sim);
            }
            (joined.lines, sim.wire)
        };
        let ((whole, wire), (cut, _)) = (lines(&[Cuts::NONE]), lines(&cuts));
        prop_assert!(whole.iter().all(|(.., is_complete)| *is_complete));
        prop_assert_eq!(String::from_utf8_lossy(&wire).matches("HTTP/1.1 ").count(), whole.len());
        prop_assert_eq!(whole.iter().map(known).collect::<Vec<_>>(), cut.iter().map(known).collect::<Vec<_>>());
    }
}

/// Returns what is known of a line for any cuts: of a refused request, the recorded part is what had arrived.
fn known((text, status, content_len, _): &Line) -> (Option<&[u8]>, u16, u64) {
    ((*status < 400).then_some(text), *status, *content_len)
}

/// The case, the bytes sent before the abort, and the content sent of each of two pipelined responses, with whether it is complete.
type AbortedCase = (&'static str, usize, [(u64, bool); 2]);

#[test]
fn an_aborted_response_counts_the_content_that_was_sent() {
    let head_len = {
        let mut sim = sim();
        sim.client_sends(b"HEAD /middle HTTP/1.1\r\nHost: a\r\n\r\n");
        sim.run(Cuts::NONE);
        sim.wire.len()
    };
    let whole_len = head_len + 20_000;
    #[rustfmt::skip]
    let cases: &[AbortedCase] = &[
        // case                         sent            content of each of two pipelined responses, complete
        ("nothing",                     0,              [(0, false), (0, false)]),
        ("part of the head",            9,              [(0, false), (0, false)]),
        ("the head",                    head_len,       [(0, false), (0, false)]),
        ("part of the content",         head_len + 123, [(123, false), (0, false)]),
        ("all but one byte",            whole_len - 1,  [(19_999, false), (0, false)]),
        ("the first",                   whole_len,      [(20_000, true), (0, false)]),
        ("part of the second head",     whole_len + 9,  [(20_000, true), (0, false)]),
        ("part of the second content",  whole_len + head_len + 1, [(20_000, true), (1, false)]),
        ("both",                        2 * whole_len,  [(20_000, true), (20_000, true)]),
    ];
    for &(name, sent, want) in cases {
        let (mut sim, mut joined) = (recorded(sim(), false), Joined::default());
        sim.client_sends(&b"GET /middle HTTP/1.1\r\nHost: a\r\n\r\n".repeat(2));
        sim.run(Cuts { read: usize::MAX, send: 0 });
        if sent > 0 {
            sim.step(Cuts { read: usize::MAX, send: sent });
        }
        sim.evict();
        sim.run(Cuts { read: usize::MAX, send: 0 });
        joined.take(&mut sim);
        let found: Vec<_> = joined.lines.iter().map(|line| (line.2, line.3)).collect();
        // With all bytes sent the connection is idle, and lives on.
        assert_eq!((found.as_slice(), joined.open.len()), (&want[..], 0), "{name}");
    }
}

/// Records all exchanges of both sites.
pub(crate) fn recorded(mut sim: Sim, heads: bool) -> Sim {
    sim.records = Records::new(Recording { one_in: [Some(NonZeroU32::MIN); 2].into(), heads, seed: 42 });
    sim
}
