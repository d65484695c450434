//! Where a rule leads: a place, as a URI, or a file of the site.
//!
//! ```text
//! redirect:  /products?code=:code#top    Text /products?code=  HeldInQuery code     and the fragment
//! rewrite:   /news/:splat                Text /news/  Held splat                    decoded
//! ```

use super::error::{RuleError, Wrong};
use super::line::Word;
use super::pattern::{Pattern, name, unescape};
use crate::url_path::push_percent_encoded;
use tarpon_site::rules::{FILE_SUFFIXES, Step};

/// Where a rule leads.
#[derive(Debug)]
pub(crate) struct Target {
    steps: Vec<Owned>,
    /// Redirect: with its `#`, unless something held is in it.
    pub(crate) fragment: Vec<u8>,
    /// Redirect: has a query of its own.
    pub(crate) has_query: bool,
    /// Whether it is on this site.
    pub(crate) is_here: bool,
}

#[derive(Debug)]
enum Owned {
    Text(Vec<u8>),
    Held(u8),
    HeldInQuery(u8),
    HeldParameter(u8),
}

impl Target {
    /// The target of a redirect. `parameter_from`: from this number on, what is held is of parameters.
    pub(crate) fn place(word: Word<'_>, pattern: &Pattern, parameter_from: u8) -> Result<Target, Wrong> {
        let authority = authority_len(word)?;
        let mut target =
            Target { steps: Vec::new(), fragment: Vec::new(), has_query: false, is_here: authority == 0 };
        if target.is_here && word.text.starts_with(b"/.netlify/") {
            return Err(word.wrong(RuleError::Function));
        }
        let (mut at, mut text) = (0, Vec::new());
        let mut fragment_at = None;
        while let Some(&byte) = word.text.get(at) {
            let here = word.from(at);
            match byte {
                b':' if name(here.text).is_some() => {
                    let name = name(here.text).unwrap_or_default();
                    if at < authority {
                        return Err(here.wrong(RuleError::HeldHost));
                    }
                    let number = pattern.number(name).ok_or_else(|| here.wrong(RuleError::UnknownName))?;
                    target.steps.push(Owned::Text(std::mem::take(&mut text)));
                    target.steps.push(match number {
                        number if number >= parameter_from => Owned::HeldParameter(number),
                        number if target.has_query || fragment_at.is_some() => Owned::HeldInQuery(number),
                        number => Owned::Held(number),
                    });
                    at += name.len();
                }
                b'%' => {
                    let digits =
                        here.text.get(1..3).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
                    digits.ok_or_else(|| here.wrong(RuleError::Escape))?;
                    text.push(byte);
                }
                b'#' if fragment_at.is_none() => {
                    target.steps.push(Owned::Text(std::mem::take(&mut text)));
                    fragment_at = Some(target.steps.len());
                    text.push(byte);
                }
                b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' | b'#' => {
                    return Err(here.wrong(RuleError::TargetByte));
                }
                0x80.. => push_percent_encoded(byte, &mut text),
                _ => {
                    target.has_query |= byte == b'?' && fragment_at.is_none();
                    text.push(byte);
                }
            }
            at += 1;
        }
        match fragment_at {
            Some(from) if from == target.steps.len() => target.fragment = text,
            _ => target.steps.push(Owned::Text(text)),
        }
        target.steps.retain(|step| !matches!(step, Owned::Text(text) if text.is_empty()));
        Ok(target)
    }

    /// The target of a rewrite: the path of a file.
    pub(crate) fn file(word: Word<'_>, pattern: &Pattern, parameter_from: u8) -> Result<Target, Wrong> {
        if authority_len(word)? > 0 {
            return Err(word.wrong(RuleError::Proxy));
        }
        if word.text.starts_with(b"/.netlify/") {
            return Err(word.wrong(RuleError::Function));
        }
        let (mut steps, mut at, mut text) = (Vec::new(), 0, Vec::new());
        while let Some(&byte) = word.text.get(at) {
            let here = word.from(at);
            match byte {
                b':' if name(here.text).is_some() => {
                    let name = name(here.text).unwrap_or_default();
                    let number = pattern.number(name).ok_or_else(|| here.wrong(RuleError::UnknownName))?;
                    steps.push(Owned::Text(std::mem::take(&mut text)));
                    let is_parameter = number >= parameter_from;
                    steps.push(if is_parameter { Owned::HeldParameter(number) } else { Owned::Held(number) });
                    at += name.len();
                }
                b'?' | b'#' => return Err(here.wrong(RuleError::RewriteQuery)),
                b'%' => {
                    text.push(unescape(here)?);
                    at += 2;
                }
                _ => text.push(byte),
            }
            at += 1;
        }
        steps.push(Owned::Text(text));
        steps.retain(|step| !matches!(step, Owned::Text(text) if text.is_empty()));
        Ok(Target { steps, fragment: Vec::new(), has_query: false, is_here: true })
    }

    pub(crate) fn steps(&self) -> Vec<Step<'_>> {
        let steps = self.steps.iter().map(|step| match step {
            Owned::Text(text) => Step::Text(text),
            Owned::Held(number) => Step::Held(*number),
            Owned::HeldInQuery(number) => Step::HeldInQuery(*number),
            Owned::HeldParameter(number) => Step::HeldParameter(*number),
        });
        steps.collect()
    }

    /// All of it, but for the fragment, if nothing held is in it.
    pub(crate) fn text(&self) -> Option<&[u8]> {
        match &self.steps[..] {
            [Owned::Text(text)] => Some(text),
            _ => None,
        }
    }
}

impl Target {
    /// Whether the file at an address may be what a rewrite leads to, and others too.
    pub(crate) fn may_be(&self, address: &[u8]) -> bool {
        let text = |step: Option<&Owned>| match step {
            Some(Owned::Text(text)) => text.clone(),
            _ => Vec::new(),
        };
        let (front, back) = (text(self.steps.first()), text(self.steps.last()));
        let fits = |path: &[u8]| path.starts_with(&front) && path.ends_with(&back);
        self.text().is_none()
            && FILE_SUFFIXES.iter().filter_map(|suffix| address.strip_suffix(*suffix)).any(fits)
    }
}

/// The length of what names a host: 0 for a path.
fn authority_len(word: Word<'_>) -> Result<usize, Wrong> {
    if word.text.starts_with(b"/") && !word.text.starts_with(b"//") {
        return Ok(0);
    }
    let scheme = [&b"http://"[..], b"https://"].into_iter().find(|scheme| word.text.starts_with(scheme));
    let from = scheme.ok_or_else(|| word.wrong(RuleError::Target))?.len();
    let len = word.text[from..].iter().take_while(|byte| !matches!(byte, b'/' | b'?' | b'#')).count();
    if len == 0 {
        return Err(word.wrong(RuleError::Target));
    }
    Ok(from + len)
}
