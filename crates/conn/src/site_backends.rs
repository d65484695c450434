//! Backends within sites: paths that a program answers instead of a file.
//!
//! ```text
//! site ─ path ─ normalize ─┬─ longest prefix ────────────────▶ BackendRoute
//!                          ├─ a segment ends with a suffix ──▶ BackendRoute
//!                          ├─ the backend of all paths ──────▶ BackendRoute
//!                          └─ none: the image of the site
//! ```
//!
//! The path is that which the site looks up: below its mount, if it has one.

use crate::{backend::BackendRoute, route_table::PathPrefix, sites::SiteId};
use tarpon_http::target;

/// The backends of one site.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SiteBackends {
    /// For the paths below each prefix.
    pub prefixes: Vec<(PathPrefix, BackendRoute)>,
    /// For the paths with a segment that ends with this text, which is not empty, such as `.cgi`. The first that fits is taken.
    pub suffixes: Vec<(Box<str>, BackendRoute)>,
    /// For all other paths.
    pub all: Option<BackendRoute>,
}

/// The backends of all sites, by the number of the site.
#[derive(Clone, Debug, Default)]
pub(crate) struct SiteBackendsTable(Vec<SiteBackends>);

impl SiteBackendsTable {
    /// Sets the backends of a site.
    pub(crate) fn set(&mut self, site: SiteId, backends: SiteBackends) {
        let len = self.0.len().max(site.index() + 1);
        self.0.resize(len, SiteBackends::default());
        self.0[site.index()] = backends;
    }

    /// Returns whether no site has backends.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Finds the backend of a path as received. `None`: the site answers, also for an invalid path or none.
    pub(crate) fn find(&self, site: SiteId, received: Option<&[u8]>) -> Option<BackendRoute> {
        let SiteBackends { prefixes, suffixes, all } = self.0.get(site.index())?;
        let mut scratch = [0; target::PATH_LEN_MAX];
        // Empty: the mount without a slash.
        let received = received.filter(|path| !path.is_empty())?;
        let path = target::normalize_for_server(received, &mut scratch).ok()?;
        let matching = prefixes.iter().filter(|(prefix, _)| is_below(path, prefix.as_str().as_bytes()));
        let longest = matching.max_by_key(|(prefix, _)| prefix.as_str().len()).map(|(_, route)| *route);
        let has_suffix = |suffix: &str| {
            path.split(|&byte| byte == b'/').any(|segment| segment.ends_with(suffix.as_bytes()))
        };
        let by_suffix = || suffixes.iter().find(|(suffix, _)| has_suffix(suffix)).map(|(_, route)| *route);
        longest.or_else(by_suffix).or(*all)
    }
}

/// Returns whether a path is a prefix or lies below it.
fn is_below(path: &[u8], prefix: &[u8]) -> bool {
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{BackendId, BackendLimits};

    #[test]
    #[rustfmt::skip]
    fn longest_prefix_wins_then_a_suffix() {
        let route = |number| BackendRoute { backend: BackendId(number), limits: BackendLimits::default() };
        let backends = SiteBackends {
            prefixes: vec![("/cgi-bin".parse().unwrap(), route(1)), ("/cgi-bin/x".parse().unwrap(), route(2))],
            suffixes: vec![(".cgi".into(), route(3)), (".php".into(), route(4)), (".cgi.php".into(), route(5))],
            all: None,
        };
        let all = SiteBackends { all: Some(route(6)), ..backends.clone() };
        let mut table = SiteBackendsTable::default();
        assert!(table.is_empty());
        table.set(SiteId::new(1), backends);
        table.set(SiteId::new(3), all);
        let cases: &[(&str, usize, &str, Option<u16>)] = &[
            // case                site  path                  backend
            ("the prefix",         1,    "/cgi-bin",           Some(1)),
            ("below",              1,    "/cgi-bin/a/b",       Some(1)),
            ("the longest",        1,    "/cgi-bin/x/y",       Some(2)),
            ("another segment",    1,    "/cgi-bins/a",        None),
            ("escaped",            1,    "/%63gi-bin/a",       Some(1)),
            ("dot segments",       1,    "/a/../cgi-bin/a",    Some(1)),
            ("out of it",          1,    "/cgi-bin/../a",      None),
            ("an escaped slash",   1,    "/cgi-bin%2fa",       None),
            ("one behind it",      1,    "/cgi-bin/a%2fb",     Some(1)),
            ("NUL",                1,    "/cgi-bin/a%00",      None),
            ("the suffix",         1,    "/a/b.cgi",           Some(3)),
            ("a path behind it",   1,    "/a/b.cgi/c/d",       Some(3)),
            ("escaped suffix",     1,    "/a/b%2ecgi",         Some(3)),
            ("another suffix",     1,    "/a/b.cgi~",          None),
            ("a prefix before it", 1,    "/cgi-bin/b.cgi",     Some(1)),
            ("another site",       0,    "/cgi-bin/a",         None),
            ("a site between",     2,    "/cgi-bin/a",         None),
            ("a site behind",      4,    "/cgi-bin/a",         None),
            ("the mount alone",    1,    "",                   None),
            ("another suffix",     1,    "/a.php",             Some(4)),
            ("the first suffix",   1,    "/a.cgi.php",         Some(4)),
            ("all: the root",      3,    "/",                  Some(6)),
            ("all: any path",      3,    "/a/b",               Some(6)),
            ("all: a prefix",      3,    "/cgi-bin/x",         Some(2)),
            ("all: a suffix",      3,    "/a.cgi",             Some(3)),
            ("all: an invalid one", 3,   "/a%00",              None),
            ("all: the mount alone", 3,  "",                   None),
        ];
        for &(name, site, path, want) in cases {
            let found = table.find(SiteId::new(site), Some(path.as_bytes()));
            assert_eq!(found.map(|route| route.backend.0), want, "{name}: {path}");
        }
        assert_eq!(table.find(SiteId::new(1), None), None);
    }
}
