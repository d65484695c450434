//! The records of an exchange for the access log: two kinds, because the bytes of a request are gone when its response has been sent.
//!
//! ```text
//! request    the response is queued                          client, request, status, where the response begins and ends
//! progress   the response is sent, or the connection closed  how many bytes of the connection have been sent
//! ```
//!
//! Both records count the bytes sent on the connection: an exchange ends when the count of a progress record reaches the end of its
//! response. So this module keeps no list of exchanges in progress, and a lost record leaves every other one readable.
//!
//! Records are appended to one buffer, which the engine empties once per event loop. The buffer never grows: a record that does not fit is
//! counted and dropped. If nothing is recorded, an exchange costs one comparison.
//!
//! This module uses no threads and does not format records.

use crate::{Tick, sites::SiteId};
use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    num::NonZeroU32,
    sync::Arc,
};
use tarpon_http::{
    FieldName,
    head::{Head, Version},
    status::Status,
};

/// The options of recording: which exchanges of one worker are recorded, and how much of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// The sampling of each site, by its number: one exchange in this many, at random, and every exchange with status 400 or above. `None`:
    /// no exchange of the site.
    pub one_in: Arc<[Option<NonZeroU32>]>,
    /// Record every exchange, sampled or not, with the heads of request and response.
    pub heads: bool,
    /// The seed of the random numbers.
    pub seed: u64,
}

/// A client whose connection was accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AcceptedClient {
    /// The number of the connection, unique among those that are open. A later connection may reuse it.
    pub number: u32,
    /// The address of the client. `None`: it has none, or exchanges are not recorded.
    pub peer: Option<IpAddr>,
}

/// The records of one worker since the engine cleared them.
#[derive(Debug)]
pub struct Records {
    /// `None`: record nothing.
    recording: Option<Recording>,
    bytes: Vec<u8>,
    /// The record of a request whose response is not queued yet.
    pending: Option<PendingRecord>,
    /// The number of request records in `bytes`.
    count: u64,
    /// The number of exchanges whose record did not fit.
    lost: u64,
    /// The wall-clock time, in milliseconds since 1970.
    unix_ms: u64,
}

/// A decoded record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// The response to a request was queued.
    Request(RequestRecord<'a>),
    /// Bytes were sent on a connection.
    Progress(ProgressRecord),
}

/// A request, and the response that was queued for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestRecord<'a> {
    /// The client.
    pub accepted: AcceptedClient,
    /// The number of the site that responds.
    pub site: u32,
    /// Whether [`Recording::one_in`] selected the exchange. If not, it is recorded only because heads are.
    pub is_sampled: bool,
    /// The time of the request by the wall clock, in milliseconds since 1970.
    pub unix_ms: u64,
    /// The time of the request by the clock of the worker.
    pub tick: Tick,
    /// The version of the request. `None`: the head is invalid or incomplete.
    pub version: Option<Version>,
    /// The status of the response.
    pub status: u16,
    /// The offset of the response in the bytes sent on the connection.
    pub at: u64,
    /// The end of the response in these bytes.
    pub end: u64,
    /// The length of the content in bytes. The content is the last part of the response.
    pub content_len: u64,
    /// The request line without its line end, or the part of it that arrived.
    pub line: RecordedText<'a>,
    /// The value of the Host field.
    pub host: RecordedText<'a>,
    /// The value of the Referer field.
    pub referer: RecordedText<'a>,
    /// The value of the User-Agent field.
    pub agent: RecordedText<'a>,
    /// The head of the request, if heads are recorded.
    pub request: RecordedText<'a>,
    /// The head of the response, if heads are recorded.
    pub response: RecordedText<'a>,
}

/// The number of bytes sent on a connection at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgressRecord {
    /// The number of the connection: [`AcceptedClient::number`].
    pub number: u32,
    /// The time by the clock of the worker.
    pub tick: Tick,
    /// The number of bytes sent so far.
    pub len: u64,
    /// Whether the connection has closed: it sends no more bytes.
    pub last: bool,
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
/// The number of bytes recorded of each head. Cookies make heads long, and are of little use to a reader.
pub const HEADS_LEN_MAX: usize = 4 * 1024;

/// The capacity for records in bytes: some 250 exchanges.
pub const RECORDS_LEN: usize = 64 * 1024;

impl Records {
    /// Returns records that stay empty.
    pub fn off() -> Records {
        Records { recording: None, bytes: Vec::new(), pending: None, count: 0, lost: 0, unix_ms: 0 }
    }

    /// Returns empty records, to be filled as the options say.
    pub fn new(recording: Recording) -> Records {
        let bytes = Vec::with_capacity(RECORDS_LEN);
        Records { recording: Some(recording), bytes, ..Records::off() }
    }

    /// Returns whether anything is recorded.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.recording.is_some()
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

    /// Returns the number of request records.
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

    /// Starts the record of a request whose response is about to be queued, if the exchange is to be recorded. `head` is `None` if the head
    /// is invalid or incomplete; `wire` has all bytes of the request that arrived.
    #[inline(never)]
    pub(crate) fn start_record(&mut self, start: ExchangeStart, head: Option<&Head<'_>>, wire: &[u8]) {
        let Some(recording) = &mut self.recording else { return };
        let is_sampled = recording.selects(start.site, start.status);
        if !is_sampled && !recording.heads {
            return;
        }
        let request = if recording.heads { wire } else { &[] };
        let [referer, agent] = head.map_or([&[][..]; 2], referer_and_agent);
        let texts = [
            RecordedText::of(request_line(wire), LINE_LEN_MAX),
            RecordedText::of(
                head.and_then(|head| head.fields.first(FieldName::Host)).unwrap_or_default(),
                HOST_LEN_MAX,
            ),
            RecordedText::of(referer, REFERER_LEN_MAX),
            RecordedText::of(agent, AGENT_LEN_MAX),
            RecordedText::of(request, HEADS_LEN_MAX),
        ];
        let len = FIXED_LEN + texts.iter().map(|text| text.bytes.len()).sum::<usize>();
        let response_len_max = if recording.heads { HEADS_LEN_MAX } else { 0 };
        let at = self.bytes.len();
        if at + len + response_len_max > RECORDS_LEN {
            self.lost += 1;
            return;
        }
        let mut fixed = [0; FIXED_LEN];
        let mut writer = RecordWriter { to: &mut fixed };
        writer.put([REQUEST]);
        writer.put([head.map_or(0, |head| 1 + head.version as u8)]);
        let cuts = texts.iter().rev().fold(0, |cuts, text| cuts << 1 | u8::from(text.cut));
        writer.put([cuts | u8::from(is_sampled) << SAMPLED_BIT]);
        writer.put(address_bytes(start.accepted.peer));
        writer.put(start.accepted.number.to_le_bytes());
        writer.put((start.site.index() as u32).to_le_bytes());
        writer.put(self.unix_ms.to_le_bytes());
        writer.put(start.now.0.to_le_bytes());
        writer.put(start.at.to_le_bytes());
        texts.iter().for_each(|text| writer.put((text.bytes.len() as u16).to_le_bytes()));
        self.bytes.extend_from_slice(&fixed);
        texts.iter().for_each(|text| self.bytes.extend_from_slice(text.bytes));
        self.pending = Some(PendingRecord { at, head_at: at + len, response_at: start.at });
    }

    /// Returns whether the record of a request has been started and not finished.
    #[inline]
    pub(crate) fn is_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// Returns the offset of the pending response in the bytes sent on the connection, if its head is to be recorded.
    pub(crate) fn response_head_at(&self) -> Option<u64> {
        let heads = self.recording.as_ref().is_some_and(|recording| recording.heads);
        self.pending.filter(|_| heads).map(|pending| pending.response_at)
    }

    /// Appends bytes to the head of the pending response.
    pub(crate) fn append_response_head(&mut self, bytes: &[u8]) {
        if let Some(PendingRecord { head_at, .. }) = self.pending {
            let room = (head_at + HEADS_LEN_MAX).saturating_sub(self.bytes.len());
            self.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }

    /// Finishes the record of a request whose response was queued. `end` is the end of the response in the bytes sent on the connection.
    pub(crate) fn finish_record(&mut self, status: Status, end: u64, content_len: u64) {
        let Some(PendingRecord { at, head_at, .. }) = self.pending.take() else { return };
        let mut writer =
            RecordWriter { to: &mut self.bytes[at + FIXED_LEN - RESPONSE_LEN..][..RESPONSE_LEN] };
        writer.put(status.code().to_le_bytes());
        writer.put(end.to_le_bytes());
        writer.put(content_len.to_le_bytes());
        let response_len = self.bytes.len() - head_at;
        let mut writer = RecordWriter { to: &mut self.bytes[at + FIXED_LEN - RESPONSE_LEN - 2..][..2] };
        writer.put((response_len as u16).to_le_bytes());
        self.count += 1;
    }

    /// Records the progress of a connection. Drops the record if it does not fit.
    pub(crate) fn record_progress(&mut self, progress: ProgressRecord) {
        if self.bytes.len() + PROGRESS_LEN > RECORDS_LEN {
            return;
        }
        let mut bytes = [0; PROGRESS_LEN];
        let mut writer = RecordWriter { to: &mut bytes };
        writer.put([PROGRESS]);
        writer.put([u8::from(progress.last)]);
        writer.put(progress.number.to_le_bytes());
        writer.put(progress.tick.0.to_le_bytes());
        writer.put(progress.len.to_le_bytes());
        self.bytes.extend_from_slice(&bytes);
    }
}

/// The data of an exchange whose response is about to be queued.
pub(crate) struct ExchangeStart {
    pub(crate) accepted: AcceptedClient,
    pub(crate) site: SiteId,
    pub(crate) now: Tick,
    /// The offset of the response in the bytes sent on the connection.
    pub(crate) at: u64,
    pub(crate) status: Status,
}

/// A record of a request whose response is not queued yet.
#[derive(Clone, Copy, Debug)]
struct PendingRecord {
    /// The offset of the record in the buffer.
    at: usize,
    /// The offset of the response's head in the buffer.
    head_at: usize,
    /// The offset of the response in the bytes sent on the connection.
    response_at: u64,
}

impl Recording {
    /// Decides whether sampling selects an exchange.
    fn selects(&mut self, site: SiteId, status: Status) -> bool {
        let one_in = self.one_in[site.index()];
        one_in.is_some_and(|one_in| status.code() >= ALWAYS_STATUS_MIN || self.draw(one_in))
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

impl<'a> Record<'a> {
    /// Decodes the record at the front of `bytes`. Returns it with its length, or `None` if `bytes` begins with no whole record.
    pub fn read(bytes: &'a [u8]) -> Option<(Record<'a>, usize)> {
        let mut reader = RecordReader { bytes };
        let record = match reader.take()? {
            [REQUEST] => Record::Request(RequestRecord::read(&mut reader)?),
            [PROGRESS] => Record::Progress(ProgressRecord {
                last: reader.take()? != [0],
                number: u32::from_le_bytes(reader.take()?),
                tick: Tick(reader.u64()?),
                len: reader.u64()?,
            }),
            _ => return None,
        };
        Some((record, bytes.len() - reader.bytes.len()))
    }
}

impl<'a> RequestRecord<'a> {
    /// Decodes the fields, in the order in which [`Records::start_record`] writes them.
    fn read(reader: &mut RecordReader<'a>) -> Option<RequestRecord<'a>> {
        let version = match reader.take()? {
            [0] => None,
            [1] => Some(Version::Http10),
            _ => Some(Version::Http11),
        };
        let [cuts] = reader.take()?;
        let peer = address_of(reader.take()?);
        let accepted = AcceptedClient { number: u32::from_le_bytes(reader.take()?), peer };
        let site = u32::from_le_bytes(reader.take()?);
        let (unix_ms, tick, at) = (reader.u64()?, Tick(reader.u64()?), reader.u64()?);
        let mut lens = [0; TEXT_COUNT + 1];
        for len in &mut lens {
            *len = u16::from_le_bytes(reader.take()?).into();
        }
        let status = u16::from_le_bytes(reader.take()?);
        let (end, content_len) = (reader.u64()?, reader.u64()?);
        let mut texts = [RecordedText::default(); TEXT_COUNT];
        for (number, text) in texts.iter_mut().enumerate() {
            *text = RecordedText { bytes: reader.slice(lens[number])?, cut: cuts >> number & 1 == 1 };
        }
        let bytes = reader.slice(lens[TEXT_COUNT])?;
        let response = RecordedText { bytes, cut: bytes.len() == HEADS_LEN_MAX };
        let [line, host, referer, agent, request] = texts;
        let record = RequestRecord {
            accepted,
            site,
            is_sampled: cuts >> SAMPLED_BIT & 1 == 1,
            unix_ms,
            tick,
            version,
            status,
            at,
            end,
            content_len,
            line,
            host,
            referer,
            agent,
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

/// Returns the values of Referer and User-Agent, which only the log uses.
fn referer_and_agent<'a>(head: &Head<'a>) -> [&'a [u8]; 2] {
    let mut values = [&[][..]; 2];
    for (name, value) in head.fields.iter() {
        if name.eq_ignore_ascii_case(b"Referer") {
            values[0] = value;
        } else if name.eq_ignore_ascii_case(b"User-Agent") {
            values[1] = value;
        }
    }
    values
}

/// Encodes an address: its family, which is 0 for no address, and its bytes.
fn address_bytes(peer: Option<IpAddr>) -> [u8; ADDRESS_LEN] {
    let mut bytes = [0; ADDRESS_LEN];
    match peer.map(|peer| peer.to_canonical()) {
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

const REQUEST: u8 = 1;
const PROGRESS: u8 = 2;
/// The number of texts of a request. The head of the response is one more.
const TEXT_COUNT: usize = 5;
/// The bit for [`RequestRecord::is_sampled`], in the byte whose lowest bits say which texts are cut.
const SAMPLED_BIT: usize = 7;
const _: () = assert!(SAMPLED_BIT > TEXT_COUNT);
const ADDRESS_LEN: usize = 1 + 16;
/// The length of the fields that are written when the response is queued: status, end, length of the content.
const RESPONSE_LEN: usize = 2 + 8 + 8;
const FIXED_LEN: usize = 3 + ADDRESS_LEN + 2 * 4 + 3 * 8 + 2 * (TEXT_COUNT + 1) + RESPONSE_LEN;
const PROGRESS_LEN: usize = 2 + 4 + 2 * 8;

#[cfg(test)]
mod tests {
    use super::*;
    use tarpon_http::head;

    /// The recorded length of each text, and whether it is cut.
    type TextLens = [(usize, bool); 4];

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
                let accepted = AcceptedClient { number: 7, peer };
                records.start_record(
                    ExchangeStart {
                        accepted,
                        site: SiteId::FIRST,
                        now: Tick(40),
                        at: 1_000,
                        status: Status::Ok,
                    },
                    Some(&head),
                    wire.as_bytes(),
                );
                assert_eq!(records.response_head_at(), heads.then_some(1_000), "{name}");
                records.append_response_head(if heads { b"HTTP/1.1 200" } else { b"" });
                records.finish_record(Status::Ok, 1_337, 137);
                let progress = ProgressRecord { number: 7, tick: Tick(44), len: 1_337, last: true };
                records.record_progress(progress);
                let (read, len) = Record::read(records.bytes()).expect(name);
                let Record::Request(record) = read else { panic!("{read:?}") };
                let canonical = peer.map(|peer| peer.to_canonical());
                assert_eq!(record.accepted, AcceptedClient { number: 7, peer: canonical }, "{name}");
                assert_eq!(
                    (record.unix_ms, record.tick, record.version),
                    (1_768_364_481_042, Tick(40), Some(Version::Http11))
                );
                assert_eq!(
                    (record.status, record.at, record.end, record.content_len),
                    (200, 1_000, 1_337, 137)
                );
                let texts = [record.line, record.host, record.referer, record.agent];
                assert_eq!(texts.map(|text| (text.bytes.len(), text.cut)), want, "{name}");
                assert!(wire.as_bytes().starts_with(record.line.bytes), "{name}");
                let heads_len = if heads { wire.len().min(HEADS_LEN_MAX) } else { 0 };
                assert_eq!(record.request.bytes, &wire.as_bytes()[..heads_len], "{name}");
                assert_eq!(record.response.bytes.len(), if heads { 12 } else { 0 }, "{name}");
                assert_eq!(
                    Record::read(&records.bytes()[len..]),
                    Some((Record::Progress(progress), PROGRESS_LEN)),
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
            let start = ExchangeStart {
                accepted: AcceptedClient::default(),
                site: SiteId::FIRST,
                now: Tick(0),
                at: 0,
                status: Status::Ok,
            };
            records.start_record(start, Some(&head), wire);
            records.finish_record(Status::Ok, 1, 1);
            records.record_progress(ProgressRecord { number: 0, tick: Tick(0), len: 1, last: false });
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
                (0..100_000).filter(|_| recording.selects(SiteId::FIRST, Status::Ok)).count() as f64;
            let want = 100_000.0 / f64::from(one_in.get());
            assert!((selected - want).abs() < 5.0 * want.sqrt(), "{selected} of 100,000, one in {one_in}");
            for status in [Status::NotFound, Status::BadRequest, Status::ServiceUnavailable] {
                assert!((0..1_000).all(|_| recording.selects(SiteId::FIRST, status)), "{status:?}");
            }
        }
    }

    /// The case; the sampling, heads and the status; whether the exchange is recorded, and if so, whether sampling selected it.
    type SampledCase = (&'static str, Option<NonZeroU32>, bool, Status, Option<bool>);

    #[test]
    fn each_site_has_its_sampling_and_heads_are_recorded_of_all() {
        let never = NonZeroU32::MAX;
        #[rustfmt::skip]
        let cases: &[SampledCase] = &[
            // case                      one in                  heads   status             recorded, and sampled
            ("all",                      Some(NonZeroU32::MIN),  false,  Status::Ok,        Some(true)),
            ("hardly any",               Some(never),            false,  Status::Ok,        None),
            ("failures",                 Some(never),            false,  Status::NotFound,  Some(true)),
            ("none",                     None,                   false,  Status::NotFound,  None),
            ("none, but heads",          None,                   true,   Status::NotFound,  Some(false)),
            ("hardly any, but heads",    Some(never),            true,   Status::Ok,        Some(false)),
            ("all, and heads",           Some(NonZeroU32::MIN),  true,   Status::Ok,        Some(true)),
        ];
        for &(name, one_in, heads, status, want) in cases {
            // The site before it has the opposite setting.
            let other = if one_in.is_none() { Some(NonZeroU32::MIN) } else { None };
            let one_in = [other, one_in].into();
            let mut records = Records::new(Recording { one_in, heads, seed: 42 });
            let (accepted, site, now) = (AcceptedClient::default(), SiteId::new(1), Tick(0));
            records.start_record(ExchangeStart { accepted, site, now, at: 0, status }, None, b"x");
            records.finish_record(status, 1, 1);
            let read = Record::read(records.bytes()).map(|(record, _)| match record {
                Record::Request(record) => {
                    assert_eq!(record.site, 1, "{name}");
                    record.is_sampled
                }
                Record::Progress(_) => panic!("{name}"),
            });
            assert_eq!(read, want, "{name}");
        }
    }

    /// Returns the options of a worker with one site.
    fn recording(one_in: NonZeroU32, heads: bool) -> Recording {
        Recording { one_in: [Some(one_in)].into(), heads, seed: 42 }
    }
}
