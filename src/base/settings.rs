//! How a server runs: engine, workers, timeouts and limits, with defaults.

use super::{engine::Engine, log_config::Logging};
use std::{
    num::{NonZeroU32, NonZeroUsize},
    time::Duration,
};
use tarpon_conn::{AddressEntry, Limits, ProxyTrust, RequestRate};
use tarpon_http::head::HEAD_LEN_USUAL;

/// How a server runs. The default is that of `tarpon serve` without options.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The engine of the workers. Default: `Engine::Auto`.
    pub engine: Engine,
    /// The number of workers. `None`: the default of the engine, see [`Engine::default_worker_count`]. Default: `None`.
    pub worker_count: Option<NonZeroUsize>,
    /// Pins each worker to a CPU core of its own. Default: `false`.
    pub cpu_affinity: bool,
    /// How long a client may take to send the head of a request. Default: 20 s.
    pub header_timeout: Duration,
    /// How long a client may take to send the content of a request. Default: 30 s.
    pub body_timeout: Duration,
    /// How long a connection may wait for its next request. Default: 75 s.
    pub idle_timeout: Duration,
    /// How long a client may take to receive a response, unless it keeps up `min_send_rate`. Default: 30 s.
    pub send_timeout: Duration,
    /// Minimum rate in bytes per second at which a client receives, averaged over `send_timeout`. 0: any progress is enough. Default: 500.
    pub min_send_rate: u32,
    /// Maximum number of requests on one connection. Default: 100,000.
    pub keepalive_requests: NonZeroU32,
    /// Maximum length of the head of a request in bytes: the request line and all headers. From 16,384 to 65,536; another number counts as the
    /// nearest of these. A longer head gets 414 or 431. Each buffer of a worker is 1 KiB longer, and takes memory as far as it was used. A request
    /// of HTTP/2 may have 16 KiB of headers, whatever the limit. Default: 16,384.
    pub max_head_size: usize,
    /// How many earlier versions of a site the server keeps, so that pages loaded before a swap still find files that were declared
    /// immutable. An eighth of the limit on open files bounds it too. Default: 0.
    pub keep_releases: usize,
    /// The format and content of the access log; a site can override it with [`VirtualHost::log`](crate::VirtualHost::log). `None`: no
    /// access log, at no cost. [`Handle::log_to`](crate::Handle::log_to) sets the target. Default: `None`.
    pub logging: Option<Logging>,
    /// Counts the path of one request in this many, so that [`Metrics::hot_paths`](crate::Metrics::hot_paths) has those that are asked for most. `None`: none is
    /// counted, at no cost. Default: `None`.
    pub hot_paths: Option<NonZeroU32>,
    /// A path for the health checks of load balancers, on every host. The response is 200, or 503 once the server drains. A file of
    /// the site at this path takes precedence. Default: `None`.
    pub health_path: Option<String>,
    /// Whether responses have the field Server. Default: `true`.
    pub server_header: bool,
    /// The proxies in front of the server that are trusted to name their clients, and the field in which they do. The access log then has
    /// the address of the client instead of that of the proxy. Default: no proxy.
    ///
    /// ```
    /// use tarpon::{ForwardedField, ProxyTrust, Settings};
    ///
    /// let proxies = ["10.0.0.0/8".parse()?, "unix".parse()?].into();
    /// let proxy_trust = ProxyTrust { proxies, field: Some(ForwardedField::XForwardedFor) };
    /// let settings = Settings { proxy_trust, ..Settings::default() };
    /// # let _ = settings;
    /// # Ok::<(), String>(())
    /// ```
    pub proxy_trust: ProxyTrust,
    /// How many connections may be open; further clients wait. Each worker has its share. `None`: as many as the limit on open files allows.
    /// Engines that [serve one connection at a time](Engine::is_blocking) have one for each worker. Default: `None`.
    pub max_connections: Option<NonZeroU32>,
    /// How many connections each address may have open. A further one is reset before anything is read of it. An address is an IPv4
    /// address, or the first 64 bits of an IPv6 address; trusted proxies and clients of Unix sockets have no limit. `None`: any number. Default: `None`.
    pub max_connections_per_ip: Option<NonZeroU32>,
    /// The addresses that may connect; a connection of another one is reset before anything is read of it. The most specific network of this list
    /// and of `deny` decides. Empty: all that are not denied. Default: empty.
    pub allow: Vec<AddressEntry>,
    /// The addresses that may not connect. Default: empty.
    pub deny: Vec<AddressEntry>,
    /// How many requests each address may send, of all sites together. A request over it gets 429 (Too Many Requests). An address is an IPv4
    /// address, or the first 64 bits of an IPv6 address. `None`: any number. Default: `None`.
    pub request_rate: Option<RequestRate>,
    /// How many requests an address may send at once. `None`: those of one second. Default: `None`.
    pub request_burst: Option<NonZeroU32>,
    /// Whether clients may speak HTTP/2, or must, at listeners that [decide nothing else](crate::Listener::with_http2). Default: [`Http2Use::On`].
    pub http2: Http2Use,
    /// Whether the kernel encrypts after the handshake of TLS, on Linux. Engines that serve one connection at a time encrypt by themselves.
    /// Default: `KernelTlsUse::Auto`.
    pub kernel_tls: KernelTlsUse,
    /// Emits an event for each exchange, with both heads, through `tracing` at level DEBUG. Default: `false`.
    pub debug: bool,
}

/// Whether clients may speak HTTP/2. Engines that [serve one connection at a time](Engine::is_blocking) never offer it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Http2Use {
    /// Clients may: over TLS by ALPN, and without TLS by beginning with it.
    #[default]
    On,
    /// Clients speak HTTP/1.
    Off,
    /// Clients must: over TLS, ALPN offers nothing else, and without TLS a connection that does not begin with HTTP/2 ends. A server with an
    /// engine that never offers it does not start.
    Only,
}

/// Whether the kernel encrypts the connections of TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KernelTlsUse {
    /// Those whose version and cipher it has.
    #[default]
    Auto,
    /// As `Auto`, and the server does not start if the kernel has none.
    On,
    /// None.
    Off,
}

impl Default for Settings {
    fn default() -> Settings {
        let Limits { head_ms, content_ms, idle_ms, send_ms, min_send_rate, keepalive_requests } =
            Limits::default();
        Settings {
            engine: Engine::default(),
            worker_count: None,
            cpu_affinity: false,
            header_timeout: Duration::from_millis(head_ms),
            body_timeout: Duration::from_millis(content_ms),
            idle_timeout: Duration::from_millis(idle_ms),
            send_timeout: Duration::from_millis(send_ms),
            min_send_rate,
            keepalive_requests,
            max_head_size: HEAD_LEN_USUAL,
            keep_releases: 0,
            logging: None,
            hot_paths: None,
            health_path: None,
            server_header: true,
            proxy_trust: ProxyTrust::default(),
            max_connections: None,
            max_connections_per_ip: None,
            allow: Vec::new(),
            deny: Vec::new(),
            request_rate: None,
            request_burst: None,
            http2: Http2Use::On,
            kernel_tls: KernelTlsUse::default(),
            debug: false,
        }
    }
}

impl Settings {
    /// Returns the number of workers: `worker_count`, or the default of the engine.
    pub fn workers(&self) -> NonZeroUsize {
        self.worker_count.unwrap_or_else(|| self.engine.default_worker_count())
    }

    /// Returns how many sockets listen at each address.
    pub(crate) fn socket_count(&self) -> usize {
        self.engine.socket_count(self.workers())
    }
}

/// Limits of one site that override those of the server's [`Settings`]. A connection has the limits of the site of its latest request;
/// before the first request, those of the default site, or of the first site if there is no default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SiteLimits {
    /// Overrides [`Settings::body_timeout`]. Default: `None`.
    pub body_timeout: Option<Duration>,
    /// Overrides [`Settings::idle_timeout`]. Default: `None`.
    pub idle_timeout: Option<Duration>,
    /// Overrides [`Settings::send_timeout`]. Default: `None`.
    pub send_timeout: Option<Duration>,
    /// Overrides [`Settings::min_send_rate`]. Default: `None`.
    pub min_send_rate: Option<u32>,
    /// Overrides [`Settings::keepalive_requests`]. Default: `None`.
    pub keepalive_requests: Option<NonZeroU32>,
}

impl SiteLimits {
    /// Returns the limits of the site on a server with these settings.
    pub(crate) fn resolve(&self, settings: &Settings) -> Limits {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Limits {
            head_ms: ms(settings.header_timeout),
            content_ms: ms(self.body_timeout.unwrap_or(settings.body_timeout)),
            idle_ms: ms(self.idle_timeout.unwrap_or(settings.idle_timeout)),
            send_ms: ms(self.send_timeout.unwrap_or(settings.send_timeout)),
            min_send_rate: self.min_send_rate.unwrap_or(settings.min_send_rate),
            keepalive_requests: self.keepalive_requests.unwrap_or(settings.keepalive_requests),
        }
    }
}

/// Which site answers a request without a host, or with a host that belongs to no site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownHost {
    /// The site with this number.
    Site(usize),
    /// No site. The response is 421 (Misdirected Request), with the error page of the first site.
    Refused,
}
