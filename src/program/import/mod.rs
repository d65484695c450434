//! The configuration of another server becomes one of tarpon.
//!
//! ```text
//! nginx.conf ─ nginx/syntax ─▶ directives ─ nginx ─┐
//!                                                  ├─▶ plan ─ lower ─▶ draft ─ checked by config::read ─▶ tarpon.toml
//! Caddyfile ── caddy/syntax ─▶ directives ─ caddy ─┘                     └──────── report ──────────────▶ what was left out
//! ```
//!
//! | module | content |
//! |---|---|
//! | `source` | files with their directives, each with its place; limits for all of them |
//! | `nginx` | reads the directives of nginx |
//! | `caddy` | reads the directives of Caddy |
//! | `path` | the paths of a directive: a prefix, one path, or a pattern with `*` |
//! | `regex` | regular expressions that are such patterns |
//! | `plan` | the sites of both servers, in the same form |
//! | `lower` | sections of tarpon for these sites |
//! | `limits` | the sections of limits among them |
//! | `users` | users with a password, and files of them |
//! | `draft` | sections and options, and their text; removes what the reader of tarpon refuses |
//! | `report` | what was left out, what differs, and what is not needed |
//!
//! A directive either becomes an option or a line of the report. A directive that closes paths never opens them: if it has no counterpart,
//! the paths stay closed.

mod caddy;
mod draft;
mod limits;
mod lower;
mod nginx;
mod path;
mod plan;
mod regex;
mod report;
mod source;
mod users;

use crate::UserError;
pub use report::{ImportReport, Remark, RemarkKind};
pub use source::SourceAccess;
use std::path::Path;
pub use users::HashOutput;

/// The server whose configuration is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportSyntax {
    /// `nginx.conf`.
    Nginx,
    /// A Caddyfile of Caddy 2.
    Caddy,
}

/// A configuration of tarpon that was made of that of another server.
#[derive(Debug)]
pub struct Imported {
    /// The content of `tarpon.toml`.
    pub toml: String,
    /// The directives that were left out, that differ, or that are not needed.
    pub report: ImportReport,
    /// Whether the content has hashes of passwords: other users of the machine must not read it.
    pub has_hashes: bool,
}

/// Reads the configuration file of another server, and the files that it includes. `hashes` tells whether the result may have hashes of
/// passwords.
///
/// # Errors
/// A file is unreadable, malformed, or too large. The error names file, line and column.
pub fn import(syntax: ImportSyntax, path: &Path, hashes: HashOutput) -> Result<Imported, UserError> {
    let mut sources = source::SourceFiles::new(SourceAccess::Files);
    let text = sources.open(path)?;
    import_source(syntax, &mut sources, path, &text, hashes)
}

/// Reads the text of a configuration of another server as if it were in a file at this path. `access` tells whether includes are read.
///
/// # Errors
/// As for [`import`].
pub fn import_text(
    syntax: ImportSyntax,
    path: &Path,
    text: &str,
    access: SourceAccess,
    hashes: HashOutput,
) -> Result<Imported, UserError> {
    let mut sources = source::SourceFiles::new(access);
    sources.add(path, text.len())?;
    import_source(syntax, &mut sources, path, text, hashes)
}

fn import_source(
    syntax: ImportSyntax,
    sources: &mut source::SourceFiles,
    path: &Path,
    text: &str,
    hashes: HashOutput,
) -> Result<Imported, UserError> {
    let mut report = ImportReport::default();
    let plan = match syntax {
        ImportSyntax::Nginx => nginx::plan(sources, path, text, &mut report)?,
        ImportSyntax::Caddy => caddy::plan(sources, path, text, hashes, &mut report)?,
    };
    let draft = lower::lower(plan, &mut report);
    let (toml, has_hashes) = draft.checked_text(sources, &mut report)?;
    report.name_files(sources);
    Ok(Imported { toml, report, has_hashes })
}
