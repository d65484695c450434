//! The queued responses of a connection whose exchanges are recorded: which of them have been sent.
//!
//! ```text
//! bytes of the connection   ───────────┬──────────────┬──────────────▶
//!                                      └ end          └ end           sent_len passes an end: that exchange has ended
//! ```
//!
//! Responses leave in the order of their requests, so they form a queue. Its entries lie in the table of the worker: an idle connection holds
//! none.

use crate::{
    open_exchanges::NO_PLACE,
    record::{ExchangeEnd, Records},
};

/// The places of the first and the last response.
#[derive(Debug)]
pub(super) struct RecordedResponses {
    oldest: u32,
    newest: u32,
}

impl RecordedResponses {
    pub(super) fn new() -> RecordedResponses {
        RecordedResponses { oldest: NO_PLACE, newest: NO_PLACE }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.oldest == NO_PLACE
    }

    /// Adds the response that was queued last. `end` is its end in the bytes of the connection.
    pub(super) fn push(&mut self, records: &mut Records, place: u32, end: u64, content_len: u64) {
        let row = records.open_exchange(place);
        (row.next, row.response_end, row.content_len) = (NO_PLACE, end, content_len);
        match self.is_empty() {
            true => self.oldest = place,
            false => records.open_exchange(self.newest).next = place,
        }
        self.newest = place;
    }

    /// Ends the exchanges whose responses are among the first `sent_len` bytes of the connection.
    #[inline(never)]
    pub(super) fn sent(&mut self, records: &mut Records, now_us: u64, sent_len: u64) {
        while !self.is_empty() && records.open_exchange(self.oldest).response_end <= sent_len {
            self.end_oldest(records, now_us, sent_len);
        }
    }

    /// Ends all exchanges: the connection sends no more than these bytes.
    pub(super) fn closed(&mut self, records: &mut Records, now_us: u64, sent_len: u64) {
        while !self.is_empty() {
            self.end_oldest(records, now_us, sent_len);
        }
    }

    fn end_oldest(&mut self, records: &mut Records, now_us: u64, sent_len: u64) {
        let (place, row) = (self.oldest, *records.open_exchange(self.oldest));
        let unsent_len = row.response_end.saturating_sub(sent_len);
        // The content is the last part of a response.
        let content_len = row.content_len.saturating_sub(unsent_len);
        records.record_end(place, ExchangeEnd { now_us, content_len, is_complete: unsent_len == 0 });
        self.oldest = row.next;
    }
}
