//! The bytes to send, named by place. A span has no pointer, so tests compare spans.
//!
//! ```text
//!            spans, oldest first                free places
//! Outbox  [ ResponsePrefix | Site ][ ResponsePrefix | Site | File ]…
//!           └ sent() removes here             └ push() adds here
//! ```
//!
//! This module does not depend on HTTP, nor on the way in which an engine sends: copied, gathered, or from a descriptor.

use crate::{
    pool::{BufRange, Pool},
    response_prefix::{ResponsePrefix, ResponsePrefixes},
    sites::{ImageId, Sites},
};
use tarpon_site::{Content, Region};

/// A range of bytes to send, in one of five places: the response prefixes of the worker, an image, the pool, a file beside its image, or
/// an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// A whole response prefix, whose bytes the engine looks up when it sends them. After a short send, the rest becomes a `Buf`.
    Prefix(ResponsePrefix),
    /// In an image, which stays in memory while a span names it.
    Site {
        /// The image.
        image: ImageId,
        /// The offset in the image, in bytes.
        at: u64,
        /// Length in bytes.
        len: u64,
    },
    /// In a buffer of the pool, which the span holds until it is sent.
    Buf(BufRange),
    /// In a file beside its image.
    File {
        /// The image that lists the file.
        image: ImageId,
        /// The number of the file in the image.
        number: u32,
        /// The offset in the file, in bytes.
        at: u64,
        /// Length in bytes.
        len: u64,
    },
    /// In the archive beside its image.
    Archive {
        /// The image that goes with the archive.
        image: ImageId,
        /// The offset in the archive, in bytes.
        at: u64,
        /// Length in bytes.
        len: u64,
    },
}

impl Span {
    /// Returns the span of a content.
    #[inline]
    pub(crate) fn of_content(image: ImageId, content: Content) -> Span {
        match content {
            Content::Image(Region { at, len }) => Span::Site { image, at, len },
            Content::File { number, at, len } => Span::File { image, number, at, len },
            Content::Archive(Region { at, len }) => Span::Archive { image, at, len },
        }
    }

    /// Returns the length in bytes.
    #[inline]
    pub fn len(&self) -> u64 {
        match *self {
            Span::Prefix(prefix) => prefix.len() as u64,
            Span::Site { len, .. } | Span::File { len, .. } | Span::Archive { len, .. } => len,
            Span::Buf(range) => range.len as u64,
        }
    }

    /// Returns the image that the span holds.
    #[inline(always)]
    fn image(&self) -> Option<ImageId> {
        match *self {
            Span::Site { image, .. } | Span::File { image, .. } | Span::Archive { image, .. } => Some(image),
            Span::Prefix(_) | Span::Buf(_) => None,
        }
    }

    /// Returns the first `len` bytes of the span, and the rest. `None`: nothing is left. A holder of the span holds both. The span is no prefix.
    pub(crate) fn split(self, len: u64) -> (Span, Option<Span>) {
        let rest_len = self.len().saturating_sub(len);
        if rest_len == 0 {
            return (self, None);
        }
        match self {
            Span::Site { image, at, .. } => {
                (Span::Site { image, at, len }, Some(Span::Site { image, at: at + len, len: rest_len }))
            }
            Span::File { image, number, at, .. } => (
                Span::File { image, number, at, len },
                Some(Span::File { image, number, at: at + len, len: rest_len }),
            ),
            Span::Archive { image, at, .. } => {
                (Span::Archive { image, at, len }, Some(Span::Archive { image, at: at + len, len: rest_len }))
            }
            Span::Buf(range) => {
                let first = BufRange { len: len as u32, ..range };
                (Span::Buf(first), Some(Span::Buf(range.skip(len as usize))))
            }
            Span::Prefix(_) => unreachable!("a prefix leaves whole"),
        }
    }

    /// Adds a holder to the image or the buffer of the span.
    pub(crate) fn hold(&self, sites: &mut Sites, pool: &mut Pool) {
        if let Some(image) = self.image() {
            sites.hold(image);
        } else if let Span::Buf(range) = self {
            pool.hold(range.buf);
        }
    }

    /// Removes a holder from the image or the buffer of the span.
    #[inline]
    pub(crate) fn release(&self, sites: &mut Sites, pool: &mut Pool) {
        if let Some(image) = self.image() {
            sites.release(image);
        } else if let Span::Buf(range) = self {
            pool.release(range.buf);
        }
    }

    /// Returns whether the span has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The maximum number of spans in an outbox: eight small pipelined responses of two spans each. A longer burst waits in the kernel.
pub const SPAN_COUNT_MAX: usize = 16;

/// The spans of a connection, in sending order. While it has no room, no exchange begins.
#[derive(Debug)]
pub(crate) struct Outbox {
    spans: [Span; SPAN_COUNT_MAX],
    /// The length of all spans in bytes.
    len: u64,
    /// The number of spans. Those after it are stale.
    count: u8,
    /// The number of spans in a buffer.
    buf_count: u8,
}

/// The number of spans in a buffer with which no exchange begins. An exchange fills at most one buffer, so spans lie in at most two. A
/// prefix that was sent in part takes a third, and the inbox is a fourth: a connection holds at most four buffers. An exchange with a
/// backend takes the messages of its pipe besides.
const BUF_COUNT_MAX: u8 = 2;

/// The number of buffers with messages of a pipe in an outbox: one call sends a head and 84 KiB. Fewer if the pool runs low.
pub(crate) const MESSAGE_BUF_COUNT_MAX: usize = 6;

/// The error that no buffer was free for the rest of a response prefix. The response cannot continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoFreeBuffer;

impl Outbox {
    pub(crate) fn new() -> Outbox {
        Outbox {
            spans: [Span::Site { image: ImageId::default(), at: 0, len: 0 }; SPAN_COUNT_MAX],
            len: 0,
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

    /// Returns the number of bytes to send.
    #[inline]
    pub(crate) fn len(&self) -> u64 {
        self.len
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

    /// Returns how many more spans fit.
    #[inline]
    pub(crate) fn free_count(&self) -> usize {
        SPAN_COUNT_MAX - self.count as usize
    }

    /// Returns whether the spans of another exchange fit: at most `count`, with all spans in a buffer in the same one.
    #[inline]
    pub(crate) fn has_room(&self, count: usize) -> bool {
        self.count as usize + count <= SPAN_COUNT_MAX && self.buf_count < BUF_COUNT_MAX
    }

    /// Returns whether the span of another message of a pipe fits. Its buffer comes with it.
    #[inline]
    pub(crate) fn has_room_for_message(&self, pool: &Pool) -> bool {
        !self.is_full() && usize::from(self.buf_count) < pool.share(MESSAGE_BUF_COUNT_MAX)
    }

    /// Adds a span at the end, and holds its image. A `Buf` takes over the hold of the caller. Ignores an empty span, which a damaged image
    /// may cause.
    #[inline(always)]
    pub(crate) fn push(&mut self, sites: &mut Sites, span: Span) {
        let len = span.len();
        if len == 0 {
            return;
        }
        self.len += len;
        if let Some(image) = span.image() {
            sites.hold(image);
        }
        self.buf_count += u8::from(matches!(span, Span::Buf(_)));
        self.spans[self.count as usize] = span;
        self.count += 1;
    }

    /// Adds a span at the end, which takes over the hold of the caller.
    #[inline]
    pub(crate) fn push_held(&mut self, span: Span) {
        self.len += span.len();
        self.buf_count += u8::from(matches!(span, Span::Buf(_)));
        self.spans[self.count as usize] = span;
        self.count += 1;
    }

    /// Takes off the last `len` bytes, which the caller then holds. Returns their spans, the last one first. None of them is a prefix.
    #[cold]
    pub(crate) fn take_end(&mut self, mut len: u64, sites: &mut Sites, pool: &mut Pool) -> Vec<Span> {
        let mut end = Vec::new();
        self.len -= len;
        while len > 0 {
            let last = self.spans[self.count as usize - 1];
            if last.len() > len {
                let (kept, taken) = last.split(last.len() - len);
                kept.hold(sites, pool);
                self.spans[self.count as usize - 1] = kept;
                end.extend(taken);
                break;
            }
            len -= last.len();
            self.count -= 1;
            self.buf_count -= u8::from(matches!(last, Span::Buf(_)));
            end.push(last);
        }
        end
    }

    /// Removes the first `len` bytes, which the engine has sent, and releases the images and buffers of their spans.
    ///
    /// # Errors
    /// A prefix was sent in part, and no buffer was free for its rest.
    #[inline]
    pub(crate) fn sent(
        &mut self,
        len: u64,
        sites: &mut Sites,
        pool: &mut Pool,
        prefixes: &ResponsePrefixes,
    ) -> Result<(), NoFreeBuffer> {
        if len < self.len {
            return self.sent_in_part(len, sites, pool, prefixes);
        }
        self.clear(sites, pool);
        Ok(())
    }

    /// Removes the first `len` bytes, which are not all.
    #[inline(never)]
    fn sent_in_part(
        &mut self,
        mut len: u64,
        sites: &mut Sites,
        pool: &mut Pool,
        prefixes: &ResponsePrefixes,
    ) -> Result<(), NoFreeBuffer> {
        self.len -= len;
        let mut sent_count = 0;
        let mut advanced = Ok(());
        while len > 0 {
            let span = self.spans[..self.count as usize][sent_count];
            if len < span.len() {
                advanced = self.advance(sent_count, len, pool, prefixes);
                break;
            }
            len -= span.len();
            self.buf_count -= u8::from(matches!(span, Span::Buf(_)));
            span.release(sites, pool);
            sent_count += 1;
        }
        self.spans.copy_within(sent_count..self.count as usize, 0);
        self.count -= sent_count as u8;
        advanced
    }

    /// Removes all spans.
    #[inline]
    pub(crate) fn clear(&mut self, sites: &mut Sites, pool: &mut Pool) {
        for span in self.spans() {
            span.release(sites, pool);
        }
        (self.count, self.buf_count, self.len) = (0, 0, 0);
    }

    /// Removes the first `by` bytes of the span at `index`.
    #[cold]
    fn advance(
        &mut self,
        index: usize,
        by: u64,
        pool: &mut Pool,
        prefixes: &ResponsePrefixes,
    ) -> Result<(), NoFreeBuffer> {
        self.spans[index] = match self.spans[index] {
            Span::Site { image, at, len } => Span::Site { image, at: at + by, len: len - by },
            Span::File { image, number, at, len } => Span::File { image, number, at: at + by, len: len - by },
            Span::Archive { image, at, len } => Span::Archive { image, at: at + by, len: len - by },
            Span::Buf(range) => Span::Buf(range.skip(by as usize)),
            // The date may change before the rest is sent, so the rest of the old one is copied.
            Span::Prefix(prefix) => {
                let rest = &prefixes.bytes(prefix)[by as usize..];
                let buf = pool.take().ok_or(NoFreeBuffer)?;
                pool.buf_mut(buf)[..rest.len()].copy_from_slice(rest);
                self.buf_count += 1;
                Span::Buf(BufRange { buf, at: 0, len: rest.len() as u32 })
            }
        };
        Ok(())
    }
}
