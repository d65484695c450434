//! The numbers of upstream servers, for the admin listener.

use crate::{
    base::upstream_config::{UpstreamAddress, UpstreamConfig},
    data::upstreams::table::{ServerAvailability, ServerCounts, UpstreamTable},
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Reads the numbers of the servers of a generation.
#[derive(Clone, Debug)]
pub(crate) struct UpstreamStats {
    table: Arc<UpstreamTable>,
    servers: Arc<[NamedServer]>,
}

#[derive(Debug)]
struct NamedServer {
    upstream: String,
    address: String,
    weight: u32,
    is_backup: bool,
}

/// The metrics of an upstream server. A reload begins them anew.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpstreamMetrics {
    /// The name of its upstream.
    pub upstream: String,
    /// Its address.
    pub server: String,
    /// Whether it gets requests.
    pub state: UpstreamState,
    /// Whether it gets requests only while no other server can take them.
    pub is_backup: bool,
    /// Its weight, as configured.
    pub weight: u32,
    /// The part of its weight that counts during its slow start, in per mille.
    pub effective_per_mille: u64,
    /// Open connections.
    pub open: u64,
    /// Open connections that wait for a request.
    pub idle: u64,
    /// Requests in progress.
    pub in_progress: u64,
    /// Requests that have begun.
    pub requests: u64,
    /// Requests whose connection has closed, or whose response was invalid.
    pub failed: u64,
    /// Requests to which the server did not respond in time.
    pub timed_out: u64,
    /// Requests that were repeated as their connection had closed.
    pub retried: u64,
    /// Responses with a status of 500 or more.
    pub server_errors: u64,
    /// Connections that were opened.
    pub connects: u64,
    /// Connections that could not be opened.
    pub connect_failures: u64,
}

/// Whether an upstream server gets requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UpstreamState {
    /// It does.
    #[default]
    Up,
    /// Requests have failed: it gets some only if no other server can take them.
    Suspended,
    /// Checks have failed: it gets none.
    Down,
    /// It is to be stopped: it gets none.
    Draining,
}

impl UpstreamState {
    /// Returns the name that texts have for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            UpstreamState::Up => "up",
            UpstreamState::Suspended => "suspended",
            UpstreamState::Down => "down",
            UpstreamState::Draining => "draining",
        }
    }
}

impl From<ServerAvailability> for UpstreamState {
    fn from(state: ServerAvailability) -> UpstreamState {
        match state {
            ServerAvailability::Usable => UpstreamState::Up,
            ServerAvailability::Suspended => UpstreamState::Suspended,
            ServerAvailability::Down => UpstreamState::Down,
            ServerAvailability::Draining => UpstreamState::Draining,
        }
    }
}

impl UpstreamStats {
    pub(super) fn new(configs: &[UpstreamConfig], table: Arc<UpstreamTable>) -> UpstreamStats {
        let servers = configs.iter().flat_map(|config| {
            config.servers.iter().map(|server| NamedServer {
                upstream: config.name.clone(),
                address: address_text(&server.address),
                weight: server.weight,
                is_backup: server.is_backup,
            })
        });
        UpstreamStats { table, servers: servers.collect() }
    }

    /// Forgets what is so now in the row of a worker that was killed.
    pub(crate) fn reset_row(&self, row: usize) {
        self.table.reset_row(row);
    }

    /// Returns the metrics of all servers.
    pub(crate) fn metrics(&self) -> Vec<UpstreamMetrics> {
        let metrics = |(number, server): (usize, &NamedServer)| {
            let ServerCounts {
                open,
                idle,
                busy,
                requests,
                failed,
                timed_out,
                retried,
                server_errors,
                connects,
                connect_failures,
            } = self.table.counts(number);
            UpstreamMetrics {
                upstream: server.upstream.clone(),
                server: server.address.clone(),
                state: self.table.state(number).into(),
                is_backup: server.is_backup,
                weight: server.weight,
                effective_per_mille: self.table.weight(number),
                open,
                idle,
                in_progress: busy,
                requests,
                failed,
                timed_out,
                retried,
                server_errors,
                connects,
                connect_failures,
            }
        };
        self.servers.iter().enumerate().map(metrics).collect()
    }
}

/// Returns an address as in the configuration, without its scheme.
pub(super) fn address_text(address: &UpstreamAddress) -> String {
    match address {
        UpstreamAddress::Tcp { host, port } if host.contains(':') => format!("[{host}]:{port}"),
        UpstreamAddress::Tcp { host, port } => format!("{host}:{port}"),
        UpstreamAddress::Unix(path) => format!("unix:{}", path.to_string_lossy()),
    }
}
