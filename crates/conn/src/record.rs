//! What a log learns of an exchange: two records, as the bytes of its request are gone when its response ends.
//!
//! ```text
//! begun   the response is queued     who asked, the request, the status, from where to where the response reaches
//! sent    all that is owed has left, or the connection is gone     how far the bytes of the connection have left
//! ```
//!
//! Both count the bytes of the connection, so an exchange is over when `sent` has reached its end: nobody here remembers
//! which exchanges are under way, and a record that is lost leaves no other one behind that cannot be read.
//!
//! Records are appended to one buffer, which the engine empties between two turns. It never grows: what finds no room
//! is counted, and lost. Where nothing is to be recorded, an exchange costs one comparison.
//!
//! Knows nothing of threads, and not how a record is shown.

use crate::{Tick, sites::SiteId};
use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    num::NonZeroU32,
    sync::Arc,
};
use tarpon_http::{
    head::{FieldName, Head, Version},
    status::Status,
};

/// What is recorded of the exchanges of one worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// Of each site, by its number: one exchange in so many, by chance, and each that fails with status 400 or above. `None`:
    /// none of them.
    pub one_in: Arc<[Option<NonZeroU32>]>,
    /// Every exchange, whatever chance says, with all of both heads.
    pub heads: bool,
    /// Where chance begins.
    pub seed: u64,
}

/// Who connected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    /// Names the connection among those that are open; another one may have it later.
    pub number: u32,
    /// The address of the client, where it has one and somebody wants to know.
    pub peer: Option<IpAddr>,
}

/// The records of one worker since they were last taken.
#[derive(Debug)]
pub struct Records {
    /// `None`: nothing is recorded.
    recording: Option<Recording>,
    bytes: Vec<u8>,
    /// The record that waits for its response.
    open: Option<Open>,
    /// Exchanges that have begun in `bytes`.
    count: u64,
    /// Exchanges that found no room.
    lost: u64,
    /// Wall clock, in milliseconds since 1970.
    unix_ms: u64,
}

/// A record, read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// A response is queued.
    Begun(Begun<'a>),
    /// Bytes have left.
    Sent(Sent),
}

/// A request and what it is answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begun<'a> {
    /// Whose.
    pub accepted: Accepted,
    /// Which site answers, by its number.
    pub site: u32,
    /// By [`Recording::one_in`] it would be here too; otherwise it is for its heads alone.
    pub is_sampled: bool,
    /// When, by the clock on the wall: in milliseconds since 1970.
    pub unix_ms: u64,
    /// When, by the clock of the worker.
    pub tick: Tick,
    /// `None`: the head could not be read so far.
    pub version: Option<Version>,
    /// Of the response.
    pub status: u16,
    /// Where the response begins among the bytes sent on the connection.
    pub at: u64,
    /// Where it ends.
    pub end: u64,
    /// Length of its content, in bytes: the last ones before `end`.
    pub content_len: u64,
    /// The request-line, without its end; or as much as there was of it.
    pub line: Text<'a>,
    /// The Host field.
    pub host: Text<'a>,
    /// The Referer field.
    pub referer: Text<'a>,
    /// The User-Agent field.
    pub agent: Text<'a>,
    /// The head of the request, where heads are recorded.
    pub request: Text<'a>,
    /// The head of the response, where heads are recorded.
    pub response: Text<'a>,
}

/// How far a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Which connection: [`Accepted::number`].
    pub number: u32,
    /// When, by the clock of the worker.
    pub tick: Tick,
    /// Bytes that have left on it by then.
    pub len: u64,
    /// Nothing more will leave.
    pub last: bool,
}

/// What a client has said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Text<'a> {
    /// Its bytes, any of them.
    pub bytes: &'a [u8],
    /// There were more.
    pub cut: bool,
}

/// A request-line is recorded up to this many bytes: what browsers and robots ask for is far shorter.
pub const LINE_LEN_MAX: usize = 2 * 1024;
/// A Host field, as a name of the DNS has at most 253.
pub const HOST_LEN_MAX: usize = 256;
/// A Referer field: often an address with a query.
pub const REFERER_LEN_MAX: usize = 1024;
/// A User-Agent field: 150 as a rule, and some apps boast.
pub const AGENT_LEN_MAX: usize = 512;
/// The head of a request, or of a response, each. Cookies make heads long, and tell a reader little.
pub const HEADS_LEN_MAX: usize = 4 * 1024;

/// Bytes that wait to be taken: some 250 exchanges.
pub const RECORDS_LEN: usize = 64 * 1024;

impl Records {
    /// None are made.
    pub fn off() -> Records {
        Records { recording: None, bytes: Vec::new(), open: None, count: 0, lost: 0, unix_ms: 0 }
    }

    /// Made as told.
    pub fn new(recording: Recording) -> Records {
        let bytes = Vec::with_capacity(RECORDS_LEN);
        Records { recording: Some(recording), bytes, ..Records::off() }
    }

    /// Whether any are made.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.recording.is_some()
    }

    /// Tells the clock on the wall, in milliseconds since 1970.
    #[inline]
    pub fn set_time(&mut self, unix_ms: u64) {
        self.unix_ms = unix_ms;
    }

    /// All records since they were [cleared](Records::clear), one behind the other.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Exchanges that have begun in them.
    #[inline]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Exchanges that found no room, since this was asked before.
    #[inline]
    pub fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }

    /// They have been taken.
    #[inline]
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.count = 0;
    }

    /// A request is about to be answered. What of its head could be read is `head`; all that has arrived of it, `wire`.
    #[inline(never)]
    pub(crate) fn begin(&mut self, begins: Begins, head: Option<&Head<'_>>, wire: &[u8]) {
        let Some(recording) = &mut self.recording else { return };
        let is_sampled = recording.takes(begins.site, begins.status);
        if !is_sampled && !recording.heads {
            return;
        }
        let request = if recording.heads { wire } else { &[] };
        let [referer, agent] = head.map_or([&[][..]; 2], told);
        let texts = [
            Text::of(request_line(wire), LINE_LEN_MAX),
            Text::of(head.and_then(|head| head.first(FieldName::Host)).unwrap_or_default(), HOST_LEN_MAX),
            Text::of(referer, REFERER_LEN_MAX),
            Text::of(agent, AGENT_LEN_MAX),
            Text::of(request, HEADS_LEN_MAX),
        ];
        let len = FIXED_LEN + texts.iter().map(|text| text.bytes.len()).sum::<usize>();
        let response_len_max = if recording.heads { HEADS_LEN_MAX } else { 0 };
        let at = self.bytes.len();
        if at + len + response_len_max > RECORDS_LEN {
            self.lost += 1;
            return;
        }
        let mut fixed = [0; FIXED_LEN];
        let mut pen = Pen { to: &mut fixed };
        pen.put([BEGUN]);
        pen.put([head.map_or(0, |head| 1 + head.version as u8)]);
        let cuts = texts.iter().rev().fold(0, |cuts, text| cuts << 1 | u8::from(text.cut));
        pen.put([cuts | u8::from(is_sampled) << SAMPLED_BIT]);
        pen.put(address_bytes(begins.accepted.peer));
        pen.put(begins.accepted.number.to_le_bytes());
        pen.put((begins.site.index() as u32).to_le_bytes());
        pen.put(self.unix_ms.to_le_bytes());
        pen.put(begins.now.0.to_le_bytes());
        pen.put(begins.at.to_le_bytes());
        texts.iter().for_each(|text| pen.put((text.bytes.len() as u16).to_le_bytes()));
        self.bytes.extend_from_slice(&fixed);
        texts.iter().for_each(|text| self.bytes.extend_from_slice(text.bytes));
        self.open = Some(Open { at, head_at: at + len, response_at: begins.at });
    }

    /// Whether a response is awaited that is to be recorded.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Where that response begins among the bytes sent on the connection, if its head is to be recorded too.
    pub(crate) fn wants_head(&self) -> Option<u64> {
        let heads = self.recording.as_ref().is_some_and(|recording| recording.heads);
        self.open.filter(|_| heads).map(|open| open.response_at)
    }

    /// More of the head of that response.
    pub(crate) fn head(&mut self, bytes: &[u8]) {
        if let Some(Open { head_at, .. }) = self.open {
            let room = (head_at + HEADS_LEN_MAX).saturating_sub(self.bytes.len());
            self.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }

    /// The response is queued. It reaches until `end`, with so many bytes of content.
    pub(crate) fn answer(&mut self, status: Status, end: u64, content_len: u64) {
        let Some(Open { at, head_at, .. }) = self.open.take() else { return };
        let mut pen = Pen { to: &mut self.bytes[at + FIXED_LEN - ANSWER_LEN..][..ANSWER_LEN] };
        pen.put(status.code().to_le_bytes());
        pen.put(end.to_le_bytes());
        pen.put(content_len.to_le_bytes());
        let response_len = self.bytes.len() - head_at;
        let mut pen = Pen { to: &mut self.bytes[at + FIXED_LEN - ANSWER_LEN - 2..][..2] };
        pen.put((response_len as u16).to_le_bytes());
        self.count += 1;
    }

    /// So many bytes have left on a connection.
    pub(crate) fn sent(&mut self, sent: Sent) {
        if self.bytes.len() + SENT_LEN > RECORDS_LEN {
            return;
        }
        let mut bytes = [0; SENT_LEN];
        let mut pen = Pen { to: &mut bytes };
        pen.put([SENT]);
        pen.put([u8::from(sent.last)]);
        pen.put(sent.number.to_le_bytes());
        pen.put(sent.tick.0.to_le_bytes());
        pen.put(sent.len.to_le_bytes());
        self.bytes.extend_from_slice(&bytes);
    }
}

/// What is known of an exchange when its response is about to be queued.
pub(crate) struct Begins {
    pub(crate) accepted: Accepted,
    pub(crate) site: SiteId,
    pub(crate) now: Tick,
    /// Where the response begins among the bytes sent on the connection.
    pub(crate) at: u64,
    pub(crate) status: Status,
}

/// Where a record begins, and where in it the head of its response.
#[derive(Clone, Copy, Debug)]
struct Open {
    at: usize,
    head_at: usize,
    response_at: u64,
}

impl Recording {
    /// Whether an exchange is to be recorded, heads or not.
    fn takes(&mut self, site: SiteId, status: Status) -> bool {
        let one_in = self.one_in[site.index()];
        one_in.is_some_and(|one_in| status.code() >= ALWAYS_FROM || self.happens(one_in))
    }

    /// Whether chance wants this exchange, of so many.
    fn happens(&mut self, one_in: NonZeroU32) -> bool {
        if one_in == NonZeroU32::MIN {
            return true;
        }
        // SplitMix64, and of its upper half as many parts as there are exchanges for one.
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.seed;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        ((mixed >> 32) * u64::from(one_in.get())) >> 32 == 0
    }
}

impl<'a> Record<'a> {
    /// The record at the front of `bytes`, and its length. `None`: there is none, or no whole one.
    pub fn read(bytes: &'a [u8]) -> Option<(Record<'a>, usize)> {
        let mut eye = Eye { bytes };
        let record = match eye.take()? {
            [BEGUN] => Record::Begun(Begun::read(&mut eye)?),
            [SENT] => Record::Sent(Sent {
                last: eye.take()? != [0],
                number: u32::from_le_bytes(eye.take()?),
                tick: Tick(eye.u64()?),
                len: eye.u64()?,
            }),
            _ => return None,
        };
        Some((record, bytes.len() - eye.bytes.len()))
    }
}

impl<'a> Begun<'a> {
    /// The fields in the order they are written.
    fn read(eye: &mut Eye<'a>) -> Option<Begun<'a>> {
        let version = match eye.take()? {
            [0] => None,
            [1] => Some(Version::Http10),
            _ => Some(Version::Http11),
        };
        let [cuts] = eye.take()?;
        let peer = address(eye.take()?);
        let accepted = Accepted { number: u32::from_le_bytes(eye.take()?), peer };
        let site = u32::from_le_bytes(eye.take()?);
        let (unix_ms, tick, at) = (eye.u64()?, Tick(eye.u64()?), eye.u64()?);
        let mut lens = [0; TEXT_COUNT + 1];
        for len in &mut lens {
            *len = u16::from_le_bytes(eye.take()?).into();
        }
        let status = u16::from_le_bytes(eye.take()?);
        let (end, content_len) = (eye.u64()?, eye.u64()?);
        let mut texts = [Text::default(); TEXT_COUNT];
        for (number, text) in texts.iter_mut().enumerate() {
            *text = Text { bytes: eye.slice(lens[number])?, cut: cuts >> number & 1 == 1 };
        }
        let bytes = eye.slice(lens[TEXT_COUNT])?;
        let response = Text { bytes, cut: bytes.len() == HEADS_LEN_MAX };
        let [line, host, referer, agent, request] = texts;
        let begun = Begun {
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
        Some(begun)
    }
}

impl<'a> Text<'a> {
    /// The first `len_max` bytes of `all`.
    fn of(all: &'a [u8], len_max: usize) -> Text<'a> {
        Text { bytes: &all[..all.len().min(len_max)], cut: all.len() > len_max }
    }
}

/// Up to the first end of a line, whoever ends lines so.
fn request_line(wire: &[u8]) -> &[u8] {
    let end = wire.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
    &wire[..end.unwrap_or(wire.len())]
}

/// Referer and User-Agent, which nobody but a log wants to know.
fn told<'a>(head: &Head<'a>) -> [&'a [u8]; 2] {
    let mut told = [&[][..]; 2];
    for (name, value) in head.fields() {
        if name.eq_ignore_ascii_case(b"Referer") {
            told[0] = value;
        } else if name.eq_ignore_ascii_case(b"User-Agent") {
            told[1] = value;
        }
    }
    told
}

/// The family of an address, 0 for none, and its bytes.
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

fn address([family, octets @ ..]: [u8; ADDRESS_LEN]) -> Option<IpAddr> {
    match (family, octets) {
        (4, [a, b, c, d, ..]) => Some(Ipv4Addr::new(a, b, c, d).into()),
        (6, octets) => Some(Ipv6Addr::from(octets).into()),
        _ => None,
    }
}

/// Writes what fits.
struct Pen<'a> {
    to: &'a mut [u8],
}

impl Pen<'_> {
    fn put<const LEN: usize>(&mut self, bytes: [u8; LEN]) {
        let (front, rest) = std::mem::take(&mut self.to).split_at_mut(LEN);
        front.copy_from_slice(&bytes);
        self.to = rest;
    }
}

/// Reads what is there.
struct Eye<'a> {
    bytes: &'a [u8],
}

impl<'a> Eye<'a> {
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

/// From this status on each exchange is recorded: it is what logs are searched for.
const ALWAYS_FROM: u16 = 400;

const BEGUN: u8 = 1;
const SENT: u8 = 2;
/// Texts that a request has; one more is of the response.
const TEXT_COUNT: usize = 5;
/// In the byte whose lowest bits say which texts are cut.
const SAMPLED_BIT: usize = 7;
const _: () = assert!(SAMPLED_BIT > TEXT_COUNT);
const ADDRESS_LEN: usize = 1 + 16;
/// What is known when the response is queued: status, end, length of the content.
const ANSWER_LEN: usize = 2 + 8 + 8;
const FIXED_LEN: usize = 3 + ADDRESS_LEN + 2 * 4 + 3 * 8 + 2 * (TEXT_COUNT + 1) + ANSWER_LEN;
const SENT_LEN: usize = 2 + 4 + 2 * 8;

#[cfg(test)]
mod tests {
    use super::*;
    use tarpon_http::head;

    /// Of each text so many bytes, and whether it is cut.
    type Kept = [(usize, bool); 4];

    #[test]
    fn a_record_says_what_it_was_told_cut_at_its_limits() {
        let field = |name: &str, len: usize| format!("{name}: {}\r\n", "v".repeat(len));
        let [v4, v6] = ["192.0.2.7", "2001:db8::7"].map(|peer| Some(peer.parse().expect("an address")));
        let mapped = Some("::ffff:192.0.2.7".parse().expect("an address"));
        #[rustfmt::skip]
        let cases: &[(&str, Option<IpAddr>, usize, String, Kept)] = &[
            // what it shows    whose   target         fields                                           kept, of line, Host, Referer, User-Agent
            ("little",          v4,     1,             field("Host", 1),                                [(14, false), (1, false), (0, false), (0, false)]),
            ("nobody's",        None,   1,             field("Host", 1),                                [(14, false), (1, false), (0, false), (0, false)]),
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
                let accepted = Accepted { number: 7, peer };
                records.begin(
                    Begins { accepted, site: SiteId::FIRST, now: Tick(40), at: 1_000, status: Status::Ok },
                    Some(&head),
                    wire.as_bytes(),
                );
                assert_eq!(records.wants_head(), heads.then_some(1_000), "{name}");
                records.head(if heads { b"HTTP/1.1 200" } else { b"" });
                records.answer(Status::Ok, 1_337, 137);
                let sent = Sent { number: 7, tick: Tick(44), len: 1_337, last: true };
                records.sent(sent);
                let (read, len) = Record::read(records.bytes()).expect(name);
                let Record::Begun(begun) = read else { panic!("{read:?}") };
                let canonical = peer.map(|peer| peer.to_canonical());
                assert_eq!(begun.accepted, Accepted { number: 7, peer: canonical }, "{name}");
                assert_eq!(
                    (begun.unix_ms, begun.tick, begun.version),
                    (1_768_364_481_042, Tick(40), Some(Version::Http11))
                );
                assert_eq!((begun.status, begun.at, begun.end, begun.content_len), (200, 1_000, 1_337, 137));
                let texts = [begun.line, begun.host, begun.referer, begun.agent];
                assert_eq!(texts.map(|text| (text.bytes.len(), text.cut)), want, "{name}");
                assert!(wire.as_bytes().starts_with(begun.line.bytes), "{name}");
                let heads_len = if heads { wire.len().min(HEADS_LEN_MAX) } else { 0 };
                assert_eq!(begun.request.bytes, &wire.as_bytes()[..heads_len], "{name}");
                assert_eq!(begun.response.bytes.len(), if heads { 12 } else { 0 }, "{name}");
                assert_eq!(
                    Record::read(&records.bytes()[len..]),
                    Some((Record::Sent(sent), SENT_LEN)),
                    "{name}"
                );
                for cut in 0..len {
                    assert_eq!(Record::read(&records.bytes()[..cut]), None, "{name}, {cut} bytes");
                }
            }
        }
    }

    #[test]
    fn what_finds_no_room_is_counted_and_nothing_grows() {
        let wire = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";
        let (head, _) = head::parse(wire).expect("a head").expect("a whole one");
        let mut records = Records::new(recording(NonZeroU32::MIN, false));
        for _ in 0..2_000u64 {
            let begins = Begins {
                accepted: Accepted::default(),
                site: SiteId::FIRST,
                now: Tick(0),
                at: 0,
                status: Status::Ok,
            };
            records.begin(begins, Some(&head), wire);
            records.answer(Status::Ok, 1, 1);
            records.sent(Sent { number: 0, tick: Tick(0), len: 1, last: false });
        }
        assert!(records.bytes().len() <= RECORDS_LEN && records.bytes.capacity() == RECORDS_LEN);
        let (count, lost) = (records.count(), records.take_lost());
        assert!(count > 200 && lost > 200 && count + lost == 2_000, "{count} and {lost}");
        assert_eq!(records.take_lost(), 0, "told once");
        records.clear();
        assert_eq!((records.bytes(), records.count()), (&[][..], 0));
    }

    #[test]
    fn chance_takes_one_in_so_many_and_every_failure() {
        for one_in in [1, 2, 7, 100] {
            let one_in = NonZeroU32::new(one_in).expect("a number");
            let mut recording = recording(one_in, false);
            let taken = (0..100_000).filter(|_| recording.takes(SiteId::FIRST, Status::Ok)).count() as f64;
            let want = 100_000.0 / f64::from(one_in.get());
            assert!((taken - want).abs() < 5.0 * want.sqrt(), "{taken} of 100,000, one in {one_in}");
            for status in [Status::NotFound, Status::BadRequest, Status::ServiceUnavailable] {
                assert!((0..1_000).all(|_| recording.takes(SiteId::FIRST, status)), "{status:?}");
            }
        }
    }

    /// What it shows; one in so many, heads and the status; whether it is recorded, and if so, whether by chance.
    type Taken = (&'static str, Option<NonZeroU32>, bool, Status, Option<bool>);

    #[test]
    fn each_site_is_recorded_as_is_said_of_it_and_heads_are_of_all() {
        let never = NonZeroU32::MAX;
        #[rustfmt::skip]
        let cases: &[Taken] = &[
            // what it shows             one in                  heads   status             recorded, by chance
            ("all",                      Some(NonZeroU32::MIN),  false,  Status::Ok,        Some(true)),
            ("hardly any",               Some(never),            false,  Status::Ok,        None),
            ("failures",                 Some(never),            false,  Status::NotFound,  Some(true)),
            ("none",                     None,                   false,  Status::NotFound,  None),
            ("none, but heads",          None,                   true,   Status::NotFound,  Some(false)),
            ("hardly any, but heads",    Some(never),            true,   Status::Ok,        Some(false)),
            ("all, and heads",           Some(NonZeroU32::MIN),  true,   Status::Ok,        Some(true)),
        ];
        for &(name, one_in, heads, status, want) in cases {
            // A site before it, of which the opposite is said.
            let other = if one_in.is_none() { Some(NonZeroU32::MIN) } else { None };
            let one_in = [other, one_in].into();
            let mut records = Records::new(Recording { one_in, heads, seed: 42 });
            let (accepted, site, now) = (Accepted::default(), SiteId::new(1), Tick(0));
            records.begin(Begins { accepted, site, now, at: 0, status }, None, b"x");
            records.answer(status, 1, 1);
            let read = Record::read(records.bytes()).map(|(record, _)| match record {
                Record::Begun(begun) => {
                    assert_eq!(begun.site, 1, "{name}");
                    begun.is_sampled
                }
                Record::Sent(_) => panic!("{name}"),
            });
            assert_eq!(read, want, "{name}");
        }
    }

    /// Of a worker with one site.
    fn recording(one_in: NonZeroU32, heads: bool) -> Recording {
        Recording { one_in: [Some(one_in)].into(), heads, seed: 42 }
    }
}
