//! The records of TLS: operations with TLS, and response times beside a storm of handshakes.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::machine::MachineInfo;
use super::round::{MeasuredRound, MeasuredServer, clean};
use super::server::PeerServer;
use super::two_cores::TwoCoreTimes;
use crate::format::thousands;
use crate::stats::Spread;

/// An operation with TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum TlsOperation {
    /// A connection with a full handshake, one request and a close
    Full,
    /// A connection with a resumed handshake, one request and a close
    Resumed,
    /// A request for 1 KiB on a connection that stays open
    Small,
    /// A request for 64 KiB on a connection that stays open
    Large,
}

impl TlsOperation {
    /// Returns whether the operation begins with a new connection.
    pub(crate) fn reconnects(self) -> bool {
        matches!(self, TlsOperation::Full | TlsOperation::Resumed)
    }

    /// Returns the server with which a report compares all others.
    pub(crate) fn reference(self) -> PeerServer {
        if self.reconnects() { PeerServer::Nginx } else { PeerServer::H2o }
    }

    /// Returns the bytes of content in a response.
    pub(crate) fn content_len(self) -> usize {
        if self == TlsOperation::Large { 64 << 10 } else { 1 << 10 }
    }

    /// Returns the name on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned())
    }
}

impl fmt::Display for TlsOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TlsOperation::Full => "Full handshake, request and close",
            TlsOperation::Resumed => "Resumed handshake, request and close",
            TlsOperation::Small => "Request for 1 KiB, kept alive",
            TlsOperation::Large => "Request for 64 KiB, kept alive",
        })
    }
}

/// All numbers of an experiment on operations with TLS, rejected rounds included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TlsRecord {
    /// The command that repeats the experiment.
    pub(crate) command: String,
    pub(crate) machine: MachineInfo,
    pub(crate) settings: TlsSettings,
    /// Connections of the client, each with one operation at a time.
    pub(crate) connections: usize,
    pub(crate) servers: Vec<MeasuredServer>,
    /// One for each operation.
    pub(crate) series: Vec<TlsSeries>,
}

/// The settings of both experiments, the same for all servers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TlsSettings {
    /// Clean rounds to run.
    pub(crate) rounds: u32,
    /// Length of a timed window, or of each of its parts.
    pub(crate) seconds: f64,
    /// The core of the server.
    pub(crate) server_core: usize,
    /// The core of the client.
    pub(crate) client_core: usize,
    pub(crate) isolated: bool,
    /// The largest clean [`TwoCoreTimes::other_share`].
    pub(crate) other_share_max: f64,
}

impl TlsSettings {
    /// Returns the share of a core that other processes used, if that makes a window dirty.
    pub(crate) fn dirty_share(&self, share: f64) -> Option<f64> {
        (share > self.other_share_max).then_some(share)
    }
}

/// All rounds of one operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TlsSeries {
    pub(crate) operation: TlsOperation,
    /// In the order of measurement.
    pub(crate) rounds: Vec<MeasuredRound<TlsWindow>>,
}

/// One timed window of one server.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TlsWindow {
    pub(crate) server: PeerServer,
    #[serde(flatten)]
    pub(crate) times: TwoCoreTimes,
}

impl TlsSeries {
    /// Returns the spread of a number of one server over the clean rounds.
    pub(crate) fn spread(&self, server: PeerServer, number: impl Fn(&TwoCoreTimes) -> f64) -> Option<Spread> {
        let windows = clean(&self.rounds).flat_map(|round| &round.windows);
        Spread::of(windows.filter(|window| window.server == server).map(|window| number(&window.times)))
    }

    /// Returns how many operations the server completes in the CPU time in which `reference` completes one, within each round.
    pub(crate) fn ratio(&self, server: PeerServer, reference: PeerServer) -> Option<Spread> {
        let server_us = |round: &MeasuredRound<TlsWindow>, server| {
            round.windows.iter().find(|window| window.server == server).map(|window| window.times.server_us())
        };
        let pairs = clean(&self.rounds)
            .filter_map(|round| Some((server_us(round, reference)?, server_us(round, server)?)));
        Spread::of_ratios(pairs)
    }
}

/// All numbers of an experiment with storms of handshakes, rejected rounds included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StormRecord {
    /// The command that repeats the experiment.
    pub(crate) command: String,
    pub(crate) machine: MachineInfo,
    pub(crate) settings: TlsSettings,
    /// Requests per second, on all connections together.
    pub(crate) rate: u32,
    /// Connections with requests.
    pub(crate) connections: u32,
    /// Full handshakes per second in a storm.
    pub(crate) storm_rate: u32,
    pub(crate) servers: Vec<MeasuredServer>,
    /// In the order of measurement.
    pub(crate) rounds: Vec<MeasuredRound<StormWindow>>,
}

/// One measurement of one server: a process for each kind of certificate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StormWindow {
    pub(crate) server: PeerServer,
    /// With a certificate of ECDSA P-256.
    pub(crate) ecdsa: StormPart,
    /// With a certificate of RSA-2048.
    pub(crate) rsa: StormPart,
}

/// One process: first without handshakes, then during a storm.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StormPart {
    pub(crate) quiet: TwoCoreTimes,
    pub(crate) storm: TwoCoreTimes,
    /// Handshakes of the storm.
    pub(crate) handshakes: u64,
}

impl StormWindow {
    /// Returns the largest [`TwoCoreTimes::other_share`] of all parts.
    pub(crate) fn other_share(&self) -> f64 {
        let times = [&self.ecdsa.quiet, &self.ecdsa.storm, &self.rsa.quiet, &self.rsa.storm];
        times.map(TwoCoreTimes::other_share).into_iter().fold(0.0, f64::max)
    }
}

impl StormPart {
    /// Returns the p99 during the storm divided by the p99 without it.
    pub(crate) fn p99_ratio(&self) -> f64 {
        self.storm.latencies.p99_ns as f64 / self.quiet.latencies.p99_ns as f64
    }

    /// Returns the handshakes per second that the client completed.
    pub(crate) fn handshake_rate(&self) -> f64 {
        self.handshakes as f64 / (self.storm.latencies.cpu.elapsed_ns as f64 / 1e9)
    }
}

impl StormRecord {
    /// Returns the spread of a number of one server over the clean rounds.
    pub(crate) fn spread(&self, server: PeerServer, number: impl Fn(&StormWindow) -> f64) -> Option<Spread> {
        let windows = clean(&self.rounds).flat_map(|round| &round.windows);
        Spread::of(windows.filter(|window| window.server == server).map(number))
    }
}

/// Returns the names of operations as the command line takes them.
pub(crate) fn operation_names(operations: &[TlsOperation]) -> String {
    operations.iter().map(|operation| operation.name()).collect::<Vec<_>>().join(",")
}

/// Returns a count of connections as a phrase.
pub(crate) fn connection_count(count: usize) -> String {
    format!("{} connection{}", thousands(count), if count == 1 { "" } else { "s" })
}
