//! The configuration of upstream servers, which respond in the place of files.

use std::{path::PathBuf, time::Duration};
use tarpon_conn::PathPrefix;

/// An upstream: servers that can respond to the same requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamConfig {
    /// Its name. That of an upstream that `proxy` names by addresses is their text.
    pub name: String,
    /// The language of its servers.
    pub protocol: UpstreamProtocol,
    /// Its servers, at least one.
    pub servers: Vec<UpstreamServer>,
    /// How the server of a request is chosen.
    pub balance: Balance,
    /// The host in the requests that it gets.
    pub host: HostPolicy,
    /// How long connecting to a server may take.
    pub connect_timeout: Duration,
    /// How long a response may take to begin.
    pub response_timeout: Duration,
    /// How long a server may take nothing of a request, or send nothing of a response.
    pub idle_timeout: Duration,
    /// How long a request and its response may take. `None`: there is no limit.
    pub total_timeout: Option<Duration>,
    /// How long a tunnel stays open on which nothing passes.
    pub tunnel_timeout: Duration,
    /// The maximum length of the content of a request in bytes.
    pub max_body: u64,
    /// How many idle connections each server has, of all workers together. 0: a connection carries one request.
    pub pool_size: u32,
    /// How long a connection may be idle.
    pub pool_idle_time: Duration,
    /// How many requests a connection carries.
    pub pool_requests: u32,
    /// How many connections each server has, of all workers together. `None`: there is no limit.
    pub max_connections: Option<u32>,
    /// How often a request is repeated, where that is safe.
    pub retries: u8,
    /// How servers are checked. `None`: only by the requests that they get.
    pub health: Option<HealthCheck>,
    /// A server is left out after this many failures within `fail_time`. 0: never.
    pub max_fails: u32,
    /// How long a server is left out after failures.
    pub fail_time: Duration,
    /// How long a server that is back takes to get its whole part.
    pub slow_start: Duration,
    /// How servers show who they are, if their addresses begin with `https`.
    pub tls: UpstreamTls,
    /// What requests of FastCGI name.
    pub fastcgi: UpstreamFastCgi,
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
    /// The path that is asked for: a status from 200 to 399 is good. With FastCGI, a connection is made and nothing sent.
    pub path: String,
    /// The time between two checks.
    pub interval: Duration,
    /// How long a check may take.
    pub timeout: Duration,
    /// This many good checks in a row bring a server back.
    pub rise: u32,
    /// This many bad checks in a row take a server out.
    pub fall: u32,
}

/// How servers with TLS show who they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpstreamTls {
    /// The certificates that are trusted. `None`: those of the system.
    pub ca: Option<PathBuf>,
    /// The name that a certificate must be for. `None`: the host of the address.
    pub name: Option<String>,
    /// Any certificate is accepted.
    pub accepts_any: bool,
}

/// What requests of FastCGI name besides the fields of the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamFastCgi {
    /// The directory of the scripts, as the server sees it. `None`: that of the site.
    pub root: Option<PathBuf>,
    /// The script for paths that end with a slash.
    pub index: String,
    /// How the name of a script ends: what follows is its `PATH_INFO`.
    pub suffix: String,
    /// Further parameters.
    pub params: Vec<(String, String)>,
}

/// The paths of a site that an upstream answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteProxy {
    /// Those at and below this one.
    pub paths: ProxyPaths,
    /// The name of the upstream.
    pub upstream: String,
    /// What stands in the place of the prefix. `None`: the path stays as it is.
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
