//! The record of reverse proxies: requests that each of them forwards to the same upstream.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::loads::CheckedResponses;
use super::machine::MachineInfo;
use super::round::{MeasuredRound, MeasuredServer, clean};
use super::server::PeerServer;
use super::tls::connection_count;
use super::two_cores::TwoCoreTimes;
use crate::format::thousands;
use crate::stats::Spread;

/// All numbers of an experiment with proxies, rejected rounds included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ProxyRaceRecord {
    /// The command that repeats the experiment.
    pub(crate) command: String,
    pub(crate) machine: MachineInfo,
    pub(crate) settings: ProxyRaceSettings,
    pub(crate) servers: Vec<MeasuredServer>,
    /// One for each length of content and number of connections, in the order of measurement.
    pub(crate) series: Vec<ProxyRaceSeries>,
}

/// The settings, the same for all servers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ProxyRaceSettings {
    /// Clean rounds to run.
    pub(crate) rounds: u32,
    /// Length of a timed window.
    pub(crate) seconds: f64,
    /// Idle connections to the upstream that a proxy keeps. 0: a connection carries one request.
    pub(crate) pool_size: u32,
    /// The core of the proxy.
    pub(crate) server_core: usize,
    pub(crate) client_core: usize,
    /// The core of the upstream, which may be that of the client.
    pub(crate) upstream_core: usize,
    pub(crate) isolated: bool,
    /// The largest clean [`TwoCoreTimes::other_share`].
    pub(crate) other_share_max: f64,
}

/// All rounds with the same content and number of connections.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ProxyRaceSeries {
    /// Bytes of content in a response.
    pub(crate) size: usize,
    pub(crate) connections: usize,
    /// In the order of measurement.
    pub(crate) rounds: Vec<MeasuredRound<ProxyRaceWindow>>,
}

/// One timed window of one proxy.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ProxyRaceWindow {
    pub(crate) server: PeerServer,
    #[serde(flatten)]
    pub(crate) times: TwoCoreTimes,
    /// CPU time of the upstream.
    pub(crate) upstream_ns: u64,
    /// What the client checked, before and after the timed window too.
    pub(crate) checked: CheckedResponses,
}

impl ProxyRaceWindow {
    /// Returns the share of its core that the proxy used.
    pub(crate) fn server_share(&self) -> f64 {
        self.times.server_share()
    }

    /// Returns the p99 in nanoseconds.
    pub(crate) fn p99_ns(&self) -> f64 {
        self.times.latencies.p99_ns as f64
    }

    /// Returns the share of its core that the client used, or client and upstream if they share one. The larger share, if they do not.
    pub(crate) fn client_share(&self, settings: &ProxyRaceSettings) -> f64 {
        let cpu = &self.times.latencies.cpu;
        let own_ns = match settings.client_core == settings.upstream_core {
            true => cpu.client_ns + self.upstream_ns,
            false => cpu.client_ns.max(self.upstream_ns),
        };
        own_ns as f64 / cpu.elapsed_ns as f64
    }
}

impl ProxyRaceSeries {
    /// Returns the spread of a number of one proxy over the clean rounds.
    pub(crate) fn spread(
        &self,
        server: PeerServer,
        number: impl Fn(&ProxyRaceWindow) -> f64,
    ) -> Option<Spread> {
        Spread::of(clean(&self.rounds).filter_map(|round| round.proxy(server)).map(number))
    }

    /// Returns the spread, over the clean rounds, of the ratio between a number of `server` and that of `base` in the same round.
    pub(crate) fn ratio(
        &self,
        server: PeerServer,
        base: PeerServer,
        number: impl Fn(&ProxyRaceWindow) -> f64,
    ) -> Option<Spread> {
        let pairs = clean(&self.rounds).filter_map(|round| Some((round.proxy(server)?, round.proxy(base)?)));
        Spread::of_ratios(pairs.map(|(window, base)| (number(window), number(base))))
    }
}

impl MeasuredRound<ProxyRaceWindow> {
    fn proxy(&self, server: PeerServer) -> Option<&ProxyRaceWindow> {
        self.windows.iter().find(|window| window.server == server)
    }
}

impl ProxyRaceRecord {
    /// Returns what the client checked of all proxies in all rounds: an error in a dirty round is an error too.
    pub(crate) fn checked(&self) -> CheckedResponses {
        let windows = self.series.iter().flat_map(|series| &series.rounds).flat_map(|round| &round.windows);
        windows.map(|window| window.checked).fold(CheckedResponses::default(), CheckedResponses::plus)
    }
}

impl fmt::Display for ProxyRaceSeries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = match self.size {
            size if size >= 1024 && size.is_multiple_of(1024) => format!("{} KiB", thousands(size / 1024)),
            size => format!("{} bytes", thousands(size)),
        };
        write!(f, "{size}, {}", connection_count(self.connections))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_is_named_after_content_and_connections() {
        #[rustfmt::skip]
        let cases = [
            (1024,       1,      "1 KiB, 1 connection"),
            (65_536,     16,     "64 KiB, 16 connections"),
            (1 << 20,    100,    "1,024 KiB, 100 connections"),
            (1000,       1000,   "1,000 bytes, 1,000 connections"),
            (0,          2,      "0 bytes, 2 connections"),
        ];
        for (size, connections, want) in cases {
            assert_eq!(ProxyRaceSeries { size, connections, rounds: Vec::new() }.to_string(), want);
        }
    }
}
