//! tarpon is a web server for static sites. It turns a directory or tar archive into one immutable image before the first request:
//! contents, header fields, compressed variants and redirects are ready, and a request only has to be parsed, looked up and sent.
//!
//! The program `tarpon` is a thin layer over this library, and another program can embed the same server. It serves a directory:
//!
//! ```no_run
//! use std::net::TcpListener;
//! use tarpon::{Server, Settings, Site};
//!
//! let listener = TcpListener::bind("127.0.0.1:8080")?;
//! let server = Server::start(&Settings::default(), vec![listener.try_into()?], Site::from_dir("public")?)?;
//! server.join()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! It serves a tar archive, also a compressed one, or one that `tarpon pack` has written:
//!
//! ```no_run
//! use std::net::TcpListener;
//! use tarpon::{Server, Settings, Site};
//!
//! let listener = TcpListener::bind("127.0.0.1:8080")?;
//! let site = Site::from_archive("site.tar", "")?;
//! let server = Server::start(&Settings::default(), vec![listener.try_into()?], site)?;
//! server.join()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! It follows a directory, and serves each change as soon as all of it was read:
//!
//! ```no_run
//! use std::net::TcpListener;
//! use tarpon::{Server, Settings, SiteChange, SiteSource, SiteWatcher};
//!
//! let source = SiteSource { path: "public".into(), ..SiteSource::default() };
//! let (watcher, site) = SiteWatcher::new(source)?;
//! let listener = TcpListener::bind("127.0.0.1:8080")?;
//! let server = Server::start(&Settings::default(), vec![listener.try_into()?], site)?;
//! let handle = server.handle();
//! // Dropping it ends the watch.
//! let _watch = watcher.follow(move |change| match change {
//!     SiteChange::Site(site) | SiteChange::Compressed(site) => handle.swap(*site),
//!     // The server keeps the site that it has.
//!     SiteChange::Failed(error) => eprintln!("{error}"),
//!     SiteChange::Polling(_) | SiteChange::Replaced => {}
//! })?;
//! server.join()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Handle::stop`] ends a server from any thread. An error is a sentence that names the thing, the reason and a remedy.
//!
//! | to | see | feature |
//! |---|---|---|
//! | serve one site or several | [`Server`], [`Site`], [`VirtualHosts`], [`Settings`] | |
//! | respond by functions of the program | [`Functions`], [`Route`], [`Request`], [`Response`] | |
//! | replace a site when its files change | [`SiteWatcher`], [`Handle::swap`] | |
//! | log requests, read metrics | [`Logging`], [`Handle::log_to`], [`Metrics`] | |
//! | list a packed site, and releases | [`inspect`], [`Releases`] | |
//! | serve HTTPS | [`Listener::with_tls`], [`TlsConfig`], [`TlsCertificate`] | `tls` |
//! | pack a site into one archive, verify it, activate a release | [`pack`], [`verify`], [`Releases::activate`] | `pack` |
//! | compress a directory while it is served | [`SiteSource::compression`] | `pack` |
//! | run the whole program with its processes | [`supervise`], [`Service`] | `program` |
//!
//! All features are on by default. Without default features the library takes a quarter of the crates.
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
// Parts of the lower planes serve the program alone. The build with all features checks that each is in use, and public to someone.
#![cfg_attr(not(feature = "program"), allow(dead_code, unreachable_pub))]
// Examples compile without warnings, as users copy them.
#![doc(test(attr(deny(warnings))))]

/// The example of the README, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod base;
mod control;
mod data;
#[cfg(feature = "program")]
mod program;
mod site;
#[allow(unsafe_code)]
#[cfg_attr(not(feature = "program"), allow(unused_imports))]
mod sys;

pub use base::{
    address::{Address, ListenAddress, ListenValue, default_addresses},
    admin_access::{AdminAccess, AdminToken},
    client_limits::{LimitChoice, PathLimit},
    engine::{ChosenEngine, Engine},
    error::UserError,
    functions::{
        Functions,
        request::FunctionRequest as Request,
        response::{FunctionResponse as Response, IntoResponse},
        route::FunctionRoute as Route,
        stream::{EventWriter, ResponseWriter},
    },
    listener_options::ListenerOptions,
    log_config::{LogClientIp, LogFormat, LogTarget, Logging, Rotation, SiteLog},
    settings::{Http2Use, KernelTlsUse, Settings, SiteLimits, UnknownHost},
    site_config::{MAX_UNPACKED_LEN, SiteSource, UserDirectories},
    socket_access::SocketAccess,
};
pub use bytes::Bytes;
pub use control::{
    access_log::{LogSink, rotate_files},
    listeners::{Listener, default_admin_address},
    metrics::{
        CertificateMetrics, CgiMetrics, Exemplar, HotPathMetrics, Metrics, PathMetrics, ProcessMetrics,
        ReadFailure, Responses, ServerState, SiteMetrics, SiteReading, TlsHandshakes, UpstreamMetrics,
        UpstreamState,
    },
    server::{Handle, Server},
};
pub use site::{
    Site,
    embedded::{embedded_archive, has_embedded_site},
    inspect::inspect,
    releases::{PruneReport, Release, ReleaseState, Releases},
    virtual_hosts::{VirtualHost, VirtualHosts},
    watch::{SiteChange, SiteWatcher, WatchHandle},
};
pub use tarpon_conn::{
    AddressEntry, BurstTooLong, HostName, HostNameError, IpNetwork, PathPrefix, PathPrefixError, ProxyTrust,
    RequestLimit, RequestRate, SendRate, TrustedProxy,
};
pub use tarpon_http::forwarded::ForwardedField;
pub use tarpon_pack::{
    BackgroundCompression, CODINGS, CompressedFiles, CompressionEffort, ConfiguredRules, DELTA_CODINGS,
    Dialect, ErrorPage, HeaderEntry, InspectedEntry, InspectedLogPath, InspectedPath, InspectedRule,
    InspectedVariant, PackStep, PathEntry, Policy, Progress, ProgressSnapshot, RedirectEntry, RulePosition,
    RuleText, SiteInspection, TrailingSlash, UserDirectory,
};

#[cfg(feature = "tls")]
pub use control::tls::{certificate::TlsCertificate, policy::TlsConfig};

#[cfg(feature = "pack")]
pub use {
    site::{
        pack::{SitePacking, pack},
        releases::Activation,
        verify::verify,
    },
    tarpon_pack::{ArchiveSizes, Changes, Defect, PackReport, Reuse, Savings, Verification},
};

#[cfg(feature = "program")]
pub use {
    base::{
        acme_config::{AcmeChallenge, AcmeConfig, ExternalAccount, LETS_ENCRYPT, LETS_ENCRYPT_STAGING},
        cgi_config::{CgiConfig, SiteCgi},
        client_limits::PasswordLimit,
        password::{InvalidPasswordUser, PasswordUser},
        site_config::UserConfig,
        tls_config::{CertificateFiles, ServiceTls, TlsPolicy},
        upstream_config::{
            Balance, HealthCheck, HostPolicy, ProxyPaths, SiteProxy, UpstreamAddress, UpstreamConfig,
            UpstreamFastCgi, UpstreamProtocol, UpstreamServer, UpstreamTls,
        },
    },
    control::{
        admin::{Admin, Order, fetch_metrics, fetch_metrics_with_token, send_order},
        supervisor::{Notice, Role, Service, ServingReport, SiteLabel, supervise},
    },
    program::config,
};

#[cfg(feature = "program")]
#[doc(hidden)]
pub use program::{import, run as run_program};
