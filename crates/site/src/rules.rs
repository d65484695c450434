//! The rules of a site that the path alone does not settle: read from their section, tried in the order given.
//!
//! ```text
//! section:  [ head, 16 ][ fields ][ content ] [ rule ][ rule ] …
//! rule:     [ head, 12 ][ pattern ][ parameters ][ target ]          each a row of steps
//! step:     [ op, 1 ][ length, 2 ][ bytes ]
//!
//! /blog/:year/*  id=:id  →  /news/:year/:splat?id=:id
//! └── pattern ┘  └params    └── target ──────────────┘
//! ```
//!
//! What is sent by one rule alone is a record, whose name tells where the rule lies: a file that it always sends, with the
//! fields it has there; the fields of a redirect, where they are not those of all.
//!
//! A pattern is matched without going back: what a placeholder holds ends with its segment, and behind `*` there is
//! nothing but text. So a rule costs no more than the path is long. Bytes that make no sense match nothing.
//!
//! Knows nothing of the files that rules are written in, nor of what comes before a rule.

use crate::framing::{authority, frames_behind_location, is_uri_byte};
use crate::region::Region;

/// Rules that are tried for one request; a packer refuses to write more. Each costs some nanoseconds where the first
/// bytes differ: all of them, about as much as a request over loopback.
pub const RULE_COUNT_MAX: usize = 1_000;
/// Placeholders and parameters of one rule that hold something.
pub const CAPTURE_COUNT_MAX: usize = 16;
/// What goes behind the path that a rewrite leads to, until there is a file: nothing, so that it is one; a directory's
/// index; a page without its extension.
pub const FILE_SUFFIXES: [&[u8]; 3] = [b"", b"/", b".html"];
/// Bytes of the head of the section.
pub const RULES_HEAD_LEN: usize = 16;
/// Bytes of the head of a rule.
pub const RULE_HEAD_LEN: usize = 12;
/// Bytes of the longest name of a record of a rule.
pub const RULE_NAME_LEN: usize = RULE_NAME.len() + 10;

const RULE_NAME: &[u8] = b"rule ";

/// One step of a pattern, of parameters, or of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleStep<'s> {
    /// These bytes. In the target of a redirect they are part of a URI already.
    Text(&'s [u8]),
    /// Pattern: the rest of a segment up to the text behind, not empty; held. Parameters: any value; held.
    Capture,
    /// Pattern: any bytes, perhaps none; held. Behind it is one text at most.
    CaptureRest,
    /// Parameters: one of this name; its value is the next step.
    Name(&'s [u8]),
    /// Target: what was held, of a path, in a path.
    Captured(u8),
    /// Target: what was held, of a path, in a query.
    CapturedInQuery(u8),
    /// Target: what was held, of a parameter.
    CapturedParameter(u8),
}

/// A rule as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleRow<'s> {
    /// The status it answers with.
    pub status: u16,
    /// Applies where the site has something at the path as well.
    pub forced: bool,
    /// A slash at the end of the path makes no difference.
    pub optional_slash: bool,
    /// The query of the request goes behind the target.
    pub keeps_query: bool,
    /// What the path is.
    pub pattern: &'s [RuleStep<'s>],
    /// What the query has.
    pub parameters: &'s [RuleStep<'s>],
    /// Where it leads.
    pub target: &'s [RuleStep<'s>],
    /// Redirect: comes behind the target and the query, with its `#`.
    pub fragment: &'s [u8],
}

impl RuleRow<'_> {
    /// The rule as it lies in the section. None if it is too long.
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

    /// Whether an encoded rule, alone, is one that a packer writes: see [`Rules`].
    pub fn is_valid(encoded: &[u8]) -> bool {
        Rule::read(encoded).is_some_and(|(rule, _)| rule.is_valid())
    }

    /// What an encoded rule, alone, means for a request.
    pub fn match_request<'i, 'r>(encoded: &'i [u8], asked: RuleRequest<'r>) -> Option<RuleMatch<'i, 'r>> {
        let (rule, _) = Rule::read(encoded)?;
        let held = rule.match_request(asked)?;
        Some(RuleMatch { rule, captures: held, query: asked.query, at: 0 })
    }
}

/// The head of the section, and what is sent with each redirect: the fields behind Location, and the content.
pub fn encode_head(fields: &[u8], content: &[u8]) -> Vec<u8> {
    let mut to = Vec::new();
    to.extend((fields.len() as u32).to_le_bytes());
    to.extend((content.len() as u32).to_le_bytes());
    to.extend([0; 8]);
    to.extend(fields);
    to.extend(content);
    to
}

/// The name of the record of what the rule at [`Match::at`] sends: no path, as it does not begin with a slash.
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

/// Where the parts of a section lie in the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RulesLayout {
    fields: Region,
    content: Region,
    rules: Region,
}

impl RulesLayout {
    /// The parts of the section `bytes`, which lies at `at`. None if they are not within.
    pub(crate) fn new(bytes: &[u8], at: u64) -> Option<RulesLayout> {
        let head = bytes.first_chunk::<RULES_HEAD_LEN>()?;
        let number =
            |at: usize| u64::from(u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]));
        let fields = Region { at: RULES_HEAD_LEN as u64, len: number(0) };
        let content = Region { at: fields.at + fields.len, len: number(4) };
        let end = content.at + content.len;
        let rules = Region { at: end, len: (bytes.len() as u64).checked_sub(end)? };
        let within = |place: Region| Region { at: at + place.at, ..place };
        Some(RulesLayout { fields: within(fields), content: within(content), rules: within(rules) })
    }
}

/// The rules of an image.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'i> {
    layout: RulesLayout,
    bytes: &'i [u8],
}

/// What a request asks for.
#[derive(Clone, Copy, Debug)]
pub struct RuleRequest<'r> {
    /// Decoded; begins with a slash.
    pub path: &'r [u8],
    /// As received, without its `?`.
    pub query: Option<&'r [u8]>,
    /// Whether the site has something at the path.
    pub exists: bool,
}

/// A rule that applies, with what its placeholders hold.
#[derive(Clone, Copy, Debug)]
pub struct RuleMatch<'i, 'r> {
    rule: Rule<'i>,
    captures: [&'r [u8]; CAPTURE_COUNT_MAX],
    query: Option<&'r [u8]>,
    /// Where the rule lies among the rules; see [`Rules::again`].
    pub at: u32,
}

/// A rule of an image, to be shown. See [`RuleRow`].
#[derive(Clone, Debug)]
pub struct RuleInfo<'i> {
    /// The status it answers with.
    pub status: u16,
    /// Applies where the site has something at the path as well.
    pub forced: bool,
    /// What the path is.
    pub pattern: RuleSteps<'i>,
    /// What the query has.
    pub parameters: RuleSteps<'i>,
    /// Where it leads.
    pub target: RuleSteps<'i>,
    /// Comes behind the target and the query.
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
    /// The rules of an image of these bytes.
    pub(crate) fn new(parts: RulesLayout, image: &'i [u8]) -> Rules<'i> {
        Rules { layout: parts, bytes: &image[parts.rules.range()] }
    }

    /// Whether they send nothing that a packer would not: the fields frame the content, each status has one, and a redirect leads to
    /// a URI. Asked once, when the image of these bytes is opened.
    pub(crate) fn are_valid(&self, image: &[u8]) -> bool {
        let fields = &image[self.layout.fields.range()];
        let mut rest = self.bytes;
        let mut rules = std::iter::from_fn(|| {
            let (rule, len) = Rule::read(rest)?;
            rest = rest.get(len..)?;
            Some(rule)
        });
        frames_behind_location(fields, self.layout.content.len)
            && rules.by_ref().take(RULE_COUNT_MAX).all(|rule| rule.is_valid())
    }

    /// The fields of a redirect that come behind Location, with the empty line, unless its rule has its own.
    pub fn fields(&self) -> Region {
        self.layout.fields
    }

    /// The content of a redirect.
    pub fn content(&self) -> Region {
        self.layout.content
    }

    /// All rules, in the order they are tried.
    pub fn all(&self) -> impl Iterator<Item = RuleInfo<'i>> + use<'i> {
        let mut rest = self.bytes;
        std::iter::from_fn(move || {
            let (rule, len) = Rule::read(rest)?;
            rest = rest.get(len..)?;
            Some(RuleInfo {
                status: rule.status,
                forced: rule.flags & FORCED != 0,
                pattern: RuleSteps(rule.pattern),
                parameters: RuleSteps(rule.parameters),
                target: RuleSteps(rule.target),
                fragment: rule.fragment,
            })
        })
        .take(RULE_COUNT_MAX)
    }

    /// The first rule that applies.
    pub fn first_match<'r>(&self, asked: RuleRequest<'r>) -> Option<RuleMatch<'i, 'r>> {
        let mut at = 0;
        for _ in 0..RULE_COUNT_MAX {
            let (rule, len) = Rule::read(self.bytes.get(at..)?)?;
            if let Some(held) = rule.match_request(asked) {
                return Some(RuleMatch { rule, captures: held, query: asked.query, at: at as u32 });
            }
            at += len;
        }
        None
    }

    /// The rule at [`Match::at`], which applied before.
    pub fn match_at<'r>(&self, at: u32, asked: RuleRequest<'r>) -> Option<RuleMatch<'i, 'r>> {
        let (rule, _) = Rule::read(self.bytes.get(at as usize..)?)?;
        let held = rule.match_request(asked)?;
        Some(RuleMatch { rule, captures: held, query: asked.query, at })
    }
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

    /// Whether the target is a path, or names a host without what is held; and has the bytes of a URI.
    fn targets_uri(&self) -> bool {
        let mut steps = RuleSteps(self.target);
        let Some(RuleStep::Text(first)) = steps.next() else { return false };
        // The host ends before what is held begins.
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

    #[inline]
    fn match_request<'r>(&self, asked: RuleRequest<'r>) -> Option<[&'r [u8]; CAPTURE_COUNT_MAX]> {
        if asked.exists && self.flags & FORCED == 0 {
            return None;
        }
        let mut held = Captures::default();
        let matched = match_pattern(self.pattern, self.flags & OPTIONAL_SLASH != 0, asked.path, &mut held)
            && parameters_match(self.parameters, asked.query, &mut held);
        matched.then_some(held.values)
    }
}

impl RuleMatch<'_, '_> {
    /// The status to answer with.
    pub fn status(&self) -> u16 {
        self.rule.status
    }

    /// Writes the target of a redirect, a URI, to the front of `to`. None if there is too little room.
    ///
    /// A target that is a path begins with a single slash, whatever the placeholders hold.
    pub fn location(&self, to: &mut [u8]) -> Option<usize> {
        let mut pen = SliceWriter { to, len: 0 };
        for step in RuleSteps(self.rule.target) {
            let held = |number: u8| self.captures.get(usize::from(number)).copied().unwrap_or_default();
            match step {
                RuleStep::Text(text) => pen.put(text)?,
                RuleStep::Captured(number) => pen.put_escaped(held(number), is_path_byte)?,
                RuleStep::CapturedInQuery(number) => pen.put_escaped(held(number), is_unreserved)?,
                RuleStep::CapturedParameter(number) => pen.put_parameter(held(number))?,
                RuleStep::Capture | RuleStep::CaptureRest | RuleStep::Name(_) => return None,
            }
        }
        // Browsers take `\` for a slash: WHATWG URL, "relative slash state".
        pen.keep_one_slash(b"/\\");
        if let Some(query) = self.query
            && self.rule.flags & KEEPS_QUERY != 0
        {
            pen.put(b"?")?;
            pen.put_escaped(query, is_query_byte)?;
        }
        pen.put(self.rule.fragment)?;
        Some(pen.len)
    }

    /// Writes the path that a rewrite leads to, decoded, to the front of `to`. None if there is too little room.
    pub fn rewrite_path(&self, to: &mut [u8]) -> Option<usize> {
        let mut pen = SliceWriter { to, len: 0 };
        for step in RuleSteps(self.rule.target) {
            let held = |number: u8| self.captures.get(usize::from(number)).copied().unwrap_or_default();
            match step {
                RuleStep::Text(text) => pen.put(text)?,
                RuleStep::Captured(number) => pen.put(held(number))?,
                RuleStep::CapturedParameter(number) => pen.put_unescaped(held(number))?,
                RuleStep::CapturedInQuery(_)
                | RuleStep::Capture
                | RuleStep::CaptureRest
                | RuleStep::Name(_) => return None,
            }
        }
        pen.keep_one_slash(b"/");
        Some(pen.len)
    }
}

/// What is held by placeholders, in their order.
#[derive(Default)]
pub struct Captures<'r> {
    values: [&'r [u8]; CAPTURE_COUNT_MAX],
    count: usize,
}

impl<'r> Captures<'r> {
    /// The values.
    pub fn values(&self) -> &[&'r [u8]] {
        &self.values[..self.count]
    }

    fn push(&mut self, value: &'r [u8]) -> bool {
        let Some(place) = self.values.get_mut(self.count) else { return false };
        *place = value;
        self.count += 1;
        true
    }
}

/// Whether a pattern, as [`encode`] writes it, is what `path` is. `loose`: a slash at the end makes no difference.
pub fn match_pattern<'r>(pattern: &[u8], loose: bool, path: &'r [u8], held: &mut Captures<'r>) -> bool {
    let bare = if loose && path.len() > 1 { path.strip_suffix(b"/").unwrap_or(path) } else { path };
    let mut steps = RuleSteps(pattern);
    let mut rest = path;
    while let Some(step) = steps.next() {
        match step {
            RuleStep::Text(text) => match rest.strip_prefix(text) {
                Some(behind) => rest = behind,
                // `/a/*` means `/a` too.
                None if loose
                    && text.strip_suffix(b"/") == Some(rest)
                    && RuleSteps(steps.0).next() == Some(RuleStep::CaptureRest) =>
                {
                    rest = b"";
                }
                None => return loose && steps.0.is_empty() && tail(path, bare, rest) == Some(text),
            },
            RuleStep::Capture => {
                let segment = rest.iter().position(|&byte| byte == b'/').unwrap_or(rest.len());
                let suffix = match RuleSteps(steps.0).next() {
                    Some(RuleStep::Text(text)) => {
                        text.iter().position(|&byte| byte == b'/').unwrap_or(text.len())
                    }
                    _ => 0,
                };
                let Some(len @ 1..) = segment.checked_sub(suffix) else { return false };
                if !held.push(&rest[..len]) {
                    return false;
                }
                rest = &rest[len..];
            }
            RuleStep::CaptureRest => {
                let suffix = match steps.next() {
                    Some(RuleStep::Text(text)) => text,
                    None => b"",
                    Some(_) => return false,
                };
                return match rest.strip_suffix(suffix) {
                    Some(value) => steps.0.is_empty() && held.push(value),
                    None => false,
                };
            }
            _ => return false,
        }
    }
    rest.is_empty() || (loose && rest == b"/" && path.len() > 1)
}

/// What is left of the path without its last slash, where `rest` is left with it.
fn tail<'r>(path: &'r [u8], bare: &'r [u8], rest: &'r [u8]) -> Option<&'r [u8]> {
    rest.get(..rest.len().checked_sub(path.len() - bare.len())?)
}

/// Whether each parameter is in the query.
fn parameters_match<'r>(parameters: &[u8], query: Option<&'r [u8]>, held: &mut Captures<'r>) -> bool {
    let mut steps = RuleSteps(parameters);
    while let Some(step) = steps.next() {
        let RuleStep::Name(name) = step else { return false };
        let mut pairs = query.unwrap_or_default().split(|&byte| byte == b'&');
        let value = pairs.find_map(|pair| pair.strip_prefix(name)?.strip_prefix(b"="));
        let fits = match (steps.next(), value) {
            (Some(RuleStep::Text(text)), Some(value)) => value == text,
            (Some(RuleStep::Capture), Some(value)) => !value.is_empty() && held.push(value),
            _ => false,
        };
        if !fits {
            return false;
        }
    }
    true
}

/// Steps as they lie in a rule. None if one is too long.
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

/// Steps as they lie in a rule; what makes no sense ends them.
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

/// Writes into a buffer, as long as there is room.
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

    /// Removes all but the first of the `slashes` at the front: a reference that begins with two names a host (RFC 3986,
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

    /// A value as it stands in a query. Its escapes stay, and `+`, which is a space there, becomes one.
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

    /// The same, decoded.
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

/// RFC 3986, section 2.3.
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

/// What stands for itself in a path: RFC 3986, section 3.3.
fn is_path_byte(byte: u8) -> bool {
    is_unreserved(byte) || b"!$&'()*+,;=:@/".contains(&byte)
}

/// What stands for itself in a query, and what is escaped already: RFC 3986, section 3.4.
fn is_query_byte(byte: u8) -> bool {
    is_path_byte(byte) || matches!(byte, b'?' | b'%')
}

const FORCED: u8 = 1;
const OPTIONAL_SLASH: u8 = 2;
const KEEPS_QUERY: u8 = 4;
