//! Content that an engine receives straight into buffers of a pipe, without a copy.

use super::{MESSAGE_LEN_MAX, MESSAGE_ROOM, Message, PipeId, Pipes, Side};
use crate::pool::{BufRange, Pool};

/// The maximum number of buffers for one call: together as much as a socket often holds.
pub const CONTENT_PART_COUNT_MAX: usize = 4;

/// Buffers for content, which the engine receives into in their order.
#[derive(Debug)]
#[must_use = "its buffers are given back with what was received"]
pub struct ContentRoom {
    /// Those beyond `count` are empty ranges.
    parts: [BufRange; CONTENT_PART_COUNT_MAX],
    count: usize,
}

/// Content up to this length is copied behind the last content of the pipe if it fits there, so that a backend that sends byte by byte does not
/// take all buffers.
const COPIED_LEN_MAX: usize = 4 * 1024;

impl ContentRoom {
    /// Takes buffers for at most `left` bytes. `None`: the pipe or the pool has no room.
    pub(crate) fn take(
        pipes: &mut Pipes,
        pool: &mut Pool,
        id: PipeId,
        from: Side,
        mut left: u64,
    ) -> Option<ContentRoom> {
        let count_max = pipes.pipe(id).queue_from(from).room(pool).min(CONTENT_PART_COUNT_MAX);
        if count_max == 0 || left == 0 {
            return None;
        }
        let mut part = || {
            let len = left.min(MESSAGE_LEN_MAX as u64);
            let buf = (len > 0).then(|| pool.take_for_response())??;
            left -= len;
            Some(BufRange { buf, at: MESSAGE_ROOM as u32, len: len as u32 })
        };
        let first = part()?;
        let mut room =
            ContentRoom { parts: [BufRange { len: 0, ..first }; CONTENT_PART_COUNT_MAX], count: 1 };
        room.parts[0] = first;
        while room.count < count_max
            && let Some(part) = part()
        {
            room.parts[room.count] = part;
            room.count += 1;
        }
        Some(room)
    }

    /// Returns the ranges to receive into. Some may be empty.
    #[must_use]
    pub fn parts(&self) -> [BufRange; CONTENT_PART_COUNT_MAX] {
        self.parts
    }

    /// Returns the length of all buffers in bytes.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.parts.iter().map(|part| part.len as usize).sum()
    }

    pub(crate) fn release(self, pool: &mut Pool) {
        for part in &self.parts[..self.count] {
            pool.release(part.buf);
        }
    }

    /// Adds the first `len` bytes to a pipe.
    pub(crate) fn push(self, pipes: &mut Pipes, pool: &mut Pool, id: PipeId, from: Side, len: usize) {
        let first = BufRange { len: len as u32, ..self.parts[0] };
        if len <= COPIED_LEN_MAX && pipes.append_data(pool, id, from, first) {
            self.release(pool);
            return;
        }
        let mut left = len as u32;
        for part in &self.parts[..self.count] {
            let data = BufRange { len: left.min(part.len), ..*part };
            left -= data.len;
            if data.len == 0 {
                pool.release(part.buf);
            } else {
                pipes.push(id, from, Message::Data(data));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Tick,
        backend::{BackendId, BackendLimits, BackendRoute},
        pipe::PipeEnd,
        pool::{BUF_LEN, BufId},
    };

    /// A pipe in a pool of which so many buffers are held by others.
    struct FilledPipe {
        pipes: Pipes,
        pool: Pool,
        id: PipeId,
        source: BufId,
        next: u8,
        pushed: Vec<u8>,
    }

    impl FilledPipe {
        fn new(count: u32, held: u32) -> FilledPipe {
            let (mut pipes, mut pool) = (Pipes::default(), Pool::new(count));
            let route = BackendRoute { backend: BackendId(0), limits: BackendLimits::default() };
            let id = pipes.open(0, route, 0, Tick(0));
            for _ in 0..held {
                pool.take().unwrap();
            }
            let source = pool.take().unwrap();
            FilledPipe { pipes, pool, id, source, next: 0, pushed: Vec::new() }
        }

        /// Returns the next `len` bytes of the content.
        fn bytes(&mut self, len: usize) -> Vec<u8> {
            let bytes: Vec<u8> = (0..len).map(|at| self.next.wrapping_add(at as u8)).collect();
            self.next = self.next.wrapping_add(len as u8).wrapping_add(1);
            self.pushed.extend(&bytes);
            bytes
        }

        fn copy(&mut self, len: usize) {
            let bytes = self.bytes(len);
            self.pool.buf_mut(self.source)[..len].copy_from_slice(&bytes);
            let range = BufRange { buf: self.source, at: 0, len: len as u32 };
            let added = self.pipes.push_data(&mut self.pool, self.id, Side::Backend, range);
            assert_eq!(added, Ok(len));
        }

        fn receive(&mut self, len: usize) {
            let FilledPipe { pipes, pool, id, .. } = self;
            let Some(room) = ContentRoom::take(pipes, pool, *id, Side::Backend, u64::MAX) else { return };
            let len = len.min(room.capacity());
            let bytes = self.bytes(len);
            let mut rest = &bytes[..];
            for part in self.pool.ranges_mut(room.parts()) {
                let front;
                (front, rest) = rest.split_at(part.len().min(rest.len()));
                part[..front.len()].copy_from_slice(front);
            }
            room.push(&mut self.pipes, &mut self.pool, self.id, Side::Backend, len);
        }

        fn popped(&mut self) -> Vec<u8> {
            let mut popped = Vec::new();
            while let Some(message) = self.pipes.pop(&self.pool, self.id, Side::Client) {
                if let Message::Data(data) = message {
                    popped.extend_from_slice(self.pool.bytes(data));
                }
                message.release(&mut self.pool);
            }
            popped
        }
    }

    /// The share of a pipe shrinks with each buffer that it takes.
    #[test]
    fn room_that_was_told_suffices_whatever_the_pool_holds() {
        for (count, len) in [8, 16, 48, 256].into_iter().flat_map(|count| [(count, 7_000), (count, BUF_LEN)])
        {
            for held in 0..count - 7 {
                let mut filled = FilledPipe::new(count, held);
                loop {
                    let FilledPipe { pipes, pool, id, .. } = &mut filled;
                    let room = pipes.room(pool, *id, Side::Backend);
                    if room == 0 || pool.free() < 2 {
                        break;
                    }
                    filled.copy(room.min(len));
                }
                assert!(filled.popped() == filled.pushed, "{held} of {count}");
            }
        }
    }

    #[test]
    fn received_content_passes_whatever_its_length_and_the_pool() {
        for count in [8, 48, 256] {
            for held in [0, count / 2, count - 7] {
                for len in [1, 100, COPIED_LEN_MAX, COPIED_LEN_MAX + 1, MESSAGE_LEN_MAX, 40_000, 100_000] {
                    let mut filled = FilledPipe::new(count, held);
                    for _ in 0..20 {
                        filled.receive(len);
                        let room = filled.pipes.room(&filled.pool, filled.id, Side::Backend);
                        filled.copy(room.min(10));
                    }
                    assert!(filled.popped() == filled.pushed, "{len} with {held} of {count}");
                    let FilledPipe { pipes, pool, id, .. } = &mut filled;
                    pipes.push(*id, Side::Backend, Message::End(PipeEnd::Complete));
                    assert_eq!(pool.held(), held as usize + 1);
                }
            }
        }
    }

    #[test]
    fn small_pieces_share_a_buffer() {
        let mut filled = FilledPipe::new(64, 0);
        (0..1_000).for_each(|_| filled.receive(3));
        assert_eq!(filled.pool.held(), 2);
        assert!(filled.popped() == filled.pushed);
    }
}
