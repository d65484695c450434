//! An engine in memory: a test controls the client, the kernel and the clock, and the simulation checks the invariants of the connection
//! after every event.
//!
//! ```text
//! client ──bytes──▶ socket ──at most `read` at once──▶ inbox ──▶ Transport ⇄ Connection
//!        ◀─────────────────at most `send` at once──────────────────────┘
//! ```
//!
//! The engine takes the steps of [`Connection::next_step`], as the engines of the server do. The client has the other end of the
//! [`Transport`], so a test sees plain bytes on both sides.
//!
//! The invariants that it checks in every test:
//!
//! - *Bounds*: a connection has at most [`SPAN_COUNT_MAX`] spans in its outbox and holds at most four buffers, and a sealing transport two
//!   more; one of HTTP/2 holds as many as a full outbox of short responses has, and those of a few byte ranges that wait. With a full outbox
//!   the connection pauses input; one of HTTP/2 reads on until it has a frame that needs room.
//! - *Frozen front*: a span that the engine has seen leaves the outbox only through `sent`; new spans go after it.
//! - *Quiet*: queries have no side effects, so a repeated query has the same result.
//! - *Idle is empty*: between requests the connection holds no buffer and no image.
//!
//! Before every event the simulation moves the connection: it must contain nothing that the kernel reads.

mod client;

use crate::{
    AcceptedClient, BufRange, Close, ConnResources, Connection, Counters, DriveState, DriveStep,
    HandshakeStep, Input, Limits, MissingPage, Need, PasswordJob, Pipes, Pool, RECORD_PLAIN_LEN_MAX, Records,
    ResponsePrefixes, SPAN_COUNT_MAX, SectionBuffer, Sites, Span, Tick, Transport, TransportError,
};
pub use client::TransportClient;
use rustls::{ClientConfig, ServerConfig};
use std::{ops::RangeInclusive, sync::Arc};
use tarpon_site::{Image, Region, ResidentPages};

/// A simulation of one connection and its surroundings.
pub struct Sim {
    /// `None` only while it handles an event.
    conn: Option<Connection>,
    transport: Transport,
    client: TransportClient,
    /// The sites. A test may replace their images and limits.
    pub sites: Sites,
    pool: Pool,
    prefixes: ResponsePrefixes,
    now: Tick,
    /// The counters of the worker.
    pub counters: Counters,
    /// The records for the log, which are off unless a test replaces them.
    pub records: Records,
    /// The bytes that the client has sent and the engine has not read. A test may change them.
    pub socket: Vec<u8>,
    /// How many more bytes of the client arrive. The others are lost.
    pub arriving_len: usize,
    /// Whether the client has closed its sending side.
    client_ended: bool,
    /// Whether the connection has handled the end of the input.
    end_passed: bool,
    inbox: Option<BufRange>,
    /// The step of the handshake that runs.
    step: Option<Box<HandshakeStep>>,
    /// The job that another thread would run.
    password_job: Option<Box<PasswordJob>>,
    /// Whether to offer the inbox to the connection again.
    inbox_changed: bool,
    /// Whether the sending side of the socket is shut down.
    is_write_shut_down: bool,
    /// The plain bytes that have reached the client.
    pub wire: Vec<u8>,
    /// The number of bytes sent on the socket.
    wire_len: usize,
    /// The number of the last of them that the client has not acknowledged.
    pub unacked: u64,
    /// The contents of the files beside the image, by number.
    pub files: Vec<Vec<u8>>,
    /// The archive beside the image.
    pub archive: Vec<u8>,
    /// Whether the archive turns out to be truncated after its bytes were read.
    pub archive_is_damaged: bool,
    /// The resident pages of the file that the images lie in, if a test limits residency. A missing page is loaded at once.
    pub resident_pages: Option<Arc<ResidentPages>>,
    close: Close,
    is_closed: bool,
}

/// How the bytes of the client travel.
#[derive(Clone, Debug)]
pub enum Through {
    /// As they are.
    Plain,
    /// In scrambled records, in both directions.
    Scrambled {
        /// The source of all random numbers.
        seed: u64,
        /// The lengths of records, in plain bytes.
        record_lens: RangeInclusive<usize>,
    },
    /// In records of TLS, with these configurations of both ends.
    Tls(Arc<ServerConfig>, Arc<ClientConfig>),
}

impl Through {
    /// The largest records only.
    pub const LARGEST: Through =
        Through::Scrambled { seed: 0, record_lens: RECORD_PLAIN_LEN_MAX..=RECORD_PLAIN_LEN_MAX };

    /// Returns the transport of the server.
    pub(crate) fn transport(&self) -> Transport {
        match self {
            Through::Plain => Transport::Plain,
            Through::Scrambled { seed, record_lens } => Transport::scrambled(*seed, record_lens.clone()),
            Through::Tls(server, _) => Transport::tls(server).expect("a usable configuration"),
        }
    }
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
    pub const NONE: Cuts = Cuts { read: usize::MAX, send: usize::MAX };
}

/// The time at which a simulation starts: Mon, 07 Nov 1994 08:49:37 GMT.
pub const UNIX_S: u64 = 784_198_177;

/// The maximum number of buffers that a connection holds: its inbox, two with generated fields, and the rest of a prefix that was sent in
/// part.
const BUFS_HELD_MAX: usize = 4;

/// The maximum number of buffers that a connection of HTTP/2 holds: its inbox, five of short responses, one of replies, and four of byte
/// ranges.
const BUFS_HELD_HTTP2_MAX: usize = 11;

/// The number of buffers that a sealing transport holds beside them: the plain inbox, the record that leaves, and during the handshake two
/// more of its records.
const BUFS_HELD_SEALED_MAX: usize = 4;

/// The number of buffers: enough that one is free whenever an exchange begins.
const POOL_COUNT: usize = 2 * (BUFS_HELD_HTTP2_MAX + BUFS_HELD_SEALED_MAX);

impl Sim {
    /// Accepts a client, for a worker with one site.
    pub fn new(image: Image) -> Sim {
        Sim::with_sites(Sites::new(image, Limits::default()))
    }

    /// Accepts a client, for a worker with these sites.
    pub fn with_sites(sites: Sites) -> Sim {
        Sim::accept(sites, AcceptedClient::default())
    }

    /// Accepts this client, for a worker with these sites.
    pub fn accept(mut sites: Sites, accepted: AcceptedClient) -> Sim {
        let mut pool = Pool::new(POOL_COUNT as u32);
        let (prefixes, now) = (ResponsePrefixes::new(UNIX_S), Tick(0));
        let (counters, mut records) = (Counters::default(), Records::off());
        let mut cx = ConnResources {
            sites: &mut sites,
            pool: &mut pool,
            prefixes: &prefixes,
            now,
            now_us: 0,
            counters: &counters,
            records: &mut records,
            pipes: &mut Pipes::default(),
            sections: &mut SectionBuffer::default(),
            hot_paths: None,
        };
        let conn = Some(Connection::new(&mut cx, accepted));
        Sim {
            conn,
            transport: Transport::Plain,
            client: TransportClient::Plain,
            sites,
            pool,
            prefixes,
            now,
            counters,
            records,
            socket: Vec::new(),
            arriving_len: usize::MAX,
            client_ended: false,
            end_passed: false,
            inbox: None,
            step: None,
            password_job: None,
            inbox_changed: false,
            is_write_shut_down: false,
            wire: Vec::new(),
            wire_len: 0,
            unacked: 0,
            files: Vec::new(),
            archive: Vec::new(),
            archive_is_damaged: false,
            resident_pages: None,
            close: Close::No,
            is_closed: false,
        }
    }

    /// Takes heads of at most so many bytes, before the first byte.
    #[must_use]
    pub fn with_heads(self, len_max: usize) -> Sim {
        assert_eq!(self.pool.held(), 0, "before the first byte");
        Sim { pool: Pool::for_heads(POOL_COUNT as u32, len_max), ..self }
    }

    /// Puts a transport between the client and the connection, before the first byte. The client begins its handshake.
    #[must_use]
    pub fn through(mut self, through: &Through) -> Sim {
        self.client = TransportClient::new(through, &mut self.socket);
        self.transport = through.transport();
        self
    }

    /// Replaces the client by one without records, for a server that answers in plain bytes.
    pub fn answer_in_plain(&mut self) {
        self.client = TransportClient::Plain;
    }

    /// Sends bytes as the client, unless it has closed its sending side. The server does not run.
    pub fn client_sends(&mut self, bytes: &[u8]) {
        if !self.client_ended {
            self.client.send(bytes, &mut self.socket);
        }
    }

    /// Closes the client's sending side.
    pub fn client_ends(&mut self) {
        if !self.client_ended {
            self.client.end(&mut self.socket);
        }
        self.client_ended = true;
    }

    /// Returns whether the server has announced that it sends no more. A plain transport cannot.
    pub fn client_has_alert(&self) -> bool {
        self.client.has_alert()
    }

    /// Sends `len` bytes on the socket, unless less is pending.
    pub fn send_on_wire(&mut self, len: usize) {
        let end = self.wire_len + len;
        while self.wire_len < end
            && !self.outbox().is_empty()
            && self.step(Cuts { send: end - self.wire_len, ..Cuts::NONE })
        {}
    }

    /// Runs the engine until it makes no progress.
    pub fn run(&mut self, cuts: Cuts) {
        while self.step(cuts) {}
    }

    /// Takes the next step of the engine. Returns whether it made progress. `Cuts::send` of 0: the socket is full.
    pub fn step(&mut self, cuts: Cuts) -> bool {
        if self.is_closed {
            return false;
        }
        let Need { close, .. } = self.conn().need();
        self.close = close;
        match self.next_step(cuts.send > 0) {
            DriveStep::Close => self.closed(),
            DriveStep::Send => {
                self.send(cuts.send);
                self.check_idle();
            }
            DriveStep::Load => {
                let missing = self.conn().missing_page().expect("the step is Load");
                self.load(missing);
            }
            DriveStep::Handshake => self.step = self.transport.take_step(),
            DriveStep::Verify => self.password_job = self.pass_event(|_, conn, _| conn.take_password_job()),
            DriveStep::InstallKeys => panic!("no kernel is there"),
            DriveStep::ShutDown => self.is_write_shut_down = true,
            DriveStep::Offer => self.offer(),
            DriveStep::Read | DriveStep::Discard => return self.read(cuts.read),
            DriveStep::ReadContent => panic!("a connection with a client reads all into its inbox"),
            DriveStep::Pause => return self.finish_step(),
        }
        true
    }

    /// Runs the step of the handshake that the transport waits for, or the job of the password that a request waits for: as late as possible,
    /// as if it ran on another thread. Returns whether there is one.
    fn finish_step(&mut self) -> bool {
        if let Some(mut job) = self.password_job.take() {
            job.run();
            self.pass_event(|_, conn, cx| conn.verified(cx, job));
            self.inbox_changed = true;
            return true;
        }
        let Some(mut step) = self.step.take() else { return false };
        step.run();
        let stepped = self.pass_event(|transport, conn, cx| transport.stepped(conn, cx, *step));
        stepped.expect("a buffer for the records of the handshake");
        self.inbox_changed = true;
        true
    }

    /// Advances the clock. If the deadline has passed, passes that event to the connection.
    pub fn pass(&mut self, ms: u64) {
        if self.is_closed {
            return;
        }
        self.now = self.now.after(ms);
        self.prefixes.set_time(UNIX_S + self.now.0 / 1_000);
        if self.conn().deadline() <= self.now {
            let unacked = self.unacked;
            self.pass_event(|transport, conn, cx| transport.expired(conn, cx, unacked));
        }
    }

    /// Tells the connection to drain, because another server takes over.
    pub fn drain(&mut self) {
        self.pass_event(|_, conn, cx| conn.drain(cx));
    }

    /// Tells the connection that the server stops.
    pub fn stop(&mut self) {
        self.pass_event(|_, conn, cx| conn.stop(cx));
    }

    /// Ends the connection before its deadline, because other connections need its buffers.
    pub fn evict(&mut self) {
        self.pass_event(|transport, conn, cx| transport.evict(conn, cx));
        self.empty_inbox();
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

    fn next_step(&self, can_send: bool) -> DriveStep {
        let state = DriveState {
            can_send,
            is_loading: false,
            has_new_input: self.inbox_changed && (self.inbox.is_some() || self.transport.has_input()),
            is_write_shut_down: self.is_write_shut_down,
        };
        self.conn().next_step(&self.transport, state)
    }

    fn send(&mut self, max: usize) {
        let conn = self.conn.as_ref().expect("one event at a time");
        let len = self.transport.record_len(conn, &mut self.pool).expect("a buffer for a record");
        if let Some(len) = len {
            let plain = self.gather(len);
            let record = self.transport.seal(&mut self.pool, &plain).expect("a buffer for a record");
            if !self.is_intact(plain.len()) {
                self.pool.release(record.discard());
                return self.closed();
            }
            self.transport.queue(record);
        }
        let bytes = match self.transport.queued() {
            Some(record) => self.pool.bytes(record)[..max.min(record.len as usize)].to_vec(),
            None => {
                let bytes = self.gather(max);
                if !self.is_intact(bytes.len()) {
                    return self.closed();
                }
                bytes
            }
        };
        self.wire_len += bytes.len();
        self.client.receive(&bytes, &mut self.wire, &mut self.socket);
        self.pass_event(|transport, conn, cx| transport.sent(conn, cx, bytes.len() as u64));
    }

    /// Returns at most the first `max` bytes of the outbox.
    fn gather(&self, max: usize) -> Vec<u8> {
        let mut gathered = Vec::new();
        for &span in self.outbox() {
            let bytes = match span {
                Span::Prefix(prefix) => self.prefixes.bytes(prefix),
                Span::Site { image, at, len } => self.sites.image(image).bytes(Region { at, len }),
                Span::Buf(range) => self.pool.bytes(range),
                Span::File { number, at, len, .. } => {
                    &self.files[number as usize][at as usize..][..len as usize]
                }
                Span::Archive { at, len, .. } => &self.archive[at as usize..][..len as usize],
            };
            gathered.extend_from_slice(&bytes[..bytes.len().min(max - gathered.len())]);
        }
        gathered
    }

    /// Returns whether the sources of the first `len` bytes of the outbox were intact while they were read.
    fn is_intact(&self, len: usize) -> bool {
        let mut at = 0;
        let mut front = self.outbox().iter().take_while(|span| {
            let is_in_front = at < len as u64;
            at += span.len();
            is_in_front
        });
        !self.archive_is_damaged || !front.any(|span| matches!(span, Span::Archive { .. }))
    }

    fn load(&mut self, missing: MissingPage) {
        let resident = self.resident_pages.as_ref().expect("a page is missing only if residency is limited");
        ResidentPages::pages_of(missing.page).for_each(|page| resident.insert(page));
        self.pass_event(|_, conn, _| conn.loaded());
    }

    fn read(&mut self, cut: usize) -> bool {
        if self.socket.is_empty() || self.arriving_len == 0 {
            return self.pass_end();
        }
        let range = match self.inbox.take() {
            Some(range) => self.pool.copy(range, range.buf, 0),
            None => self.empty_range(),
        };
        let len =
            self.socket.len().min(cut).min(self.arriving_len).min(self.pool.buf_len() - range.len as usize);
        assert!(len > 0, "a connection with a full inbox does not read");
        self.pool.buf_mut(range.buf)[range.len as usize..][..len].copy_from_slice(&self.socket[..len]);
        self.socket.drain(..len);
        self.arriving_len -= len;
        self.inbox = Some(BufRange { len: range.len + len as u32, ..range });
        self.offer();
        true
    }

    fn empty_range(&mut self) -> BufRange {
        BufRange { buf: self.pool.take().expect("a buffer for the inbox"), at: 0, len: 0 }
    }

    fn offer(&mut self) {
        let range = self.inbox.take().unwrap_or_else(|| self.empty_range());
        self.inbox = Some(range);
        match self.pass_event(|transport, conn, cx| transport.received(conn, cx, range)) {
            Ok(used) => {
                // A connection that waits for room and not for more bytes gets the same input again.
                self.inbox_changed = used > 0 || self.input() == Input::Pause;
                if used == range.len as usize {
                    self.empty_inbox();
                    self.check_idle();
                } else {
                    self.inbox = Some(range.skip(used));
                }
            }
            Err(TransportError) => self.closed(),
        }
    }

    fn pass_end(&mut self) -> bool {
        let end = self.client_ended && !self.end_passed && !self.client.is_waiting();
        if end {
            self.end_passed = true;
            self.empty_inbox();
            self.pass_event(|transport, conn, cx| transport.ended(conn, cx));
        }
        end
    }

    /// Closes the socket.
    fn closed(&mut self) {
        (self.close, self.is_closed) = (Close::Both, true);
        self.empty_inbox();
        self.pass_event(|transport, conn, cx| transport.closed(conn, cx));
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
    fn pass_event<T>(
        &mut self,
        event: impl FnOnce(&mut Transport, &mut Connection, &mut ConnResources<'_>) -> T,
    ) -> T {
        let mut conn = self.conn.take().expect("one event at a time");
        let before = conn.outbox().to_vec();
        let mut cx = ConnResources {
            sites: &mut self.sites,
            pool: &mut self.pool,
            prefixes: &self.prefixes,
            now: self.now,
            now_us: self.now.0 * 1_000,
            counters: &self.counters,
            records: &mut self.records,
            pipes: &mut Pipes::default(),
            sections: &mut SectionBuffer::default(),
            hot_paths: None,
        };
        let result = event(&mut self.transport, &mut conn, &mut cx);
        self.conn = Some(conn);
        self.check_bounds();
        self.check_queries();
        self.check_front(&before);
        result
    }

    fn check_bounds(&self) {
        let count = self.outbox().len();
        assert!(count <= SPAN_COUNT_MAX, "{count} spans");
        let of_conn = if self.conn().has_http2() { BUFS_HELD_HTTP2_MAX } else { BUFS_HELD_MAX };
        let held_max = match self.transport {
            Transport::Plain | Transport::KernelTls(_) => of_conn,
            Transport::Sealed(_) => of_conn + BUFS_HELD_SEALED_MAX,
        };
        assert!(self.pool.held() <= held_max, "{} buffers held", self.pool.held());
        if count == SPAN_COUNT_MAX && !self.conn().has_http2() {
            assert_eq!(self.input(), Input::Pause, "the outbox is full, so input pauses");
        }
    }

    /// Checks that repeated queries have the same results.
    fn check_queries(&self) {
        let query =
            || (self.conn().need(), self.next_step(true), self.outbox().to_vec(), self.conn().deadline());
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
        let is_waiting = match self.conn().has_http2() {
            true => self.conn().is_unused(),
            false => self.input() == Input::Bytes && self.outbox().is_empty(),
        };
        if is_waiting && self.inbox.is_none() && !self.transport.holds_buffers() {
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
