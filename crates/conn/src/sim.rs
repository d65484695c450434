//! The engine in memory: a client, a kernel and a clock that do exactly what a test says, and a check of the
//! laws after every fact.
//!
//! ```text
//! client ──bytes──▶ socket ──at most `read` at once──▶ inbox ──▶ Connection ──at most `send` at once──▶ wire
//! ```
//!
//! The laws it checks whatever the test is about:
//!
//! - *Bounds*: at most [`SPAN_COUNT_MAX`] spans owed and four buffers held; at a bound, the answer is `Pause`.
//! - *Frozen front*: a span once shown leaves only through `sent`; new ones go behind.
//! - *Quiet*: questions asked twice have the same answer.
//! - *Idle is empty*: between requests no buffer is held and no image is named.
//!
//! That a connection keeps nothing the kernel would read is checked by moving it before every fact.

use crate::{
    AcceptedClient, BUF_LEN, BufRange, Close, ConnResources, Connection, Counters, Input, Limits, Pool,
    Records, ResponsePrefixes, SPAN_COUNT_MAX, Sites, Span, Tick,
};
use std::sync::Arc;
use tarpon_site::{Image, Region, ResidentPages};

/// One connection, and all that is around it.
pub struct Sim {
    /// `None` only while it is told a fact.
    conn: Option<Connection>,
    /// The sites, for a test that swaps their images, or has them grant something else.
    pub sites: Sites,
    pool: Pool,
    prefixes: ResponsePrefixes,
    now: Tick,
    /// What was counted.
    pub counters: Counters,
    /// What was recorded, for a test that wants it to be.
    pub records: Records,
    /// What the client has sent and nobody has read yet.
    socket: Vec<u8>,
    /// The client has closed its sending side.
    client_ended: bool,
    /// The end of the client's bytes has been told.
    told_end: bool,
    inbox: Option<BufRange>,
    fresh: bool,
    /// All that the client has received, or will receive.
    pub wire: Vec<u8>,
    /// Bytes at the end of `wire` that have not reached the client yet.
    pub unacked: u64,
    /// Contents of files beside the image, by number.
    pub files: Vec<Vec<u8>>,
    /// The archive beside the image.
    pub archive: Vec<u8>,
    /// What is in memory of the file that the images lie in, if they are watched there: what is wanted comes at once.
    pub disk: Option<Arc<ResidentPages>>,
    close: Close,
}

/// How much moves at once.
#[derive(Clone, Copy, Debug)]
pub struct Cuts {
    /// Bytes per read.
    pub read: usize,
    /// Bytes per send. 0: the client takes nothing.
    pub send: usize,
}

impl Cuts {
    /// Everything at once.
    pub const NONE: Cuts = Cuts { read: BUF_LEN, send: usize::MAX };
}

/// The date in every response of a simulation: Mon, 07 Nov 1994 08:49:37 GMT.
pub const UNIX_S: u64 = 784_198_177;

/// Buffers that one connection may hold: its inbox, two with a query or what is said of parts, and a cut start.
const BUFS_HELD_MAX: usize = 4;

/// Buffers there are: so many that they are plentiful whenever an exchange begins.
const POOL_COUNT: usize = 2 * BUFS_HELD_MAX;

impl Sim {
    /// A client has just been accepted, by a worker with one site.
    pub fn new(image: Image) -> Sim {
        Sim::by_host(Sites::new(image, Limits::default()))
    }

    /// The same with whatever sites.
    pub fn by_host(mut sites: Sites) -> Sim {
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
            told_end: false,
            inbox: None,
            fresh: false,
            wire: Vec::new(),
            unacked: 0,
            files: Vec::new(),
            archive: Vec::new(),
            disk: None,
            close: Close::No,
        }
    }

    /// The client sends bytes, unless it has closed its sending side. Nothing of the server runs.
    pub fn client_sends(&mut self, bytes: &[u8]) {
        if !self.client_ended {
            self.socket.extend_from_slice(bytes);
        }
    }

    /// The client closes its sending side.
    pub fn client_ends(&mut self) {
        self.client_ended = true;
    }

    /// Turns until nothing more happens.
    pub fn run(&mut self, cuts: Cuts) {
        while self.step(cuts) {}
    }

    /// One step of a turn, in the order engines take them. Returns whether anything happened.
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
            let disk = self.disk.as_ref().expect("only a page on a disk is wanted");
            ResidentPages::pages_of(missing.page).for_each(|page| disk.insert(page));
            self.fact(|conn, _| conn.loaded());
            return true;
        }
        match need.input {
            _ if need.close == Close::Both => {
                self.closed();
                true
            }
            Input::Pause => false,
            Input::Bytes { max } => match self.inbox {
                Some(run) if self.fresh => self.offer(run),
                _ => self.read(cuts.read, max as usize),
            },
        }
    }

    /// Time passes; the connection is told if that is past its deadline.
    pub fn pass(&mut self, ms: u64) {
        if self.close == Close::Both {
            return;
        }
        self.now = self.now.after(ms);
        self.prefixes.set_time(UNIX_S + self.now.0 / 1_000);
        if self.conn().deadline() <= self.now {
            let unacked = self.unacked;
            self.fact(|conn, cx| conn.expired(cx, unacked));
        }
    }

    /// Another server takes over.
    pub fn drain(&mut self) {
        self.fact(|conn, _| conn.drain());
    }

    /// The server stops.
    pub fn stop(&mut self) {
        self.fact(|conn, cx| conn.stop(cx));
    }

    /// What the connection has asked to close.
    pub fn close(&self) -> Close {
        self.close
    }

    /// Milliseconds until the connection's deadline.
    pub fn deadline_ms(&self) -> u64 {
        self.conn().deadline().0.saturating_sub(self.now.0)
    }

    /// What is owed.
    pub fn outbox(&self) -> &[Span] {
        self.conn().outbox()
    }

    /// What the connection would read.
    pub fn input(&self) -> Input {
        self.conn().need().input
    }

    /// Buffers held, the inbox included.
    pub fn bufs_held(&self) -> usize {
        self.pool.held()
    }

    fn send(&mut self, max: usize) {
        let mut left = max;
        for &span in self.conn.as_ref().expect("one fact at a time").outbox() {
            let bytes = match span {
                Span::Prefix(prefix) => self.prefixes.bytes(prefix),
                Span::Site { image, at, len } => self.sites.image(image).bytes(Region { at, len }),
                Span::Buf(run) => self.pool.bytes(run),
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
        self.fact(|conn, cx| conn.sent(cx, sent));
    }

    fn read(&mut self, cut: usize, max: usize) -> bool {
        if self.socket.is_empty() {
            return self.end();
        }
        let run = match self.inbox.take() {
            Some(run) => self.pool.copy(run, run.buf, 0),
            None => BufRange { buf: self.pool.take().expect("a buffer for the inbox"), at: 0, len: 0 },
        };
        let len = self.socket.len().min(cut).min(max - run.len as usize);
        assert!(len > 0, "a full inbox asks for more");
        self.pool.buf_mut(run.buf)[run.len as usize..][..len].copy_from_slice(&self.socket[..len]);
        self.socket.drain(..len);
        let run = BufRange { len: run.len + len as u32, ..run };
        self.inbox = Some(run);
        self.offer(run)
    }

    fn offer(&mut self, run: BufRange) -> bool {
        let used = self.fact(|conn, cx| conn.received(cx, run));
        // What waits for room and not for more bytes is offered again as it is.
        self.fresh = used > 0 || self.input() == Input::Pause;
        if used == run.len as usize {
            self.empty_inbox();
            self.check_idle();
        } else {
            self.inbox = Some(run.skip(used));
        }
        true
    }

    fn end(&mut self) -> bool {
        let end = self.client_ended && !self.told_end;
        if end {
            self.told_end = true;
            self.empty_inbox();
            self.fact(|conn, cx| conn.ended(cx));
        }
        end
    }

    fn closed(&mut self) {
        self.empty_inbox();
        self.fact(|conn, cx| conn.closed(cx));
        assert_eq!(
            (self.pool.held(), self.sites.holder_count()),
            (0, 0),
            "an abandoned connection holds nothing"
        );
    }

    fn empty_inbox(&mut self) {
        if let Some(run) = self.inbox.take() {
            self.pool.release(run.buf);
        }
    }

    /// Tells the connection a fact, and checks the laws. The connection is moved on the way.
    fn fact<T>(&mut self, tell: impl FnOnce(&mut Connection, &mut ConnResources<'_>) -> T) -> T {
        let mut conn = self.conn.take().expect("one fact at a time");
        let shown = conn.outbox().to_vec();
        let mut cx = ConnResources {
            sites: &mut self.sites,
            pool: &mut self.pool,
            prefixes: &self.prefixes,
            now: self.now,
            counters: &self.counters,
            records: &mut self.records,
        };
        let told = tell(&mut conn, &mut cx);
        self.conn = Some(conn);
        self.check_bounds();
        self.check_quiet();
        self.check_front(&shown);
        told
    }

    fn check_bounds(&self) {
        let owed = self.outbox().len();
        assert!(owed <= SPAN_COUNT_MAX, "{owed} spans owed");
        assert!(self.pool.held() <= BUFS_HELD_MAX, "{} buffers held", self.pool.held());
        if owed == SPAN_COUNT_MAX {
            assert_eq!(self.input(), Input::Pause, "full, and still asks for more");
        }
    }

    fn check_quiet(&self) {
        let answers = || (self.conn().need(), self.outbox().to_vec(), self.conn().deadline());
        assert_eq!(answers(), answers());
    }

    /// What was shown before is still there, but for what has left at the front; its first span may be shorter.
    fn check_front(&self, shown: &[Span]) {
        let now = self.outbox();
        let survives = (0..=shown.len()).any(|gone| {
            let rest = &shown[gone..];
            rest.len() <= now.len() && rest.iter().zip(now).skip(1).all(|(before, after)| before == after)
        });
        assert!(survives, "{shown:?} became {now:?}");
    }

    /// Between requests nothing is held: neither a buffer nor an image.
    fn check_idle(&self) {
        let waits = matches!(self.input(), Input::Bytes { .. }) && self.outbox().is_empty();
        if waits && self.inbox.is_none() {
            assert_eq!((self.pool.held(), self.sites.holder_count()), (0, 0), "idle, and not empty");
        }
    }

    fn conn(&self) -> &Connection {
        self.conn.as_ref().expect("one fact at a time")
    }
}
