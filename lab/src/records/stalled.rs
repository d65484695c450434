//! The record of stalled programs, or of a stalled upstream.

use serde::{Deserialize, Serialize};

use super::machine::MachineInfo;
use super::round::{MeasuredRound, MeasuredServer, clean};
use super::server::PeerServer;
use super::two_cores::TwoCoreTimes;
use crate::stats::Spread;

/// What never answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum StalledBackend {
    /// CGI programs, one for each request.
    #[default]
    Programs,
    /// A server, to which the requests are forwarded.
    Upstream,
}

/// All numbers of an experiment on stalled programs, rejected rounds included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StalledRecord {
    /// The command that repeats the experiment.
    pub(crate) command: String,
    pub(crate) machine: MachineInfo,
    pub(crate) settings: StalledSettings,
    pub(crate) servers: Vec<MeasuredServer>,
    /// In the order of measurement.
    pub(crate) rounds: Vec<MeasuredRound<StalledWindow>>,
}

/// The settings, the same for all servers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StalledSettings {
    /// Clean rounds to run.
    pub(crate) rounds: u32,
    /// Length of each part of a window.
    pub(crate) seconds: f64,
    /// Requests per second for the page, on all connections together.
    pub(crate) rate: u32,
    /// Connections for the page.
    pub(crate) connections: u32,
    /// Requests that get no answer, each with a program or with a connection to the upstream.
    pub(crate) programs: u32,
    #[serde(default)]
    pub(crate) backend: StalledBackend,
    pub(crate) server_core: usize,
    pub(crate) client_core: usize,
    pub(crate) isolated: bool,
    /// The largest clean [`TwoCoreTimes::other_share`].
    pub(crate) other_share_max: f64,
}

/// One measurement of one server.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StalledWindow {
    pub(crate) server: PeerServer,
    /// The page, beside as many of the programs, which the lab has started and the server does not know. With an upstream: beside nothing.
    pub(crate) idle: TwoCoreTimes,
    /// The page, beside requests that are never answered.
    pub(crate) stalled: TwoCoreTimes,
}

impl StalledWindow {
    /// Returns the p99 beside stalled requests divided by the p99 without them.
    pub(crate) fn p99_ratio(&self) -> f64 {
        self.stalled.latencies.p99_ns as f64 / self.idle.latencies.p99_ns as f64
    }

    /// Returns the larger [`TwoCoreTimes::other_share`] of both parts.
    pub(crate) fn other_share(&self) -> f64 {
        self.idle.other_share().max(self.stalled.other_share())
    }
}

impl StalledRecord {
    /// Returns the spread of a number of one server over the clean rounds.
    pub(crate) fn spread(
        &self,
        server: PeerServer,
        number: impl Fn(&StalledWindow) -> f64,
    ) -> Option<Spread> {
        let windows = clean(&self.rounds).flat_map(|round| &round.windows);
        Spread::of(windows.filter(|window| window.server == server).map(number))
    }
}
