//! tarpon is a web server for static sites. It turns a directory or tar archive into one immutable image before the first request:
//! contents, header fields, compressed variants and redirects are ready, and a request only has to be parsed, looked up and sent.
//!
//! The program `tarpon` is a thin layer over this library, and another program can embed the same server:
//!
//! ```no_run
//! use std::{net::TcpListener, time::Duration};
//! use tarpon::{Server, Settings, Site};
//!
//! let listener = TcpListener::bind("127.0.0.1:8080")?;
//! let server = Server::start(&Settings::default(), vec![listener.try_into()?], Site::from_dir("public")?)?;
//! let handle = server.handle();
//! // Later, from any thread:
//! handle.swap(Site::from_dir("public")?);
//! handle.stop(Duration::from_secs(10));
//! server.join()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | to | see |
//! |---|---|
//! | serve one site or several | [`Server`], [`Site`], [`VirtualHosts`], [`Settings`] |
//! | respond by functions of the program | [`Functions`], [`Route`], [`Request`], [`Response`] |
//! | serve HTTPS | [`Listener::with_tls`], [`TlsConfig`], [`TlsCertificate`] |
//! | replace a site when its files change | [`SiteWatcher`], [`Handle::swap`] |
//! | pack a site into one archive, check it, manage releases | [`pack`], [`inspect`], [`verify`], [`Releases`] |
//! | log requests, read metrics | [`Logging`], [`Handle::log_to`], [`Metrics`] |
//! | run the whole program with its processes | [`supervise`], [`Service`] |
//!
//! The modules form planes. A module imports only from its own plane and the planes below it:
//!
//! | plane | contents |
//! |---|---|
//! | `program` | the user interface: command line, configuration file, output |
//! | `control` | processes, listeners, privileges, logs, metrics; never runs within a request |
//! | `data` | the path of a request: engines and workers |
//! | `site` | a site in memory, and how files become one |
//! | `base` | values that all planes use: errors, settings, configuration |
//! | `sys` | system calls and kernel structures |

#![deny(unsafe_code)]
// Examples compile without warnings, as users copy them.
#![doc(test(attr(deny(warnings))))]

/// The example of the README, compiled as a test.
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
    acme_config::{AcmeChallenge, AcmeConfig, ExternalAccount, LETS_ENCRYPT, LETS_ENCRYPT_STAGING},
    address::{Address, ListenAddress, ListenValue, default_addresses},
    admin_access::AdminAccess,
    cgi_config::{CgiConfig, SiteCgi},
    engine::{ChosenEngine, Engine},
    error::UserError,
    functions::{
        Functions,
        request::FunctionRequest as Request,
        response::{FunctionResponse as Response, IntoResponse},
        route::FunctionRoute as Route,
        stream::{EventWriter, ResponseWriter},
    },
    log_config::{LogClientIp, LogFormat, LogTarget, Logging, Rotation, SiteLog},
    settings::{Settings, SiteLimits, UnknownHost},
    site_config::{MAX_UNPACKED_LEN, SiteSource, UserConfig, UserDirectories},
    socket_access::SocketAccess,
    tls_config::{CertificateFiles, ServiceTls, TlsPolicy},
    upstream_config::{
        Balance, HealthCheck, HostPolicy, ProxyPaths, SiteProxy, UpstreamAddress, UpstreamConfig,
        UpstreamFastCgi, UpstreamProtocol, UpstreamServer, UpstreamTls,
    },
};
pub use bytes::Bytes;
pub use control::{
    access_log::{LogSink, rotate_files},
    admin::{Admin, Order, fetch_metrics, send_order},
    listeners::{Listener, default_admin_address},
    metrics::{CertificateMetrics, Metrics, Responses, ServerState, SiteMetrics, TlsHandshakes},
    process_usage::ProcessMetrics,
    server::{Handle, Server},
    site_states::{ReadFailure, SiteReading},
    supervisor::{Notice, Role, Service, ServingReport, SiteLabel, supervise},
    tls::{certificate::TlsCertificate, policy::TlsConfig},
    upstreams::stats::{UpstreamMetrics, UpstreamState},
};
pub use program::config;
#[doc(hidden)]
pub use program::run as run_program;
pub use site::{
    Site,
    inspect::{inspect, verify},
    pack::{SitePacking, embedded_archive, has_embedded_site, pack},
    releases::{Activation, PruneReport, Release, ReleaseState, Releases},
    virtual_hosts::{VirtualHost, VirtualHosts},
    watch::{SiteChange, SiteWatcher, WatchHandle},
};
pub use tarpon_conn::{
    HostName, HostNameError, IpNetwork, PathPrefix, PathPrefixError, ProxyTrust, TrustedProxy,
};
pub use tarpon_http::forwarded::ForwardedField;
pub use tarpon_pack::{
    ArchiveSizes, BackgroundCompression, CODINGS, Changes, CompressedFiles, CompressionEffort,
    ConfiguredRules, DELTA_CODINGS, Defect, Dialect, ErrorPage, HeaderEntry, InspectedEntry,
    InspectedLogPath, InspectedPath, InspectedRule, InspectedVariant, PackReport, PackStep, PathEntry,
    Policy, Progress, ProgressSnapshot, RedirectEntry, Reuse, RulePosition, RuleText, Savings,
    SiteInspection, TrailingSlash, UserDirectory, Verification,
};
