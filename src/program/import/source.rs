//! The files of a configuration, and their directives.
//!
//! Both languages have lines of words, some with a block of further lines, so both parsers make [`SourceDirective`]s. A configuration may
//! come from a stranger: depth, files, bytes and directives have limits.

use crate::UserError;
use crate::base::error::reason;
use std::{
    fs::{self, File},
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};
use tarpon_site::Printable;

/// Blocks within blocks. nginx nests locations; real files have at most six levels.
pub(super) const DEPTH_MAX: usize = 32;
/// Files that include each other in a row.
pub(super) const INCLUDE_DEPTH_MAX: usize = 16;
/// Files in all: a file for each of many sites.
const FILE_COUNT_MAX: usize = 10_000;
/// Bytes of all files: some 50,000 sites.
const LEN_MAX: usize = 16 << 20;
/// Directives of all files, those of snippets counted at each use.
const DIRECTIVE_COUNT_MAX: usize = 200_000;
/// The longest word. Longer than any header that clients accept.
pub(super) const WORD_LEN_MAX: usize = 16 << 10;

/// Whether includes are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceAccess {
    /// Read included files.
    Files,
    /// Read nothing: an included file counts as missing.
    Nothing,
}

/// A position in one of the files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SourcePlace {
    pub(super) file: u32,
    pub(super) line: u32,
    pub(super) column: u32,
}

/// A line of words, perhaps with a block.
#[derive(Clone, Debug)]
pub(super) struct SourceDirective {
    pub(super) place: SourcePlace,
    pub(super) name: String,
    pub(super) args: Vec<String>,
    pub(super) block: Option<Vec<SourceDirective>>,
}

/// A directive as the report names it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DirectiveOrigin {
    pub(super) place: SourcePlace,
    pub(super) directive: String,
}

impl SourceDirective {
    pub(super) fn origin(&self) -> DirectiveOrigin {
        DirectiveOrigin { place: self.place, directive: self.name.clone() }
    }

    pub(super) fn arg(&self, at: usize) -> &str {
        self.args.get(at).map_or("", String::as_str)
    }

    pub(super) fn children(&self) -> &[SourceDirective] {
        self.block.as_deref().unwrap_or_default()
    }
}

/// The files that were read, and what all of them may still take.
#[derive(Debug)]
pub(super) struct SourceFiles {
    access: SourceAccess,
    names: Vec<PathBuf>,
    len: usize,
    directive_count: usize,
}

impl SourceFiles {
    pub(super) fn new(access: SourceAccess) -> SourceFiles {
        SourceFiles { access, names: Vec::new(), len: 0, directive_count: 0 }
    }

    /// Returns whether other files are read.
    pub(super) fn access(&self) -> SourceAccess {
        self.access
    }

    /// Returns the number of the file that was added last.
    pub(super) fn last(&self) -> u32 {
        self.names.len().saturating_sub(1) as u32
    }

    /// Returns the name of a file.
    pub(super) fn name(&self, file: u32) -> String {
        self.names.get(file as usize).map_or_else(String::new, |path| path.printable().to_string())
    }

    /// Reads a file, which becomes the last one.
    pub(super) fn open(&mut self, path: &Path) -> Result<String, UserError> {
        let what = format!("cannot read {}", path.printable());
        match read_file(path) {
            Ok(text) => {
                self.add(path, text.len())?;
                Ok(text)
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                Err(UserError::new(what, "it is not UTF-8", "save it as UTF-8, as with iconv"))
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                Err(UserError::new(what, "it is not a regular file", "name a configuration file"))
            }
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                let why = format!("it is larger than {LEN_MAX} bytes");
                Err(UserError::new(what, why, "name a configuration file"))
            }
            Err(error) => Err(UserError::new(what, reason(&error), "name an existing, readable file")),
        }
    }

    /// Adds a file, which becomes the last one.
    pub(super) fn add(&mut self, path: &Path, len: usize) -> Result<(), UserError> {
        self.len += len;
        let what = format_args!("cannot read {}", path.printable());
        if self.names.len() == FILE_COUNT_MAX {
            let why = format!("the configuration has more than {FILE_COUNT_MAX} files");
            return Err(UserError::new(what, why, "import a file of fewer sites"));
        }
        if self.len > LEN_MAX {
            let why = format!("all files have more than {LEN_MAX} bytes");
            return Err(UserError::new(what, why, "import a file of fewer sites"));
        }
        self.names.push(path.to_owned());
        Ok(())
    }

    /// Returns the value of a variable of the environment.
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        match self.access {
            SourceAccess::Files if !name.is_empty() && !name.contains(['=', '\0']) => {
                std::env::var(name).ok()
            }
            _ => None,
        }
    }

    /// Counts a directive.
    pub(super) fn count_directive(&mut self, place: SourcePlace) -> Result<(), UserError> {
        self.directive_count += 1;
        match self.directive_count > DIRECTIVE_COUNT_MAX {
            true => Err(self.error(
                place,
                format_args!("there are more than {DIRECTIVE_COUNT_MAX} directives"),
                "import a file of fewer sites",
            )),
            false => Ok(()),
        }
    }

    /// Returns an error at a place.
    pub(super) fn error(
        &self,
        place: SourcePlace,
        why: impl std::fmt::Display,
        hint: impl std::fmt::Display,
    ) -> UserError {
        let SourcePlace { file, line, column } = place;
        UserError::new(format_args!("cannot import {}:{line}:{column}", self.name(file)), why, hint)
    }

    /// Checks the length of a word.
    ///
    /// # Errors
    /// It is longer than [`WORD_LEN_MAX`].
    pub(super) fn check_word(&self, place: SourcePlace, len: usize) -> Result<(), UserError> {
        if len <= WORD_LEN_MAX {
            return Ok(());
        }
        let why = format_args!("the word is longer than {WORD_LEN_MAX} bytes");
        Err(self.error(place, why, "shorten it; a quote may be missing"))
    }

    /// Returns the files that a pattern names, in the order of their names: those in the first of the directories that has any. Each
    /// `*` or `?` stands for characters of one name, and for no dot at its start.
    pub(super) fn matching(&self, dirs: &[PathBuf], pattern: &str) -> Vec<PathBuf> {
        if self.access == SourceAccess::Nothing || pattern.contains('\0') {
            return Vec::new();
        }
        let absolute = [PathBuf::from("/")];
        let dirs = if pattern.starts_with('/') { &absolute[..] } else { dirs };
        let found = dirs.iter().map(|dir| glob(dir, pattern.trim_start_matches('/')));
        found.into_iter().find(|found| !found.is_empty()).unwrap_or_default()
    }
}

/// Returns the regular files that a pattern names below a directory.
fn glob(dir: &Path, pattern: &str) -> Vec<PathBuf> {
    let mut found = vec![dir.to_owned()];
    for part in pattern.split('/').filter(|part| !part.is_empty()) {
        if !part.contains(['*', '?']) {
            found.iter_mut().for_each(|path| path.push(part));
            continue;
        }
        let names = |dir: &PathBuf| {
            let entries = fs::read_dir(if dir.as_os_str().is_empty() { Path::new(".") } else { dir });
            let names = entries
                .into_iter()
                .flatten()
                .flatten()
                .filter_map(|entry| entry.file_name().into_string().ok());
            let mut names: Vec<_> = names.filter(|name| matches(part, name)).collect();
            names.sort();
            names.into_iter().map(|name| dir.join(name)).collect::<Vec<_>>()
        };
        found = found.iter().flat_map(names).take(FILE_COUNT_MAX + 1).collect();
    }
    found.retain(|path| path.is_file());
    found
}

/// Returns whether a name matches a pattern with `*` and `?`. Linear in the product of the lengths.
fn matches(pattern: &str, name: &str) -> bool {
    if name.starts_with('.') && !pattern.starts_with('.') {
        return false;
    }
    let (pattern, name): (Vec<_>, Vec<_>) = (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut here, mut retry) = (0, 0, None);
    while here < name.len() {
        match pattern.get(at) {
            Some('*') => {
                retry = Some((at, here));
                at += 1;
            }
            Some(&char) if char == '?' || char == name[here] => {
                at += 1;
                here += 1;
            }
            _ => {
                let Some((star, from)) = retry else { return false };
                retry = Some((star, from + 1));
                (at, here) = (star + 1, from + 1);
            }
        }
    }
    pattern[at..].iter().all(|&char| char == '*')
}

/// Reads a regular file. Does not wait for the writer of a pipe.
fn read_file(path: &Path) -> io::Result<String> {
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let meta = file.metadata()?;
    if meta.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !meta.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut text = String::new();
    match file.take(LEN_MAX as u64 + 1).read_to_string(&mut text)? > LEN_MAX {
        true => Err(io::ErrorKind::FileTooLarge.into()),
        false => Ok(text),
    }
}

/// The characters of a file with their places.
pub(super) struct SourceChars<'a> {
    rest: std::str::Chars<'a>,
    place: SourcePlace,
}

impl<'a> SourceChars<'a> {
    pub(super) fn new(text: &'a str, file: u32) -> SourceChars<'a> {
        // A byte order mark is no word.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        SourceChars { rest: text.chars(), place: SourcePlace { file, line: 1, column: 1 } }
    }

    /// Returns the place of the next character.
    pub(super) fn place(&self) -> SourcePlace {
        self.place
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest.clone().next()
    }

    /// Returns the characters that are left.
    pub(super) fn rest(&self) -> &'a str {
        self.rest.as_str()
    }

    pub(super) fn next(&mut self) -> Option<char> {
        let char = self.rest.next()?;
        match char {
            '\n' => {
                self.place.line += 1;
                self.place.column = 1;
            }
            _ => self.place.column += 1,
        }
        Some(char)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[rustfmt::skip]
    fn names_match_globs() {
        let cases: &[(&str, &str, bool)] = &[
            // pattern     name         matches
            ("*.conf",     "a.conf",    true),
            ("*.conf",     ".a.conf",   false),
            ("*",          ".a",        false),
            (".*",         ".a",        true),
            ("a?c",        "abc",       true),
            ("a?c",        "ac",        false),
            ("*a*b",       "xaxxab",    true),
            ("*a*b",       "xaxxa",     false),
            ("**",         "",          true),
            ("",           "",          true),
        ];
        for (pattern, name, want) in cases {
            assert_eq!(matches(pattern, name), *want, "{pattern} {name}");
        }
    }
}
