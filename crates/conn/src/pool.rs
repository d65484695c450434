//! The buffers of one worker: every byte the kernel may write and every byte the server generates lies here.
//!
//! ```text
//! take ──▶ 1 holder ──hold──▶ 2, 3 … ──release──▶ … 1 ──release──▶ free
//! ```
//!
//! A buffer has holders: the engine while the kernel fills it or while it waits in the inbox, an outbox while
//! a span names it. When the last one lets go it is free again. Nothing is allocated after [`Pool::new`].

/// Length of a buffer in bytes: the longest head fits in one, and so will a whole TLS record's content.
pub const BUF_LEN: usize = tarpon_http::head::HEAD_LEN_MAX;

/// Names a buffer of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufId(u32);

/// A stretch of one buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufRange {
    /// The buffer.
    pub buf: BufId,
    /// Offset in the buffer, in bytes.
    pub at: u32,
    /// Length in bytes.
    pub len: u32,
}

impl BufRange {
    /// What is left behind the first `len` bytes.
    #[inline]
    pub fn skip(self, len: usize) -> BufRange {
        debug_assert!(len <= self.len as usize);
        BufRange { at: self.at + len as u32, len: self.len - len as u32, ..self }
    }
}

/// The buffers of one worker. See the module.
pub struct Pool {
    /// All buffers, one behind the other.
    bytes: Box<[u8]>,
    /// Per buffer. Invariant: 0 exactly for those in `free`.
    holders: Box<[u16]>,
    /// Last in, first out: the next buffer is the one most likely to be in the cache.
    free: Vec<u32>,
}

/// One in this many buffers is reserved for heads. Workers evict connections long before.
const HEAD_RESERVE: usize = 64;

impl Pool {
    /// `count` free buffers. Their memory is touched only when they are used.
    pub fn new(count: u32) -> Pool {
        Pool {
            bytes: vec![0; count as usize * BUF_LEN].into(),
            holders: vec![0; count as usize].into(),
            free: (0..count).rev().collect(),
        }
    }

    /// A free buffer, now with one holder. `None`: all are held.
    #[inline]
    pub fn take(&mut self) -> Option<BufId> {
        let index = self.free.pop()?;
        debug_assert_eq!(self.holders[index as usize], 0);
        self.holders[index as usize] = 1;
        Some(BufId(index))
    }

    /// One holder more.
    #[inline]
    pub fn hold(&mut self, buf: BufId) {
        let holders = &mut self.holders[buf.0 as usize];
        assert!(*holders > 0, "a free buffer cannot be held");
        *holders += 1;
    }

    /// One holder less; with the last one the buffer is free.
    #[inline]
    pub fn release(&mut self, buf: BufId) {
        let holders = &mut self.holders[buf.0 as usize];
        assert!(*holders > 0, "released once too often");
        *holders -= 1;
        if *holders == 0 {
            self.free.push(buf.0);
        }
    }

    /// The bytes of a run.
    #[inline]
    pub fn bytes(&self, run: BufRange) -> &[u8] {
        let from = run.buf.0 as usize * BUF_LEN + run.at as usize;
        &self.bytes[from..from + run.len as usize]
    }

    /// A whole buffer, to be written.
    #[inline]
    pub fn buf_mut(&mut self, buf: BufId) -> &mut [u8] {
        let from = buf.0 as usize * BUF_LEN;
        &mut self.bytes[from..from + BUF_LEN]
    }

    /// The bytes of a run, and another whole buffer, to be written.
    ///
    /// # Panics
    /// If the run lies in that buffer.
    pub fn pair(&mut self, from: BufRange, to: BufId) -> (&[u8], &mut [u8]) {
        assert_ne!(from.buf, to, "another buffer");
        let (low, high) = self.bytes.split_at_mut(from.buf.0.max(to.0) as usize * BUF_LEN);
        let run = from.at as usize..(from.at + from.len) as usize;
        if from.buf.0 < to.0 {
            (&low[from.buf.0 as usize * BUF_LEN..][run], &mut high[..BUF_LEN])
        } else {
            (&high[run], &mut low[to.0 as usize * BUF_LEN..][..BUF_LEN])
        }
    }

    /// Copies a run to another place of the pool. Both may lie in the same buffer.
    pub fn copy(&mut self, from: BufRange, to: BufId, at: u32) -> BufRange {
        assert!((at + from.len) as usize <= BUF_LEN, "the copy must fit behind `at`");
        let start = from.buf.0 as usize * BUF_LEN + from.at as usize;
        self.bytes.copy_within(start..start + from.len as usize, to.0 as usize * BUF_LEN + at as usize);
        BufRange { buf: to, at, len: from.len }
    }

    /// Adds bytes behind a run, which moves to the front of its buffer if it must. Both must fit in it.
    pub fn append(&mut self, run: BufRange, bytes: &[u8]) -> BufRange {
        let run = self.with_room(run, bytes.len());
        let end = (run.at + run.len) as usize;
        self.buf_mut(run.buf)[end..][..bytes.len()].copy_from_slice(bytes);
        BufRange { len: run.len + bytes.len() as u32, ..run }
    }

    /// Adds a run of another buffer behind a run, as [`append`](Pool::append) does.
    pub fn join(&mut self, run: BufRange, behind: BufRange) -> BufRange {
        let run = self.with_room(run, behind.len as usize);
        self.copy(behind, run.buf, run.at + run.len);
        BufRange { len: run.len + behind.len, ..run }
    }

    fn with_room(&mut self, run: BufRange, len: usize) -> BufRange {
        let fits = (run.at + run.len) as usize + len <= BUF_LEN;
        if fits { run } else { self.copy(run, run.buf, 0) }
    }

    /// Buffers that have no holder.
    #[inline]
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Whether more than half of the buffers are free: then some may be used for what can as well be left. Others
    /// cannot take their half from those who need one.
    #[inline]
    pub fn is_plentiful(&self) -> bool {
        self.free.len() > self.holders.len() / 2
    }

    /// Takes a buffer for the generated part of a response. Returns `None` if only those are free that are reserved for heads that arrive
    /// in pieces.
    #[inline]
    pub fn take_for_response(&mut self) -> Option<BufId> {
        match self.free.len() > self.holders.len() / HEAD_RESERVE {
            true => self.take(),
            false => None,
        }
    }

    /// Whether one in so many is free, or more.
    #[inline]
    pub fn is_left(&self, one_in: usize) -> bool {
        self.free.len() >= self.holders.len() / one_in
    }

    /// Buffers that have a holder.
    pub fn held(&self) -> usize {
        self.holders.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_free_when_its_last_holder_lets_go() {
        let mut pool = Pool::new(1);
        let buf = pool.take().unwrap();
        pool.hold(buf);
        pool.release(buf);
        assert_eq!((pool.held(), pool.take()), (1, None));
        pool.release(buf);
        assert_eq!((pool.held(), pool.take()), (0, Some(buf)));
    }

    #[test]
    fn buffers_are_plentiful_while_more_than_half_are_free() {
        #[rustfmt::skip]
        let cases: &[(u32, u32, bool)] = &[
            // all, held, plentiful
            (4,     0,    true),
            (4,     1,    true),
            (4,     2,    false),
            (5,     2,    true),
            (5,     3,    false),
            (1,     0,    true),
            (0,     0,    false),
        ];
        for &(count, held, want) in cases {
            let mut pool = Pool::new(count);
            (0..held).for_each(|_| assert!(pool.take().is_some()));
            assert_eq!(pool.is_plentiful(), want, "{held} of {count}");
        }
    }

    #[test]
    fn the_last_buffer_returned_is_the_next_one_taken() {
        let mut pool = Pool::new(3);
        let (a, b) = (pool.take().unwrap(), pool.take().unwrap());
        pool.release(b);
        pool.release(a);
        assert_eq!(pool.take(), Some(a));
    }

    #[test]
    fn a_copy_lies_where_it_was_asked_for() {
        let mut pool = Pool::new(2);
        let (a, b) = (pool.take().unwrap(), pool.take().unwrap());
        pool.buf_mut(a)[..5].copy_from_slice(b"tarpo");
        let copied = pool.copy(BufRange { buf: a, at: 1, len: 3 }, b, 10);
        assert_eq!((pool.bytes(copied), copied.at), (&b"arp"[..], 10));
        let moved = pool.copy(BufRange { buf: a, at: 1, len: 4 }, a, 0);
        assert_eq!(pool.bytes(moved), b"arpo");
    }

    #[test]
    fn a_run_is_read_while_another_buffer_is_written() {
        let mut pool = Pool::new(2);
        let (a, b) = (pool.take().unwrap(), pool.take().unwrap());
        for (from, to) in [(a, b), (b, a)] {
            pool.buf_mut(from)[1..4].copy_from_slice(b"abc");
            let (bytes, other) = pool.pair(BufRange { buf: from, at: 1, len: 3 }, to);
            other[..3].copy_from_slice(bytes);
            assert_eq!((other.len(), &pool.buf_mut(to)[..3]), (BUF_LEN, &b"abc"[..]));
        }
    }

    #[test]
    fn a_run_grows_behind_itself_and_moves_to_the_front_when_it_must() {
        let mut pool = Pool::new(2);
        let (a, b) = (pool.take().unwrap(), pool.take().unwrap());
        let at = BUF_LEN as u32 - 3;
        pool.buf_mut(a)[at as usize..].copy_from_slice(b"abc");
        let run = pool.append(BufRange { buf: a, at, len: 3 }, b"de");
        assert_eq!((pool.bytes(run), run.at), (&b"abcde"[..], 0));
        pool.buf_mut(b)[..2].copy_from_slice(b"fg");
        let run = pool.join(run, BufRange { buf: b, at: 0, len: 2 });
        assert_eq!(pool.bytes(run), b"abcdefg");
    }

    #[test]
    #[should_panic(expected = "released once too often")]
    fn a_free_buffer_cannot_be_released() {
        let mut pool = Pool::new(1);
        let buf = pool.take().unwrap();
        pool.release(buf);
        pool.release(buf);
    }
}
