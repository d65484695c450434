//! `_redirects`: one rule per line.
//!
//! ```text
//! source    [name=value …]  target          [status[!]]    # comment
//! /store    id=:id          /blog/:id       301
//! ```

use super::dialect::Dialect;
use super::error::{LocatedRuleError, RuleError, RuleFile};
use super::line::{RuleToken, lines};
use super::pattern::{Pattern, placeholder_name};
use super::target::RuleTarget;
use crate::url_path::percent_encode;
use tarpon_site::rules::{RuleRow, RuleStep};

/// A redirect or rewrite.
#[derive(Debug)]
pub(crate) struct RedirectRule {
    pub(crate) pattern: Pattern,
    /// Names, and the values that match. `None`: any value matches.
    parameters: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    pub(crate) target: RuleTarget,
    pub(crate) status: u16,
    /// Whether the rule applies even if the site has the path.
    pub(crate) forced: bool,
    /// The position of the target, for errors.
    target_position: LocatedRuleError,
}

/// Parses all rules, in the order of the file. Adds the error of each line that has one, and leaves that line out.
pub(crate) fn parse(text: &[u8], dialect: Dialect, errors: &mut Vec<LocatedRuleError>) -> Vec<RedirectRule> {
    let mut rules = Vec::new();
    for line in lines(text) {
        match line.and_then(|line| parse_rule(line.tokens(), dialect)) {
            Ok(rule) => rules.push(rule),
            Err(error) => errors.push(error),
        }
    }
    rules
}

/// Parses the source with its parameters, the target, and the status if there is one.
pub(super) fn parse_rule<'t>(
    mut tokens: impl Iterator<Item = RuleToken<'t>>,
    dialect: Dialect,
) -> Result<RedirectRule, LocatedRuleError> {
    let source = tokens.next().expect("the line is not empty");
    let mut pattern = Pattern::parse(source, dialect, RuleFile::Redirects)?;
    let parameter_from = pattern.names.len() as u8;
    let mut parameters = Vec::new();
    let target = loop {
        let token = tokens.next().ok_or_else(|| source.error(RuleError::NoTarget))?;
        let has_scheme = token.text.starts_with(b"http://") || token.text.starts_with(b"https://");
        if token.text.starts_with(b"/") || has_scheme || !token.text.contains(&b'=') {
            break token;
        }
        if dialect == Dialect::Cloudflare {
            return Err(token.error(RuleError::Parameters));
        }
        parameters.push(parameter(token, &mut pattern)?);
    };
    let mut rest: Vec<_> = tokens.collect();
    for token in &rest {
        reject_condition(*token)?;
    }
    let (status, forced) = match rest.is_empty() {
        true => (default_status(dialect), false),
        false => status(rest.remove(0), dialect)?,
    };
    if let Some(token) = rest.first() {
        return Err(token.error(RuleError::TrailingWord));
    }
    let place = if is_redirect(status) { RuleTarget::redirect } else { RuleTarget::rewrite };
    let rule = RedirectRule {
        target: place(target, &pattern, parameter_from)?,
        pattern,
        parameters,
        status,
        forced: forced || dialect == Dialect::Cloudflare,
        target_position: target.error(RuleError::NoFile),
    };
    if dialect == Dialect::Cloudflare
        && !rule.is_redirect()
        && rule.pattern.dir() == Some(b"/")
        && rule.target.text().is_some()
    {
        return Err(source.error(RuleError::CatchAll));
    }
    Ok(rule)
}

impl RedirectRule {
    /// Returns whether the rule is a redirect. Otherwise it is a rewrite, which sends a file.
    pub(crate) fn is_redirect(&self) -> bool {
        is_redirect(self.status)
    }

    /// Returns whether the path alone decides that the rule applies.
    pub(crate) fn needs_path_only(&self) -> bool {
        self.parameters.is_empty()
    }

    /// Returns the names of the parameters that the rule matches.
    pub(crate) fn parameter_names(&self) -> impl Iterator<Item = &[u8]> {
        self.parameters.iter().map(|(name, _)| &name[..])
    }

    /// Returns whether the redirect keeps the query of the request. It does not if the rule matches parameters, or if the target
    /// has a query.
    pub(crate) fn keeps_query(&self) -> bool {
        self.is_redirect() && self.parameters.is_empty() && !self.target.has_query
    }

    /// Returns an error at the position of the target.
    pub(crate) fn target_error(&self, error: RuleError) -> LocatedRuleError {
        LocatedRuleError { error, ..self.target_position }
    }

    /// Encodes the rule for an image. A redirect within the site leads below `base`.
    pub(crate) fn encode(&self, base: &str) -> Result<Vec<u8>, LocatedRuleError> {
        let base = percent_encode(base.as_bytes());
        let is_below_base = self.is_redirect() && self.target.is_local && !base.is_empty();
        let base = is_below_base.then_some(RuleStep::Text(base.as_bytes()));

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
            target: &base.into_iter().chain(self.target.steps()).collect::<Vec<_>>(),
            fragment: &self.target.fragment,
        };
        row.encode().ok_or_else(|| self.target_error(RuleError::RuleLength))
    }
}

/// Returns the status of a rule that names none.
pub(super) fn default_status(dialect: Dialect) -> u16 {
    if dialect == Dialect::Cloudflare { 302 } else { 301 }
}

fn is_redirect(status: u16) -> bool {
    (300..400).contains(&status)
}

/// Parses a parameter: `id=:id` or `id=7`.
fn parameter(
    token: RuleToken<'_>,
    pattern: &mut Pattern,
) -> Result<(Vec<u8>, Option<Vec<u8>>), LocatedRuleError> {
    let at = token.text.iter().position(|&byte| byte == b'=').unwrap_or(0);
    let (key, value) = (token.to(at), token.from(at + 1));
    if key.text.is_empty() || value.text.is_empty() {
        return Err(token.error(RuleError::Parameter));
    }
    match placeholder_name(value.text) {
        Some(name) if name.len() + 1 == value.text.len() => {
            pattern.add_name(name, value)?;
            Ok((key.text.to_vec(), None))
        }
        _ => Ok((key.text.to_vec(), Some(value.text.to_vec()))),
    }
}

/// Returns the error for a token after the target that is a condition, which only Netlify's own servers evaluate.
fn reject_condition(token: RuleToken<'_>) -> Result<(), LocatedRuleError> {
    let Some(at) = token.text.iter().position(|&byte| byte == b'=') else { return Ok(()) };
    let key = token.text[..at].to_ascii_lowercase();
    Err(token.error(match &key[..] {
        b"country" => RuleError::Country,
        b"language" => RuleError::Language,
        b"role" => RuleError::Role,
        b"cookie" => RuleError::Cookie,
        b"sign" | b"signed" => RuleError::Sign,
        _ => RuleError::TrailingWord,
    }))
}

/// Parses a status and its optional `!`, which forces the rule.
fn status(token: RuleToken<'_>, dialect: Dialect) -> Result<(u16, bool), LocatedRuleError> {
    let (digits, forced) = match token.text.strip_suffix(b"!") {
        Some(digits) => (digits, true),
        None => (token.text, false),
    };
    let text = std::str::from_utf8(digits).unwrap_or_default();
    let status = text.parse().ok().filter(|_| digits.len() == 3 && digits.iter().all(u8::is_ascii_digit));
    let status: u16 = status.ok_or_else(|| token.error(RuleError::Status))?;
    let known = match dialect {
        Dialect::Cloudflare => matches!(status, 200 | 301 | 302 | 303 | 307 | 308),
        _ => matches!(status, 200 | 301 | 302 | 303 | 307 | 308 | 403 | 404 | 410 | 451 | 500 | 503),
    };
    match (known, dialect) {
        (false, Dialect::Cloudflare) => Err(token.error(RuleError::StatusCloudflare)),
        (false, _) => Err(token.error(RuleError::StatusUnknown)),
        (true, Dialect::Cloudflare) if forced => Err(token.from(digits.len()).error(RuleError::Force)),
        (true, _) => Ok((status, forced)),
    }
}
