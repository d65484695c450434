//! Parses the head of a request: request line and field section. RFC 9112, sections 2 to 5.
//!
//! ```text
//! *( CRLF )  method SP target SP version CRLF  *( name ":" OWS value OWS CRLF )  CRLF
//!            └────────── request-line ─────┘   └─────── field line ───────┘
//! ```
//!
//! The parser makes one pass and copies nothing. It records the place of each field in [`FieldName`], and checks and skips
//! all other fields.
//!
//! | file | what |
//! |---|---|
//! | `request_line` | empty lines and request line |
//! | `field_line` | one field line |
//! | `error` | why a head is refused |
//!
//! The result depends only on the bytes received, not on how the network split them: the parser checks the lines in order, and
//! checks a line only after its LF has arrived. After `Ok(None)` the result stays the same until a new LF arrives or the input
//! reaches the limit of the length, so a caller need not parse again before.
//!
//! This module does not interpret methods, targets or field values; see `target`, `host`, `framing`, `persist`,
//! `precondition`, `negotiate` and `dictionary`.

mod error;
mod field_line;
mod request_line;
#[cfg(test)]
mod tests;

pub use crate::method::Method;
pub use error::HeadError;

pub(crate) use field_line::{field_line, field_lines};

use crate::field_name::FieldName;
use crate::fields::{FieldIndex, Fields, Place};
use crate::host;
use crate::target::{self, Target, TargetError, TargetPath};
use crate::token::{TCHAR, in_class};
use field_line::{FRONT_LEN, FieldLine, HOST_VALUE_AT, first_host_line, last_field_line, usual_field_line};
use request_line::{RequestLine, empty_lines, request_line, usual_request_line};
use tarpon_simd::{ByteClass, Simd, Work, with_widest};

/// The usual limit of the length of a head in bytes, including empty lines before it. Twice the 8,000 bytes that RFC 9110, section 4.1,
/// recommends for a target alone.
pub const HEAD_LEN_USUAL: usize = 16 * 1024;

/// The highest limit of the length of a head in bytes. The offsets in [`Head`] have 16 bits: each names a byte before the end of the head.
pub const HEAD_LEN_MAX: usize = 64 * 1024;
const _: () = assert!(HEAD_LEN_MAX - 1 <= u16::MAX as usize);

/// The maximum number of field lines in a head. Browsers send about 15 and proxies add a few.
pub const FIELD_COUNT_MAX: usize = 100;

/// The HTTP version of a request. A minor version above 1 counts as 1.1: RFC 9110, section 2.5. Heads have only the first two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    Http11,
    /// HTTP/2
    Http2,
}

/// A complete request head. Borrows the bytes that it was parsed from.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// The method.
    pub method: Method,
    /// The request target as received: at least one byte; each byte is visible ASCII other than `#`.
    pub target: &'a [u8],
    path: TargetPath,
    /// The version.
    pub version: Version,
    /// The fields.
    pub fields: Fields<'a>,
}

/// Parses the head at the start of `input`, of at most [`HEAD_LEN_MAX`] bytes. Returns the head and its length, which includes empty lines
/// before the head and the empty line that ends it. Returns `Ok(None)` if the head is incomplete.
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
pub fn parse(input: &[u8]) -> Result<Option<(Head<'_>, usize)>, HeadError> {
    parse_within(HEAD_LEN_MAX, input)
}

/// Parses the head at the start of `input` as [`parse`] does, but of at most `len_max` bytes.
///
/// # Errors
///
/// As [`parse`], with `len_max` as the limit.
///
/// # Panics
///
/// Panics if `len_max` is more than [`HEAD_LEN_MAX`].
pub fn parse_within(len_max: usize, input: &[u8]) -> Result<Option<(Head<'_>, usize)>, HeadError> {
    assert!(len_max <= HEAD_LEN_MAX, "offsets in a head have 16 bits");
    let mut head = Head::EMPTY;
    Ok(parse_into(&mut head, len_max, input)?.map(|len| (head, len)))
}

/// Parses the head at the start of `input` as [`parse_within`] does, and writes it to `head`, as a head is long to move. Returns its length.
/// `len_max`: at most [`HEAD_LEN_MAX`].
///
/// # Errors
///
/// As [`parse_within`]. `head` has no meaning then, and neither has it if the head is incomplete.
#[inline(always)]
pub fn parse_into<'a>(
    head: &mut Head<'a>,
    len_max: usize,
    input: &'a [u8],
) -> Result<Option<usize>, HeadError> {
    debug_assert!(len_max <= HEAD_LEN_MAX, "offsets in a head have 16 bits");
    let seen = &input[..input.len().min(len_max)];
    let (request_line, lines) = match usual_request_line(seen) {
        Some(found) => found,
        None => match request_line(seen) {
            Ok(found) => found,
            Err(stop) => return classify_error(seen, len_max, stop),
        },
    };
    let rest = match index_field_lines(seen, lines, FIELD_COUNT_MAX, head.fields.new_index()) {
        Ok(rest) => rest,
        Err(stop) => return classify_error(seen, len_max, stop),
    };
    let len = seen.len() - rest.len() + 2;
    head.fields.set_lines(&lines[..lines.len() - rest.len()], &seen[..len]);
    RequestLine { method: head.method, target: head.target, path: head.path, version: head.version } =
        request_line;
    Ok(Some(len))
}

/// A complete head that asks for a path as most clients do, with the fields in [`parse_usual`].
#[derive(Clone, Copy, Debug)]
pub struct UsualHead<'a> {
    /// GET or HEAD.
    pub method: Method,
    /// The path of the target: it is in origin form, and the path [is plain](target::is_plain).
    pub path: &'a [u8],
    /// The length of the head in bytes.
    pub len: usize,
}

/// Parses the head at the start of `input` if it is complete and usual: GET or HEAD of a plain path, HTTP/1.1, and the first field is a valid
/// Host. There may be another Host field. Writes the fields to `fields`, as they are long to move. Returns `None` for any other input, which
/// [`parse_into`] may accept. `len_max`: at most [`HEAD_LEN_MAX`].
#[inline(always)]
pub fn parse_usual<'a>(fields: &mut Fields<'a>, len_max: usize, input: &'a [u8]) -> Option<UsualHead<'a>> {
    debug_assert!(len_max <= HEAD_LEN_MAX, "offsets in a head have 16 bits");
    let seen = &input[..input.len().min(len_max)];
    let (RequestLine { method, target, path, .. }, lines) = usual_request_line(seen)?;
    if !path.is_plain {
        return None;
    }
    let (host, behind) = first_host_line(lines)?;
    let index = fields.new_index();
    let host_at = seen.len() - lines.len() + HOST_VALUE_AT;
    index.add(FieldName::Host, || Place { at: host_at as u16, len: host.len() as u16 });
    let rest = match behind {
        [b'\r', b'\n', ..] => behind,
        _ => index_field_lines(seen, behind, FIELD_COUNT_MAX - 1, index).ok()?,
    };
    let len = seen.len() - rest.len() + 2;
    fields.set_lines(&lines[..lines.len() - rest.len()], &seen[..len]);
    Some(UsualHead { method, path: path.of_target(target), len })
}

impl<'a> Head<'a> {
    /// No head, to [parse](parse_into) one into.
    pub const EMPTY: Head<'static> = Head {
        method: Method::Get,
        target: b"/",
        path: TargetPath { len: 1, is_plain: true },
        version: Version::Http11,
        fields: Fields::EMPTY,
    };

    /// Splits the target into its components, as [`target::parse`] does.
    ///
    /// # Errors
    ///
    /// Returns [`TargetError::Form`] if the target does not have a form that the method allows.
    #[inline(always)]
    pub fn split_target(&self) -> Result<Target<'a>, TargetError> {
        match self.target {
            [b'/', ..] if self.method != Method::Connect => Ok(self.path.split(self.target)),
            _ => target::parse(self.method, self.target),
        }
    }

    /// Returns whether the target is in origin form, and its path [is plain](target::is_plain).
    #[inline]
    pub fn has_plain_path(&self) -> bool {
        self.path.is_plain
    }

    /// Returns the value of the Host field. Only an HTTP/1.0 request may omit the field.
    ///
    /// # Errors
    ///
    /// Returns [`HeadError::Host`] if an HTTP/1.1 request has no Host field, if any request has more than one, or if the value
    /// is not `uri-host [ ":" port ]`. The form of the target does not matter: RFC 9112, section 3.2.
    #[inline]
    pub fn host(&self) -> Result<Option<&'a [u8]>, HeadError> {
        let is_name = self.fields.is_short_run(FieldName::Host, ByteClass::Host);
        match self.fields.first(FieldName::Host) {
            None if self.version == Version::Http10 => Ok(None),
            Some(_) if self.fields.is_repeated(FieldName::Host) => Err(HeadError::Host),
            Some(value) if is_name || host::is_valid(value) => Ok(Some(value)),
            _ => Err(HeadError::Host),
        }
    }
}

/// The offset at which the parser stopped, and the error to report if that line is complete.
pub(crate) struct ParseError {
    pub(crate) at: usize,
    pub(crate) error: HeadError,
}

/// Parses `lines`, with which `seen` ends, and adds them to an index: at most `max` lines. Returns the bytes from the empty line that ends the
/// section.
#[inline(always)]
fn index_field_lines<'a>(
    seen: &'a [u8],
    lines: &'a [u8],
    max: usize,
    index: &mut FieldIndex,
) -> Result<&'a [u8], ParseError> {
    let (mut rest, mut room) = (lines, max + 1);
    loop {
        if rest.len() >= FRONT_LEN {
            (rest, room) = with_widest(UsualFieldLines { lines: rest, end: seen.len(), room, index });
        }
        if rest.len() < FRONT_LEN && !rest.starts_with(b"\r\n") {
            (rest, room) = last_field_lines(rest, seen, room, index);
        }
        // The lines are complete, so the error does not wait for another one.
        if room == 0 {
            return Err(ParseError { at: 0, error: HeadError::FieldCount });
        }
        if rest.starts_with(b"\r\n") {
            return Ok(rest);
        }
        let at = seen.len() - rest.len();
        let line = field_line(rest).map_err(|stop| ParseError { at: at + stop.at, ..stop })?;
        add_to(index, at, rest, &line);
        rest = &rest[line.len()..];
        room -= 1;
    }
}

/// Parses the usual lines at the start of `lines`, up to `room` of them, and adds them to an index. `lines` ends at `end`. The result is the
/// rest of the lines, and the room that is left. A function of its own that calls no other: the compiler keeps its constants in registers.
struct UsualFieldLines<'a, 'i> {
    lines: &'a [u8],
    end: usize,
    room: usize,
    index: &'i mut FieldIndex,
}

impl<'a> Work for UsualFieldLines<'a, '_> {
    type Output = (&'a [u8], usize);

    #[inline(always)]
    fn run(self, simd: impl Simd) -> (&'a [u8], usize) {
        let UsualFieldLines { lines: mut rest, end, mut room, index } = self;
        while room > 0
            && let Some((name, behind)) = usual_field_line(simd, rest)
        {
            add_to(index, end - rest.len(), rest, &FieldLine { name, end: rest.len() - behind.len() - 2 });
            rest = behind;
            room -= 1;
        }
        (rest, room)
    }
}

/// Parses the usual lines at the start of `lines`, which are the last bytes of `seen`; see [`UsualFieldLines`].
#[inline(never)]
fn last_field_lines<'a>(
    lines: &'a [u8],
    seen: &'a [u8],
    room: usize,
    index: &mut FieldIndex,
) -> (&'a [u8], usize) {
    let (mut rest, mut room) = (lines, room);
    while room > 0
        && let Some(line) = last_field_line(seen, rest)
    {
        add_to(index, seen.len() - rest.len(), rest, &line);
        rest = &rest[line.len()..];
        room -= 1;
    }
    (rest, room)
}

/// Adds the line at the start of `rest`, which begins at `at`, if its name is known.
#[inline(always)]
fn add_to(index: &mut FieldIndex, at: usize, rest: &[u8], line: &FieldLine) {
    if let Some(name) = FieldName::at_start_of(rest, line.name) {
        index.add(name, || {
            let (value_at, value) = line.value(rest);
            Place { at: (at + value_at) as u16, len: value.len() as u16 }
        });
    }
}

/// Decides whether a head that the parser could not finish is malformed, too long, or incomplete (`Ok(None)`).
#[cold]
fn classify_error<T>(seen: &[u8], len_max: usize, stop: ParseError) -> Result<Option<T>, HeadError> {
    if seen[stop.at..].contains(&b'\n') {
        return Err(stop.error);
    }
    // A request line begins with a token, an empty line with a CR.
    if seen.first().is_some_and(|&byte| !in_class(TCHAR, byte) && byte != b'\r') {
        return Err(HeadError::Method);
    }
    if seen.len() < len_max {
        return Ok(None);
    }
    let in_fields = seen[empty_lines(seen)..].contains(&b'\n');
    Err(if in_fields { HeadError::TooLarge } else { HeadError::UriTooLong })
}
