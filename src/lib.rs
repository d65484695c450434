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
//! The modules lie in planes; a module names only those of its own plane and of planes further down:
//!
//! | plane | what |
//! |---|---|
//! | `program` | what a person touches: command line, configuration file, output |
//! | `control` | decides and prepares: processes, listeners, rights, logs, metrics |
//! | `data` | what a request passes: engines and workers |
//! | `site` | a site as it is served, and how files become one |
//! | `base` | values that all of them name: errors, settings, configuration |
//! | `sys` | kernel structures and calls |

#![deny(unsafe_code)]
// Users copy examples, so examples compile without warnings.
#![doc(test(attr(deny(warnings))))]

/// The example of the README, compiled as it stands there.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod base;
mod control;
mod data;
mod program;
mod site;
#[allow(unsafe_code)]
mod sys;

pub use base::{
    address::{Address, default_addresses},
    engine::{ChosenEngine, Engine},
    error::UserError,
    log_config::{LogClientIp, LogFormat, LogTarget, Logging, Rotation, SiteLog},
    settings::{Settings, SiteLimits, UnknownHost},
    site_config::{MAX_UNPACKED_LEN, SiteSource, UserConfig, UserDirectories},
};
pub use control::{
    access_log::{LogSink, turn},
    admin::{Admin, Order, ask, order},
    listeners::{Listener, usual_admin},
    metrics::{Metrics, Responses, ServerState, SiteMetrics},
    server::{Handle, Server},
    supervisor::{Notice, Role, Service, ServingReport, SiteLabel, supervise},
};
pub use program::config;
#[doc(hidden)]
pub use program::run as run_program;
pub use site::{
    Site,
    inspect::{inspect, verify},
    pack::{SitePacking, embedded_archive, has_embedded_site, pack},
    releases::{Activation, Release, ReleaseState, Releases},
    virtual_hosts::{VirtualHost, VirtualHosts},
    watch::{SiteChange, SiteWatcher, WatchHandle},
};
pub use tarpon_conn::{HostName, HostNameError};
pub use tarpon_pack::{
    ArchiveSizes, CODINGS, Changes, CompressionEffort, DELTA_CODINGS, Defect, Dialect, InspectedEntry,
    InspectedPath, InspectedRule, InspectedVariant, PackReport, PackStep, Policy, Progress, ProgressSnapshot,
    Reuse, Savings, SiteInspection, TrailingSlash, UserDirectory, Verification,
};
