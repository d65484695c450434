//! tarpon serves static sites: a directory becomes one immutable image before the first request, and a request
//! is parsed, looked up and sent.
//!
//! The program `tarpon` is made of this library, and so can another program be:
//!
//! ```no_run
//! use std::{net::TcpListener, time::Duration};
//! use tarpon::{Server, Settings, Site};
//!
//! let listener = TcpListener::bind("127.0.0.1:8080")?;
//! let server = Server::start(&Settings::default(), vec![listener.try_into()?], Site::from_dir("public")?)?;
//! let handle = server.handle();
//! // … and from any thread, later:
//! handle.swap(Site::from_dir("public")?);
//! handle.stop(Duration::from_secs(10));
//! server.join()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | module | what |
//! |---|---|
//! | [`config`] | what a user can say, from flags and from a file |
//! | `server` | starts the workers, and tells them what to do |
//! | `site` | an image and its descriptors |
//! | `hosts` | several sites, told apart by host |
//! | `archive` | a tar archive, unpacked if it is compressed |
//! | `pack` | a site packed into one archive |
//! | `inspect` | such an archive, looked into and checked |
//! | `recent`, `stock` | the sites that are served, and earlier ones that are kept |
//! | `release` | a directory of packed sites, of which one is current |
//! | `listen` | listening sockets |
//! | `log` | the access log: what the workers leave of each exchange, formatted and written |
//! | `metrics`, `ledger` | what a server has done and does, for Prometheus and for people |
//! | `admin` | answers whoever watches over the server |
//! | `users` | which users have directories of their own beside a site |
//! | `watch` | notices that a directory or archive has changed |
//! | `worker`, `wheel`, `mailbox`, `roster` | what all engines share |
//! | `served`, `residency`, `loader` | what of a site is in memory, and reading what is not |
//! | `engine` | waits for the kernel and drives connections |
//! | `supervisor` | the processes of the program, and what they say to each other |
//! | `sandbox` | what is taken from each of them |
//! | `sys` | memory with a descriptor, files mapped, and how their truncation is survived |
//! | `error` | what a user is told |

#![deny(unsafe_code)]
// Users copy examples, so examples compile without warnings.
#![doc(test(attr(deny(warnings))))]

/// The example of the README, compiled as it stands there.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod admin;
mod archive;
pub mod config;
#[allow(unsafe_code)]
mod engine;
mod error;
mod hosts;
mod inspect;
mod ledger;
mod listen;
mod loader;
mod log;
mod mailbox;
mod metrics;
mod pack;
mod recent;
mod release;
mod residency;
mod roster;
mod sandbox;
mod served;
mod server;
mod site;
mod stock;
mod supervisor;
#[allow(unsafe_code)]
mod sys;
mod systemd;
mod users;
mod watch;
mod wheel;
mod worker;

pub use admin::{Admin, Order, ask, order};
pub use archive::MAX_UNPACKED_LEN;
pub use engine::{Chosen, Engine};
pub use error::Trouble;
pub use hosts::{SiteLimits, Unknown, VirtualHost, VirtualHosts};
pub use inspect::{inspect, verify};
pub use listen::{Address, Bound, default_addresses, usual_admin};
pub use log::{Addresses, LogForm, LogSink, LogTarget, Logging, Rotation, SiteLog, turn};
pub use metrics::{Metrics, Responses, SiteMetrics, Stage};
pub use pack::{Packing, carried_archive, carries_site, pack};
pub use release::{Release, Releases, Switched, Turn};
pub use server::{Handle, Server, Settings};
pub use site::{Site, Source};
pub use supervisor::{Of, Role, Served, Service, Told, supervise};
pub use tarpon_conn::{HostName, HostNameError};
pub use tarpon_pack::{
    ArchiveSizes, CODINGS, Changes, CompressionEffort, DELTA_CODINGS, Defect, Dialect, InspectedEntry,
    InspectedPath, InspectedRule, InspectedVariant, PackReport, PackStep, Policy, Progress, ProgressSnapshot,
    Reuse, Savings, SiteInspection, TrailingSlash, UserDirectory, Verification,
};
pub use users::{UserConfig, UserDirectories};
pub use watch::{Change, Following, Watched};
