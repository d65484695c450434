//! The records of an exchange for the access log: two kinds, because the bytes of a request are gone when its response has been sent.
//!
//! ```text
//! start   the response is queued                          id, client, request, status, length of the content
//! end     the response is sent, or the connection closed  id, bytes of content that were sent, complete or aborted
//! ```
//!
//! The id joins both. Every exchange with a start record gets one end record, however its bytes leave: pipelined, interleaved or encrypted.
//! Lengths count plaintext. A lost record leaves every other one readable.
//!
//! Records are appended to one buffer, which the engine empties once per event loop. The buffer never grows: a record that does not fit is
//! dropped, and if it is a start record, counted. If nothing is recorded, an exchange costs one comparison.
//!
//! This module uses no threads and does not format records.

use crate::{
    RouteTableId, Tick, TlsSession,
    open_exchanges::{OpenExchange, OpenExchanges},
    proxy_trust::PeerAddress,
    sites::SiteId,
};
use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    num::{NonZeroU16, NonZeroU32},
    sync::Arc,
};
use tarpon_http::{
    FieldName,
    basic::{self, CREDENTIALS_LEN_MAX},
    fields::Fields,
    head::{Head, Version},
    status::Status,
    trace_context::{TRACE_ID_LEN, TraceId},
};

/// The options of recording: which exchanges of one worker are recorded, and how much of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// The sampling of each site, by its number: one exchange in this many, at random, and every exchange with status 400 or above. Paths that
    /// the image of the site keeps out of the log are recorded in neither case. `None`: no exchange of the site.
    pub one_in: Arc<[Option<NonZeroU32>]>,
    /// Record every exchange, sampled or not, with the heads of request and response.
    pub heads: bool,
    /// The seed of the random numbers.
    pub seed: u64,
}

/// A connection that was accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AcceptedClient {
    /// The routes of its requests. Records do not have it.
    pub routes: RouteTableId,
    /// The number of the connection, unique among those that are open. A later connection may reuse it.
    pub number: u32,
    /// The address of the peer. `None`: it is unknown, because nothing needs it or the client has disconnected.
    pub peer: Option<PeerAddress>,
    /// The port of the peer. `None`: it has none, or it is unknown.
    pub peer_port: Option<NonZeroU16>,
    /// Whether the connection must begin with a PROXY header, of a trusted peer.
    pub expects_proxy_header: bool,
    /// Whether the connection has TLS.
    pub has_tls: bool,
    /// The versions that the client may speak.
    pub versions: HttpVersions,
}

/// The versions of HTTP that a client may speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HttpVersions {
    /// HTTP/1.0 and HTTP/1.1.
    #[default]
    Http1,
    /// These and HTTP/2. Over TLS the handshake decides; without TLS the first bytes do.
    All,
    /// HTTP/2 alone. First bytes that are not its preface end the connection: RFC 9113, section 3.4.
    OnlyHttp2,
}

/// The id of an exchange. Open exchanges of a worker differ in the place; later exchanges at the same place differ in the generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeId {
    /// The place in the table of open exchanges: less than [`OPEN_COUNT_MAX`](crate::OPEN_COUNT_MAX).
    pub place: u32,
    /// How often the place was used before.
    pub generation: u32,
}

/// The records of one worker since the engine cleared them.
#[derive(Debug)]
pub struct Records {
    /// `None`: record nothing.
    recording: Option<Recording>,
    bytes: Vec<u8>,
    /// The exchanges with a start record and without an end record.
    open: OpenExchanges,
    /// The record of a request whose response is not queued yet.
    pending: Option<PendingRecord>,
    /// The number of start records in `bytes`.
    count: u64,
    /// The number of exchanges whose record did not fit.
    lost: u64,
    /// The wall-clock time, in milliseconds since 1970.
    unix_ms: u64,
}

/// A decoded record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "it lies on the stack of the reader, for one record at a time")]
pub enum Record<'a> {
    /// The response to a request was queued.
    Start(RequestStart<'a>),
    /// The exchange has ended.
    End(RequestEnd),
}

/// A request, and the response that was queued for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestStart<'a> {
    /// The id of the exchange.
    pub id: ExchangeId,
    /// The number of the connection, unique among those that are open.
    pub connection: u32,
    /// The address of the client, as trusted proxies name it. `None`: it has none, or it is unknown.
    pub client: Option<IpAddr>,
    /// The TLS session of the connection. `None`: it has no TLS.
    pub tls: Option<TlsSession>,
    /// The number of the site that responds.
    pub site: u32,
    /// Whether [`Recording::one_in`] selected the exchange. If not, it is recorded because heads are, or because its status is unknown.
    pub is_sampled: bool,
    /// The time of the request by the wall clock, in milliseconds since 1970.
    pub unix_ms: u64,
    /// The time of the request by the clock of the worker.
    pub tick: Tick,
    /// The version of the request. `None`: the head is invalid or incomplete.
    pub version: Option<Version>,
    /// The status of the response.
    pub status: u16,
    /// The length of the content to send, in bytes.
    pub content_len: u64,
    /// The request line without its line end, or the part of it that arrived.
    pub line: RecordedText<'a>,
    /// The value of the Host field.
    pub host: RecordedText<'a>,
    /// The value of the Referer field.
    pub referer: RecordedText<'a>,
    /// The value of the User-Agent field.
    pub agent: RecordedText<'a>,
    /// The trace-id of the request, if it has one valid field traceparent.
    pub trace_id: Option<TraceId>,
    /// Whether that field says that a caller may have kept the trace.
    pub is_trace_sampled: bool,
    /// The name of the user, if the path has a password. With status 401, the password is wrong.
    pub user: RecordedText<'a>,
    /// The head of the request, if heads are recorded.
    pub request: RecordedText<'a>,
    /// The head of the response, if heads are recorded.
    pub response: RecordedText<'a>,
}

/// The end of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestEnd {
    /// The id of the exchange, as in its start record.
    pub id: ExchangeId,
    /// The time by the clock of the worker.
    pub tick: Tick,
    /// The number of bytes of content that were sent.
    pub content_len: u64,
    /// Whether the whole response was sent. If not, the exchange was aborted.
    pub is_complete: bool,
    /// The status of the response, if it was unknown at the start: a backend has made it.
    pub status: Option<u16>,
}

impl RequestEnd {
    /// Returns whether the exchange is logged whatever the sampling: its status was unknown when the sample was drawn, and is an error.
    pub fn is_failure(&self) -> bool {
        self.status.is_some_and(|status| status >= ALWAYS_STATUS_MIN)
    }
}

/// Recorded bytes of a head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordedText<'a> {
    /// The bytes. They may have any value.
    pub bytes: &'a [u8],
    /// Whether the text was longer than its limit.
    pub cut: bool,
}

/// The number of bytes recorded of a request line. The lines of browsers and robots are far shorter.
pub const LINE_LEN_MAX: usize = 2 * 1024;
/// The number of bytes recorded of a Host field. A DNS name has at most 253.
pub const HOST_LEN_MAX: usize = 256;
/// The number of bytes recorded of a Referer field, which is often a URI with a query.
pub const REFERER_LEN_MAX: usize = 1024;
/// The number of bytes recorded of a User-Agent field. Most have about 150; those of some apps are longer.
pub const AGENT_LEN_MAX: usize = 512;
/// The number of bytes recorded of the name of a user.
pub const USER_LEN_MAX: usize = 128;
/// The number of bytes recorded of each head. Cookies make heads long, and are of little use to a reader.
pub const HEADS_LEN_MAX: usize = 4 * 1024;

/// The capacity for records in bytes: some 250 exchanges.
pub const RECORDS_LEN: usize = 64 * 1024;

impl Records {
    /// Returns records that stay empty.
    pub fn off() -> Records {
        Records {
            recording: None,
            bytes: Vec::new(),
            open: OpenExchanges::none(),
            pending: None,
            count: 0,
            lost: 0,
            unix_ms: 0,
        }
    }

    /// Returns empty records, to be filled as the options say.
    pub fn new(recording: Recording) -> Records {
        let bytes = Vec::with_capacity(RECORDS_LEN);
        Records { recording: Some(recording), bytes, open: OpenExchanges::new(), ..Records::off() }
    }

    /// Returns whether anything is recorded.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.recording.is_some()
    }

    /// Sets the seed of the random numbers.
    pub fn set_seed(&mut self, seed: u64) {
        if let Some(recording) = &mut self.recording {
            recording.seed = seed;
        }
    }

    /// Sets the wall-clock time, in milliseconds since 1970.
    #[inline]
    pub fn set_time(&mut self, unix_ms: u64) {
        self.unix_ms = unix_ms;
    }

    /// Returns all records since [`clear`](Records::clear), in order and without gaps.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the number of start records.
    #[inline]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the number of exchanges whose record did not fit, since the last call.
    #[inline]
    pub fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }

    /// Removes all records. The engine has copied them.
    #[inline]
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.count = 0;
    }

    /// Starts the record of a request of HTTP/1 whose response is about to be queued, if the exchange is to be recorded. `head` is `None` if
    /// the head is invalid or incomplete; `wire` has all bytes of the request that arrived.
    #[inline(never)]
    pub(crate) fn start_record(&mut self, start: ExchangeStart, head: Option<&Head<'_>>, wire: &[u8]) {
        let host = head.and_then(|head| head.fields.first(FieldName::Host)).unwrap_or_default();
        let fields = head.map(|head| &head.fields);
        let version = head.map(|head| head.version);
        let line = request_line(wire);
        self.start_record_of(start, &RecordedRequest { version, line, host, fields, head: wire });
    }

    /// Starts the record of a request whose response is about to be queued, if the exchange is to be recorded.
    pub(crate) fn start_record_of(&mut self, start: ExchangeStart, request: &RecordedRequest<'_>) {
        let Some(recording) = &mut self.recording else { return };
        let is_sampled = start.is_logged && recording.selects(start.site, start.status);
        // The end decides about an exchange whose status is unknown.
        let may_be_logged =
            is_sampled || start.is_logged && start.status.is_none() && recording.logs(start.site);
        if !may_be_logged && !recording.heads {
            return;
        }
        let head = if recording.heads { request.head } else { &[] };
        let LoggedFields { referer, agent, trace_id, is_trace_sampled } =
            request.fields.map(LoggedFields::of).unwrap_or_default();
        let mut decoded = [0; CREDENTIALS_LEN_MAX];
        let credentials = request.fields.filter(|_| start.is_protected);
        let credentials = credentials.and_then(|fields| basic::credentials(fields, &mut decoded));
        let user = credentials.map_or(&[][..], |credentials| credentials.name);
        let texts = [
            RecordedText::of(request.line, LINE_LEN_MAX),
            RecordedText::of(request.host, HOST_LEN_MAX),
            RecordedText::of(referer, REFERER_LEN_MAX),
            RecordedText::of(agent, AGENT_LEN_MAX),
            RecordedText::of(user, USER_LEN_MAX),
            RecordedText::of(head, HEADS_LEN_MAX),
        ];
        let len = FIXED_LEN + texts.iter().map(|text| text.bytes.len()).sum::<usize>();
        let response_len_max = if recording.heads { HEADS_LEN_MAX } else { 0 };
        let at = self.bytes.len();
        let fits = at + len + response_len_max <= RECORDS_LEN;
        let Some(id) = fits.then(|| self.open.open()).flatten() else {
            self.lost += 1;
            return;
        };
        let mut fixed = [0; FIXED_LEN];
        let mut writer = RecordWriter { to: &mut fixed };
        writer.put([START]);
        let version = request.version.map_or(0, |version| 1 + version as u8);
        writer.put([version | u8::from(is_trace_sampled) << TRACE_SAMPLED_BIT]);
        let cuts = texts.iter().rev().fold(0, |cuts, text| cuts << 1 | u8::from(text.cut));
        writer.put([cuts | u8::from(is_sampled) << SAMPLED_BIT]);
        writer.put(address_bytes(start.client));
        writer.put(TlsSession::to_bytes(start.tls));
        writer.put(TraceId::to_bytes(trace_id));
        writer.put(start.connection.to_le_bytes());
        writer.put((start.site.index() as u32).to_le_bytes());
        writer.put(self.unix_ms.to_le_bytes());
        writer.put((start.now_us / US_PER_MS).to_le_bytes());
        writer.put(id.to_le_bytes());
        texts.iter().for_each(|text| writer.put((text.bytes.len() as u16).to_le_bytes()));
        self.bytes.extend_from_slice(&fixed);
        texts.iter().for_each(|text| self.bytes.extend_from_slice(text.bytes));
        self.pending = Some(PendingRecord {
            at,
            place: id.place,
            head_at: at + len,
            span_index: start.span_index,
            head_is_cut: false,
        });
    }

    /// Returns whether heads are recorded.
    pub(crate) fn has_heads(&self) -> bool {
        self.recording.as_ref().is_some_and(|recording| recording.heads)
    }

    /// Returns whether the record of a request has been started and not finished.
    #[inline]
    pub(crate) fn is_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// Returns where the pending response begins in the spans of its connection, if its head is to be recorded.
    pub(crate) fn response_head_index(&self) -> Option<usize> {
        self.pending.filter(|_| self.has_heads()).map(|pending| pending.span_index)
    }

    /// Appends bytes to the head of the pending response.
    pub(crate) fn append_response_head(&mut self, bytes: &[u8]) {
        if let Some(pending) = &mut self.pending {
            let room = (pending.head_at + HEADS_LEN_MAX).saturating_sub(self.bytes.len());
            self.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
            pending.head_is_cut |= bytes.len() > room;
        }
    }

    /// Finishes the start record of a request whose response was queued. Returns the place of the exchange, which must
    /// [end](Records::record_end). `None`: it is not recorded.
    pub(crate) fn finish_record(&mut self, status: Status, content_len: u64) -> Option<u32> {
        let PendingRecord { at, place, head_at, head_is_cut, .. } = self.pending.take()?;
        self.bytes[at + FLAGS_AT] |= u8::from(head_is_cut) << TEXT_COUNT;
        let response_len = self.bytes.len() - head_at;
        let mut writer =
            RecordWriter { to: &mut self.bytes[at + FIXED_LEN - RESPONSE_LEN..][..RESPONSE_LEN] };
        writer.put((response_len as u16).to_le_bytes());
        writer.put(status.code().to_le_bytes());
        writer.put(content_len.to_le_bytes());
        self.count += 1;
        Some(place)
    }

    /// Returns the open exchange at a place, for the protocol of its connection.
    #[inline]
    pub(crate) fn open_exchange(&mut self, place: u32) -> &mut OpenExchange {
        self.open.row(place)
    }

    /// Ends the exchange at a place. Drops its record if it does not fit.
    pub(crate) fn record_end(&mut self, place: u32, end: ExchangeEnd) {
        let status = self.open.row(place).status;
        let id = self.open.close(place);
        if self.bytes.len() + END_LEN > RECORDS_LEN {
            return;
        }
        let mut bytes = [0; END_LEN];
        let mut writer = RecordWriter { to: &mut bytes };
        writer.put([END]);
        writer.put([u8::from(end.is_complete)]);
        writer.put(id.to_le_bytes());
        writer.put((end.now_us / US_PER_MS).to_le_bytes());
        writer.put(end.content_len.to_le_bytes());
        writer.put(status.to_le_bytes());
        self.bytes.extend_from_slice(&bytes);
    }
}

/// The parts of a request that a record has.
pub(crate) struct RecordedRequest<'a> {
    /// `None`: the head is invalid or incomplete.
    pub(crate) version: Option<Version>,
    /// The request line of HTTP/1, or what it would be.
    pub(crate) line: &'a [u8],
    pub(crate) host: &'a [u8],
    pub(crate) fields: Option<&'a Fields<'a>>,
    /// The head, as text.
    pub(crate) head: &'a [u8],
}

/// The data of an exchange whose response is about to be queued.
pub(crate) struct ExchangeStart {
    /// The number of the connection.
    pub(crate) connection: u32,
    pub(crate) client: Option<IpAddr>,
    pub(crate) tls: Option<TlsSession>,
    pub(crate) site: SiteId,
    pub(crate) now_us: u64,
    /// The index of the response's first span in the outbox.
    pub(crate) span_index: usize,
    /// `None`: a backend will make the response.
    pub(crate) status: Option<Status>,
    /// Whether the site logs the request: no path keeps it out.
    pub(crate) is_logged: bool,
    /// Whether the path has a password: the record has the name of the user, even if the password is wrong.
    pub(crate) is_protected: bool,
}

/// How an exchange has ended.
pub(crate) struct ExchangeEnd {
    pub(crate) now_us: u64,
    /// The number of bytes of content that were sent.
    pub(crate) content_len: u64,
    /// Whether the whole response was sent.
    pub(crate) is_complete: bool,
}

/// A record of a request whose response is not queued yet.
#[derive(Clone, Copy, Debug)]
struct PendingRecord {
    /// The offset of the record in the buffer.
    at: usize,
    /// The place of the exchange.
    place: u32,
    /// The offset of the response's head in the buffer.
    head_at: usize,
    /// The index of the response's first span in the outbox.
    span_index: usize,
    /// Whether the response's head is longer than its limit.
    head_is_cut: bool,
}

impl Recording {
    /// Returns whether the exchanges of a site are logged, or some of them.
    fn logs(&self, site: SiteId) -> bool {
        self.one_in[site.index()].is_some()
    }

    /// Decides whether sampling selects an exchange.
    fn selects(&mut self, site: SiteId, status: Option<Status>) -> bool {
        let is_failure = status.is_some_and(|status| status.code() >= ALWAYS_STATUS_MIN);
        self.one_in[site.index()].is_some_and(|one_in| is_failure || self.draw(one_in))
    }

    /// Draws a random number. Returns `true` once in `one_in` calls on average.
    fn draw(&mut self, one_in: NonZeroU32) -> bool {
        if one_in == NonZeroU32::MIN {
            return true;
        }
        // SplitMix64, whose upper 32 bits are mapped to 0..one_in.
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.seed;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        ((mixed >> 32) * u64::from(one_in.get())) >> 32 == 0
    }
}

impl ExchangeId {
    fn to_le_bytes(self) -> [u8; ID_LEN] {
        (u64::from(self.generation) << 32 | u64::from(self.place)).to_le_bytes()
    }

    fn from_le_bytes(bytes: [u8; ID_LEN]) -> ExchangeId {
        let id = u64::from_le_bytes(bytes);
        ExchangeId { place: id as u32, generation: (id >> 32) as u32 }
    }
}

impl<'a> Record<'a> {
    /// Decodes the record at the front of `bytes`. Returns it with its length, or `None` if `bytes` begins with no whole record.
    pub fn read(bytes: &'a [u8]) -> Option<(Record<'a>, usize)> {
        let mut reader = RecordReader { bytes };
        let record = match reader.take()? {
            [START] => Record::Start(RequestStart::read(&mut reader)?),
            [END] => Record::End(RequestEnd {
                is_complete: reader.take()? != [0],
                id: ExchangeId::from_le_bytes(reader.take()?),
                tick: Tick(reader.u64()?),
                content_len: reader.u64()?,
                status: Some(u16::from_le_bytes(reader.take()?)).filter(|&status| status > 0),
            }),
            _ => return None,
        };
        Some((record, bytes.len() - reader.bytes.len()))
    }
}

impl<'a> RequestStart<'a> {
    /// Decodes the fields, in the order in which [`Records::start_record`] writes them.
    fn read(reader: &mut RecordReader<'a>) -> Option<RequestStart<'a>> {
        let [version] = reader.take()?;
        let is_trace_sampled = version >> TRACE_SAMPLED_BIT == 1;
        let version = match version & !(1 << TRACE_SAMPLED_BIT) {
            0 => None,
            1 => Some(Version::Http10),
            2 => Some(Version::Http11),
            _ => Some(Version::Http2),
        };
        let [flags] = reader.take()?;
        let has_flag = |number: usize| flags >> number & 1 == 1;
        let client = address_of(reader.take()?);
        let tls = TlsSession::from_bytes(reader.take()?);
        let trace_id = TraceId::from_bytes(reader.take()?);
        let connection = u32::from_le_bytes(reader.take()?);
        let site = u32::from_le_bytes(reader.take()?);
        let (unix_ms, tick) = (reader.u64()?, Tick(reader.u64()?));
        let id = ExchangeId::from_le_bytes(reader.take()?);
        let mut lens = [0; TEXT_COUNT + 1];
        for len in &mut lens {
            *len = u16::from_le_bytes(reader.take()?).into();
        }
        let status = u16::from_le_bytes(reader.take()?);
        let content_len = reader.u64()?;
        let mut texts = [RecordedText::default(); TEXT_COUNT];
        for (number, text) in texts.iter_mut().enumerate() {
            *text = RecordedText { bytes: reader.slice(lens[number])?, cut: has_flag(number) };
        }
        let response = RecordedText { bytes: reader.slice(lens[TEXT_COUNT])?, cut: has_flag(TEXT_COUNT) };
        let [line, host, referer, agent, user, request] = texts;
        let record = RequestStart {
            id,
            connection,
            client,
            tls,
            site,
            is_sampled: has_flag(SAMPLED_BIT),
            unix_ms,
            tick,
            version,
            status,
            content_len,
            line,
            host,
            referer,
            agent,
            trace_id,
            is_trace_sampled,
            user,
            request,
            response,
        };
        Some(record)
    }
}

impl<'a> RecordedText<'a> {
    /// Returns the first `len_max` bytes of `all`.
    fn of(all: &'a [u8], len_max: usize) -> RecordedText<'a> {
        RecordedText { bytes: &all[..all.len().min(len_max)], cut: all.len() > len_max }
    }
}

/// Returns the bytes before the first CR or LF. A bare one of them ends the line too.
fn request_line(wire: &[u8]) -> &[u8] {
    let end = wire.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
    &wire[..end.unwrap_or(wire.len())]
}

/// The fields of a request that only the log uses.
#[derive(Default)]
struct LoggedFields<'a> {
    referer: &'a [u8],
    agent: &'a [u8],
    trace_id: Option<TraceId>,
    is_trace_sampled: bool,
}

impl<'a> LoggedFields<'a> {
    fn of(fields: &Fields<'a>) -> LoggedFields<'a> {
        let (mut found, mut trace_count) = (LoggedFields::default(), 0);
        for (name, value) in fields.iter() {
            if name.eq_ignore_ascii_case(b"Referer") {
                found.referer = value;
            } else if name.eq_ignore_ascii_case(b"User-Agent") {
                found.agent = value;
            } else if name.eq_ignore_ascii_case(b"traceparent") {
                trace_count += 1;
                found.trace_id = TraceId::parse(value);
                found.is_trace_sampled = TraceId::is_sampled(value);
            }
        }
        // Nothing tells which one of several is right.
        found.trace_id = found.trace_id.filter(|_| trace_count == 1);
        found.is_trace_sampled &= found.trace_id.is_some();
        found
    }
}

/// Encodes an address: its family, which is 0 for no address, and its bytes.
fn address_bytes(address: Option<IpAddr>) -> [u8; ADDRESS_LEN] {
    let mut bytes = [0; ADDRESS_LEN];
    match address.map(|address| address.to_canonical()) {
        None => {}
        Some(IpAddr::V4(v4)) => {
            bytes[0] = 4;
            bytes[1..5].copy_from_slice(&v4.octets());
        }
        Some(IpAddr::V6(v6)) => {
            bytes[0] = 6;
            bytes[1..].copy_from_slice(&v6.octets());
        }
    }
    bytes
}

/// Decodes an address.
fn address_of([family, octets @ ..]: [u8; ADDRESS_LEN]) -> Option<IpAddr> {
    match (family, octets) {
        (4, [a, b, c, d, ..]) => Some(Ipv4Addr::new(a, b, c, d).into()),
        (6, octets) => Some(Ipv6Addr::from(octets).into()),
        _ => None,
    }
}

/// A writer of fixed fields. They must fit in its buffer.
struct RecordWriter<'a> {
    to: &'a mut [u8],
}

impl RecordWriter<'_> {
    fn put<const LEN: usize>(&mut self, bytes: [u8; LEN]) {
        let (front, rest) = std::mem::take(&mut self.to).split_at_mut(LEN);
        front.copy_from_slice(&bytes);
        self.to = rest;
    }
}

/// A reader of fields. It returns `None` once its bytes are used up.
struct RecordReader<'a> {
    bytes: &'a [u8],
}

impl<'a> RecordReader<'a> {
    fn take<const LEN: usize>(&mut self) -> Option<[u8; LEN]> {
        let (front, rest) = self.bytes.split_first_chunk()?;
        self.bytes = rest;
        Some(*front)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn slice(&mut self, len: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.bytes.split_at_checked(len)?;
        self.bytes = rest;
        Some(front)
    }
}

/// The lowest status with which every exchange is recorded: administrators search logs for errors.
const ALWAYS_STATUS_MIN: u16 = 400;

const START: u8 = 1;
const END: u8 = 2;
/// The offset of the flags in a start record. Each of the lowest bits says of one text, in order, whether it is cut.
const FLAGS_AT: usize = 2;
/// The number of texts of a request. The head of the response is one more.
const TEXT_COUNT: usize = 6;
/// The flag for [`RequestStart::is_sampled`].
const SAMPLED_BIT: usize = 7;
const _: () = assert!(SAMPLED_BIT > TEXT_COUNT);
/// The flag for [`RequestStart::is_trace_sampled`], in the byte of the version.
const TRACE_SAMPLED_BIT: usize = 7;
const US_PER_MS: u64 = 1_000;
const ADDRESS_LEN: usize = 1 + 16;
const ID_LEN: usize = 2 * 4;
/// The length of the fields that are written when the response is queued: length of its head, status, length of the content.
const RESPONSE_LEN: usize = 2 + 2 + 8;
const FIXED_LEN: usize = FLAGS_AT
    + 1
    + ADDRESS_LEN
    + TlsSession::LEN
    + TRACE_ID_LEN
    + 2 * 4
    + 2 * 8
    + ID_LEN
    + 2 * TEXT_COUNT
    + RESPONSE_LEN;
const END_LEN: usize = 2 + ID_LEN + 2 * 8 + 2;

#[cfg(test)]
mod tests {
    use super::*;
    use tarpon_http::head;

    /// The recorded length of each text, and whether it is cut.
    type TextLens = [(usize, bool); 4];

    #[test]
    fn request_has_the_trace_of_its_only_traceparent() {
        let line = "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n";
        #[rustfmt::skip]
        let cases: &[(&str, String, bool)] = &[
            ("one",             format!("traceparent: 00-{line}"),                           true),
            ("not sampled",     format!("traceparent: 00-{}", line.replace("-01\r\n", "-00\r\n")), true),
            ("in another case", format!("TraceParent:00-{line}"),                            true),
            ("none",            format!("tracestate: 00-{line}"),                            false),
            ("invalid",         format!("traceparent: ff-{line}"),                           false),
            ("two",             format!("traceparent: 00-{line}traceparent: 00-{line}"),     false),
            ("one is invalid",  format!("traceparent: x\r\ntraceparent: 00-{line}"),         false),
        ];
        for (case, fields, has_id) in cases {
            let wire = format!("GET / HTTP/1.1\r\n{fields}\r\n");
            let (head, _) = head::parse(wire.as_bytes()).expect(case).expect(case);
            let mut records = Records::new(recording(NonZeroU32::MIN, false));
            records.start_record(start_of(SiteId::FIRST, Status::Ok), Some(&head), wire.as_bytes());
            records.finish_record(Status::Ok, 0).expect(case);
            let Some((Record::Start(start), _)) = Record::read(records.bytes()) else { panic!("{case}") };
            let id = start.trace_id.map(|id| id.to_string());
            let want = has_id.then_some("4bf92f3577b34da6a3ce929d0e0e4736");
            assert_eq!(id.as_deref(), want, "{case}");
            let is_sampled = *has_id && !fields.contains("-00\r\n");
            assert_eq!(
                (start.is_trace_sampled, start.version),
                (is_sampled, Some(Version::Http11)),
                "{case}"
            );
        }
    }

    #[test]
    fn records_keep_texts_up_to_their_limits() {
        let field = |name: &str, len: usize| format!("{name}: {}\r\n", "v".repeat(len));
        let [v4, v6] = ["192.0.2.7", "2001:db8::7"].map(|peer| Some(peer.parse().expect("an address")));
        let mapped = Some("::ffff:192.0.2.7".parse().expect("an address"));
        #[rustfmt::skip]
        let cases: &[(&str, Option<IpAddr>, usize, String, TextLens)] = &[
            // case             peer    target         fields                                           recorded of line, Host, Referer, User-Agent
            ("short",           v4,     1,             field("Host", 1),                                [(14, false), (1, false), (0, false), (0, false)]),
            ("no address",      None,   1,             field("Host", 1),                                [(14, false), (1, false), (0, false), (0, false)]),
            ("mapped",          mapped, 1,             field("Host", 1),                                [(14, false), (1, false), (0, false), (0, false)]),
            ("at each limit",   v6,     LINE_LEN_MAX - 13, field("Host", HOST_LEN_MAX) + &field("referer", REFERER_LEN_MAX) + &field("USER-AGENT", AGENT_LEN_MAX),
                                                                                                        [(LINE_LEN_MAX, false), (HOST_LEN_MAX, false), (REFERER_LEN_MAX, false), (AGENT_LEN_MAX, false)]),
            ("beyond each",     v6,     LINE_LEN_MAX - 12, field("Host", HOST_LEN_MAX + 1) + &field("Referer", REFERER_LEN_MAX + 1) + &field("User-Agent", AGENT_LEN_MAX + 9),
                                                                                                        [(LINE_LEN_MAX, true), (HOST_LEN_MAX, true), (REFERER_LEN_MAX, true), (AGENT_LEN_MAX, true)]),
        ];
        for &(name, peer, target_len, ref fields, want) in cases {
            let wire = format!("GET /{} HTTP/1.1\r\n{fields}\r\n", "t".repeat(target_len - 1));
            let (head, _) = head::parse(wire.as_bytes()).expect(name).expect(name);
            for heads in [false, true] {
                let mut records = Records::new(recording(NonZeroU32::MIN, heads));
                records.set_time(1_768_364_481_042);
                records.start_record(
                    ExchangeStart {
                        connection: 7,
                        client: peer,
                        tls: None,
                        site: SiteId::FIRST,
                        now_us: 40_999,
                        span_index: 3,
                        status: Some(Status::Ok),
                        is_logged: true,
                        is_protected: false,
                    },
                    Some(&head),
                    wire.as_bytes(),
                );
                assert_eq!(records.response_head_index(), heads.then_some(3), "{name}");
                records.append_response_head(if heads { b"HTTP/1.1 200" } else { b"" });
                let place = records.finish_record(Status::Ok, 137).expect(name);
                records
                    .record_end(place, ExchangeEnd { now_us: 44_000, content_len: 99, is_complete: false });
                let (read, len) = Record::read(records.bytes()).expect(name);
                let Record::Start(record) = read else { panic!("{read:?}") };
                let canonical = peer.map(|peer| peer.to_canonical());
                assert_eq!((record.connection, record.client), (7, canonical), "{name}");
                assert_eq!(
                    (record.unix_ms, record.tick, record.version),
                    (1_768_364_481_042, Tick(40), Some(Version::Http11))
                );
                assert_eq!((record.status, record.content_len), (200, 137), "{name}");
                let texts = [record.line, record.host, record.referer, record.agent];
                assert_eq!(texts.map(|text| (text.bytes.len(), text.cut)), want, "{name}");
                assert!(wire.as_bytes().starts_with(record.line.bytes), "{name}");
                let heads_len = if heads { wire.len().min(HEADS_LEN_MAX) } else { 0 };
                assert_eq!(record.request.bytes, &wire.as_bytes()[..heads_len], "{name}");
                assert_eq!(record.response.bytes.len(), if heads { 12 } else { 0 }, "{name}");
                let end = RequestEnd {
                    id: record.id,
                    tick: Tick(44),
                    content_len: 99,
                    is_complete: false,
                    status: None,
                };
                assert_eq!(
                    Record::read(&records.bytes()[len..]),
                    Some((Record::End(end), END_LEN)),
                    "{name}"
                );
                for cut in 0..len {
                    assert_eq!(Record::read(&records.bytes()[..cut]), None, "{name}, {cut} bytes");
                }
            }
        }
    }

    #[test]
    fn records_that_do_not_fit_are_counted_and_the_buffer_does_not_grow() {
        let wire = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";
        let (head, _) = head::parse(wire).expect("a head").expect("a whole one");
        let mut records = Records::new(recording(NonZeroU32::MIN, false));
        for _ in 0..2_000u64 {
            records.start_record(start_of(SiteId::FIRST, Status::Ok), Some(&head), wire);
            if let Some(place) = records.finish_record(Status::Ok, 1) {
                records.record_end(place, ExchangeEnd { now_us: 0, content_len: 1, is_complete: true });
            }
        }
        assert!(records.bytes().len() <= RECORDS_LEN && records.bytes.capacity() == RECORDS_LEN);
        let (count, lost) = (records.count(), records.take_lost());
        assert!(count > 200 && lost > 200 && count + lost == 2_000, "{count} and {lost}");
        assert_eq!(records.take_lost(), 0, "the count is reset");
        records.clear();
        assert_eq!((records.bytes(), records.count()), (&[][..], 0));
    }

    #[test]
    fn sampling_selects_one_in_n_and_every_error() {
        for one_in in [1, 2, 7, 100] {
            let one_in = NonZeroU32::new(one_in).expect("a number");
            let mut recording = recording(one_in, false);
            let selected =
                (0..100_000).filter(|_| recording.selects(SiteId::FIRST, Some(Status::Ok))).count() as f64;
            let want = 100_000.0 / f64::from(one_in.get());
            assert!((selected - want).abs() < 5.0 * want.sqrt(), "{selected} of 100,000, one in {one_in}");
            for status in [Status::NotFound, Status::BadRequest, Status::ServiceUnavailable] {
                assert!((0..1_000).all(|_| recording.selects(SiteId::FIRST, Some(status))), "{status:?}");
            }
        }
    }

    /// The case; the sampling, heads and the status; whether the exchange is recorded, and if so, whether sampling selected it.
    type SampledCase = (&'static str, Option<NonZeroU32>, bool, Option<Status>, Option<bool>);

    #[test]
    fn each_site_has_its_sampling_and_heads_are_recorded_of_all() {
        let (never, ok, not_found) = (NonZeroU32::MAX, Some(Status::Ok), Some(Status::NotFound));
        #[rustfmt::skip]
        let cases: &[SampledCase] = &[
            // case                      one in                  heads   status             recorded, and sampled
            ("all",                      Some(NonZeroU32::MIN),  false,  ok,                Some(true)),
            ("hardly any",               Some(never),            false,  ok,                None),
            ("failures",                 Some(never),            false,  not_found,         Some(true)),
            ("none",                     None,                   false,  not_found,         None),
            ("none, but heads",          None,                   true,   not_found,         Some(false)),
            ("hardly any, but heads",    Some(never),            true,   ok,                Some(false)),
            ("all, and heads",           Some(NonZeroU32::MIN),  true,   ok,                Some(true)),
            ("all, of a backend",        Some(NonZeroU32::MIN),  false,  None,              Some(true)),
            ("perhaps a failure",        Some(never),            false,  None,              Some(false)),
            ("none of a backend",        None,                   false,  None,              None),
        ];
        for &(name, one_in, heads, status, want) in cases {
            // The site before it has the opposite setting.
            let other = if one_in.is_none() { Some(NonZeroU32::MIN) } else { None };
            let one_in = [other, one_in].into();
            let mut records = Records::new(Recording { one_in, heads, seed: 42 });
            records.start_record(start_of(SiteId::new(1), status), None, b"x");
            records.finish_record(status.unwrap_or(Status::Ok), 1);
            let read = Record::read(records.bytes()).map(|(record, _)| match record {
                Record::Start(record) => {
                    assert_eq!(record.site, 1, "{name}");
                    record.is_sampled
                }
                Record::End(_) => panic!("{name}"),
            });
            assert_eq!(read, want, "{name}");
        }
    }

    #[test]
    fn a_response_head_is_cut_only_beyond_its_limit() {
        for (lens, want) in [
            (&[HEADS_LEN_MAX - 1][..], (HEADS_LEN_MAX - 1, false)),
            (&[100, HEADS_LEN_MAX - 100], (HEADS_LEN_MAX, false)),
            (&[HEADS_LEN_MAX, 1], (HEADS_LEN_MAX, true)),
            (&[HEADS_LEN_MAX + 1, 0], (HEADS_LEN_MAX, true)),
        ] {
            let mut records = Records::new(recording(NonZeroU32::MIN, true));
            records.start_record(start_of(SiteId::FIRST, Status::Ok), None, b"");
            lens.iter().for_each(|&len| records.append_response_head(&vec![b'x'; len]));
            records.finish_record(Status::Ok, 0);
            let Some((Record::Start(record), _)) = Record::read(records.bytes()) else { panic!("{lens:?}") };
            assert_eq!((record.response.bytes.len(), record.response.cut), want, "{lens:?}");
            assert!(!record.request.cut && record.is_sampled, "{lens:?}: the other flags stay");
        }
    }

    fn start_of(site: SiteId, status: impl Into<Option<Status>>) -> ExchangeStart {
        let status = status.into();
        ExchangeStart {
            connection: 0,
            client: None,
            tls: None,
            site,
            now_us: 0,
            span_index: 0,
            status,
            is_logged: true,
            is_protected: false,
        }
    }

    /// Returns the options of a worker with one site.
    fn recording(one_in: NonZeroU32, heads: bool) -> Recording {
        Recording { one_in: [Some(one_in)].into(), heads, seed: 42 }
    }
}
