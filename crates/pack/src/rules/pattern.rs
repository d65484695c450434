//! The paths that a rule matches: text, placeholders and `*` (the splat).
//!
//! ```text
//! /blog/:year/*     Text /blog/  Placeholder year  Text /  Splat
//! ```

use super::dialect::Dialect;
use super::error::{LocatedRuleError, RuleError, RuleFile};
use super::line::RuleToken;
use tarpon_site::rules::{CAPTURE_COUNT_MAX, Captures, RuleStep, encode_steps, match_pattern};

/// The paths that a rule matches.
#[derive(Debug)]
pub(crate) struct Pattern {
    steps: Vec<PatternStep>,
    /// The names of the captures: placeholders and splat, then parameters.
    pub(crate) names: Vec<Vec<u8>>,
    /// Whether paths match with and without a slash at the end.
    pub(crate) loose: bool,
    encoded: Vec<u8>,
}

/// A [`RuleStep`] that owns its text.
#[derive(Debug)]
enum PatternStep {
    Text(Vec<u8>),
    Placeholder,
    /// `*`.
    Splat,
}

/// One path, or all paths of one form.
#[derive(Clone, Debug)]
pub(crate) struct PathSet {
    example: Vec<u8>,
    is_many: bool,
    /// Whether the set has paths of any length.
    has_any_length: bool,
}

impl PathSet {
    pub(crate) fn one(path: &[u8]) -> PathSet {
        PathSet { example: path.to_vec(), is_many: false, has_any_length: false }
    }

    /// Returns all paths below a directory, which ends in a slash.
    pub(crate) fn below(dir: &[u8]) -> PathSet {
        PathSet { example: [dir, EXAMPLE].concat(), is_many: true, has_any_length: true }
    }

    /// Returns the path of a set with one path.
    pub(crate) fn single(&self) -> Option<&[u8]> {
        (!self.is_many).then_some(&self.example[..])
    }

    /// Returns a path of the set. In a set of many paths it is one that no site has.
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
        // The last path segment with a placeholder.
        let mut captured_segment = None;
        let mut segment = 0;
        while let Some(&byte) = token.text.get(at) {
            let here = token.from(at);
            let has_splat = pattern.has_splat();
            match byte {
                b'?' => return Err(here.error(RuleError::SourceQuery)),
                b'#' => return Err(here.error(RuleError::SourceFragment)),
                b'*' if has_splat => return Err(here.error(RuleError::SplatTwice)),
                b'*' => {
                    let ends = here.text.len() == 1 && text.ends_with(b"/");
                    if dialect == Dialect::Netlify && file == RuleFile::Redirects && !ends {
                        return Err(here.error(RuleError::SplatInside));
                    }
                    if captured_segment == Some(segment) {
                        return Err(here.error(RuleError::PlaceholderTwice));
                    }
                    pattern.add_capture(&mut text, PatternStep::Splat, b"splat", here)?;
                    at += 1;
                }
                b':' if placeholder_name(here.text).is_some() => {
                    let name = placeholder_name(here.text).unwrap_or_default();
                    if has_splat {
                        return Err(here.error(RuleError::PlaceholderAfterSplat));
                    }
                    if captured_segment.replace(segment) == Some(segment) {
                        return Err(here.error(RuleError::PlaceholderTwice));
                    }
                    pattern.add_capture(&mut text, PatternStep::Placeholder, name, here)?;
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
        pattern.encoded = encode_steps(&pattern.steps()).ok_or_else(|| token.error(RuleError::RuleLength))?;
        Ok(pattern)
    }

    /// Returns the path of a pattern that is text alone.
    pub(crate) fn plain(&self) -> Option<&[u8]> {
        match &self.steps[..] {
            [PatternStep::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Returns the directory, with its slash, of a pattern that matches all paths below it.
    pub(crate) fn dir(&self) -> Option<&[u8]> {
        match &self.steps[..] {
            [PatternStep::Text(text), PatternStep::Splat] if text.ends_with(b"/") => Some(text),
            _ => None,
        }
    }

    /// Returns all paths that the pattern matches.
    pub(crate) fn paths(&self) -> PathSet {
        PathSet { example: self.example(), is_many: self.plain().is_none(), has_any_length: self.has_splat() }
    }

    /// Returns the captured parts of a path, if the pattern matches it.
    pub(crate) fn captures<'p>(&self, path: &'p [u8]) -> Option<Vec<&'p [u8]>> {
        let mut captures = Captures::default();
        match_pattern(&self.encoded, self.loose, path, &mut captures).then(|| captures.values().to_vec())
    }

    /// Returns whether the pattern matches all of these paths.
    pub(crate) fn covers(&self, paths: &PathSet) -> bool {
        self.captures(&paths.example).is_some() && (self.has_splat() || !paths.has_any_length)
    }

    pub(crate) fn steps(&self) -> Vec<RuleStep<'_>> {
        let steps = self.steps.iter().map(|step| match step {
            PatternStep::Text(text) => RuleStep::Text(text),
            PatternStep::Placeholder => RuleStep::Capture,
            PatternStep::Splat => RuleStep::CaptureRest,
        });
        steps.collect()
    }

    /// Returns the number of the capture with this name.
    pub(crate) fn capture_number(&self, name: &[u8]) -> Option<u8> {
        self.names.iter().position(|known| known == name).map(|number| number as u8)
    }

    /// Returns a path that the pattern matches.
    pub(crate) fn example(&self) -> Vec<u8> {
        let mut path = Vec::new();
        for step in &self.steps {
            match step {
                PatternStep::Text(text) => path.extend(text),
                PatternStep::Placeholder | PatternStep::Splat => path.extend(EXAMPLE),
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

    /// Adds the name of a capture.
    pub(crate) fn add_name(&mut self, name: &[u8], at: RuleToken<'_>) -> Result<(), LocatedRuleError> {
        if self.capture_number(name).is_some() {
            return Err(at.error(RuleError::NameTwice));
        }
        if self.names.len() == CAPTURE_COUNT_MAX {
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

    fn has_splat(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, PatternStep::Splat))
    }
}

/// Returns the name of the placeholder at the start of a text: `:[A-Za-z]\w*`.
pub(crate) fn placeholder_name(text: &[u8]) -> Option<&[u8]> {
    let name = text.strip_prefix(b":")?;
    let len = name.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
    name.first()?.is_ascii_alphabetic().then(|| &name[..len])
}

/// Decodes the escape (as in `%41`) at the start of a token. Rejects NUL and slash.
pub(crate) fn unescape(at: RuleToken<'_>) -> Result<u8, LocatedRuleError> {
    let digit = |place: usize| at.text.get(place).and_then(|&byte| (byte as char).to_digit(16));
    match (digit(1), digit(2)) {
        (Some(high), Some(low)) if !matches!(high << 4 | low, 0 | 0x2f) => Ok((high << 4 | low) as u8),
        _ => Err(at.error(RuleError::Escape)),
    }
}

/// The captured text in an example: a name that no site has.
const EXAMPLE: &[u8] = b"\x01";
