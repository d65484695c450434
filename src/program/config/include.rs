//! `include`: further files of a configuration.
//!
//! ```text
//! tarpon.toml ─ include = ["sites/*.toml"] ─┬─▶ sites/a.toml ─ include = […] ─▶ …
//!                                           └─▶ sites/b.toml
//! ```
//!
//! The sections of a file come before those of the files that it includes, and these count in the order of their names.

use super::{ConfigError, ConfigFile, file};
use crate::base::error::reason;
use std::{
    collections::BTreeSet,
    fs, io,
    ops::Range,
    path::{Path, PathBuf},
};
use tarpon_site::Printable;
use toml::de::{DeTable, DeValue};

/// The name of the option.
pub(super) const NAME: &str = "include";

/// The number of files that include each other in a row: more are hard to follow.
const DEPTH_MAX: usize = 8;

/// The number of files of a configuration: one for each of many sites.
const COUNT_MAX: usize = 10_000;

/// Reads the files that a file includes, into `root`, with their errors.
pub(super) fn load(root: &mut ConfigFile) {
    let mut loader = IncludeLoader { root, seen: BTreeSet::new() };
    let text = loader.root.text.clone();
    let path = loader.root.path.clone();
    loader.seen.extend(path.canonicalize());
    loader.includes_of(&path, &text, 0, 0);
}

struct IncludeLoader<'a> {
    root: &'a mut ConfigFile,
    /// The files that were read, without symbolic links.
    seen: BTreeSet<PathBuf>,
}

impl IncludeLoader<'_> {
    /// Reads the files that a text includes. `start`: its first byte among those of all files.
    fn includes_of(&mut self, path: &Path, text: &str, start: usize, depth: usize) {
        let dir = path.parent().unwrap_or(Path::new(""));
        for (pattern, span) in patterns(text) {
            let span = start + span.start..start + span.end;
            match matching(dir, &pattern) {
                Ok(paths) => paths.into_iter().for_each(|path| self.include(path, &span, depth)),
                Err(error) => {
                    let found = format!("cannot include {}: {}", pattern.printable(), reason(&error));
                    let hint = "name an existing directory; paths start at the directory of this file";
                    self.reject(&span, found, hint);
                }
            }
        }
    }

    fn include(&mut self, path: PathBuf, span: &Range<usize>, depth: usize) {
        let name = path.printable();
        if depth == DEPTH_MAX {
            let found = format!("more than {DEPTH_MAX} files include each other in a row");
            return self.reject(span, found, "include the file from tarpon.toml");
        }
        if self.root.included.len() == COUNT_MAX {
            let found = format!("the configuration has more than {COUNT_MAX} files");
            return self.reject(span, found, "write several sites into one file");
        }
        if path.canonicalize().is_ok_and(|path| !self.seen.insert(path)) {
            let found = format!("{name} is part of the configuration already");
            return self.reject(span, found, "include each file once");
        }
        let room = file::LEN_MAX.saturating_sub(self.root.len());
        match file::read(&path, room, true) {
            Ok(text) => {
                let start = self.root.len() + 1;
                self.root.included.push(ConfigFile::new(path.clone(), text.clone()));
                self.includes_of(&path, &text, start, depth + 1);
            }
            Err(error) => {
                let (why, hint) = file::unreadable(&error);
                self.reject(span, format!("cannot include {name}: {why}"), hint);
            }
        }
    }

    fn reject(&mut self, span: &Range<usize>, found: String, hint: impl Into<String>) {
        let expected = "expected a file to include";
        self.root.include_errors.push(ConfigError::at(span.clone(), found, expected, hint));
    }
}

/// Returns the paths and patterns that a text includes. The reader reports values of another type.
fn patterns(text: &str) -> Vec<(String, Range<usize>)> {
    let (root, _) = DeTable::parse_recoverable(text);
    let Some((_, list)) = root.get_ref().iter().find(|(key, _)| key.get_ref() == NAME) else { return vec![] };
    let DeValue::Array(list) = list.get_ref() else { return vec![] };
    let text = |value: &toml::Spanned<DeValue<'_>>| match value.get_ref() {
        DeValue::String(text) => Some((text.clone().into_owned(), value.span())),
        _ => None,
    };
    list.iter().filter_map(text).collect()
}

/// Returns the file at a path, or the files whose names match the last component, in the order of their names. No `*` matches a dot at
/// the start of a name.
fn matching(dir: &Path, pattern: &str) -> io::Result<Vec<PathBuf>> {
    let (parent, name) = pattern.rsplit_once('/').map_or(("", pattern), |(parent, name)| (parent, name));
    let parent = dir.join(if pattern.starts_with('/') && parent.is_empty() { "/" } else { parent });
    if !name.contains('*') {
        return Ok(vec![parent.join(name)]);
    }
    let listed = if parent.as_os_str().is_empty() { Path::new(".") } else { &parent };
    let mut names = Vec::new();
    for entry in fs::read_dir(listed)? {
        let found = entry?.file_name();
        if found.to_str().is_some_and(|found| matches(name, found)) {
            names.push(found);
        }
    }
    names.sort();
    Ok(names.into_iter().map(|name| parent.join(name)).collect())
}

/// Returns whether a name matches a pattern, in which each `*` stands for any characters.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) =
        name.strip_prefix(first).filter(|_| !name.starts_with('.') || first.starts_with('.'))
    else {
        return false;
    };
    let mut parts: Vec<_> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[rustfmt::skip]
    fn patterns_match_names() {
        let cases: &[(&str, &str, bool)] = &[
            // pattern      name           matches
            ("*.toml",      "a.toml",      true),
            ("*.toml",      ".toml",       false),
            ("*.toml",      ".a.toml",     false),
            (".*",          ".a",          true),
            ("*.toml",      "a.toml.bak",  false),
            ("a*b*c",       "abc",         true),
            ("a*b*c",       "a1b2c",       true),
            ("a*b*c",       "a1c2b",       false),
            ("a*a",         "a",           false),
            ("*",           "a",           true),
            ("*",           "",            true),
            ("a*",          "b",           false),
        ];
        for (pattern, name, want) in cases {
            assert_eq!(matches(pattern, name), *want, "{pattern} {name}");
        }
    }
}
