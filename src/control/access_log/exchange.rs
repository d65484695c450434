//! An exchange, put together from what its connection has left of it.
//!
//! ```text
//! begun 0..137 ─▶ begun 137..280 ─▶ sent 137 ─▶ sent 200, the last
//!                                   └ the first is over          └ the second was cut short by 80 bytes
//! ```

use std::{collections::VecDeque, mem};
use tarpon_conn::{Begun, Record, Sent};

/// Connections of one worker that are told apart: more than there are descriptors for, as fs.nr_open is usually.
const NUMBER_MAX: usize = 1 << 22;

/// What happens to an exchange.
#[derive(Clone, Copy, Debug)]
pub(super) enum ExchangeStep<'a> {
    /// Its response is queued.
    Begun(Begun<'a>),
    /// It is over.
    Over(Exchange<'a>),
}

/// An exchange that is over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exchange<'a> {
    pub(super) begun: Begun<'a>,
    /// From the request's head to the end of the response, in milliseconds.
    pub(super) took_ms: u64,
    /// Bytes of content that have left.
    pub(super) content_len: u64,
    /// The client did not get the whole response, as far as is known here: what the kernel has taken counts as sent.
    pub(super) cut: bool,
}

/// Exchanges under way, of the connections of one worker.
#[derive(Default)]
pub(super) struct Exchanges {
    /// For each number of a connection those that have begun, as records; the oldest first.
    begun: Vec<VecDeque<Vec<u8>>>,
    /// Records that are no longer needed, for the sake of their memory.
    free: Vec<Vec<u8>>,
}

/// Records kept for their memory: as many as may become free at once, of a few hundred bytes each.
const FREE_COUNT_MAX: usize = 1024;

impl Exchanges {
    /// Reads records, and tells what has happened by them.
    pub(super) fn read(&mut self, mut bytes: &[u8], mut happens: impl FnMut(ExchangeStep<'_>)) {
        while let Some((record, len)) = Record::read(bytes) {
            let (front, rest) = bytes.split_at(len);
            match record {
                Record::Begun(begun) => {
                    self.begin(&begun, front, &mut happens);
                    happens(ExchangeStep::Begun(begun));
                }
                Record::Sent(sent) => self.sent(sent, &mut happens),
            }
            bytes = rest;
        }
        debug_assert!(bytes.is_empty(), "records are given whole");
    }

    /// No record will come any more: tells of all that are under way.
    pub(super) fn end(&mut self, mut happens: impl FnMut(ExchangeStep<'_>)) {
        for mut begun in mem::take(&mut self.begun) {
            begun.drain(..).for_each(|record| tell(&record, None, &mut happens));
        }
    }

    fn begin(&mut self, begun: &Begun<'_>, record: &[u8], happens: &mut impl FnMut(ExchangeStep<'_>)) {
        let number = begun.accepted.number as usize;
        // No process has so many connections: whoever wrote this was taken over.
        if number >= NUMBER_MAX {
            return;
        }
        if self.begun.len() <= number {
            self.begun.resize_with(number + 1, VecDeque::new);
        }
        let queue = &mut self.begun[number];
        // One that seems to end behind where this begins is of a connection that is gone, and whose last record was lost.
        let is_stale = |before: &Vec<u8>| read(before).is_some_and(|before| before.end > begun.at);
        while queue.back().is_some_and(is_stale) {
            queue.drain(..).for_each(|record| tell(&record, None, happens));
        }
        let mut kept = self.free.pop().unwrap_or_default();
        kept.extend_from_slice(record);
        queue.push_back(kept);
    }

    fn sent(&mut self, sent: Sent, happens: &mut impl FnMut(ExchangeStep<'_>)) {
        let Some(queue) = self.begun.get_mut(sent.number as usize) else { return };
        let is_over = |record: &Vec<u8>| sent.last || read(record).is_none_or(|begun| begun.end <= sent.len);
        while queue.front().is_some_and(is_over) {
            let mut record = queue.pop_front().expect("one is over");
            tell(&record, Some(sent), happens);
            if self.free.len() < FREE_COUNT_MAX {
                record.clear();
                self.free.push(record);
            }
        }
    }
}

fn read(record: &[u8]) -> Option<Begun<'_>> {
    match Record::read(record) {
        Some((Record::Begun(begun), _)) => Some(begun),
        _ => None,
    }
}

/// Tells that an exchange is over, with what is known of its end. `None`: nothing is.
fn tell(record: &[u8], sent: Option<Sent>, happens: &mut impl FnMut(ExchangeStep<'_>)) {
    let Some(begun) = read(record) else { return };
    let (len, tick) = sent.map_or((begun.at, begun.tick), |sent| (sent.len, sent.tick));
    let missing = begun.end.saturating_sub(len);
    happens(ExchangeStep::Over(Exchange {
        begun,
        took_ms: tick.0.saturating_sub(begun.tick.0),
        content_len: begun.content_len.saturating_sub(missing),
        cut: missing > 0,
    }));
}
