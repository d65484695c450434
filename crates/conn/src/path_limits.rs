//! What the server allows each client to do at a path: the limits of sites and of their paths.
//!
//! ```text
//! request ─ route ─▶ site ─ path ─ longest prefix ─▶ PathLimits ─ address ─ rate ─ password ─┬─▶ passes
//!                                                                                            ├─▶ Refusal: 403, 429, 401, 503
//!                                                                                            └─▶ waits for another thread
//! ```
//!
//! The configuration resolves inherited limits when the server starts, so a request has one rule at most, and takes one look into the table.
//! Trusted proxies name the client. A client without an address, behind a Unix socket, has no limit: the permissions of the socket decide
//! about it.

use crate::{
    address_list::AddressList,
    counters::Counters,
    passwords::{PasswordCheck, PasswordRule, PasswordRuleId, PasswordVerdict},
    rate_table::{ClientKey, LimitReportKind, RateTable, RetryAfter},
    request::Request,
    request_rate::{RequestLimit, RequestPace},
    route_table::PathPrefix,
    send_pace::SendRate,
    sites::{Route, SiteId},
};
use std::{fmt, sync::Arc};
use tarpon_http::{basic, target};

/// The limits of the clients of a server.
pub struct ClientLimits {
    /// The table that counts requests.
    pub rates: RateTable,
    /// By the number of the site.
    pub sites: Vec<SitePathLimits>,
    /// The rules of passwords, by number.
    pub passwords: Vec<PasswordRule>,
    /// Called when clients are refused, once in a minute at most.
    pub report: fn(LimitReport<'_>),
}

/// An event of which the log tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitReport<'a> {
    /// Requests are refused for this rule.
    Requests(&'a RequestRule),
    /// Passwords for these paths are wrong.
    Passwords(&'a str),
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
    /// The rule of passwords. `None`: requests need none.
    pub passwords: Option<PasswordRuleId>,
    /// How fast the content of each response leaves. `None`: as fast as the client takes it.
    pub send_rate: Option<SendRate>,
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
    /// It has no credentials for this rule, or wrong ones.
    Unauthorized(PasswordRuleId),
    /// Too many passwords of other clients wait to be verified.
    Busy(RetryAfter),
}

/// The limits of one request.
#[derive(Clone, Copy)]
pub(crate) struct RequestLimits<'l> {
    worker: &'l WorkerLimits,
    paths: &'l PathLimits,
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
    /// Returns the limits of a request. `None`: it has none.
    #[inline(never)]
    pub(crate) fn of(&self, request: &Request<'_>, route: Route<'_>) -> Option<RequestLimits<'_>> {
        // A directory of certificates has no other way to check a name.
        if let Route::Challenge(..) = route {
            return None;
        }
        Some(RequestLimits { worker: self, paths: self.limits.of(route.site(), request) })
    }

    /// Writes the line of the field WWW-Authenticate to the front of `to`. Returns its length, or `None` if it does not fit.
    pub(crate) fn write_challenge(
        &self,
        PasswordRuleId(number): PasswordRuleId,
        to: &mut [u8],
    ) -> Option<usize> {
        let line = &self.limits.passwords[number as usize].challenge;
        to.get_mut(..line.len())?.copy_from_slice(line);
        Some(line.len())
    }
}

impl RequestLimits<'_> {
    /// Checks a request, and counts it. Returns why it is refused, if it is.
    #[inline(never)]
    pub(crate) fn check(&self, request: &Request<'_>, now_us: u64) -> Option<Refusal> {
        let RequestLimits { worker, paths } = *self;
        if let Some(addresses) = &paths.addresses {
            // The address of a malformed list is that of the proxy, which may be allowed.
            if request.client.is_malformed || !addresses.allows(request.client.address) {
                return Some(Refusal::Forbidden);
            }
        }
        let client = request.client.address?;
        let rule = paths.requests.as_deref()?;
        let now_us = worker.start_us + now_us;
        match worker.limits.rates.admit(rule.number, ClientKey::new(client), rule.pace, now_us) {
            Ok(()) => None,
            Err(wait) => {
                worker.report(LimitReportKind::Requests, LimitReport::Requests(rule), now_us);
                Some(Refusal::TooManyRequests(wait))
            }
        }
    }

    /// Returns the rule of passwords that applies. None applies to a redirect to another host or to TLS, nor to a refusal: a client must not send
    /// its password before it uses TLS.
    #[inline]
    pub(crate) fn password_rule(&self, route: Route<'_>) -> Option<PasswordRuleId> {
        match route {
            Route::Site(_) | Route::Mount(..) | Route::Backend(..) => self.paths.passwords,
            Route::RedirectHost(_) | Route::Https(..) | Route::NoSite(..) | Route::Challenge(..) => None,
        }
    }

    /// Returns how fast the content of the response leaves. `None`: as fast as the client takes it.
    #[inline]
    pub(crate) fn send_rate(&self) -> Option<SendRate> {
        self.paths.send_rate
    }

    /// Returns whether a local redirect of a CGI program may lead here: not to what the client of the request could not have got itself.
    #[cold]
    pub(crate) fn allow_redirect(&self, request: &Request<'_>, route: Route<'_>) -> bool {
        let client = request.client;
        let may_have = |list: &AddressList| !client.is_malformed && list.allows(client.address);
        let rule = self.password_rule(route);
        self.paths.addresses.as_deref().is_none_or(may_have) && (rule.is_none() || rule == client.password)
    }

    /// Checks the credentials of a request.
    #[inline(never)]
    pub(crate) fn check_password(
        &self,
        id: PasswordRuleId,
        request: &Request<'_>,
        check: &mut PasswordCheck,
        counters: &Counters,
        now_us: u64,
    ) -> PasswordVerdict {
        let PasswordRuleId(number) = id;
        let rule = &self.worker.limits.passwords[number as usize];
        let mut decoded = [0; basic::CREDENTIALS_LEN_MAX];
        let credentials = basic::credentials(request.fields, &mut decoded);
        let client = request.client.address.map(ClientKey::new);
        let verdict = check.check(rule, id, credentials, client, counters);
        if let PasswordVerdict::Refused(Refusal::Unauthorized(_)) = verdict
            && credentials.is_some()
        {
            let now_us = self.worker.start_us + now_us;
            self.worker.report(LimitReportKind::Passwords, LimitReport::Passwords(&rule.label), now_us);
        }
        verdict
    }
}

impl WorkerLimits {
    /// Tells the log of an event, unless it has told of one of this kind in the last minute.
    #[cold]
    fn report(&self, kind: LimitReportKind, report: LimitReport<'_>, now_us: u64) {
        if self.limits.rates.is_report_due(kind, now_us) {
            (self.limits.report)(report);
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

impl ClientLimits {
    /// Returns whether a site has limits for some paths only.
    pub(crate) fn leave_paths(&self, site: SiteId) -> bool {
        let SitePathLimits { mount, rest, .. } = &self.sites[site.index()];
        let PathLimits { requests, addresses, passwords, send_rate } = rest;
        let has_limits =
            requests.is_some() || addresses.is_some() || passwords.is_some() || send_rate.is_some();
        mount.is_none() && !has_limits
    }

    /// Returns whether a path of a site is one of those that have limits. The path is that of a file, as its site has it: without an escape, a dot
    /// segment or an empty one.
    #[inline(never)]
    pub(crate) fn apply_to_file(&self, site: SiteId, path: &[u8]) -> bool {
        let prefixes = &self.sites[site.index()].prefixes;
        prefixes.iter().any(|(prefix, _)| rest_below(path, prefix).is_some())
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
            Refusal::Unauthorized(_) => counters.requests_unauthorized.add(1),
            // Counted when the password was not verified.
            Refusal::Busy(_) => {}
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
            let requests = Some(Arc::new(RequestRule::new(number, limit, "")));
            PathLimits { requests, ..PathLimits::default() }
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
