//! Rounds: each server has one window per round. A dirty window ends its round, and another round follows.
//!
//! ```text
//! wait for an idle core ─▶ round: window, window, … ─▶ clean? ─ yes ─▶ next round, until enough are clean
//!           ▲                                            └─── no ─┐
//!           └─────────────────────────────────────────────────────┘
//! ```

use std::time::Duration;

use super::options::CoreArgs;
use crate::error::LabError;
use crate::measure::cpu;
use crate::records::cpu::OTHER_SHARE_MAX;
use crate::records::round::{MeasuredRound, MeasuredServer, clean};
use crate::records::server::PeerServer;

/// The parameters of a series of rounds.
pub(crate) struct RoundPlan<'a> {
    /// The start of each progress message: empty, or a name and a comma.
    pub(crate) label: String,
    pub(crate) servers: &'a [MeasuredServer],
    pub(crate) core: usize,
    pub(crate) idle_wait: Duration,
    /// Clean rounds to run.
    pub(crate) clean: u32,
}

impl RoundPlan<'_> {
    /// Runs rounds until enough are clean, or the maximum is reached. `measure` measures one window. `dirty_share` returns the share
    /// of the core that other processes used, if that makes the window dirty.
    pub(crate) fn run<W>(
        &self,
        mut measure: impl FnMut(PeerServer) -> Result<W, LabError>,
        dirty_share: impl Fn(&W) -> Option<f64>,
    ) -> Result<Vec<MeasuredRound<W>>, LabError> {
        let mut rounds: Vec<MeasuredRound<W>> = Vec::new();
        self.wait_until_idle()?;
        while clean(&rounds).count() < self.clean as usize && rounds.len() < rounds_max(self.clean) as usize {
            let round = self.round(rounds.len(), &mut measure, &dirty_share)?;
            if !round.clean {
                self.wait_until_idle()?;
            }
            rounds.push(round);
        }
        Ok(rounds)
    }

    /// Measures one window per server, up to the first dirty window.
    fn round<W>(
        &self,
        number: usize,
        measure: &mut impl FnMut(PeerServer) -> Result<W, LabError>,
        dirty_share: &impl Fn(&W) -> Option<f64>,
    ) -> Result<MeasuredRound<W>, LabError> {
        let (label, shown) = (&self.label, number + 1);
        let mut windows = Vec::new();
        for MeasuredServer { server, name } in order(self.servers, number) {
            let window = measure(*server).map_err(|error| format!("{name}: {error}"))?;
            let dirty = dirty_share(&window);
            windows.push(window);
            if let Some(share) = dirty {
                let percent = share * 100.0;
                eprintln!(
                    "{label}round {shown}: dirty, other processes used {percent:.1}% of the core during {name}"
                );
                return Ok(MeasuredRound { clean: false, windows });
            }
        }
        eprintln!("{label}round {shown}: clean");
        Ok(MeasuredRound { clean: true, windows })
    }

    /// Waits for an idle core, and warns about load that disturbs the measurement.
    fn wait_until_idle(&self) -> Result<(), LabError> {
        let core = self.core;
        let load = cpu::wait_until_idle(core, OTHER_SHARE_MAX, self.idle_wait)?;
        if load.core > OTHER_SHARE_MAX {
            let percent = load.core * 100.0;
            eprintln!("warning: other processes use {percent:.0}% of core {core}; rounds will be dirty");
        }
        if load.other_cores > OTHER_CORES_MAX {
            let cores = load.other_cores;
            eprintln!(
                "warning: {cores:.1} other cores are busy; they share caches with core {core}, so rounds will differ"
            );
        }
        Ok(())
    }
}

/// Returns the servers in the order of a round. Each round starts with another server, and every second round runs backwards, so that
/// no server always follows the same one.
pub(crate) fn order(servers: &[MeasuredServer], round: usize) -> impl Iterator<Item = &MeasuredServer> {
    let count = servers.len();
    (0..count).map(move |turn| {
        let step = if round.is_multiple_of(2) { turn } else { count - turn };
        &servers[(round + step) % count]
    })
}

/// Returns the maximum of rounds, clean or not.
pub(crate) fn rounds_max(clean: u32) -> u32 {
    clean * ROUNDS_PER_CLEAN_MAX
}

/// Fails if fewer than `wanted` rounds are clean.
pub(crate) fn expect_clean<W>(label: &str, rounds: &[MeasuredRound<W>], wanted: u32) -> Result<(), String> {
    let (clean, run) = (clean(rounds).count(), rounds.len());
    if clean < wanted as usize {
        return Err(format!("{label}{clean} of {run} rounds are clean: the machine is too busy; try later"));
    }
    Ok(())
}

/// Chooses the core, and pins this process to it.
pub(crate) fn pin_to_core(args: &CoreArgs) -> Result<usize, LabError> {
    let core = args.core.map_or_else(|| cpu::least_busy(WATCH_TIME), Ok)?;
    cpu::pin(core).map_err(|error| format!("core {core}: {error}"))?;
    Ok(core)
}

/// Maximum of rounds for each clean round.
const ROUNDS_PER_CLEAN_MAX: u32 = 3;

/// Requests before a timed window, so that caches, congestion windows and buffers settle.
pub(crate) const WARM_UP_TIME: Duration = Duration::from_millis(300);

/// Other cores that may be busy without a warning. They share caches and memory with the core of the measurement, and may be another
/// hardware thread of it. The lab cannot measure that effect, so it rejects nothing.
const OTHER_CORES_MAX: f64 = 0.1;

/// How long the lab watches all cores to find the least busy one.
const WATCH_TIME: Duration = Duration::from_millis(300);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_start_with_another_server_and_alternate_direction() {
        let servers = [PeerServer::NullEpoll, PeerServer::TarponEpoll, PeerServer::Nginx]
            .map(|server| MeasuredServer { server, name: server.name() });
        let names = |round| order(&servers, round).map(|server| server.name.as_str()).collect::<Vec<_>>();
        assert_eq!(names(0), ["null-epoll", "tarpon-epoll", "nginx"]);
        assert_eq!(names(1), ["tarpon-epoll", "null-epoll", "nginx"]);
        assert_eq!(names(2), ["nginx", "null-epoll", "tarpon-epoll"]);
    }

    #[test]
    fn dirty_rounds_are_repeated_up_to_a_maximum() {
        let servers = [MeasuredServer { server: PeerServer::NullEpoll, name: "null".into() }];
        let plan = |clean| RoundPlan {
            label: String::new(),
            servers: &servers,
            core: 0,
            idle_wait: Duration::ZERO,
            clean,
        };
        let mut shares = [0.5, 0.0, 0.0].into_iter();
        let rounds = plan(2).run(|_| Ok(shares.next().unwrap()), |share| (*share > 0.1).then_some(*share));
        let clean: Vec<bool> = rounds.unwrap().iter().map(|round| round.clean).collect();
        assert_eq!(clean, [false, true, true]);
        let rounds = plan(1).run(|_| Ok(0.5), |share| Some(*share)).unwrap();
        assert_eq!(rounds.len(), 3);
        assert!(expect_clean("", &rounds, 1).is_err());
    }
}
