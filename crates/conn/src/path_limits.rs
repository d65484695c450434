//! What the server allows each client to do at a path: the limits of sites and of their paths.
//!
//! ```text
//! request ─ route ─▶ site ─ path ─ longest prefix ─▶ PathLimits ─ address, then rate ─▶ RateTable ─┬─▶ passes
//!                                                                                                  └─▶ Refusal: 403, 429
//! ```
//!
//! The configuration resolves inherited limits when the server starts, so a request has one rule at most, and takes one look into the table.
//! Trusted proxies name the client. A client without an address, behind a Unix socket, has no limit: the permissions of the socket decide
//! about it.

use crate::{
    address_list::AddressList,
    counters::Counters,
    rate_table::{ClientKey, RateTable, RetryAfter},
    request::Request,
    request_rate::{RequestLimit, RequestPace},
    route_table::PathPrefix,
    sites::{Route, SiteId},
};
use std::{fmt, sync::Arc};
use tarpon_http::target;

/// The limits of the clients of a server.
pub struct ClientLimits {
    /// The table that counts requests.
    pub rates: RateTable,
    /// By the number of the site.
    pub sites: Vec<SitePathLimits>,
    /// Called when clients are refused, once in a minute at most.
    pub report: fn(LimitReport<'_>),
}

/// An event of which the log tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitReport<'a> {
    /// Requests are refused for this rule.
    Requests(&'a RequestRule),
}

/// The limits of a site.
#[derive(Clone, Debug, Default)]
pub struct SitePathLimits {
    /// The mount of the site. Prefixes apply to the path below it.
    pub mount: Option<PathPrefix>,
    /// The limits of the paths with each prefix.
    pub prefixes: Vec<(PathPrefix, PathLimits)>,
    /// The limits of all other paths.
    pub rest: PathLimits,
}

/// The limits of some paths.
#[derive(Clone, Debug, Default)]
pub struct PathLimits {
    /// How many requests an address may send. `None`: any number.
    pub requests: Option<Arc<RequestRule>>,
    /// The addresses that get responses. `None`: all.
    pub addresses: Option<Arc<AddressList>>,
}

/// A limit of requests.
#[derive(Debug, PartialEq, Eq)]
pub struct RequestRule {
    /// The number of the rule in the table of rates. Two rules with the same number share a limit.
    number: u64,
    limit: RequestLimit,
    pace: RequestPace,
    label: Box<str>,
}

/// The limits of clients in one worker.
pub(crate) struct WorkerLimits {
    pub(crate) limits: Arc<ClientLimits>,
    /// The time of the table of rates at which the clock of the worker was 0.
    pub(crate) start_us: u64,
}

/// The reason why a client gets no response to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Its address is not among those that get responses.
    Forbidden,
    /// It has sent too many.
    TooManyRequests(RetryAfter),
}

impl RequestRule {
    /// Returns a rule. `label`: the paths that it applies to, for the log.
    pub fn new(number: u64, limit: RequestLimit, label: &str) -> RequestRule {
        RequestRule { number, limit, pace: limit.pace(), label: label.into() }
    }

    /// Returns the limit.
    pub fn limit(&self) -> RequestLimit {
        self.limit
    }

    /// Returns the paths that it applies to.
    pub fn label(&self) -> &str {
        &self.label
    }
}

impl WorkerLimits {
    /// Checks a request, and counts it. Returns why it is refused, if it is.
    #[inline(never)]
    pub(crate) fn check(&self, request: &Request<'_>, route: Route<'_>, now_us: u64) -> Option<Refusal> {
        // A directory of certificates has no other way to check a name.
        if let Route::Challenge(..) = route {
            return None;
        }
        let limits = self.limits.of(route.site(), request);
        if let Some(addresses) = &limits.addresses {
            // The address of a malformed list is that of the proxy, which may be allowed.
            if request.client.is_malformed || !addresses.allows(request.client.address) {
                return Some(Refusal::Forbidden);
            }
        }
        let client = request.client.address?;
        let rule = limits.requests.as_deref()?;
        let now_us = self.start_us + now_us;
        match self.limits.rates.admit(rule.number, ClientKey::new(client), rule.pace, now_us) {
            Ok(()) => None,
            Err(wait) => {
                if self.limits.rates.is_report_due(now_us) {
                    (self.limits.report)(LimitReport::Requests(rule));
                }
                Some(Refusal::TooManyRequests(wait))
            }
        }
    }
}

impl ClientLimits {
    /// Returns the limits of a request to a site.
    fn of(&self, site: SiteId, request: &Request<'_>) -> &PathLimits {
        let limits = &self.sites[site.index()];
        match limits.prefixes.is_empty() {
            true => &limits.rest,
            false => limits.of_path(request.path()),
        }
    }
}

impl SitePathLimits {
    /// Returns the limits of a path as received. An invalid one has those of the rest.
    fn of_path(&self, received: Option<&[u8]>) -> &PathLimits {
        let (mut scratch, mut strict) = ([0; target::PATH_LEN_MAX], [0; target::PATH_LEN_MAX + 1]);
        let Some(path) = received.and_then(|path| target::normalize_for_server(path, &mut scratch).ok())
        else {
            return &self.rest;
        };
        let path = strict_path(path, &mut strict);
        let path = self.mount.as_ref().and_then(|mount| rest_below(path, mount)).unwrap_or(path);
        let matching = self.prefixes.iter().filter(|(prefix, _)| rest_below(path, prefix).is_some());
        matching.max_by_key(|(prefix, _)| prefix.as_str().len()).map_or(&self.rest, |(_, limits)| limits)
    }
}

/// Returns a normalized path without empty segments and without escaped slashes. A program behind the server may read `//a` and `/x%2f../a` as
/// `/a`, so the limits of `/a` apply to both.
fn strict_path<'s>(path: &[u8], to: &'s mut [u8; target::PATH_LEN_MAX + 1]) -> &'s [u8] {
    let (mut len, mut rest) = (0, path);
    while !rest.is_empty() {
        let slash = |at: usize| rest[at] == b'/' || rest[at..].starts_with(b"%2F");
        let end = (0..rest.len()).find(|&at| slash(at)).unwrap_or(rest.len());
        let (segment, behind) = rest.split_at(end);
        rest = behind.strip_prefix(b"/").or_else(|| behind.strip_prefix(b"%2F")).unwrap_or(behind);
        match segment {
            b"" | b"." => {}
            b".." => len = to[..len].iter().rposition(|&byte| byte == b'/').unwrap_or(0),
            _ => {
                // Each segment follows a slash, but perhaps the first.
                to[len] = b'/';
                to[len + 1..][..segment.len()].copy_from_slice(segment);
                len += 1 + segment.len();
            }
        }
    }
    &to[..len]
}

/// Returns what follows a prefix. `None`: the path does not have it.
fn rest_below<'p>(path: &'p [u8], prefix: &PathPrefix) -> Option<&'p [u8]> {
    path.strip_prefix(prefix.as_str().as_bytes()).filter(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

impl Refusal {
    /// Counts a refused request.
    #[cold]
    pub(crate) fn count(self, counters: &Counters) {
        match self {
            Refusal::Forbidden => counters.requests_denied.add(1),
            Refusal::TooManyRequests(_) => counters.requests_limited.add(1),
        }
    }
}

impl fmt::Debug for ClientLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientLimits").field("sites", &self.sites).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_counts_however_a_path_is_written() {
        let prefix = |text: &str| text.parse::<PathPrefix>().expect(text);
        let limits = |number| {
            let limit = RequestLimit { rate: "1/s".parse().expect("a rate"), burst: None };
            PathLimits { requests: Some(Arc::new(RequestRule::new(number, limit, ""))), addresses: None }
        };
        let prefixes =
            vec![(prefix("/api"), limits(1)), (prefix("/api/login"), limits(2)), (prefix("/a b"), limits(3))];
        let unmounted = SitePathLimits { mount: None, prefixes, rest: limits(0) };
        let mounted = SitePathLimits { mount: Some(prefix("/docs")), ..unmounted.clone() };
        #[rustfmt::skip]
        let cases: &[(&str, &str, u64)] = &[
            // what it shows        path below a mount, if there is one    number of the limit
            ("the root",            "/",                    0),
            ("the prefix",          "/api",                 1),
            ("with a slash",        "/api/",                1),
            ("below",               "/api/x",               1),
            ("the longest",         "/api/login",           2),
            ("below the longest",   "/api/login/x",         2),
            ("another segment",     "/apis",                0),
            ("a longer segment",    "/api/logins",          1),
            ("an escape",           "/%61pi/login",         2),
            ("an escaped space",    "/a%20b/c",             3),
            ("another case",        "/API",                 0),
            ("dot segments",        "/x/../api/./login",    2),
            ("out of it",           "/api/login/../../x",   0),
            ("empty segments",      "//api///login",        2),
            ("an escaped slash",    "/api%2flogin",         2),
            ("its dots",            "/x%2F../api/login",    2),
            ("dots behind it",      "/x/..%2fapi%2f/login", 2),
            ("above the root",      "/x%2f..%2f..%2fapi",   1),
            ("an invalid path",     "/api/%zz",             0),
        ];
        for &(name, path, want) in cases {
            let number = |limits: &SitePathLimits, path: &str| {
                limits.of_path(Some(path.as_bytes())).requests.as_ref().map(|rule| rule.number)
            };
            assert_eq!(number(&unmounted, path), Some(want), "{name}: {path}");
            assert_eq!(number(&mounted, &format!("/docs{path}")), Some(want), "{name}: /docs{path}");
        }
        assert_eq!(unmounted.of_path(None).requests.as_ref().map(|rule| rule.number), Some(0));
        // The longest path of short segments.
        let long = "/a".repeat(target::PATH_LEN_MAX / 2);
        assert_eq!(strict_path(long.as_bytes(), &mut [0; target::PATH_LEN_MAX + 1]), long.as_bytes());
    }
}
