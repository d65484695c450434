//! Rounds, and the servers in them.

use serde::{Deserialize, Serialize};

use super::server::PeerServer;

/// A server that takes part in a measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct MeasuredServer {
    pub(crate) server: PeerServer,
    /// Name and version.
    pub(crate) name: String,
}

/// One window per server, one after the other. A dirty window ends its round, and reports ignore that round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct MeasuredRound<W> {
    pub(crate) clean: bool,
    /// In the order of measurement.
    pub(crate) windows: Vec<W>,
}

/// Returns the clean rounds.
pub(crate) fn clean<W>(rounds: &[MeasuredRound<W>]) -> impl Iterator<Item = &MeasuredRound<W>> {
    rounds.iter().filter(|round| round.clean)
}
