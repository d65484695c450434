//! A sans-IO state machine for one connection: HTTP/1.x with a client, or with a backend that makes dynamic content.
//!
//! An engine, which owns the socket and the clock, reports events to a [`Connection`] and then queries what to do. The bytes to send
//! are [`Span`]s, offsets into buffers, files and images. This crate has no unsafe code, no file descriptors and no clock.
//!
//! ```text
//!            events                                queries
//! engine ── received, ended, sent ──▶ Connection ── outbox, need, deadline ──▶ engine
//!           expired, evict, stop
//! ```
//!
//! After each event, the engine
//!
//! 1. sends the first spans of [`Connection::outbox`],
//! 2. passes unused input to [`Connection::received`] again,
//! 3. reads more input if [`Connection::need`] asks for it, or closes the connection if it asks for that,
//! 4. sets a timer for [`Connection::deadline`].
//!
//! Queries have no side effects: their results change only after an event.
//!
//! Between the socket and the connection lies a [`Transport`]. It takes the events that name bytes, and passes them on: for a plain socket
//! as they are.
//!
//! # Example
//!
//! ```
//! use tarpon_conn::{
//!     AcceptedClient, ConnResources, Connection, Counters, Limits, Pipes, Pool, Records, ResponsePrefixes, SectionBuffer, Sites,
//!     Tick,
//! };
//! # use std::io::Cursor;
//! # let dir = tempfile::tempdir().unwrap();
//! # std::fs::write(dir.path().join("index.html"), "hello").unwrap();
//! # let mut out = Cursor::new(Vec::new());
//! # tarpon_pack::pack_dir(dir.path(), &mut out, &tarpon_pack::PackOptions::new(784_111_777), &mut Default::default()).unwrap();
//! # let image = tarpon_site::Image::new(out.into_inner().into()).unwrap();
//! let (mut sites, mut pool) = (Sites::new(image, Limits::default()), Pool::new(4));
//! let (prefixes, counters, mut records) = (ResponsePrefixes::new(784_111_777), Counters::default(), Records::off());
//! let mut cx = ConnResources {
//!     sites: &mut sites,
//!     pool: &mut pool,
//!     prefixes: &prefixes,
//!     now: Tick(0),
//!     now_us: 0,
//!     counters: &counters,
//!     records: &mut records,
//!     pipes: &mut Pipes::default(),
//!     sections: &mut SectionBuffer::default(),
//!     hot_paths: None,
//! };
//! let mut conn = Connection::new(&mut cx, AcceptedClient::default());
//!
//! let buf = cx.pool.take().unwrap();
//! let request = b"GET / HTTP/1.1\r\nHost: example.net\r\n\r\n";
//! cx.pool.buf_mut(buf)[..request.len()].copy_from_slice(request);
//! let input = tarpon_conn::BufRange { buf, at: 0, len: request.len() as u32 };
//! assert_eq!(conn.received(&mut cx, input), request.len());
//! assert_eq!(conn.outbox().len(), 2, "the response prefix, and its fields and content");
//! ```
#![forbid(unsafe_code)]
// Parts serve TLS alone. The build with all features checks that each is in use.
#![cfg_attr(not(feature = "tls"), allow(dead_code))]

mod address_list;
mod backend;
mod backend_request;
mod bounded_writer;
mod byte_ranges;
mod challenge;
mod chunk;
mod client_finder;
mod content_cursor;
mod counters;
mod functions;
mod generated_text;
mod h1;
mod h2;
mod health;
mod host_map;
mod host_redirect;
mod hosts;
mod hot_paths;
mod https_redirect;
mod log_paths;
mod mount;
mod open_exchanges;
mod passwords;
mod path_limits;
mod pipe;
mod plan;
mod plan_route;
mod pool;
mod program_value;
mod proxy_trust;
mod rate_table;
mod record;
mod request;
mod request_rate;
mod response_prefix;
mod retained_assets;
mod route_table;
mod rules;
mod send_pace;
#[cfg(feature = "sim")]
pub mod sim;
mod site_backends;
mod sites;
mod span;
mod step;
mod tls_session;
mod transport;
mod websocket_keys;

pub use address_list::{AddressEntry, AddressList};
pub use backend::{
    BackendId, BackendLimits, BackendProtocol, BackendRoute, BackendServers, BackendSettings,
    ERROR_LINE_LEN_MAX, FRAME_PREFIX_LEN, FailureReason, FastCgiResponseError, FastCgiSettings, FrameKind,
    FramePrefix, HashKey, InvalidFrame, PathRewrite, REPORTED_REQUEST_LEN_MAX, REQUEST_FRAME_LEN_MAX,
    ServerEvent, ServerId, ServerOutcome, ServerReport,
};
#[cfg(feature = "sim")]
pub use backend::{
    echo::EchoBackend,
    sim::{BackendSim, BackendTls, SimUpstream, UpstreamReply},
};
pub use challenge::{CHALLENGE_ANSWER_LEN_MAX, FindChallenge};
pub use counters::{COUNTED_SITES, Counter, CounterName, Counters, LATENCY_US, STATUS_CLASSES, VERSIONS};
pub use functions::{CollectBudget, InlineContent, InlineFunction, InlineRequest, InlineResponse, Payload};
pub use h1::CONTENT_LEN_MAX;
pub use h2::SectionBuffer;
pub use hosts::{HostName, HostNameError, Hosts, HostsError};
pub use hot_paths::{
    HOT_PATH_LEN_MAX, HOT_PATH_WINDOW, HotPaths, PATH_ROW_COUNT, PathCount, PathSampling, PathTable,
};
pub use open_exchanges::OPEN_COUNT_MAX;
pub use passwords::{
    CredentialDigest, PasswordJob, PasswordOutcome, PasswordRule, PasswordRuleId, PasswordUsers,
};
pub use path_limits::{ClientLimits, LimitReport, PathLimits, RequestRule, SitePathLimits};
pub use pipe::{
    BackendRefusal, PipeId, Pipes, Unconnected,
    content::{CONTENT_PART_COUNT_MAX, ContentRoom},
    fields::{MessageFields, MessageFieldsWriter},
};
pub use pool::{BUF_LEN, BufId, BufRange, Pool};
pub use program_value::{ProgramValue, drop_caught};
pub use proxy_trust::{IpNetwork, PeerAddress, ProxyTrust, TrustedProxy};
pub use rate_table::{ClientKey, RATE_WORD_COUNT, RateTable};
pub use record::{
    AGENT_LEN_MAX, AcceptedClient, ExchangeId, HEADS_LEN_MAX, HOST_LEN_MAX, HttpVersions, LINE_LEN_MAX,
    RECORDS_LEN, REFERER_LEN_MAX, Record, RecordedText, Recording, Records, RequestEnd, RequestStart,
    USER_LEN_MAX,
};
pub use request_rate::{BurstTooLong, RequestLimit, RequestRate};
pub use response_prefix::{Persistence, ResponsePrefix, ResponsePrefixes};
pub use route_table::{PathPrefix, PathPrefixError, RouteTable, RouteTableId, RouteTaken, RouteTarget};
pub use send_pace::SendRate;
pub use site_backends::SiteBackends;
pub use sites::{ImageId, MissingPage, SiteId, Sites};
pub use span::{SPAN_COUNT_MAX, Span};
pub use step::{DriveState, DriveStep};
pub use tls_session::TlsSession;
pub use transport::{
    HandshakeStep, OwnRecord, RECORD_PLAIN_LEN_MAX, SealedRecord, TlsFailure, TlsServerConfig, Transport,
    TransportError,
};
#[cfg(feature = "tls")]
pub use transport::{KernelCipher, KernelFailure, KernelKeys, KernelSuite};

use backend::BackendConnection;
use h1::Http1;
use h2::Http2;
use span::Outbox;
use std::num::NonZeroU32;
use tarpon_http::status::Status;
use transport::TlsFailed;

/// A time in milliseconds since the start of the worker. The engine supplies it; this crate reads no clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tick(pub u64);

impl Tick {
    /// The deadline of a connection without a timeout.
    pub const NEVER: Tick = Tick(u64::MAX);

    /// Returns the time this many milliseconds later.
    #[inline]
    #[must_use]
    pub fn after(self, ms: u64) -> Tick {
        Tick(self.0.saturating_add(ms))
    }
}

/// The limits of a connection. Times are in milliseconds. If a worker serves several sites, the limits are those of the site of the last
/// request. Before the first request, they are those of the default site or, without one, of the first site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The time to receive a head, from its first byte; for the first head, from the start of the connection.
    pub head_ms: u64,
    /// The time to receive the whole content of a request, from the end of its head. It does not restart with each byte, so a slow client
    /// cannot hold the connection. Also the time for which the server discards input after the last response.
    pub content_ms: u64,
    /// The time to wait for the next request.
    pub idle_ms: u64,
    /// The time in which the client must read all pending output, or at least `min_send_rate` on average.
    pub send_ms: u64,
    /// The minimum number of bytes per second that a client must read, on average over `send_ms`. 0 means at least one byte in that time.
    pub min_send_rate: u32,
    /// The maximum number of requests on a connection. The connection closes after the response to the last of them.
    pub keepalive_requests: NonZeroU32,
}

impl Default for Limits {
    /// A slow phone needs a few seconds to send a head, and half a minute for a megabyte of content. Browsers keep idle connections for
    /// a minute or more. The slowest mobile networks carry a few thousand bytes per second. A proxy that sends a thousand requests per
    /// second reconnects, perhaps to another worker, every 100 seconds.
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
    /// Returns the minimum number of bytes that a client must read in `send_ms`.
    fn send_len_min(&self) -> u64 {
        (u64::from(self.min_send_rate).saturating_mul(self.send_ms) / 1_000).max(1)
    }
}

/// The resources of the worker that a connection uses during a call.
pub struct ConnResources<'w> {
    /// The sites, with their images and limits.
    pub sites: &'w mut Sites,
    /// The buffer pool.
    pub pool: &'w mut Pool,
    /// The response prefixes, with the current date.
    pub prefixes: &'w ResponsePrefixes,
    /// The current time.
    pub now: Tick,
    /// The time in microseconds, by a finer reading of the same clock: for durations and records.
    pub now_us: u64,
    /// The counters of the worker.
    pub counters: &'w Counters,
    /// The records for the access log.
    pub records: &'w mut Records,
    /// The pipes between clients and backends.
    pub pipes: &'w mut Pipes,
    /// The buffer for the fields of a request of HTTP/2.
    pub sections: &'w mut SectionBuffer,
    /// The paths that are asked for most. `None`: they are not counted.
    pub hot_paths: Option<HotPaths<'w>>,
}

/// What the engine must do for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// How much to read.
    pub input: Input,
    /// What to close.
    pub close: Close,
}

/// How much the engine may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// Do not read now. Input accumulates in the kernel, which slows the client down.
    Pause,
    /// Read, as much as fits into the buffer of the inbox.
    Bytes,
    /// Read. All that follows is content, up to a length that the connection knows: without a transport that seals, and with an empty inbox,
    /// the engine may receive it into [`Connection::content_room`].
    Content,
    /// Read, and drop it: the connection ends, and only the end of the input matters. Without a transport that seals, the engine need not even
    /// offer it.
    Discard,
}

/// What the engine must close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    /// Nothing.
    No,
    /// The sending side of the socket.
    Write,
    /// The socket. Call [`Connection::closed`] then.
    Both,
}

/// A connection with a client or a backend. The [crate documentation](crate) describes its use.
#[derive(Debug)]
pub struct Connection {
    party: Party,
    wire: Outbox,
}

/// The other end of a connection.
#[derive(Debug)]
enum Party {
    Client(Http1),
    Http2(Box<Http2>),
    Backend(Box<BackendConnection>),
}

impl Connection {
    /// Creates the state of an accepted connection.
    pub fn new(cx: &mut ConnResources<'_>, accepted: AcceptedClient) -> Connection {
        cx.counters.accepted.add(1);
        Connection { party: Party::Client(Http1::new(cx, accepted)), wire: Outbox::new() }
    }

    /// Creates the state of a connection to a backend, for a pipe that [`Pipes::next_unconnected`] has returned. `number` identifies the
    /// connection among those of the worker, with clients too.
    pub fn to_backend(cx: &mut ConnResources<'_>, number: u32, unconnected: Unconnected) -> Connection {
        let connection = BackendConnection::new(cx, number, unconnected);
        let mut connection = Connection { party: Party::Backend(Box::new(connection)), wire: Outbox::new() };
        connection.woken(cx);
        connection
    }

    /// Returns whether the other end is a backend, which may send much at a time.
    #[inline]
    pub fn is_to_backend(&self) -> bool {
        matches!(self.party, Party::Backend(_))
    }

    /// Handles input. Returns how many bytes the connection consumed. The engine keeps the rest and passes it again, followed by more
    /// input, or unchanged after [`need`](Connection::need) asked to pause.
    #[inline]
    pub fn received(&mut self, cx: &mut ConnResources<'_>, input: BufRange) -> usize {
        let Party::Client(client) = &mut self.party else { return self.received_other(cx, input) };
        let used = client.received(cx, &mut self.wire, input);
        cx.counters.received_len.add(used as u64);
        // The preface is not consumed.
        if used == 0 && client.has_preface() { self.begin_http2(cx, input) } else { used }
    }

    /// Does what [`received`](Connection::received) does, if the other end is no client of HTTP/1.
    #[inline(never)]
    fn received_other(&mut self, cx: &mut ConnResources<'_>, input: BufRange) -> usize {
        match &mut self.party {
            Party::Client(_) => self.received(cx, input),
            Party::Http2(client) => {
                let used = client.received(cx, &mut self.wire, input);
                cx.counters.received_len.add(used as u64);
                used
            }
            Party::Backend(backend) => backend.received(cx, input),
        }
    }

    /// Changes to HTTP/2, and handles its first bytes.
    #[cold]
    fn begin_http2(&mut self, cx: &mut ConnResources<'_>, input: BufRange) -> usize {
        if let Party::Client(client) = &mut self.party {
            self.party = Party::Http2(Box::new(client.to_http2(cx)));
        }
        self.received(cx, input)
    }

    /// Takes buffers for the content that follows: see [`Input::Content`]. The engine receives into them in their order, and calls
    /// [`content_received`](Connection::content_received). `None`: there is no room, and the next step is another one.
    pub fn content_room(&mut self, cx: &mut ConnResources<'_>) -> Option<ContentRoom> {
        match &mut self.party {
            Party::Client(_) | Party::Http2(_) => None,
            Party::Backend(backend) => backend.content_room(cx),
        }
    }

    /// Handles content in the first `len` bytes of the buffers. 0: none was there.
    pub fn content_received(&mut self, cx: &mut ConnResources<'_>, room: ContentRoom, len: usize) {
        match &mut self.party {
            Party::Client(_) | Party::Http2(_) => room.release(cx.pool),
            Party::Backend(backend) => backend.content_received(cx, room, len),
        }
    }

    /// Returns whether the first bytes of the connection are a PROXY header, which is never sealed.
    #[inline]
    pub(crate) fn awaits_proxy_header(&self) -> bool {
        matches!(&self.party, Party::Client(client) if client.awaits_proxy_header())
    }

    /// Handles input that begins with a PROXY header. Returns how many bytes the connection consumed.
    #[cold]
    pub(crate) fn received_proxy_header(&mut self, cx: &mut ConnResources<'_>, input: BufRange) -> usize {
        match &mut self.party {
            Party::Client(client) => client.read_proxy_header(cx, input),
            Party::Http2(_) | Party::Backend(_) => 0,
        }
    }

    /// Handles the event that the transport has completed its handshake.
    pub(crate) fn secured(&mut self, cx: &ConnResources<'_>, session: TlsSession, has_http2: bool) {
        if let Party::Client(client) = &mut self.party {
            client.secured(session);
            if has_http2 || client.speaks_only_http2() {
                self.party = Party::Http2(Box::new(client.to_http2(cx)));
            }
        }
    }

    /// Ends the connection without an exchange: its transport has failed, or carries another protocol than HTTP. What the transport has
    /// queued is still sent.
    #[cold]
    pub(crate) fn refuse_transport(&mut self, cx: &mut ConnResources<'_>, failed: &TlsFailed) {
        match &mut self.party {
            Party::Client(client) => client.refuse_transport(cx, &self.wire),
            Party::Http2(client) => client.refuse_transport(cx, &self.wire),
            Party::Backend(backend) => backend.cut(cx, failed),
        }
    }

    /// Handles the event that the connection at the other end of its pipe has added or taken messages.
    pub fn woken(&mut self, cx: &mut ConnResources<'_>) {
        match &mut self.party {
            Party::Client(client) => client.woken(cx, &mut self.wire),
            Party::Http2(client) => client.woken(cx, &mut self.wire),
            Party::Backend(backend) => backend.woken(cx, &mut self.wire),
        }
    }

    /// Handles the event that the [missing page](Connection::missing_page) is in memory. The engine passes the unused input again.
    pub fn loaded(&mut self) {
        match &mut self.party {
            Party::Client(client) => client.loaded(),
            Party::Http2(client) => client.loaded(),
            Party::Backend(_) => {}
        }
    }

    /// Takes the job of a password that the next request waits for, for another thread. The connection pauses until
    /// [`verified`](Connection::verified).
    #[cold]
    pub fn take_password_job(&mut self) -> Option<Box<PasswordJob>> {
        match &mut self.party {
            Party::Client(client) => client.password_check().take_job(),
            Party::Http2(client) => client.password_check().take_job(),
            Party::Backend(_) => None,
        }
    }

    /// Handles the event that the job of a password has run. The engine passes the unused input again.
    #[cold]
    pub fn verified(&mut self, cx: &mut ConnResources<'_>, job: Box<PasswordJob>) {
        match &mut self.party {
            Party::Client(client) => client.verified(cx, job),
            Party::Http2(client) => client.verified(cx, job),
            Party::Backend(_) => {}
        }
    }

    /// Returns whether the engine must [take the job](Connection::take_password_job) of a password.
    #[inline]
    fn has_password_job(&self) -> bool {
        match &self.party {
            Party::Client(client) => client.has_password_job(),
            Party::Http2(client) => client.has_password_job(),
            Party::Backend(_) => false,
        }
    }

    /// Handles the end of the input.
    pub fn ended(&mut self, cx: &mut ConnResources<'_>) {
        match &mut self.party {
            Party::Client(client) => client.ended(cx, &mut self.wire),
            Party::Http2(client) => client.ended(cx, &mut self.wire),
            Party::Backend(backend) => backend.ended(cx),
        }
    }

    /// Handles an end of the input that the peer has not announced, although its transport has an alert for it: what came last may be
    /// missing. Clients are answered as after any end: a request has a length of its own.
    pub(crate) fn cut(&mut self, cx: &mut ConnResources<'_>, failed: &TlsFailed) {
        match &mut self.party {
            Party::Client(client) => client.ended(cx, &mut self.wire),
            Party::Http2(client) => client.ended(cx, &mut self.wire),
            Party::Backend(backend) => backend.cut(cx, failed),
        }
    }

    /// Handles the event that the engine has sent the first `len` bytes of the outbox.
    #[inline]
    pub fn sent(&mut self, cx: &mut ConnResources<'_>, len: u64) {
        let advanced = self.wire.sent(len, cx.sites, cx.pool, cx.prefixes);
        match &mut self.party {
            Party::Client(client) if advanced.is_ok() => client.sent(cx, &mut self.wire, len),
            _ => self.sent_other(cx, advanced, len),
        }
    }

    /// Does what [`sent`](Connection::sent) does, in the other cases.
    #[inline(never)]
    fn sent_other(&mut self, cx: &mut ConnResources<'_>, advanced: Result<(), span::NoFreeBuffer>, len: u64) {
        match (&mut self.party, advanced) {
            (Party::Client(client), Ok(())) => client.sent(cx, &mut self.wire, len),
            (Party::Client(client), Err(span::NoFreeBuffer)) => client.abort(cx),
            (Party::Http2(client), Ok(())) => client.sent(cx, &mut self.wire, len),
            (Party::Http2(client), Err(span::NoFreeBuffer)) => client.abort(),
            (Party::Backend(backend), _) => backend.sent(cx, &mut self.wire),
        }
    }

    /// Handles the end of the deadline. The client has acknowledged `acked_len` bytes in all, and not the last `unacked` that the engine
    /// sent. [`Transport::expired`] counts them.
    pub fn expired(&mut self, cx: &mut ConnResources<'_>, acked_len: u64, unacked: u64) {
        match &mut self.party {
            Party::Client(client) => client.expired(cx, &mut self.wire, acked_len, unacked),
            Party::Http2(client) => client.expired(cx, &mut self.wire, acked_len, unacked),
            Party::Backend(backend) => backend.expired(cx, &self.wire),
        }
    }

    /// Ends the connection before its deadline, because other connections need its buffers. Discards the inbox.
    pub fn evict(&mut self, cx: &mut ConnResources<'_>) {
        match &mut self.party {
            Party::Client(client) => client.time_out(cx, &mut self.wire),
            Party::Http2(client) => client.time_out(cx, &mut self.wire),
            Party::Backend(backend) => backend.abort(cx, Status::ServiceUnavailable),
        }
    }

    /// Announces that the connection ends, because another server takes over: HTTP/1 with the next response, HTTP/2 at once, so the engine drives
    /// the connection then. Keeps an idle connection open until then, because closing it could make a request fail that the client is already
    /// sending.
    pub fn drain(&mut self, cx: &mut ConnResources<'_>) {
        match &mut self.party {
            Party::Client(client) => client.drain(),
            Party::Http2(client) => client.drain(cx, &mut self.wire),
            Party::Backend(_) => {}
        }
    }

    /// Finishes the current exchange and begins no other, because the server stops.
    pub fn stop(&mut self, cx: &mut ConnResources<'_>) {
        match &mut self.party {
            Party::Client(client) => client.stop(cx, &self.wire),
            Party::Http2(client) => client.stop(cx, &mut self.wire),
            Party::Backend(backend) => backend.stop(cx),
        }
    }

    /// Releases all resources after the connection has closed. This must be the last call.
    pub fn closed(&mut self, cx: &mut ConnResources<'_>) {
        match &mut self.party {
            Party::Client(client) => {
                cx.counters.closed.add(1);
                client.closed(cx);
            }
            Party::Http2(client) => {
                cx.counters.closed.add(1);
                client.closed(cx);
            }
            Party::Backend(backend) => backend.closed(cx),
        }
        self.wire.clear(cx.sites, cx.pool);
    }

    /// Returns what to read and what to close.
    #[inline]
    pub fn need(&self) -> Need {
        match &self.party {
            Party::Client(client) => client.need(&self.wire),
            Party::Http2(client) => client.need(),
            Party::Backend(backend) => backend.need(&self.wire),
        }
    }

    /// Returns the page that must be in memory before the next exchange can begin. The connection pauses until
    /// [`loaded`](Connection::loaded).
    #[inline]
    pub fn missing_page(&self) -> Option<MissingPage> {
        match &self.party {
            Party::Client(client) => client.missing_page(),
            Party::Http2(client) => client.missing_page(),
            Party::Backend(_) => None,
        }
    }

    /// Returns the spans to send, in order.
    #[inline]
    pub fn outbox(&self) -> &[Span] {
        self.wire.spans()
    }

    /// Returns the length of the spans to send, in bytes.
    #[inline]
    pub fn outbox_len(&self) -> u64 {
        self.wire.len()
    }

    /// Returns whether the connection is idle: no request has begun, and no output is pending.
    #[inline]
    pub fn is_unused(&self) -> bool {
        match &self.party {
            Party::Client(client) => client.is_unused(&self.wire),
            Party::Http2(client) => client.is_unused(&self.wire),
            Party::Backend(backend) => backend.pipe().is_none(),
        }
    }

    /// Returns whether nothing has arrived from the client, neither bytes nor their end.
    #[inline]
    pub fn is_silent(&self) -> bool {
        matches!(&self.party, Party::Client(client) if client.is_silent(&self.wire))
    }

    /// Returns whether buffers of the pool hold output or messages of its pipe.
    #[inline]
    pub fn holds_buffers(&self, pipes: &Pipes) -> bool {
        let pipe = match &self.party {
            Party::Client(client) if client.holds_paced_buffers() => return true,
            Party::Client(client) => client.pipe(),
            Party::Http2(client) => return self.wire.holds_buffers() || client.holds_buffers(pipes),
            Party::Backend(backend) => backend.pipe(),
        };
        self.wire.holds_buffers() || pipe.is_some_and(|pipe| pipes.holds_buffers(pipe))
    }

    /// Returns whether the connection has changed to HTTP/2.
    pub fn has_http2(&self) -> bool {
        matches!(self.party, Party::Http2(_))
    }

    /// Returns whether a client is at the other end, and no backend.
    #[inline]
    pub fn is_client(&self) -> bool {
        matches!(self.party, Party::Client(_) | Party::Http2(_))
    }

    /// Returns the number of plain bytes sent.
    #[inline]
    pub fn sent_len(&self) -> u64 {
        match &self.party {
            Party::Client(client) => client.sent_len(),
            Party::Http2(client) => client.sent_len(),
            Party::Backend(_) => 0,
        }
    }

    /// Returns when the engine must call [`expired`](Transport::expired), unless another event comes first.
    #[inline]
    pub fn deadline(&self) -> Tick {
        let Party::Client(client) = &self.party else { return self.deadline_of_other() };
        client.deadline()
    }

    /// Returns the [deadline](Connection::deadline), if the other end is no client of HTTP/1.
    #[inline(never)]
    fn deadline_of_other(&self) -> Tick {
        match &self.party {
            Party::Client(client) => client.deadline(),
            Party::Http2(client) => client.deadline(),
            Party::Backend(backend) => backend.deadline(),
        }
    }
}
