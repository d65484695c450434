//! The limits of clients: from the configuration to what workers look up, and the memory in which all of them count.
//!
//! ```text
//! supervisor ── maps before the first fork ─▶ LimitTables ◀─ count ── workers of all servers
//! settings, sites ─ resolve ─▶ ClientLimits: for each path what applies to it, inherited values included
//! ```
//!
//! The tables outlive a server, so a reload forgives no client. A successor after an upgrade begins with tables of its own.

#[cfg(feature = "program")]
use super::passwords::{UserTable, VerifiedPasswords};
#[cfg(feature = "program")]
use crate::base::client_limits::PasswordLimit;
use crate::{
    base::{
        client_limits::{LimitChoice, PathLimit},
        settings::Settings,
    },
    data::{
        connection_limit::{CONNECTION_WORD_COUNT, ConnectionLimit, ConnectionOwner, ConnectionTable},
        password_turns::PasswordTurns,
    },
    sys::shared::SharedArray,
};
#[cfg(feature = "program")]
use std::ops::Range;
use std::{
    collections::BTreeMap,
    hash::{BuildHasher, RandomState},
    io,
    num::NonZeroU32,
    sync::{Arc, atomic::AtomicU64},
};
use tarpon_conn::{
    AddressEntry, AddressList, ClientLimits, LimitReport, PasswordRule, PasswordRuleId, PathLimits,
    PathPrefix, RATE_WORD_COUNT, RateTable, RequestLimit, RequestRate, RequestRule, SitePathLimits,
};

/// What all servers of a supervisor count of clients. Memory that no client has touched is not used.
#[derive(Clone, Debug)]
pub(crate) struct LimitTables {
    rates: SharedWords,
    connections: ConnectionTable,
    turns: PasswordTurns,
    #[cfg(feature = "program")]
    verified: VerifiedPasswords,
    /// Secret, so that no client knows which clients share a set of a table with it.
    keys: RandomState,
}

/// Words of shared memory.
#[derive(Clone, Debug)]
struct SharedWords(Arc<SharedArray<AtomicU64>>);

/// The limits of a site, and what the log calls it.
#[derive(Clone, Copy)]
pub(crate) struct SiteLimitsSource<'a> {
    pub(crate) mount: Option<&'a PathPrefix>,
    pub(crate) label: Option<&'a str>,
    pub(crate) paths: &'a [PathLimit],
}

impl LimitTables {
    /// Maps tables that are shared with all processes forked later.
    pub(crate) fn new() -> io::Result<LimitTables> {
        let rates = SharedWords(Arc::new(SharedArray::zeros(RATE_WORD_COUNT)?));
        let keys = RandomState::new();
        let connections = SharedArray::zeros(CONNECTION_WORD_COUNT)?;
        let connections = ConnectionTable::new(Arc::new(connections), keys.clone());
        let turns = PasswordTurns::new(keys.clone())?;
        #[cfg(feature = "program")]
        let verified = VerifiedPasswords::new()?;
        Ok(LimitTables {
            rates,
            connections,
            turns,
            #[cfg(feature = "program")]
            verified,
            keys,
        })
    }

    /// Returns the turns in which workers with one connection verify passwords.
    pub(crate) fn password_turns(&self) -> &PasswordTurns {
        &self.turns
    }

    /// Forgets the connections of processes that have exited, by the places of their counters.
    #[cfg(feature = "program")]
    pub(crate) fn forget_connections(&self, owners: Range<usize>) {
        self.connections.forget(owners);
    }

    /// Returns which connections are accepted. `None`: all. `has_lists`: a listener has addresses of its own; `owner`: the process that holds connections; `owner_count`:
    /// how many processes of the server do.
    pub(crate) fn connection_limit(
        &self,
        settings: &Settings,
        has_lists: bool,
        owner: ConnectionOwner,
        owner_count: usize,
    ) -> Option<ConnectionLimit> {
        let addresses = address_list(&settings.allow, &settings.deny);
        let count_max = settings.max_connections_per_ip;
        if addresses.is_none() && count_max.is_none() && !has_lists {
            return None;
        }
        let (table, trust) = (self.connections.clone(), Arc::new(settings.proxy_trust.clone()));
        Some(ConnectionLimit::new(table, count_max, owner, owner_count, trust, addresses))
    }

    /// Returns a rule, whose number depends on nothing but what it says: it keeps its counts if a reload changes other rules.
    fn rule(&self, rate: RequestRate, burst: Option<NonZeroU32>, label: &str) -> Arc<RequestRule> {
        let limit = RequestLimit { rate, burst };
        let number = self.keys.hash_one((label, rate.to_string(), limit.burst()));
        Arc::new(RequestRule::new(number, limit, label))
    }
}

impl AsRef<[AtomicU64]> for SharedWords {
    fn as_ref(&self) -> &[AtomicU64] {
        &self.0
    }
}

/// Returns the limits of the clients of a server. `None`: there are none.
pub(crate) fn resolve<'a>(
    settings: &Settings,
    sites: impl Iterator<Item = SiteLimitsSource<'a>> + Clone,
    tables: &LimitTables,
) -> Option<Arc<ClientLimits>> {
    if settings.request_rate.is_none() && sites.clone().all(|site| site.paths.is_empty()) {
        return None;
    }
    let of_server = PathLimits {
        requests: settings.request_rate.map(|rate| tables.rule(rate, settings.request_burst, "all sites")),
        // Those of the server are checked when a connection is accepted.
        addresses: None,
        passwords: None,
        send_rate: None,
    };
    let mut passwords = Vec::new();
    let sites = sites.map(|site| resolve_site(&site, &of_server, tables, &mut passwords)).collect();
    let rates = RateTable::new(tables.rates.clone(), tables.keys.clone());
    Some(Arc::new(ClientLimits { rates, sites, passwords, report }))
}

fn resolve_site(
    site: &SiteLimitsSource<'_>,
    of_server: &PathLimits,
    tables: &LimitTables,
    passwords: &mut Vec<PasswordRule>,
) -> SitePathLimits {
    let mut sections: Vec<_> = site.paths.iter().collect();
    let prefix = |section: &PathLimit| section.path.as_ref().map_or("", PathPrefix::as_str).to_owned();
    sections.sort_by_key(|section| prefix(section).len());
    let mut resolved: BTreeMap<String, PathLimits> = BTreeMap::new();
    for section in sections {
        let path = prefix(section);
        let covers = |prefix: &str| {
            path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let covering = resolved.iter().filter(|(prefix, _)| covers(prefix));
        let inherited =
            covering.max_by_key(|(prefix, _)| prefix.len()).map_or(of_server, |(_, limits)| limits);
        let label = match (site.label, &*path) {
            (None, "") => "the site".to_owned(),
            (None, path) => path.to_owned(),
            (Some(site), path) => format!("{site}{path}"),
        };
        let requests = match section.request_rate {
            None => inherited.requests.clone(),
            Some(LimitChoice::Off) => None,
            Some(LimitChoice::At(rate)) => Some(tables.rule(rate, section.request_burst, &label)),
        };
        let addresses = address_list(&section.allow, &section.deny).or_else(|| inherited.addresses.clone());
        let passwords = password_rule(section, inherited.passwords, &label, tables, passwords);
        let send_rate = match section.max_send_rate {
            None => inherited.send_rate,
            Some(LimitChoice::Off) => None,
            Some(LimitChoice::At(rate)) => Some(rate),
        };
        resolved.insert(path, PathLimits { requests, addresses, passwords, send_rate });
    }
    let rest = resolved.remove("").unwrap_or_else(|| of_server.clone());
    let parsed = |(path, limits): (String, PathLimits)| (path.parse().expect("a prefix"), limits);
    SitePathLimits { mount: site.mount.cloned(), prefixes: resolved.into_iter().map(parsed).collect(), rest }
}

/// Returns what requests for the paths of a section must have. Adds its rule to the others.
#[cfg(feature = "program")]
fn password_rule(
    section: &PathLimit,
    inherited: Option<PasswordRuleId>,
    label: &str,
    tables: &LimitTables,
    rules: &mut Vec<PasswordRule>,
) -> Option<PasswordRuleId> {
    let PasswordLimit { users, realm } = match &section.passwords {
        None => return inherited,
        Some(LimitChoice::Off) => return None,
        Some(LimitChoice::At(limit)) => limit,
    };
    let users = Arc::new(UserTable::new(users, tables.verified.clone()));
    let realm = if realm.is_empty() { label } else { realm };
    let realm = realm.replace(['\\', '"'], "'");
    let challenge = format!("WWW-Authenticate: Basic realm=\"{realm}\", charset=\"UTF-8\"\r\n");
    let id = PasswordRuleId(u16::try_from(rules.len()).expect("fewer than 2^16 sections"));
    rules.push(PasswordRule { users, challenge: challenge.into_bytes().into(), label: label.into() });
    Some(id)
}

/// There are no passwords.
#[cfg(not(feature = "program"))]
fn password_rule(
    _: &PathLimit,
    inherited: Option<PasswordRuleId>,
    _: &str,
    _: &LimitTables,
    _: &mut Vec<PasswordRule>,
) -> Option<PasswordRuleId> {
    inherited
}

/// Returns a list of addresses. `None`: it has no entry, so that all are allowed.
pub(crate) fn address_list(allow: &[AddressEntry], deny: &[AddressEntry]) -> Option<Arc<AddressList>> {
    let is_empty = allow.is_empty() && deny.is_empty();
    (!is_empty).then(|| Arc::new(AddressList::new(allow, deny)))
}

/// Tells the log of refused clients.
fn report(of: LimitReport<'_>) {
    match of {
        LimitReport::Requests(rule) => tracing::warn!(
            "requests are refused with 429: an address sends more than {} to {}; tarpon_requests_limited_total counts them",
            rule.limit().rate,
            rule.label(),
        ),
        LimitReport::Passwords(label) => tracing::warn!(
            "wrong passwords for {label}: the access log has the clients, with status 401; tarpon_passwords_total counts them",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_inherits_what_it_does_not_set() {
        let rate = |text: &str| text.parse::<RequestRate>().expect(text);
        let section = |path: &str, choice| PathLimit {
            path: Some(path.parse().expect(path)),
            request_rate: choice,
            ..PathLimit::default()
        };
        let paths = [
            section("/a/b/c", None),
            section("/a", Some(LimitChoice::At(rate("5/m")))),
            section("/a/b", Some(LimitChoice::Off)),
            section("/other", None),
            section("/other/x", Some(LimitChoice::At(rate("7/s")))),
        ];
        let settings = Settings { request_rate: Some(rate("10/s")), ..Settings::default() };
        let sites = [
            SiteLimitsSource { mount: None, label: Some("a.example"), paths: &paths },
            SiteLimitsSource { mount: None, label: None, paths: &[] },
        ];
        let tables = LimitTables::new().expect("memory");
        let limits = resolve(&settings, sites.into_iter(), &tables).expect("limits");
        let shown = |limits: &PathLimits| {
            limits.requests.as_ref().map(|rule| format!("{} to {}", rule.limit().rate, rule.label()))
        };
        let found: Vec<_> =
            limits.sites[0].prefixes.iter().map(|(path, limits)| (path.as_str(), shown(limits))).collect();
        let [server, of_a, of_x] = ["10/s to all sites", "5/m to a.example/a", "7/s to a.example/other/x"];
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            found,
            [
                ("/a", some(of_a)),
                ("/a/b", None),
                ("/a/b/c", None),
                ("/other", some(server)),
                ("/other/x", some(of_x))
            ]
        );
        assert_eq!(
            limits.sites.iter().map(|site| shown(&site.rest)).collect::<Vec<_>>(),
            [some(server), some(server)]
        );
        let none: [SiteLimitsSource<'_>; 0] = [];
        assert!(resolve(&Settings::default(), none.into_iter(), &tables).is_none());
    }
}
