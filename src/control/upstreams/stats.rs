//! The numbers of upstream servers, for the admin listener.

use crate::{
    base::upstream_config::{UpstreamAddress, UpstreamConfig},
    control::metrics::{UpstreamMetrics, UpstreamState},
    data::upstreams::table::{ServerAvailability, ServerCounts, UpstreamTable},
};
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
