//! Joins the records of a worker into exchanges, by their ids.
//!
//! ```text
//! start 0 ─▶ start 1 ─▶ end 0                   ─▶ start 0                         ─▶ end 7
//!                       └ exchange 0 has ended     └ a later exchange, same place     └ its start was dropped: ignored
//! ```
//!
//! A full ring drops whole batches. If the end of an exchange was dropped, the exchange is given up when another one starts at its place: so
//! the number of those that wait is bounded by the places of a worker.

use std::mem;
use tarpon_conn::{OPEN_COUNT_MAX, Record, RequestEnd, RequestStart};

/// A step in the life of an exchange.
#[derive(Clone, Copy, Debug)]
pub(super) enum ExchangeStep<'a> {
    /// Its response is queued.
    Started(RequestStart<'a>),
    /// The exchange has ended.
    Ended(Exchange<'a>),
}

/// An exchange that has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exchange<'a> {
    pub(super) start: RequestStart<'a>,
    /// From the request's head to the end of the response, in milliseconds.
    pub(super) took_ms: u64,
    /// Bytes of content that were sent.
    pub(super) content_len: u64,
    /// Whether the whole response was sent. Bytes that the kernel has accepted count as sent.
    pub(super) is_complete: bool,
}

/// Open exchanges of one worker.
#[derive(Default)]
pub(super) struct Exchanges {
    /// By place: the start record of the open exchange; empty without one.
    open: Vec<Vec<u8>>,
}

/// The number of places that keep their buffer, of a few hundred bytes, for the next exchange. Workers use the first places most.
const KEPT_COUNT: usize = 1024;

impl Exchanges {
    /// Reads records, and calls `on_step` for each step.
    pub(super) fn read(&mut self, mut bytes: &[u8], mut on_step: impl FnMut(ExchangeStep<'_>)) {
        while let Some((record, len)) = Record::read(bytes) {
            let (front, rest) = bytes.split_at(len);
            match record {
                Record::Start(start) => {
                    self.start(&start, front, &mut on_step);
                    on_step(ExchangeStep::Started(start));
                }
                Record::End(end) => self.end(end, &mut on_step),
            }
            bytes = rest;
        }
        debug_assert!(bytes.is_empty(), "a batch has whole records");
    }

    /// Gives up all open exchanges: no more records arrive.
    pub(super) fn give_up_all(&mut self, mut on_step: impl FnMut(ExchangeStep<'_>)) {
        for record in mem::take(&mut self.open) {
            emit_end(&record, None, &mut on_step);
        }
    }

    fn start(&mut self, start: &RequestStart<'_>, record: &[u8], on_step: &mut impl FnMut(ExchangeStep<'_>)) {
        let place = start.id.place as usize;
        // Only a compromised worker writes such a place.
        if place >= OPEN_COUNT_MAX {
            return;
        }
        if self.open.len() <= place {
            self.open.resize_with(place + 1, Vec::new);
        }
        let open = &mut self.open[place];
        emit_end(open, None, on_step);
        open.clear();
        open.extend_from_slice(record);
    }

    fn end(&mut self, end: RequestEnd, on_step: &mut impl FnMut(ExchangeStep<'_>)) {
        let place = end.id.place as usize;
        let Some(open) = self.open.get_mut(place) else { return };
        if start_of(open).is_none_or(|start| start.id != end.id) {
            return;
        }
        emit_end(open, Some(end), on_step);
        match place {
            0..KEPT_COUNT => open.clear(),
            _ => *open = Vec::new(),
        }
    }
}

/// Decodes a start record. `None`: the place is free.
fn start_of(record: &[u8]) -> Option<RequestStart<'_>> {
    match Record::read(record) {
        Some((Record::Start(start), _)) => Some(start),
        _ => None,
    }
}

/// Emits the end of the exchange with this start record. `end` is `None` if its end is unknown.
fn emit_end(record: &[u8], end: Option<RequestEnd>, on_step: &mut impl FnMut(ExchangeStep<'_>)) {
    let Some(mut start) = start_of(record) else { return };
    start.status = end.and_then(|end| end.status).unwrap_or(start.status);
    start.is_sampled |= end.is_some_and(|end| end.is_failure());
    on_step(ExchangeStep::Ended(Exchange {
        start,
        took_ms: end.map_or(0, |end| end.tick.0.saturating_sub(start.tick.0)),
        content_len: end.map_or(0, |end| end.content_len),
        is_complete: end.is_some_and(|end| end.is_complete),
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};
    use std::{io::Cursor, num::NonZeroU32};
    use tarpon_conn::{
        AcceptedClient, BufRange, ConnResources, Connection, Counters, Limits, Pipes, Pool, Recording,
        Records, ResponsePrefixes, SectionBuffer, Sites, Tick,
    };

    /// The number of connections, and so of exchanges that are open at once.
    const CONN_COUNT: usize = 4;

    proptest! {
        /// Connections take turns, and batches are lost. Every start that arrives ends once, with its own end or with none.
        #[test]
        fn lost_batches_mix_no_exchanges(events in vec((0..CONN_COUNT, any::<bool>()), 1..60)) {
            let batches = batches(&events.iter().map(|event| event.0).collect::<Vec<_>>());
            let mut exchanges = Exchanges::default();
            let (mut starts, mut lines) = (Vec::new(), Vec::new());
            let mut on_step = |step: ExchangeStep<'_>| match step {
                ExchangeStep::Started(start) => starts.push(start.tick.0),
                ExchangeStep::Ended(Exchange { start, took_ms, content_len, is_complete }) => {
                    lines.push((start.tick.0, took_ms, content_len, is_complete));
                }
            };
            for (batch, (_, arrives)) in batches.iter().zip(&events) {
                if *arrives {
                    exchanges.read(batch, &mut on_step);
                }
            }
            prop_assert!(exchanges.open.len() <= CONN_COUNT, "{} places", exchanges.open.len());
            exchanges.give_up_all(&mut on_step);
            // The tick of an event is its index.
            let mut want = Vec::new();
            for (begin, (conn, arrives)) in events.iter().enumerate() {
                let before = events[..begin].iter().filter(|event| event.0 == *conn).count();
                if before % 2 == 1 || !arrives {
                    continue;
                }
                let end = (begin + 1..events.len()).find(|&index| events[index].0 == *conn);
                want.push(match end.filter(|&index| events[index].1) {
                    Some(end) => (begin as u64, (end - begin) as u64, 5, true),
                    None => (begin as u64, 0, 0, false),
                });
            }
            lines.sort_unstable();
            prop_assert_eq!(&lines, &want);
            prop_assert_eq!(starts, want.iter().map(|line| line.0).collect::<Vec<_>>());
        }
    }

    #[test]
    fn an_invalid_place_from_a_worker_is_harmless() {
        let mut batches = batches(&[0, 0]);
        // The id lies behind kind, version, flags, address, TLS, trace, number, site and two times; in the end record behind kind and flag.
        for (batch, at) in batches.iter_mut().zip([3 + 17 + 3 + 16 + 2 * 4 + 2 * 8, 2]) {
            assert_eq!(batch[at..][..8], [0; 8], "the first place, never used before");
            batch[at..][..4].fill(0xff);
        }
        let (mut exchanges, mut end_count) = (Exchanges::default(), 0);
        for batch in &batches {
            exchanges.read(batch, |step| end_count += usize::from(matches!(step, ExchangeStep::Ended(_))));
        }
        assert_eq!((end_count, exchanges.open.len()), (0, 0));
    }

    /// Returns the records of events, a batch for each: a connection gets a request, or its response is sent.
    fn batches(conns: &[usize]) -> Vec<Vec<u8>> {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("index.html"), "hello").expect("a file");
        let (mut image, options) = (Cursor::new(Vec::new()), tarpon_pack::PackOptions::new(0));
        tarpon_pack::pack_dir(dir.path(), &mut image, &options, &mut Default::default()).expect("an image");
        let image = tarpon_site::Image::new(image.into_inner().into()).expect("an image");
        let recording = Recording { one_in: [Some(NonZeroU32::MIN)].into(), heads: false, seed: 42 };
        let (mut sites, mut pool) = (Sites::new(image, Limits::default()), Pool::new(64));
        let (prefixes, counters, mut records) =
            (ResponsePrefixes::new(0), Counters::default(), Records::new(recording));
        let mut cx = ConnResources {
            sites: &mut sites,
            pool: &mut pool,
            prefixes: &prefixes,
            now: Tick(0),
            now_us: 0,
            counters: &counters,
            records: &mut records,
            pipes: &mut Pipes::default(),
            sections: &mut SectionBuffer::default(),
            hot_paths: None,
        };
        let accepted = |number| AcceptedClient { number: number as u32, ..AcceptedClient::default() };
        let mut open: Vec<_> =
            (0..CONN_COUNT).map(|number| Connection::new(&mut cx, accepted(number))).collect();
        let request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        let buf = cx.pool.take().expect("a buffer");
        cx.pool.buf_mut(buf)[..request.len()].copy_from_slice(request);
        let mut batches = Vec::new();
        for (tick, &number) in conns.iter().enumerate() {
            cx.now_us = tick as u64 * 1_000;
            let conn = &mut open[number];
            match conn.outbox().iter().map(|span| span.len()).sum() {
                0 => assert!(
                    conn.received(&mut cx, BufRange { buf, at: 0, len: request.len() as u32 }) > 0,
                    "the connection takes the request"
                ),
                len => conn.sent(&mut cx, len),
            }
            batches.push(cx.records.bytes().to_vec());
            cx.records.clear();
        }
        batches
    }
}
