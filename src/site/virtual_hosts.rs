//! The sites of a server, and the hosts that each site answers for.
//!
//! ```text
//! VirtualHost  example.org, *.example.org ─┐
//!              redirect www.example.org ───┼─ VirtualHosts ─▶ the table that workers look hosts up in
//! VirtualHost  example.net /docs ──────────┤
//! UnknownHost  any other host ─────────────┘
//! ```
//!
//! `tarpon-conn` defines how host names are compared.

use crate::{
    base::{
        address::Address,
        client_limits::PathLimit,
        error::UserError,
        functions::Functions,
        log_config::SiteLog,
        settings::{SiteLimits, UnknownHost},
    },
    site::{
        Site,
        server_routes::{ListenerPolicy, ServerRoutes, SiteAddress, server_routes},
    },
};
use tarpon_conn::{HostName, PathPrefix};
use tarpon_site::Printable;

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
    /// The path that the site is mounted at: it answers requests below this path only, and looks up the rest of the path. It was built with this
    /// path as [`Policy::base`](crate::Policy::base), so that its redirects lead below it. Without hosts, it answers at every host.
    pub mount: Option<PathPrefix>,
    /// The only listeners that the site answers at, by their addresses. Empty: those that no site names.
    pub listen: Vec<Address>,
    /// The port that requests without TLS are redirected to. `None`: they are answered.
    pub https_port: Option<u16>,
    /// Limits that override those of the server.
    pub limits: SiteLimits,
    /// Limits of clients for some of its paths. No two have the same path.
    pub path_limits: Vec<PathLimit>,
    /// Overrides [`Settings::keep_releases`](crate::Settings::keep_releases).
    pub keep_releases: Option<usize>,
    /// The access log of the site.
    pub log: SiteLog,
}

/// The sites of a server. No two of them have the same host and mount.
#[derive(Debug)]
pub struct VirtualHosts {
    pub(crate) sites: Vec<VirtualHost>,
    unknown: UnknownHost,
    /// A name for each site, for logs and metrics. `None`: it has no host and no mount.
    pub(crate) labels: Vec<Option<String>>,
    pub(crate) functions: Functions,
}

impl VirtualHosts {
    /// Combines the sites of a server.
    ///
    /// # Errors
    /// There is no site, or there are too many; two sites have the same host and mount; a site has redirect hosts, but only wildcard hosts or
    /// a mount; or the redirects of a mounted site do not lead below its mount.
    pub fn new(sites: Vec<VirtualHost>, unknown: UnknownHost) -> Result<VirtualHosts, UserError> {
        for VirtualHost { site, mount, .. } in &sites {
            if let Some(mount) = mount {
                check_base(site, mount)?;
            }
        }
        let labels = sites.iter().map(|site| site.address().label()).collect();
        let hosts = VirtualHosts { sites, unknown, labels, functions: Functions::default() };
        // Whatever its listeners will be.
        hosts.routes(&[])?;
        Ok(hosts)
    }

    /// Returns the routes of a server with these listeners.
    pub(crate) fn routes(&self, listeners: &[ListenerPolicy<'_>]) -> Result<ServerRoutes, UserError> {
        server_routes(self.sites.iter().map(VirtualHost::address), self.unknown, listeners)
    }

    /// Adds the functions of the embedding program. A route to a function comes before the files of the sites.
    #[must_use]
    pub fn with_functions(self, functions: Functions) -> VirtualHosts {
        VirtualHosts { functions, ..self }
    }
}

impl VirtualHost {
    fn address(&self) -> SiteAddress<'_> {
        SiteAddress {
            names: &self.names,
            redirect_hosts: &self.redirect_hosts,
            mount: self.mount.as_ref(),
            listen: self.listen.clone(),
            https_port: self.https_port,
        }
    }
}

/// Checks that the redirects of a site lead below its mount.
fn check_base(site: &Site, mount: &PathPrefix) -> Result<(), UserError> {
    let base = site.image().base();
    if base.ends_with(mount.as_str().as_bytes()) {
        return Ok(());
    }
    Err(UserError::new(
        format_args!("cannot mount a site at {mount}"),
        format_args!(
            "its redirects lead below /{}",
            String::from_utf8_lossy(base).trim_start_matches('/').printable()
        ),
        "build the site with the mount as Policy::base",
    ))
}

impl From<Site> for VirtualHost {
    /// Returns the site without hosts, with default settings.
    fn from(site: Site) -> VirtualHost {
        let (earlier, names, redirect_hosts) = (Vec::new(), Vec::new(), Vec::new());
        let (limits, log) = (SiteLimits::default(), SiteLog::default());
        VirtualHost {
            site,
            earlier,
            names,
            redirect_hosts,
            mount: None,
            listen: Vec::new(),
            https_port: None,
            limits,
            path_limits: Vec::new(),
            keep_releases: None,
            log,
        }
    }
}

impl From<Site> for VirtualHosts {
    /// Returns a server with one site that answers every host.
    fn from(site: Site) -> VirtualHosts {
        VirtualHosts::new(vec![site.into()], UnknownHost::Site(0)).expect("one site without names")
    }
}

impl From<Functions> for VirtualHosts {
    /// Returns a server for functions, beside a [site without files](Site::empty).
    fn from(functions: Functions) -> VirtualHosts {
        VirtualHosts::from(Site::empty()).with_functions(functions)
    }
}
