//! Joins the records of a connection into exchanges.
//!
//! ```text
//! request 0..137 ─▶ request 137..280 ─▶ progress 137              ─▶ progress 200, last
//!                                       └ the first exchange ends     └ the second ends, 80 bytes short
//! ```

use std::{collections::VecDeque, mem};
use tarpon_conn::{ProgressRecord, Record, RequestRecord};

/// The largest connection number of a worker: above the usual fs.nr_open, so above the number of descriptors.
const NUMBER_MAX: usize = 1 << 22;

/// A step in the life of an exchange.
#[derive(Clone, Copy, Debug)]
pub(super) enum ExchangeStep<'a> {
    /// Its response is queued.
    Started(RequestRecord<'a>),
    /// The exchange has ended.
    Ended(Exchange<'a>),
}

/// An exchange that has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exchange<'a> {
    pub(super) begun: RequestRecord<'a>,
    /// From the request's head to the end of the response, in milliseconds.
    pub(super) took_ms: u64,
    /// Bytes of content that were sent.
    pub(super) content_len: u64,
    /// The response was not sent completely. Bytes that the kernel has accepted count as sent.
    pub(super) cut: bool,
}

/// Exchanges under way on the connections of one worker.
#[derive(Default)]
pub(super) struct Exchanges {
    /// By the number of the connection: the records of its started exchanges, oldest first.
    started: Vec<VecDeque<Vec<u8>>>,
    /// Empty buffers for records.
    spare: Vec<Vec<u8>>,
}

/// The largest number of spare buffers, of a few hundred bytes each: as many as may become free at once.
const SPARE_COUNT_MAX: usize = 1024;

impl Exchanges {
    /// Reads records, and calls `on_step` for each step.
    pub(super) fn read(&mut self, mut bytes: &[u8], mut on_step: impl FnMut(ExchangeStep<'_>)) {
        while let Some((record, len)) = Record::read(bytes) {
            let (front, rest) = bytes.split_at(len);
            match record {
                Record::Request(begun) => {
                    self.start(&begun, front, &mut on_step);
                    on_step(ExchangeStep::Started(begun));
                }
                Record::Progress(sent) => self.sent(sent, &mut on_step),
            }
            bytes = rest;
        }
        debug_assert!(bytes.is_empty(), "a batch has whole records");
    }

    /// Ends all exchanges under way: no more records arrive.
    pub(super) fn end(&mut self, mut on_step: impl FnMut(ExchangeStep<'_>)) {
        for mut begun in mem::take(&mut self.started) {
            begun.drain(..).for_each(|record| emit_end(&record, None, &mut on_step));
        }
    }

    fn start(
        &mut self,
        begun: &RequestRecord<'_>,
        record: &[u8],
        on_step: &mut impl FnMut(ExchangeStep<'_>),
    ) {
        let number = begun.accepted.number as usize;
        // No process has so many connections: the worker that wrote this is compromised.
        if number >= NUMBER_MAX {
            return;
        }
        if self.started.len() <= number {
            self.started.resize_with(number + 1, VecDeque::new);
        }
        let queue = &mut self.started[number];
        // An exchange that ends after the start of this one belongs to an earlier connection, whose last record was dropped.
        let is_stale = |before: &Vec<u8>| read(before).is_some_and(|before| before.end > begun.at);
        while queue.back().is_some_and(is_stale) {
            queue.drain(..).for_each(|record| emit_end(&record, None, on_step));
        }
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.extend_from_slice(record);
        queue.push_back(copy);
    }

    fn sent(&mut self, sent: ProgressRecord, on_step: &mut impl FnMut(ExchangeStep<'_>)) {
        let Some(queue) = self.started.get_mut(sent.number as usize) else { return };
        let has_ended =
            |record: &Vec<u8>| sent.last || read(record).is_none_or(|begun| begun.end <= sent.len);
        while queue.front().is_some_and(has_ended) {
            let mut record = queue.pop_front().expect("the queue has a front");
            emit_end(&record, Some(sent), on_step);
            if self.spare.len() < SPARE_COUNT_MAX {
                record.clear();
                self.spare.push(record);
            }
        }
    }
}

fn read(record: &[u8]) -> Option<RequestRecord<'_>> {
    match Record::read(record) {
        Some((Record::Request(begun), _)) => Some(begun),
        _ => None,
    }
}

/// Emits the end of an exchange. `sent` is `None` if its end is unknown.
fn emit_end(record: &[u8], sent: Option<ProgressRecord>, on_step: &mut impl FnMut(ExchangeStep<'_>)) {
    let Some(begun) = read(record) else { return };
    let (len, tick) = sent.map_or((begun.at, begun.tick), |sent| (sent.len, sent.tick));
    let missing = begun.end.saturating_sub(len);
    on_step(ExchangeStep::Ended(Exchange {
        begun,
        took_ms: tick.0.saturating_sub(begun.tick.0),
        content_len: begun.content_len.saturating_sub(missing),
        cut: missing > 0,
    }));
}
