//! The record of the loads on functions.
//!
//! The loads are those of a published story of a server in C++, built in stages. The story's figures are constants here, because no
//! experiment of the lab measures them.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::machine::MachineInfo;
use super::round::{MeasuredRound, MeasuredServer, clean};
use super::server::PeerServer;
use super::two_cores::TwoCoreTimes;
use crate::stats::Spread;

/// A load: what clients send, on how many connections, for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FunctionLoad {
    /// Short requests on 1,000 connections
    WarmUp,
    /// Short requests on 10,000 connections
    Baseline,
    /// Requests with large headers on 5,000 connections
    HeaderStress,
    /// Large contents and malformed requests on 100 connections
    HeavyPayloads,
}

impl FunctionLoad {
    /// Returns the connections of the load.
    pub(crate) fn connections(self) -> usize {
        match self {
            FunctionLoad::WarmUp => 1_000,
            FunctionLoad::Baseline => 10_000,
            FunctionLoad::HeaderStress => 5_000,
            FunctionLoad::HeavyPayloads => 100,
        }
    }

    /// Returns how long the load lasts.
    pub(crate) fn seconds(self) -> f64 {
        match self {
            FunctionLoad::WarmUp => 5.0,
            FunctionLoad::Baseline | FunctionLoad::HeaderStress => 10.0,
            FunctionLoad::HeavyPayloads => 15.0,
        }
    }

    /// Returns the figures of the story: of its first stage, and of its best one.
    pub(crate) fn published(self) -> [PublishedFigure; 2] {
        let figure = |requests, errors| PublishedFigure { requests, errors };
        match self {
            FunctionLoad::WarmUp => [figure(1_743, None), figure(58_248, None)],
            FunctionLoad::Baseline => [figure(1_217, Some(9_406)), figure(44_944, Some(0))],
            FunctionLoad::HeaderStress => [figure(95, Some(4_833)), figure(34_930, Some(0))],
            FunctionLoad::HeavyPayloads => [figure(180, None), figure(671, Some(8_334))],
        }
    }

    /// Returns the name on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned())
    }
}

impl fmt::Display for FunctionLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FunctionLoad::WarmUp => "warm-up",
            FunctionLoad::Baseline => "baseline",
            FunctionLoad::HeaderStress => "header stress",
            FunctionLoad::HeavyPayloads => "heavy payloads, malformed input",
        })
    }
}

/// A figure of the story.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PublishedFigure {
    /// Requests per second.
    pub(crate) requests: usize,
    /// Read errors of the client; with heavy payloads, responses with another status than 2xx.
    pub(crate) errors: Option<usize>,
}

/// Returns the names of loads as the command line takes them.
pub(crate) fn load_names(loads: &[FunctionLoad]) -> String {
    loads.iter().map(|load| load.name()).collect::<Vec<_>>().join(",")
}

/// All numbers of an experiment with loads, rejected rounds included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LoadsRecord {
    /// The command that repeats the experiment.
    pub(crate) command: String,
    pub(crate) machine: MachineInfo,
    pub(crate) settings: LoadsSettings,
    pub(crate) servers: Vec<MeasuredServer>,
    /// One for each load.
    pub(crate) series: Vec<LoadSeries>,
}

/// The settings, the same for all loads and servers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LoadsSettings {
    /// Clean rounds to run.
    pub(crate) rounds: u32,
    /// The length of a window, divided by that of its load.
    pub(crate) time_factor: f64,
    /// The core of the server.
    pub(crate) server_core: usize,
    /// The core of the client.
    pub(crate) client_core: usize,
    pub(crate) isolated: bool,
    /// The largest clean [`TwoCoreTimes::other_share`].
    pub(crate) other_share_max: f64,
}

/// All rounds of one load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LoadSeries {
    pub(crate) load: FunctionLoad,
    pub(crate) connections: usize,
    /// Length of a timed window.
    pub(crate) seconds: f64,
    /// In the order of measurement.
    pub(crate) rounds: Vec<MeasuredRound<LoadWindow>>,
}

/// One window of one server.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LoadWindow {
    pub(crate) server: PeerServer,
    #[serde(flatten)]
    pub(crate) times: TwoCoreTimes,
    /// What the client checked, before and after the timed window too.
    pub(crate) checked: CheckedResponses,
}

/// The responses that a client checked, and its errors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CheckedResponses {
    /// Responses with the expected status and content.
    pub(crate) correct: u64,
    /// Connections that could not be opened.
    pub(crate) connect_errors: u64,
    /// Connections that the server reset, or closed although it should keep them open.
    pub(crate) read_errors: u64,
    /// Connections on which the server took no further bytes of a request.
    pub(crate) write_errors: u64,
    /// Responses, or expected closes, that did not arrive in time.
    pub(crate) timeouts: u64,
    /// Responses with another status than the expected one.
    pub(crate) wrong_statuses: u64,
    /// Responses with another content than the expected one, and bytes that belong to no response.
    pub(crate) wrong_contents: u64,
}

impl CheckedResponses {
    /// Returns the sum of all errors.
    pub(crate) fn errors(&self) -> u64 {
        self.connect_errors
            + self.read_errors
            + self.write_errors
            + self.timeouts
            + self.wrong_statuses
            + self.wrong_contents
    }

    /// Returns the sums with those of another window.
    pub(crate) fn plus(self, other: CheckedResponses) -> CheckedResponses {
        CheckedResponses {
            correct: self.correct + other.correct,
            connect_errors: self.connect_errors + other.connect_errors,
            read_errors: self.read_errors + other.read_errors,
            write_errors: self.write_errors + other.write_errors,
            timeouts: self.timeouts + other.timeouts,
            wrong_statuses: self.wrong_statuses + other.wrong_statuses,
            wrong_contents: self.wrong_contents + other.wrong_contents,
        }
    }
}

impl fmt::Display for CheckedResponses {
    /// Writes the errors by kind.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = [
            ("connect", self.connect_errors),
            ("read", self.read_errors),
            ("write", self.write_errors),
            ("timeout", self.timeouts),
            ("wrong status", self.wrong_statuses),
            ("wrong content", self.wrong_contents),
        ];
        let named = kinds.iter().filter(|(_, count)| *count > 0);
        let named = named.map(|(kind, count)| format!("{kind} {count}")).collect::<Vec<_>>();
        f.write_str(&named.join(", "))
    }
}

impl LoadSeries {
    /// Returns the spread of a number of one server over the clean rounds.
    pub(crate) fn spread(&self, server: PeerServer, number: impl Fn(&TwoCoreTimes) -> f64) -> Option<Spread> {
        let windows = clean(&self.rounds).flat_map(|round| &round.windows);
        Spread::of(windows.filter(|window| window.server == server).map(|window| number(&window.times)))
    }

    /// Returns what the client checked of one server in all rounds: an error in a dirty round is an error too.
    pub(crate) fn checked(&self, server: PeerServer) -> CheckedResponses {
        let windows = self.rounds.iter().flat_map(|round| &round.windows);
        windows
            .filter(|window| window.server == server)
            .fold(CheckedResponses::default(), |sum, window| sum.plus(window.checked))
    }
}

impl LoadsRecord {
    /// Returns what the client checked of all servers.
    pub(crate) fn checked(&self) -> CheckedResponses {
        let all = self
            .series
            .iter()
            .flat_map(|series| self.servers.iter().map(|measured| series.checked(measured.server)));
        all.fold(CheckedResponses::default(), CheckedResponses::plus)
    }
}
