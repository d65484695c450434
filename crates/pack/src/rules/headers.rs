//! `_headers`: which fields a path has.
//!
//! ```text
//! /static/*                       a path, not indented
//!   X-Robots-Tag: nosnippet       its fields, indented
//!   ! Link                        Cloudflare: takes away what a rule before has given
//! ```

use super::Dialect;
use super::error::{RuleError, Wrong};
use super::line::{Line, Word, lines};
use super::pattern::{self, Of, Paths, Pattern};

/// What `_headers` says.
#[derive(Debug)]
pub(crate) struct Headers {
    rules: Vec<Rule>,
    dialect: Dialect,
}

/// The fields that rules give to a path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fields {
    /// Name and value.
    lines: Vec<(String, String)>,
}

#[derive(Debug)]
struct Rule {
    pattern: Pattern,
    acts: Vec<Act>,
}

#[derive(Debug)]
enum Act {
    Give(String, Vec<Part>),
    Take(String),
}

/// A part of a value.
#[derive(Debug)]
enum Part {
    Text(String),
    /// What a placeholder holds.
    Held(u8),
}

impl Headers {
    pub(crate) fn parse(text: &[u8], dialect: Dialect) -> Result<Headers, Wrong> {
        let mut rules: Vec<Rule> = Vec::new();
        for line in lines(text) {
            let line = line?;
            if !is_field(line) {
                let mut words = line.words();
                let path = words.next().unwrap_or(line.whole());
                if let Some(behind) = words.next() {
                    return Err(behind.wrong(RuleError::NoPath));
                }
                let pattern = Pattern::parse(path, dialect, Of::Headers)?;
                rules.push(Rule { pattern, acts: Vec::new() });
                continue;
            }
            let Some(rule) = rules.last_mut() else { return Err(line.whole().wrong(RuleError::NoPath)) };
            let act = act(line.whole(), &rule.pattern, dialect)?;
            rule.acts.push(act);
        }
        Ok(Headers { rules, dialect })
    }

    /// The fields that rules give to one of these, or to all of one of these, in the order they are given, behind those of
    /// `else_fields` that no rule names.
    pub(crate) fn of(&self, asked: &[Paths], mut else_fields: Fields) -> Fields {
        let mut fields = Fields::default();
        for rule in &self.rules {
            let Some(paths) = asked.iter().find(|paths| rule.pattern.is_about(paths)) else { continue };
            let held = paths.single().and_then(|path| rule.pattern.held(path));
            let mut given = Fields::default();
            for act in &rule.acts {
                match act {
                    Act::Give(name, parts) => {
                        if let Some(value) = value(parts, held.as_deref()) {
                            given.join(name, &value);
                        }
                    }
                    Act::Take(name) => {
                        fields.remove(name);
                        else_fields.remove(name);
                    }
                }
            }
            for (name, _) in &given.lines {
                else_fields.remove(name);
                // What two rules give: the later one's, or both.
                if self.dialect == Dialect::Netlify {
                    fields.remove(name);
                }
            }
            for (name, value) in given.lines {
                fields.join(&name, &value);
            }
        }
        else_fields.lines.append(&mut fields.lines);
        else_fields
    }

    /// The directories that a rule is about with all that lies below them.
    pub(crate) fn dirs(&self) -> impl Iterator<Item = &[u8]> {
        self.rules.iter().filter_map(|rule| rule.pattern.dir())
    }
}

impl Fields {
    /// These fields.
    pub(crate) fn of(fields: impl Iterator<Item = (&'static str, &'static str)>) -> Fields {
        Fields { lines: fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect() }
    }

    /// The value of a field, and the others.
    pub(crate) fn split_off(mut self, name: &str) -> (Option<String>, Fields) {
        let at = self.lines.iter().position(|(known, _)| known.eq_ignore_ascii_case(name));
        let value = at.map(|at| self.lines.remove(at).1);
        (value, self)
    }

    /// What of them goes with an answer that the server writes itself: it knows its type, and how long that can be kept.
    pub(crate) fn beside_ours(&self) -> Fields {
        let (_, more) = self.clone().split_off("Content-Type");
        let (_, more) = more.split_off("Cache-Control");
        more
    }

    /// Whether there is a field of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.lines.iter().any(|(known, _)| known.eq_ignore_ascii_case(name))
    }

    /// As they stand in a message.
    pub(crate) fn text(&self) -> String {
        self.lines.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect()
    }

    /// These and another one.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Fields {
        self.join(name, value);
        self
    }

    fn join(&mut self, name: &str, value: &str) {
        let known = self.lines.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(name));
        match known {
            // Its values cannot be joined: RFC 9110, section 5.3. Nor can two types be one.
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

/// Whether a line is about a field: both platforms tell by what a path begins with.
fn is_field(line: Line<'_>) -> bool {
    let text = line.whole().text;
    let is_path = text.starts_with(b"/") || text.starts_with(b"http://") || text.starts_with(b"https://");
    !is_path && (line.is_indented() || text.contains(&b':') || text.starts_with(b"!"))
}

fn act(line: Word<'_>, pattern: &Pattern, dialect: Dialect) -> Result<Act, Wrong> {
    if let Some(removed) = line.text.strip_prefix(b"!") {
        if dialect == Dialect::Netlify {
            return Err(line.wrong(RuleError::Removal));
        }
        let word = line.from(line.text.len() - removed.len()).trim();
        return Ok(Act::Take(field_name(word)?));
    }
    let Some(colon) = line.text.iter().position(|&byte| byte == b':') else {
        return Err(line.wrong(RuleError::NoColon));
    };
    let name = field_name(line.to(colon))?;
    let word = line.from(colon + 1).trim();
    if word.text.is_empty() {
        return Err(word.wrong(RuleError::FieldValue));
    }
    Ok(Act::Give(name, parts(word, pattern, dialect)))
}

fn field_name(word: Word<'_>) -> Result<String, Wrong> {
    let is_token = |&byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if word.text.is_empty() || !word.text.iter().all(is_token) {
        return Err(word.wrong(RuleError::FieldName));
    }
    let name = String::from_utf8_lossy(word.text).into_owned();
    let is = |known: &&str| name.eq_ignore_ascii_case(known);
    match () {
        () if OWNED.iter().any(is) => Err(word.wrong(RuleError::Owned)),
        () if is(&"Basic-Auth") => Err(word.wrong(RuleError::BasicAuth)),
        () => Ok(name),
    }
}

/// Cloudflare puts what is held into values; to Netlify a colon is one. So it is where no such name is known.
fn parts(word: Word<'_>, pattern: &Pattern, dialect: Dialect) -> Vec<Part> {
    let text = String::from_utf8_lossy(word.text).into_owned();
    if dialect != Dialect::Cloudflare {
        return vec![Part::Text(text)];
    }
    let (mut parts, mut from, mut at) = (Vec::new(), 0, 0);
    while let Some(colon) = text[at..].find(':').map(|found| at + found) {
        let name = pattern::name(&text.as_bytes()[colon..]);
        at = colon + 1 + name.map_or(0, <[u8]>::len);
        if let Some(number) = name.and_then(|name| pattern.number(name)) {
            parts.extend([Part::Text(text[from..colon].to_owned()), Part::Held(number)]);
            from = at;
        }
    }
    parts.push(Part::Text(text[from..].to_owned()));
    parts
}

/// What is held is percent-encoded, as in the path it is of: it can end no line. `None`: it is not known what is held.
fn value(parts: &[Part], held: Option<&[&[u8]]>) -> Option<String> {
    let part = |part: &Part| match part {
        Part::Text(text) => Some(text.clone()),
        &Part::Held(number) => {
            let held = held?.get(usize::from(number)).copied().unwrap_or_default();
            Some(crate::url_path::percent_encode(held))
        }
    };
    parts.iter().map(part).collect()
}

/// Fields that say how a message is sent or what it is, which the server knows and others would get wrong. Location:
/// `_redirects` is for that.
const OWNED: [&str; 20] = [
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
