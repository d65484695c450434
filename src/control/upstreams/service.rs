//! What a configuration needs for its upstreams: their servers by number, the routes to them, the table, and both ends of the channel between
//! workers and helper.

use super::{
    check::{CheckKind, CheckTls},
    connect::ConnectAddress,
    health::HealthRules,
    resolve::LookUp,
    server::ServerSetup,
    stats::{UpstreamStats, address_text},
};
use crate::{
    base::{
        error::{UserError, reason},
        site_config::SiteConfig,
        upstream_config::{
            Balance, HealthCheck, HostPolicy, ProxyPaths, SiteProxy, UpstreamAddress, UpstreamConfig,
            UpstreamFastCgi, UpstreamProtocol, UpstreamServer,
        },
    },
    control::tls::upstream::{client_config, server_name},
    data::{
        services::{HelperEndpoint, ServiceEndpoint, endpoints},
        upstreams::{
            link::WorkerUpstreams,
            plan::{ServerPlan, UpstreamPlan, UpstreamPlans},
            table::UpstreamTable,
            transport::UpstreamTransport,
        },
        worker::Backends,
    },
};
use rustix::net::SocketAddrUnix;
use std::{
    collections::BTreeSet,
    net::{IpAddr, SocketAddr},
    os::fd::{AsFd, AsRawFd, RawFd},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tarpon_conn::{
    BackendLimits, BackendProtocol, BackendRoute, BackendSettings, FastCgiSettings, HashKey, PathRewrite,
    SiteId,
};
use tarpon_site::Printable;

/// The upstreams of a configuration.
#[derive(Debug)]
pub(crate) struct UpstreamService {
    configs: Vec<UpstreamConfig>,
    plans: Arc<UpstreamPlans>,
    table: Arc<UpstreamTable>,
    routes: Arc<[UpstreamRoute]>,
    /// By the number of the server.
    transports: Arc<[UpstreamTransport]>,
    workers: ServiceEndpoint,
    helper: HelperEndpoint,
    /// Both ends of the channel for reports about servers.
    reporters: ServiceEndpoint,
    reports: HelperEndpoint,
}

/// The part of a server.
#[derive(Clone, Debug)]
pub(crate) struct UpstreamBackends {
    pub(crate) stats: UpstreamStats,
    routes: Arc<[UpstreamRoute]>,
    workers: WorkerUpstreams,
}

/// A route from paths of a site to an upstream.
#[derive(Clone, Debug)]
struct UpstreamRoute {
    site: SiteId,
    paths: ProxyPaths,
    upstream: u16,
    settings: BackendSettings,
    limits: BackendLimits,
}

/// Why upstreams cannot be used.
#[derive(Debug)]
pub(crate) struct UpstreamError {
    /// The name of the upstream that the error is about. `None`: all of them.
    pub(crate) upstream: Option<String>,
    pub(crate) error: UserError,
}

impl UpstreamError {
    fn new(upstream: &str, error: UserError) -> UpstreamError {
        UpstreamError { upstream: Some(upstream.to_owned()), error }
    }
}

/// Servers of a configuration, at most: the table has a part for each of them in the row of each worker.
const SERVER_COUNT_MAX: usize = 1_024;

impl UpstreamService {
    /// Returns the upstreams of these sites. `None`: there are none.
    ///
    /// # Errors
    /// A site names an upstream that does not exist, an address is invalid, or there are too many servers.
    pub(crate) fn new(
        configs: &[UpstreamConfig],
        sites: &[SiteConfig],
    ) -> Result<Option<UpstreamService>, UserError> {
        UpstreamService::checked(configs, sites).map_err(|errors| {
            UserError::join(errors.into_iter().map(|error| error.error)).expect("there is at least one")
        })
    }

    /// Returns the upstreams, as [`new`](UpstreamService::new), or all errors with the upstreams that they are about.
    pub(crate) fn checked(
        configs: &[UpstreamConfig],
        sites: &[SiteConfig],
    ) -> Result<Option<UpstreamService>, Vec<UpstreamError>> {
        if sites.iter().all(|site| site.proxies.is_empty()) {
            return Ok(None);
        }
        let mut errors = Vec::new();
        let server_count: usize = configs.iter().map(|config| config.servers.len()).sum();
        if server_count > SERVER_COUNT_MAX {
            let error = UserError::new(
                "cannot use these upstreams",
                format_args!("they have {server_count} servers, and {SERVER_COUNT_MAX} is the limit"),
                "use fewer servers",
            );
            errors.push(UpstreamError { upstream: None, error });
        }
        for config in configs {
            let found = config.servers.iter().filter_map(|server| unix_address(&server.address).err());
            errors.extend(found.map(|error| UpstreamError::new(&config.name, error)));
        }
        let proxies = sites.iter().enumerate().flat_map(|(number, site)| {
            site.proxies.iter().map(move |proxy| (proxy, route(configs, number, site, proxy)))
        });
        let mut routes = Vec::new();
        for (proxy, route) in proxies {
            match route {
                Ok(route) => routes.push(route),
                Err(error) => errors.push(UpstreamError::new(&proxy.upstream, error)),
            }
        }
        let mut all_transports = Vec::new();
        for config in configs {
            match transports(config) {
                Ok(transports) => all_transports.extend(transports),
                Err(error) => errors.push(UpstreamError::new(&config.name, error)),
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let service = UpstreamService::with(configs, routes, all_transports, server_count);
        service.map(Some).map_err(|error| {
            let error = UserError::new(
                "cannot use upstreams",
                reason(&error),
                "the system is short of descriptors or memory",
            );
            vec![UpstreamError { upstream: None, error }]
        })
    }

    fn with(
        configs: &[UpstreamConfig],
        routes: Vec<UpstreamRoute>,
        transports: Vec<UpstreamTransport>,
        server_count: usize,
    ) -> std::io::Result<UpstreamService> {
        let table = UpstreamTable::new(configs.len(), server_count)?;
        let (workers, helper) = endpoints()?;
        let (reporters, reports) = endpoints()?;
        Ok(UpstreamService {
            plans: Arc::new(plans(configs)),
            configs: configs.to_vec(),
            table: Arc::new(table),
            routes: routes.into(),
            transports: transports.into(),
            workers,
            helper,
            reporters,
            reports,
        })
    }

    /// Returns the part of the server.
    pub(crate) fn backends(&self) -> UpstreamBackends {
        UpstreamBackends {
            stats: UpstreamStats::new(&self.configs, Arc::clone(&self.table)),
            routes: Arc::clone(&self.routes),
            workers: WorkerUpstreams {
                plans: Arc::clone(&self.plans),
                table: Arc::clone(&self.table),
                transports: Arc::clone(&self.transports),
                helper: self.workers.clone(),
                reports: self.reporters.clone(),
                thread: None,
            },
        }
    }

    /// Returns the names of servers that are looked up.
    pub(super) fn names(&self) -> Vec<LookUp> {
        let named = self.servers().enumerate().filter_map(|(number, (_, server))| match &server.address {
            UpstreamAddress::Tcp { host, port } if host.parse::<IpAddr>().is_err() => {
                Some(LookUp { server: number, host: host.clone(), port: *port })
            }
            _ => None,
        });
        named.collect()
    }

    /// Returns the name of the upstream and the address of a server.
    pub(crate) fn describe(&self, server: u16) -> Option<(&str, String)> {
        let (config, server) = self.servers().nth(server.into())?;
        Some((&config.name, address_text(&server.address)))
    }

    /// Returns the end of the helper.
    pub(super) fn helper(&self) -> &HelperEndpoint {
        &self.helper
    }

    /// Returns the end of the helper for reports.
    pub(super) fn reports(&self) -> &HelperEndpoint {
        &self.reports
    }

    /// Returns the name of the upstream and the address of each server.
    pub(super) fn described(&self) -> Vec<(String, String)> {
        let described = |(config, server): (&UpstreamConfig, &UpstreamServer)| {
            (config.name.clone(), address_text(&server.address))
        };
        self.servers().map(described).collect()
    }

    /// Returns the descriptors that the helper inherits.
    pub(crate) fn descriptors(&self) -> Vec<RawFd> {
        [&self.helper, &self.reports].map(|end| end.as_fd().as_raw_fd()).into()
    }

    pub(super) fn table(&self) -> Arc<UpstreamTable> {
        Arc::clone(&self.table)
    }

    /// Returns what the helper needs to know of each server.
    pub(super) fn setups(&self) -> Vec<ServerSetup> {
        let setup =
            |((config, server), transport): ((&UpstreamConfig, &UpstreamServer), &UpstreamTransport)| {
                ServerSetup {
                    destination: destination(&server.address),
                    is_draining: server.is_draining,
                    connect_timeout: config.connect_timeout,
                    max_connections: config.max_connections,
                    rules: HealthRules::new(config),
                    check: config.health.clone().map(|check| {
                        let kind = check_kind(config, server, &check, transport);
                        (check, kind)
                    }),
                }
            };
        self.servers().zip(&*self.transports).map(setup).collect()
    }

    /// Returns the ports that the helper connects to: those of the servers, and that of name servers.
    pub(super) fn ports(&self) -> Vec<u16> {
        let port = |(_, server): (_, &UpstreamServer)| match server.address {
            UpstreamAddress::Tcp { port, .. } => Some(port),
            UpstreamAddress::Unix(_) => None,
        };
        let ports: BTreeSet<u16> = self.servers().filter_map(port).chain([NAME_SERVER_PORT]).collect();
        ports.into_iter().collect()
    }

    /// Returns the directories of the Unix sockets of the servers.
    pub(super) fn socket_directories(&self) -> Vec<PathBuf> {
        let directory = |(_, server): (_, &UpstreamServer)| match &server.address {
            UpstreamAddress::Tcp { .. } => None,
            UpstreamAddress::Unix(path) => path.parent().map(Path::to_owned),
        };
        let directories: BTreeSet<PathBuf> = self.servers().filter_map(directory).collect();
        directories.into_iter().collect()
    }

    /// Returns all servers in the order of their numbers.
    fn servers(&self) -> impl Iterator<Item = (&UpstreamConfig, &UpstreamServer)> {
        self.configs.iter().flat_map(|config| config.servers.iter().map(move |server| (config, server)))
    }
}

/// DNS over TCP: RFC 7766.
const NAME_SERVER_PORT: u16 = 53;

impl UpstreamBackends {
    /// Adds backends and routes to those of a server.
    ///
    /// # Errors
    /// There are too many.
    pub(crate) fn add_to(&self, backends: &mut Backends) -> Result<(), UserError> {
        for route in &*self.routes {
            let UpstreamRoute { site, paths, upstream, settings, limits } = route;
            let backend = backends.add_upstream(settings.clone(), *upstream)?;
            let route = BackendRoute { backend, limits: *limits };
            let of_site = backends.of_site(*site);
            match paths {
                ProxyPaths::All => of_site.all = Some(route),
                ProxyPaths::Below(prefix) => of_site.prefixes.push((prefix.clone(), route)),
                ProxyPaths::Suffix(suffix) => of_site.suffixes.push((suffix.as_str().into(), route)),
            }
        }
        backends.upstreams = Some(self.workers.clone());
        Ok(())
    }

    /// Returns the ends of the channels to the helper: for connections, and for reports.
    pub(crate) fn endpoints(&self) -> [&ServiceEndpoint; 2] {
        [&self.workers.helper, &self.workers.reports]
    }
}

fn plans(configs: &[UpstreamConfig]) -> UpstreamPlans {
    let mut numbers = 0..;
    let server = |server: &UpstreamServer, number: u16| {
        let seed = fnv(address_text(&server.address).as_bytes());
        ServerPlan { number, weight: server.weight, is_backup: server.is_backup, seed }
    };
    let plan = |config: &UpstreamConfig| UpstreamPlan {
        balance: config.balance,
        servers: config.servers.iter().zip(&mut numbers).map(|(of, number)| server(of, number)).collect(),
        pool_size: config.pool_size(),
        max_connections: config.max_connections,
        connect_timeout: config.connect_timeout,
    };
    UpstreamPlans::new(configs.iter().map(plan).collect())
}

/// Returns the hash FNV-1a: the same in each version of this program, so that clients keep their servers.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Returns the route of a proxy.
fn route(
    configs: &[UpstreamConfig],
    number: usize,
    site: &SiteConfig,
    SiteProxy { paths, upstream, base }: &SiteProxy,
) -> Result<UpstreamRoute, UserError> {
    let found = configs.iter().position(|config| config.name == *upstream);
    let place = found.ok_or_else(|| {
        UserError::new(
            format_args!("cannot send requests to {}", upstream.printable()),
            "no upstream has this name",
            "add an [[upstream]] section with it, or write an address, as in http://127.0.0.1:9000",
        )
    })?;
    let config = &configs[place];
    let mount = site.mount.as_ref().map_or("", |mount| mount.as_str());
    let prefix = match paths {
        ProxyPaths::Below(prefix) => prefix.as_str(),
        ProxyPaths::All | ProxyPaths::Suffix(_) => "",
    };
    let rewrite = base.as_ref().map(|base| PathRewrite {
        // The client's path begins with that of the mount.
        prefix_len: mount.len() + prefix.len(),
        base: base.trim_end_matches('/').into(),
    });
    let settings = BackendSettings {
        protocol: match config.protocol {
            UpstreamProtocol::Http | UpstreamProtocol::Https => BackendProtocol::Http1,
            UpstreamProtocol::FastCgi => BackendProtocol::FastCgi,
        },
        host: host(config).map(Into::into),
        rewrite,
        hash_key: match config.balance {
            Balance::RoundRobin | Balance::LeastConnections => HashKey::Nothing,
            Balance::HashClient => HashKey::Client,
            Balance::HashPath => HashKey::Path,
        },
        fastcgi: (config.protocol == UpstreamProtocol::FastCgi).then(|| fastcgi(&config.fastcgi, site)),
    };
    let (site, paths) = (SiteId::new(number), paths.clone());
    Ok(UpstreamRoute { site, paths, upstream: place as u16, settings, limits: limits(config) })
}

fn limits(config: &UpstreamConfig) -> BackendLimits {
    let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    BackendLimits {
        content_len_max: config.max_body,
        first_byte_ms: ms(config.response_timeout),
        response_ms: ms(config.idle_timeout),
        total_ms: config.total_timeout.map_or(u64::MAX, ms),
        tunnel_ms: ms(config.tunnel_timeout),
        idle_ms: if config.pool_size() == 0 { 0 } else { ms(config.pool_idle_time) },
        requests_max: config.pool_requests,
        retries_max: config.retries,
        ..BackendLimits::default()
    }
}

/// Returns the host in requests. `None`: that of the client.
fn host(config: &UpstreamConfig) -> Option<String> {
    match &config.host {
        HostPolicy::Client => None,
        HostPolicy::Fixed(host) => Some(host.clone()),
        HostPolicy::Upstream => config.servers.first().map(|server| authority(config.protocol, server)),
    }
}

/// Returns the host and port of a server, as in a field Host. RFC 9110, section 7.2.
fn authority(protocol: UpstreamProtocol, server: &UpstreamServer) -> String {
    let UpstreamAddress::Tcp { host, port } = &server.address else { return "localhost".to_owned() };
    let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
    let default = match protocol {
        UpstreamProtocol::Http => 80,
        UpstreamProtocol::Https => 443,
        UpstreamProtocol::FastCgi => *port,
    };
    if *port == default { host } else { format!("{host}:{port}") }
}

fn fastcgi(config: &UpstreamFastCgi, site: &SiteConfig) -> FastCgiSettings {
    let UpstreamFastCgi { root, index, suffix, params } = config;
    let root = root.as_ref().unwrap_or(&site.source.path);
    let root = std::path::absolute(root).unwrap_or_else(|_| root.clone());
    let root = root.to_string_lossy();
    FastCgiSettings {
        root: root.trim_end_matches('/').into(),
        index: index.as_str().into(),
        suffix: suffix.as_str().into(),
        params: params.iter().map(|(name, value)| (name.as_str().into(), value.as_str().into())).collect(),
    }
}

/// Returns where the helper connects to. `None`: the name is looked up.
fn destination(address: &UpstreamAddress) -> Option<ConnectAddress> {
    match address {
        UpstreamAddress::Tcp { host, port } => {
            host.parse().ok().map(|ip: IpAddr| ConnectAddress::Tcp(SocketAddr::new(ip, *port)))
        }
        UpstreamAddress::Unix(_) => unix_address(address).ok().flatten().map(ConnectAddress::Unix),
    }
}

/// Returns the address of a Unix socket, if it is one.
fn unix_address(address: &UpstreamAddress) -> Result<Option<SocketAddrUnix>, UserError> {
    let UpstreamAddress::Unix(path) = address else { return Ok(None) };
    SocketAddrUnix::new(path).map(Some).map_err(|error| {
        UserError::new(
            format_args!("cannot connect to {}", path.printable()),
            reason(&error.into()),
            "use a shorter path: a socket has 107 bytes at most",
        )
    })
}

/// Returns the transports of the connections to the servers of an upstream, in their order.
///
/// # Errors
/// The certificates of the upstream cannot be read, or servers have no name for them.
fn transports(
    UpstreamConfig { name, protocol, tls, servers, .. }: &UpstreamConfig,
) -> Result<Vec<UpstreamTransport>, UserError> {
    if *protocol != UpstreamProtocol::Https {
        return Ok(servers.iter().map(|_| UpstreamTransport::Plain).collect());
    }
    let config = client_config(name, tls)?;
    let (mut transports, mut errors) = (Vec::new(), Vec::new());
    for server in servers {
        match server_name(name, tls, &server.address) {
            Ok(name) => transports.push(UpstreamTransport::Tls { config: Arc::clone(&config), name }),
            Err(error) => errors.push(error),
        }
    }
    UserError::join(errors).map_or(Ok(transports), Err)
}

/// Returns what the checks of a server do.
fn check_kind(
    config: &UpstreamConfig,
    server: &UpstreamServer,
    check: &HealthCheck,
    transport: &UpstreamTransport,
) -> CheckKind {
    if config.protocol == UpstreamProtocol::FastCgi {
        return CheckKind::Connect;
    }
    let host = host(config).unwrap_or_else(|| authority(config.protocol, server));
    let version = env!("CARGO_PKG_VERSION");
    let request = format!(
        "GET {} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: tarpon/{version} (health check)\r\nConnection: close\r\n\r\n",
        check.path
    );
    let tls = match transport {
        UpstreamTransport::Plain => None,
        UpstreamTransport::Tls { config, name } => {
            Some(CheckTls { config: Arc::clone(config), name: name.clone() })
        }
    };
    CheckKind::Http { request: request.into_bytes().into(), tls }
}
