//! What is wrong in a file of rules, where, and what to do about it.

use crate::error::PackError;
use std::fmt;

/// A file of rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleFile {
    /// `_headers`.
    Headers,
    /// `_redirects`.
    Redirects,
}

impl RuleFile {
    pub(crate) const ALL: [RuleFile; 2] = [RuleFile::Headers, RuleFile::Redirects];

    /// Its name, at the root of the site.
    pub fn name(self) -> &'static str {
        match self {
            RuleFile::Headers => "_headers",
            RuleFile::Redirects => "_redirects",
        }
    }

    pub(crate) fn path(self) -> &'static [u8] {
        match self {
            RuleFile::Headers => b"/_headers",
            RuleFile::Redirects => b"/_redirects",
        }
    }
}

/// What is wrong, where in its file: line and column count from 1, the column in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LocatedRuleError {
    pub(crate) line: u32,
    pub(crate) column: u32,
    pub(crate) error: RuleError,
}

impl LocatedRuleError {
    pub(crate) fn in_file(self, file: RuleFile) -> PackError {
        let LocatedRuleError { line, column, error } = self;
        PackError::Rules { file, line, column, error }
    }
}

macro_rules! errors {
    ($($(#[doc = $doc:literal])+ $name:ident: $what:literal, $hint:literal;)*) => {
        /// Why a file of rules is refused: one for each rule about rules.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum RuleError {
            $($(#[doc = $doc])+ $name,)*
        }

        impl RuleError {
            /// What can be done about it.
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
    /// The file has more than a mebibyte.
    FileLength: "the file has more than 1 MiB", "say with placeholders and * what many lines say";
    /// A control character, or a byte that is not UTF-8.
    Text: "this is no text: a control character, or not UTF-8", "write the file as UTF-8";
    /// A path that begins with no slash.
    NoSlash: "a path begins with /", "write it as in /blog/*";
    /// A rule for one host.
    Host: "a rule for one host: this server knows the site, not its hosts", "leave the host out, and serve each host's site by itself";
    /// A query in the source.
    SourceQuery: "a query is not part of a path", "write parameters behind the path, as in /store id=:id /blog/:id";
    /// A fragment in the source.
    SourceFragment: "a browser keeps what stands behind # to itself", "leave it out";
    /// A percent sign without two digits, or one that hides a slash or NUL.
    Escape: "% stands before two hexadecimal digits, other than 2F and 00", "write a percent sign itself as %25";
    /// Two `*`.
    SplatTwice: "there is one * in a path at most", "write placeholders before it, as in /:a/*";
    /// Netlify: a `*` that is not the last.
    SplatInside: "* stands at the end of a path, behind a slash (Netlify; other places are for --rules cloudflare)", "write it as in /blog/*";
    /// A placeholder behind a `*`.
    PlaceholderBehindSplat: "a placeholder stands before *, not behind it", "write it as in /:a/*";
    /// Two placeholders in a segment.
    PlaceholderTwice: "there is one placeholder between two slashes at most", "let one hold all of it";
    /// Two of the same name.
    NameTwice: "this name is taken in this rule", "give each placeholder a name of its own";
    /// More than can be held.
    TooManyCaptures: "a rule holds 16 placeholders and parameters at most", "let * hold the rest of the path";
    /// A source and nothing else.
    NoTarget: "a rule has a source and a target", "write both in one line, as in /old /new 301";
    /// Cloudflare: parameters.
    Parameters: "parameters are matched under --rules netlify only", "leave them out: the query goes along by itself";
    /// A parameter without name, or without value.
    Parameter: "a parameter is a name, = and a value or placeholder", "write it as in id=:id";
    /// A name that the source does not have.
    UnknownName: "the source has no placeholder of this name", "name it there, or write %3A for a colon that is one";
    /// A name where the host of a target is.
    PlaceholderInHost: "a placeholder must not decide the host, or anybody could make this site lead anywhere", "write the host in full";
    /// A target that is neither.
    Target: "a target is a path, or begins with http:// or https://", "write it as in /new or https://example.com/new";
    /// A byte that a URI cannot have.
    TargetByte: "this character is none that a URI has", "percent-encode it";
    /// A rewrite with query or fragment.
    RewriteQuery: "what is sent in place of a path is a file, without query or fragment", "leave them out";
    /// A rewrite to another origin.
    Proxy: "this server is no proxy: what it sends with this status comes from the site", "redirect there, as with 302, or have a proxy before it";
    /// A function of Netlify's.
    Function: "functions of the platform do not run here", "leave the rule out";
    /// No number of three digits.
    Status: "a status is a number of three digits", "write it as in /old /new 301";
    /// A status that this server does not send.
    StatusUnknown: "this status cannot be given", "use 301, 302, 303, 307 or 308 to lead elsewhere, or 200, 403, 404, 410, 451, 500 or 503 to send a page";
    /// Cloudflare: a status it has not.
    StatusCloudflare: "Cloudflare knows the statuses 200, 301, 302, 303, 307 and 308", "use one of these, or --rules netlify";
    /// Cloudflare: `!`.
    Force: "! is Netlify's; under --rules cloudflare every rule comes before files", "leave it out";
    /// `Country=`
    Country: "rules for countries need their platform", "leave the rule out";
    /// `Language=`
    Language: "rules for languages need their platform", "leave the rule out";
    /// `Role=`
    Role: "rules for roles need their platform", "leave the rule out";
    /// `Cookie=`
    Cookie: "rules for cookies need their platform", "leave the rule out";
    /// `Sign=`
    Sign: "signed requests need their platform", "leave the rule out";
    /// Another word behind the status.
    TrailingWord: "nothing stands behind the status", "leave it out";
    /// What is sent in place of a path is not there.
    NoFile: "the site has no such file", "name one that it has, such as /404.html";
    /// A rule leads to where it applies again.
    Loop: "this leads round in a circle", "let one of the rules lead elsewhere";
    /// Cloudflare: `/* /index.html 200`.
    CatchAll: "under --rules cloudflare this would send one page for every path, files too", "leave it out, or use --rules netlify";
    /// More rules than are tried for a request.
    TooManyRules: "more than 1,000 rules with placeholders, parameters or * would be tried for a request", "say with one rule what many say; plain paths do not count";
    /// A rule that is too long.
    RuleLength: "this rule is longer than 64 KiB", "say it shorter";
    /// Fields before any path.
    NoPath: "headers belong to a path, which stands before them, not indented", "begin with a path, as in /*";
    /// No colon.
    NoColon: "a header is a name, a colon and a value", "write it as in X-Frame-Options: DENY";
    /// No name.
    FieldName: "this is no name of a header", "use letters, digits and hyphens";
    /// A value that is empty.
    FieldValue: "a header has a value", "leave the line out";
    /// A field that the server owns.
    ServerField: "this header says how the message is sent, and is the server's", "leave it out";
    /// `Basic-Auth`
    BasicAuth: "passwords need their platform", "put a proxy that asks for them before it";
    /// Netlify: `! Name`.
    Removal: "taking headers away is for --rules cloudflare", "say the value anew in a later rule";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_where_what_and_what_to_do() {
        let wrong = LocatedRuleError { line: 3, column: 12, error: RuleError::Country };
        assert_eq!(
            wrong.in_file(RuleFile::Redirects).to_string(),
            "_redirects:3:12: rules for countries need their platform; leave the rule out"
        );
    }
}
