//! Splits a rule file into lines and tokens with positions.

use super::error::{LocatedRuleError, RuleError};

/// A line of a rule file that is neither empty nor a comment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RuleLine<'t> {
    /// From 1.
    number: u32,
    text: &'t [u8],
}

/// A part of a line, with its position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RuleToken<'t> {
    pub(crate) text: &'t [u8],
    pub(crate) line: u32,
    /// In bytes, from 1.
    pub(crate) column: u32,
    /// The number of the file of the configuration. `None`: a file of the site.
    pub(crate) config_file: Option<u32>,
}

/// Returns the lines of a file, without empty lines and comments.
pub(crate) fn lines(text: &[u8]) -> impl Iterator<Item = Result<RuleLine<'_>, LocatedRuleError>> {
    let text = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text);
    let lines = text.split(|&byte| byte == b'\n').zip(1..);
    lines
        .map(|(text, number)| RuleLine { number, text: text.strip_suffix(b"\r").unwrap_or(text) })
        .filter_map(|line| {
            let trimmed = line.text.trim_ascii();
            if trimmed.is_empty() || trimmed.starts_with(b"#") {
                return None;
            }
            Some(line.check().map(|()| line))
        })
}

impl<'t> RuleLine<'t> {
    /// Returns its tokens, up to a comment: a token that begins with `#`.
    pub(crate) fn tokens(self) -> impl Iterator<Item = RuleToken<'t>> {
        let is_space = |&byte: &u8| matches!(byte, b' ' | b'\t');
        let mut at = 0;
        let tokens = std::iter::from_fn(move || {
            at += self.text[at..].iter().take_while(|byte| is_space(byte)).count();
            let len = self.text[at..].iter().take_while(|byte| !is_space(byte)).count();
            let token = (len > 0).then(|| self.token(at, at + len));
            at += len;
            token
        });
        tokens.take_while(|token| !token.text.starts_with(b"#"))
    }

    /// Returns the line without white space around it.
    pub(crate) fn trimmed(self) -> RuleToken<'t> {
        let at = self.text.len() - self.text.trim_ascii_start().len();
        self.token(at, at + self.text.trim_ascii().len())
    }

    /// Returns whether the line begins with white space.
    pub(crate) fn is_indented(self) -> bool {
        self.text.starts_with(b" ") || self.text.starts_with(b"\t")
    }

    fn token(self, from: usize, to: usize) -> RuleToken<'t> {
        RuleToken {
            text: &self.text[from..to],
            line: self.number,
            column: from as u32 + 1,
            config_file: None,
        }
    }

    /// Rejects control characters, which could end a line of a message, and bytes that are not UTF-8.
    fn check(self) -> Result<(), LocatedRuleError> {
        let control = self.text.iter().position(|&byte| byte < b' ' && byte != b'\t' || byte == 0x7f);
        let invalid = std::str::from_utf8(self.text).err().map(|error| error.valid_up_to());
        match control.or(invalid) {
            Some(at) => Err(self.token(at, at).error(RuleError::Text)),
            None => Ok(()),
        }
    }
}

impl<'t> RuleToken<'t> {
    /// Returns the part from `at` on. In a configuration it keeps the position of the whole value: escapes before it may be longer than
    /// the characters that they stand for.
    pub(crate) fn from(self, at: usize) -> RuleToken<'t> {
        let passed = if self.config_file.is_some() { 0 } else { at as u32 };
        RuleToken { text: &self.text[at..], column: self.column + passed, ..self }
    }

    /// Returns the part before `at`.
    pub(crate) fn to(self, at: usize) -> RuleToken<'t> {
        RuleToken { text: &self.text[..at], ..self }
    }

    /// Returns the token without white space around it.
    pub(crate) fn trim(self) -> RuleToken<'t> {
        let start = self.text.trim_ascii_start();
        let token = self.from(self.text.len() - start.len());
        token.to(start.trim_ascii_end().len())
    }

    /// Returns an error at this position.
    pub(crate) fn error(self, error: RuleError) -> LocatedRuleError {
        let RuleToken { line, column, config_file, .. } = self;
        LocatedRuleError { config_file, line, column, error }
    }
}
