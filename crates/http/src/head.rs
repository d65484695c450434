//! Parses the head of a request: request line and field section. RFC 9112, sections 2 to 5.
//!
//! ```text
//! *( CRLF )  method SP target SP version CRLF  *( name ":" OWS value OWS CRLF )  CRLF
//!            └────────── request-line ─────┘   └─────── field line ───────┘
//! ```
//!
//! The parser makes one pass and copies nothing. It records the position of each field in [`FieldName`], and checks and skips
//! all other fields.
//!
//! The result depends only on the bytes received, not on how the network split them: the parser checks the lines in order, and
//! checks a line only after its LF has arrived. After `Ok(None)` the result stays the same until a new LF arrives or the input
//! reaches [`HEAD_LEN_MAX`] bytes, so a caller need not parse again before.
//!
//! This module does not interpret methods, targets or field values; see `target`, `host`, `framing`, `persist`,
//! `precondition`, `negotiate` and `dictionary`.

use core::ops::Range;

use tarpon_simd::{BLOCK_LEN, ByteClass, outside, padded};

use crate::host;
use crate::status::Status;
use crate::token::{TARGET, TCHAR, VALUE, fast_prefix_len, in_class, prefix_len, skip};

/// The maximum length of a head in bytes, including empty lines before it. Twice the 8,000 bytes that RFC 9110, section 4.1,
/// recommends for a target alone, and small enough for the 16-bit offsets in [`Head`].
pub const HEAD_LEN_MAX: usize = 16 * 1024;

/// The maximum number of field lines in a head. Browsers send about 15 and proxies add a few.
pub const FIELD_COUNT_MAX: usize = 100;

/// The method of a request. Case-sensitive: RFC 9110, section 9.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // each variant is the method of that name in RFC 9110, section 9.3, or RFC 5789
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
    /// Any other token.
    Other,
}

/// The HTTP version of a request. A minor version above 1 counts as 1.1: RFC 9110, section 2.5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    Http11,
}

macro_rules! names {
    ($($name:ident $text:literal,)*) => {
        /// The name of a field that the server interprets.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum FieldName {
            $(#[doc = $text] $name,)*
        }

        impl FieldName {
            /// All field names.
            pub const ALL: [FieldName; NAMES.len()] = [$(FieldName::$name),*];
        }

        const NAMES: [(FieldName, &str); [$($text),*].len()] = [$((FieldName::$name, $text)),*];
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
    IfMatch "If-Match",
    IfUnmodifiedSince "If-Unmodified-Since",
    IfRange "If-Range",
    AcceptEncoding "Accept-Encoding",
    AvailableDictionary "Available-Dictionary",
    Range "Range",
}

/// A complete request head. Borrows the bytes that it was parsed from.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// The method.
    pub method: Method,
    /// The request target as received: at least one byte; each byte is visible ASCII other than `#`.
    pub target: &'a [u8],
    /// The version.
    pub version: Version,
    /// The field lines, each with its CRLF, without the empty line that ends them.
    section: &'a [u8],
    /// For each name in `present`: offset in `section` and length of its first value.
    first_values: [(u16, u16); NAMES.len()],
    present: FieldSet,
    repeated: FieldSet,
}

/// Parses the head at the start of `input`. Returns the head and its length, which includes empty lines before the head and
/// the empty line that ends it. Returns `Ok(None)` if the head is incomplete.
///
/// # Errors
///
/// Returns the error of the first complete line that breaks a rule, or an error if the head is incomplete after
/// [`HEAD_LEN_MAX`] bytes. If the first byte of `input` can begin neither a request nor an empty line, returns
/// [`HeadError::Method`] at once, so that a client of another protocol gets an answer before the timeout.
///
/// # Example
///
/// ```
/// use tarpon_http::{HeadError, head};
///
/// assert!(head::parse(b"GET / HTTP/1.1\r\nHost: a").unwrap().is_none());
/// assert!(head::parse(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap().is_some());
/// assert_eq!(head::parse(b"GET / HTTP/1.1\r\nHost : a\r\n").unwrap_err(), HeadError::FieldName);
/// ```
#[inline]
pub fn parse(input: &[u8]) -> Result<Option<(Head<'_>, usize)>, HeadError> {
    let seen = &input[..input.len().min(HEAD_LEN_MAX)];
    match parse_head(seen) {
        Ok(found) => Ok(Some(found)),
        Err(stop) => classify_error(seen, stop).map(|()| None),
    }
}

impl<'a> Head<'a> {
    /// Returns the value of the first field line named `name`, without optional whitespace (OWS) around it.
    #[inline]
    pub fn first(&self, name: FieldName) -> Option<&'a [u8]> {
        let (at, len) = self.first_values[name as usize];
        self.present.contains(name).then(|| &self.section[at as usize..][..len as usize])
    }

    /// Returns the values of all field lines named `name`, in order. Scans beyond the first one only if the name is repeated.
    #[inline]
    pub fn all(&self, name: FieldName) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (at, len) = self.first_values[name as usize];
        let behind = if self.is_repeated(name) { &self.section[(at + len) as usize..] } else { &[] };
        self.first(name).into_iter().chain(
            field_lines(behind).filter_map(move |(found, value)| {
                (FieldName::from_bytes(found) == Some(name)).then_some(value)
            }),
        )
    }

    /// Returns name and value of every field line, in order; values have no OWS around them.
    pub fn fields(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        field_lines(self.section)
    }

    /// Returns whether a field line named `name` is present.
    #[inline]
    pub fn has(&self, name: FieldName) -> bool {
        self.present.contains(name)
    }

    /// Returns whether more than one field line is named `name`.
    #[inline]
    pub fn is_repeated(&self, name: FieldName) -> bool {
        self.repeated.contains(name)
    }

    /// Returns the value of the Host field. Only an HTTP/1.0 request may omit the field.
    ///
    /// # Errors
    ///
    /// Returns [`HeadError::Host`] if an HTTP/1.1 request has no Host field, if any request has more than one, or if the value
    /// is not `uri-host [ ":" port ]`. The form of the target does not matter: RFC 9112, section 3.2.
    #[inline]
    pub fn host(&self) -> Result<Option<&'a [u8]>, HeadError> {
        match self.first(FieldName::Host) {
            None if self.version == Version::Http10 => Ok(None),
            Some(value) if !self.is_repeated(FieldName::Host) && host::is_valid(value) => Ok(Some(value)),
            _ => Err(HeadError::Host),
        }
    }
}

/// The reason to refuse a head. The server cannot tell where the next request begins, so it must close the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadError {
    /// The request line does not begin with a token and one SP: RFC 9112, section 3; RFC 9110, section 9.1.
    Method,
    /// The target is empty, contains a forbidden byte, or is not followed by SP: RFC 9112, section 3.2.
    Target,
    /// The request line does not end in `HTTP/`, digit, `.`, digit and CRLF: RFC 9112, section 2.3.
    VersionSyntax,
    /// The major version is not 1: RFC 9110, sections 2.5 and 15.6.6.
    Version,
    /// A field line does not begin with a token and `:`: RFC 9112, section 5.1.
    FieldName,
    /// A field value contains a control byte: RFC 9110, section 5.5.
    FieldValue,
    /// A line begins with SP or HTAB: obs-fold, RFC 9112, section 5.2.
    Fold,
    /// A CR without LF, or an LF without CR: RFC 9112, section 2.2.
    LineEnd,
    /// More than [`FIELD_COUNT_MAX`] field lines: RFC 9110, section 5.4; RFC 6585, section 5.
    FieldCount,
    /// The request line is not complete within [`HEAD_LEN_MAX`] bytes: RFC 9112, section 3.
    UriTooLong,
    /// The head is not complete within [`HEAD_LEN_MAX`] bytes: RFC 9110, section 5.4; RFC 6585, section 5.
    TooLarge,
    /// The Host field is missing, repeated or invalid: RFC 9112, section 3.2.
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
    fn from_token(token: &[u8]) -> Method {
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

impl FieldName {
    /// Returns the field name in its usual spelling.
    pub const fn as_str(self) -> &'static str {
        NAMES[self as usize].1
    }

    /// Returns the field name of `len` bytes at the start of `line`. Field names are case-insensitive: RFC 9110, section 5.1.
    #[inline(always)]
    fn at_start_of(line: &[u8], len: usize) -> Option<FieldName> {
        let first = u32::from_le_bytes(*line.first_chunk()?);
        let index = SLOTS[slot(first, len)] as usize;
        let pattern = PATTERNS.get(index)?;
        (len == pattern.len && pattern.is_in(&line[..len])).then(|| FieldName::ALL[index])
    }

    fn from_bytes(name: &[u8]) -> Option<FieldName> {
        FieldName::at_start_of(name, name.len())
    }
}

/// A set of field names.
#[derive(Clone, Copy, Debug, Default)]
struct FieldSet(u32);

impl FieldSet {
    #[inline(always)]
    fn contains(self, name: FieldName) -> bool {
        self.0 & (1 << name as u8) != 0
    }

    #[inline(always)]
    fn insert(&mut self, name: FieldName) {
        self.0 |= 1 << name as u8;
    }
}

/// The offset at which the parser stopped, and the error to report if that line is complete.
pub(crate) struct ParseError {
    pub(crate) at: usize,
    pub(crate) error: HeadError,
}

/// Offsets in a field line.
pub(crate) struct FieldLine {
    /// The end of the name, which begins at 0. A colon follows.
    name: usize,
    /// The end of the value and of the whitespace around it. CRLF follows.
    end: usize,
}

impl FieldLine {
    /// Returns the range of the value in `line`, without OWS around it.
    #[inline(always)]
    fn value(&self, line: &[u8]) -> Range<usize> {
        let from = self.name + 1;
        let mut rest = &line[from..self.end];
        while let [b' ' | b'\t', behind @ ..] = rest {
            rest = behind;
        }
        let from = self.end - rest.len();
        while let [front @ .., b' ' | b'\t'] = rest {
            rest = front;
        }
        from..from + rest.len()
    }

    /// Returns the length of the line, including its CRLF.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.end + 2
    }
}

#[inline(always)]
fn parse_head(seen: &[u8]) -> Result<(Head<'_>, usize), ParseError> {
    let (request_line, section) = match usual_request_line(seen) {
        Some(found) => found,
        None => request_line(seen)?,
    };
    let mut index = FieldIndex::default();
    let (mut rest, mut count) = usual_field_lines(section, &mut index);
    while !rest.starts_with(b"\r\n") {
        let line = match short_field_line(rest) {
            Some(found) => found,
            None => field_line(rest)
                .map_err(|stop| ParseError { at: seen.len() - rest.len() + stop.at, ..stop })?,
        };
        index.add(rest, &line, section.len());
        rest = &rest[line.len()..];
        count += 1;
        if count > FIELD_COUNT_MAX {
            break;
        }
    }
    if count > FIELD_COUNT_MAX {
        return Err(ParseError { at: 0, error: HeadError::FieldCount });
    }
    let RequestLine { method, target, version } = request_line;
    let FieldIndex { first_values, present, repeated } = index;
    let section_len = section.len() - rest.len();
    let section = &section[..section_len];
    Ok((
        Head { method, target, version, section, first_values, present, repeated },
        seen.len() - rest.len() + 2,
    ))
}

/// Parses the usual lines at the start of a section: their names consist of letters and `-`, they contain no HTAB, and at least 16 bytes
/// follow. Returns the rest of the section, and the number of lines. A function of its own that calls no other: the compiler keeps its
/// constants in registers.
#[inline(never)]
fn usual_field_lines<'a>(section: &'a [u8], index: &mut FieldIndex) -> (&'a [u8], usize) {
    let (mut rest, mut count) = (section, 0);
    while let Some((name, behind)) = usual_field_line(rest) {
        let line = FieldLine { name, end: rest.len() - behind.len() - 2 };
        index.add(rest, &line, section.len());
        rest = behind;
        count += 1;
    }
    (rest, count)
}

/// Parses a line of [`usual_field_lines`] at the start of `line`. Returns the length of its name, and the bytes after the line.
#[inline(always)]
fn usual_field_line(line: &[u8]) -> Option<(usize, &[u8])> {
    let stop = skip(ByteClass::Name, line)?;
    let [b':', behind @ ..] = stop else { return None };
    let name = line.len() - stop.len();
    let [b'\r', b'\n', rest @ ..] = skip(ByteClass::Text, behind)? else { return None };
    (name > 0).then_some((name, rest))
}

/// The places of the fields in [`FieldName`].
#[derive(Default)]
struct FieldIndex {
    first_values: [(u16, u16); NAMES.len()],
    present: FieldSet,
    repeated: FieldSet,
}

impl FieldIndex {
    /// Adds the line at the start of `rest`, which ends a section of `section_len` bytes.
    #[inline(always)]
    fn add(&mut self, rest: &[u8], line: &FieldLine, section_len: usize) {
        if let Some(name) = FieldName::at_start_of(rest, line.name) {
            if self.present.contains(name) {
                self.repeated.insert(name);
            } else {
                self.present.insert(name);
                let value = line.value(rest);
                let at = section_len - rest.len() + value.start;
                self.first_values[name as usize] = (at as u16, value.len() as u16);
            }
        }
    }
}

struct RequestLine<'a> {
    method: Method,
    target: &'a [u8],
    version: Version,
}

/// Parses a request line of GET or HEAD and HTTP/1.1. Returns what [`request_line`] returns, or `None` for other lines.
#[inline(always)]
fn usual_request_line(seen: &[u8]) -> Option<(RequestLine<'_>, &[u8])> {
    let (method, rest) = match seen.strip_prefix(b"GET ") {
        Some(rest) => (Method::Get, rest),
        None => (Method::Head, seen.strip_prefix(b"HEAD ")?),
    };
    let behind = skip(ByteClass::Target, rest)?;
    let target = &rest[..rest.len() - behind.len()];
    let (version, section) = behind.split_first_chunk()?;
    if target.is_empty() || version != b" HTTP/1.1\r\n" {
        return None;
    }
    Some((RequestLine { method, target, version: Version::Http11 }, section))
}

/// Parses the empty lines and the request line at the start of `seen`. Returns the bytes after the request line, too.
#[cold]
fn request_line(seen: &[u8]) -> Result<(RequestLine<'_>, &[u8]), ParseError> {
    // RFC 9112, section 3: one SP each between method, target and version.
    let mut at = empty_lines(seen);
    let method = &seen[at..][..prefix_len(TCHAR, &seen[at..])];
    at += method.len();
    if method.is_empty() || seen.get(at) != Some(&b' ') {
        return Err(ParseError { at, error: HeadError::Method });
    }
    at += 1;
    let target = &seen[at..][..prefix_len(TARGET, &seen[at..])];
    at += target.len();
    if target.is_empty() || seen.get(at) != Some(&b' ') {
        return Err(ParseError { at, error: HeadError::Target });
    }
    at += 1;
    let version = match version(&seen[at..]) {
        Ok(version) => version,
        Err(error) => return Err(ParseError { at, error }),
    };
    at += VERSION_LINE_LEN;
    Ok((RequestLine { method: Method::from_token(method), target, version }, &seen[at..]))
}

/// Parses the field line at the start of `line` if its name consists of letters and `-`, and it contains no HTAB. Returns what
/// [`field_line`] returns, or `None` for other lines.
#[inline(always)]
fn short_field_line(line: &[u8]) -> Option<FieldLine> {
    let (name, end) = if line.len() < BLOCK_LEN {
        let block = &padded(line);
        let name = outside(ByteClass::Name, block).trailing_zeros() as usize;
        let value_stops = outside(ByteClass::Text, block) >> (name + 1);
        (name, name + 1 + value_stops.trailing_zeros() as usize)
    } else {
        let name = fast_prefix_len(ByteClass::Name, line);
        (name, name + 1 + fast_prefix_len(ByteClass::Text, line.get(name + 1..)?))
    };
    let is_usual = name > 0 && line.get(name) == Some(&b':') && line.get(end..)?.starts_with(b"\r\n");
    is_usual.then_some(FieldLine { name, end })
}

/// Parses the field line at the start of `line`, which may continue after that line or end within it.
#[inline(never)]
pub(crate) fn field_line(line: &[u8]) -> Result<FieldLine, ParseError> {
    let name = prefix_len(TCHAR, line);
    // RFC 9112, section 5.1: no whitespace between name and colon.
    if name == 0 || line.get(name) != Some(&b':') {
        let error = match line[name..] {
            [b' ' | b'\t', ..] if name == 0 => HeadError::Fold,
            [b'\r' | b'\n', ..] if name == 0 => HeadError::LineEnd,
            _ => HeadError::FieldName,
        };
        return Err(ParseError { at: name, error });
    }
    let end = name + 1 + prefix_len(VALUE, &line[name + 1..]);
    match line[end..] {
        [b'\r', b'\n', ..] => Ok(FieldLine { name, end }),
        // RFC 9112, section 2.2, forbids a bare CR and lets a recipient accept a bare LF; this parser accepts neither.
        [b'\r' | b'\n', ..] => Err(ParseError { at: end, error: HeadError::LineEnd }),
        _ => Err(ParseError { at: end, error: HeadError::FieldValue }),
    }
}

/// Returns name and value of each line of a section that [`parse_head`] has checked.
fn field_lines(section: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    section.split_inclusive(|&byte| byte == b'\n').filter_map(|line| {
        let found = field_line(line).ok()?;
        Some((&line[..found.name], &line[found.value(line)]))
    })
}

/// Returns the length of the empty lines at the start, which RFC 9112, section 2.2, asks a server to skip.
#[inline(always)]
fn empty_lines(seen: &[u8]) -> usize {
    let mut at = 0;
    while seen[at..].starts_with(b"\r\n") {
        at += 2;
    }
    at
}

/// The length of `HTTP/1.1` and its CRLF.
const VERSION_LINE_LEN: usize = 10;

/// Parses the version and its CRLF. RFC 9112, section 2.3: case-sensitive, with one digit each.
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

/// Decides whether a head that the parser could not finish is malformed, too long, or incomplete (`Ok`).
#[cold]
fn classify_error(seen: &[u8], stop: ParseError) -> Result<(), HeadError> {
    if seen[stop.at..].contains(&b'\n') {
        return Err(stop.error);
    }
    // A request line begins with a token, an empty line with a CR.
    if seen.first().is_some_and(|&byte| !in_class(TCHAR, byte) && byte != b'\r') {
        return Err(HeadError::Method);
    }
    if seen.len() < HEAD_LEN_MAX {
        return Ok(());
    }
    let in_fields = seen[empty_lines(seen)..].contains(&b'\n');
    Err(if in_fields { HeadError::TooLarge } else { HeadError::UriTooLong })
}

/// The names of `NAMES`, as words.
static PATTERNS: [NamePattern; NAMES.len()] = {
    let mut patterns = [const { NamePattern::new("Host") }; NAMES.len()];
    let mut index = 0;
    while index < NAMES.len() {
        patterns[index] = NamePattern::new(NAMES[index].1);
        index += 1;
    }
    patterns
};

/// A name of 4 to 24 bytes as words in lower case, for a comparison without a loop. The words may overlap.
#[derive(Clone, Copy)]
struct NamePattern {
    len: usize,
    /// The first eight bytes; of a shorter name, the first four.
    first: u64,
    /// The offset of eight bytes between the other words: 8, or 0 if the name has at most 16 bytes.
    middle_at: usize,
    middle: u64,
    /// The last eight bytes; of a shorter name, the last four.
    last: u64,
}

impl NamePattern {
    const fn new(name: &str) -> NamePattern {
        let (name, len) = (name.as_bytes(), name.len());
        assert!(len >= 4 && len <= 24);
        let word_len = if len < 8 { 4 } else { 8 };
        let middle_at = if len <= 16 { 0 } else { 8 };
        NamePattern {
            len,
            first: NamePattern::word(name, 0, word_len),
            middle_at,
            middle: NamePattern::word(name, middle_at, word_len),
            last: NamePattern::word(name, len - word_len, word_len),
        }
    }

    const fn word(name: &[u8], at: usize, len: usize) -> u64 {
        let (mut word, mut end) = (0, at + len);
        while end > at {
            end -= 1;
            word = word << 8 | name[end].to_ascii_lowercase() as u64;
        }
        word
    }

    /// Returns whether `name`, which has the length of the pattern, is the name in any case. The bit 0x20 distinguishes the cases of a
    /// letter, and with it no other byte of a token becomes a letter or `-`.
    #[inline(always)]
    fn is_in(&self, name: &[u8]) -> bool {
        let word = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes) | 0x2020_2020_2020_2020;
        let short = |bytes: &[u8; 4]| u64::from(u32::from_le_bytes(*bytes) | 0x2020_2020);
        if let (Some(first), Some(last)) = (name.first_chunk(), name.last_chunk()) {
            let middle = name[self.middle_at..].first_chunk();
            word(first) == self.first
                && middle.is_some_and(|middle| word(middle) == self.middle)
                && word(last) == self.last
        } else if let (Some(first), Some(last)) = (name.first_chunk(), name.last_chunk()) {
            short(first) == self.first && short(last) == self.last
        } else {
            false
        }
    }
}

/// Maps a slot to the index in `NAMES` of its name. Most slots are empty, so the parser skips most other fields without comparing names.
static SLOTS: [u8; SLOT_COUNT] = {
    let mut slots = [NAMES.len() as u8; SLOT_COUNT];
    let mut index = 0;
    while index < NAMES.len() {
        let name = NAMES[index].1.as_bytes();
        let slot = slot(u32::from_le_bytes([name[0], name[1], name[2], name[3]]), name.len());
        assert!(slots[slot] as usize == NAMES.len(), "two names in one slot: change `slot`");
        slots[slot] = index as u8;
        index += 1;
    }
    slots
};

const SLOT_COUNT: usize = 256;

/// Hashes the length and the first four bytes of a name, ignoring case. The factor was searched: except for `Accept-Language`, no other
/// field that browsers send shares a slot with a name in `NAMES`.
#[inline(always)]
const fn slot(first: u32, len: usize) -> usize {
    let product = (first | 0x2020_2020).wrapping_add(len as u32).wrapping_mul(0x414c_343d);
    (product >> 24) as usize
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::string::String;
    use std::vec::Vec;
    use std::{format, vec};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn head_is_parsed_or_refused_when_the_deciding_line_is_complete() {
        use HeadError as E;
        let get = |target| Ok((Method::Get, target, Version::Http11));
        #[rustfmt::skip]
        let cases: &[(&str, &str, Result<(Method, &str, Version), HeadError>)] = &[
            // case                     input                                               head
            ("least",                   "GET / HTTP/1.1\r\n\r\n",                           get("/")),
            ("field",                   "GET / HTTP/1.1\r\nHost: a\r\n\r\n",                get("/")),
            ("empty lines before",      "\r\n\r\nGET / HTTP/1.1\r\n\r\n",                   get("/")),
            ("1.0",                     "GET / HTTP/1.0\r\n\r\n",                           Ok((Method::Get, "/", Version::Http10))),
            ("higher minor version",    "GET / HTTP/1.2\r\n\r\n",                           get("/")),
            ("any visible target",      "GET *<|>\"%zz HTTP/1.1\r\n\r\n",                   get("*<|>\"%zz")),
            ("method in small letters", "get / HTTP/1.1\r\n\r\n",                           Ok((Method::Other, "/", Version::Http11))),
            ("method unknown",          "M-SEARCH * HTTP/1.1\r\n\r\n",                      Ok((Method::Other, "*", Version::Http11))),
            ("empty value",             "GET / HTTP/1.1\r\na:\r\nb: \t\r\n\r\n",            get("/")),
            ("HTAB and obs-text",       "GET / HTTP/1.1\r\na: b\tc \u{fc}berlang\r\n\r\n",  get("/")),
            ("colons in value",         "GET / HTTP/1.1\r\na:::\r\n\r\n",                   get("/")),
            ("no method",               " / HTTP/1.1\r\n\r\n",                              Err(E::Method)),
            ("method no token",         "G(T / HTTP/1.1\r\n\r\n",                           Err(E::Method)),
            ("HTAB for SP",             "GET\t/ HTTP/1.1\r\n\r\n",                          Err(E::Method)),
            ("method alone",            "GET\r\n\r\n",                                      Err(E::Method)),
            ("bare LF before",          "\nGET / HTTP/1.1\r\n\r\n",                         Err(E::Method)),
            ("bare CR before",          "\rGET / HTTP/1.1\r\n\r\n",                         Err(E::Method)),
            ("NUL first",               "\0GET / HTTP/1.1\r\n\r\n",                         Err(E::Method)),
            ("two SP before target",    "GET  / HTTP/1.1\r\n\r\n",                          Err(E::Target)),
            ("fragment",                "GET /#a HTTP/1.1\r\n\r\n",                         Err(E::Target)),
            ("target not ASCII",        "GET /\u{e9} HTTP/1.1\r\n\r\n",                     Err(E::Target)),
            ("DEL in target",           "GET /\x7f HTTP/1.1\r\n\r\n",                       Err(E::Target)),
            ("HTAB in target",          "GET /\ta HTTP/1.1\r\n\r\n",                        Err(E::Target)),
            ("HTTP/0.9",                "GET /\r\n\r\n",                                    Err(E::Target)),
            ("two SP before version",   "GET /  HTTP/1.1\r\n\r\n",                          Err(E::VersionSyntax)),
            ("SP in target",            "GET /a b HTTP/1.1\r\n\r\n",                        Err(E::VersionSyntax)),
            ("SP after version",        "GET / HTTP/1.1 \r\n\r\n",                          Err(E::VersionSyntax)),
            ("no version",              "GET / \r\n\r\n",                                   Err(E::VersionSyntax)),
            ("version small",           "GET / http/1.1\r\n\r\n",                           Err(E::VersionSyntax)),
            ("two digits",              "GET / HTTP/1.10\r\n\r\n",                          Err(E::VersionSyntax)),
            ("one number",              "GET / HTTP/1\r\n\r\n",                             Err(E::VersionSyntax)),
            ("bare LF, request-line",   "GET / HTTP/1.1\n\r\n",                             Err(E::VersionSyntax)),
            ("bare CR, request-line",   "GET / HTTP/1.1\rHost: a\r\n\r\n",                  Err(E::VersionSyntax)),
            ("HTTP/2",                  "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",                 Err(E::Version)),
            ("major version 0",         "GET / HTTP/0.9\r\n\r\n",                           Err(E::Version)),
            ("no name",                 "GET / HTTP/1.1\r\n: a\r\n\r\n",                    Err(E::FieldName)),
            ("no colon",                "GET / HTTP/1.1\r\nHost\r\n\r\n",                   Err(E::FieldName)),
            ("SP before colon",         "GET / HTTP/1.1\r\nHost : a\r\n\r\n",               Err(E::FieldName)),
            ("HTAB before colon",       "GET / HTTP/1.1\r\nHost\t: a\r\n\r\n",              Err(E::FieldName)),
            ("name no token",           "GET / HTTP/1.1\r\nHo[t: a\r\n\r\n",                Err(E::FieldName)),
            ("name not ASCII",          "GET / HTTP/1.1\r\nH\u{f6}st: a\r\n\r\n",           Err(E::FieldName)),
            ("NUL in value",            "GET / HTTP/1.1\r\na: b\0c\r\n\r\n",                Err(E::FieldValue)),
            ("DEL in value",            "GET / HTTP/1.1\r\na: bcdefghijk\x7f\r\n\r\n",      Err(E::FieldValue)),
            ("fold",                    "GET / HTTP/1.1\r\na: b\r\n c\r\n\r\n",             Err(E::Fold)),
            ("fold with HTAB",          "GET / HTTP/1.1\r\na: b\r\n\tc\r\n\r\n",            Err(E::Fold)),
            ("SP before first field",   "GET / HTTP/1.1\r\n a: b\r\n\r\n",                  Err(E::Fold)),
            ("bare LF, field line",     "GET / HTTP/1.1\r\na: b\n\r\n",                     Err(E::LineEnd)),
            ("bare CR, field line",     "GET / HTTP/1.1\r\na: b\rc: d\r\n\r\n",             Err(E::LineEnd)),
            ("two CR",                  "GET / HTTP/1.1\r\na: b\r\r\n\r\n",                 Err(E::LineEnd)),
            ("bare LF at the end",      "GET / HTTP/1.1\r\na: b\r\n\n",                     Err(E::LineEnd)),
            ("bare CR at the end",      "GET / HTTP/1.1\r\n\rx\r\n",                        Err(E::LineEnd)),
        ];
        for (name, wire, want) in cases {
            let found = parse(wire.as_bytes()).map(|found| {
                let (head, len) = found.expect("the row is a complete head");
                assert_eq!(len, wire.len(), "{name}: the head ends with the row");
                (head.method, str::from_utf8(head.target).unwrap(), head.version)
            });
            assert_eq!(found, *want, "{name}");
            assert_split_does_not_matter(wire.as_bytes());
        }
    }

    #[test]
    fn every_method_is_parsed() {
        use Method::*;
        for method in [Get, Head, Post, Put, Delete, Connect, Options, Trace, Patch] {
            let wire = format!("{method:?} / HTTP/1.1\r\n\r\n").to_uppercase();
            assert_eq!(parse(wire.as_bytes()).unwrap().unwrap().0.method, method);
        }
    }

    #[test]
    fn values_are_found_by_name_in_any_case_and_in_order() {
        let wire = b"GET / HTTP/1.1\r\n\
            X-Host: no\r\nhOST: \t a b \t\r\nHos: no\r\nIf-None-Match:If-None-Match: 1\r\nCookie: if-none-match: no\r\n\
            if-none-match:\r\nHostt: no\r\nIF-NONE-MATCH: \"3\"\r\n\r\nHost: behind";
        let (head, len) = parse(wire).unwrap().unwrap();
        assert_eq!(&wire[len..], b"Host: behind");
        #[rustfmt::skip]
        let cases: &[(FieldName, &[&str])] = &[
            (FieldName::Host,          &["a b"]),
            (FieldName::IfNoneMatch,   &["If-None-Match: 1", "", "\"3\""]),
            (FieldName::ContentLength, &[]),
        ];
        for (name, want) in cases {
            let found: Vec<_> = head.all(*name).map(|value| str::from_utf8(value).unwrap()).collect();
            assert_eq!(&found, want, "{name:?}");
            assert_eq!(head.first(*name), want.first().map(|value| value.as_bytes()), "{name:?}");
            assert_eq!(head.has(*name), !want.is_empty(), "{name:?}");
            assert_eq!(head.is_repeated(*name), want.len() > 1, "{name:?}");
        }
    }

    #[test]
    fn every_name_is_found_in_either_case() {
        for (name, text) in NAMES {
            for text in [text.to_ascii_lowercase(), text.to_ascii_uppercase()] {
                let wire = format!("GET / HTTP/1.1\r\n{text}: v\r\n\r\n");
                let (head, _) = parse(wire.as_bytes()).unwrap().unwrap();
                assert_eq!(head.first(name), Some(b"v".as_slice()), "{text}");
            }
        }
    }

    #[test]
    fn exactly_one_valid_host_is_required() {
        #[rustfmt::skip]
        let cases: &[(&str, &str, Result<Option<&str>, HeadError>)] = &[
            // case                head                                                           host
            ("one",                "GET / HTTP/1.1\r\nHost: a:1\r\n\r\n",                         Ok(Some("a:1"))),
            ("empty",              "GET / HTTP/1.1\r\nHost:\r\n\r\n",                             Err(HeadError::Host)),
            ("none in 1.0",        "GET / HTTP/1.0\r\n\r\n",                                      Ok(None)),
            ("one in 1.0",         "GET / HTTP/1.0\r\nHost: a\r\n\r\n",                           Ok(Some("a"))),
            ("none",               "GET / HTTP/1.1\r\n\r\n",                                      Err(HeadError::Host)),
            ("none, absolute",     "GET http://a/ HTTP/1.1\r\n\r\n",                              Err(HeadError::Host)),
            ("two",                "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",                Err(HeadError::Host)),
            ("two equal",          "GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n",                Err(HeadError::Host)),
            ("two in 1.0",         "GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n",                Err(HeadError::Host)),
            ("two, absolute",      "GET http://a/ HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",        Err(HeadError::Host)),
            ("invalid",            "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",                         Err(HeadError::Host)),
            ("invalid in 1.0",     "GET / HTTP/1.0\r\nHost: a b\r\n\r\n",                         Err(HeadError::Host)),
            ("invalid, absolute",  "GET http://a/ HTTP/1.1\r\nHost: @\r\n\r\n",                   Err(HeadError::Host)),
        ];
        for (name, wire, want) in cases {
            let (head, _) = parse(wire.as_bytes()).unwrap().unwrap();
            assert_eq!(head.host(), want.map(|host| host.map(str::as_bytes)), "{name}");
        }
    }

    #[test]
    fn length_and_field_count_are_bounded() {
        let fields = |count: usize| format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(count));
        let target = |len: usize| format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(len - 18));
        let value = |len: usize| format!("GET / HTTP/1.1\r\na:{}\r\n\r\n", "v".repeat(len - 22));
        let lines = |len: usize| format!("{}GET / HTTP/1.1\r\n\r\n", "\r\n".repeat(len / 2 - 9));
        #[rustfmt::skip]
        let cases: &[(&str, String, Result<(), HeadError>)] = &[
            // case                       input                        result 
            ("most fields",               fields(FIELD_COUNT_MAX),     Ok(())),
            ("one field more",            fields(FIELD_COUNT_MAX + 1), Err(HeadError::FieldCount)),
            ("longest target",            target(HEAD_LEN_MAX),        Ok(())),
            ("only CRLF beyond",          target(HEAD_LEN_MAX + 1),    Err(HeadError::TooLarge)),
            ("request-line's LF beyond",  target(HEAD_LEN_MAX + 3),    Err(HeadError::UriTooLong)),
            ("longer target",             target(2 * HEAD_LEN_MAX),    Err(HeadError::UriTooLong)),
            ("longest value",             value(HEAD_LEN_MAX),         Ok(())),
            ("longer value",              value(HEAD_LEN_MAX + 1),     Err(HeadError::TooLarge)),
            ("most empty lines",          lines(HEAD_LEN_MAX),         Ok(())),
            ("one empty line more",       lines(HEAD_LEN_MAX + 2),     Err(HeadError::TooLarge)),
            ("nothing but empty lines",   lines(2 * HEAD_LEN_MAX),     Err(HeadError::UriTooLong)),
        ];
        for (name, wire, want) in cases {
            let longer = [wire.as_bytes(), b"\r\n\r\n\0"].concat();
            for wire in [wire.as_bytes(), &longer] {
                assert_eq!(parse(wire).map(|found| found.map(|_| ())), want.map(Some), "{name}");
            }
            for len in wire.len().saturating_sub(30)..wire.len() {
                let found = parse(&wire.as_bytes()[..len]);
                assert!(
                    found.is_ok_and(|found| found.is_none()) || found.err() == want.err(),
                    "{name}, {len} bytes"
                );
            }
        }
    }

    #[test]
    fn another_protocol_is_refused_at_its_first_byte() {
        for byte in 0..=255 {
            let found = parse(&[byte]).map(|found| found.is_some());
            let may_begin = in_class(TCHAR, byte) || byte == b'\r';
            assert_eq!(found, if may_begin { Ok(false) } else { Err(HeadError::Method) }, "{byte:#x}");
        }
    }

    proptest! {
        #[test]
        fn result_does_not_depend_on_how_the_input_is_split(wire in wire()) {
            assert_split_does_not_matter(&wire);
        }

        #[test]
        fn accepted_heads_agree_with_httparse(wire in wire()) {
            let mut fields = [httparse::EMPTY_HEADER; FIELD_COUNT_MAX];
            let mut oracle = httparse::Request::new(&mut fields);
            if let Ok(Some((head, len))) = parse(&wire) {
                prop_assert_eq!(oracle.parse(&wire), Ok(httparse::Status::Complete(len)));
                prop_assert_eq!(head.target, oracle.path.unwrap().as_bytes());
                prop_assert_eq!(head.version == Version::Http11, oracle.version == Some(1));
                let theirs: Vec<_> = oracle.headers.iter().map(|field| (field.name.as_bytes(), field.value)).collect();
                prop_assert_eq!(head.fields().collect::<Vec<_>>(), theirs);
                for (name, text) in NAMES {
                    let ours: Vec<_> = head.all(name).collect();
                    let theirs: Vec<_> = oracle
                        .headers
                        .iter()
                        .filter(|field| field.name.eq_ignore_ascii_case(text))
                        .map(|field| field.value)
                        .collect();
                    prop_assert_eq!(ours, theirs);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn usual_lines_are_parsed_as_any_others(wire in wire(), behind in "[a-z\r\n]{0,20}") {
            let wire = [&wire, behind.as_bytes()].concat();
            let slow = request_line(&wire);
            if let Some((usual, section)) = usual_request_line(&wire) {
                let (line, rest) = slow.ok().unwrap();
                prop_assert_eq!((usual.method, usual.target, usual.version), (line.method, line.target, line.version));
                prop_assert_eq!(section, rest);
            }
            for from in 0..wire.len() {
                let line = &wire[from..];
                let slow = field_line(line).ok();
                if let Some((name, behind)) = usual_field_line(line) {
                    let slow = slow.as_ref().unwrap();
                    prop_assert_eq!((name, line.len() - behind.len()), (slow.name, slow.len()));
                }
                if let Some(short) = short_field_line(line) {
                    let slow = slow.as_ref().unwrap();
                    prop_assert_eq!((short.name, short.end), (slow.name, slow.end));
                }
                if let Some(slow) = slow {
                    prop_assert_eq!(FieldName::at_start_of(line, slow.name), slow_name(&line[..slow.name]));
                }
            }
        }
    }

    fn slow_name(name: &[u8]) -> Option<FieldName> {
        NAMES.iter().find(|(_, text)| name.eq_ignore_ascii_case(text.as_bytes())).map(|(name, _)| *name)
    }

    /// Generates requests that are mostly valid, with a wrong part now and then.
    fn wire() -> impl Strategy<Value = Vec<u8>> {
        let part = |right: &'static [&'static str], wrong: &'static [&'static str]| prop_oneof![20 => proptest::sample::select(right), 1 => proptest::sample::select(wrong)];
        let field = (
            part(
                &[
                    "Host",
                    "host",
                    "Content-Length",
                    "If-None-Match",
                    "If-Modified-Since",
                    "Accept-Encoding",
                    "Accept-Language",
                    "x-y",
                    "x_1",
                    "A",
                ],
                &["", " a", "H st", "\r\n", "\u{e9}"],
            ),
            part(&[":", ": ", ":\t "], &["", " :", "\n"]),
            part(
                &["", "a", "\"b\", c", "a value of some length", "\u{fc}\tx", "b "],
                &["\0", "\r", "\n", "\r\n c", "\x7f"],
            ),
            part(&["\r\n"], &["", "\n", "\r", "\r\r\n"]),
        )
            .prop_map(|(name, colon, value, end)| [name, colon, value, end].concat());
        let start = (
            part(&["", "\r\n"], &["\n", "\r", " ", "\x16"]),
            part(&["GET", "HEAD", "POST", "x"], &["", "G T", "\0"]),
            part(&[" "], &["", "  ", "\t"]),
            part(&["/", "/a?b", "*", "http://a/"], &["", "/#", "/ ", "\u{e9}"]),
            part(&[" "], &["", "  "]),
            part(&["HTTP/1.1", "HTTP/1.0"], &["HTTP/2.0", "HTTP/1", "http/1.1", ""]),
            part(&["\r\n"], &["", "\n", "\r", " \r\n"]),
        )
            .prop_map(|parts| [parts.0, parts.1, parts.2, parts.3, parts.4, parts.5, parts.6].concat());
        let structured = (start, proptest::collection::vec(field, 0..6), part(&["\r\n"], &["", "\n", "\r"]))
            .prop_map(|(start, fields, end)| [start, fields.concat(), end.into()].concat().into_bytes());
        prop_oneof![4 => structured, 1 => proptest::collection::vec(any::<u8>(), 0..60)]
    }

    /// Parses every prefix of `wire`, and `wire` with bytes after it. Asserts that only an LF or the first byte brings a result, and
    /// that the result is that of the whole input.
    fn assert_split_does_not_matter(wire: &[u8]) {
        let whole = parsed(wire);
        let mut before = Ok(None);
        for len in 0..=wire.len() {
            let found = parsed(&wire[..len]);
            if before == Ok(None) {
                let may_decide = len == 1 || len > 0 && wire[len - 1] == b'\n';
                assert!(found == Ok(None) || may_decide, "decided without an LF after {len} of {wire:?}");
                assert!(found == Ok(None) || found == whole, "decided otherwise after {len} of {wire:?}");
            } else {
                assert_eq!(found, before, "changed after {len} of {wire:?}");
            }
            before = found;
        }
        for behind in [&b"\r\n"[..], b"\n", b"\0", b"GET / HTTP/1.1\r\n\r\n"] {
            if whole != Ok(None) {
                assert_eq!(parsed(&[wire, behind].concat()), whole, "{wire:?}, then {behind:?}");
            }
        }
    }

    /// Parses the head at the start of `wire` into a form that tests can compare.
    fn parsed(wire: &[u8]) -> Result<Option<(usize, String)>, HeadError> {
        Ok(parse(wire)?.map(|(head, len)| {
            let mut values = vec![];
            for (name, _) in NAMES {
                values.extend(head.all(name).map(<[u8]>::to_vec));
            }
            (len, format!("{head:?} {values:?}"))
        }))
    }
}
