//! The head of a request: request-line and field section. RFC 9112, sections 2 to 5.
//!
//! ```text
//! *( CRLF )  method SP target SP version CRLF  *( name ":" OWS value OWS CRLF )  CRLF
//!            └────────── request-line ─────┘   └─────── field line ───────┘
//! ```
//!
//! One pass, no copy. Fields the server acts on are noted by their place as they are met; the rest
//! is checked and skipped.
//!
//! The verdict depends on the bytes received and never on how they were cut: lines are judged in
//! order, and each only once its LF is there. So after `Ok(None)` nothing changes until a new LF
//! arrives or [`HEAD_LEN_MAX`] bytes are there; until then a caller need not ask again.
//!
//! Does not know what a method, target or field means; see `target`, `host`, `framing`, `persist`
//! and `precondition`.

use core::ops::Range;

use crate::host;
use crate::status::Status;
use crate::token::{TARGET, TCHAR, is, run, value_run};

/// The longest head, empty lines before it included: twice the 8,000 bytes RFC 9110, section 4.1,
/// recommends for a target alone, and within the 16 bits of a [`Head`]'s places.
pub const HEAD_LEN_MAX: usize = 16 * 1024;

/// Field lines in a head: browsers send about 15 and proxies add a few; each costs us work.
pub const FIELD_COUNT_MAX: usize = 100;

/// The method of a request. Case-sensitive: RFC 9110, section 9.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // each is the method of RFC 9110, section 9.3, or RFC 5789 of that name
pub enum Method {
    Get,
    Head,
    Post,
    Put,
    Delete,
    Connect,
    Options,
    Trace,
    Patch,
    /// A token we do not know.
    Other,
}

/// The version of a request. A higher minor version of 1 counts as 1.1: RFC 9110, section 2.5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    Http11,
}

macro_rules! names {
    ($($name:ident $text:literal,)*) => {
        /// The fields the server acts on.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Name {
            $(#[doc = $text] $name,)*
        }

        const NAMES: [(Name, &str); [$($text),*].len()] = [$((Name::$name, $text)),*];
    };
}

names! {
    Host "Host",
    Connection "Connection",
    ContentLength "Content-Length",
    TransferEncoding "Transfer-Encoding",
    Expect "Expect",
    IfNoneMatch "If-None-Match",
    IfModifiedSince "If-Modified-Since",
}

/// A complete head. Borrows the bytes it was read from.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// The method.
    pub method: Method,
    /// The request-target as received: at least one byte, each visible ASCII and none `#`.
    pub target: &'a [u8],
    /// The version.
    pub version: Version,
    /// Field lines, the last CRLF of each included, without the empty line.
    section: &'a [u8],
    /// For each name in `present`, where in `section` its first value lies: at and len.
    places: [(u16, u16); NAMES.len()],
    present: Names,
    repeated: Names,
}

/// Reads the head at the front of `input`. `Ok(None)`: it is not complete yet. Otherwise the head
/// and its length, with the empty lines before it and the empty line that ends it.
///
/// # Errors
///
/// The first line that breaks a rule, once that line is complete; or a head that is not complete
/// within [`HEAD_LEN_MAX`] bytes. Only a first byte that cannot begin a request is refused at
/// once, so that a peer who speaks another protocol does not wait for a timeout.
#[inline]
pub fn parse(input: &[u8]) -> Result<Option<(Head<'_>, usize)>, HeadError> {
    let seen = &input[..input.len().min(HEAD_LEN_MAX)];
    match read(seen) {
        Ok(found) => Ok(Some(found)),
        Err(stop) => judge(seen, stop).map(|()| None),
    }
}

impl<'a> Head<'a> {
    /// The value of the first field line named `name`, without the OWS around it.
    #[inline]
    pub fn first(&self, name: Name) -> Option<&'a [u8]> {
        let (at, len) = self.places[name as usize];
        self.present.contains(name).then(|| &self.section[at as usize..][..len as usize])
    }

    /// The values of all field lines named `name`, in order. Looks beyond the first only where
    /// the name is repeated.
    #[inline]
    pub fn all(&self, name: Name) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (at, len) = self.places[name as usize];
        let behind = if self.is_repeated(name) { &self.section[(at + len) as usize..] } else { &[] };
        self.first(name).into_iter().chain(
            lines(behind).filter_map(move |(found, value)| (Name::of(found) == Some(name)).then_some(value)),
        )
    }

    /// Whether a field line named `name` is present.
    #[inline]
    pub fn has(&self, name: Name) -> bool {
        self.present.contains(name)
    }

    /// Whether more than one field line is named `name`.
    #[inline]
    pub fn is_repeated(&self, name: Name) -> bool {
        self.repeated.contains(name)
    }

    /// The Host field; only HTTP/1.0 may go without.
    ///
    /// # Errors
    ///
    /// None in HTTP/1.1, more than one, or one that is no `uri-host [ ":" port ]`, whatever the
    /// form of the target: RFC 9112, section 3.2.
    #[inline]
    pub fn host(&self) -> Result<Option<&'a [u8]>, HeadError> {
        match self.first(Name::Host) {
            None if self.version == Version::Http10 => Ok(None),
            Some(value) if !self.is_repeated(Name::Host) && host::is_valid(value) => Ok(Some(value)),
            _ => Err(HeadError::Host),
        }
    }
}

/// Why a head is refused. Where the next request begins is unknown, so the connection closes too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadError {
    /// The request-line does not begin with a token and one SP.
    Method,
    /// The target is empty, has a byte it may not have, or is not followed by SP.
    Target,
    /// The request-line does not end in `HTTP/`, digit, `.`, digit and CRLF.
    VersionSyntax,
    /// The major version is not 1.
    Version,
    /// A field line does not begin with a token and `:`.
    FieldName,
    /// A field value has a control byte.
    FieldValue,
    /// A line begins with SP or HTAB: obs-fold, RFC 9112, section 5.2.
    Fold,
    /// A CR without LF, or an LF without CR.
    LineEnd,
    /// More than [`FIELD_COUNT_MAX`] field lines.
    FieldCount,
    /// The request-line is not complete within [`HEAD_LEN_MAX`] bytes.
    UriTooLong,
    /// The head is not complete within [`HEAD_LEN_MAX`] bytes.
    TooLarge,
    /// The Host field is missing, repeated or invalid.
    Host,
}

impl HeadError {
    /// The status to answer with.
    pub fn status(self) -> Status {
        match self {
            HeadError::Version => Status::HttpVersionNotSupported,
            HeadError::UriTooLong => Status::UriTooLong,
            HeadError::TooLarge | HeadError::FieldCount => Status::RequestHeaderFieldsTooLarge,
            HeadError::Method
            | HeadError::Target
            | HeadError::VersionSyntax
            | HeadError::FieldName
            | HeadError::FieldValue
            | HeadError::Fold
            | HeadError::LineEnd
            | HeadError::Host => Status::BadRequest,
        }
    }
}

impl Method {
    fn of(token: &[u8]) -> Method {
        match token {
            b"GET" => Method::Get,
            b"HEAD" => Method::Head,
            b"POST" => Method::Post,
            b"PUT" => Method::Put,
            b"DELETE" => Method::Delete,
            b"CONNECT" => Method::Connect,
            b"OPTIONS" => Method::Options,
            b"TRACE" => Method::Trace,
            b"PATCH" => Method::Patch,
            _ => Method::Other,
        }
    }
}

impl Name {
    /// Field names are case-insensitive: RFC 9110, section 5.1.
    #[inline(always)]
    fn of(name: &[u8]) -> Option<Name> {
        let (candidate, text) = NAMES.get(BUCKETS[bucket(name)] as usize)?;
        name.eq_ignore_ascii_case(text.as_bytes()).then_some(*candidate)
    }
}

/// A set of names.
#[derive(Clone, Copy, Debug, Default)]
struct Names(u32);

impl Names {
    #[inline(always)]
    fn contains(self, name: Name) -> bool {
        self.0 & (1 << name as u8) != 0
    }

    #[inline(always)]
    fn insert(&mut self, name: Name) {
        self.0 |= 1 << name as u8;
    }
}

/// Where a head cannot be read on, and what rule that breaks if the line is complete.
pub(crate) struct Stop {
    pub(crate) at: usize,
    pub(crate) error: HeadError,
}

/// Places in a field line, from its first byte.
pub(crate) struct FieldLine {
    /// Where the name ends; it begins at 0.
    name: usize,
    /// The value, without the OWS around it.
    value: Range<usize>,
    /// With its CRLF.
    len: usize,
}

#[inline(always)]
fn read(seen: &[u8]) -> Result<(Head<'_>, usize), Stop> {
    // RFC 9112, section 3: one SP each between method, target and version.
    let mut at = empty_lines(seen);
    let method = &seen[at..][..run(TCHAR, &seen[at..])];
    at += method.len();
    if method.is_empty() || seen.get(at) != Some(&b' ') {
        return Err(Stop { at, error: HeadError::Method });
    }
    at += 1;
    let target = &seen[at..][..run(TARGET, &seen[at..])];
    at += target.len();
    if target.is_empty() || seen.get(at) != Some(&b' ') {
        return Err(Stop { at, error: HeadError::Target });
    }
    at += 1;
    let version = match version(&seen[at..]) {
        Ok(version) => version,
        Err(error) => return Err(Stop { at, error }),
    };
    at += VERSION_LINE_LEN;

    let from = at;
    let mut places = [(0, 0); NAMES.len()];
    let (mut present, mut repeated) = (Names::default(), Names::default());
    let mut count = 0;
    loop {
        let line = &seen[at..];
        if line.starts_with(b"\r\n") {
            break;
        }
        let FieldLine { name, value, len } = match field_line(line) {
            Ok(found) => found,
            Err(stop) => return Err(Stop { at: at + stop.at, ..stop }),
        };
        if count == FIELD_COUNT_MAX {
            return Err(Stop { at, error: HeadError::FieldCount });
        }
        count += 1;
        if let Some(name) = Name::of(&line[..name]) {
            if present.contains(name) {
                repeated.insert(name);
            } else {
                present.insert(name);
                places[name as usize] = ((at - from + value.start) as u16, value.len() as u16);
            }
        }
        at += len;
    }
    let method = Method::of(method);
    let section = &seen[from..at];
    Ok((Head { method, target, version, section, places, present, repeated }, at + 2))
}

/// Reads the field line at the front of `line`, which may hold more, or not yet all of it.
#[inline(always)]
pub(crate) fn field_line(line: &[u8]) -> Result<FieldLine, Stop> {
    let name = run(TCHAR, line);
    // RFC 9112, section 5.1: no whitespace between name and colon.
    if name == 0 || line.get(name) != Some(&b':') {
        let error = match line[name..] {
            [b' ' | b'\t', ..] if name == 0 => HeadError::Fold,
            [b'\r' | b'\n', ..] if name == 0 => HeadError::LineEnd,
            _ => HeadError::FieldName,
        };
        return Err(Stop { at: name, error });
    }
    let mut from = name + 1;
    while let Some(b' ' | b'\t') = line.get(from) {
        from += 1;
    }
    let end = from + value_run(&line[from..]);
    let mut to = end;
    while to > from && matches!(line[to - 1], b' ' | b'\t') {
        to -= 1;
    }
    match line[end..] {
        [b'\r', b'\n', ..] => Ok(FieldLine { name, value: from..to, len: end + 2 }),
        // RFC 9112, section 2.2: neither a bare CR nor, being strict, a bare LF ends a line.
        [b'\r' | b'\n', ..] => Err(Stop { at: end, error: HeadError::LineEnd }),
        _ => Err(Stop { at: end, error: HeadError::FieldValue }),
    }
}

/// Name and value of each line of a section that was read before.
fn lines(section: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    section.split_inclusive(|&byte| byte == b'\n').filter_map(|line| {
        let FieldLine { name, value, .. } = field_line(line).ok()?;
        Some((&line[..name], &line[value]))
    })
}

/// Length of the empty lines at the front, which RFC 9112, section 2.2, asks a server to skip.
#[inline(always)]
fn empty_lines(seen: &[u8]) -> usize {
    let mut at = 0;
    while seen[at..].starts_with(b"\r\n") {
        at += 2;
    }
    at
}

/// Length of `HTTP/1.1` and its CRLF.
const VERSION_LINE_LEN: usize = 10;

/// RFC 9112, section 2.3: case-sensitive, and one digit each.
#[inline(always)]
fn version(rest: &[u8]) -> Result<Version, HeadError> {
    match rest.first_chunk::<VERSION_LINE_LEN>() {
        Some(b"HTTP/1.1\r\n") => Ok(Version::Http11),
        Some(b"HTTP/1.0\r\n") => Ok(Version::Http10),
        Some([b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'0'..=b'9', b'\r', b'\n']) => Ok(Version::Http11),
        Some([b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9', b'\r', b'\n']) => {
            Err(HeadError::Version)
        }
        _ => Err(HeadError::VersionSyntax),
    }
}

/// Decides whether a head that cannot be read on is wrong, too long, or not complete yet (`Ok`).
#[cold]
fn judge(seen: &[u8], stop: Stop) -> Result<(), HeadError> {
    if seen[stop.at..].contains(&b'\n') {
        return Err(stop.error);
    }
    // A token begins a request-line, a CR may begin an empty line. Nothing else can come first.
    if seen.first().is_some_and(|&byte| !is(TCHAR, byte) && byte != b'\r') {
        return Err(HeadError::Method);
    }
    if seen.len() < HEAD_LEN_MAX {
        return Ok(());
    }
    let in_fields = seen[empty_lines(seen)..].contains(&b'\n');
    Err(if in_fields { HeadError::TooLarge } else { HeadError::UriTooLong })
}

/// For each bucket the index in `NAMES` of the name that falls into it; most are empty, so most
/// fields that do not matter are passed over without comparing names.
static BUCKETS: [u8; BUCKET_COUNT] = {
    let mut buckets = [NAMES.len() as u8; BUCKET_COUNT];
    let mut index = 0;
    while index < NAMES.len() {
        let bucket = bucket(NAMES[index].1.as_bytes());
        assert!(buckets[bucket] as usize == NAMES.len(), "two names in one bucket: change `bucket`");
        buckets[bucket] = index as u8;
        index += 1;
    }
    buckets
};

const BUCKET_COUNT: usize = 64;

/// By length and first letter, in either case. `name` is not empty.
#[inline(always)]
const fn bucket(name: &[u8]) -> usize {
    (name.len() * 9 + (name[0] | 0x20) as usize) % BUCKET_COUNT
}
