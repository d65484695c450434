//! The record of attacks: the response times of another client, and what the server took.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::machine::MachineInfo;
use super::round::MeasuredServer;
use super::server::PeerServer;
use super::two_cores::TwoCoreTimes;
use crate::stats::quantile;

/// What an attacker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum AttackKind {
    /// Opens and resets connections without end
    Connections,
    /// Holds up to 20,000 connections without a request
    Idle,
    /// Holds 1,000 connections with a head that grows by a field each second
    SlowHeads,
    /// Holds 1,000 connections that request 4 MiB each and read nothing
    SlowReaders,
    /// Sends heads of 24 KiB without end
    LargeHeads,
    /// Asks for 1,300 ranges at once, without end
    Ranges,
    /// Sends pings of HTTP/2 without end
    Http2Pings,
    /// Sends settings of HTTP/2 without end
    Http2Settings,
    /// Opens and resets streams of HTTP/2 without end
    Http2Resets,
    /// Sends fields of one request of HTTP/2 without end
    Http2Continuations,
}

impl fmt::Display for AttackKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AttackKind::Connections => "connections, reset at once",
            AttackKind::Idle => "idle connections",
            AttackKind::SlowHeads => "1,000 heads that never end",
            AttackKind::SlowReaders => "1,000 clients that read nothing",
            AttackKind::LargeHeads => "heads of 24 KiB",
            AttackKind::Ranges => "1,300 ranges in a request",
            AttackKind::Http2Pings => "HTTP/2: pings",
            AttackKind::Http2Settings => "HTTP/2: settings",
            AttackKind::Http2Resets => "HTTP/2: streams, reset at once",
            AttackKind::Http2Continuations => "HTTP/2: headers without end",
        })
    }
}

/// All numbers of an experiment with attacks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct AttacksRecord {
    /// The command that repeats the experiment.
    pub(crate) command: String,
    pub(crate) machine: MachineInfo,
    pub(crate) settings: AttacksSettings,
    pub(crate) servers: Vec<MeasuredServer>,
    /// In the order of measurement.
    pub(crate) windows: Vec<AttackWindow>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct AttacksSettings {
    pub(crate) rounds: u32,
    /// Length of each part of a window.
    pub(crate) seconds: f64,
    /// Requests per second of the other client, on all its connections together.
    pub(crate) rate: u32,
    pub(crate) connections: u32,
    /// Idle connections of the attack of this name: as many as the limit on open files allows.
    pub(crate) idle_connections: usize,
    pub(crate) server_core: usize,
    pub(crate) client_core: usize,
    pub(crate) isolated: bool,
}

/// One attack on one server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct AttackWindow {
    pub(crate) server: PeerServer,
    pub(crate) kind: AttackKind,
    /// The other client, beside a process that uses as much of its core as the attacker did.
    pub(crate) burning: ClientTimes,
    /// The other client, beside the attack; or why it got no response.
    pub(crate) attacked: Result<ClientTimes, String>,
    /// Memory that only the exit of the server frees, before, at the end of the attack, and after it.
    pub(crate) private_bytes: [u64; 3],
    /// Descriptors before the attack, and after it.
    pub(crate) descriptors: [usize; 2],
}

/// The response times of the other client in a part of a window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ClientTimes {
    pub(crate) all: TwoCoreTimes,
    /// The p99 of each slice of the time, in nanoseconds.
    pub(crate) slice_p99s_ns: Vec<u64>,
}

/// The p99 of slices in microseconds: of all rounds, beside the attack or the burning process.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SliceTimes {
    /// Sorted, and not empty.
    p99s_ns: Vec<u64>,
}

impl SliceTimes {
    pub(crate) fn of<'a>(times: impl IntoIterator<Item = &'a ClientTimes>) -> Option<SliceTimes> {
        let mut p99s_ns = times.into_iter().flat_map(|times| times.slice_p99s_ns.clone()).collect::<Vec<_>>();
        p99s_ns.sort_unstable();
        (!p99s_ns.is_empty()).then_some(SliceTimes { p99s_ns })
    }

    /// Returns what this share of the slices does not exceed, in microseconds.
    pub(crate) fn us(&self, share: f64) -> f64 {
        quantile(&self.p99s_ns, share) as f64 / 1e3
    }
}

impl AttackWindow {
    /// Returns the usual p99 beside the attack divided by the usual p99 beside the burning process.
    pub(crate) fn p99_ratio(&self) -> Option<f64> {
        let attacked = SliceTimes::of([self.attacked.as_ref().ok()?])?;
        Some(attacked.us(0.5) / SliceTimes::of([&self.burning])?.us(0.5))
    }
}

impl AttacksRecord {
    /// Returns the windows of an attack on a server.
    pub(crate) fn windows(
        &self,
        server: PeerServer,
        kind: AttackKind,
    ) -> impl Iterator<Item = &AttackWindow> {
        self.windows.iter().filter(move |window| window.server == server && window.kind == kind)
    }

    /// Returns the times beside the burning process, and those beside the attack unless the other client got no response in a round.
    pub(crate) fn slices(
        &self,
        server: PeerServer,
        kind: AttackKind,
    ) -> (Option<SliceTimes>, Option<SliceTimes>) {
        let windows = || self.windows(server, kind);
        let attacked: Option<Vec<_>> = windows().map(|window| window.attacked.as_ref().ok()).collect();
        (SliceTimes::of(windows().map(|window| &window.burning)), attacked.and_then(SliceTimes::of))
    }
}
