//! Routes by host and path: what a request leads to, before anything is planned.
//!
//! ```text
//! request ─┬─ path ─ normalize ─▶ longest prefix ─ whose host matches ─▶ RouteTarget
//!          └─ host ─────────────▶ no such route: the site of the host
//! ```
//!
//! A route applies to the hosts that its name matches, or to all. Of the routes that apply to a request, the one with the longest prefix
//! wins, and of those the one with the most specific host. A prefix consists of whole segments: `/docs` matches `/docs` and `/docs/x`, but
//! not `/docsx`. It is compared with the normalized path, so neither `/a/../docs` nor `/%64ocs` passes it by.

use crate::{
    backend::BackendRoute,
    host_map::HostMap,
    hosts::{HostName, Hosts},
    mount,
    request::{Request, Resource},
    site_backends::{SiteBackends, SiteBackendsTable},
    sites::SiteId,
};
use std::{collections::HashMap, fmt, iter, str::FromStr, sync::Arc};
use tarpon_http::target;

/// The number of a table of routes: a connection has the table of the listener that accepted it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RouteTableId(pub u16);

/// What a route leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteTarget {
    /// A site. It looks up the whole path.
    Site(SiteId),
    /// A site at this prefix. It looks up the rest of the path.
    Mount(SiteId),
    /// A backend. It gets the whole request.
    Backend(BackendRoute),
}

/// A prefix of paths, in whole segments: `/docs`, `/a/b`, or `/` for all.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PathPrefix(
    /// Without a slash at the end, so that of `/` is empty.
    Box<[u8]>,
);

/// The reason why a text is not a [`PathPrefix`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathPrefixError {
    /// It does not begin with a slash.
    Relative,
    /// It has a segment that is `.`, `..` or empty: a normalized path has none, or a site tells it from another path.
    Segment,
    /// It has a `%`, `?` or `#`, or a control character. A prefix is compared with decoded paths.
    Character,
}

/// The reason why a route cannot be added: there is one for the same host and prefix, with this target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteTaken(pub RouteTarget);

/// A table from host and path to target. Without routes by path, the host alone decides.
#[derive(Clone, Debug)]
pub struct RouteTable {
    hosts: Arc<Hosts>,
    fallback: SiteId,
    by_prefix: HashMap<PathPrefix, PrefixRoutes>,
    /// The length of the longest prefix in bytes.
    prefix_len_max: usize,
    /// By the number of a site that answers no request without TLS: the port to redirect to. 0: the site is no such one.
    https_ports: Vec<u16>,
    /// The backends within sites.
    site_backends: SiteBackendsTable,
}

/// What the path of a request leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FoundRoute<'a> {
    /// This site.
    Site(SiteId),
    /// This site, which looks up this part of the path as received. Empty: the mount without a slash.
    Mount(SiteId, &'a [u8]),
    /// This backend.
    Backend(BackendRoute),
}

/// The routes of a prefix.
#[derive(Clone, Debug, Default)]
struct PrefixRoutes {
    by_host: HostMap<RouteTarget>,
    any_host: Option<RouteTarget>,
}

impl RouteTable {
    /// Returns a table without routes by path.
    pub fn new(hosts: Arc<Hosts>) -> RouteTable {
        let fallback = hosts.default().unwrap_or(SiteId::FIRST);
        RouteTable::with_fallback(hosts, fallback)
    }

    /// Returns a table without routes by path. `fallback` responds to requests that are for no site, and to invalid ones.
    pub fn with_fallback(hosts: Arc<Hosts>, fallback: SiteId) -> RouteTable {
        RouteTable {
            hosts,
            fallback,
            by_prefix: HashMap::new(),
            prefix_len_max: 0,
            https_ports: Vec::new(),
            site_backends: SiteBackendsTable::default(),
        }
    }

    /// Adds the route of all paths with this prefix at the hosts that `host` matches; `None`: at all hosts, also at unknown ones.
    ///
    /// # Errors
    /// The table has a route for this host and prefix.
    pub fn add(
        &mut self,
        host: Option<&HostName>,
        prefix: PathPrefix,
        target: RouteTarget,
    ) -> Result<(), RouteTaken> {
        self.prefix_len_max = self.prefix_len_max.max(prefix.0.len());
        let routes = self.by_prefix.entry(prefix).or_default();
        match (host, routes.any_host) {
            (Some(host), _) => routes.by_host.insert(host, target).map_err(|taken| RouteTaken(*taken)),
            (None, Some(taken)) => Err(RouteTaken(taken)),
            (None, None) => {
                routes.any_host = Some(target);
                Ok(())
            }
        }
    }

    /// Redirects requests for a site without TLS to the same target with it, at this port.
    pub fn redirect_to_https(&mut self, site: SiteId, port: u16) {
        self.https_ports.resize(self.https_ports.len().max(site.index() + 1), 0);
        self.https_ports[site.index()] = port;
    }

    /// Sets the backends within a site, wherever it answers.
    pub fn set_site_backends(&mut self, site: SiteId, backends: SiteBackends) {
        self.site_backends.set(site, backends);
    }

    /// Returns the backends within sites.
    pub(crate) fn site_backends(&self) -> &SiteBackendsTable {
        &self.site_backends
    }

    /// Returns the port that requests for a site without TLS are redirected to.
    #[inline]
    pub(crate) fn https_port(&self, site: SiteId) -> Option<u16> {
        self.https_ports.get(site.index()).copied().filter(|&port| port != 0)
    }

    /// Returns the sites by host, which decide if no route by path does.
    pub(crate) fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    /// Returns the site that responds while the site of a request is unknown.
    pub(crate) fn fallback(&self) -> SiteId {
        self.fallback
    }

    /// Returns whether every request is for the first site, so that no lookup is needed. It may still be redirected to TLS.
    pub(crate) fn always_leads_to_first_site(&self) -> bool {
        self.by_prefix.is_empty() && self.site_backends.is_empty() && self.hosts.always_match_first_site()
    }

    /// Finds the route of a request by its path. `None`: its host decides, as it does for a target that is invalid or not a path.
    /// `is_for_any_host`: whether the routes of all hosts apply, too.
    pub(crate) fn find<'a>(&self, request: &Request<'a>, is_for_any_host: bool) -> Option<FoundRoute<'a>> {
        let Ok(Resource::Path { path: received, .. }) = request.resource else { return None };
        if self.by_prefix.is_empty() {
            return None;
        }
        let mut scratch = [0; target::PATH_LEN_MAX];
        let path = target::normalize(received, &mut scratch).ok()?;
        let (prefix, target) = self.prefixes(path).find_map(|(prefix, routes)| {
            let of_host = request.authority.and_then(|host| routes.by_host.find(host));
            Some((prefix, of_host.copied().or(routes.any_host.filter(|_| is_for_any_host))?))
        })?;
        Some(match target {
            RouteTarget::Site(site) => FoundRoute::Site(site),
            RouteTarget::Backend(to) => FoundRoute::Backend(to),
            RouteTarget::Mount(site) => {
                let segment_count = prefix.iter().filter(|&&byte| byte == b'/').count();
                FoundRoute::Mount(site, mount::rest_below(received, segment_count))
            }
        })
    }

    /// Returns whether the server has a host, although no site answers all its paths: a route by path names it, or no name is known at all.
    pub(crate) fn has_host(&self, host: Option<&[u8]>) -> bool {
        let is_named = |host| self.by_prefix.values().any(|routes| routes.by_host.find(host).is_some());
        host.is_some_and(is_named) || !self.by_prefix.is_empty() && self.hosts.is_unnamed()
    }

    /// Returns each prefix of a normalized path that has routes, with them, the longest prefix first.
    fn prefixes<'p>(&self, path: &'p [u8]) -> impl Iterator<Item = (&'p [u8], &PrefixRoutes)> {
        // The whole path, and what precedes each of its slashes. A longer part cannot match: this bounds the cost of a long path.
        let whole = (path.len() <= self.prefix_len_max).then_some(path);
        let mut rest = &path[..path.len().min(self.prefix_len_max + 1)];
        let parts = iter::from_fn(move || {
            rest = &rest[..rest.iter().rposition(|&byte| byte == b'/')?];
            Some(rest)
        });
        whole.into_iter().chain(parts).filter_map(|part| Some((part, self.by_prefix.get(part)?)))
    }
}

impl PathPrefix {
    /// Returns the decoded path without a slash at its end; that of `/` is empty.
    pub fn as_str(&self) -> &str {
        str::from_utf8(&self.0).expect("a prefix is made of text")
    }
}

impl fmt::Display for PathPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "/" } else { self.as_str() })
    }
}

impl std::borrow::Borrow<[u8]> for PathPrefix {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl FromStr for PathPrefix {
    type Err = PathPrefixError;

    fn from_str(text: &str) -> Result<PathPrefix, PathPrefixError> {
        let relative = text.strip_prefix('/').ok_or(PathPrefixError::Relative)?;
        if text.bytes().any(|byte| b"%?#".contains(&byte) || byte.is_ascii_control()) {
            return Err(PathPrefixError::Character);
        }
        let segments = relative.strip_suffix('/').unwrap_or(relative);
        if segments.is_empty() && relative.is_empty() {
            return Ok(PathPrefix(Box::default()));
        }
        if segments.split('/').any(|segment| matches!(segment, "" | "." | "..")) {
            return Err(PathPrefixError::Segment);
        }
        Ok(PathPrefix(format!("/{segments}").into_bytes().into()))
    }
}

impl fmt::Display for PathPrefixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PathPrefixError::Relative => "expected a path that begins with /, such as /docs",
            PathPrefixError::Segment => "expected a path without empty segments, . and ..",
            PathPrefixError::Character => "expected a decoded path: no %, ?, # or control characters",
        })
    }
}

impl std::error::Error for PathPrefixError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h1;
    use proptest::prelude::*;
    use tarpon_http::head;

    #[test]
    #[rustfmt::skip]
    fn the_site_of_a_mount_gets_the_rest_of_the_path() {
        let mut table = RouteTable::new(Arc::new(Hosts::new(None)));
        for (number, prefix) in ["/docs", "/docs/api", "/"].into_iter().enumerate() {
            let target = RouteTarget::Mount(SiteId::new(number));
            table.add(None, prefix.parse().expect("a prefix"), target).expect("each prefix once");
        }
        let cases: &[(&str, &str, usize, &str)] = &[
            // case                 target                    site  rest
            ("below",               "/docs/a?/b",             0,    "/a"),
            ("without a slash",     "/docs",                  0,    ""),
            ("with a slash",        "/docs/",                 0,    "/"),
            ("the longest",         "/docs/api/v1",           1,    "/v1"),
            ("another segment",     "/docs/apis",             0,    "/apis"),
            ("at the root",         "/a",                     2,    "/a"),
            ("the root",            "/",                      2,    "/"),
            ("as received",         "/x/..//../%64ocs/./%61", 0,    "/./%61"),
            ("up and back",         "/docs/api/../a",         0,    "/api/../a"),
            ("into the other",      "/docs/../docs/api/a",    1,    "/a"),
            ("an escaped slash",    "/docs/a%2fb",            9,    ""),
        ];
        for &(name, target, site, rest) in cases {
            let wire = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
            let (head, _) = head::parse(wire.as_bytes()).unwrap().expect("a whole head");
            let request = h1::request(&head, wire.as_bytes(), head.host().expect("a host"));
            let want = (site < 9).then(|| FoundRoute::Mount(SiteId::new(site), rest.as_bytes()));
            assert_eq!(table.find(&request, true), want, "{name}: {target}");
        }
    }

    /// A route: host, prefix, and the number of its site.
    type RouteRow = (Option<&'static str>, &'static str, usize);

    #[test]
    #[rustfmt::skip]
    fn the_longest_prefix_wins_and_then_the_host() {
        let table = table(&[
            (None,                   "/docs",       1),
            (None,                   "/docs/api/",  2),
            (None,                   "/a b",        3),
            (Some("one.org"),        "/docs",       4),
            (Some("*.two.org"),      "/",           5),
            (Some("*.x.two.org"),    "/docs",       6),
            (Some("www.x.two.org"),  "/docs/api",   7),
        ]);
        let cases: &[(&str, &str, &str, Option<usize>)] = &[
            // case                       host             target                  site
            ("no route",                  "a",             "/",                    None),
            ("the prefix",                "a",             "/docs",                Some(1)),
            ("with a slash",              "a",             "/docs/",               Some(1)),
            ("below it",                  "a",             "/docs/x",              Some(1)),
            ("with a query",              "a",             "/docs?/docs/api",      Some(1)),
            ("another segment",           "a",             "/docsx",               None),
            ("another case",              "a",             "/Docs",                None),
            ("not at the start",          "a",             "/x/docs",              None),
            ("empty segment",             "a",             "//docs",               None),
            ("longer prefix",             "a",             "/docs/api",            Some(2)),
            ("below the longer",          "a",             "/docs/api/x/y",        Some(2)),
            ("not the longer",            "a",             "/docs/apix",           Some(1)),
            ("dot segments",              "a",             "/a/../docs",           Some(1)),
            ("out of it",                 "a",             "/docs/../x",           None),
            ("out of the longer",         "a",             "/docs/api/../x",       Some(1)),
            ("escaped",                   "a",             "/%64ocs",              Some(1)),
            ("escaped dots",              "a",             "/x/%2e%2E/docs",       Some(1)),
            ("decoded once",              "a",             "/%2564ocs",            None),
            ("a space",                   "a",             "/a%20b/c",             Some(3)),
            ("an escaped slash",          "a",             "/docs%2fapi",          None),
            ("a bad escape",              "a",             "/docs/%zz",            None),
            ("host of the same prefix",   "ONE.org:80",    "/docs",                Some(4)),
            ("longer prefix, any host",   "one.org",       "/docs/api",            Some(2)),
            ("root of a host",            "a.two.org",     "/x",                   Some(5)),
            ("any host before the root",  "a.two.org",     "/docs",                Some(1)),
            ("longer wildcard",           "a.x.two.org",   "/docs",                Some(6)),
            ("name",                      "www.x.two.org", "/docs/api",            Some(7)),
            ("shorter of the wildcard",   "www.x.two.org", "/docs/x",              Some(6)),
            ("absolute, its host",        "a",             "http://one.org/docs",  Some(4)),
            ("absolute, no path",         "one.org",       "http://b.two.org",     Some(5)),
            ("no path",                   "a.two.org",     "*",                    None),
        ];
        for &(name, host, target, want) in cases {
            assert_eq!(find(&table, host, target), want, "{name}: {target} at {host}");
        }
    }

    #[test]
    fn a_route_is_added_once() {
        let mut table = table(&[(None, "/a", 1), (Some("b.org"), "/a", 2)]);
        let mut add = |host: Option<&str>, prefix: &str| {
            let host: Option<HostName> = host.map(|host| host.parse().expect("a host"));
            table.add(host.as_ref(), prefix.parse().expect("a prefix"), RouteTarget::Site(SiteId::new(3)))
        };
        let taken = |number| Err(RouteTaken(RouteTarget::Site(SiteId::new(number))));
        assert_eq!(add(None, "/a/"), taken(1));
        assert_eq!(add(Some("B.org."), "/a"), taken(2));
        assert_eq!((add(Some("c.org"), "/a"), add(None, "/")), (Ok(()), Ok(())));
        assert_eq!(find(&table, "b.org", "/a"), Some(2));
        assert_eq!(find(&table, "c.org", "/"), Some(3));
    }

    #[test]
    #[rustfmt::skip]
    fn prefixes_are_validated() {
        use PathPrefixError::*;
        let cases: &[(&str, &str, Result<&str, PathPrefixError>)] = &[
            // case              text            prefix
            ("root",             "/",            Ok("")),
            ("one segment",      "/a",           Ok("/a")),
            ("slash at the end", "/a/b/",        Ok("/a/b")),
            ("other characters", "/ä.b/..c",     Ok("/ä.b/..c")),
            ("empty",            "",             Err(Relative)),
            ("relative",         "a",            Err(Relative)),
            ("two slashes",      "//",           Err(Segment)),
            ("empty segment",    "/a//b",        Err(Segment)),
            ("empty at the end", "/a//",         Err(Segment)),
            ("dot",              "/./a",         Err(Segment)),
            ("two dots",         "/a/..",        Err(Segment)),
            ("escape",           "/%61",         Err(Character)),
            ("query",            "/a?b",         Err(Character)),
            ("control",          "/a\n",         Err(Character)),
        ];
        for &(name, text, want) in cases {
            let prefix = text.parse::<PathPrefix>();
            assert_eq!(prefix.as_ref().map(|prefix| &*prefix.0).map_err(|&error| error), want.map(str::as_bytes), "{name}");
        }
    }

    proptest! {
        #[test]
        fn the_route_is_that_of_a_slow_search(
            routes in prop::collection::vec((prop::option::of(host()), path(), 0..9usize), 0..8),
            requests in prop::collection::vec((host(), path()), 1..8),
        ) {
            let mut table = RouteTable::new(Arc::new(Hosts::new(None)));
            let mut accepted = Vec::new();
            for (host, prefix, site) in &routes {
                let host: Option<HostName> = host.map(|host| host.parse().unwrap());
                let Ok(parsed) = prefix.parse::<PathPrefix>() else { continue };
                if table.add(host.as_ref(), parsed, RouteTarget::Site(SiteId::new(*site))).is_ok() {
                    accepted.push((host, segments(prefix), *site));
                }
            }
            for (host, path) in requests {
                let host = host.replace('*', "w");
                let applies = |name: &Option<HostName>| match name.as_ref().map(ToString::to_string) {
                    None => true,
                    Some(name) => name == host || name.strip_prefix('*').is_some_and(|end| host.ends_with(end)),
                };
                let name_len = |name: &Option<HostName>| {
                    name.as_ref().map(|name| (!name.is_wildcard(), name.to_string().len()))
                };
                let wanted = segments(&path);
                let slow = accepted
                    .iter()
                    .filter(|(name, prefix, _)| applies(name) && wanted.starts_with(prefix))
                    .max_by_key(|(name, prefix, _)| (prefix.len(), name_len(name)));
                prop_assert_eq!(find(&table, &host, &path), slow.map(|(_, _, site)| *site), "{} at {}", path, host);
            }
        }
    }

    /// Returns the segments of a path without empty ones, after dot segments are removed.
    fn segments(path: &str) -> Vec<&str> {
        let mut kept = Vec::new();
        for segment in path.split('/') {
            match segment {
                "" => {}
                ".." => drop(kept.pop()),
                segment => kept.push(segment),
            }
        }
        kept
    }

    fn host() -> impl Strategy<Value = &'static str> {
        prop::sample::select(&["a", "x.a", "y.x.a", "*.a", "*.x.a", "b"][..])
    }

    fn path() -> impl Strategy<Value = String> {
        let segment = prop::sample::select(&["a", "b", "ab", "a.", ".."][..]);
        (prop::collection::vec(segment, 0..5), any::<bool>()).prop_map(|(segments, slash)| {
            format!("/{}{}", segments.join("/"), if slash && !segments.is_empty() { "/" } else { "" })
        })
    }

    fn table(routes: &[RouteRow]) -> RouteTable {
        let mut table = RouteTable::new(Arc::new(Hosts::new(None)));
        for &(host, prefix, site) in routes {
            let host: Option<HostName> = host.map(|host| host.parse().expect("a host"));
            let target = RouteTarget::Site(SiteId::new(site));
            table.add(host.as_ref(), prefix.parse().expect("a prefix"), target).expect("a new route");
        }
        table
    }

    /// Returns the number of the site that a request leads to.
    fn find(table: &RouteTable, host: &str, target: &str) -> Option<usize> {
        let method = if target == "*" { "OPTIONS" } else { "GET" };
        let wire = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let (head, _) = head::parse(wire.as_bytes()).expect(target).expect(target);
        let request = h1::request(&head, wire.as_bytes(), head.host().expect(host));
        table.find(&request, true).map(|target| match target {
            FoundRoute::Site(site) => site.index(),
            other => panic!("{other:?} in a table of sites"),
        })
    }
}
