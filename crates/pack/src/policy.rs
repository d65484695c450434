//! How a site answers, as far as its files do not say: what the caller decides for all of it.

/// What the caller decides for all of a site.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// What is not there, and is not the path of an asset, is answered with `/index.html`, which knows what to make of it.
    pub spa: bool,
    /// `about.html` is at `/about`, and `index.html` at its directory; their names lead there.
    pub clean_urls: bool,
    /// Whether the addresses of pages end in a slash.
    pub trailing_slash: TrailingSlash,
    /// A directory without an `index.html` is answered with a list of what it has.
    pub listings: bool,
    /// Browsers may take a file for another type than the one it is sent as: without `X-Content-Type-Options: nosniff`.
    pub allow_sniffing: bool,
    /// Whatever has content has fields that let browsers do less with it, and break no ordinary site.
    pub secure_headers: bool,
    /// What is sent for these paths, and below them, may be read by scripts of every origin. Each begins with a slash.
    pub cors: Vec<String>,
}

impl Policy {
    /// The fields of what is sent for a path, where no rule says otherwise.
    pub(crate) fn fields(&self, path: &[u8]) -> impl Iterator<Item = (&'static str, &'static str)> {
        let types = (!self.allow_sniffing).then_some((SNIFFING, "nosniff"));
        let secure = if self.secure_headers { SECURE } else { &[] };
        let is_open = self.open().any(|at| {
            let behind = path.strip_prefix(at);
            behind.is_some_and(|behind| behind.is_empty() || behind.starts_with(b"/"))
        });
        types
            .into_iter()
            .chain(secure.iter().copied())
            .chain(is_open.then_some(("Access-Control-Allow-Origin", "*")))
    }

    /// The paths that scripts of every origin may read, with all below them; without a slash behind.
    pub(crate) fn open(&self) -> impl Iterator<Item = &[u8]> {
        self.cors.iter().map(|at| at.trim_end_matches('/').as_bytes())
    }
}

/// The field that makes browsers believe Content-Type. Responses with content have it; a 304 does not repeat it, as the client has
/// stored it with the content.
pub(crate) const SNIFFING: &str = "X-Content-Type-Options";

/// Fields that restrict browsers and break no ordinary site: other sites learn the origin of a visitor and not the page; no other
/// site shows these pages as a part of its own; a page of another origin that opened one of these cannot access it, while the pages
/// that these open can answer.
#[rustfmt::skip]
const SECURE: &[(&str, &str)] = &[
    ("Referrer-Policy",            "strict-origin-when-cross-origin"),
    ("X-Frame-Options",            "SAMEORIGIN"),
    ("Cross-Origin-Opener-Policy", "same-origin-allow-popups"),
];

/// Whether the address of a page ends in a slash. The other one leads there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TrailingSlash {
    /// That of a directory does, and that of a file does not.
    #[default]
    Auto,
    /// All do.
    Always,
    /// None does, but the root.
    Never,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[rustfmt::skip]
    fn a_path_is_open_with_all_below_it() {
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
