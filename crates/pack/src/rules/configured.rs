//! Rules that the configuration of a server adds to a site. They stand before those of the site's own files.
//!
//! ```text
//! configuration ─ entries with positions ─┐
//!                                         ├─▶ rules, in this order
//! _headers, _redirects ─ lines ───────────┘
//! ```
//!
//! A pattern, a header and a target have the syntax of the files, so both kinds of rules share one parser.

use super::dialect::Dialect;
use super::error::{LocatedRuleError, RuleError, RuleFile, RuleFileError};
use super::headers::{HeaderRule, HeaderRules};
use super::line::RuleToken;
use super::pattern::Pattern;
use super::redirects::{self, RedirectRule};
use std::sync::Arc;
use tarpon_site::STATUS_PAGE_CODES;
use tarpon_site::rules::{LOG_PATH_COUNT_MAX, LogPathRow};

/// The rules that a configuration adds to a site.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfiguredRules {
    /// The names of the files that positions refer to.
    pub files: Vec<Arc<str>>,
    /// The entries of headers, in order. They count as if they stood at the start of `_headers`.
    pub headers: Vec<HeaderEntry>,
    /// The redirects and rewrites, in order. They count as if they stood at the start of `_redirects`.
    pub redirects: Vec<RedirectEntry>,
    /// Options of paths, in order. The last entry for a path that has a value counts.
    pub paths: Vec<PathEntry>,
    /// Pages that take the place of the server's own error pages.
    pub error_pages: Vec<ErrorPage>,
}

/// Options of the paths that a pattern matches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathEntry {
    /// The pattern of the paths, as in `/downloads/*`.
    pub path: RuleText,
    /// Whether directories without an index have listings.
    pub listings: Option<bool>,
    /// The value of Cache-Control. It counts as an entry of headers behind all others.
    pub cache: Option<RuleText>,
    /// Whether the access log has requests for these paths, missing ones included. `Some(false)` keeps errors out of it too. `Some(true)` is
    /// for a path below one that is kept out; it starts no log.
    pub access_log: Option<bool>,
}

/// A page of the site that the server sends as an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorPage {
    /// The status. With 404, the page takes the place of `/404.html`; a `404.html` in a directory below still comes first.
    pub status: u16,
    /// The path of an HTML file of the site, at most 64 KiB long unless the status is 404.
    pub path: RuleText,
}

/// Headers for the paths that a pattern matches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderEntry {
    /// The pattern of the paths, as in `/assets/*`.
    pub path: RuleText,
    /// The headers to add, each as in `X-Frame-Options: DENY`.
    pub set: Vec<RuleText>,
    /// The names of headers to remove before the others are added: those of earlier entries, and the server's own defaults.
    pub remove: Vec<RuleText>,
}

/// A redirect or rewrite.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RedirectEntry {
    /// The pattern of the paths, then the parameters, as in `/store id=:id`.
    pub from: RuleText,
    /// The target, as in `/blog/:splat`.
    pub to: RuleText,
    /// The status. `None`: the default of the dialect.
    pub status: Option<u16>,
    /// Whether the rule comes before a file of that path.
    pub force: bool,
}

/// A text of the configuration, with its position for errors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleText {
    /// The text.
    pub text: String,
    /// Where it begins.
    pub position: RulePosition,
}

/// A position in a file of the configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RulePosition {
    /// The index of the file in [`ConfiguredRules::files`].
    pub file: u32,
    /// From 1.
    pub line: u32,
    /// From 1.
    pub column: u32,
}

impl ConfiguredRules {
    /// Returns whether there are no rules.
    pub fn is_empty(&self) -> bool {
        let ConfiguredRules { files: _, headers, redirects, paths, error_pages } = self;
        headers.is_empty() && redirects.is_empty() && paths.is_empty() && error_pages.is_empty()
    }

    /// Returns the error of each entry that has one, apart from those that depend on the files of the site.
    pub fn errors(&self, dialect: Dialect) -> Vec<(RulePosition, RuleError)> {
        let dialect = dialect.of_rules();
        let headers = self.headers.iter().filter_map(|entry| entry.rule(dialect).err());
        let redirects = self.redirects.iter().filter_map(|entry| entry.rule(dialect).err());
        let position = |LocatedRuleError { config_file, line, column, error }| {
            (RulePosition { file: config_file.unwrap_or_default(), line, column }, error)
        };
        let paths = self.paths.iter().filter_map(|entry| {
            entry.cache_rule(dialect).transpose().or_else(|| entry.pattern().err().map(Err))?.err()
        });
        let pages = self.error_pages.iter().filter_map(|page| page.check().err());
        headers.chain(redirects).chain(paths).chain(pages).map(position).collect()
    }

    /// Returns the pages for statuses other than 404, whose page has a record of its own.
    pub(super) fn status_pages(&self) -> impl Iterator<Item = &ErrorPage> {
        self.error_pages.iter().filter(|page| page.status != 404)
    }

    /// Returns the path of the page for 404.
    pub(super) fn not_found_page(&self) -> Option<&RuleText> {
        self.error_pages.iter().rfind(|page| page.status == 404).map(|page| &page.path)
    }

    /// Returns a function that tells whether a directory, with its trailing slash, has a listing, if an entry says so.
    ///
    /// # Errors
    /// A pattern is invalid.
    pub(crate) fn listed(&self) -> Result<impl Fn(&[u8]) -> Option<bool>, RuleFileError> {
        let entries = self.paths.iter().filter_map(|entry| Some((entry.pattern(), entry.listings?)));
        let located = |error| self.locate(error, RuleFile::Headers);
        let patterns = entries.map(|(pattern, is_listed)| Ok((pattern.map_err(located)?, is_listed)));
        let patterns = patterns.collect::<Result<Vec<_>, RuleFileError>>()?;
        Ok(move |dir: &[u8]| {
            let found = patterns.iter().rfind(|(pattern, _)| pattern.captures(dir).is_some());
            found.map(|(_, is_listed)| *is_listed)
        })
    }

    /// Returns the section of the paths that the access log leaves out, if there are any.
    ///
    /// # Errors
    /// A pattern is invalid, or there are too many.
    pub(super) fn log_paths(&self) -> Result<Option<Vec<u8>>, RuleFileError> {
        let entries = self.paths.iter().filter_map(|entry| Some((entry, entry.access_log?)));
        // All paths are logged anyway, so entries before the first that is off change nothing.
        let entries = entries.skip_while(|(_, is_logged)| *is_logged).enumerate();
        let rows = entries.map(|(number, (entry, is_logged))| match number < LOG_PATH_COUNT_MAX {
            true => entry.log_path(is_logged),
            false => Err(entry.path.error(RuleError::TooManyLogPaths)),
        });
        let rows = rows.collect::<Result<Vec<_>, _>>();
        let rows = rows.map_err(|error| self.locate(error, RuleFile::Headers))?;
        Ok((!rows.is_empty()).then(|| rows.concat()))
    }

    /// Parses the entries of headers. Adds the error of each entry that has one, and leaves that entry out.
    pub(super) fn header_rules(
        &self,
        dialect: Dialect,
        errors: &mut Vec<LocatedRuleError>,
    ) -> Vec<HeaderRule> {
        let headers = self.headers.iter().map(|entry| entry.rule(dialect));
        let caches = self.paths.iter().filter_map(|entry| entry.cache_rule(dialect).transpose());
        headers.chain(caches).filter_map(|rule| rule.map_err(|error| errors.push(error)).ok()).collect()
    }

    /// Parses the redirects and rewrites. Adds the error of each entry that has one, and leaves that entry out.
    pub(super) fn redirect_rules(
        &self,
        dialect: Dialect,
        errors: &mut Vec<LocatedRuleError>,
    ) -> Vec<RedirectRule> {
        let rules = self.redirects.iter().map(|entry| entry.rule(dialect));
        rules.filter_map(|rule| rule.map_err(|error| errors.push(error)).ok()).collect()
    }

    /// Returns an error with the name of its file; `file` is the one whose lines have no other.
    pub(super) fn locate(&self, error: LocatedRuleError, file: RuleFile) -> RuleFileError {
        let LocatedRuleError { config_file, line, column, error } = error;
        let file = match config_file {
            None => file,
            Some(number) => {
                let name = self.files.get(number as usize).cloned();
                RuleFile::Configuration(name.unwrap_or_else(|| "configuration".into()))
            }
        };
        RuleFileError { file, line, column, error }
    }
}

impl HeaderEntry {
    fn rule(&self, dialect: Dialect) -> Result<HeaderRule, LocatedRuleError> {
        let texts = |texts: &[RuleText]| texts.iter().try_for_each(|text| text.check());
        self.path.check().and_then(|()| texts(&self.remove)).and_then(|()| texts(&self.set))?;
        let remove = self.remove.iter().map(|name| name.token().trim());
        let set = self.set.iter().map(|field| field.token().trim());
        HeaderRules::entry(self.path.token(), remove, set, dialect)
    }
}

impl PathEntry {
    /// Returns the pattern, which matches directories with their trailing slash.
    fn pattern(&self) -> Result<Pattern, LocatedRuleError> {
        self.path.check()?;
        Pattern::parse(self.path.token(), Dialect::Netlify, RuleFile::Headers)
    }

    /// Returns the row of the section of log paths.
    fn log_path(&self, is_logged: bool) -> Result<Vec<u8>, LocatedRuleError> {
        let pattern = self.pattern()?;
        let row = LogPathRow { is_logged, optional_slash: pattern.loose, pattern: &pattern.steps() };
        row.encode().ok_or_else(|| self.path.error(RuleError::RuleLength))
    }

    /// Returns the rule that sets Cache-Control.
    fn cache_rule(&self, dialect: Dialect) -> Result<Option<HeaderRule>, LocatedRuleError> {
        let Some(cache) = &self.cache else { return Ok(None) };
        let field = RuleText { text: format!("Cache-Control: {}", cache.text), position: cache.position };
        let entry = HeaderEntry { path: self.path.clone(), set: vec![field], remove: vec![] };
        entry.rule(dialect).map(Some)
    }
}

impl ErrorPage {
    fn check(&self) -> Result<(), LocatedRuleError> {
        self.path.check()?;
        match () {
            () if !self.path.text.starts_with('/') => Err(self.path.token().error(RuleError::NoSlash)),
            () if self.status == 204 || !STATUS_PAGE_CODES.contains(&self.status) => {
                Err(self.path.token().error(RuleError::StatusWithoutPage))
            }
            () => Ok(()),
        }
    }
}

impl RedirectEntry {
    fn rule(&self, dialect: Dialect) -> Result<RedirectRule, LocatedRuleError> {
        self.from.check().and_then(|()| self.to.check())?;
        // A file has no way to write a space in a target.
        if self.to.text.contains([' ', '\t']) {
            return Err(self.to.error(RuleError::TargetByte));
        }
        let mut status = RuleText { position: self.to.position, ..RuleText::default() };
        status.text = self.status.map(|status| status.to_string()).unwrap_or_default();
        if self.force {
            // `_redirects` has the mark behind a status, so the default needs to be written.
            status.text = format!("{}!", self.status.unwrap_or(redirects::default_status(dialect)));
        }
        let from = self.from.token();
        let is_space = |byte: &u8| matches!(byte, b' ' | b'\t');
        let parts = from.text.split(is_space).filter(|part| !part.is_empty());
        let mut tokens: Vec<_> = parts.map(|text| RuleToken { text, ..from }).collect();
        if tokens.is_empty() {
            return Err(from.error(RuleError::NoSlash));
        }
        tokens.push(self.to.token());
        tokens.extend((!status.text.is_empty()).then(|| status.token()));
        redirects::parse_rule(tokens.into_iter(), dialect)
    }
}

impl RuleText {
    /// Returns an error at its position.
    pub(super) fn error(&self, error: RuleError) -> LocatedRuleError {
        self.token().error(error)
    }

    fn token(&self) -> RuleToken<'_> {
        let RulePosition { file, line, column } = self.position;
        RuleToken { text: self.text.as_bytes(), line, column, config_file: Some(file) }
    }

    /// Rejects control characters, which could end a line of a message.
    fn check(&self) -> Result<(), LocatedRuleError> {
        match self.text.chars().any(|char| char.is_ascii_control() && char != '\t') {
            true => Err(self.token().error(RuleError::Text)),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tarpon_site::rules::LogPaths;

    fn text(text: &str, line: u32) -> RuleText {
        RuleText { text: text.to_owned(), position: RulePosition { file: 0, line, column: 5 } }
    }

    #[test]
    #[rustfmt::skip]
    fn errors_have_the_position_of_their_value() {
        use Dialect::{Cloudflare, Netlify, Off};
        let header = |path: &str, set: &[&str], remove: &[&str]| ConfiguredRules {
            headers: vec![HeaderEntry {
                path: text(path, 1),
                set: set.iter().zip(10..).map(|(field, line)| text(field, line)).collect(),
                remove: remove.iter().zip(20..).map(|(name, line)| text(name, line)).collect(),
            }],
            ..ConfiguredRules::default()
        };
        let redirect = |from: &str, to: &str, status: u16, force: bool| ConfiguredRules {
            redirects: vec![RedirectEntry {
                from: text(from, 1),
                to: text(to, 2),
                status: (status > 0).then_some(status),
                force,
            }],
            ..ConfiguredRules::default()
        };
        let path = |path: &str, cache: &str| ConfiguredRules {
            paths: vec![PathEntry { path: text(path, 1), cache: (!cache.is_empty()).then(|| text(cache, 2)), ..PathEntry::default() }],
            ..ConfiguredRules::default()
        };
        let page = |status: u16, path: &str| ConfiguredRules {
            error_pages: vec![ErrorPage { status, path: text(path, 1) }],
            ..ConfiguredRules::default()
        };
        let cases = [
            // case                 rules                                          dialect     line, error
            ("a header",            header("/*", &["X-A: b"], &[]),                Netlify,    None),
            ("two headers",         header("/:a/*", &["X-A: b", "B: :c"], &[]),    Off,        None),
            ("a removal",           header("/*", &[], &["X-A"]),                   Netlify,    None),
            ("no slash",            header("a", &["X-A: b"], &[]),                 Netlify,    Some((1, RuleError::NoSlash))),
            ("an empty path",       header("", &["X-A: b"], &[]),                  Netlify,    Some((1, RuleError::NoSlash))),
            ("no colon",            header("/*", &["X-A: b", "X-B"], &[]),         Netlify,    Some((11, RuleError::NoColon))),
            ("no value",            header("/*", &["X-A: "], &[]),                 Netlify,    Some((10, RuleError::FieldValue))),
            ("no name",             header("/*", &[": b"], &[]),                   Netlify,    Some((10, RuleError::FieldName))),
            ("a mark of removal",   header("/*", &["! X-A"], &[]),                 Cloudflare, Some((10, RuleError::NoColon))),
            ("two lines",           header("/*", &["X-A: b\r\nX-B: c"], &[]),      Netlify,    Some((10, RuleError::Text))),
            ("of the server",       header("/*", &["Content-Length: 3"], &[]),     Netlify,    Some((10, RuleError::ServerField))),
            ("removes a length",    header("/*", &[], &["content-length"]),        Netlify,    Some((20, RuleError::ServerField))),
            ("removes two lines",   header("/*", &[], &["X-A\n"]),                 Netlify,    Some((20, RuleError::Text))),
            ("a redirect",          redirect("/a", "/b", 0, false),                Netlify,    None),
            ("with parameters",     redirect("/a id=:id", "/b/:id", 302, false),   Netlify,    None),
            ("parameters, refused", redirect("/a id=:id", "/b/:id", 302, false),   Cloudflare, Some((1, RuleError::Parameters))),
            ("forced",              redirect("/a", "/b", 0, true),                 Netlify,    None),
            ("forced, refused",     redirect("/a", "/b", 0, true),                 Cloudflare, Some((2, RuleError::Force))),
            ("a status",            redirect("/a", "/b", 418, false),              Netlify,    Some((2, RuleError::StatusUnknown))),
            ("no source",           redirect(" ", "/b", 0, false),                 Netlify,    Some((1, RuleError::NoSlash))),
            ("no target",           redirect("/a", "", 0, false),                  Netlify,    Some((2, RuleError::Target))),
            ("a space in a target", redirect("/a", "/b c", 0, false),              Netlify,    Some((2, RuleError::TargetByte))),
            ("an unknown name",     redirect("/a", "/:b", 0, false),               Netlify,    Some((2, RuleError::UnknownName))),
            ("a proxy",             redirect("/a", "https://b.org/", 200, false),  Netlify,    Some((2, RuleError::Proxy))),
            ("options of a path",   path("/a/*", "max-age=60"),                    Netlify,    None),
            ("a path, twice *",     path("/*/*", ""),                              Netlify,    Some((1, RuleError::SplatTwice))),
            ("a cache, twice *",    path("/*/*", "no-store"),                      Netlify,    Some((1, RuleError::SplatTwice))),
            ("two lines of cache",  path("/a", "no-store\nX: y"),                  Netlify,    Some((2, RuleError::Text))),
            ("an error page",       page(404, "/a.html"),                          Netlify,    None),
            ("another error page",  page(503, "/a.html"),                          Netlify,    None),
            ("a status of rules",   page(410, "/a.html"),                          Netlify,    Some((1, RuleError::StatusWithoutPage))),
            ("an error, no path",   page(404, "a.html"),                           Netlify,    Some((1, RuleError::NoSlash))),
            ("two splats",          redirect("/*/*", "/b", 0, false),              Netlify,    Some((1, RuleError::SplatInside))),
        ];
        for (name, rules, dialect, want) in cases {
            let got: Vec<_> = rules.errors(dialect).into_iter().map(|(at, error)| (at.line, at.column, error)).collect();
            let want: Vec<_> = want.into_iter().map(|(line, error)| (line, 5, error)).collect();
            assert_eq!(got, want, "{name}");
        }
    }

    /// A path, and whether it is logged.
    type PathSwitch<'c> = (&'c str, Option<bool>);
    /// The case, the entries, and the rows of the section, or the line of an error.
    type LogPathCase<'c> = (&'c str, &'c [PathSwitch<'c>], Result<&'c [bool], (u32, RuleError)>);

    #[test]
    #[rustfmt::skip]
    fn only_entries_that_keep_requests_out_of_the_log_have_a_section() {
        let rules = |entries: &[PathSwitch<'_>]| ConfiguredRules {
            paths: entries.iter().zip(1..).map(|(&(path, access_log), line)| {
                PathEntry { path: text(path, line), access_log, ..PathEntry::default() }
            }).collect(),
            ..ConfiguredRules::default()
        };
        let many = vec![("/a", Some(false)); LOG_PATH_COUNT_MAX + 2];
        let cases: &[LogPathCase<'_>] = &[
            // case                entries                                                       rows, or line and error
            ("no entry",           &[],                                                          Ok(&[])),
            ("another option",     &[("/*", None)],                                              Ok(&[])),
            ("on alone",           &[("/*", Some(true))],                                        Ok(&[])),
            ("off",                &[("/*", Some(false))],                                       Ok(&[false])),
            ("on, then off",       &[("/a", Some(true)), ("/*", Some(false))],                   Ok(&[false])),
            ("off, then on",       &[("/*", Some(false)), ("/b", None), ("/a/*", Some(true))],   Ok(&[false, true])),
            ("an invalid pattern", &[("/*", Some(false)), ("/*/*", Some(true))],                 Err((2, RuleError::SplatTwice))),
            ("not a path",         &[("a", Some(false))],                                        Err((1, RuleError::NoSlash))),
            ("as many as may be",  &many[..LOG_PATH_COUNT_MAX],                                  Ok(&[false; LOG_PATH_COUNT_MAX])),
            ("too many",           &many,                                                        Err((1001, RuleError::TooManyLogPaths))),
        ];
        for (name, entries, want) in cases {
            let got = rules(entries).log_paths().map_err(|error| (error.line, error.error)).map(|section| {
                let paths = section.map(|section| LogPaths::new(&section).expect("a section"));
                paths.iter().flat_map(LogPaths::all).map(|(_, is_logged)| is_logged).collect::<Vec<_>>()
            });
            assert_eq!(got.as_deref(), want.as_ref().copied(), "{name}");
        }
    }
}
