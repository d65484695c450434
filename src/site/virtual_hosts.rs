//! The sites of a server, and which of them a host means.
//!
//! ```text
//! VirtualHost  example.org, *.example.org ─┐
//!              alias www.example.org ──────┼─ VirtualHosts ─▶ the table that requests are looked up in
//! VirtualHost  example.net ────────────────┤
//! Unknown      what any other host means ──┘
//! ```
//!
//! How names are compared is told in `tarpon-conn`.

use crate::{
    base::settings::{SiteLimits, UnknownHost},
    base::{error::UserError, log_config::SiteLog},
    site::Site,
};
use std::sync::Arc;
use tarpon_conn::{HostName, Hosts, HostsError, SiteId};

/// A site, and the names it has. A number of it is counted from 0, in the order they are given.
#[derive(Debug)]
pub struct VirtualHost {
    /// The site.
    pub site: Site,
    /// What was served before, the latest first: see [`Settings::keep_releases`].
    pub earlier: Vec<Site>,
    /// The hosts it is served for. The first that is no wildcard is its canonical name.
    pub names: Vec<HostName>,
    /// Hosts that lead to its canonical name.
    pub redirect_hosts: Vec<HostName>,
    /// What it grants its clients.
    pub limits: SiteLimits,
    /// Instead of [`Settings::keep_releases`].
    pub keep_releases: Option<usize>,
    /// What is logged of it.
    pub log: SiteLog,
}

/// Sites of which no two have a name in common.
#[derive(Debug)]
pub struct VirtualHosts {
    pub(crate) sites: Vec<VirtualHost>,
    pub(crate) hosts: Arc<Hosts>,
}

impl VirtualHosts {
    /// All the sites of a server.
    ///
    /// # Errors
    /// There are none, or too many; a name is given twice; redirect hosts of a site that has only wildcard names.
    pub fn new(sites: Vec<VirtualHost>, unknown: UnknownHost) -> Result<VirtualHosts, UserError> {
        let hosts =
            host_table(sites.iter().map(|site| (&site.names[..], &site.redirect_hosts[..])), unknown)?;
        Ok(VirtualHosts { sites, hosts: Arc::new(hosts) })
    }
}

/// The table for the names and redirect hosts of each site.
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
                "there are {count}, of {} at most, and the default is one of them",
                SiteId::COUNT_MAX
            ),
            "name at least one site, and one of them as the default",
        ));
    }
    let mut hosts = Hosts::new(default.map(SiteId::new));
    for (number, (names, _)) in sites.iter().enumerate() {
        let add = |name: &HostName| {
            hosts.add(name.clone(), SiteId::new(number)).map_err(|error| trouble(name, error))
        };
        names.iter().try_for_each(add)?;
    }
    for (number, (_, redirect_hosts)) in sites.iter().enumerate() {
        let add = |name: &HostName| {
            hosts.add_alias(name.clone(), SiteId::new(number)).map_err(|error| trouble(name, error))
        };
        redirect_hosts.iter().try_for_each(add)?;
    }
    Ok(hosts)
}

fn trouble(name: &HostName, error: HostsError) -> UserError {
    let what = format_args!("cannot serve the host {name}");
    match error {
        HostsError::Taken(site) => UserError::new(
            what,
            format_args!("it is named twice, first for site number {}", site.index() + 1),
            "name each host once, for one site or as one alias",
        ),
        HostsError::LeadsNowhere => UserError::new(
            what,
            "it is an alias of a site that has no name of its own to lead to",
            "give the site a name that is no wildcard, as in www.example.org",
        ),
    }
}

impl From<Site> for VirtualHost {
    /// Without names.
    fn from(site: Site) -> VirtualHost {
        let (earlier, names, redirect_hosts) = (Vec::new(), Vec::new(), Vec::new());
        let (limits, log) = (SiteLimits::default(), SiteLog::default());
        VirtualHost { site, earlier, names, redirect_hosts, limits, keep_releases: None, log }
    }
}

impl From<Site> for VirtualHosts {
    /// One site, whatever the host.
    fn from(site: Site) -> VirtualHosts {
        VirtualHosts::new(vec![site.into()], UnknownHost::Site(0)).expect("one site without names")
    }
}
