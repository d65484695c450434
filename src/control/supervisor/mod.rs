//! The supervisor: the process that a user starts. It starts the others, replaces them, and carries out the orders of administrators.
//!
//! ```text
//! supervisor   one thread: signals, listening sockets, versions of sites; starts the others, and starts them again
//!  │
//!  ├─ builder  watches the sources of the sites, and builds them ──────────┐ descriptors and a few numbers,
//!  └─ server   workers; has the listeners, and the sites that it receives ◀┘ through the supervisor
//! ```
//!
//! The others are children that the supervisor forks: they inherit what they need at the start. If one exits, in whatever way, the
//! supervisor starts another: it has the listening sockets, on which clients wait meanwhile, and the sites. When the supervisor exits, so
//! do they.
//!
//! A reload starts another generation of both beside the first, on the same listening sockets. When its server serves, the former
//! server answers each of its connections once more and exits; if the new one cannot start, nothing has changed. An upgrade does the same
//! with another supervisor: see `handover`.
//!
//! The supervisor decides as plain data, and a driver acts:
//!
//! | file | what |
//! |---|---|
//! | `check` | what would keep a service from starting |
//! | `event` | the events and the actions |
//! | `machine` | the supervisor: what follows from an event |
//! | `generation` | the processes, sites and logs of one configuration |
//! | `held_versions` | the versions of the sites |
//! | `log_files` | when logs are opened again and rotated |
//! | `orders` | orders that wait |
//! | `draining` | servers that have been told to exit |
//! | `notice` | events of the service that a user may want to know |
//! | `driver/` | performs the actions in one event loop |
//! | `simulator/` | drives the machine through seeded worlds full of faults (tests) |

mod check;
mod draining;
mod driver;
mod event;
mod generation;
mod held_versions;
mod log_files;
mod machine;
mod notice;
mod orders;
#[cfg(test)]
mod simulator;

pub(crate) use check::{ServicePart, StartError, look_up, start_errors};
pub(crate) use driver::{acme_sets, log_targets};
pub(super) use event::BuilderStart;
pub use notice::{Notice, Role, ServingReport, SiteLabel};

use crate::{
    base::{
        acme_config::AcmeConfig,
        address::Address,
        admin_access::AdminAccess,
        cgi_config::CgiConfig,
        listener_options::ListenerOptions,
        log_config::LogConfig,
        settings::{Settings, UnknownHost},
        site_config::SiteConfig,
        socket_access::SocketAccess,
        tls_config::ServiceTls,
        upstream_config::UpstreamConfig,
    },
    control::handover::predecessor::PredecessorChannel,
};
use driver::Driver;
use std::{collections::HashMap, error::Error, path::PathBuf, time::Duration};

/// A service: its sites, addresses, settings and logs.
#[derive(Debug)]
pub struct Service {
    /// The settings of the server.
    pub settings: Settings,
    /// The addresses of the listeners. If empty: the sockets of systemd, if there are any, or else the [default](crate::default_addresses).
    pub addresses: Vec<Address>,
    /// Which users may connect to Unix sockets, by path. The others have the [default](SocketAccess::default).
    pub socket_access: HashMap<PathBuf, SocketAccess>,
    /// Those of the addresses whose connections [begin with a PROXY header](crate::Listener::with_proxy_protocol).
    pub proxy_protocol: Vec<Address>,
    /// What listeners ask of the kernel and of the addresses of clients. The others have the default.
    pub listener_options: Vec<(Address, ListenerOptions)>,
    /// The listeners with TLS, and their certificates.
    pub tls: ServiceTls,
    /// The directory that issues certificates for the [domains](crate::config::SiteConfig::domains), and how to prove names to it.
    pub acme: AcmeConfig,
    /// How the CGI programs of the sites run.
    pub cgi: CgiConfig,
    /// The upstreams that the sites name.
    pub upstreams: Vec<UpstreamConfig>,
    /// The sites, at least one.
    pub sites: Vec<SiteConfig>,
    /// How to answer a request for an unknown host.
    pub unknown_host: UnknownHost,
    /// How long responses under way may take to finish after a signal to stop.
    pub grace_period: Duration,
    /// The configuration of the logs, from which [`Settings::logging`] is set.
    pub log: LogConfig,
    /// The user that the children become if the program starts as root; by default `tarpon` or `nobody`.
    pub user: Option<String>,
    /// Whether to confine the children.
    pub sandbox: bool,
    /// The address of the admin listener.
    pub admin: Option<Address>,
    /// The admin address is the default: if another server uses it, this one runs without an admin listener.
    pub admin_is_default: bool,
    /// Which clients may use the admin listener.
    pub admin_access: AdminAccess,
}

impl Service {
    /// Returns which users may connect to a Unix socket for clients.
    fn socket_access(&self, address: &Address) -> SocketAccess {
        let Address::Unix(path) = address else { return SocketAccess::default() };
        self.socket_access.get(path).cloned().unwrap_or_default()
    }
}

/// Serves until SIGTERM or SIGINT; a second one ends the grace period. SIGHUP reads the configuration again and serves it; SIGUSR2 starts the
/// program file again, which takes over. If either fails, a notice reports it and nothing changes.
///
/// Each process passes its notices to `emit`. The supervisor notifies systemd and uses its sockets, if systemd has started the program: so the
/// caller must not have opened descriptors before. It reaps every child of the process.
///
/// # Errors
/// The service could not start, or the server did not shut down properly.
pub fn supervise(
    read: &dyn Fn() -> Result<Service, Box<dyn Error>>,
    emit: fn(Notice<'_>),
) -> Result<(), Box<dyn Error>> {
    let mut predecessor = PredecessorChannel::find()?;
    let result = Driver::new(&mut predecessor, read, emit).and_then(Driver::run);
    result.map_err(|error| match predecessor {
        Some(predecessor) => predecessor.start_failed(&*error),
        None => error,
    })
}
