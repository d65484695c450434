//! One client connection, sans IO: the seam between protocol and kernel.
//!
//! An engine tells a [`Connection`] facts, then asks it questions. Bytes to send are named by place, not by
//! pointer, so this crate needs no unsafe code, no descriptor and no clock.
//!
//! ```text
//!            facts                                 questions
//! engine ── received, ended, sent ──▶ Connection ── outbox, need, deadline ──▶ engine
//!           expired, shed, stop
//! ```
//!
//! After every fact an engine takes one turn: it sends the front of [`Connection::outbox`], offers what is in
//! the inbox, reads if [`Connection::need`] still asks for input, closes if it asks for that, and arms a timer
//! for [`Connection::deadline`]. Questions are pure: without a fact no answer changes.
//!
//! ```
//! use tarpon_conn::{Accepted, Connection, Counters, Cx, Leg, Limits, Pool, Records, Sites, Starts, Tick};
//! # use std::io::Cursor;
//! # let dir = tempfile::tempdir().unwrap();
//! # std::fs::write(dir.path().join("index.html"), "hello").unwrap();
//! # let mut out = Cursor::new(Vec::new());
//! # tarpon_pack::pack_dir(dir.path(), &mut out, &tarpon_pack::PackOptions::new(784_111_777), &mut Default::default()).unwrap();
//! # let image = tarpon_site::Image::new(out.into_inner().into()).unwrap();
//! let (mut sites, mut pool) = (Sites::new(image, Limits::default()), Pool::new(4));
//! let (starts, counters, mut records) = (Starts::new(784_111_777), Counters::default(), Records::off());
//! let mut cx = Cx {
//!     sites: &mut sites,
//!     pool: &mut pool,
//!     starts: &starts,
//!     now: Tick(0),
//!     counters: &counters,
//!     records: &mut records,
//! };
//! let mut conn = Connection::new(&mut cx, Accepted::default());
//!
//! let buf = cx.pool.take().unwrap();
//! let request = b"GET / HTTP/1.1\r\nHost: example.net\r\n\r\n";
//! cx.pool.buf_mut(buf)[..request.len()].copy_from_slice(request);
//! let input = tarpon_conn::Run { buf, at: 0, len: request.len() as u32 };
//! assert_eq!(conn.received(&mut cx, Leg::Client, input), request.len());
//! assert_eq!(conn.outbox(Leg::Client).len(), 2, "a start, and fields with content behind them");
//! ```
#![forbid(unsafe_code)]

mod counters;
mod h1;
mod health;
mod hosts;
mod kept;
mod moved;
mod partial;
mod plan;
mod pool;
mod record;
mod room;
mod ruled;
#[cfg(feature = "sim")]
pub mod sim;
mod sites;
mod span;
mod start;

pub use counters::{Counter, Counters, LATENCY_MS, VERSIONS};
pub use h1::CONTENT_LEN_MAX;
pub use hosts::{HostName, HostNameError, Hosts, HostsError};
pub use pool::{BUF_LEN, BufId, Pool, Run};
pub use record::{
    AGENT_LEN_MAX, Accepted, Begun, HEADS_LEN_MAX, HOST_LEN_MAX, LINE_LEN_MAX, RECORDS_LEN, REFERER_LEN_MAX,
    Record, Recording, Records, Sent, Text,
};
pub use sites::{ImageId, SiteId, Sites, Wanted};
pub use span::{SPAN_COUNT_MAX, Span};
pub use start::{Fate, Start, Starts};

use h1::Http1;
use span::Outbox;
use std::num::NonZeroU32;

/// Milliseconds since the worker began: the only clock here, and the engine brings it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tick(pub u64);

impl Tick {
    /// Of a connection that waits for nothing: its deadline never comes.
    pub const NEVER: Tick = Tick(u64::MAX);

    /// This many milliseconds later.
    #[inline]
    #[must_use]
    pub fn after(self, ms: u64) -> Tick {
        Tick(self.0.saturating_add(ms))
    }
}

/// Which stream of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leg {
    /// To and from the client.
    Client,
}

/// What a connection grants its client. Times are in milliseconds. Where a worker has several sites, those of the site whose
/// request was the last; the default site's, or the first one's, before there was any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// For a whole head from its first byte; for the first one, from the start of the connection.
    pub head_ms: u64,
    /// For a request's whole content from the end of its head. Not for each piece of it: a byte now and then would
    /// hold the connection for as long as a client likes, and what it sends is dropped anyway. So is what it sends behind
    /// the last response, and it has as long for that.
    pub content_ms: u64,
    /// For the next request.
    pub idle_ms: u64,
    /// For what the client is owed: in each such time it takes all of it, or `min_send_rate`.
    pub send_ms: u64,
    /// Bytes per second that a client takes at least, on average over `send_ms`. 0: any byte will do.
    pub min_send_rate: u32,
    /// Requests on one connection; behind the response to the last of them it closes.
    pub keepalive_requests: NonZeroU32,
}

impl Default for Limits {
    /// A head from a slow phone takes a few seconds, and a megabyte of content half a minute; a browser keeps its
    /// connections for a minute or more. The slowest network a phone finds itself in carries a few thousand bytes
    /// a second. A proxy that asks a thousand times a second connects anew, and maybe to another worker, every
    /// other minute.
    fn default() -> Limits {
        Limits {
            head_ms: 20_000,
            content_ms: 30_000,
            idle_ms: 75_000,
            send_ms: 30_000,
            min_send_rate: 500,
            keepalive_requests: const { NonZeroU32::new(100_000).unwrap() },
        }
    }
}

impl Limits {
    /// Bytes that a client takes at least in `send_ms`.
    fn send_len_min(&self) -> u64 {
        (u64::from(self.min_send_rate).saturating_mul(self.send_ms) / 1_000).max(1)
    }
}

/// What a connection may look at, and use up, during one call.
pub struct Cx<'w> {
    /// The sites, with their images and what they grant.
    pub sites: &'w mut Sites,
    /// The buffers.
    pub pool: &'w mut Pool,
    /// How responses start, and the date.
    pub starts: &'w Starts,
    /// The engine's clock.
    pub now: Tick,
    /// What is counted of all exchanges.
    pub counters: &'w Counters,
    /// What a log learns of them.
    pub records: &'w mut Records,
}

/// What a connection needs from the kernel on one leg.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// What to read.
    pub input: Input,
    /// What to close.
    pub close: Close,
}

/// What to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// Nothing now. What the peer sends waits in the kernel: this is the back-pressure.
    Pause,
    /// At most `max` bytes, together with those in the inbox.
    Bytes {
        /// In bytes.
        max: u32,
    },
}

/// What to close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    /// Nothing.
    No,
    /// The sending side, once.
    Write,
    /// The connection. Then [`Connection::abandon`].
    Both,
}

/// One client connection. See the crate.
#[derive(Debug)]
pub struct Connection {
    protocol: Http1,
    wire: Outbox,
}

impl Connection {
    /// A client was accepted.
    pub fn new(cx: &mut Cx<'_>, accepted: Accepted) -> Connection {
        cx.counters.accepted.add(1);
        Connection { protocol: Http1::new(cx, accepted), wire: Outbox::new() }
    }

    /// Bytes have arrived. Returns how many were used; the engine keeps the rest and offers it again, with more
    /// behind it or, when `need` had asked to pause, as it is.
    #[inline]
    pub fn received(&mut self, cx: &mut Cx<'_>, leg: Leg, input: Run) -> usize {
        let Leg::Client = leg;
        let used = self.protocol.received(cx, &mut self.wire, input);
        cx.counters.received_len.add(used as u64);
        used
    }

    /// What it [wants](Connection::wants) is in memory: what has arrived is offered again.
    pub fn loaded(&mut self) {
        self.protocol.loaded();
    }

    /// No more bytes will arrive.
    pub fn ended(&mut self, cx: &mut Cx<'_>, leg: Leg) {
        let Leg::Client = leg;
        self.protocol.ended(cx, &self.wire);
    }

    /// The first `len` bytes of the outbox have left.
    #[inline]
    pub fn sent(&mut self, cx: &mut Cx<'_>, leg: Leg, len: u64) {
        let Leg::Client = leg;
        match self.wire.sent(len, cx.sites, cx.pool, cx.starts) {
            Ok(()) => self.protocol.sent(cx, &self.wire, len),
            Err(span::Stuck) => self.protocol.abort(),
        }
    }

    /// The deadline has passed. Of what has left, the last `unacked` bytes have not reached the client yet.
    pub fn expired(&mut self, cx: &mut Cx<'_>, unacked: u64) {
        self.protocol.expired(cx, &mut self.wire, unacked);
    }

    /// Others need its buffers: its time is over, whatever the deadline says. What is in the inbox is lost.
    pub fn shed(&mut self, cx: &mut Cx<'_>) {
        self.protocol.give_up(cx, &mut self.wire);
    }

    /// Another server takes over: the next response is the last one, and says so. A client that has not asked is waited for as
    /// before: whoever closes a connection on which a request may be on its way lets that request fail.
    pub fn drain(&mut self) {
        self.protocol.drain();
    }

    /// The server stops: finish what has begun, begin nothing more.
    pub fn stop(&mut self, cx: &mut Cx<'_>) {
        self.protocol.stop(cx, &self.wire);
    }

    /// The connection is gone: lets go of all it holds. The last fact.
    pub fn abandon(&mut self, cx: &mut Cx<'_>) {
        cx.counters.closed.add(1);
        self.protocol.abandon(cx);
        self.wire.clear(cx.sites, cx.pool);
    }

    /// What to read and what to close.
    #[inline]
    pub fn need(&self, leg: Leg) -> Need {
        let Leg::Client = leg;
        self.protocol.need(&self.wire)
    }

    /// What has to be in memory before the next exchange can begin. Until it is told that this was [loaded](Connection::loaded), it
    /// pauses.
    #[inline]
    pub fn wants(&self) -> Option<Wanted> {
        self.protocol.wants()
    }

    /// What is to be sent, in order.
    #[inline]
    pub fn outbox(&self, leg: Leg) -> &[Span] {
        let Leg::Client = leg;
        self.wire.spans()
    }

    /// Whether the client has nothing to gain from it now: no request has begun, and nothing is owed.
    #[inline]
    pub fn is_unused(&self) -> bool {
        self.protocol.is_unused(&self.wire)
    }

    /// When to report [`expired`](Connection::expired), unless another fact comes first.
    #[inline]
    pub fn deadline(&self) -> Tick {
        self.protocol.deadline()
    }
}
