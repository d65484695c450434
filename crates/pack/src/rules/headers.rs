//! `_headers`: the fields of each path.
//!
//! ```text
//! /static/*                       a path, not indented
//!   X-Robots-Tag: nosnippet       its fields, indented
//!   ! Link                        Cloudflare: removes a field that an earlier rule added
//! ```

use super::dialect::Dialect;
use super::error::{LocatedRuleError, RuleError, RuleFile};
use super::line::{RuleLine, RuleToken, lines};
use super::pattern::{self, PathSet, Pattern};
use crate::url_path::percent_encode;

/// The rules of `_headers`.
#[derive(Debug)]
pub(crate) struct HeaderRules {
    rules: Vec<HeaderRule>,
    dialect: Dialect,
}

/// The fields that rules add to a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeaderFields {
    /// Name and value.
    lines: Vec<(String, String)>,
}

#[derive(Debug)]
pub(super) struct HeaderRule {
    pattern: Pattern,
    actions: Vec<FieldAction>,
}

#[derive(Debug)]
enum FieldAction {
    Add(String, Vec<ValuePart>),
    Remove(String),
}

/// A part of a field value.
#[derive(Debug)]
enum ValuePart {
    Text(String),
    /// The number of a capture.
    Captured(u8),
}

impl HeaderRules {
    /// Parses the text of `_headers`. Its rules follow those of the configuration. Adds the error of each line that has one; the rules are
    /// then incomplete.
    pub(super) fn parse(
        configured: Vec<HeaderRule>,
        text: &[u8],
        dialect: Dialect,
        errors: &mut Vec<LocatedRuleError>,
    ) -> HeaderRules {
        let mut rules = configured;
        // The rule that the next fields belong to, or the fact that its path has an error.
        let mut current: Option<Result<HeaderRule, ()>> = None;
        for line in lines(text) {
            let parsed = line.and_then(|line| match &mut current {
                _ if !is_field(line) => {
                    let before = current.replace(Err(()));
                    rules.extend(before.and_then(Result::ok));
                    let pattern = parse_path(line, dialect)?;
                    current = Some(Ok(HeaderRule { pattern, actions: Vec::new() }));
                    Ok(())
                }
                Some(Ok(rule)) => {
                    rule.actions.push(parse_field(line.trimmed(), Some(&rule.pattern), dialect)?);
                    Ok(())
                }
                Some(Err(())) => parse_field(line.trimmed(), None, dialect).map(drop),
                None => Err(line.trimmed().error(RuleError::NoPath)),
            });
            errors.extend(parsed.err());
        }
        rules.extend(current.and_then(Result::ok));
        HeaderRules { rules, dialect }
    }

    /// Parses an entry of the configuration. Fields are removed before others are added.
    pub(super) fn entry<'t>(
        path: RuleToken<'t>,
        remove: impl Iterator<Item = RuleToken<'t>>,
        set: impl Iterator<Item = RuleToken<'t>>,
        dialect: Dialect,
    ) -> Result<HeaderRule, LocatedRuleError> {
        let pattern = Pattern::parse(path, dialect, RuleFile::Headers)?;
        let remove = remove.map(|name| field_name(name).map(FieldAction::Remove));
        let set = set.map(|line| parse_addition(line, Some(&pattern), dialect));
        let actions = remove.chain(set).collect::<Result<_, _>>()?;
        Ok(HeaderRule { pattern, actions })
    }

    /// Returns the fields of a response for several requested paths, such as that of a rule and that of the file it sends. A rule
    /// adds its fields if it matches one of the paths, or every path of a set. The fields of rules follow those of `defaults` that no
    /// rule names.
    pub(crate) fn fields(&self, requested: &[PathSet], mut defaults: HeaderFields) -> HeaderFields {
        let mut fields = HeaderFields::default();
        for rule in &self.rules {
            let Some(paths) = requested.iter().find(|paths| rule.pattern.covers(paths)) else { continue };
            let captured = paths.single().and_then(|path| rule.pattern.captures(path));
            let mut added = HeaderFields::default();
            for action in &rule.actions {
                match action {
                    FieldAction::Add(name, parts) => {
                        if let Some(value) = value(parts, captured.as_deref()) {
                            added.join(name, &value);
                        }
                    }
                    FieldAction::Remove(name) => {
                        fields.remove(name);
                        defaults.remove(name);
                    }
                }
            }
            for (name, _) in &added.lines {
                defaults.remove(name);
                // If two rules add the same field, Netlify sends the later value, and Cloudflare sends both.
                if self.dialect == Dialect::Netlify {
                    fields.remove(name);
                }
            }
            for (name, value) in added.lines {
                fields.join(&name, &value);
            }
        }
        defaults.lines.append(&mut fields.lines);
        defaults
    }

    /// Returns the directories for which a rule matches all paths below.
    pub(crate) fn dirs(&self) -> impl Iterator<Item = &[u8]> {
        self.rules.iter().filter_map(|rule| rule.pattern.dir())
    }
}

impl HeaderFields {
    /// Creates fields from names and values.
    pub(crate) fn of<'v>(fields: impl Iterator<Item = (&'static str, &'v str)>) -> HeaderFields {
        HeaderFields { lines: fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect() }
    }

    /// Returns the value of a field, and the other fields.
    pub(crate) fn split_off(mut self, name: &str) -> (Option<String>, HeaderFields) {
        let at = self.lines.iter().position(|(known, _)| known.eq_ignore_ascii_case(name));
        let value = at.map(|at| self.lines.remove(at).1);
        (value, self)
    }

    /// Returns the fields for a response that the server generates. The server itself sets its Content-Type and Cache-Control.
    pub(crate) fn for_generated(&self) -> HeaderFields {
        let (_, more) = self.clone().split_off("Content-Type");
        let (_, more) = more.split_off("Cache-Control");
        more
    }

    /// Returns whether there is a field of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.lines.iter().any(|(known, _)| known.eq_ignore_ascii_case(name))
    }

    /// Returns the lines of the fields in a message.
    pub(crate) fn text(&self) -> String {
        self.lines.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect()
    }

    /// Adds a field.
    pub(crate) fn with(mut self, name: &str, value: &str) -> HeaderFields {
        self.join(name, value);
        self
    }

    fn join(&mut self, name: &str, value: &str) {
        let known = self.lines.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(name));
        match known {
            // Values of Set-Cookie cannot be joined (RFC 9110, section 5.3). A message has one Content-Type: the last.
            Some(_) if name.eq_ignore_ascii_case("Set-Cookie") => {
                self.lines.push((name.into(), value.into()))
            }
            Some((_, old)) if name.eq_ignore_ascii_case("Content-Type") => *old = value.into(),
            Some((_, old)) => *old = format!("{old}, {value}"),
            None => self.lines.push((name.into(), value.into())),
        }
    }

    fn remove(&mut self, name: &str) {
        self.lines.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
    }
}

/// Returns whether a line is a field, not a path. Both platforms decide by the first characters.
fn is_field(line: RuleLine<'_>) -> bool {
    let text = line.trimmed().text;
    let is_path = text.starts_with(b"/") || text.starts_with(b"http://") || text.starts_with(b"https://");
    !is_path && (line.is_indented() || text.contains(&b':') || text.starts_with(b"!"))
}

fn parse_path(line: RuleLine<'_>, dialect: Dialect) -> Result<Pattern, LocatedRuleError> {
    let mut tokens = line.tokens();
    let path = tokens.next().unwrap_or(line.trimmed());
    match tokens.next() {
        Some(extra) => Err(extra.error(RuleError::NoPath)),
        None => Pattern::parse(path, dialect, RuleFile::Headers),
    }
}

/// Parses a field of a rule. `pattern`: the path of the rule, if it has no error.
fn parse_field(
    line: RuleToken<'_>,
    pattern: Option<&Pattern>,
    dialect: Dialect,
) -> Result<FieldAction, LocatedRuleError> {
    if let Some(removed) = line.text.strip_prefix(b"!") {
        if dialect == Dialect::Netlify {
            return Err(line.error(RuleError::Removal));
        }
        let token = line.from(line.text.len() - removed.len()).trim();
        return Ok(FieldAction::Remove(field_name(token)?));
    }
    parse_addition(line, pattern, dialect)
}

fn parse_addition(
    line: RuleToken<'_>,
    pattern: Option<&Pattern>,
    dialect: Dialect,
) -> Result<FieldAction, LocatedRuleError> {
    let Some(colon) = line.text.iter().position(|&byte| byte == b':') else {
        return Err(line.error(RuleError::NoColon));
    };
    let name = field_name(line.to(colon))?;
    let token = line.from(colon + 1).trim();
    if token.text.is_empty() {
        return Err(token.error(RuleError::FieldValue));
    }
    Ok(FieldAction::Add(name, value_parts(token, pattern, dialect)))
}

fn field_name(token: RuleToken<'_>) -> Result<String, LocatedRuleError> {
    let is_token = |&byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if token.text.is_empty() || !token.text.iter().all(is_token) {
        return Err(token.error(RuleError::FieldName));
    }
    let name = String::from_utf8_lossy(token.text).into_owned();
    let is = |known: &&str| name.eq_ignore_ascii_case(known);
    match () {
        () if SERVER_FIELDS.iter().any(is) => Err(token.error(RuleError::ServerField)),
        () if is(&"Basic-Auth") => Err(token.error(RuleError::BasicAuth)),
        () => Ok(name),
    }
}

/// Splits a value at its placeholders, which only Cloudflare replaces. A colon before an unknown name is text.
fn value_parts(token: RuleToken<'_>, pattern: Option<&Pattern>, dialect: Dialect) -> Vec<ValuePart> {
    let text = String::from_utf8_lossy(token.text).into_owned();
    let Some(pattern) = pattern.filter(|_| dialect == Dialect::Cloudflare) else {
        return vec![ValuePart::Text(text)];
    };
    let (mut parts, mut from, mut at) = (Vec::new(), 0, 0);
    while let Some(colon) = text[at..].find(':').map(|found| at + found) {
        let name = pattern::placeholder_name(&text.as_bytes()[colon..]);
        at = colon + 1 + name.map_or(0, <[u8]>::len);
        if let Some(number) = name.and_then(|name| pattern.capture_number(name)) {
            parts.extend([ValuePart::Text(text[from..colon].to_owned()), ValuePart::Captured(number)]);
            from = at;
        }
    }
    parts.push(ValuePart::Text(text[from..].to_owned()));
    parts
}

/// Returns the value with its captures percent-encoded, so that they cannot end the line. `None`: the captures are not known.
fn value(parts: &[ValuePart], captured: Option<&[&[u8]]>) -> Option<String> {
    let part = |part: &ValuePart| match part {
        ValuePart::Text(text) => Some(text.clone()),
        &ValuePart::Captured(number) => {
            let captured = captured?.get(usize::from(number)).copied().unwrap_or_default();
            Some(percent_encode(captured))
        }
    };
    parts.iter().map(part).collect()
}

/// Fields that the server sets, since they describe the message or its transfer. `_redirects` sets Location.
const SERVER_FIELDS: [&str; 20] = [
    "Accept-Ranges",
    "Age",
    "Allow",
    "Alt-Svc",
    "Connection",
    "Content-Encoding",
    "Content-Length",
    "Content-Range",
    "Date",
    "ETag",
    "Keep-Alive",
    "Last-Modified",
    "Location",
    "Proxy-Connection",
    "Server",
    "TE",
    "Trailer",
    "Transfer-Encoding",
    "Upgrade",
    "Proxy-Authenticate",
];
