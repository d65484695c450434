//! Errors in a rule file: the position, what is wrong, and a hint.

use std::fmt;
use std::sync::Arc;
use tarpon_site::Printable;

/// A file with rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleFile {
    /// `_headers`.
    Headers,
    /// `_redirects`.
    Redirects,
    /// The file of this name, which is part of the server's configuration and not of the site.
    Configuration(Arc<str>),
}

impl RuleFile {
    /// Returns its name at the root of the site, or that of the file of the configuration.
    pub fn name(&self) -> &str {
        match self {
            RuleFile::Headers => "_headers",
            RuleFile::Redirects => "_redirects",
            RuleFile::Configuration(name) => name,
        }
    }

    /// Returns the paths of the files of a site.
    pub(crate) const PATHS: [&'static [u8]; 2] = [b"/_headers", b"/_redirects"];
}

/// An error with its file and position. Its text ends with a hint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleFileError {
    /// The file.
    pub file: RuleFile,
    /// From 1.
    pub line: u32,
    /// In bytes, from 1.
    pub column: u32,
    /// The error itself.
    pub error: RuleError,
}

impl fmt::Display for RuleFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RuleFileError { file, line, column, error } = self;
        write!(f, "{}:{line}:{column}: {error}; {}", file.name().printable(), error.hint())
    }
}

impl std::error::Error for RuleFileError {}

/// All errors of the rules of a site, at least one: those of `_headers` before those of `_redirects`, each file's by line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleFileErrors(Vec<RuleFileError>);

impl RuleFileErrors {
    /// Returns the errors; `None` if there are none.
    pub(super) fn new(mut errors: Vec<RuleFileError>) -> Option<RuleFileErrors> {
        let file = |error: &RuleFileError| match error.file {
            RuleFile::Configuration(_) => 0,
            RuleFile::Headers => 1,
            RuleFile::Redirects => 2,
        };
        errors.sort_by_key(|error| (file(error), error.line, error.column));
        (!errors.is_empty()).then_some(RuleFileErrors(errors))
    }

    /// Returns the first error.
    pub fn first(&self) -> &RuleFileError {
        &self.0[0]
    }

    /// Returns all errors.
    pub fn iter(&self) -> impl Iterator<Item = &RuleFileError> {
        self.0.iter()
    }
}

impl From<RuleFileError> for RuleFileErrors {
    fn from(error: RuleFileError) -> RuleFileErrors {
        RuleFileErrors(vec![error])
    }
}

/// An error with its position, while the name of the file is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LocatedRuleError {
    /// The number of the file of the configuration. `None`: a file of the site.
    pub(crate) config_file: Option<u32>,
    /// From 1.
    pub(crate) line: u32,
    /// In bytes, from 1.
    pub(crate) column: u32,
    pub(crate) error: RuleError,
}

macro_rules! errors {
    ($($(#[doc = $doc:literal])+ $name:ident: $what:literal, $hint:literal;)*) => {
        /// An error in a rule file.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum RuleError {
            $($(#[doc = $doc])+ $name,)*
        }

        impl RuleError {
            /// Returns what the author of the file can do.
            pub fn hint(self) -> &'static str {
                match self { $(RuleError::$name => $hint,)* }
            }
        }

        impl fmt::Display for RuleError {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(RuleError::$name => $what,)* })
            }
        }
    };
}

errors! {
    /// The file is larger than a mebibyte.
    FileLength: "the file is larger than 1 MiB", "merge rules with placeholders and *";
    /// A control character, or a byte that is not UTF-8.
    Text: "the text has a control character or is not UTF-8", "write the file as UTF-8";
    /// A path without a slash at its start.
    NoSlash: "the path does not begin with /", "write it as in /blog/*";
    /// A rule for one host.
    Host: "rules apply to a site and cannot name a host", "leave the host out, and serve each host's site by itself";
    /// A query in the source.
    SourceQuery: "the source path has a query", "write parameters after the path, as in /store id=:id /blog/:id";
    /// A fragment in the source.
    SourceFragment: "the source path has a fragment, which browsers do not send", "remove it";
    /// A percent sign without two digits, or an escaped slash or NUL.
    Escape: "% needs two hexadecimal digits, and not 2F or 00", "write a literal percent sign as %25";
    /// Two `*`.
    SplatTwice: "the path has more than one *", "use placeholders before the last *, as in /:a/*";
    /// Netlify: a `*` elsewhere than at the end.
    SplatInside: "with --rules netlify, * must be the last path segment", "write it as in /blog/*, or use --rules cloudflare";
    /// A placeholder after a `*`.
    PlaceholderAfterSplat: "a placeholder cannot follow *", "write it as in /:a/*";
    /// Two placeholders in a path segment.
    PlaceholderTwice: "a path segment has more than one placeholder", "match the whole segment with one placeholder";
    /// Two placeholders of the same name.
    NameTwice: "the rule uses this placeholder name twice", "give each placeholder a name of its own";
    /// Too many placeholders and parameters.
    TooManyCaptures: "the rule has more than 16 placeholders and parameters", "match the rest of the path with *";
    /// A source without a target.
    NoTarget: "the rule has no target", "write source and target in one line, as in /old /new 301";
    /// Cloudflare: parameters.
    Parameters: "parameters need --rules netlify", "remove them: a redirect keeps the query anyway";
    /// A parameter without a name or without a value.
    Parameter: "a parameter needs a name, = and a value or placeholder", "write it as in id=:id";
    /// A name that no placeholder of the source has.
    UnknownName: "the source has no placeholder of this name", "add it to the source, or write %3A for a literal colon";
    /// A placeholder in the host of a target.
    PlaceholderInHost: "a placeholder in the host would make the site an open redirect", "write the host in full";
    /// A target that is neither a path nor a URL.
    Target: "the target is neither a path nor begins with http:// or https://", "write it as in /new or https://example.com/new";
    /// A byte that no URI has.
    TargetByte: "a URL cannot have this character", "percent-encode it";
    /// A rewrite with query or fragment.
    RewriteQuery: "a rewrite sends a file, so its target has no query or fragment", "remove them";
    /// A rewrite to another origin.
    Proxy: "a rewrite cannot send content of another host: this server is no proxy", "redirect with 302, or put a proxy in front";
    /// A Netlify function.
    Function: "this server does not run functions", "remove the rule";
    /// A status that is no number of three digits.
    Status: "the status is not a number of three digits", "write it as in /old /new 301";
    /// A status that this server does not send.
    StatusUnknown: "rules cannot have this status", "use 301, 302, 303, 307 or 308 to redirect, or 200, 403, 404, 410, 451, 500 or 503 to send a page";
    /// A status that Cloudflare does not have.
    StatusCloudflare: "--rules cloudflare allows the statuses 200, 301, 302, 303, 307 and 308 only", "use one of these, or --rules netlify";
    /// Cloudflare: `!`.
    Force: "! needs --rules netlify; with --rules cloudflare every rule comes before files", "remove it";
    /// `Country=`
    Country: "Country conditions are not supported", "remove the rule";
    /// `Language=`
    Language: "Language conditions are not supported", "remove the rule";
    /// `Role=`
    Role: "Role conditions are not supported", "remove the rule";
    /// `Cookie=`
    Cookie: "Cookie conditions are not supported", "remove the rule";
    /// `Sign=`
    Sign: "signed requests are not supported", "remove the rule";
    /// Another word after the status.
    TrailingWord: "the rule has text after the status", "remove it, or begin a comment with #";
    /// A rewrite to a file that does not exist.
    NoFile: "the site has no such file", "name an existing file, such as /404.html";
    /// A redirect to a path that the rule matches again.
    Loop: "the redirect is part of a loop", "change the target of a rule in the loop";
    /// An error page for a status that the server itself never sends.
    StatusWithoutPage: "the server has no page of its own for this status", "use 400, 401, 403 to 405, 408, 411 to 414, 416, 417, 421, 429, 431 or 500 to 505; for another status write a redirect with it";
    /// An error page that is too long.
    PageLength: "the page is longer than 64 KiB", "shorten it, or move pictures and styles to other files";
    /// An error page that is not text.
    PageText: "the page is not UTF-8", "save it as UTF-8";
    /// Cloudflare: `/* /index.html 200`.
    CatchAll: "with --rules cloudflare this would send one page for every path, even for files", "remove it, or use --rules netlify";
    /// Too many rules in the table.
    TooManyRules: "a request would have to try more than 1,000 rules with placeholders, parameters or *", "merge rules; rules with plain paths do not count";
    /// Too many different parameters in the table.
    TooManyParameters: "the rules have more than 1,000 different parameters", "let rules share their parameters";
    /// Too many entries that set the access log.
    TooManyLogPaths: "a request would have to try more than 1,000 paths with access-log", "merge paths with placeholders and *";
    /// A rule that is too long.
    RuleLength: "the rule is longer than 64 KiB", "shorten it";
    /// A field before any path, or a second word after a path.
    NoPath: "headers must follow a line with a path alone, not indented", "begin with a path, as in /*";
    /// A field without a colon.
    NoColon: "the header has no colon", "write it as in X-Frame-Options: DENY";
    /// An invalid field name.
    FieldName: "this is not a valid header name", "use letters, digits and hyphens";
    /// A field without a value.
    FieldValue: "the header has no value", "add a value, or remove the line";
    /// A field that only the server may set.
    ServerField: "rules cannot set this header: the server sets it", "remove it";
    /// `Basic-Auth`
    BasicAuth: "this server does not ask for passwords", "put a proxy in front that does";
    /// Netlify: `! Name`.
    Removal: "the removal of headers needs --rules cloudflare", "give the header another value in a later rule";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_text_has_position_problem_and_hint() {
        let (file, error) = (RuleFile::Redirects, RuleError::NoTarget);
        assert_eq!(
            RuleFileError { file, line: 3, column: 12, error }.to_string(),
            "_redirects:3:12: the rule has no target; write source and target in one line, as in /old /new 301"
        );
    }
}
