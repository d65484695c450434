//! The redirect and rewrite rules of a site that need pattern matching, in the order in which the server tries them. A rule for a
//! fixed path is a record in the index instead.
//!
//! ```text
//! section:  [ head, 16 ][ fields ][ content ] [ rule ][ rule ] …        the head ends with the place of the HPACK block
//! rule:     [ head, 12 ][ pattern ][ parameters ][ target ]          each a sequence of steps
//! step:     [ opcode, 1 ][ length, 2 ][ bytes ]
//!
//! /blog/:year/*  id=:id  →  /news/:year/:splat?id=:id
//! └── pattern ┘  └params    └── target ──────────────┘
//! ```
//!
//! If a rule always sends the same file, or redirects with fields of its own, that response is a record whose name contains the offset
//! of the rule; see [`rule_name`].
//!
//! Matching needs no backtracking: a placeholder ends with its segment, and only text may follow `*`. A request reads its path and its
//! query once for all rules; so a rule costs as much as its own text is long, whatever the request is. Malformed rules match nothing.
//!
//! | file | content |
//! |---|---|
//! | `parameter_names.rs` | numbers for the names of query parameters in rules |
//! | `request_index.rs` | the segments and the parameters of a request |
//! | `matching.rs` | matches the steps of a rule |
//! | `log_paths.rs` | the paths that the access log leaves out |
//!
//! This module does not parse rules files; `tarpon-pack` does.
//!
//! ```
//! use tarpon_site::rules::{RuleRequest, RuleRow, RuleStep};
//!
//! let rule = RuleRow {
//!     status: 301,
//!     forced: false,
//!     optional_slash: true,
//!     keeps_query: false,
//!     pattern: &[RuleStep::Text(b"/blog/"), RuleStep::CaptureRest],
//!     parameters: &[],
//!     target: &[RuleStep::Text(b"/news/"), RuleStep::Captured(0)],
//!     fragment: b"",
//! };
//! let encoded = rule.encode().expect("a short rule");
//! let request = RuleRequest { path: b"/blog/2026/a", query: None, exists: false };
//! let found = RuleRow::match_request(&encoded, request).expect("a match");
//! let mut to = [0; 100];
//! let len = found.location(&mut to).expect("enough room");
//! assert_eq!(&to[..len], b"/news/2026/a");
//! ```

mod log_paths;
mod matching;
mod parameter_names;
mod request_index;

pub use log_paths::{LOG_PATH_COUNT_MAX, LogPathRow, LogPaths};
pub use matching::{Captures, match_pattern};
pub use parameter_names::PARAMETER_NAME_COUNT_MAX;

use crate::field_block::FieldBlock;
use crate::format::HpackPlace;
use crate::framing::{authority, frames_behind_location, is_uri_byte};
use crate::region::Region;
use matching::{parameters_match, path_matches};
use parameter_names::ParameterNames;
use request_index::RequestIndex;
use std::sync::Arc;

/// The maximum number of rules of a site. A rule whose first bytes differ from the path costs some nanoseconds; this many cost about
/// as much as a request over loopback.
pub const RULE_COUNT_MAX: usize = 1_000;
/// The maximum number of captures of a rule, in its path and its parameters together.
pub const CAPTURE_COUNT_MAX: usize = 16;
/// The suffixes that the server appends to the target of a rewrite, in order, until it finds a file: the file itself, the index of a
/// directory, a page without its extension.
pub const FILE_SUFFIXES: [&[u8]; 3] = [b"", b"/", b".html"];
/// The length of the head of the section.
pub const RULES_HEAD_LEN: usize = 16;
/// The length of the head of a rule.
pub const RULE_HEAD_LEN: usize = 12;
/// The maximum length of the record name of a rule.
pub const RULE_NAME_LEN: usize = RULE_NAME.len() + 10;

const RULE_NAME: &[u8] = b"rule ";

/// One step of a pattern, of parameters, or of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleStep<'s> {
    /// These bytes. In the target of a redirect they are already escaped.
    Text(&'s [u8]),
    /// In a pattern, captures the rest of a segment up to the next text; not empty. In parameters, captures a value; not empty.
    Capture,
    /// In a pattern, captures any bytes, or none. At most one text may follow.
    CaptureRest,
    /// In parameters, the name of a parameter. The next step is its value.
    Name(&'s [u8]),
    /// In a target, inserts a capture of the path into the path.
    Captured(u8),
    /// In a target, inserts a capture of the path into the query.
    CapturedInQuery(u8),
    /// In a target, inserts a capture of a parameter.
    CapturedParameter(u8),
}

/// A rule to encode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleRow<'s> {
    /// The status of the response.
    pub status: u16,
    /// Whether the rule applies even if the path exists.
    pub forced: bool,
    /// Whether a slash at the end of the path is optional.
    pub optional_slash: bool,
    /// Whether the server appends the query of the request to the target.
    pub keeps_query: bool,
    /// The steps that match the path.
    pub pattern: &'s [RuleStep<'s>],
    /// The steps that match the query.
    pub parameters: &'s [RuleStep<'s>],
    /// The steps that write the target.
    pub target: &'s [RuleStep<'s>],
    /// The fragment of a redirect, including its `#`, which follows the target and the query.
    pub fragment: &'s [u8],
}

impl RuleRow<'_> {
    /// Returns the bytes of the rule, or `None` if it is too long.
    pub fn encode(&self) -> Option<Vec<u8>> {
        let parts = [encode_steps(self.pattern)?, encode_steps(self.parameters)?, encode_steps(self.target)?];
        let flags =
            u8::from(self.forced) | u8::from(self.optional_slash) << 1 | u8::from(self.keeps_query) << 2;
        let len = RULE_HEAD_LEN + parts.iter().map(Vec::len).sum::<usize>() + self.fragment.len();
        let mut to = Vec::with_capacity(len);
        to.extend(u16::try_from(len).ok()?.to_le_bytes());
        to.extend(self.status.to_le_bytes());
        to.extend([flags, 0]);
        for part in &parts {
            to.extend((part.len() as u16).to_le_bytes());
        }
        to.extend(parts.concat());
        to.extend(self.fragment);
        Some(to)
    }

    /// Returns whether a packer could have written this encoded rule.
    pub fn is_valid(encoded: &[u8]) -> bool {
        Rule::read(encoded).is_some_and(|(rule, _)| rule.is_valid())
    }

    /// Matches an encoded rule against a request.
    pub fn match_request<'i, 'r>(encoded: &'i [u8], request: RuleRequest<'r>) -> Option<RuleMatch<'i, 'r>> {
        let (rule, _) = Rule::read(encoded)?;
        let names = ParameterNames::new([rule].into_iter())?;
        let captures = rule.match_alone(&names, request)?;
        Some(RuleMatch { rule, captures, query: request.query, at: 0 })
    }
}

/// Encodes the start of the section: its head, and the fields after Location, with the place of their HPACK block, and the content of
/// every redirect.
pub fn encode_head(fields: &[u8], hpack: HpackPlace, content: &[u8]) -> Vec<u8> {
    let mut to = Vec::new();
    to.extend((fields.len() as u32).to_le_bytes());
    to.extend((content.len() as u32).to_le_bytes());
    to.extend(hpack.encode());
    to.extend(fields);
    to.extend(content);
    to
}

/// Writes the name of the record with the response of the rule at offset `at`, see [`RuleMatch::at`]. The name is not a path, because it
/// does not begin with a slash.
pub fn rule_name(at: u32, to: &mut [u8; RULE_NAME_LEN]) -> &[u8] {
    let mut from = RULE_NAME_LEN;
    let mut rest = at;
    loop {
        from -= 1;
        to[from] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    from -= RULE_NAME.len();
    to[from..][..RULE_NAME.len()].copy_from_slice(RULE_NAME);
    &to[from..]
}

/// The regions of the rules section in the image, and the parameter names of its rules.
#[derive(Clone, Debug)]
pub(crate) struct RulesLayout {
    fields: Region,
    content: Region,
    rules: Region,
    names: Arc<ParameterNames>,
}

impl RulesLayout {
    /// Splits the section `bytes`, which is at offset `at` in the image. Returns `None` if a part exceeds it, or if the rules have too many
    /// parameter names.
    pub(crate) fn new(bytes: &[u8], at: u64) -> Option<RulesLayout> {
        let head = bytes.first_chunk::<RULES_HEAD_LEN>()?;
        let number =
            |at: usize| u64::from(u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]));
        let fields = Region { at: RULES_HEAD_LEN as u64, len: number(0) };
        let content = Region { at: fields.at + fields.len, len: number(4) };
        let end = content.at + content.len;
        let rules = Region { at: end, len: (bytes.len() as u64).checked_sub(end)? };
        let names = Arc::new(ParameterNames::new(read_rules(&bytes[rules.range()]))?);
        let within = |region: Region| Region { at: at + region.at, ..region };
        Some(RulesLayout { fields: within(fields), content: within(content), rules: within(rules), names })
    }
}

/// The rules of an image, checked when the image was opened.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'i> {
    layout: &'i RulesLayout,
    bytes: &'i [u8],
}

/// The parts of a request that rules match.
#[derive(Clone, Copy, Debug)]
pub struct RuleRequest<'r> {
    /// The decoded path, which begins with a slash.
    pub path: &'r [u8],
    /// The query as received, without its `?`.
    pub query: Option<&'r [u8]>,
    /// Whether the site has an entry for the path.
    pub exists: bool,
}

/// A rule that matches a request, with its captures.
#[derive(Clone, Copy, Debug)]
pub struct RuleMatch<'i, 'r> {
    rule: Rule<'i>,
    captures: [&'r [u8]; CAPTURE_COUNT_MAX],
    query: Option<&'r [u8]>,
    /// The offset of the rule among the rules; see [`Rules::match_at`].
    pub at: u32,
}

/// A rule of an image, decoded for display. See [`RuleRow`].
#[derive(Clone, Debug)]
pub struct RuleInfo<'i> {
    /// The status of the response.
    pub status: u16,
    /// Whether the rule applies even if the path exists.
    pub forced: bool,
    /// The steps that match the path.
    pub pattern: RuleSteps<'i>,
    /// The steps that match the query.
    pub parameters: RuleSteps<'i>,
    /// The steps that write the target.
    pub target: RuleSteps<'i>,
    /// The fragment, which follows the target and the query.
    pub fragment: &'i [u8],
}

#[derive(Clone, Copy, Debug)]
struct Rule<'i> {
    status: u16,
    flags: u8,
    pattern: &'i [u8],
    parameters: &'i [u8],
    target: &'i [u8],
    fragment: &'i [u8],
}

impl<'i> Rules<'i> {
    /// Creates the rules of an image with these bytes.
    pub(crate) fn new(layout: &'i RulesLayout, image: &'i [u8]) -> Rules<'i> {
        Rules { layout, bytes: &image[layout.rules.range()] }
    }

    /// Returns whether a packer could have written the rules: the fields frame the content, each status allows content, and each
    /// redirect has a URI as its target. Called once, when the image is opened.
    pub(crate) fn are_valid(&self, image: &[u8]) -> bool {
        let fields = &image[self.layout.fields.range()];
        frames_behind_location(fields, self.layout.content.len)
            && read_rules(self.bytes).all(|rule| rule.is_valid())
    }

    /// Returns the fields of a redirect after Location, including the empty line, for rules without fields of their own.
    pub fn fields(&self) -> FieldBlock {
        FieldBlock::checked(self.layout.fields)
    }

    /// Returns the content of a redirect.
    pub fn content(&self) -> Region {
        self.layout.content
    }

    /// Returns all rules, in the order in which the server tries them.
    pub fn all(&self) -> impl Iterator<Item = RuleInfo<'i>> + use<'i> {
        read_rules(self.bytes).map(|rule| RuleInfo {
            status: rule.status,
            forced: rule.flags & FORCED != 0,
            pattern: RuleSteps(rule.pattern),
            parameters: RuleSteps(rule.parameters),
            target: RuleSteps(rule.target),
            fragment: rule.fragment,
        })
    }

    /// Returns the first rule that matches.
    pub fn first_match<'r>(&self, request: RuleRequest<'r>) -> Option<RuleMatch<'i, 'r>> {
        let mut index = RequestIndex::new(request.path, request.query, &self.layout.names);
        let mut at = 0;
        for _ in 0..RULE_COUNT_MAX {
            let (rule, len) = Rule::read(self.bytes.get(at..)?)?;
            if let Some(captures) = rule.match_request(request.exists, &mut index) {
                return Some(RuleMatch { rule, captures, query: request.query, at: at as u32 });
            }
            at += len;
        }
        None
    }

    /// Matches the rule at [`RuleMatch::at`] again.
    pub fn match_at<'r>(&self, at: u32, request: RuleRequest<'r>) -> Option<RuleMatch<'i, 'r>> {
        let (rule, _) = Rule::read(self.bytes.get(at as usize..)?)?;
        let captures = rule.match_alone(&self.layout.names, request)?;
        Some(RuleMatch { rule, captures, query: request.query, at })
    }
}

/// Returns the rules of a section, in order.
fn read_rules(mut bytes: &[u8]) -> impl Iterator<Item = Rule<'_>> {
    let next = move || {
        let (rule, len) = Rule::read(bytes)?;
        bytes = bytes.get(len..)?;
        Some(rule)
    };
    std::iter::from_fn(next).take(RULE_COUNT_MAX)
}

impl<'i> Rule<'i> {
    fn read(bytes: &'i [u8]) -> Option<(Rule<'i>, usize)> {
        let head = bytes.first_chunk::<RULE_HEAD_LEN>()?;
        let number = |at: usize| usize::from(u16::from_le_bytes([head[at], head[at + 1]]));
        let len = number(0);
        let rest = bytes.get(RULE_HEAD_LEN..len)?;
        let (pattern, rest) = rest.split_at_checked(number(6))?;
        let (parameters, rest) = rest.split_at_checked(number(8))?;
        let (target, fragment) = rest.split_at_checked(number(10))?;
        Some((Rule { status: number(2) as u16, flags: head[4], pattern, parameters, target, fragment }, len))
    }

    fn is_valid(&self) -> bool {
        match self.status {
            304 => false,
            300..=399 => self.targets_uri(),
            200 | 400..=599 => true,
            _ => false,
        }
    }

    /// Returns whether the target consists of URI bytes and is a path, or a URI with a host that contains no capture.
    fn targets_uri(&self) -> bool {
        let mut steps = RuleSteps(self.target);
        let Some(RuleStep::Text(first)) = steps.next() else { return false };
        // The host must end before the first capture.
        let mut ends_host = || match steps.next() {
            None => true,
            Some(RuleStep::Text(text)) => text.starts_with(b"#"),
            Some(_) => first[b"https://".len()..].iter().any(|byte| b"/?#".contains(byte)),
        };
        let leads = first.starts_with(b"/") || authority(first).is_some() && ends_host();
        let is_uri = |text: &[u8]| text.iter().all(|&byte| is_uri_byte(byte));
        let texts_are =
            RuleSteps(self.target).all(|step| !matches!(step, RuleStep::Text(text) if !is_uri(text)));
        leads && texts_are && is_uri(self.fragment)
    }

    fn match_alone<'r>(
        &self,
        names: &ParameterNames,
        request: RuleRequest<'r>,
    ) -> Option<[&'r [u8]; CAPTURE_COUNT_MAX]> {
        self.match_request(request.exists, &mut RequestIndex::new(request.path, request.query, names))
    }

    /// Matches a request; `exists`: the site has an entry for its path.
    #[inline]
    fn match_request<'r>(
        &self,
        exists: bool,
        request: &mut RequestIndex<'_, 'r>,
    ) -> Option<[&'r [u8]; CAPTURE_COUNT_MAX]> {
        if exists && self.flags & FORCED == 0 {
            return None;
        }
        let mut captures = Captures::default();
        let matched = path_matches(self.pattern, self.flags & OPTIONAL_SLASH != 0, request, &mut captures)
            && parameters_match(self.parameters, request, &mut captures);
        matched.then_some(captures.values)
    }
}

impl RuleMatch<'_, '_> {
    /// Returns the status of the response.
    pub fn status(&self) -> u16 {
        self.rule.status
    }

    /// Writes the target of a redirect, a URI reference, to `to`. Returns its length, or `None` if `to` is too short.
    ///
    /// A target that is a path begins with a single slash, whatever the captures contain.
    pub fn location(&self, to: &mut [u8]) -> Option<usize> {
        let mut writer = SliceWriter { to, len: 0 };
        for step in RuleSteps(self.rule.target) {
            let captured = |number: u8| self.captures.get(usize::from(number)).copied().unwrap_or_default();
            match step {
                RuleStep::Text(text) => writer.put(text)?,
                RuleStep::Captured(number) => writer.put_escaped(captured(number), is_path_byte)?,
                RuleStep::CapturedInQuery(number) => writer.put_escaped(captured(number), is_unreserved)?,
                RuleStep::CapturedParameter(number) => writer.put_parameter(captured(number))?,
                RuleStep::Capture | RuleStep::CaptureRest | RuleStep::Name(_) => return None,
            }
        }
        // Browsers treat `\` as a slash: WHATWG URL, "relative slash state".
        writer.keep_one_slash(b"/\\");
        if let Some(query) = self.query
            && self.rule.flags & KEEPS_QUERY != 0
        {
            writer.put(b"?")?;
            writer.put_escaped(query, is_query_byte)?;
        }
        writer.put(self.rule.fragment)?;
        Some(writer.len)
    }

    /// Writes the target of a rewrite, a decoded path, to `to`. Returns its length, or `None` if `to` is too short.
    pub fn rewrite_path(&self, to: &mut [u8]) -> Option<usize> {
        let mut writer = SliceWriter { to, len: 0 };
        for step in RuleSteps(self.rule.target) {
            let captured = |number: u8| self.captures.get(usize::from(number)).copied().unwrap_or_default();
            match step {
                RuleStep::Text(text) => writer.put(text)?,
                RuleStep::Captured(number) => writer.put(captured(number))?,
                RuleStep::CapturedParameter(number) => writer.put_unescaped(captured(number))?,
                RuleStep::CapturedInQuery(_)
                | RuleStep::Capture
                | RuleStep::CaptureRest
                | RuleStep::Name(_) => return None,
            }
        }
        writer.keep_one_slash(b"/");
        Some(writer.len)
    }
}

/// Encodes steps, or returns `None` if they are too long.
pub fn encode_steps(steps: &[RuleStep<'_>]) -> Option<Vec<u8>> {
    let mut to = Vec::new();
    for step in steps {
        let (op, bytes): (u8, &[u8]) = match step {
            RuleStep::Text(text) => (0, text),
            RuleStep::Capture => (1, b""),
            RuleStep::CaptureRest => (2, b""),
            RuleStep::Name(name) => (3, name),
            RuleStep::Captured(number) => (4, std::slice::from_ref(number)),
            RuleStep::CapturedInQuery(number) => (5, std::slice::from_ref(number)),
            RuleStep::CapturedParameter(number) => (6, std::slice::from_ref(number)),
        };
        to.push(op);
        to.extend(u16::try_from(bytes.len()).ok()?.to_le_bytes());
        to.extend(bytes);
    }
    u16::try_from(to.len()).is_ok().then_some(to)
}

/// An iterator over encoded steps. It ends at the first malformed step.
#[derive(Clone, Debug)]
pub struct RuleSteps<'s>(&'s [u8]);

impl<'s> Iterator for RuleSteps<'s> {
    type Item = RuleStep<'s>;

    #[inline]
    fn next(&mut self) -> Option<RuleStep<'s>> {
        let [op, low, high, rest @ ..] = self.0 else { return None };
        let (bytes, behind) = rest.split_at_checked(usize::from(u16::from_le_bytes([*low, *high])))?;
        let step = match (op, bytes) {
            (0, text) => RuleStep::Text(text),
            (1, []) => RuleStep::Capture,
            (2, []) => RuleStep::CaptureRest,
            (3, name) => RuleStep::Name(name),
            (4, &[number]) => RuleStep::Captured(number),
            (5, &[number]) => RuleStep::CapturedInQuery(number),
            (6, &[number]) => RuleStep::CapturedParameter(number),
            _ => return None,
        };
        self.0 = behind;
        Some(step)
    }
}

/// A writer to a slice. Its methods return `None` if the slice is full.
struct SliceWriter<'t> {
    to: &'t mut [u8],
    len: usize,
}

impl SliceWriter<'_> {
    fn put(&mut self, bytes: &[u8]) -> Option<()> {
        self.to.get_mut(self.len..self.len + bytes.len())?.copy_from_slice(bytes);
        self.len += bytes.len();
        Some(())
    }

    /// Removes all but the first of the `slashes` at the start, because a reference that begins with two slashes names a host (RFC 3986,
    /// section 4.2).
    fn keep_one_slash(&mut self, slashes: &[u8]) {
        let written = &mut self.to[..self.len];
        if written.first() == Some(&b'/') {
            let count = written.iter().take_while(|byte| slashes.contains(byte)).count();
            written.copy_within(count.., 1);
            self.len -= count - 1;
        }
    }

    fn put_escaped(&mut self, bytes: &[u8], stays: fn(u8) -> bool) -> Option<()> {
        bytes
            .iter()
            .try_for_each(|&byte| if stays(byte) { self.put(&[byte]) } else { self.put_percent(byte) })
    }

    /// Writes a parameter value, which may contain escapes. Keeps them, and writes `+`, an escaped space, as `%20`.
    fn put_parameter(&mut self, mut value: &[u8]) -> Option<()> {
        while let [byte, behind @ ..] = value {
            match (byte, behind) {
                (b'%', [high, low, ..]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                    self.put(b"%")?;
                }
                (b'+', _) => self.put(b"%20")?,
                (&byte, _) if is_unreserved(byte) => self.put(&[byte])?,
                (&byte, _) => self.put_percent(byte)?,
            }
            value = behind;
        }
        Some(())
    }

    /// Writes a parameter value, decoded.
    fn put_unescaped(&mut self, mut value: &[u8]) -> Option<()> {
        let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
        while let [byte, behind @ ..] = value {
            value = behind;
            let byte = match (byte, behind) {
                (b'%', [high, low, behind @ ..]) => match (digit(*high), digit(*low)) {
                    (Some(high), Some(low)) => {
                        value = behind;
                        high << 4 | low
                    }
                    _ => b'%',
                },
                (b'+', _) => b' ',
                (&byte, _) => byte,
            };
            self.put(&[byte])?;
        }
        Some(())
    }

    fn put_percent(&mut self, byte: u8) -> Option<()> {
        const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
        self.put(&[b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]])
    }
}

/// Returns whether a byte is unreserved: RFC 3986, section 2.3.
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

/// Returns whether a path may contain this byte unescaped: RFC 3986, section 3.3.
fn is_path_byte(byte: u8) -> bool {
    is_unreserved(byte) || b"!$&'()*+,;=:@/".contains(&byte)
}

/// Returns whether a query may contain this byte: RFC 3986, section 3.4. `%` begins an escape.
fn is_query_byte(byte: u8) -> bool {
    is_path_byte(byte) || matches!(byte, b'?' | b'%')
}

const FORCED: u8 = 1;
const OPTIONAL_SLASH: u8 = 2;
const KEEPS_QUERY: u8 = 4;
