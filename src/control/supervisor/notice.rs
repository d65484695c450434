//! Notices: events of a running service that a user may want to know.

use crate::{
    base::{address::Address, error::UserError, settings::Settings, site_config::SiteConfig},
    site::Site,
};
use std::{fmt, path::Path, time::Duration};

/// An event that a user may want to know.
pub enum Notice<'a> {
    /// A site is still being loaded for the first time: how many of its files were read. A total of 0: its files are being listed. Comes several times a
    /// second.
    SiteLoading(SiteLabel<'a>, u64, u64),
    /// The site was loaded, or cannot be. Another notice or error tells more.
    SiteLoadingEnded,
    /// A site was loaded for the first time.
    SiteLoaded(SiteLabel<'a>, &'a Site),
    /// A site has changed and was loaded again.
    SiteReloaded(SiteLabel<'a>, &'a Site),
    /// More contents of a site have compressed variants.
    SiteCompressed(SiteLabel<'a>, &'a Site),
    /// A site has changed and cannot be loaded: the server keeps the previous state.
    SiteReloadFailed(&'a UserError),
    /// An earlier release cannot be retained.
    ReleaseNotKept(&'a UserError),
    /// The kernel does not report changes, for this reason: the builder polls for them.
    PollingForChanges(SiteLabel<'a>, &'a str),
    /// The server cannot use a new version of a site, and keeps the previous one.
    SiteRejected {
        /// The reason.
        why: &'a str,
        /// The time until the server gets the version again. `None`: it never will.
        retry_delay: Option<Duration>,
    },
    /// The access log could not be reopened or rotated, and stays in its current file.
    LogReopenFailed(&'a UserError),
    /// The server serves.
    Serving(&'a ServingReport<'a>),
    /// The server serves with a new configuration.
    Reloaded(&'a ServingReport<'a>),
    /// A reload failed, for this reason: the server keeps its configuration.
    ReloadFailed(&'a str),
    /// A successor with this process ID serves; this program drains.
    Upgraded(u32),
    /// An upgrade failed, for this reason: this program still serves.
    UpgradeFailed(&'a str),
    /// The server of an earlier configuration did not shut down properly, for this reason.
    DrainFailed(&'a str),
    /// The server accepts no more clients; responses under way have this much time.
    Stopping(Duration),
    /// A worker process with a single connection exited unexpectedly; how, as in `ProcessEnded`.
    ConnectionLost(&'a str),
    /// A process exited unexpectedly. Another one replaces it after a delay.
    ProcessEnded {
        /// The role of the process.
        role: Role,
        /// How it ended, as in "was killed by SIGKILL".
        how: &'a str,
        /// The time until the next process starts.
        restart_delay: Duration,
    },
    /// A process cannot start: the system is short of processes, descriptors or memory.
    StartFailed {
        /// The role of the process.
        role: Role,
        /// The error of the system.
        error: &'a str,
        /// The time until the next attempt.
        retry_delay: Duration,
    },
    /// A certificate was obtained.
    CertificateObtained {
        /// Its names, separated by commas.
        names: &'a str,
        /// How many days it is valid for.
        days: u64,
    },
    /// A certificate could not be obtained. The one of before, if any, is served on.
    CertificateFailed {
        /// Its names, separated by commas.
        names: &'a str,
        /// The reason.
        why: &'a str,
        /// What to do.
        hint: &'a str,
        /// The time until the next attempt.
        retry_delay: Duration,
        /// How many days the present certificate is valid for; negative after its end. `None`: there is none.
        days_left: Option<i64>,
    },
    /// Something else about certificates needs attention, as a damaged file.
    CertificateWarning(&'a str),
    /// An upstream server gets no requests any more.
    UpstreamDown {
        /// The name of its upstream.
        upstream: &'a str,
        /// Its address.
        server: &'a str,
        /// The reason.
        why: &'a str,
    },
    /// An upstream server gets requests again.
    UpstreamUp {
        /// The name of its upstream.
        upstream: &'a str,
        /// Its address.
        server: &'a str,
    },
    /// The name of an upstream server cannot be looked up. Addresses of before are used on.
    UpstreamUnresolved {
        /// The name of its upstream.
        upstream: &'a str,
        /// Its address.
        server: &'a str,
        /// The reason.
        why: &'a str,
    },
    /// Children of this role have caused so many more notices in a second that they were not emitted.
    Suppressed(Role, u64),
}

/// The path of the site that a notice is about. `None`: there is only one.
pub type SiteLabel<'a> = Option<&'a Path>;

/// What the server serves, and how.
#[derive(Debug)]
pub struct ServingReport<'a> {
    /// The sites: the configuration, number of files and number of bytes of each.
    pub sites: Vec<(&'a SiteConfig, u64, u64)>,
    /// The addresses of the listeners.
    pub addresses: Vec<&'a Address>,
    /// Those of the addresses whose clients speak TLS.
    pub tls_addresses: Vec<&'a Address>,
    /// The SHA-256 of the certificate that the server has made for itself.
    pub fingerprint: Option<String>,
    /// The settings, with the engine that was chosen.
    pub settings: &'a Settings,
    /// Why the engine `auto` did not choose io_uring.
    pub fallback_reason: Option<&'a str>,
    /// The restrictions of the server process, in a few words each.
    pub confinement: &'a [String],
    /// Why the server has no admin listener at the default address, as when another server uses it.
    pub admin_error: Option<&'a UserError>,
}

impl ServingReport<'_> {
    /// Returns the scheme of the URIs of a listener.
    pub(crate) fn scheme(&self, address: &Address) -> &'static str {
        if self.tls_addresses.contains(&address) { "https" } else { "http" }
    }
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

/// The role of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Watches and builds the sites.
    Builder,
    /// Serves the sites.
    Server,
    /// Serves connections of a pool: `prefork` or `fork`.
    Worker,
    /// Does for workers what their sandbox forbids.
    Helper,
    /// Writes the access log of a pool, and answers its admin listener.
    Aux,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Role::Builder => "builder",
            Role::Server => "server",
            Role::Worker => "worker",
            Role::Helper => "helper",
            Role::Aux => "aux",
        })
    }
}
