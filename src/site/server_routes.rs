//! The routes of a server: which sites answer at which listeners, hosts and paths.

use crate::base::{address::Address, error::UserError, settings::UnknownHost, tls_config::TlsPolicyId};
use std::{collections::BTreeSet, sync::Arc};
use tarpon_conn::{
    HostName, Hosts, HostsError, PathPrefix, RouteTable, RouteTableId, RouteTaken, RouteTarget, SiteId,
};

/// Where a site answers.
#[derive(Clone, Debug)]
pub(crate) struct SiteAddress<'n> {
    pub(crate) names: &'n [HostName],
    pub(crate) redirect_hosts: &'n [HostName],
    pub(crate) mount: Option<&'n PathPrefix>,
    /// The only listeners that the site answers at. Empty: those that no site names.
    pub(crate) listen: Vec<Address>,
    /// The port that requests without TLS are redirected to.
    pub(crate) https_port: Option<u16>,
}

/// A listener, and what it asks of its clients. `None`: it has no TLS.
pub(crate) type ListenerPolicy<'a> = (&'a Address, Option<TlsPolicyId>);

impl SiteAddress<'_> {
    /// Returns a name of the site: its canonical host and its mount.
    pub(crate) fn label(&self) -> Option<String> {
        let host = self.names.iter().find(|name| !name.is_wildcard()).map(HostName::to_string);
        match (host, self.mount) {
            (host, None) => host,
            (host, Some(mount)) => Some(host.unwrap_or_default() + mount.as_str()),
        }
    }
}

/// The routes of a server.
#[derive(Debug)]
pub(crate) struct ServerRoutes {
    /// The first is for every listener without a table of its own.
    pub(crate) tables: Arc<[RouteTable]>,
    /// The listeners with a table of their own.
    by_listener: Vec<(Address, RouteTableId)>,
}

impl ServerRoutes {
    /// Returns the table for the clients of a listener.
    pub(crate) fn table_of(&self, listener: &Address) -> RouteTableId {
        let found = self.by_listener.iter().find(|(address, _)| address == listener);
        found.map_or(RouteTableId::default(), |(_, table)| *table)
    }
}

/// The sites that the routes of a listener depend on, by their numbers.
#[derive(PartialEq, Eq)]
struct ListenerSites {
    /// Those that answer there.
    own: Vec<usize>,
    /// Those that answer only under another policy: a request for their hosts is misdirected.
    others: Vec<usize>,
}

/// Returns the routes to sites that answer at these addresses. A site's number is its place.
///
/// A request that arrives over TLS for a host whose sites answer only at listeners with another policy, or without TLS, gets 421: RFC 9110,
/// section 15.5.20.
pub(crate) fn server_routes<'n>(
    sites: impl IntoIterator<Item = SiteAddress<'n>>,
    unknown: UnknownHost,
    listeners: &[ListenerPolicy<'_>],
) -> Result<ServerRoutes, UserError> {
    let sites: Vec<_> = sites.into_iter().collect();
    let count = sites.len();
    let is_missing = matches!(unknown, UnknownHost::Site(number) if number >= count);
    if count == 0 || count > SiteId::COUNT_MAX || is_missing {
        return Err(UserError::new(
            "cannot serve these sites",
            format_args!(
                "the number of sites is {count}, of at most {}, and the default must be one of them",
                SiteId::COUNT_MAX
            ),
            "name at least one site, and one of them as the default",
        ));
    }
    let named: BTreeSet<&Address> = sites.iter().flat_map(|site| &site.listen).collect();
    let answers = |site: &SiteAddress<'_>, listener: &Address| match site.listen.is_empty() {
        true => !named.contains(listener),
        false => site.listen.contains(listener),
    };
    // Under which policies each site answers.
    let policies: Vec<BTreeSet<_>> = (sites.iter())
        .map(|site| {
            let of_site = listeners.iter().filter(|(address, _)| answers(site, address));
            of_site.map(|(_, policy)| *policy).collect()
        })
        .collect();
    let sites_of = |listener: &Address| {
        let known = listeners.iter().find(|(address, _)| *address == listener);
        let policy = known.and_then(|(_, policy)| *policy);
        let is_other = |number: &usize| policy.is_some() && !policies[*number].contains(&policy);
        ListenerSites {
            own: (0..count).filter(|&number| answers(&sites[number], listener)).collect(),
            others: (0..count).filter(is_other).collect(),
        }
    };
    let unnamed = (0..count).filter(|&number| sites[number].listen.is_empty()).collect();
    // If every site names its listeners, there are no others.
    let mut groups = vec![ListenerSites { own: unnamed, others: Vec::new() }];
    groups.retain(|group| !group.own.is_empty());
    let mut by_listener: Vec<(Address, RouteTableId)> = Vec::new();
    for listener in named.iter().copied().chain(listeners.iter().map(|(address, _)| *address)) {
        let group = sites_of(listener);
        if group.own.is_empty() || by_listener.iter().any(|(known, _)| known == listener) {
            continue;
        }
        let place = groups.iter().position(|known| *known == group).unwrap_or_else(|| {
            groups.push(group);
            groups.len() - 1
        });
        // At most one more than listeners, each of which has a descriptor: fewer than 2^16.
        by_listener.push((listener.clone(), RouteTableId(place as u16)));
    }
    let tables = groups.iter().map(|group| route_table(&sites, group, unknown));
    Ok(ServerRoutes { tables: tables.collect::<Result<_, _>>()?, by_listener })
}

/// Returns the routes to some of the sites.
fn route_table(
    sites: &[SiteAddress<'_>],
    group: &ListenerSites,
    unknown: UnknownHost,
) -> Result<RouteTable, UserError> {
    let numbered = || group.own.iter().map(|&number| (SiteId::new(number), &sites[number]));
    // A mounted site answers below its mount only.
    let unmounted = || numbered().filter(|(_, site)| site.mount.is_none());
    let default = match unknown {
        UnknownHost::Refused => None,
        UnknownHost::Site(number) => {
            let given = unmounted().find(|(id, _)| id.index() == number);
            given.or_else(|| unmounted().next()).map(|(id, _)| id)
        }
    };
    let mut hosts = Hosts::new(default);
    for (id, site) in unmounted() {
        let add = |name: &HostName| hosts.add(name.clone(), id).map_err(|error| host_error(name, error));
        site.names.iter().try_for_each(add)?;
    }
    for (id, site) in numbered() {
        if let (Some(mount), Some(name)) = (site.mount, site.redirect_hosts.first()) {
            return Err(UserError::new(
                format_args!("cannot serve the host {name}"),
                format_args!("it redirects to a site that is mounted at {mount}"),
                "redirect it to the site of the host that has no mount",
            ));
        }
        let add = |name: &HostName| {
            hosts.add_redirect_host(name.clone(), id).map_err(|error| host_error(name, error))
        };
        site.redirect_hosts.iter().try_for_each(add)?;
    }
    for &number in &group.others {
        let site = &sites[number];
        let names = site.names.iter().chain(site.redirect_hosts);
        names.for_each(|name| hosts.add_of_other_listener(name, SiteId::new(number)));
    }
    let first = numbered().next().map_or(SiteId::FIRST, |(id, _)| id);
    let mut routes = RouteTable::with_fallback(Arc::new(hosts), default.unwrap_or(first));
    for (id, site) in numbered() {
        if let Some(port) = site.https_port {
            routes.redirect_to_https(id, port);
        }
        let Some(mount) = site.mount else { continue };
        let names = site.names.iter().map(Some).chain(site.names.is_empty().then_some(None));
        for name in names {
            let added = routes.add(name, mount.clone(), RouteTarget::Mount(id));
            added.map_err(|taken| mount_error(name, mount, taken))?;
        }
    }
    Ok(routes)
}

fn mount_error(name: Option<&HostName>, mount: &PathPrefix, RouteTaken(by): RouteTaken) -> UserError {
    let host = name.map_or("every host".to_owned(), HostName::to_string);
    let number = match by {
        RouteTarget::Site(site) | RouteTarget::Mount(site) => site.index() + 1,
        RouteTarget::Backend(_) => unreachable!("the table has routes to sites only"),
    };
    UserError::new(
        format_args!("cannot mount a site at {mount} of {host}"),
        format_args!("site number {number} is mounted there"),
        "give each site a mount of its own at each host",
    )
}

fn host_error(name: &HostName, error: HostsError) -> UserError {
    let what = format_args!("cannot serve the host {name}");
    match error {
        HostsError::Taken(site) => UserError::new(
            what,
            format_args!("it is named twice, first for site number {}", site.index() + 1),
            "name each host once, as the host or the redirect host of one site",
        ),
        HostsError::NoCanonicalName => UserError::new(
            what,
            "it redirects to a site that has no host except wildcards",
            "give the site a host that is not a wildcard, such as www.example.org",
        ),
    }
}
