//! The target of a rule: a URI to redirect to, or a file of the site to send.
//!
//! ```text
//! redirect:  /products?code=:code#top    Text /products?code=  CapturedInQuery code     and the fragment
//! rewrite:   /news/:splat                Text /news/  Captured splat                    decoded
//! ```

use super::error::{LocatedRuleError, RuleError};
use super::line::RuleToken;
use super::pattern::{Pattern, placeholder_name, unescape};
use crate::url_path::push_percent_encoded;
use tarpon_site::rules::{FILE_SUFFIXES, RuleStep};

/// The target of a rule.
#[derive(Debug)]
pub(crate) struct RuleTarget {
    steps: Vec<TargetStep>,
    /// Redirect: the fragment with its `#`, if it has no placeholder.
    pub(crate) fragment: Vec<u8>,
    /// Redirect: whether the target has a query of its own.
    pub(crate) has_query: bool,
    /// Whether the target is a path of this site.
    pub(crate) is_local: bool,
}

/// A [`RuleStep`] that owns its text. A number is that of a capture.
#[derive(Debug)]
enum TargetStep {
    Text(Vec<u8>),
    Captured(u8),
    CapturedInQuery(u8),
    Parameter(u8),
}

impl RuleTarget {
    /// Parses the target of a redirect. Captures from the number `parameter_from` on are parameters.
    pub(crate) fn redirect(
        token: RuleToken<'_>,
        pattern: &Pattern,
        parameter_from: u8,
    ) -> Result<RuleTarget, LocatedRuleError> {
        let authority = authority_len(token)?;
        let mut target = RuleTarget {
            steps: Vec::new(),
            fragment: Vec::new(),
            has_query: false,
            is_local: authority == 0,
        };
        if target.is_local && token.text.starts_with(b"/.netlify/") {
            return Err(token.error(RuleError::Function));
        }
        let (mut at, mut text) = (0, Vec::new());
        let mut fragment_at = None;
        while let Some(&byte) = token.text.get(at) {
            let here = token.from(at);
            match byte {
                b':' if placeholder_name(here.text).is_some() => {
                    let name = placeholder_name(here.text).unwrap_or_default();
                    if at < authority {
                        return Err(here.error(RuleError::PlaceholderInHost));
                    }
                    let number =
                        pattern.capture_number(name).ok_or_else(|| here.error(RuleError::UnknownName))?;
                    target.steps.push(TargetStep::Text(std::mem::take(&mut text)));
                    target.steps.push(match number {
                        number if number >= parameter_from => TargetStep::Parameter(number),
                        number if target.has_query || fragment_at.is_some() => {
                            TargetStep::CapturedInQuery(number)
                        }
                        number => TargetStep::Captured(number),
                    });
                    at += name.len();
                }
                b'%' => {
                    let digits =
                        here.text.get(1..3).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
                    digits.ok_or_else(|| here.error(RuleError::Escape))?;
                    text.push(byte);
                }
                b'#' if fragment_at.is_none() => {
                    target.steps.push(TargetStep::Text(std::mem::take(&mut text)));
                    fragment_at = Some(target.steps.len());
                    text.push(byte);
                }
                b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' | b'#' => {
                    return Err(here.error(RuleError::TargetByte));
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
            _ => target.steps.push(TargetStep::Text(text)),
        }
        target.steps.retain(|step| !matches!(step, TargetStep::Text(text) if text.is_empty()));
        Ok(target)
    }

    /// Parses the target of a rewrite: the path of a file.
    pub(crate) fn rewrite(
        token: RuleToken<'_>,
        pattern: &Pattern,
        parameter_from: u8,
    ) -> Result<RuleTarget, LocatedRuleError> {
        if authority_len(token)? > 0 {
            return Err(token.error(RuleError::Proxy));
        }
        if token.text.starts_with(b"/.netlify/") {
            return Err(token.error(RuleError::Function));
        }
        let (mut steps, mut at, mut text) = (Vec::new(), 0, Vec::new());
        while let Some(&byte) = token.text.get(at) {
            let here = token.from(at);
            match byte {
                b':' if placeholder_name(here.text).is_some() => {
                    let name = placeholder_name(here.text).unwrap_or_default();
                    let number =
                        pattern.capture_number(name).ok_or_else(|| here.error(RuleError::UnknownName))?;
                    steps.push(TargetStep::Text(std::mem::take(&mut text)));
                    let is_parameter = number >= parameter_from;
                    steps.push(if is_parameter {
                        TargetStep::Parameter(number)
                    } else {
                        TargetStep::Captured(number)
                    });
                    at += name.len();
                }
                b'?' | b'#' => return Err(here.error(RuleError::RewriteQuery)),
                b'%' => {
                    text.push(unescape(here)?);
                    at += 2;
                }
                _ => text.push(byte),
            }
            at += 1;
        }
        steps.push(TargetStep::Text(text));
        steps.retain(|step| !matches!(step, TargetStep::Text(text) if text.is_empty()));
        Ok(RuleTarget { steps, fragment: Vec::new(), has_query: false, is_local: true })
    }

    pub(crate) fn steps(&self) -> Vec<RuleStep<'_>> {
        let steps = self.steps.iter().map(|step| match step {
            TargetStep::Text(text) => RuleStep::Text(text),
            TargetStep::Captured(number) => RuleStep::Captured(*number),
            TargetStep::CapturedInQuery(number) => RuleStep::CapturedInQuery(*number),
            TargetStep::Parameter(number) => RuleStep::CapturedParameter(*number),
        });
        steps.collect()
    }

    /// Returns a target without placeholders, without its fragment.
    pub(crate) fn text(&self) -> Option<&[u8]> {
        match &self.steps[..] {
            [TargetStep::Text(text)] => Some(text),
            _ => None,
        }
    }
}

impl RuleTarget {
    /// Returns whether a rewrite with placeholders may send the file at an address.
    pub(crate) fn may_be(&self, address: &[u8]) -> bool {
        let text = |step: Option<&TargetStep>| match step {
            Some(TargetStep::Text(text)) => text.clone(),
            _ => Vec::new(),
        };
        let (front, back) = (text(self.steps.first()), text(self.steps.last()));
        let fits = |path: &[u8]| path.starts_with(&front) && path.ends_with(&back);
        self.text().is_none()
            && FILE_SUFFIXES.iter().filter_map(|suffix| address.strip_suffix(*suffix)).any(fits)
    }
}

/// Returns the length of scheme and host. It is 0 for a path.
fn authority_len(token: RuleToken<'_>) -> Result<usize, LocatedRuleError> {
    if token.text.starts_with(b"/") && !token.text.starts_with(b"//") {
        return Ok(0);
    }
    let scheme = [&b"http://"[..], b"https://"].into_iter().find(|scheme| token.text.starts_with(scheme));
    let from = scheme.ok_or_else(|| token.error(RuleError::Target))?.len();
    let len = token.text[from..].iter().take_while(|byte| !matches!(byte, b'/' | b'?' | b'#')).count();
    if len == 0 {
        return Err(token.error(RuleError::Target));
    }
    Ok(from + len)
}
