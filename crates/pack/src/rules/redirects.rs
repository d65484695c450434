//! `_redirects`: a rule in each line.
//!
//! ```text
//! source    [name=value …]  target          [status[!]]    # comment
//! /store    id=:id          /blog/:id       301
//! ```

use super::Dialect;
use super::error::{RuleError, Wrong};
use super::line::{Word, lines};
use super::pattern::{Of, Pattern, name};
use super::target::Target;
use tarpon_site::rules::{RuleRow, RuleStep};

/// A rule.
#[derive(Debug)]
pub(crate) struct Redirect {
    pub(crate) pattern: Pattern,
    /// Name, and value if not any will do.
    parameters: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    pub(crate) target: Target,
    pub(crate) status: u16,
    /// Comes before a file.
    pub(crate) forced: bool,
    /// Where to look for what is wrong with its target.
    target_at: Wrong,
}

/// All rules, in the order given.
pub(crate) fn parse(text: &[u8], dialect: Dialect) -> Result<Vec<Redirect>, Wrong> {
    lines(text).map(|line| rule(line?.words(), dialect)).collect()
}

fn rule<'t>(mut words: impl Iterator<Item = Word<'t>>, dialect: Dialect) -> Result<Redirect, Wrong> {
    let source = words.next().expect("a line that says something");
    let mut pattern = Pattern::parse(source, dialect, Of::Redirects)?;
    let parameter_from = pattern.names.len() as u8;
    let mut parameters = Vec::new();
    let target = loop {
        let word = words.next().ok_or_else(|| source.wrong(RuleError::NoTarget))?;
        let has_scheme = word.text.starts_with(b"http://") || word.text.starts_with(b"https://");
        if word.text.starts_with(b"/") || has_scheme || !word.text.contains(&b'=') {
            break word;
        }
        if dialect == Dialect::Cloudflare {
            return Err(word.wrong(RuleError::Parameters));
        }
        parameters.push(parameter(word, &mut pattern)?);
    };
    let mut behind: Vec<_> = words.collect();
    for word in &behind {
        refuse_condition(*word)?;
    }
    let (status, forced) = match behind.is_empty() {
        true => (if dialect == Dialect::Cloudflare { 302 } else { 301 }, false),
        false => status(behind.remove(0), dialect)?,
    };
    if let Some(word) = behind.first() {
        return Err(word.wrong(RuleError::Behind));
    }
    let place = if is_redirect(status) { Target::place } else { Target::file };
    let rule = Redirect {
        target: place(target, &pattern, parameter_from)?,
        pattern,
        parameters,
        status,
        forced: forced || dialect == Dialect::Cloudflare,
        target_at: target.wrong(RuleError::NoFile),
    };
    if dialect == Dialect::Cloudflare
        && !rule.is_redirect()
        && rule.pattern.dir() == Some(b"/")
        && rule.target.text().is_some()
    {
        return Err(source.wrong(RuleError::Everything));
    }
    Ok(rule)
}

impl Redirect {
    /// Whether it leads elsewhere, and does not send a file.
    pub(crate) fn is_redirect(&self) -> bool {
        is_redirect(self.status)
    }

    /// Whether the path alone tells that it applies.
    pub(crate) fn is_settled_by_path(&self) -> bool {
        self.parameters.is_empty()
    }

    /// Whether the query of the request goes along: not where the rule says what is in it.
    pub(crate) fn keeps_query(&self) -> bool {
        self.is_redirect() && self.parameters.is_empty() && !self.target.has_query
    }

    /// What is wrong with its target.
    pub(crate) fn wrong(&self, error: RuleError) -> Wrong {
        Wrong { error, ..self.target_at }
    }

    /// The rule as it lies in an image.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, Wrong> {
        let parameters = self.parameters.iter().flat_map(|(name, value)| {
            let value = value.as_deref().map_or(RuleStep::Capture, RuleStep::Text);
            [RuleStep::Name(name), value]
        });
        let row = RuleRow {
            status: self.status,
            forced: self.forced,
            optional_slash: self.pattern.loose,
            keeps_query: self.keeps_query(),
            pattern: &self.pattern.steps(),
            parameters: &parameters.collect::<Vec<_>>(),
            target: &self.target.steps(),
            fragment: &self.target.fragment,
        };
        row.encode().ok_or_else(|| self.wrong(RuleError::RuleLength))
    }
}

fn is_redirect(status: u16) -> bool {
    (300..400).contains(&status)
}

/// `id=:id`, or `id=7`.
fn parameter(word: Word<'_>, pattern: &mut Pattern) -> Result<(Vec<u8>, Option<Vec<u8>>), Wrong> {
    let at = word.text.iter().position(|&byte| byte == b'=').unwrap_or(0);
    let (key, value) = (word.to(at), word.from(at + 1));
    if key.text.is_empty() || value.text.is_empty() {
        return Err(word.wrong(RuleError::Parameter));
    }
    match name(value.text) {
        Some(name) if name.len() + 1 == value.text.len() => {
            pattern.add_name(name, value)?;
            Ok((key.text.to_vec(), None))
        }
        _ => Ok((key.text.to_vec(), Some(value.text.to_vec()))),
    }
}

/// What Netlify's edge knows of a client, and this server does not.
fn refuse_condition(word: Word<'_>) -> Result<(), Wrong> {
    let Some(at) = word.text.iter().position(|&byte| byte == b'=') else { return Ok(()) };
    let key = word.text[..at].to_ascii_lowercase();
    Err(word.wrong(match &key[..] {
        b"country" => RuleError::Country,
        b"language" => RuleError::Language,
        b"role" => RuleError::Role,
        b"cookie" => RuleError::Cookie,
        b"sign" | b"signed" => RuleError::Sign,
        _ => RuleError::Behind,
    }))
}

/// Status, and whether a file makes no difference.
fn status(word: Word<'_>, dialect: Dialect) -> Result<(u16, bool), Wrong> {
    let (digits, forced) = match word.text.strip_suffix(b"!") {
        Some(digits) => (digits, true),
        None => (word.text, false),
    };
    let text = std::str::from_utf8(digits).unwrap_or_default();
    let status = text.parse().ok().filter(|_| digits.len() == 3 && digits.iter().all(u8::is_ascii_digit));
    let status: u16 = status.ok_or_else(|| word.wrong(RuleError::Status))?;
    let known = match dialect {
        Dialect::Cloudflare => matches!(status, 200 | 301 | 302 | 303 | 307 | 308),
        _ => matches!(status, 200 | 301 | 302 | 303 | 307 | 308 | 403 | 404 | 410 | 451 | 500 | 503),
    };
    match (known, dialect) {
        (false, Dialect::Cloudflare) => Err(word.wrong(RuleError::StatusCloudflare)),
        (false, _) => Err(word.wrong(RuleError::StatusUnknown)),
        (true, Dialect::Cloudflare) if forced => Err(word.from(digits.len()).wrong(RuleError::Force)),
        (true, _) => Ok((status, forced)),
    }
}
