//! The record of the ladder: optimisations of a published case study, each added to those before it.
//!
//! The case study is about files, and JSON of a server behind nginx. Its figures are constants here, because no experiment of the lab measures
//! them.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::loads::CheckedResponses;
use super::machine::MachineInfo;
use super::round::{MeasuredRound, MeasuredServer, clean};
use super::server::PeerServer;
use super::two_cores::TwoCoreTimes;
use crate::stats::Spread;

/// A stage of the ladder: everything before it, and one optimisation more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LadderStage {
    /// epoll, and connections that carry one request, on both sides.
    Initial,
    /// Files leave by sendfile(2).
    Sendfile,
    /// io_uring instead of epoll.
    Uring,
    /// Memory for requests comes from a pool.
    MemoryPool,
    /// Connections of clients stay open.
    KeepClients,
    /// Connections to the upstream stay open.
    KeepUpstream,
    /// Buffers, queues and the reuse of ports, as the case study sets them.
    SystemTuning,
}

impl LadderStage {
    /// All stages, from below to above.
    pub(crate) const ALL: [LadderStage; 7] = [
        LadderStage::Initial,
        LadderStage::Sendfile,
        LadderStage::Uring,
        LadderStage::MemoryPool,
        LadderStage::KeepClients,
        LadderStage::KeepUpstream,
        LadderStage::SystemTuning,
    ];

    /// Returns whether the lab can switch the optimisation of this stage on and off. tarpon sends large files with sendfile in any case, and
    /// both servers have pools of memory in any case.
    pub(crate) fn is_switch_of(self, server: PeerServer) -> bool {
        match self {
            LadderStage::Sendfile => !server.is_tarpon(),
            LadderStage::Uring => server.is_tarpon(),
            LadderStage::MemoryPool => false,
            _ => true,
        }
    }

    /// Returns the requests per second of the case study at this stage. It has one stage for connections of both sides.
    pub(crate) fn published(self) -> Option<usize> {
        match self {
            LadderStage::Initial => Some(10_937),
            LadderStage::Sendfile => Some(18_234),
            LadderStage::Uring => Some(32_456),
            LadderStage::MemoryPool => Some(41_234),
            LadderStage::KeepClients => None,
            LadderStage::KeepUpstream => Some(48_567),
            LadderStage::SystemTuning => Some(56_789),
        }
    }

    /// Returns the gain of the case study over its stage before.
    pub(crate) fn published_gain(self) -> Option<f64> {
        let before = LadderStage::ALL.into_iter().filter(|stage| *stage < self);
        let before = before.filter_map(LadderStage::published).next_back()?;
        Some(self.published()? as f64 / before as f64)
    }
}

impl fmt::Display for LadderStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LadderStage::Initial => "initial",
            LadderStage::Sendfile => "+ sendfile",
            LadderStage::Uring => "+ io_uring",
            LadderStage::MemoryPool => "+ memory pool",
            LadderStage::KeepClients => "+ keep-alive to clients",
            LadderStage::KeepUpstream => "+ keep-alive to the upstream",
            LadderStage::SystemTuning => "+ system tuning",
        })
    }
}

/// All numbers of an experiment with the ladder, rejected rounds included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LadderRecord {
    /// The command that repeats the experiment.
    pub(crate) command: String,
    pub(crate) machine: MachineInfo,
    pub(crate) settings: LadderSettings,
    pub(crate) servers: Vec<MeasuredServer>,
    /// In the order of measurement.
    pub(crate) rounds: Vec<MeasuredRound<LadderWindow>>,
}

/// The settings, the same for all servers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LadderSettings {
    /// Clean rounds to run.
    pub(crate) rounds: u32,
    /// Length of the timed window of a stage.
    pub(crate) seconds: f64,
    /// Connections of the client, each with one request at a time.
    pub(crate) connections: usize,
    /// The core of the server.
    pub(crate) server_core: usize,
    pub(crate) client_core: usize,
    /// The core of the upstream, which may be that of the client.
    pub(crate) upstream_core: usize,
    pub(crate) isolated: bool,
    /// The largest clean [`TwoCoreTimes::other_share`].
    pub(crate) other_share_max: f64,
}

/// All stages of one server, one after the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LadderWindow {
    pub(crate) server: PeerServer,
    /// From below to above, without those that the server has no switch for.
    pub(crate) steps: Vec<LadderStep>,
}

/// One stage of one server.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LadderStep {
    pub(crate) stage: LadderStage,
    #[serde(flatten)]
    pub(crate) times: TwoCoreTimes,
    /// CPU time of the upstream.
    pub(crate) upstream_ns: u64,
    /// What the client checked, before and after the timed window too.
    pub(crate) checked: CheckedResponses,
}

impl LadderWindow {
    /// Returns the largest [`TwoCoreTimes::other_share`] of all stages.
    pub(crate) fn other_share(&self) -> f64 {
        self.steps.iter().map(|step| step.times.other_share()).fold(0.0, f64::max)
    }

    fn at(&self, stage: LadderStage) -> Option<&LadderStep> {
        self.steps.iter().find(|step| step.stage == stage)
    }

    /// Returns the requests per second of a stage divided by those of the measured stage before it.
    fn gain(&self, stage: LadderStage) -> Option<f64> {
        let before = self.steps.iter().rfind(|step| step.stage < stage)?;
        Some(self.at(stage)?.times.rate() / before.times.rate())
    }
}

impl LadderRecord {
    /// Returns the spread of a number of one server at one stage, over the clean rounds.
    pub(crate) fn spread(
        &self,
        server: PeerServer,
        stage: LadderStage,
        number: impl Fn(&LadderStep) -> f64,
    ) -> Option<Spread> {
        Spread::of(self.clean(server).filter_map(|window| window.at(stage)).map(number))
    }

    /// Returns the spread of the gain of one server at one stage, computed within the clean rounds.
    pub(crate) fn gain(&self, server: PeerServer, stage: LadderStage) -> Option<Spread> {
        Spread::of(self.clean(server).filter_map(|window| window.gain(stage)))
    }

    /// Returns what the client checked in all rounds: an error in a dirty round is an error too.
    pub(crate) fn checked(&self) -> CheckedResponses {
        let windows = self.rounds.iter().flat_map(|round| &round.windows);
        let all = windows.flat_map(|window| &window.steps).map(|step| step.checked);
        all.fold(CheckedResponses::default(), CheckedResponses::plus)
    }

    fn clean(&self, server: PeerServer) -> impl Iterator<Item = &LadderWindow> {
        clean(&self.rounds).flat_map(|round| &round.windows).filter(move |window| window.server == server)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_gains_follow_from_the_figures() {
        #[rustfmt::skip]
        let cases = [
            // stage                      percent, as published
            (LadderStage::Initial,        None),
            (LadderStage::Sendfile,       Some(67)),
            (LadderStage::Uring,          Some(78)),
            (LadderStage::MemoryPool,     Some(27)),
            (LadderStage::KeepClients,    None),
            (LadderStage::KeepUpstream,   Some(18)),
            (LadderStage::SystemTuning,   Some(17)),
        ];
        for (stage, want) in cases {
            let percent = stage.published_gain().map(|gain| ((gain - 1.0) * 100.0).round() as i32);
            assert_eq!(percent, want, "{stage}");
        }
    }

    #[test]
    fn each_optimisation_is_a_switch_of_some_servers() {
        use LadderStage::*;
        let stages = |server| LadderStage::ALL.into_iter().filter(move |stage| stage.is_switch_of(server));
        let tarpon: Vec<_> = stages(PeerServer::TarponEpoll).collect();
        assert_eq!(tarpon, [Initial, Uring, KeepClients, KeepUpstream, SystemTuning]);
        let nginx: Vec<_> = stages(PeerServer::Nginx).collect();
        assert_eq!(nginx, [Initial, Sendfile, KeepClients, KeepUpstream, SystemTuning]);
        assert!(LadderStage::ALL.is_sorted());
    }
}
