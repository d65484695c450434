//! An engine in memory: a test controls the client, the kernel and the clock, and the simulation checks the invariants of the connection
//! after every event.
//!
//! ```text
//! client ──bytes──▶ socket ──at most `read` at once──▶ inbox ──▶ Connection ──at most `send` at once──▶ wire
//! ```
//!
//! The invariants that it checks in every test:
//!
//! - *Bounds*: a connection has at most [`SPAN_COUNT_MAX`] spans in its outbox and holds at most four buffers. With a full outbox it pauses
//!   input.
//! - *Frozen front*: a span that the engine has seen leaves the outbox only through `sent`; new spans go after it.
//! - *Quiet*: queries have no side effects, so a repeated query has the same result.
//! - *Idle is empty*: between requests the connection holds no buffer and no image.
//!
//! Before every event the simulation moves the connection: it must contain nothing that the kernel reads.

use crate::{
    AcceptedClient, BUF_LEN, BufRange, Close, ConnResources, Connection, Counters, Input, Limits, Pool,
    Records, ResponsePrefixes, SPAN_COUNT_MAX, Sites, Span, Tick,
};
use std::sync::Arc;
use tarpon_site::{Image, Region, ResidentPages};

/// A simulation of one connection and its surroundings.
pub struct Sim {
    /// `None` only while it handles an event.
    conn: Option<Connection>,
    /// The sites. A test may replace their images and limits.
    pub sites: Sites,
    pool: Pool,
    prefixes: ResponsePrefixes,
    now: Tick,
    /// The counters of the worker.
    pub counters: Counters,
    /// The records for the log, which are off unless a test replaces them.
    pub records: Records,
    /// The bytes that the client has sent and the engine has not read.
    socket: Vec<u8>,
    /// Whether the client has closed its sending side.
    client_ended: bool,
    /// Whether the connection has handled the end of the input.
    end_passed: bool,
    inbox: Option<BufRange>,
    /// Whether to offer the inbox to the connection again.
    inbox_changed: bool,
    /// The bytes sent to the client.
    pub wire: Vec<u8>,
    /// The number of bytes at the end of `wire` that the client has not acknowledged.
    pub unacked: u64,
    /// The contents of the files beside the image, by number.
    pub files: Vec<Vec<u8>>,
    /// The archive beside the image.
    pub archive: Vec<u8>,
    /// The resident pages of the file that the images lie in, if a test limits residency. A missing page is loaded at once.
    pub resident_pages: Option<Arc<ResidentPages>>,
    close: Close,
}

/// The maximum lengths of a read and a send.
#[derive(Clone, Copy, Debug)]
pub struct Cuts {
    /// The maximum number of bytes per read.
    pub read: usize,
    /// The maximum number of bytes per send. 0: the client reads nothing.
    pub send: usize,
}

impl Cuts {
    /// No cuts: everything at once.
    pub const NONE: Cuts = Cuts { read: BUF_LEN, send: usize::MAX };
}

/// The time at which a simulation starts: Mon, 07 Nov 1994 08:49:37 GMT.
pub const UNIX_S: u64 = 784_198_177;

/// The maximum number of buffers that a connection holds: its inbox, two with generated fields, and the rest of a prefix that was sent in
/// part.
const BUFS_HELD_MAX: usize = 4;

/// The number of buffers: enough that one is free whenever an exchange begins.
const POOL_COUNT: usize = 2 * BUFS_HELD_MAX;

impl Sim {
    /// Accepts a client, for a worker with one site.
    pub fn new(image: Image) -> Sim {
        Sim::with_sites(Sites::new(image, Limits::default()))
    }

    /// Accepts a client, for a worker with these sites.
    pub fn with_sites(mut sites: Sites) -> Sim {
        let mut pool = Pool::new(POOL_COUNT as u32);
        let (prefixes, now) = (ResponsePrefixes::new(UNIX_S), Tick(0));
        let (counters, mut records) = (Counters::default(), Records::off());
        let mut cx = ConnResources {
            sites: &mut sites,
            pool: &mut pool,
            prefixes: &prefixes,
            now,
            counters: &counters,
            records: &mut records,
        };
        let conn = Some(Connection::new(&mut cx, AcceptedClient::default()));
        Sim {
            conn,
            sites,
            pool,
            prefixes,
            now,
            counters,
            records,
            socket: Vec::new(),
            client_ended: false,
            end_passed: false,
            inbox: None,
            inbox_changed: false,
            wire: Vec::new(),
            unacked: 0,
            files: Vec::new(),
            archive: Vec::new(),
            resident_pages: None,
            close: Close::No,
        }
    }

    /// Sends bytes as the client, unless it has closed its sending side. The server does not run.
    pub fn client_sends(&mut self, bytes: &[u8]) {
        if !self.client_ended {
            self.socket.extend_from_slice(bytes);
        }
    }

    /// Closes the client's sending side.
    pub fn client_ends(&mut self) {
        self.client_ended = true;
    }

    /// Runs the engine until it makes no progress.
    pub fn run(&mut self, cuts: Cuts) {
        while self.step(cuts) {}
    }

    /// Takes one step of the engine, in the order of engines. Returns whether it made progress.
    pub fn step(&mut self, cuts: Cuts) -> bool {
        if self.close == Close::Both {
            return false;
        }
        let need = self.conn().need();
        self.close = need.close;
        if need.close != Close::Both && !self.outbox().is_empty() && cuts.send > 0 {
            self.send(cuts.send);
            self.check_idle();
            return true;
        }
        if let Some(missing) = self.conn().missing_page()
            && self.outbox().is_empty()
        {
            let resident =
                self.resident_pages.as_ref().expect("a page is missing only if residency is limited");
            ResidentPages::pages_of(missing.page).for_each(|page| resident.insert(page));
            self.pass_event(|conn, _| conn.loaded());
            return true;
        }
        match need.input {
            _ if need.close == Close::Both => {
                self.closed();
                true
            }
            Input::Pause => false,
            Input::Bytes { max } => match self.inbox {
                Some(range) if self.inbox_changed => self.offer(range),
                _ => self.read(cuts.read, max as usize),
            },
        }
    }

    /// Advances the clock. If the deadline has passed, passes that event to the connection.
    pub fn pass(&mut self, ms: u64) {
        if self.close == Close::Both {
            return;
        }
        self.now = self.now.after(ms);
        self.prefixes.set_time(UNIX_S + self.now.0 / 1_000);
        if self.conn().deadline() <= self.now {
            let unacked = self.unacked;
            self.pass_event(|conn, cx| conn.expired(cx, unacked));
        }
    }

    /// Tells the connection to drain, because another server takes over.
    pub fn drain(&mut self) {
        self.pass_event(|conn, _| conn.drain());
    }

    /// Tells the connection that the server stops.
    pub fn stop(&mut self) {
        self.pass_event(|conn, cx| conn.stop(cx));
    }

    /// Returns what the connection asked the engine to close.
    pub fn close(&self) -> Close {
        self.close
    }

    /// Returns the time until the deadline of the connection, in milliseconds.
    pub fn deadline_ms(&self) -> u64 {
        self.conn().deadline().0.saturating_sub(self.now.0)
    }

    /// Returns the spans to send.
    pub fn outbox(&self) -> &[Span] {
        self.conn().outbox()
    }

    /// Returns how much the connection lets the engine read.
    pub fn input(&self) -> Input {
        self.conn().need().input
    }

    /// Returns the number of held buffers, including the inbox.
    pub fn bufs_held(&self) -> usize {
        self.pool.held()
    }

    fn send(&mut self, max: usize) {
        let mut left = max;
        for &span in self.conn.as_ref().expect("one event at a time").outbox() {
            let bytes = match span {
                Span::Prefix(prefix) => self.prefixes.bytes(prefix),
                Span::Site { image, at, len } => self.sites.image(image).bytes(Region { at, len }),
                Span::Buf(range) => self.pool.bytes(range),
                Span::File { number, at, len, .. } => {
                    &self.files[number as usize][at as usize..][..len as usize]
                }
                Span::Archive { at, len, .. } => &self.archive[at as usize..][..len as usize],
            };
            let sent = bytes.len().min(left);
            self.wire.extend_from_slice(&bytes[..sent]);
            left -= sent;
        }
        let sent = (max - left) as u64;
        self.pass_event(|conn, cx| conn.sent(cx, sent));
    }

    fn read(&mut self, cut: usize, max: usize) -> bool {
        if self.socket.is_empty() {
            return self.pass_end();
        }
        let range = match self.inbox.take() {
            Some(range) => self.pool.copy(range, range.buf, 0),
            None => BufRange { buf: self.pool.take().expect("a buffer for the inbox"), at: 0, len: 0 },
        };
        let len = self.socket.len().min(cut).min(max - range.len as usize);
        assert!(len > 0, "a connection with a full inbox does not read");
        self.pool.buf_mut(range.buf)[range.len as usize..][..len].copy_from_slice(&self.socket[..len]);
        self.socket.drain(..len);
        let range = BufRange { len: range.len + len as u32, ..range };
        self.inbox = Some(range);
        self.offer(range)
    }

    fn offer(&mut self, range: BufRange) -> bool {
        let used = self.pass_event(|conn, cx| conn.received(cx, range));
        // A connection that waits for room and not for more bytes gets the same input again.
        self.inbox_changed = used > 0 || self.input() == Input::Pause;
        if used == range.len as usize {
            self.empty_inbox();
            self.check_idle();
        } else {
            self.inbox = Some(range.skip(used));
        }
        true
    }

    fn pass_end(&mut self) -> bool {
        let end = self.client_ended && !self.end_passed;
        if end {
            self.end_passed = true;
            self.empty_inbox();
            self.pass_event(|conn, cx| conn.ended(cx));
        }
        end
    }

    fn closed(&mut self) {
        self.empty_inbox();
        self.pass_event(|conn, cx| conn.closed(cx));
        assert_eq!(
            (self.pool.held(), self.sites.holder_count()),
            (0, 0),
            "a closed connection holds nothing"
        );
    }

    fn empty_inbox(&mut self) {
        if let Some(range) = self.inbox.take() {
            self.pool.release(range.buf);
        }
    }

    /// Passes an event to the connection, after moving it, and checks the invariants.
    fn pass_event<T>(&mut self, event: impl FnOnce(&mut Connection, &mut ConnResources<'_>) -> T) -> T {
        let mut conn = self.conn.take().expect("one event at a time");
        let before = conn.outbox().to_vec();
        let mut cx = ConnResources {
            sites: &mut self.sites,
            pool: &mut self.pool,
            prefixes: &self.prefixes,
            now: self.now,
            counters: &self.counters,
            records: &mut self.records,
        };
        let result = event(&mut conn, &mut cx);
        self.conn = Some(conn);
        self.check_bounds();
        self.check_queries();
        self.check_front(&before);
        result
    }

    fn check_bounds(&self) {
        let count = self.outbox().len();
        assert!(count <= SPAN_COUNT_MAX, "{count} spans");
        assert!(self.pool.held() <= BUFS_HELD_MAX, "{} buffers held", self.pool.held());
        if count == SPAN_COUNT_MAX {
            assert_eq!(self.input(), Input::Pause, "the outbox is full, so input pauses");
        }
    }

    /// Checks that repeated queries have the same results.
    fn check_queries(&self) {
        let query = || (self.conn().need(), self.outbox().to_vec(), self.conn().deadline());
        assert_eq!(query(), query());
    }

    /// Checks that the outbox still has the spans from before the event, in order, except those that were sent. The first of them may be
    /// shorter now.
    fn check_front(&self, before: &[Span]) {
        let now = self.outbox();
        let is_kept = (0..=before.len()).any(|sent_count| {
            let rest = &before[sent_count..];
            rest.len() <= now.len() && rest.iter().zip(now).skip(1).all(|(before, after)| before == after)
        });
        assert!(is_kept, "{before:?} became {now:?}");
    }

    /// Checks that the connection holds neither a buffer nor an image between requests.
    fn check_idle(&self) {
        let is_waiting = matches!(self.input(), Input::Bytes { .. }) && self.outbox().is_empty();
        if is_waiting && self.inbox.is_none() {
            assert_eq!(
                (self.pool.held(), self.sites.holder_count()),
                (0, 0),
                "an idle connection holds nothing"
            );
        }
    }

    fn conn(&self) -> &Connection {
        self.conn.as_ref().expect("one event at a time")
    }
}
