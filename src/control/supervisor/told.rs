//! What is told of a service while it runs.

use crate::{
    base::{address::Address, error::UserError, settings::Settings, site_config::SiteConfig},
    site::Site,
};
use std::{fmt, path::Path, time::Duration};

/// Something that a user may want to know.
pub enum Notice<'a> {
    /// A site was read that will be served.
    SiteLoaded(SiteLabel<'a>, &'a Site),
    /// A site has changed, and will be served as it is now.
    SiteReloaded(SiteLabel<'a>, &'a Site),
    /// It has changed, and cannot be served as it is now: what was read before still is.
    SiteReloadFailed(&'a UserError),
    /// An earlier release cannot be kept.
    ReleaseNotKept(&'a UserError),
    /// The kernel does not tell of changes, for this reason: they are looked for.
    PollingForChanges(SiteLabel<'a>, &'a str),
    /// The server could not take over a site, for this reason: what was read before is still served.
    SiteRejected(&'a str),
    /// The access log could not be opened anew, or no other file takes the place of this one.
    LogReopenFailed(&'a UserError),
    /// From now on clients are served.
    Serving(&'a ServingReport<'a>),
    /// From now on clients are served by another configuration.
    Reloaded(&'a ServingReport<'a>),
    /// A configuration cannot be served, for this reason: the one before still is.
    ReloadFailed(&'a str),
    /// Another program, of this process, serves from now on; this one leaves.
    Upgraded(u32),
    /// Another program cannot serve, for this reason: this one still does.
    UpgradeFailed(&'a str),
    /// A server of a configuration before did not end as it was told to.
    DrainFailed(&'a str),
    /// Nobody new will be served; responses under way have so much time.
    Stopping(Duration),
    /// A process has ended that should not have, with the only connection it had; how, as below.
    ConnectionLost(&'a str),
    /// A process has ended that should not have. Another one takes its place, after so much time.
    ProcessEnded {
        /// Which.
        role: Role,
        /// In words, as "was killed by SIGKILL".
        how: &'a str,
        /// Until there is another.
        restart_delay: Duration,
    },
}

/// Which site it is about: where it lies. `None`: there is only one.
pub type SiteLabel<'a> = Option<&'a Path>;

/// What is served from now on.
#[derive(Debug)]
pub struct ServingReport<'a> {
    /// The sites: what was said of each, how many files it has, and how many bytes these.
    pub sites: Vec<(&'a SiteConfig, u64, u64)>,
    /// Where the server listens.
    pub addresses: Vec<&'a Address>,
    /// How it runs; the engine is the one that was chosen.
    pub settings: &'a Settings,
    /// Why that is not io_uring, where that was wanted if possible.
    pub fallback_reason: Option<&'a str>,
    /// What its process is confined to, in a few words each.
    pub confinement: &'a [String],
    /// Where the admin listener would be, if another server had none there.
    pub admin_in_use: Option<&'a Address>,
}

impl fmt::Display for ServingReport<'_> {
    /// In one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ServingReport { sites, addresses, settings, .. } = self;
        let (engine, workers) = (settings.engine, settings.workers());
        let addresses: Vec<_> = addresses.iter().map(|address| address.to_string()).collect();
        let [files, bytes] = sites.iter().fold([0; 2], |sum, (_, files, len)| [sum[0] + files, sum[1] + len]);
        let (sites, addresses) = (sites.len(), addresses.join(", "));
        write!(
            f,
            "sites: {sites}, files: {files}, bytes: {bytes}, at {addresses}; engine: {engine}, workers: {workers}"
        )
    }
}

/// What a process is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It watches and builds the sites.
    Builder,
    /// It serves them.
    Server,
    /// It serves connections for a server that is several processes.
    Worker,
    /// It writes the log of such a server, and answers its admin listener.
    Aux,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Role::Builder => "builder",
            Role::Server => "server",
            Role::Worker => "worker",
            Role::Aux => "aux",
        })
    }
}
