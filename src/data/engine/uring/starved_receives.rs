//! Starved receives: those that the kernel ended because no provided buffer was left. They start again in turn: first those that have a part
//! of a request in a buffer of the pool, then the longest waiting.
//!
//! If all started again at once, each with more bytes than a buffer holds, then the kernel would end most of them again, and its full
//! completion queue would let each of the others receive one buffer only. So thousands of clients would have a part of their request in a
//! buffer of the pool, until these ran low.

use super::buffers::BufferGroup;
use std::{collections::VecDeque, mem};

/// The queue of starved receives, by slot.
#[derive(Default)]
pub(super) struct StarvedReceives {
    /// These have received a part of a request.
    partial: VecDeque<u32>,
    others: VecDeque<u32>,
    /// A receive has filled a whole buffer since the last turn, so more may follow.
    has_full_buffer: bool,
}

impl StarvedReceives {
    pub(super) fn push(&mut self, slot: u32, is_partial: bool) {
        if is_partial { &mut self.partial } else { &mut self.others }.push_back(slot);
    }

    pub(super) fn pop(&mut self) -> Option<u32> {
        self.partial.pop_front().or_else(|| self.others.pop_front())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.partial.is_empty() && self.others.is_empty()
    }

    /// Notes that a receive has filled a whole buffer.
    #[inline]
    pub(super) fn note_full(&mut self) {
        self.has_full_buffer = true;
    }

    /// Starts a turn. Returns how many receives may start again, so that the provided buffers suffice for all of them. `buf_len`: the length of a
    /// buffer of the pool, in which the longest head fits.
    pub(super) fn start_turn(&mut self, buf_len: usize) -> usize {
        let buffers = usize::from(USUAL.count);
        let has_long_requests = mem::take(&mut self.has_full_buffer) || !self.partial.is_empty();
        if has_long_requests { buffers / buf_len.div_ceil(USUAL.len) } else { buffers }
    }
}

/// The kernel receives the requests of clients into these.
const USUAL: BufferGroup = BufferGroup::USUAL;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_requests_make_turns_short() {
        for (buf_len, short) in [(17 * 1024, 28), (65 * 1024, 7)] {
            let mut starved = StarvedReceives::default();
            starved.push(7, false);
            starved.push(3, true);
            assert_eq!(starved.start_turn(buf_len), short, "one has a part of a request");
            assert_eq!([starved.pop(), starved.pop(), starved.pop()], [Some(3), Some(7), None]);
            assert_eq!(starved.start_turn(buf_len), 256);
            starved.note_full();
            assert_eq!(starved.start_turn(buf_len), short);
            assert_eq!(starved.start_turn(buf_len), 256);
        }
    }
}
