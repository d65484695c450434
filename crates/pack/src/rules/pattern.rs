//! The paths a rule is about: text, placeholders and `*`.
//!
//! ```text
//! /blog/:year/*     Text /blog/  Hold year  Text /  HoldRest splat
//! ```

use super::Dialect;
use super::error::{LocatedRuleError, RuleError, RuleFile};
use super::line::RuleToken;
use tarpon_site::rules::{HELD_COUNT_MAX, Holds, Step, encode, matches};

/// The paths a rule is about.
#[derive(Debug)]
pub(crate) struct Pattern {
    steps: Vec<PatternStep>,
    /// Of what is held, in its order.
    pub(crate) names: Vec<Vec<u8>>,
    pub(crate) loose: bool,
    encoded: Vec<u8>,
}

/// A step with the text it has.
#[derive(Debug)]
enum PatternStep {
    Text(Vec<u8>),
    Hold,
    HoldRest,
}

/// One path, or all that are of one form.
#[derive(Clone, Debug)]
pub(crate) struct PathSet {
    example: Vec<u8>,
    are_many: bool,
    /// However long.
    are_any: bool,
}

impl PathSet {
    pub(crate) fn one(path: &[u8]) -> PathSet {
        PathSet { example: path.to_vec(), are_many: false, are_any: false }
    }

    /// All below a directory, which ends in a slash.
    pub(crate) fn below(dir: &[u8]) -> PathSet {
        PathSet { example: [dir, EXAMPLE].concat(), are_many: true, are_any: true }
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

impl Pattern {
    pub(crate) fn parse(
        token: RuleToken<'_>,
        dialect: Dialect,
        file: RuleFile,
    ) -> Result<Pattern, LocatedRuleError> {
        if !token.text.starts_with(b"/") {
            let has_host = token.text.windows(3).any(|window| window == b"://");
            return Err(token.error(if has_host { RuleError::Host } else { RuleError::NoSlash }));
        }
        let loose = dialect == Dialect::Netlify;
        let mut pattern = Pattern { steps: Vec::new(), names: Vec::new(), loose, encoded: Vec::new() };
        let (mut at, mut text) = (0, Vec::new());
        // Where the segment began that holds something.
        let mut held_segment = None;
        let mut segment = 0;
        while let Some(&byte) = token.text.get(at) {
            let here = token.from(at);
            let is_rest = pattern.has_rest();
            match byte {
                b'?' => return Err(here.error(RuleError::SourceQuery)),
                b'#' => return Err(here.error(RuleError::SourceFragment)),
                b'*' if is_rest => return Err(here.error(RuleError::SplatTwice)),
                b'*' => {
                    let ends = here.text.len() == 1 && text.ends_with(b"/");
                    if dialect == Dialect::Netlify && file == RuleFile::Redirects && !ends {
                        return Err(here.error(RuleError::SplatInside));
                    }
                    if held_segment == Some(segment) {
                        return Err(here.error(RuleError::PlaceholderTwice));
                    }
                    pattern.add_capture(&mut text, PatternStep::HoldRest, b"splat", here)?;
                    at += 1;
                }
                b':' if placeholder_name(here.text).is_some() => {
                    let name = placeholder_name(here.text).unwrap_or_default();
                    if is_rest {
                        return Err(here.error(RuleError::PlaceholderBehindSplat));
                    }
                    if held_segment.replace(segment) == Some(segment) {
                        return Err(here.error(RuleError::PlaceholderTwice));
                    }
                    pattern.add_capture(&mut text, PatternStep::Hold, name, here)?;
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
        pattern.encoded = encode(&pattern.steps()).ok_or_else(|| token.error(RuleError::RuleLength))?;
        Ok(pattern)
    }

    /// The path, if it is one and no more.
    pub(crate) fn plain(&self) -> Option<&[u8]> {
        match &self.steps[..] {
            [PatternStep::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// The directory, with the slash behind, if it is all that lies below one.
    pub(crate) fn dir(&self) -> Option<&[u8]> {
        match &self.steps[..] {
            [PatternStep::Text(text), PatternStep::HoldRest] if text.ends_with(b"/") => Some(text),
            _ => None,
        }
    }

    /// All paths it matches.
    pub(crate) fn paths(&self) -> PathSet {
        PathSet { example: self.example(), are_many: self.plain().is_none(), are_any: self.has_rest() }
    }

    /// What is held of a path, if it is one of these.
    pub(crate) fn captures<'p>(&self, path: &'p [u8]) -> Option<Vec<&'p [u8]>> {
        let mut held = Holds::default();
        matches(&self.encoded, self.loose, path, &mut held).then(|| held.values().to_vec())
    }

    /// Whether it matches all of these.
    pub(crate) fn covers(&self, paths: &PathSet) -> bool {
        self.captures(&paths.example).is_some() && (self.has_rest() || !paths.are_any)
    }

    pub(crate) fn steps(&self) -> Vec<Step<'_>> {
        let steps = self.steps.iter().map(|step| match step {
            PatternStep::Text(text) => Step::Text(text),
            PatternStep::Hold => Step::Hold,
            PatternStep::HoldRest => Step::HoldRest,
        });
        steps.collect()
    }

    /// The number of what is held under a name.
    pub(crate) fn capture_number(&self, name: &[u8]) -> Option<u8> {
        self.names.iter().position(|known| known == name).map(|number| number as u8)
    }

    /// A path it matches, as an example.
    pub(crate) fn example(&self) -> Vec<u8> {
        let mut path = Vec::new();
        for step in &self.steps {
            match step {
                PatternStep::Text(text) => path.extend(text),
                PatternStep::Hold | PatternStep::HoldRest => path.extend(EXAMPLE),
            }
        }
        path
    }

    fn add_capture(
        &mut self,
        text: &mut Vec<u8>,
        step: PatternStep,
        name: &[u8],
        at: RuleToken<'_>,
    ) -> Result<(), LocatedRuleError> {
        self.end_text(text);
        self.steps.push(step);
        self.add_name(name, at)
    }

    /// A name under which something is held.
    pub(crate) fn add_name(&mut self, name: &[u8], at: RuleToken<'_>) -> Result<(), LocatedRuleError> {
        if self.capture_number(name).is_some() {
            return Err(at.error(RuleError::NameTwice));
        }
        if self.names.len() == HELD_COUNT_MAX {
            return Err(at.error(RuleError::TooManyCaptures));
        }
        self.names.push(name.to_vec());
        Ok(())
    }

    fn end_text(&mut self, text: &mut Vec<u8>) {
        if !text.is_empty() {
            self.steps.push(PatternStep::Text(std::mem::take(text)));
        }
    }

    fn has_rest(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, PatternStep::HoldRest))
    }
}

/// The name of the placeholder that text, which begins with a colon, begins with: `:[A-Za-z]\w*`.
pub(crate) fn placeholder_name(text: &[u8]) -> Option<&[u8]> {
    let name = text.strip_prefix(b":")?;
    let len = name.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
    name.first()?.is_ascii_alphabetic().then(|| &name[..len])
}

/// The byte that an escape stands for, as in the path of a request that is looked up.
pub(crate) fn unescape(at: RuleToken<'_>) -> Result<u8, LocatedRuleError> {
    let digit = |place: usize| at.text.get(place).and_then(|&byte| (byte as char).to_digit(16));
    match (digit(1), digit(2)) {
        (Some(high), Some(low)) if !matches!(high << 4 | low, 0 | 0x2f) => Ok((high << 4 | low) as u8),
        _ => Err(at.error(RuleError::Escape)),
    }
}

/// What a placeholder holds in an example: a name no site has.
const EXAMPLE: &[u8] = b"\x01";
