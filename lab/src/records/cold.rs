//! The record of cold reads.

use serde::{Deserialize, Serialize};

use super::cpu::CpuTimes;
use super::machine::MachineInfo;
use super::round::{MeasuredRound, MeasuredServer, clean};
use super::server::PeerServer;
use crate::stats::Spread;

/// All numbers of an experiment on cold reads, rejected rounds included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ColdRecord {
    /// The command that repeats the experiment.
    pub(crate) command: String,
    pub(crate) machine: MachineInfo,
    pub(crate) settings: ColdSettings,
    pub(crate) servers: Vec<MeasuredServer>,
    /// In the order of measurement.
    pub(crate) rounds: Vec<MeasuredRound<ColdWindow>>,
}

/// The settings, the same for all servers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ColdSettings {
    /// Clean rounds to run.
    pub(crate) rounds: u32,
    /// Length of each part of a window.
    pub(crate) seconds: f64,
    /// Requests per second for the hot page, on all connections together.
    pub(crate) rate: u32,
    /// Connections for the hot page.
    pub(crate) hot_connections: u32,
    /// Connections for cold files.
    pub(crate) cold_connections: u32,
    /// Bytes of the hot page.
    pub(crate) hot_size: usize,
    /// Bytes of a cold file.
    pub(crate) cold_size: u64,
    /// Bytes per second that the server can read from the disk.
    pub(crate) disk_rate: u64,
    /// The core of server and clients.
    pub(crate) core: usize,
    pub(crate) isolated: bool,
    /// The largest clean [`CpuTimes::other_share`].
    pub(crate) other_share_max: f64,
}

/// One measurement of one server.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ColdWindow {
    pub(crate) server: PeerServer,
    /// The hot page alone.
    pub(crate) alone: Latencies,
    /// The hot page during cold reads.
    pub(crate) with_cold_reads: Latencies,
    /// Cold files that clients received completely.
    pub(crate) cold_requests: usize,
    /// Bytes of cold responses that clients received, incomplete responses included.
    pub(crate) cold_bytes: u64,
    /// Bytes that the server read from the disk during the cold reads.
    pub(crate) disk_bytes: u64,
}

/// Response times: those of the hot page count from the scheduled time of a request to the last byte of its response.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Latencies {
    pub(crate) requests: usize,
    pub(crate) p50_ns: u64,
    pub(crate) p99_ns: u64,
    pub(crate) max_ns: u64,
    #[serde(flatten)]
    pub(crate) cpu: CpuTimes,
}

impl ColdRecord {
    /// Returns the spread of a number of one server over the clean rounds.
    pub(crate) fn spread(&self, server: PeerServer, number: impl Fn(&ColdWindow) -> f64) -> Option<Spread> {
        let windows = clean(&self.rounds).flat_map(|round| &round.windows);
        Spread::of(windows.filter(|window| window.server == server).map(number))
    }
}

#[cfg(test)]
impl ColdSettings {
    /// Returns settings for tests.
    pub(crate) fn example() -> ColdSettings {
        ColdSettings {
            rounds: 3,
            seconds: 3.0,
            rate: 1000,
            hot_connections: 4,
            cold_connections: 4,
            hot_size: 1024,
            cold_size: 1 << 20,
            disk_rate: 4 << 20,
            core: 0,
            isolated: true,
            other_share_max: 0.03,
        }
    }
}
