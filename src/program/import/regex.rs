//! Regular expressions that stand for the patterns of tarpon.
//!
//! ```text
//! ^/news/(.*)$          /news/*          $1 is :splat
//! \.(css|js)$           /*.css, /*.js
//! ^/([^/]+)/edit$       /:p1/edit        $1 is :p1
//! ```
//!
//! All others are left out: a pattern that matches more would open or close other paths than the expression.

use super::path::{PathPattern, escaped};

/// Alternatives of one expression: each is a row of a table in tarpon.
const ALTERNATIVE_COUNT_MAX: usize = 64;
/// Groups within groups.
const DEPTH_MAX: usize = 8;

/// One pattern, and what the groups of the expression have captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RegexPattern {
    pub(super) paths: PathPattern,
    /// For each group: its text, or the name of the placeholder. `None`: it captures what no placeholder stands for.
    pub(super) captures: Vec<Option<String>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum RegexPiece {
    Text(String),
    /// Any characters, perhaps captured by this group.
    Any(Option<usize>),
    /// Characters within a segment, perhaps captured by this group.
    Segment(Option<usize>),
}
use RegexPiece::{Any, Segment, Text};

#[derive(Clone, Debug, Default)]
struct RegexAlternative {
    pieces: Vec<RegexPiece>,
    /// Texts that groups have captured.
    texts: Vec<(usize, String)>,
    is_anchored: bool,
    has_end: bool,
}

/// Returns the patterns that an expression stands for. `None`: there are none with the same meaning.
pub(super) fn patterns(regex: &str) -> Option<Vec<RegexPattern>> {
    let mut parser = RegexParser { chars: regex.chars().collect(), at: 0, group_count: 0 };
    let alternatives = parser.alternatives(0)?;
    if parser.at != parser.chars.len() {
        return None;
    }
    let group_count = parser.group_count;
    alternatives.into_iter().map(|alternative| alternative.pattern(group_count)).collect()
}

struct RegexParser {
    chars: Vec<char>,
    at: usize,
    group_count: usize,
}

impl RegexParser {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn takes(&mut self, text: &str) -> bool {
        let found = self.chars[self.at..].iter().copied().take(text.chars().count()).eq(text.chars());
        if found {
            self.at += text.chars().count();
        }
        found
    }

    fn alternatives(&mut self, depth: usize) -> Option<Vec<RegexAlternative>> {
        let mut all = self.sequence(depth)?;
        while self.takes("|") {
            all.extend(self.sequence(depth)?);
            if all.len() > ALTERNATIVE_COUNT_MAX {
                return None;
            }
        }
        Some(all)
    }

    fn sequence(&mut self, depth: usize) -> Option<Vec<RegexAlternative>> {
        let mut all = vec![RegexAlternative::default()];
        loop {
            let here = self.peek();
            if matches!(here, None | Some('|' | ')')) {
                return Some(all);
            }
            // Nothing follows the end.
            if all.iter().any(|alternative| alternative.has_end) {
                return None;
            }
            if self.takes("^") {
                for alternative in &mut all {
                    if !alternative.pieces.is_empty() || alternative.is_anchored {
                        return None;
                    }
                    alternative.is_anchored = true;
                }
                continue;
            }
            if self.takes("$") {
                all.iter_mut().for_each(|alternative| alternative.has_end = true);
                continue;
            }
            let options = self.atom(depth)?;
            let mut next = Vec::new();
            for alternative in &all {
                for option in &options {
                    next.push(alternative.clone().then(option)?);
                }
            }
            if next.len() > ALTERNATIVE_COUNT_MAX {
                return None;
            }
            all = next;
        }
    }

    /// Returns the choices of one atom with its quantifier.
    fn atom(&mut self, depth: usize) -> Option<Vec<RegexAlternative>> {
        let of = |piece| RegexAlternative { pieces: vec![piece], ..RegexAlternative::default() };
        if depth > DEPTH_MAX {
            return None;
        }
        let options = match self.peek()? {
            '(' => {
                self.at += 1;
                let is_captured = !self.takes("?:");
                if is_captured && self.peek() == Some('?') {
                    return None;
                }
                let number = self.group_count;
                self.group_count += usize::from(is_captured);
                let options = self.alternatives(depth + 1)?;
                if !self.takes(")") {
                    return None;
                }
                match is_captured {
                    true => options.into_iter().map(|option| option.captured(number)).collect(),
                    false => options,
                }
            }
            '.' => {
                self.at += 1;
                match self.takes("*") || self.takes("+") {
                    true if self.peek() != Some('?') => return Some(vec![of(Any(None))]),
                    _ => return None,
                }
            }
            '[' => {
                for set in ["[^/]+", "[^/]*"] {
                    if self.takes(set) {
                        return Some(vec![of(Segment(None))]);
                    }
                }
                // A set of one character is that character.
                match self.chars.get(self.at + 1..self.at + 3)? {
                    [char, ']'] if !matches!(char, '^' | '\\') => {
                        let char = *char;
                        self.at += 3;
                        vec![of(Text(char.to_string()))]
                    }
                    _ => return None,
                }
            }
            '\\' => {
                let char = *self.chars.get(self.at + 1)?;
                if char.is_alphanumeric() {
                    return None;
                }
                self.at += 2;
                vec![of(Text(char.to_string()))]
            }
            '*' | '+' | '?' | '{' | '}' | ']' => return None,
            char => {
                self.at += 1;
                vec![of(Text(char.to_string()))]
            }
        };
        match self.peek() {
            Some('?') => {
                self.at += 1;
                let none = RegexAlternative::default();
                // Its capture would be empty then.
                let is_plain = options.iter().all(|option| {
                    option.texts.is_empty() && option.pieces.iter().all(|piece| matches!(piece, Text(_)))
                });
                (is_plain && self.peek() != Some('?')).then(|| [options, vec![none]].concat())
            }
            Some('*' | '+' | '{') => None,
            _ => Some(options),
        }
    }
}

impl RegexAlternative {
    /// Appends another part.
    fn then(mut self, next: &RegexAlternative) -> Option<RegexAlternative> {
        if next.is_anchored && (self.is_anchored || !self.pieces.is_empty()) {
            return None;
        }
        self.is_anchored |= next.is_anchored;
        self.has_end |= next.has_end;
        self.texts.extend(next.texts.iter().cloned());
        for piece in &next.pieces {
            match (self.pieces.last_mut(), piece) {
                (Some(Text(text)), Text(more)) => text.push_str(more),
                (Some(Any(_) | Segment(_)), Any(_) | Segment(_)) => return None,
                _ => self.pieces.push(piece.clone()),
            }
        }
        Some(self)
    }

    /// Marks the part as what a group has captured.
    fn captured(mut self, number: usize) -> RegexAlternative {
        match &mut self.pieces[..] {
            [] => self.texts.push((number, String::new())),
            [Text(text)] => self.texts.push((number, text.clone())),
            [Any(group @ None) | Segment(group @ None)] => *group = Some(number),
            // `(/.*)` captures a slash and the rest.
            [Text(slash), Any(None)] if slash == "/" => {
                self.pieces[1] = Any(Some(number));
                self.texts.push((number, "/:splat".to_owned()));
            }
            _ => {}
        }
        self
    }

    fn pattern(self, group_count: usize) -> Option<RegexPattern> {
        let RegexAlternative { mut pieces, texts, is_anchored, has_end } = self;
        let mut captures = vec![None; group_count];
        // `^` or an empty expression: all paths.
        let is_any_first = matches!(pieces.first(), Some(Any(_)));
        if !is_anchored && !is_any_first && !pieces.is_empty() {
            pieces.insert(0, Any(None));
        }
        if !has_end && !matches!(pieces.last(), Some(Any(_))) {
            match pieces.last() {
                Some(Segment(_)) => return None,
                _ => pieces.push(Any(None)),
            }
        }
        let mut rule = String::new();
        let mut segment_count = 0;
        for (at, piece) in pieces.iter().enumerate() {
            match piece {
                Text(text) => rule += &escaped(text),
                Any(group) => {
                    let is_first = at == 0;
                    if is_first {
                        // A path begins with a slash, which the placeholder does not have.
                        rule.push('/');
                        if matches!(pieces.get(1), Some(Text(text)) if text.starts_with('/')) {
                            return None;
                        }
                    }
                    if rule.contains('*') {
                        return None;
                    }
                    rule.push('*');
                    if let Some(group) = group {
                        captures[*group] = Some(if is_first { "/:splat" } else { ":splat" }.to_owned());
                    }
                }
                Segment(group) => {
                    let before = rule.ends_with('/');
                    let after = pieces
                        .get(at + 1)
                        .is_none_or(|next| matches!(next, Text(text) if text.starts_with(['/', '.'])));
                    if !before || !after || rule.contains('*') {
                        return None;
                    }
                    segment_count += 1;
                    rule += &format!(":p{segment_count}");
                    if let Some(group) = group {
                        captures[*group] = Some(format!(":p{segment_count}"));
                    }
                }
            }
        }
        for (number, text) in texts {
            captures[number] = Some(text);
        }
        let rule = match rule.is_empty() {
            true => "/*".to_owned(),
            false => rule,
        };
        // Text behind a placeholder would become a part of its name.
        let is_path = rule.starts_with('/') && !rule.contains("//");
        is_path.then(|| RegexPattern { paths: pattern_of(rule, &pieces), captures })
    }
}

/// Returns the pattern of a rule in its simplest form.
fn pattern_of(rule: String, pieces: &[RegexPiece]) -> PathPattern {
    match pieces {
        [Text(path)] => PathPattern::Exact(path.clone()),
        [Text(path), Any(_)] if path == "/" => PathPattern::All,
        [Text(path), Any(_)] if path.ends_with('/') => PathPattern::below(path),
        [] | [Any(_)] => PathPattern::All,
        [Any(_), Text(ending)] if ending.starts_with('.') && !ending[1..].contains(['.', '/']) => {
            PathPattern::Ending(ending.clone())
        }
        _ => PathPattern::Other(rule),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[rustfmt::skip]
    fn expressions_become_patterns() {
        let cases: &[(&str, Option<&str>)] = &[
            // expression                   patterns, each with its captures
            (r"^",                          Some("/*")),
            (r"^/a$",                       Some("/a")),
            (r"^/a/",                       Some("/a/*")),
            (r"^/a/(.*)$",                  Some("/a/* :splat")),
            (r"^/a(/.*)$",                  Some("/a/* /:splat")),
            (r"^(.*)$",                     Some("/* /:splat")),
            (r"^/(.*)$",                    Some("/* :splat")),
            (r"^/a/([^/]+)/b$",             Some("/a/:p1/b :p1")),
            (r"^/([^/]+)/([^/]+)\.html$",   Some("/:p1/:p2.html :p1 :p2")),
            (r"^/(a|b)/",                   Some("/a/* a, /b/* b")),
            (r"\.css$",                     Some("/*.css")),
            (r"\.(?:css|js)$",              Some("/*.css, /*.js")),
            (r"\.jpe?g$",                   Some("/*.jpeg, /*.jpg")),
            (r"\.php(/|$)",                 None),
            (r"[.]php$",                    Some("/*.php")),
            (r"^/bull",                     Some("/bull*")),
            // These have no pattern of the same meaning.
            (r"^/\d+$",                     None),
            (r"^/[a-z]+$",                  None),
            (r"/a/",                        None),
            (r"^/a.b$",                     None),
            (r"^/a/(?!b)",                  None),
            (r"^/a{2}$",                    None),
            (r"^/.*/.*$",                   None),
            (r"^/a+$",                      None),
            (r"^/a(",                       None),
            (r"a|",                         None),
            (r"^a$",                        None),
            (r"\",                          None),
            (r"[",                          None),
        ];
        for (regex, want) in cases {
            let text = patterns(regex).map(|patterns| {
                let one = |RegexPattern { paths, captures }: &RegexPattern| {
                    let captures = captures.iter().map(|text| format!(" {}", text.as_deref().unwrap_or("-")));
                    paths.rule() + &captures.collect::<String>()
                };
                patterns.iter().map(one).collect::<Vec<_>>().join(", ")
            });
            assert_eq!(text.as_deref(), *want, "{regex}");
        }
        assert_eq!(patterns(&"(".repeat(100_000)), None);
        assert_eq!(patterns(&"(a|b)".repeat(100)), None);
    }
}
