//! The streams of a connection: those whose request or response is not complete.

use super::{
    function::AwaitedContent,
    piped::{PipedBody, PipedUpload},
};
use crate::{
    ConnResources, Tick,
    pipe::{PipeId, Side},
    pool::Pool,
    program_value::ProgramValue,
    send_pace::SendPace,
    sites::{SiteId, Sites},
    span::Span,
};
use bytes::Bytes;
use tarpon_http::h2::Priority;

/// A stream whose request or response is not complete.
#[derive(Debug)]
pub(super) struct H2Stream {
    pub(super) id: u32,
    pub(super) priority: Priority,
    /// How much content the client lets the server send. A change of its settings may make it negative: RFC 9113, section 6.9.2.
    pub(super) window: i32,
    pub(super) upload: Upload,
    pub(super) body: Body,
    /// `None`: its content leaves as fast as the client takes it.
    pub(super) pace: Option<Box<SendPace>>,
    /// When it was last chosen, as a count of frames.
    pub(super) turn: u32,
    pub(super) exchange: H2Exchange,
}

/// What counters and records need of an exchange.
#[derive(Clone, Copy, Debug)]
pub(super) struct H2Exchange {
    pub(super) site: SiteId,
    /// When the request had arrived.
    pub(super) begun_us: u64,
    /// The place among the recorded exchanges.
    pub(super) recorded_at: u32,
    /// The length of the content that was queued.
    pub(super) content_len: u64,
}

/// The content of a request.
#[derive(Debug)]
pub(super) enum Upload {
    /// The client has ended its side.
    Complete,
    /// More content may follow, which is dropped.
    Dropped {
        /// As Content-Length names it.
        length: Option<u64>,
        received: u64,
        /// How much the client may send, and how much of what it has sent is to be returned.
        window: i32,
        unreturned: i32,
    },
    /// It goes into the pipe of the response.
    Piped(PipedUpload),
    /// The bytes of another protocol, for the pipe of the response.
    Tunnel { window: i32, unreturned: i32 },
    /// It is for a function, which is called when it is complete.
    Collected(Box<AwaitedContent>),
}

/// The content of a response that is not queued.
#[derive(Debug)]
pub(super) enum Body {
    /// The response is complete.
    Complete,
    /// No response is known.
    Awaited,
    /// A backend makes it.
    Piped(Box<PipedBody>),
    /// The rest of the content that a function has returned.
    Bytes(ProgramValue<Bytes>),
    /// Spans, each with content. The stream holds them.
    Spans {
        front: Span,
        /// Those after it, the last one first.
        rest: Vec<Span>,
    },
}

impl H2Stream {
    /// Returns whether nothing is left to do.
    pub(super) fn is_complete(&self) -> bool {
        self.upload.is_complete() && matches!(self.body, Body::Complete)
    }

    /// Returns the pipe that the content of the request goes into, how much the client may send, and how much of what it has sent is to be
    /// returned.
    pub(super) fn piped_window(&mut self) -> Option<(PipeId, &mut i32, &mut i32)> {
        let Body::Piped(piped) = &self.body else { return None };
        match &mut self.upload {
            Upload::Piped(PipedUpload { window, unreturned, .. }) | Upload::Tunnel { window, unreturned } => {
                Some((piped.pipe, window, unreturned))
            }
            Upload::Complete | Upload::Dropped { .. } | Upload::Collected(_) => None,
        }
    }

    /// Returns the response of a backend.
    pub(super) fn piped(&self) -> Option<&PipedBody> {
        match &self.body {
            Body::Piped(piped) => Some(piped),
            _ => None,
        }
    }

    /// Returns when more content may be queued. `None`: now.
    #[inline]
    pub(super) fn waits_until(&self) -> Option<Tick> {
        self.pace.as_ref()?.waits_until()
    }

    /// Returns whether content waits.
    #[inline]
    pub(super) fn has_content(&self) -> bool {
        match &self.body {
            Body::Spans { .. } | Body::Bytes(_) => true,
            Body::Piped(piped) => piped.front.is_some(),
            Body::Complete | Body::Awaited => false,
        }
    }
}

impl Upload {
    /// Returns whether the client has ended its side.
    #[inline]
    pub(super) fn is_complete(&self) -> bool {
        matches!(self, Upload::Complete)
    }

    /// Returns the rest of a content that is not wanted. It is still read: clients that cannot send do not look at the response. `None`: there is
    /// none, or it is dropped already.
    pub(super) fn dropped(&self) -> Option<Upload> {
        Some(match self {
            Upload::Piped(PipedUpload { length, received, window, unreturned, .. }) => Upload::Dropped {
                length: *length,
                received: *received,
                window: *window,
                unreturned: *unreturned,
            },
            Upload::Collected(collected) => {
                let AwaitedContent { length, received, window, unreturned, .. } = **collected;
                Upload::Dropped { length, received, window, unreturned }
            }
            Upload::Tunnel { window, unreturned } => {
                Upload::Dropped { length: None, received: 0, window: *window, unreturned: *unreturned }
            }
            Upload::Complete | Upload::Dropped { .. } => return None,
        })
    }

    /// Returns how much content may wait for a backend.
    fn unreturned_len(&self) -> i32 {
        match self {
            Upload::Piped(PipedUpload { unreturned, .. }) | Upload::Tunnel { unreturned, .. } => *unreturned,
            Upload::Complete | Upload::Dropped { .. } | Upload::Collected(_) => 0,
        }
    }

    /// Returns whether it is of a tunnel.
    pub(super) fn is_of_tunnel(&self) -> bool {
        matches!(self, Upload::Tunnel { .. })
    }
}

impl Body {
    /// Takes the next part of the content, of at most `len_max` bytes, which the caller then holds. `true`: it is the last.
    pub(super) fn take(&mut self, sites: &mut Sites, pool: &mut Pool, len_max: u64) -> Option<(Span, bool)> {
        let Body::Spans { front, rest } = self else { return None };
        let (part, left) = front.split(len_max);
        match left {
            Some(left) => {
                part.hold(sites, pool);
                *front = left;
                Some((part, false))
            }
            None => match rest.pop() {
                Some(next) => {
                    *front = next;
                    Some((part, false))
                }
                None => {
                    *self = Body::Complete;
                    Some((part, true))
                }
            },
        }
    }

    /// Drops the content, and leaves the pipe.
    pub(super) fn release(&mut self, cx: &mut ConnResources<'_>) {
        match std::mem::replace(self, Body::Complete) {
            Body::Spans { front, rest } => {
                front.release(cx.sites, cx.pool);
                rest.iter().for_each(|span| span.release(cx.sites, cx.pool));
            }
            Body::Piped(piped) => {
                if let Some(front) = piped.front {
                    cx.pool.release(front.buf);
                }
                cx.pipes.leave(cx.pool, piped.pipe, Side::Client);
            }
            Body::Complete | Body::Awaited | Body::Bytes(_) => {}
        }
    }
}

/// The streams of a connection, by ascending number.
#[derive(Debug, Default)]
pub(super) struct H2Streams {
    streams: Vec<H2Stream>,
    /// The streams that ended last, and whether this side has reset them. 0: none.
    ended: [(u32, bool); ENDED_COUNT],
    next_ended: usize,
    turn: u32,
    /// A stream has had a pace.
    has_paces: bool,
}

/// The number of ended streams that are remembered, so that late frames of the client are no error: RFC 9113, section 5.1.
const ENDED_COUNT: usize = 16;

impl H2Streams {
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.streams.len()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &H2Stream> {
        self.streams.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut H2Stream> {
        self.streams.iter_mut()
    }

    /// Returns how many streams have content in a buffer of the pool.
    #[inline]
    pub(super) fn held_count(&self) -> usize {
        let is_held = |stream: &&H2Stream| matches!(&stream.body, Body::Spans { front, rest } if !rest.is_empty() || matches!(front, Span::Buf(_)));
        self.streams.iter().filter(is_held).count()
    }

    /// Returns how much content of requests may wait for backends, in bytes.
    pub(super) fn unreturned_len(&self) -> i32 {
        self.streams.iter().map(|stream| stream.upload.unreturned_len()).sum()
    }

    /// Returns the index of a stream.
    #[inline]
    pub(super) fn find(&self, id: u32) -> Option<usize> {
        self.streams.binary_search_by_key(&id, |stream| stream.id).ok()
    }

    #[inline]
    pub(super) fn at(&mut self, index: usize) -> &mut H2Stream {
        &mut self.streams[index]
    }

    /// Adds a stream, whose number is higher than all before.
    pub(super) fn push(&mut self, stream: H2Stream) {
        debug_assert!(self.streams.last().is_none_or(|last| last.id < stream.id));
        self.has_paces |= stream.pace.is_some();
        self.streams.push(stream);
    }

    /// Removes a stream. `is_reset`: this side has reset it.
    pub(super) fn remove(&mut self, index: usize, is_reset: bool) -> H2Stream {
        let stream = self.streams.remove(index);
        self.note_ended(stream.id, is_reset);
        stream
    }

    /// Removes all streams.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = H2Stream> {
        self.streams.drain(..)
    }

    /// Remembers that a stream has ended.
    #[inline]
    pub(super) fn note_ended(&mut self, id: u32, is_reset: bool) {
        self.ended[self.next_ended] = (id, is_reset);
        self.next_ended = (self.next_ended + 1) % ENDED_COUNT;
    }

    /// Returns whether a stream has ended, as far as is remembered, and whether this side has reset it.
    pub(super) fn ended(&self, id: u32) -> Option<bool> {
        self.ended.iter().find(|(ended, _)| *ended == id).map(|(_, is_reset)| *is_reset)
    }

    /// Adds the room of the time that has passed to each stream with a pace.
    #[inline]
    pub(super) fn advance_paces(&mut self, now: Tick) {
        if self.has_paces {
            self.streams
                .iter_mut()
                .filter_map(|stream| stream.pace.as_mut())
                .for_each(|pace| pace.advance(now));
        }
    }

    /// Returns when more content may be queued of a stream that waits for that alone.
    #[inline]
    pub(super) fn next_pace(&self) -> Option<Tick> {
        if !self.has_paces {
            return None;
        }
        let waiting = self.streams.iter().filter(|stream| stream.has_content() && stream.window > 0);
        waiting.filter_map(H2Stream::waits_until).min()
    }

    /// Returns the stream to send content of next: the most urgent one, and of the same urgency the oldest, or if it is incremental the one
    /// that has waited longest. RFC 9218, section 10.
    pub(super) fn next_to_send(&mut self) -> Option<usize> {
        let is_ready =
            |stream: &H2Stream| stream.has_content() && stream.window > 0 && stream.waits_until().is_none();
        let ready = self.streams.iter().enumerate().filter(|(_, stream)| is_ready(stream));
        let (index, _) = ready.min_by_key(|(_, stream)| {
            let Priority { urgency, is_incremental } = stream.priority;
            (urgency, is_incremental, if is_incremental { stream.turn } else { 0 })
        })?;
        self.turn += 1;
        self.streams[index].turn = self.turn;
        Some(index)
    }
}
