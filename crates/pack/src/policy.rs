//! The options of how a site answers, beyond its files and rules.

use crate::rules::ConfiguredRules;
use crate::url_path::dir_of;

/// How a site answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Whether the site is a single-page application: `/index.html` answers for each missing path that is not the path of an asset.
    /// Default: `false`.
    pub spa: bool,
    /// Whether `about.html` is served at `/about`, and `index.html` at its directory. Their file names redirect there. Default: `false`.
    pub clean_urls: bool,
    /// Whether the addresses of pages end in a slash. Default: `Auto`.
    pub trailing_slash: TrailingSlash,
    /// Whether a directory without an `index.html` has a listing. Default: `false`.
    pub listings: bool,
    /// The file names of the pages of directories; the first one that a directory has is its page. Empty: `index.html`. Default: empty.
    pub index: Vec<String>,
    /// Whether browsers may guess another type than Content-Type: without `X-Content-Type-Options: nosniff`. Default: `false`.
    pub allow_sniffing: bool,
    /// Whether responses with content have fields that restrict browsers and break no ordinary site. Default: `false`.
    pub secure_headers: bool,
    /// The value of `Strict-Transport-Security`, if responses have it. Such a site must not be served without TLS: RFC 6797, section 7.2.
    /// Default: `None`.
    pub hsts: Option<String>,
    /// Scripts of every origin may read the responses at these paths, and below them. Each begins with a slash. Default: none.
    pub cors: Vec<String>,
    /// Globs of files whose paths change with their contents, beside those whose names show it. One without a slash is about names, any other about
    /// paths: `*` stands for any characters but a slash, `**` for any directories. Default: none.
    pub immutable: Vec<String>,
    /// The path below which clients see the site, if a mount or a proxy strips it from requests: `/docs`. Redirects and listings of the
    /// site lead below it. Decoded, without a slash at its end; empty: the root of the host. Default: empty.
    pub base: String,
    /// The rules of the configuration, which come before those of the site's own files. Default: none.
    pub rules: ConfiguredRules,
}

impl Policy {
    /// Returns the directory, with its trailing slash, whose page may be the file at a path, and the rank of its name.
    pub(crate) fn index_dir<'p>(&self, path: &'p [u8]) -> Option<(&'p [u8], usize)> {
        let ranks = self.index_names().enumerate();
        ranks.filter_map(|(rank, name)| Some((dir_of(path, name.as_bytes())?, rank))).next()
    }

    /// Returns the names of the pages of directories, in order of precedence.
    pub(crate) fn index_names(&self) -> impl Iterator<Item = &str> {
        let default = self.index.is_empty().then_some("index.html");
        self.index.iter().map(|name| &**name).chain(default)
    }

    /// Returns the fields of the response at a path. Rules may override them.
    pub(crate) fn fields(&self, path: &[u8]) -> impl Iterator<Item = (&'static str, &str)> {
        let types = (!self.allow_sniffing).then_some((SNIFFING, "nosniff"));
        let secure = if self.secure_headers { SECURE } else { &[] };
        let is_open = self.open().any(|at| {
            let rest = path.strip_prefix(at);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
        });
        types
            .into_iter()
            .chain(secure.iter().copied())
            .chain(self.hsts.as_deref().map(|value| ("Strict-Transport-Security", value)))
            .chain(is_open.then_some(("Access-Control-Allow-Origin", "*")))
    }

    /// Returns the path at which clients see a path of the site.
    pub(crate) fn public_path(&self, path: &[u8]) -> Vec<u8> {
        [self.base.as_bytes(), path].concat()
    }

    /// Returns the paths that scripts of every origin may read, with everything below them, without a trailing slash.
    pub(crate) fn open(&self) -> impl Iterator<Item = &[u8]> {
        self.cors.iter().map(|at| at.trim_end_matches('/').as_bytes())
    }
}

/// The field that makes browsers trust Content-Type. Responses with content have it. A 304 does not, as the client has stored the
/// field with the content.
pub(crate) const SNIFFING: &str = "X-Content-Type-Options";

/// Fields that restrict browsers and break no ordinary site. Other sites learn the origin of a visitor and not the page. No other
/// site can embed these pages. A page of another origin that opened one of these pages cannot access it; pages that these pages open
/// can answer.
#[rustfmt::skip]
const SECURE: &[(&str, &str)] = &[
    ("Referrer-Policy",            "strict-origin-when-cross-origin"),
    ("X-Frame-Options",            "SAMEORIGIN"),
    ("Cross-Origin-Opener-Policy", "same-origin-allow-popups"),
];

/// Whether the address of a page ends in a slash. The other form redirects there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TrailingSlash {
    /// The address of a directory does, and that of a file does not.
    #[default]
    Auto,
    /// Every address does.
    Always,
    /// No address does, except for the root.
    Never,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[rustfmt::skip]
    fn cors_path_covers_everything_below_it() {
        let cases: &[(&str, &str, &str, bool)] = &[
            // what it shows    open         path              open
            ("itself",          "/fonts",    "/fonts",         true),
            ("below",           "/fonts",    "/fonts/a.woff2", true),
            ("with a slash",    "/fonts/",   "/fonts/a.woff2", true),
            ("a file",          "/a.json",   "/a.json",        true),
            ("all",             "/",         "/a/b",           true),
            ("another",         "/fonts",    "/fontsize.css",  false),
            ("above",           "/a/b",      "/a",             false),
        ];
        for &(name, open, path, want) in cases {
            let policy = Policy { cors: vec![open.to_owned()], allow_sniffing: true, ..Policy::default() };
            let fields: Vec<_> = policy.fields(path.as_bytes()).collect();
            assert_eq!(fields, if want { vec![("Access-Control-Allow-Origin", "*")] } else { vec![] }, "{name}");
        }
        let policy = Policy { secure_headers: true, ..Policy::default() };
        assert!(policy.fields(b"/").eq([(SNIFFING, "nosniff")].iter().chain(SECURE).copied()));
        assert!(Policy::default().fields(b"/").eq([(SNIFFING, "nosniff")]));
        let policy = Policy { allow_sniffing: true, ..Policy::default() };
        assert_eq!(policy.fields(b"/").count(), 0);
    }
}
