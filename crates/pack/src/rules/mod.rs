//! Rules that travel with a site: the files `_headers` and `_redirects` at its root.
//!
//! ```text
//! _headers ─── headers ───▶ fields of each path ──────────────────────────────────▶ stored in its record
//! _redirects ─ redirects ─▶ rules ─ compile ─┬─ the path alone decides the match ─▶ a record of its own
//!                                            └─ all others ───────────────────────▶ a table, tried in order
//! ```
//!
//! | file | content |
//! |---|---|
//! | `configured.rs` | rules of the configuration, before those of the files |
//! | `dialect.rs` | the platform whose format the files have |
//! | `error.rs` | errors in rule files, with position and hint |
//! | `line.rs` | splits a file into lines and tokens with positions |
//! | `pattern.rs` | the paths that a rule matches |
//! | `headers.rs` | `_headers`: the fields of each path |
//! | `redirects.rs` | `_redirects`: its rules |
//! | `target.rs` | the target of a redirect or rewrite |
//! | `compile.rs` | the first match for each path, redirect loops, and the table |
//!
//! `docs/rules.md` describes both files for their authors. This module does not know how contents are stored.

mod compile;
mod configured;
mod dialect;
mod error;
mod headers;
mod line;
mod pattern;
mod redirects;
mod target;

pub use configured::{
    ConfiguredRules, ErrorPage, HeaderEntry, PathEntry, RedirectEntry, RulePosition, RuleText,
};
pub use dialect::Dialect;
pub use error::{RuleError, RuleFile, RuleFileError, RuleFileErrors};

pub(crate) use compile::{CompiledRules, Destination, resolve_file};
pub(crate) use headers::HeaderFields;
pub(crate) use pattern::PathSet;

use error::LocatedRuleError;
use headers::HeaderRules;
use redirects::RedirectRule;

/// The rules of a site.
#[derive(Debug)]
pub(crate) struct RuleSet {
    /// Names the files of the configuration in errors.
    configured: ConfiguredRules,
    headers: HeaderRules,
    redirects: Vec<RedirectRule>,
    /// The pages of the configuration for statuses other than 404, and their texts.
    status_pages: Vec<(u16, String)>,
    /// The errors that were found so far. [`compile`](RuleSet::compile) reports them, with those that only it finds.
    errors: Vec<RuleFileError>,
}

impl RuleSet {
    /// Reads the rule files among the files of a site, each with its path. `read` returns at most the given number of bytes of a
    /// file, or `None` if the file no longer exists.
    ///
    /// # Errors
    /// Those of `read`. [`compile`](RuleSet::compile) reports errors of the rules.
    pub(crate) fn read<'f, F: 'f, E>(
        files: impl Iterator<Item = (&'f [u8], &'f F)> + Clone,
        configured: &ConfiguredRules,
        dialect: Dialect,
        mut read: impl FnMut(&F, u64) -> Result<Option<Vec<u8>>, E>,
    ) -> Result<RuleSet, E> {
        let (mut texts, mut errors) = ([Vec::new(), Vec::new()], Vec::new());
        for ((file, name), text) in SITE_FILES.into_iter().zip(RuleFile::PATHS).zip(&mut texts) {
            let Some((_, found)) = files.clone().find(|(path, _)| *path == name) else { continue };
            if dialect == Dialect::Off {
                continue;
            }
            *text = read(found, FILE_LEN_MAX + 1)?.unwrap_or_default();
            if text.len() as u64 > FILE_LEN_MAX {
                let error = RuleError::FileLength;
                errors.push(RuleFileError { file, line: 1, column: 1, error });
                text.clear();
            }
        }
        let mut rules = RuleSet::parse(configured, &texts[0], &texts[1], dialect);
        rules.errors.append(&mut errors);
        for page in configured.status_pages() {
            let found = files.clone().find(|(path, _)| *path == page.path.text.as_bytes());
            let text = found.map(|(_, file)| read(file, PAGE_LEN_MAX + 1)).transpose()?.flatten();
            let text = match text {
                None => Err(RuleError::NoFile),
                Some(text) if text.len() as u64 > PAGE_LEN_MAX => Err(RuleError::PageLength),
                Some(text) => String::from_utf8(text).map_err(|_| RuleError::PageText),
            };
            match text {
                Ok(text) => rules.status_pages.push((page.status, text)),
                Err(error) => {
                    let located = configured.locate(page.path.error(error), RuleFile::Redirects);
                    rules.errors.push(located);
                }
            }
        }
        Ok(rules)
    }

    /// Returns the text of the configured page for a status.
    pub(crate) fn status_page(&self, status: u16) -> Option<&str> {
        let page = self.status_pages.iter().rfind(|(known, _)| *known == status);
        page.map(|(_, text)| &**text)
    }

    /// Returns the address of the configured page for 404. `file` returns the address of the file at a path.
    pub(crate) fn not_found_page(
        &self,
        file: impl Fn(&[u8]) -> Option<Vec<u8>>,
    ) -> Result<Option<Vec<u8>>, RuleFileError> {
        let Some(page) = self.configured.not_found_page() else { return Ok(None) };
        match file(page.text.as_bytes()) {
            Some(address) => Ok(Some(address)),
            None => Err(self.configured.locate(page.error(RuleError::NoFile), RuleFile::Redirects)),
        }
    }

    /// Parses the rules of the configuration, and after them the texts of `_headers` and `_redirects`.
    pub(crate) fn parse(
        configured: &ConfiguredRules,
        headers: &[u8],
        redirects: &[u8],
        dialect: Dialect,
    ) -> RuleSet {
        let dialect = dialect.of_rules();
        let (mut of_headers, mut of_redirects) = (Vec::new(), Vec::new());
        let first = configured.header_rules(dialect, &mut of_headers);
        let headers = HeaderRules::parse(first, headers, dialect, &mut of_headers);
        let mut rules = configured.redirect_rules(dialect, &mut of_redirects);
        rules.append(&mut redirects::parse(redirects, dialect, &mut of_redirects));
        let of_headers = of_headers.into_iter().map(|error| configured.locate(error, RuleFile::Headers));
        let of_redirects =
            of_redirects.into_iter().map(|error| configured.locate(error, RuleFile::Redirects));
        RuleSet {
            configured: configured.clone(),
            headers,
            redirects: rules,
            status_pages: Vec::new(),
            errors: of_headers.chain(of_redirects).collect(),
        }
    }

    /// Returns an error of a redirect or rewrite with the name of its file.
    pub(crate) fn redirect_error(&self, error: LocatedRuleError) -> RuleFileError {
        self.configured.locate(error, RuleFile::Redirects)
    }

    /// Returns the section of the paths that the access log leaves out, if there are any.
    pub(crate) fn log_paths(&self) -> Result<Option<Vec<u8>>, RuleFileError> {
        self.configured.log_paths()
    }

    /// Returns the fields of a response for the requested paths: see [`HeaderRules::fields`].
    pub(crate) fn fields(&self, requested: &[PathSet], defaults: HeaderFields) -> HeaderFields {
        self.headers.fields(requested, defaults)
    }

    /// Returns the directories that have fields of their own for all paths below.
    pub(crate) fn dirs(&self) -> impl Iterator<Item = &[u8]> {
        self.headers.dirs()
    }

    /// Compiles the redirects and rewrites for a site. `file` returns the address of the file at a path; `exists` tells whether the
    /// site has anything at a path.
    ///
    /// # Errors
    /// All errors of the rules.
    pub(crate) fn compile<'r>(
        &'r self,
        base: &'r str,
        file: impl Fn(&[u8]) -> Option<Vec<u8>>,
        exists: impl Fn(&[u8]) -> bool,
    ) -> Result<CompiledRules<'r>, RuleFileErrors> {
        let compiled = CompiledRules::new(&self.redirects, base, file, exists);
        let mut errors = self.errors.clone();
        let compiled = compiled.map_err(|more| {
            errors.extend(more.into_iter().map(|error| self.redirect_error(error)));
        });
        match (RuleFileErrors::new(errors), compiled) {
            (None, Ok(compiled)) => Ok(compiled),
            (Some(errors), _) => Err(errors),
            (None, Err(())) => unreachable!("a failure has errors"),
        }
    }
}

/// Returns whether a path is that of a rule file or of a compressed copy of it. The server sends neither.
pub(crate) fn is_hidden(path: &[u8]) -> bool {
    RuleFile::PATHS.iter().any(|file| {
        path.strip_prefix(*file).is_some_and(|rest| matches!(rest, b"" | b".br" | b".gz" | b".zst"))
    })
}

/// The largest page for a status, in bytes: a page with its styles. Each image holds them in memory.
const PAGE_LEN_MAX: u64 = 64 << 10;

/// The files of a site, in the order of [`RuleFile::PATHS`].
const SITE_FILES: [RuleFile; 2] = [RuleFile::Headers, RuleFile::Redirects];

/// The largest rule file, in bytes: ten thousand rules of a hundred bytes.
const FILE_LEN_MAX: u64 = 1 << 20;

/// Parses both files, and compiles them for a site with files at the given paths. For tests and fuzzing.
///
/// # Errors
/// All errors of the files.
#[doc(hidden)]
pub fn check(
    headers: &[u8],
    redirects: &[u8],
    dialect: Dialect,
    files: &[&[u8]],
) -> Result<(), RuleFileErrors> {
    let rules = RuleSet::parse(&ConfiguredRules::default(), headers, redirects, dialect);
    for path in files {
        drop(rules.fields(&[PathSet::one(path)], HeaderFields::default()));
    }
    let has = |path: &[u8]| files.contains(&path);
    rules.compile("", |path| has(path).then(|| path.to_vec()), has).map(drop)
}
