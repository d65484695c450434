//! What workers know of upstreams: their servers by number, and the limits of their connections.

use crate::base::upstream_config::Balance;
use std::time::Duration;

/// The upstreams of a generation. Their servers are numbered in order, over all upstreams.
#[derive(Clone, Debug, Default)]
pub(crate) struct UpstreamPlans {
    pub(crate) upstreams: Vec<UpstreamPlan>,
    /// By the number of the server: the number of its upstream.
    of_servers: Vec<u16>,
}

/// An upstream.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct UpstreamPlan {
    pub(crate) balance: Balance,
    pub(crate) servers: Vec<ServerPlan>,
    /// Idle connections to each server, of all workers together.
    pub(crate) pool_size: u32,
    /// Open connections to each server, of all workers together.
    pub(crate) max_connections: Option<u32>,
    /// How long the helper may take to connect.
    pub(crate) connect_timeout: Duration,
}

/// A server of an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ServerPlan {
    /// Its number among all servers.
    pub(crate) number: u16,
    pub(crate) weight: u32,
    pub(crate) is_backup: bool,
    /// Tells it from others in hashes: made of its address, so that it stays when other servers are added.
    pub(crate) seed: u64,
}

impl UpstreamPlans {
    /// Returns the plans of upstreams whose servers are numbered in order.
    pub(crate) fn new(upstreams: Vec<UpstreamPlan>) -> UpstreamPlans {
        let numbered = upstreams.iter().enumerate();
        let of_servers =
            numbered.flat_map(|(number, upstream)| upstream.servers.iter().map(move |_| number as u16));
        UpstreamPlans { of_servers: of_servers.collect(), upstreams }
    }

    /// Returns the upstream of a server.
    pub(crate) fn of_server(&self, number: usize) -> Option<&UpstreamPlan> {
        self.upstreams.get(usize::from(*self.of_servers.get(number)?))
    }
}

#[cfg(test)]
impl UpstreamPlan {
    /// Returns an upstream without servers.
    pub(crate) fn for_test() -> UpstreamPlan {
        UpstreamPlan {
            balance: Balance::RoundRobin,
            servers: Vec::new(),
            pool_size: 128,
            max_connections: None,
            connect_timeout: Duration::from_secs(5),
        }
    }
}
