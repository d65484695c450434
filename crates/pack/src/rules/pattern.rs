//! The paths a rule is about: text, placeholders and `*`.
//!
//! ```text
//! /blog/:year/*     Text /blog/  Hold year  Text /  HoldRest splat
//! ```

use super::Dialect;
use super::error::{RuleError, Wrong};
use super::line::Word;
use tarpon_site::rules::{CAPTURE_COUNT_MAX, Captures, RuleStep, encode_steps, match_pattern};

/// The paths a rule is about.
#[derive(Debug)]
pub(crate) struct Pattern {
    steps: Vec<Owned>,
    /// Of what is held, in its order.
    pub(crate) names: Vec<Vec<u8>>,
    pub(crate) loose: bool,
    encoded: Vec<u8>,
}

/// A step with the text it has.
#[derive(Debug)]
enum Owned {
    Text(Vec<u8>),
    Hold,
    HoldRest,
}

/// One path, or all that are of one form.
#[derive(Clone, Debug)]
pub(crate) struct Paths {
    example: Vec<u8>,
    are_many: bool,
    /// However long.
    are_any: bool,
}

impl Paths {
    pub(crate) fn one(path: &[u8]) -> Paths {
        Paths { example: path.to_vec(), are_many: false, are_any: false }
    }

    /// All below a directory, which ends in a slash.
    pub(crate) fn below(dir: &[u8]) -> Paths {
        Paths { example: [dir, EXAMPLE].concat(), are_many: true, are_any: true }
    }

    /// The path, if there is one alone.
    pub(crate) fn single(&self) -> Option<&[u8]> {
        (!self.are_many).then_some(&self.example[..])
    }

    /// One of them; if there are several, one that no site has.
    pub(crate) fn example(&self) -> &[u8] {
        &self.example
    }
}

/// Where a pattern stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    Headers,
    Redirects,
}

impl Pattern {
    pub(crate) fn parse(word: Word<'_>, dialect: Dialect, of: Of) -> Result<Pattern, Wrong> {
        if !word.text.starts_with(b"/") {
            let has_host = word.text.windows(3).any(|window| window == b"://");
            return Err(word.wrong(if has_host { RuleError::Host } else { RuleError::NoSlash }));
        }
        let loose = dialect == Dialect::Netlify;
        let mut pattern = Pattern { steps: Vec::new(), names: Vec::new(), loose, encoded: Vec::new() };
        let (mut at, mut text) = (0, Vec::new());
        // Where the segment began that holds something.
        let mut held_segment = None;
        let mut segment = 0;
        while let Some(&byte) = word.text.get(at) {
            let here = word.from(at);
            let is_rest = pattern.has_rest();
            match byte {
                b'?' => return Err(here.wrong(RuleError::SourceQuery)),
                b'#' => return Err(here.wrong(RuleError::SourceFragment)),
                b'*' if is_rest => return Err(here.wrong(RuleError::SplatTwice)),
                b'*' => {
                    let ends = here.text.len() == 1 && text.ends_with(b"/");
                    if dialect == Dialect::Netlify && of == Of::Redirects && !ends {
                        return Err(here.wrong(RuleError::SplatInside));
                    }
                    if held_segment == Some(segment) {
                        return Err(here.wrong(RuleError::HoldTwice));
                    }
                    pattern.hold(&mut text, Owned::HoldRest, b"splat", here)?;
                    at += 1;
                }
                b':' if name(here.text).is_some() => {
                    let name = name(here.text).unwrap_or_default();
                    if is_rest {
                        return Err(here.wrong(RuleError::HoldBehindSplat));
                    }
                    if held_segment.replace(segment) == Some(segment) {
                        return Err(here.wrong(RuleError::HoldTwice));
                    }
                    pattern.hold(&mut text, Owned::Hold, name, here)?;
                    at += 1 + name.len();
                }
                b'%' => {
                    text.push(unescape(here)?);
                    at += 3;
                }
                _ => {
                    segment += usize::from(byte == b'/');
                    text.push(byte);
                    at += 1;
                }
            }
        }
        if loose && text.len() + pattern.steps.len() > 1 && text.ends_with(b"/") {
            text.pop();
        }
        pattern.end_text(&mut text);
        pattern.encoded = encode_steps(&pattern.steps()).ok_or_else(|| word.wrong(RuleError::RuleLength))?;
        Ok(pattern)
    }

    /// The path, if it is one and no more.
    pub(crate) fn plain(&self) -> Option<&[u8]> {
        match &self.steps[..] {
            [Owned::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// The directory, with the slash behind, if it is all that lies below one.
    pub(crate) fn dir(&self) -> Option<&[u8]> {
        match &self.steps[..] {
            [Owned::Text(text), Owned::HoldRest] if text.ends_with(b"/") => Some(text),
            _ => None,
        }
    }

    /// All paths it matches.
    pub(crate) fn paths(&self) -> Paths {
        Paths { example: self.example(), are_many: self.plain().is_none(), are_any: self.has_rest() }
    }

    /// What is held of a path, if it is one of these.
    pub(crate) fn held<'p>(&self, path: &'p [u8]) -> Option<Vec<&'p [u8]>> {
        let mut held = Captures::default();
        match_pattern(&self.encoded, self.loose, path, &mut held).then(|| held.values().to_vec())
    }

    /// Whether it matches all of these.
    pub(crate) fn is_about(&self, paths: &Paths) -> bool {
        self.held(&paths.example).is_some() && (self.has_rest() || !paths.are_any)
    }

    pub(crate) fn steps(&self) -> Vec<RuleStep<'_>> {
        let steps = self.steps.iter().map(|step| match step {
            Owned::Text(text) => RuleStep::Text(text),
            Owned::Hold => RuleStep::Capture,
            Owned::HoldRest => RuleStep::CaptureRest,
        });
        steps.collect()
    }

    /// The number of what is held under a name.
    pub(crate) fn number(&self, name: &[u8]) -> Option<u8> {
        self.names.iter().position(|known| known == name).map(|number| number as u8)
    }

    /// A path it matches, as an example.
    pub(crate) fn example(&self) -> Vec<u8> {
        let mut path = Vec::new();
        for step in &self.steps {
            match step {
                Owned::Text(text) => path.extend(text),
                Owned::Hold | Owned::HoldRest => path.extend(EXAMPLE),
            }
        }
        path
    }

    fn hold(&mut self, text: &mut Vec<u8>, step: Owned, name: &[u8], at: Word<'_>) -> Result<(), Wrong> {
        self.end_text(text);
        self.steps.push(step);
        self.add_name(name, at)
    }

    /// A name under which something is held.
    pub(crate) fn add_name(&mut self, name: &[u8], at: Word<'_>) -> Result<(), Wrong> {
        if self.number(name).is_some() {
            return Err(at.wrong(RuleError::NameTwice));
        }
        if self.names.len() == CAPTURE_COUNT_MAX {
            return Err(at.wrong(RuleError::TooManyHeld));
        }
        self.names.push(name.to_vec());
        Ok(())
    }

    fn end_text(&mut self, text: &mut Vec<u8>) {
        if !text.is_empty() {
            self.steps.push(Owned::Text(std::mem::take(text)));
        }
    }

    fn has_rest(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Owned::HoldRest))
    }
}

/// The name of the placeholder that text, which begins with a colon, begins with: `:[A-Za-z]\w*`.
pub(crate) fn name(text: &[u8]) -> Option<&[u8]> {
    let name = text.strip_prefix(b":")?;
    let len = name.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
    name.first()?.is_ascii_alphabetic().then(|| &name[..len])
}

/// The byte that an escape stands for, as in the path of a request that is looked up.
pub(crate) fn unescape(at: Word<'_>) -> Result<u8, Wrong> {
    let digit = |place: usize| at.text.get(place).and_then(|&byte| (byte as char).to_digit(16));
    match (digit(1), digit(2)) {
        (Some(high), Some(low)) if !matches!(high << 4 | low, 0 | 0x2f) => Ok((high << 4 | low) as u8),
        _ => Err(at.wrong(RuleError::Escape)),
    }
}

/// What a placeholder holds in an example: a name no site has.
const EXAMPLE: &[u8] = b"\x01";
