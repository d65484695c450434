//! Content that an engine receives straight into buffers of a pipe, without a copy.

use super::{MESSAGE_LEN_MAX, MESSAGE_ROOM, Message, NoBuffer, PipeId, Pipes, Side};
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

/// Content up to this length is copied, so that a backend that sends byte by byte cannot take all buffers.
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
    pub fn len(&self) -> usize {
        self.parts.iter().map(|part| part.len as usize).sum()
    }

    pub(crate) fn release(self, pool: &mut Pool) {
        for part in &self.parts[..self.count] {
            pool.release(part.buf);
        }
    }

    /// Adds the first `len` bytes to a pipe.
    pub(crate) fn push(
        self,
        pipes: &mut Pipes,
        pool: &mut Pool,
        id: PipeId,
        from: Side,
        len: usize,
    ) -> Result<(), NoBuffer> {
        if len <= COPIED_LEN_MAX {
            let pushed = pipes.push_data(pool, id, from, BufRange { len: len as u32, ..self.parts[0] });
            self.release(pool);
            return pushed.map(drop);
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
        Ok(())
    }
}
