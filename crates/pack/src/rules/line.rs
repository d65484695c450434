//! A file of rules line by line, and a line in words, each with its place.

use super::error::{RuleError, Wrong};

/// A line that says something.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'t> {
    /// From 1.
    number: u32,
    text: &'t [u8],
}

/// A stretch of a line, with its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Word<'t> {
    pub(crate) text: &'t [u8],
    line: u32,
    /// In bytes, from 1.
    column: u32,
}

/// The lines that say something: not those that are empty, or a comment.
pub(crate) fn lines(text: &[u8]) -> impl Iterator<Item = Result<Line<'_>, Wrong>> {
    let text = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text);
    let lines = text.split(|&byte| byte == b'\n').zip(1..);
    lines.map(|(text, number)| Line { number, text: text.strip_suffix(b"\r").unwrap_or(text) }).filter_map(
        |line| {
            let said = line.text.trim_ascii();
            if said.is_empty() || said.starts_with(b"#") {
                return None;
            }
            Some(line.check().map(|()| line))
        },
    )
}

impl<'t> Line<'t> {
    /// Its words; one that begins with `#` begins a comment.
    pub(crate) fn words(self) -> impl Iterator<Item = Word<'t>> {
        let is_space = |&byte: &u8| matches!(byte, b' ' | b'\t');
        let mut at = 0;
        let words = std::iter::from_fn(move || {
            at += self.text[at..].iter().take_while(|byte| is_space(byte)).count();
            let len = self.text[at..].iter().take_while(|byte| !is_space(byte)).count();
            let word = (len > 0).then(|| self.word(at, at + len));
            at += len;
            word
        });
        words.take_while(|word| !word.text.starts_with(b"#"))
    }

    /// All of it, without the space around.
    pub(crate) fn whole(self) -> Word<'t> {
        let at = self.text.len() - self.text.trim_ascii_start().len();
        self.word(at, at + self.text.trim_ascii().len())
    }

    /// Whether it begins with a space.
    pub(crate) fn is_indented(self) -> bool {
        self.text.starts_with(b" ") || self.text.starts_with(b"\t")
    }

    fn word(self, from: usize, to: usize) -> Word<'t> {
        Word { text: &self.text[from..to], line: self.number, column: from as u32 + 1 }
    }

    /// No byte that could end a line of a message, or mean what it does not say.
    fn check(self) -> Result<(), Wrong> {
        let control = self.text.iter().position(|&byte| byte < b' ' && byte != b'\t' || byte == 0x7f);
        let invalid = std::str::from_utf8(self.text).err().map(|error| error.valid_up_to());
        match control.or(invalid) {
            Some(at) => Err(self.word(at, at).wrong(RuleError::Text)),
            None => Ok(()),
        }
    }
}

impl<'t> Word<'t> {
    /// The part of it from `at` on.
    pub(crate) fn from(self, at: usize) -> Word<'t> {
        Word { text: &self.text[at..], column: self.column + at as u32, ..self }
    }

    /// The part of it before `at`.
    pub(crate) fn to(self, at: usize) -> Word<'t> {
        Word { text: &self.text[..at], ..self }
    }

    /// Without the space around.
    pub(crate) fn trim(self) -> Word<'t> {
        let start = self.text.trim_ascii_start();
        let word = self.from(self.text.len() - start.len());
        word.to(start.trim_ascii_end().len())
    }

    /// What is wrong with it.
    pub(crate) fn wrong(self, error: RuleError) -> Wrong {
        Wrong { line: self.line, column: self.column, error }
    }
}
