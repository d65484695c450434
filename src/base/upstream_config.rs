//! The configuration of upstream servers, which respond in the place of files.

use std::{path::PathBuf, time::Duration};
use tarpon_conn::PathPrefix;

/// An upstream: servers that can respond to the same requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamConfig {
    /// Its name. That of an upstream that `proxy` names by addresses is their text. Default: empty.
    pub name: String,
    /// The language of its servers. Default: `Http`.
    pub protocol: UpstreamProtocol,
    /// Its servers, at least one. Default: none.
    pub servers: Vec<UpstreamServer>,
    /// How the server of a request is chosen. Default: `RoundRobin`.
    pub balance: Balance,
    /// The host in the requests that it gets. Default: `Client`.
    pub host: HostPolicy,
    /// How long connecting to a server may take. Default: 5 s.
    pub connect_timeout: Duration,
    /// How long a response may take to begin. Default: 60 s.
    pub response_timeout: Duration,
    /// How long a server may take nothing of a request, or send nothing of a response. Default: 60 s.
    pub idle_timeout: Duration,
    /// How long a request and its response may take. `None`: there is no limit. Default: `None`.
    pub total_timeout: Option<Duration>,
    /// How long a tunnel stays open on which nothing passes. Default: 1 h.
    pub tunnel_timeout: Duration,
    /// The maximum length of the content of a request in bytes. Default: 100 MiB.
    pub max_body: u64,
    /// How many idle connections each server has, of all workers together. 0: a connection carries one request. `None`: the
    /// [default](UpstreamConfig::pool_size) of the protocol. Default: `None`.
    pub pool_size: Option<u32>,
    /// How long a connection may be idle. Default: 65 s.
    pub pool_idle_time: Duration,
    /// How many requests a connection carries. Default: 1,000.
    pub pool_requests: u32,
    /// How many connections each server has, of all workers together. `None`: there is no limit. Default: `None`.
    pub max_connections: Option<u32>,
    /// How often a request is repeated, where that is safe. Default: 2.
    pub retries: u8,
    /// How servers are checked. `None`: only by the requests that they get. Default: `None`.
    pub health: Option<HealthCheck>,
    /// A server is left out after this many failures within `fail_time`. 0: never. Default: 3.
    pub max_fails: u32,
    /// How long a server is left out after failures. Default: 10 s.
    pub fail_time: Duration,
    /// How long a server that is back takes to get its whole part. Default: 0 s.
    pub slow_start: Duration,
    /// The certificates that servers must have, if their addresses begin with `https`. Default: that of [`UpstreamTls`].
    pub tls: UpstreamTls,
    /// What requests of FastCGI name. Default: that of [`UpstreamFastCgi`].
    pub fastcgi: UpstreamFastCgi,
}

/// How many upstream servers a configuration has at most, of all upstreams together: each has a row in memory that all processes share, and
/// the helper checks each of them.
pub(crate) const UPSTREAM_SERVERS_MAX: usize = 1_024;

impl Default for UpstreamConfig {
    /// The defaults of the options. It has no name and no server.
    fn default() -> UpstreamConfig {
        UpstreamConfig {
            name: String::new(),
            protocol: UpstreamProtocol::Http,
            servers: Vec::new(),
            balance: Balance::RoundRobin,
            host: HostPolicy::Client,
            // A server in reach accepts within milliseconds. This leaves time for two lost SYNs, which the kernel repeats after 1 and 3 s.
            connect_timeout: Duration::from_secs(5),
            // Pages that take longer are rare, and clients leave before. nginx has the same.
            response_timeout: Duration::from_secs(60),
            // Server-sent events and long polls send a comment or a heartbeat more often.
            idle_timeout: Duration::from_secs(60),
            // A large upload or download may take hours, and its progress is watched.
            total_timeout: None,
            // Applications on WebSocket send pings, and many of them less than once a minute.
            tunnel_timeout: Duration::from_secs(3_600),
            // Larger uploads exist in few applications, and each server has a limit of its own.
            max_body: 100 << 20,
            pool_size: None,
            // Traffic in each minute keeps its connections. Servers that close them sooner cost a retry.
            pool_idle_time: Duration::from_secs(65),
            // Servers that lose memory with each connection get new ones.
            pool_requests: 1_000,
            max_connections: None,
            // A retry follows only a connection that closed while it was idle: two of them in a row are rare.
            retries: 2,
            health: None,
            // A single failure can be the fault of one request.
            max_fails: 3,
            // A restart takes seconds.
            fail_time: Duration::from_secs(10),
            slow_start: Duration::ZERO,
            tls: UpstreamTls::default(),
            fastcgi: UpstreamFastCgi::default(),
        }
    }
}

/// Idle connections of a server, by default: those of a burst stay for the next one, and a server's limit on open files is often 1,024.
const POOL_SIZE: u32 = 128;

impl UpstreamConfig {
    /// Returns how many idle connections each server has. By default none with FastCGI: there each connection holds a process.
    pub fn pool_size(&self) -> u32 {
        self.pool_size.unwrap_or(match self.protocol {
            UpstreamProtocol::Http | UpstreamProtocol::Https => POOL_SIZE,
            UpstreamProtocol::FastCgi => 0,
        })
    }
}

/// The language of an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamProtocol {
    /// HTTP/1.1, `http://`
    Http,
    /// HTTP/1.1 in TLS, `https://`
    Https,
    /// FastCGI, `fastcgi://`
    FastCgi,
}

/// A server of an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamServer {
    /// Where it listens.
    pub address: UpstreamAddress,
    /// Its part of the requests, in comparison with the others: 1 is usual.
    pub weight: u32,
    /// It gets requests only while no other server can take them.
    pub is_backup: bool,
    /// It gets no new requests: it is to be stopped.
    pub is_draining: bool,
}

/// Where an upstream server listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum UpstreamAddress {
    /// A name or an IP address, without brackets, and a port.
    Tcp {
        /// The name or the address.
        host: String,
        /// The port.
        port: u16,
    },
    /// A socket of the Unix domain.
    Unix(PathBuf),
}

/// How the server of a request is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Balance {
    /// Each in turn.
    #[default]
    RoundRobin,
    /// The one with the fewest requests in progress.
    LeastConnections,
    /// The same for all requests of a client.
    HashClient,
    /// The same for all requests of a path.
    HashPath,
}

/// The host in the requests that an upstream gets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum HostPolicy {
    /// The host that the client has named.
    #[default]
    Client,
    /// The host and port of the upstream's first address.
    Upstream,
    /// This one.
    Fixed(String),
}

/// How the servers of an upstream are checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// The path that is asked for: a status from 200 to 399 is good. With FastCGI, a connection is made and nothing sent. Default: `/`.
    pub path: String,
    /// The time between two checks. Default: 5 s.
    pub interval: Duration,
    /// How long a check may take. Default: 2 s.
    pub timeout: Duration,
    /// This many good checks in a row bring a server back. Default: 2.
    pub rise: u32,
    /// This many bad checks in a row take a server out. Default: 3.
    pub fall: u32,
}

impl Default for HealthCheck {
    /// The defaults of the options, with the path `/`.
    fn default() -> HealthCheck {
        HealthCheck {
            path: "/".to_owned(),
            // A server that stops is noticed within 15 s, at the cost of one small request in 5 s.
            interval: Duration::from_secs(5),
            // A server that needs longer for a check is of no use to clients.
            timeout: Duration::from_secs(2),
            // A single good check can be luck while a server starts, and a single bad one a lost packet.
            rise: 2,
            fall: 3,
        }
    }
}

/// The certificates that servers with TLS must have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpstreamTls {
    /// The certificates that are trusted. `None`: those of the system. Default: `None`.
    pub ca: Option<PathBuf>,
    /// The name that a certificate must be for. `None`: the host of the address. Default: `None`.
    pub name: Option<String>,
    /// Any certificate is accepted. Default: `false`.
    pub accepts_any: bool,
}

/// What requests of FastCGI name besides the fields of the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamFastCgi {
    /// The directory of the scripts, as the server sees it. `None`: that of the site. Default: `None`.
    pub root: Option<PathBuf>,
    /// The script for paths that end with a slash. Default: `index.php`.
    pub index: String,
    /// How the name of a script ends: what follows is its `PATH_INFO`. Default: `.php`.
    pub suffix: String,
    /// Further parameters. Default: none.
    pub params: Vec<(String, String)>,
}

impl Default for UpstreamFastCgi {
    /// Those of PHP.
    fn default() -> UpstreamFastCgi {
        UpstreamFastCgi {
            root: None,
            index: "index.php".to_owned(),
            suffix: ".php".to_owned(),
            params: Vec::new(),
        }
    }
}

/// The paths of a site that an upstream answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteProxy {
    /// Those at and below this one.
    pub paths: ProxyPaths,
    /// The name of the upstream.
    pub upstream: String,
    /// The path that replaces the prefix, without a slash at its end: empty for `/`. `None`: the path of the client stays.
    pub base: Option<String>,
}

/// Which paths of a site an upstream answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProxyPaths {
    /// All.
    All,
    /// Those at and below this one.
    Below(PathPrefix),
    /// Those with a segment that ends with this text, such as `.php`.
    Suffix(String),
}
