//! The sites of a server, and the hosts that each site answers for.
//!
//! ```text
//! VirtualHost  example.org, *.example.org ─┐
//!              redirect www.example.org ───┼─ VirtualHosts ─▶ the table that workers look hosts up in
//! VirtualHost  example.net ────────────────┤
//! UnknownHost  any other host ─────────────┘
//! ```
//!
//! `tarpon-conn` defines how host names are compared.

use crate::{
    base::settings::{SiteLimits, UnknownHost},
    base::{error::UserError, log_config::SiteLog},
    site::Site,
};
use std::sync::Arc;
use tarpon_conn::{HostName, Hosts, HostsError, SiteId};

/// A site, its hosts and its settings. The number of a site is its index in [`VirtualHosts::new`], from 0.
#[derive(Debug)]
pub struct VirtualHost {
    /// The site.
    pub site: Site,
    /// Earlier versions of the site, the latest first: see [`Settings::keep_releases`](crate::Settings::keep_releases).
    pub earlier: Vec<Site>,
    /// The hosts that the site answers for. The first one that is not a wildcard is its canonical host.
    pub names: Vec<HostName>,
    /// Hosts that redirect to the canonical host.
    pub redirect_hosts: Vec<HostName>,
    /// Limits that override those of the server.
    pub limits: SiteLimits,
    /// Overrides [`Settings::keep_releases`](crate::Settings::keep_releases).
    pub keep_releases: Option<usize>,
    /// The access log of the site.
    pub log: SiteLog,
}

/// The sites of a server. No host belongs to two of them.
#[derive(Debug)]
pub struct VirtualHosts {
    pub(crate) sites: Vec<VirtualHost>,
    pub(crate) hosts: Arc<Hosts>,
}

impl VirtualHosts {
    /// Combines the sites of a server.
    ///
    /// # Errors
    /// There is no site, or there are too many; a host is given twice; or a site has redirect hosts but only wildcard hosts.
    pub fn new(sites: Vec<VirtualHost>, unknown: UnknownHost) -> Result<VirtualHosts, UserError> {
        let hosts =
            host_table(sites.iter().map(|site| (&site.names[..], &site.redirect_hosts[..])), unknown)?;
        Ok(VirtualHosts { sites, hosts: Arc::new(hosts) })
    }
}

/// Returns the table for the hosts and redirect hosts of each site.
pub(crate) fn host_table<'n>(
    sites: impl IntoIterator<Item = (&'n [HostName], &'n [HostName])>,
    unknown: UnknownHost,
) -> Result<Hosts, UserError> {
    let sites: Vec<_> = sites.into_iter().collect();
    let count = sites.len();
    let default = match unknown {
        UnknownHost::Refused => None,
        UnknownHost::Site(number) => Some(number),
    };
    if count == 0 || count > SiteId::COUNT_MAX || default.is_some_and(|number| number >= count) {
        return Err(UserError::new(
            "cannot serve these sites",
            format_args!(
                "the number of sites is {count}, of at most {}, and the default must be one of them",
                SiteId::COUNT_MAX
            ),
            "name at least one site, and one of them as the default",
        ));
    }
    let mut hosts = Hosts::new(default.map(SiteId::new));
    for (number, (names, _)) in sites.iter().enumerate() {
        let add = |name: &HostName| {
            hosts.add(name.clone(), SiteId::new(number)).map_err(|error| host_error(name, error))
        };
        names.iter().try_for_each(add)?;
    }
    for (number, (_, redirect_hosts)) in sites.iter().enumerate() {
        let add = |name: &HostName| {
            hosts
                .add_redirect_host(name.clone(), SiteId::new(number))
                .map_err(|error| host_error(name, error))
        };
        redirect_hosts.iter().try_for_each(add)?;
    }
    Ok(hosts)
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

impl From<Site> for VirtualHost {
    /// Returns the site without hosts, with default settings.
    fn from(site: Site) -> VirtualHost {
        let (earlier, names, redirect_hosts) = (Vec::new(), Vec::new(), Vec::new());
        let (limits, log) = (SiteLimits::default(), SiteLog::default());
        VirtualHost { site, earlier, names, redirect_hosts, limits, keep_releases: None, log }
    }
}

impl From<Site> for VirtualHosts {
    /// Returns a server with one site that answers every host.
    fn from(site: Site) -> VirtualHosts {
        VirtualHosts::new(vec![site.into()], UnknownHost::Site(0)).expect("one site without names")
    }
}
