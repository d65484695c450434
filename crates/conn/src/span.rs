//! What is to be sent, named by where it lies: plain data, comparable in tests, without a pointer.
//!
//! ```text
//!            shown, oldest first               room
//! Outbox  [ ResponsePrefix | Site ][ ResponsePrefix | Site | File ]…
//!           └ sent() takes from here         └ push() adds here
//! ```
//!
//! Knows nothing of HTTP, and not how an engine sends: by copy, gathered, or from a descriptor.

use crate::{
    pool::{BufRange, Pool},
    response_prefix::{ResponsePrefix, ResponsePrefixes},
    sites::{ImageId, Sites},
};

/// Something to send, in one of five homes: the worker's start table, an image, the pool, a file beside its image, or an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// A whole start of a response, resolved when it is sent. What a short send leaves of it becomes a `Buf`.
    Prefix(ResponsePrefix),
    /// In an image, which its site keeps for as long as a span names it.
    Site {
        /// The image.
        image: ImageId,
        /// Offset in the image, in bytes.
        at: u64,
        /// Length in bytes.
        len: u64,
    },
    /// In a pool buffer, held until sent.
    Buf(BufRange),
    /// In a file that stayed beside its image.
    File {
        /// The image that lists the file.
        image: ImageId,
        /// Its number in that list.
        number: u32,
        /// Offset in the file, in bytes.
        at: u64,
        /// Length in bytes.
        len: u64,
    },
    /// In the archive beside its image.
    Archive {
        /// The image that goes with the archive.
        image: ImageId,
        /// Offset in the archive, in bytes.
        at: u64,
        /// Length in bytes.
        len: u64,
    },
}

impl Span {
    /// Length in bytes.
    #[inline]
    pub fn len(&self) -> u64 {
        match *self {
            Span::Prefix(prefix) => prefix.len() as u64,
            Span::Site { len, .. } | Span::File { len, .. } | Span::Archive { len, .. } => len,
            Span::Buf(run) => run.len as u64,
        }
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Spans a connection may owe on one leg: six small pipelined responses of two each, as the next exchange needs five free ones. A
/// longer burst waits in the kernel.
pub const SPAN_COUNT_MAX: usize = 16;

/// Spans in sending order. Full means: begin no further exchange.
#[derive(Debug)]
pub(crate) struct Outbox {
    spans: [Span; SPAN_COUNT_MAX],
    count: u8,
    /// Spans in a buffer.
    buf_count: u8,
}

/// With fewer spans in a buffer owed, an exchange may begin, which fills one buffer at most. So the spans lie in two
/// buffers, a third may come of a start that is cut; with the inbox, a connection holds four at most.
const BUF_COUNT_MAX: u8 = 2;

/// No buffer was free to keep the rest of a start: the response cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stuck;

impl Outbox {
    pub(crate) fn new() -> Outbox {
        Outbox {
            spans: [Span::Site { image: ImageId::default(), at: 0, len: 0 }; SPAN_COUNT_MAX],
            count: 0,
            buf_count: 0,
        }
    }

    #[inline]
    pub(crate) fn spans(&self) -> &[Span] {
        &self.spans[..self.count as usize]
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes that are owed.
    pub(crate) fn len(&self) -> u64 {
        self.spans().iter().map(Span::len).sum()
    }

    /// Returns whether a span lies in a buffer of the pool.
    #[inline]
    pub(crate) fn holds_buffers(&self) -> bool {
        self.buf_count > 0
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.count as usize == SPAN_COUNT_MAX
    }

    /// Whether it takes the spans of another exchange: `count` at most, and those in a buffer in one.
    #[inline]
    pub(crate) fn has_room(&self, count: usize) -> bool {
        self.count as usize + count <= SPAN_COUNT_MAX && self.buf_count < BUF_COUNT_MAX
    }

    /// Adds a span behind the others and holds its home. A `Buf` comes with the hold of its maker. An empty
    /// span, which a damaged image may ask for, is nothing to send.
    #[inline]
    pub(crate) fn push(&mut self, sites: &mut Sites, span: Span) {
        if span.is_empty() {
            return;
        }
        match span {
            Span::Prefix(_) => {}
            Span::Site { image, .. } | Span::File { image, .. } | Span::Archive { image, .. } => {
                sites.hold(image)
            }
            Span::Buf(_) => self.buf_count += 1,
        }
        self.spans[self.count as usize] = span;
        self.count += 1;
    }

    /// The first `len` bytes have left: forgets them and lets go of their homes.
    #[inline]
    pub(crate) fn sent(
        &mut self,
        mut len: u64,
        sites: &mut Sites,
        pool: &mut Pool,
        prefixes: &ResponsePrefixes,
    ) -> Result<(), Stuck> {
        let mut gone = 0;
        let mut cut = Ok(());
        while len > 0 {
            let span = self.spans[..self.count as usize][gone];
            if len < span.len() {
                cut = self.advance(gone, len, pool, prefixes);
                break;
            }
            len -= span.len();
            self.let_go(span, sites, pool);
            gone += 1;
        }
        if gone < self.count as usize {
            self.spans.copy_within(gone..self.count as usize, 0);
        }
        self.count -= gone as u8;
        cut
    }

    /// Lets go of everything: nobody will send it.
    pub(crate) fn clear(&mut self, sites: &mut Sites, pool: &mut Pool) {
        for index in 0..self.count as usize {
            self.let_go(self.spans[index], sites, pool);
        }
        self.count = 0;
    }

    /// The first `by` bytes of the span at `index` have left.
    #[cold]
    fn advance(
        &mut self,
        index: usize,
        by: u64,
        pool: &mut Pool,
        prefixes: &ResponsePrefixes,
    ) -> Result<(), Stuck> {
        self.spans[index] = match self.spans[index] {
            Span::Site { image, at, len } => Span::Site { image, at: at + by, len: len - by },
            Span::File { image, number, at, len } => Span::File { image, number, at: at + by, len: len - by },
            Span::Archive { image, at, len } => Span::Archive { image, at: at + by, len: len - by },
            Span::Buf(run) => Span::Buf(run.skip(by as usize)),
            // The date may change before the rest leaves, so the rest is kept as it was begun.
            Span::Prefix(prefix) => {
                let rest = &prefixes.bytes(prefix)[by as usize..];
                let buf = pool.take().ok_or(Stuck)?;
                pool.buf_mut(buf)[..rest.len()].copy_from_slice(rest);
                self.buf_count += 1;
                Span::Buf(BufRange { buf, at: 0, len: rest.len() as u32 })
            }
        };
        Ok(())
    }

    #[inline]
    fn let_go(&mut self, span: Span, sites: &mut Sites, pool: &mut Pool) {
        match span {
            Span::Prefix(_) => {}
            Span::Site { image, .. } | Span::File { image, .. } | Span::Archive { image, .. } => {
                sites.release(image)
            }
            Span::Buf(run) => {
                self.buf_count -= 1;
                pool.release(run.buf);
            }
        }
    }
}
