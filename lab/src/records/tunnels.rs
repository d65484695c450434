//! The record of idle tunnels: the memory and the descriptors that each of them takes.

use serde::{Deserialize, Serialize};

use super::machine::MachineInfo;
use super::memory::MemoryUse;
use super::round::{MeasuredRound, MeasuredServer, clean};
use super::server::PeerServer;
use crate::stats::Spread;

/// All numbers of an experiment with tunnels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TunnelsRecord {
    /// The command that repeats the experiment.
    pub(crate) command: String,
    pub(crate) machine: MachineInfo,
    pub(crate) settings: TunnelsSettings,
    pub(crate) servers: Vec<MeasuredServer>,
    /// In the order of measurement. All are clean, as other processes change no memory of a proxy.
    pub(crate) rounds: Vec<MeasuredRound<TunnelsWindow>>,
}

/// The settings, the same for all servers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TunnelsSettings {
    pub(crate) rounds: u32,
    /// Tunnels that are open at once.
    pub(crate) tunnels: usize,
    /// Tunnels through which a message goes and comes back.
    pub(crate) sample: usize,
    pub(crate) isolated: bool,
}

/// One measurement of one proxy.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TunnelsWindow {
    pub(crate) server: PeerServer,
    /// Before the first tunnel.
    pub(crate) before: TunnelResources,
    /// With all tunnels open and idle.
    pub(crate) open: TunnelResources,
    /// After a message through each tunnel of the sample.
    pub(crate) after: TunnelResources,
    /// Messages of the sample that came back.
    pub(crate) echoed: usize,
    /// How long it took to open all tunnels, one after the other.
    pub(crate) open_ns: u64,
    /// The largest time of a message from the client to the upstream and back.
    pub(crate) echo_max_ns: u64,
}

/// What a proxy, and the kernel, hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TunnelResources {
    /// Of all processes of the proxy.
    pub(crate) memory: MemoryUse,
    /// Of all processes of the proxy.
    pub(crate) descriptors: usize,
    /// The kernel's own memory, of the whole machine: with both ends of each socket.
    pub(crate) kernel: u64,
}

impl TunnelsWindow {
    /// Returns the growth of a number until all tunnels were open, for each of them.
    pub(crate) fn per_tunnel(&self, tunnels: usize, number: impl Fn(&TunnelResources) -> f64) -> f64 {
        (number(&self.open) - number(&self.before)) / tunnels as f64
    }

    /// The same until after the messages.
    pub(crate) fn per_tunnel_after(&self, tunnels: usize, number: impl Fn(&TunnelResources) -> f64) -> f64 {
        TunnelsWindow { open: self.after, ..*self }.per_tunnel(tunnels, number)
    }
}

impl TunnelResources {
    pub(crate) fn pss(&self) -> f64 {
        self.memory.pss as f64
    }

    /// Returns the memory that only the exit of the proxy frees.
    pub(crate) fn private(&self) -> f64 {
        self.memory.private() as f64
    }

    pub(crate) fn kernel(&self) -> f64 {
        self.kernel as f64
    }

    pub(crate) fn descriptors(&self) -> f64 {
        self.descriptors as f64
    }
}

impl TunnelsRecord {
    /// Returns the spread of a number of one proxy over the rounds.
    pub(crate) fn spread(
        &self,
        server: PeerServer,
        number: impl Fn(&TunnelsWindow) -> f64,
    ) -> Option<Spread> {
        let windows = clean(&self.rounds).flat_map(|round| &round.windows);
        Spread::of(windows.filter(|window| window.server == server).map(number))
    }

    /// Returns the spread of the memory per tunnel of `server` divided by that of `base`, within each round.
    pub(crate) fn memory_ratio(&self, server: PeerServer, base: PeerServer) -> Option<Spread> {
        let pss = |round: &MeasuredRound<TunnelsWindow>, server| {
            let window = round.windows.iter().find(|window| window.server == server);
            window.map(|window| window.per_tunnel(self.settings.tunnels, TunnelResources::pss))
        };
        let pairs = clean(&self.rounds).filter_map(|round| Some((pss(round, server)?, pss(round, base)?)));
        Spread::of_ratios(pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_counts_for_each_tunnel() {
        let resources = |pss, descriptors| TunnelResources {
            memory: MemoryUse { pss, ..MemoryUse::default() },
            descriptors,
            kernel: 0,
        };
        #[rustfmt::skip]
        let cases = [
            // case        before               open                     tunnels  bytes     descriptors
            ("grows",      resources(1000, 10), resources(11_000, 30),   10,      1000.0,   2.0),
            ("stays",      resources(1000, 10), resources(1000, 10),     10,      0.0,      0.0),
            ("shrinks",    resources(1000, 10), resources(500, 10),      10,      -50.0,    0.0),
        ];
        for (name, before, open, tunnels, bytes, descriptors) in cases {
            let (server, after) = (PeerServer::Nginx, resources(2000, 10));
            let window = TunnelsWindow { server, before, open, after, echoed: 0, open_ns: 0, echo_max_ns: 0 };
            assert_eq!(window.per_tunnel(tunnels, TunnelResources::pss), bytes, "{name}");
            assert_eq!(window.per_tunnel(tunnels, TunnelResources::descriptors), descriptors, "{name}");
            assert_eq!(window.per_tunnel_after(tunnels, TunnelResources::pss), 100.0, "{name}");
        }
    }
}
