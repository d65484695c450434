//! The record of a race.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::cpu::{CpuTimes, OTHER_SHARE_MAX, OTHER_SHARE_MAX_FORK};
use super::machine::MachineInfo;
use super::memory::MemoryUse;
use super::round::{MeasuredRound, MeasuredServer, clean};
use super::server::{PeerServer, RaceAnswer};
use crate::client::request::RequestForm;
use crate::format::thousands;
use crate::stats::Spread;

/// A race with more series has no table for each.
pub(crate) const SERIES_WITH_TABLES_MAX: usize = 8;

/// All numbers of a race, rejected rounds included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RaceRecord {
    /// The command that repeats the race.
    pub(crate) command: String,
    pub(crate) machine: MachineInfo,
    pub(crate) settings: RaceSettings,
    pub(crate) servers: Vec<MeasuredServer>,
    /// One for each number of connections, in the order of measurement.
    pub(crate) series: Vec<RaceSeries>,
    /// The reason, if system calls were not counted.
    pub(crate) syscall_error: Option<String>,
}

/// The settings, the same for all servers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RaceSettings {
    /// Clean rounds to run.
    pub(crate) rounds: u32,
    /// Maximum of rounds, clean or not.
    pub(crate) rounds_max: u32,
    /// Length of a timed window.
    pub(crate) seconds: f64,
    /// Length of the warm-up before each window.
    pub(crate) warm_up_seconds: f64,
    /// Bytes of content in a response: the first length, if there are several.
    pub(crate) size: usize,
    /// What answers the requests.
    #[serde(default)]
    pub(crate) answer: RaceAnswer,
    /// Requests sent at once.
    #[serde(default = "one")]
    pub(crate) pipeline: usize,
    /// The form of the requests.
    #[serde(default)]
    pub(crate) request: RequestForm,
    /// Each request has a connection of its own.
    #[serde(default)]
    pub(crate) reconnect: bool,
    /// The name of the directory whose visitors send the requests, and how many pages it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) site: Option<(String, usize)>,
    /// The core of server and client.
    pub(crate) core: usize,
    pub(crate) isolated: bool,
    /// The largest clean [`CpuTimes::other_share`].
    pub(crate) other_share_max: f64,
}

/// The pipeline of a record without one.
fn one() -> usize {
    1
}

/// All rounds with the same number of connections.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RaceSeries {
    pub(crate) connections: usize,
    /// Bytes of content in a response, if the race has several lengths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) size: Option<usize>,
    /// In the order of measurement.
    pub(crate) rounds: Vec<MeasuredRound<RaceWindow>>,
    /// System calls of each server that the lab could count.
    pub(crate) syscalls: Vec<SyscallCount>,
}

/// System calls of one server, counted in a separate window.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SyscallCount {
    pub(crate) server: PeerServer,
    pub(crate) requests: u64,
    pub(crate) calls: u64,
}

/// One timed window of one server.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RaceWindow {
    pub(crate) server: PeerServer,
    pub(crate) requests: u64,
    /// Connections that the server closed and the client opened again.
    #[serde(default)]
    pub(crate) reconnects: u64,
    /// Bytes of the first response.
    pub(crate) response_len: usize,
    /// Bytes of all responses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) times: Option<TimeQuantiles>,
    /// Memory of the server at the end of the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) memory: Option<MemoryUse>,
    #[serde(flatten)]
    pub(crate) cpu: CpuTimes,
}

/// Response times that a share of the responses did not exceed, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TimeQuantiles {
    pub(crate) p50_ns: u64,
    pub(crate) p99_ns: u64,
    pub(crate) p999_ns: u64,
}

impl RaceWindow {
    fn rate(&self) -> f64 {
        self.requests as f64 / (self.cpu.elapsed_ns as f64 / 1e9)
    }

    fn server_us(&self) -> f64 {
        self.cpu.server_ns as f64 / 1e3 / self.requests as f64
    }

    fn client_us(&self) -> f64 {
        self.cpu.client_ns as f64 / 1e3 / self.requests as f64
    }

    /// Returns the bytes that the client received per second, if they were counted.
    fn byte_rate(&self) -> Option<f64> {
        Some(self.bytes? as f64 / (self.cpu.elapsed_ns as f64 / 1e9))
    }
}

impl RaceRecord {
    /// Returns the peers that the others are compared with: without null servers, the usual ones.
    pub(crate) fn peers(&self) -> [PeerServer; 2] {
        match self.settings.answer {
            RaceAnswer::Page if !self.has_null() => [PeerServer::Nginx, PeerServer::H2o],
            answer => answer.peers(),
        }
    }

    pub(crate) fn has_null(&self) -> bool {
        self.servers.iter().any(|measured| measured.server.is_null())
    }

    /// Returns how many other cores were busy: the median of all windows of the clean rounds.
    pub(crate) fn other_cores(&self) -> Option<f64> {
        let windows = self.series.iter().flat_map(RaceSeries::clean).flat_map(|round| &round.windows);
        let shares = windows.map(|window| window.cpu.other_cores_ns as f64 / window.cpu.elapsed_ns as f64);
        Some(Spread::of(shares)?.median)
    }
}

impl RaceSeries {
    /// Returns the clean rounds.
    pub(crate) fn clean(&self) -> impl Iterator<Item = &MeasuredRound<RaceWindow>> {
        clean(&self.rounds)
    }

    /// Summarizes a server over the clean rounds. Returns `None` without clean rounds.
    pub(crate) fn summary(&self, server: PeerServer, peers: [PeerServer; 2]) -> Option<ServerSummary> {
        Some(ServerSummary {
            rate: Spread::of(self.windows(server).map(RaceWindow::rate))?,
            of_peers: peers.map(|peer| self.ratio(server, peer, RaceWindow::rate)),
            server_us: Spread::of(self.windows(server).map(RaceWindow::server_us))?,
            client_us: Spread::of(self.windows(server).map(RaceWindow::client_us))?,
        })
    }

    /// Compares two builds, or two allocators, on the same engine. Returns `None` unless both ran in a clean round.
    pub(crate) fn comparison(&self, server: PeerServer) -> Option<BuildComparison> {
        let (after, before, name) = server.comparison()?;
        let ratio = |number| self.ratio(after, before, number);
        Some(BuildComparison {
            name,
            rate: ratio(RaceWindow::rate)?,
            server_us: ratio(RaceWindow::server_us)?,
            client_us: ratio(RaceWindow::client_us)?,
        })
    }

    /// Returns whether the client had to reconnect to a server.
    pub(crate) fn reconnects(&self, server: PeerServer) -> bool {
        self.windows(server).any(|window| window.reconnects > 0)
    }

    /// Returns the system calls per request of a server, if the lab could count them.
    pub(crate) fn calls_per_request(&self, server: PeerServer) -> Option<f64> {
        let count = self.syscalls.iter().find(|count| count.server == server)?;
        Some(count.calls as f64 / count.requests as f64)
    }

    /// Returns what else was measured of a server. Returns `None` if a record has none of it, or no clean rounds.
    pub(crate) fn times_and_memory(&self, server: PeerServer) -> Option<TimesAndMemory> {
        let quantile = |time: fn(TimeQuantiles) -> u64| {
            Spread::of(self.windows(server).filter_map(|window| Some(time(window.times?) as f64)))
        };
        Some(TimesAndMemory {
            times: [
                quantile(|times| times.p50_ns)?,
                quantile(|times| times.p99_ns)?,
                quantile(|times| times.p999_ns)?,
            ],
            byte_rate: Spread::of(self.windows(server).filter_map(RaceWindow::byte_rate))?,
            memory: Spread::of(
                self.windows(server).filter_map(|window| Some(window.memory?.private() as f64)),
            )?,
        })
    }

    /// Returns the windows of a server in the clean rounds.
    fn windows(&self, server: PeerServer) -> impl Iterator<Item = &RaceWindow> {
        self.clean().filter_map(move |round| round.window(server))
    }

    /// Returns the spread, over the clean rounds, of the ratio between a number of `server` and that of `base`.
    fn ratio(&self, server: PeerServer, base: PeerServer, number: fn(&RaceWindow) -> f64) -> Option<Spread> {
        let pairs = self.clean().filter_map(|round| Some((round.window(server)?, round.window(base)?)));
        Spread::of_ratios(pairs.map(|(window, base)| (number(window), number(base))))
    }
}

impl fmt::Display for RaceSeries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.connections == 1 { "" } else { "s" };
        write!(f, "{} connection{plural}", thousands(self.connections))?;
        self.size.map_or(Ok(()), |size| write!(f, ", {} bytes", thousands(size)))
    }
}

impl MeasuredRound<RaceWindow> {
    fn window(&self, server: PeerServer) -> Option<&RaceWindow> {
        self.windows.iter().find(|window| window.server == server)
    }
}

/// One server over the clean rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ServerSummary {
    /// Requests per second.
    pub(crate) rate: Spread,
    /// The ratio of its rate to those of [the peers](RaceRecord::peers) in the same round.
    pub(crate) of_peers: [Option<Spread>; 2],
    /// CPU time of the server per request, in microseconds.
    pub(crate) server_us: Spread,
    /// CPU time of the client per request, in microseconds.
    pub(crate) client_us: Spread,
}

/// Response times, bytes and memory of a server over the clean rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TimesAndMemory {
    /// p50, p99 and p99.9 in nanoseconds.
    pub(crate) times: [Spread; 3],
    /// Bytes per second.
    pub(crate) byte_rate: Spread,
    /// Memory that only the exit of the server frees, in bytes.
    pub(crate) memory: Spread,
}

/// The current build divided by the earlier build, or one allocator by another one, within each round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct BuildComparison {
    /// The name of the ratio.
    pub(crate) name: &'static str,
    /// Requests per second: above 1 the current build is faster.
    pub(crate) rate: Spread,
    /// CPU time of the server per request.
    pub(crate) server_us: Spread,
    /// CPU time of the client per request. A change of the server should leave it at 1.
    pub(crate) client_us: Spread,
}

/// Returns the largest clean [`CpuTimes::other_share`] of a server.
pub(crate) fn other_share_max(server: PeerServer) -> f64 {
    match server {
        PeerServer::TarponFork => OTHER_SHARE_MAX_FORK,
        server if server.naive_rung().is_some() => OTHER_SHARE_MAX_FORK,
        _ => OTHER_SHARE_MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_is_named_after_its_connections() {
        for (connections, want) in [
            (1, "1 connection"),
            (64, "64 connections"),
            (1000, "1,000 connections"),
            (12_034, "12,034 connections"),
        ] {
            let series = RaceSeries { connections, size: None, rounds: Vec::new(), syscalls: Vec::new() };
            assert_eq!(series.to_string(), want);
        }
    }
}
