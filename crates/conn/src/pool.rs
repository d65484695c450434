//! The buffers of one worker. They hold every byte that the kernel may write, and every byte that the server generates.
//!
//! ```text
//! take ──▶ 1 holder ──hold──▶ 2, 3 … ──release──▶ … 1 ──release──▶ free
//! ```
//!
//! A buffer has holders: the engine while the kernel fills it or while it is an inbox, and an outbox while a span names it. It is free
//! again when the last holder releases it. The pool allocates no memory after [`Pool::new`].

use tarpon_http::head::{HEAD_LEN_MAX, HEAD_LEN_USUAL};

/// The length of a buffer in bytes, in a pool for heads of the usual length. What does not grow with heads fits in so many bytes: content, a frame
/// of HTTP/2, and the longest TLS record (RFC 8446, section 5.2).
pub const BUF_LEN: usize = HEAD_LEN_USUAL + BUF_ROOM;
const _: () = assert!(BUF_LEN >= 5 + (1 << 14) + 256);

/// The length of a buffer in bytes, in a pool for the longest heads.
pub(crate) const BUF_LEN_MAX: usize = HEAD_LEN_MAX + BUF_ROOM;

/// How much longer a buffer is than the longest head, in bytes: room for what a head gets on its way to a backend.
const BUF_ROOM: usize = 1024;

/// The name of a buffer of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufId(u32);

/// A range of bytes in one buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufRange {
    /// The buffer.
    pub buf: BufId,
    /// The offset in the buffer, in bytes.
    pub at: u32,
    /// The length in bytes.
    pub len: u32,
}

impl BufRange {
    /// Returns the range without its first `len` bytes.
    #[inline]
    pub fn skip(self, len: usize) -> BufRange {
        debug_assert!(len <= self.len as usize);
        BufRange { at: self.at + len as u32, len: self.len - len as u32, ..self }
    }
}

/// The buffers of one worker.
pub struct Pool {
    /// The bytes of all buffers, in order.
    bytes: Box<[u8]>,
    /// The length of each in bytes.
    buf_len: usize,
    /// The number of holders of each buffer. Invariant: it is 0 exactly for the buffers in `free`.
    holders: Box<[u16]>,
    /// The free buffers, as a stack: the buffer released last is most likely to be in the cache, and is taken next.
    free: Vec<u32>,
}

/// One in this many buffers is reserved for heads. Workers evict connections long before.
const HEAD_RESERVE: usize = 64;

impl Pool {
    /// Returns a pool of `count` free buffers of [`BUF_LEN`] bytes, for heads of at most [`HEAD_LEN_USUAL`] bytes. The kernel provides their
    /// memory when it is first used.
    pub fn new(count: u32) -> Pool {
        Pool::for_heads(count, HEAD_LEN_USUAL)
    }

    /// Returns a pool of `count` free buffers for heads of at most so many bytes: from [`HEAD_LEN_USUAL`] to [`HEAD_LEN_MAX`], or the nearest of
    /// these.
    pub fn for_heads(count: u32, head_len_max: usize) -> Pool {
        let buf_len = head_len_max.clamp(HEAD_LEN_USUAL, HEAD_LEN_MAX) + BUF_ROOM;
        Pool {
            bytes: vec![0; count as usize * buf_len].into(),
            buf_len,
            holders: vec![0; count as usize].into(),
            free: (0..count).rev().collect(),
        }
    }

    /// Returns the length of each buffer in bytes: at least [`BUF_LEN`].
    #[inline]
    pub fn buf_len(&self) -> usize {
        self.buf_len
    }

    /// Returns the maximum length of a head in bytes.
    #[inline]
    pub fn head_len_max(&self) -> usize {
        self.buf_len - BUF_ROOM
    }

    /// Takes a free buffer, which then has one holder. `None`: all are held.
    #[inline]
    pub fn take(&mut self) -> Option<BufId> {
        let index = self.free.pop()?;
        debug_assert_eq!(self.holders[index as usize], 0);
        self.holders[index as usize] = 1;
        Some(BufId(index))
    }

    /// Adds a holder to a buffer that has one.
    #[inline]
    pub fn hold(&mut self, buf: BufId) {
        let holders = &mut self.holders[buf.0 as usize];
        assert!(*holders > 0, "a free buffer cannot be held");
        *holders += 1;
    }

    /// Removes a holder. Without holders the buffer is free.
    #[inline]
    pub fn release(&mut self, buf: BufId) {
        let holders = &mut self.holders[buf.0 as usize];
        assert!(*holders > 0, "a buffer is released once for each holder");
        *holders -= 1;
        if *holders == 0 {
            self.free.push(buf.0);
        }
    }

    /// Returns the bytes of a range.
    #[inline]
    pub fn bytes(&self, range: BufRange) -> &[u8] {
        let from = range.buf.0 as usize * self.buf_len + range.at as usize;
        &self.bytes[from..from + range.len as usize]
    }

    /// Returns a whole buffer, to write it.
    #[inline]
    pub fn buf_mut(&mut self, buf: BufId) -> &mut [u8] {
        let from = buf.0 as usize * self.buf_len;
        &mut self.bytes[from..from + self.buf_len]
    }

    /// Returns the bytes of a range, and another whole buffer, to write it.
    ///
    /// # Panics
    /// Panics if the range lies in that buffer.
    pub fn split_mut(&mut self, from: BufRange, to: BufId) -> (&mut [u8], &mut [u8]) {
        assert_ne!(from.buf, to, "the buffers differ");
        let (low, high) = self.bytes.split_at_mut(from.buf.0.max(to.0) as usize * self.buf_len);
        let range = from.at as usize..(from.at + from.len) as usize;
        if from.buf.0 < to.0 {
            (&mut low[from.buf.0 as usize * self.buf_len..][range], &mut high[..self.buf_len])
        } else {
            (&mut high[range], &mut low[to.0 as usize * self.buf_len..][..self.buf_len])
        }
    }

    /// Returns the bytes of ranges in buffers of their own, to write them.
    ///
    /// # Panics
    /// Panics if two ranges overlap.
    pub fn ranges_mut<const N: usize>(&mut self, ranges: [BufRange; N]) -> [&mut [u8]; N] {
        let places = ranges.map(|BufRange { buf: BufId(index), at, len }| {
            let from = index as usize * self.buf_len + at as usize;
            from..from + len as usize
        });
        self.bytes.get_disjoint_mut(places).expect("ranges in buffers of their own")
    }

    /// Copies a range to offset `at` of a buffer. Both may lie in the same buffer.
    pub fn copy(&mut self, from: BufRange, to: BufId, at: u32) -> BufRange {
        assert!((at + from.len) as usize <= self.buf_len, "the copy fits in the buffer");
        let start = from.buf.0 as usize * self.buf_len + from.at as usize;
        self.bytes.copy_within(start..start + from.len as usize, to.0 as usize * self.buf_len + at as usize);
        BufRange { buf: to, at, len: from.len }
    }

    /// Appends bytes to a range. Moves the range to the front of its buffer if they do not fit after it; together they must fit in the
    /// buffer.
    pub fn append(&mut self, range: BufRange, bytes: &[u8]) -> BufRange {
        let range = self.with_room(range, bytes.len());
        let end = (range.at + range.len) as usize;
        self.buf_mut(range.buf)[end..][..bytes.len()].copy_from_slice(bytes);
        BufRange { len: range.len + bytes.len() as u32, ..range }
    }

    /// Writes bytes before a range, which has that much room before it in its buffer.
    pub(crate) fn prepend(&mut self, range: BufRange, bytes: &[u8]) -> BufRange {
        let at = range.at as usize - bytes.len();
        self.buf_mut(range.buf)[at..range.at as usize].copy_from_slice(bytes);
        BufRange { at: at as u32, len: range.len + bytes.len() as u32, ..range }
    }

    /// Appends a range of another buffer to a range, as [`append`](Pool::append) does.
    pub fn join(&mut self, range: BufRange, next: BufRange) -> BufRange {
        let range = self.with_room(range, next.len as usize);
        self.copy(next, range.buf, range.at + range.len);
        BufRange { len: range.len + next.len, ..range }
    }

    /// Returns the range at a place where `len` more bytes fit after it.
    fn with_room(&mut self, range: BufRange, len: usize) -> BufRange {
        let fits = (range.at + range.len) as usize + len <= self.buf_len;
        if fits { range } else { self.copy(range, range.buf, 0) }
    }

    /// Returns the number of free buffers.
    #[inline]
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Returns whether a buffer is free for the generated part of a response. Workers keep more free than the reserve for heads, so clients
    /// that do not receive their responses never make the server ignore a Range field.
    #[inline]
    pub fn has_for_response(&self) -> bool {
        self.free.len() > self.holders.len() / HEAD_RESERVE
    }

    /// Takes a buffer for the generated part of a response. Returns `None` if only those are free that are reserved for heads that arrive
    /// in pieces.
    #[inline]
    pub fn take_for_response(&mut self) -> Option<BufId> {
        if self.has_for_response() { self.take() } else { None }
    }

    /// Returns whether at least one in `one_in` buffers is free once so many more are.
    #[inline]
    pub fn will_have_reserve(&self, one_in: usize, freeing_count: usize) -> bool {
        self.free.len() + freeing_count >= self.holders.len() / one_in
    }

    /// Returns how many of `max` buffers one holder may have: the fewer are free, the fewer, but always one. So many holders that do not
    /// release theirs leave buffers for others: Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory packet switches", 1998.
    #[inline]
    pub(crate) fn share(&self, max: usize) -> usize {
        1 + (max - 1) * self.free.len() / self.holders.len().max(1)
    }

    /// Returns the number of buffers that have a holder.
    pub fn held(&self) -> usize {
        self.holders.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_free_when_its_last_holder_releases_it() {
        let mut pool = Pool::new(1);
        let buf = pool.take().unwrap();
        pool.hold(buf);
        pool.release(buf);
        assert_eq!((pool.held(), pool.take()), (1, None));
        pool.release(buf);
        assert_eq!((pool.held(), pool.take()), (0, Some(buf)));
    }

    #[test]
    fn responses_leave_a_reserve_for_heads() {
        #[rustfmt::skip]
        let cases: &[(u32, u32)] = &[
            // all, for responses
            (4_096, 4_032),
            (128,   126),
            (64,    63),
            (63,    63),
            (1,     1),
            (0,     0),
        ];
        for &(count, want) in cases {
            let mut pool = Pool::new(count);
            let taken =
                std::iter::from_fn(|| pool.has_for_response().then(|| pool.take_for_response())?).count();
            assert_eq!(taken as u32, want, "of {count}");
            assert_eq!(pool.take_for_response(), None, "of {count}");
            let heads = std::iter::from_fn(|| pool.take()).count();
            assert_eq!(heads as u32, count - want, "of {count}");
        }
    }

    #[test]
    fn a_share_is_smaller_in_a_fuller_pool_and_never_nothing() {
        let mut pool = Pool::new(64);
        let mut shares = vec![pool.share(8)];
        while pool.take().is_some() {
            shares.push(pool.share(8));
        }
        assert!(shares.is_sorted_by(|before, after| before >= after), "{shares:?}");
        assert_eq!((shares[0], shares[32], shares[64]), (8, 4, 1));
        // Holders that keep as much as they may never take the last buffer.
        let mut pool = Pool::new(64);
        let mut held = [0; 20];
        for turn in 0..1_000 {
            let holder = &mut held[turn % 20];
            if *holder < pool.share(8) {
                *holder += 1;
                pool.take().unwrap();
            }
        }
        assert!(pool.free() > 0);
    }

    #[test]
    fn the_buffer_released_last_is_taken_next() {
        let mut pool = Pool::new(3);
        let (a, b) = (pool.take().unwrap(), pool.take().unwrap());
        pool.release(b);
        pool.release(a);
        assert_eq!(pool.take(), Some(a));
    }

    #[test]
    fn a_copy_lies_at_the_given_offset() {
        let mut pool = Pool::new(2);
        let (a, b) = (pool.take().unwrap(), pool.take().unwrap());
        pool.buf_mut(a)[..5].copy_from_slice(b"tarpo");
        let copied = pool.copy(BufRange { buf: a, at: 1, len: 3 }, b, 10);
        assert_eq!((pool.bytes(copied), copied.at), (&b"arp"[..], 10));
        let moved = pool.copy(BufRange { buf: a, at: 1, len: 4 }, a, 0);
        assert_eq!(pool.bytes(moved), b"arpo");
    }

    #[test]
    fn a_head_fits_in_a_buffer_with_room_after_it() {
        let cases = [(0, 16_384), (16_384, 16_384), (40_000, 40_000), (65_536, 65_536), (1 << 20, 65_536)];
        for (asked, want) in cases {
            let mut pool = Pool::for_heads(3, asked);
            assert_eq!((pool.head_len_max(), pool.buf_len()), (want, want + 1024), "{asked}");
            let bufs = [(); 3].map(|()| pool.take().unwrap());
            for (buf, byte) in bufs.into_iter().zip(1..) {
                assert_eq!(pool.buf_mut(buf).len(), want + 1024);
                pool.buf_mut(buf).fill(byte);
            }
            for (buf, byte) in bufs.into_iter().zip(1..) {
                let range = BufRange { buf, at: 0, len: pool.buf_len() as u32 };
                assert!(pool.bytes(range).iter().all(|found| *found == byte), "no buffer overlaps another");
            }
        }
        assert_eq!(Pool::new(1).buf_len(), BUF_LEN);
    }

    #[test]
    fn a_range_is_read_while_another_buffer_is_written() {
        let mut pool = Pool::for_heads(2, 40_000);
        let (a, b) = (pool.take().unwrap(), pool.take().unwrap());
        for (from, to) in [(a, b), (b, a)] {
            pool.buf_mut(from)[1..4].copy_from_slice(b"abc");
            let (bytes, other) = pool.split_mut(BufRange { buf: from, at: 1, len: 3 }, to);
            other[..3].copy_from_slice(bytes);
            assert_eq!(other.len(), 40_000 + BUF_ROOM);
            assert_eq!(&pool.buf_mut(to)[..3], b"abc");
        }
    }

    #[test]
    fn an_append_moves_the_range_to_the_front_if_needed() {
        let mut pool = Pool::for_heads(2, 40_000);
        let (a, b) = (pool.take().unwrap(), pool.take().unwrap());
        let at = pool.buf_len() as u32 - 3;
        pool.buf_mut(a)[at as usize..].copy_from_slice(b"abc");
        let range = pool.append(BufRange { buf: a, at, len: 3 }, b"de");
        assert_eq!((pool.bytes(range), range.at), (&b"abcde"[..], 0));
        pool.buf_mut(b)[..2].copy_from_slice(b"fg");
        let range = pool.join(range, BufRange { buf: b, at: 0, len: 2 });
        assert_eq!(pool.bytes(range), b"abcdefg");
    }

    #[test]
    #[should_panic(expected = "a buffer is released once for each holder")]
    fn a_free_buffer_cannot_be_released() {
        let mut pool = Pool::new(1);
        let buf = pool.take().unwrap();
        pool.release(buf);
        pool.release(buf);
    }
}
