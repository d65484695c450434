//! How a server runs, as values with defaults.

use super::{engine::Engine, log_config::Logging};
use std::{
    num::{NonZeroU32, NonZeroUsize},
    time::Duration,
};
use tarpon_conn::Limits;

/// How a server runs. The default is what `tarpon serve` does when it is told nothing.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What drives the workers.
    pub engine: Engine,
    /// Threads that serve. `None`: as many as the engine usually has, which is one for each core, and of `threads` 64.
    pub worker_count: Option<NonZeroUsize>,
    /// Binds each worker to a core of its own.
    pub cpu_affinity: bool,
    /// For a whole head to arrive.
    pub header_timeout: Duration,
    /// For a request's whole content to arrive.
    pub body_timeout: Duration,
    /// For the next request on a connection.
    pub idle_timeout: Duration,
    /// For the client to take a response, or so much of it that its rate is good enough.
    pub send_timeout: Duration,
    /// Bytes per second that a client takes at least, on average over `send_timeout`. 0: any byte will do.
    pub min_send_rate: u32,
    /// Requests on one connection.
    pub keepalive_requests: NonZeroU32,
    /// Earlier sites of which files stay that were declared immutable, for pages that were loaded before a swap. At most
    /// so many, and as many as a quarter of the limit on open files has room for.
    pub keep_releases: usize,
    /// What is logged of exchanges, unless their site says otherwise ([`VirtualHost::log`](crate::VirtualHost::log)). `None`: nothing, which costs
    /// nothing. Where it goes: [`Handle::log_to`].
    pub logging: Option<Logging>,
    /// A path at which load balancers may ask whether clients are to be sent here, under every host: 200, and 503 once the server
    /// was told to stop. What a site has at this path itself comes first.
    pub health_path: Option<String>,
    /// Each exchange is told as it happens, with both heads: through `tracing`, at level DEBUG.
    pub debug: bool,
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
            keep_releases: 0,
            logging: None,
            health_path: None,
            debug: false,
        }
    }
}

impl Settings {
    /// Threads that serve.
    pub fn workers(&self) -> NonZeroUsize {
        self.worker_count.unwrap_or_else(|| self.engine.default_worker_count())
    }

    /// Sockets that listen at each address.
    pub(crate) fn socket_count(&self) -> usize {
        self.engine.socket_count(self.workers())
    }
}

/// What a site grants its clients where that differs from what its server grants: see [`Settings`]. A connection has the limits
/// of the site that was asked last; until one is known, those of the default site, or of the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // each is the setting of that name
pub struct SiteLimits {
    pub body_timeout: Option<Duration>,
    pub idle_timeout: Option<Duration>,
    pub send_timeout: Option<Duration>,
    pub min_send_rate: Option<u32>,
    pub keepalive_requests: Option<NonZeroU32>,
}

impl SiteLimits {
    /// The limits of this site of a server that grants these.
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

/// What a host means that no site has among its names, and a request without a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownHost {
    /// The site of this number.
    Site(usize),
    /// None: the answer is 421 (Misdirected Request), with the page of the first site.
    Refused,
}
