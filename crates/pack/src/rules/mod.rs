//! Rules that travel with a site: the files `_headers` and `_redirects` at its root.
//!
//! ```text
//! _headers ─── headers ───▶ fields of each path ───────────────────────────▶ baked into its record
//! _redirects ─ redirects ─▶ rules ─ compile ─┬─ the path alone settles it ──▶ a record of its own
//!                                            └─ anything else ──────────────▶ a table, tried in order
//! ```
//!
//! | file | what |
//! |---|---|
//! | `error.rs` | what is wrong in such a file, where, and what to do |
//! | `line.rs` | a line in words, each with its column |
//! | `pattern.rs` | the paths a rule is about |
//! | `headers.rs` | `_headers`: which fields a path has |
//! | `redirects.rs` | `_redirects`: its rules |
//! | `target.rs` | where a rule leads |
//! | `compile.rs` | which rule comes first for a path; loops; the table |
//!
//! In prose, for those who write such files: `docs/rules.md`. Knows nothing of how contents are stored.

mod compile;
mod error;
mod headers;
mod line;
mod pattern;
mod redirects;
mod target;

pub use error::{RuleError, RuleFile};

pub(crate) use compile::{Compiled, Destination, file_at};
pub(crate) use headers::Fields;
pub(crate) use pattern::Paths;

use crate::error::PackError;
use crate::walk::SiteFile;
use headers::Headers;
use redirects::Redirect;

/// Whose form the files have, where it makes a difference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// As Netlify reads them.
    #[default]
    Netlify,
    /// As Cloudflare Pages reads them.
    Cloudflare,
    /// They mean nothing. Nor are they served.
    Off,
}

/// What the files say.
#[derive(Debug)]
pub(crate) struct Rules {
    headers: Headers,
    redirects: Vec<Redirect>,
}

impl Rules {
    /// Reads the files among those that were found; `read` reads one, up to a length, if it is still there.
    pub(crate) fn read<F>(
        found: &[SiteFile<F>],
        dialect: Dialect,
        mut read: impl FnMut(&F, u64) -> Result<Option<Vec<u8>>, PackError>,
    ) -> Result<Rules, PackError> {
        let mut texts = [Vec::new(), Vec::new()];
        for (file, text) in RuleFile::ALL.into_iter().zip(&mut texts) {
            let Some(found) = found.iter().find(|found| found.path == file.path()) else { continue };
            if dialect == Dialect::Off {
                continue;
            }
            *text = read(&found.location, FILE_LEN_MAX + 1)?.unwrap_or_default();
            if text.len() as u64 > FILE_LEN_MAX {
                return Err(PackError::Rules { file, line: 1, column: 1, error: RuleError::FileLength });
            }
        }
        Rules::parse(&texts[0], &texts[1], dialect)
    }

    /// Reads the texts of `_headers` and `_redirects`.
    pub(crate) fn parse(headers: &[u8], redirects: &[u8], dialect: Dialect) -> Result<Rules, PackError> {
        Ok(Rules {
            headers: Headers::parse(headers, dialect).map_err(|error| error.in_file(RuleFile::Headers))?,
            redirects: redirects::parse(redirects, dialect)
                .map_err(|error| error.in_file(RuleFile::Redirects))?,
        })
    }

    /// The fields of what is sent for these, or of what all of one of these have. Those of `else_fields` that the rules do
    /// not name are there too.
    pub(crate) fn fields(&self, asked: &[Paths], else_fields: Fields) -> Fields {
        self.headers.of(asked, else_fields)
    }

    /// The directories below which all has fields of its own.
    pub(crate) fn dirs(&self) -> impl Iterator<Item = &[u8]> {
        self.headers.dirs()
    }

    /// Settles what can be settled; `file` tells where the file at a path is, if the site has one.
    pub(crate) fn compile(
        &self,
        file: impl Fn(&[u8]) -> Option<Vec<u8>>,
        exists: impl Fn(&[u8]) -> bool,
    ) -> Result<Compiled<'_>, PackError> {
        Compiled::new(&self.redirects, file, exists).map_err(|error| error.in_file(RuleFile::Redirects))
    }
}

/// Whether a path is that of such a file, or of one made by compressing it: neither is served.
pub(crate) fn is_hidden(path: &[u8]) -> bool {
    RuleFile::ALL.iter().any(|file| {
        path.strip_prefix(file.path()).is_some_and(|rest| matches!(rest, b"" | b".br" | b".gz" | b".zst"))
    })
}

/// What a file may have, in bytes: ten thousand rules of a hundred bytes.
const FILE_LEN_MAX: u64 = 1 << 20;

/// Reads the texts of both files, and compiles them for a site with files at these paths. For fuzzing.
///
/// # Errors
/// What is wrong in them.
#[doc(hidden)]
pub fn check(headers: &[u8], redirects: &[u8], dialect: Dialect, files: &[&[u8]]) -> Result<(), PackError> {
    let rules = Rules::parse(headers, redirects, dialect)?;
    for path in files {
        drop(rules.fields(&[Paths::one(path)], Fields::default()));
    }
    let has = |path: &[u8]| files.contains(&path);
    rules.compile(|path| has(path).then(|| path.to_vec()), has).map(drop)
}
