//! The record of a sweep: what it costs to send files of many lengths, by each method and over each link.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::machine::MachineInfo;
use super::send_method::SendMethod;
use crate::stats::Spread;

/// All numbers of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SweepRecord {
    /// The command that repeats the experiment.
    pub(crate) command: String,
    pub(crate) machine: MachineInfo,
    pub(crate) settings: SweepSettings,
    pub(crate) series: Vec<SweepSeries>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SweepSettings {
    pub(crate) rounds: u32,
    /// Bytes of the head before each content.
    pub(crate) head_len: usize,
    /// Bytes to send in a window, unless one file is longer.
    pub(crate) window_len: u64,
    pub(crate) sender_core: usize,
    pub(crate) receiver_core: usize,
    pub(crate) isolated: bool,
}

/// What lies between sender and receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum SweepLink {
    /// The loopback device
    Loopback,
    /// A pair of virtual Ethernet devices between two network namespaces
    Veth,
}

impl fmt::Display for SweepLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SweepLink::Loopback => "Loopback",
            SweepLink::Veth => "Virtual Ethernet between two network namespaces",
        })
    }
}

/// All rounds over one link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SweepSeries {
    pub(crate) link: SweepLink,
    /// Each has a window for each length and method.
    pub(crate) rounds: Vec<Vec<SweepWindow>>,
}

/// Some files, sent by one method.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SweepWindow {
    pub(crate) method: SendMethod,
    /// Bytes of content in a file.
    pub(crate) size: u64,
    pub(crate) files: u64,
    /// CPU time of the sender: the work of the kernel for it, and of the threads of its ring, included.
    pub(crate) cpu_ns: u64,
    pub(crate) elapsed_ns: u64,
}

impl SweepWindow {
    fn ns_per_file(&self) -> f64 {
        self.cpu_ns as f64 / self.files as f64
    }
}

impl SweepSeries {
    /// Returns the lengths, in the order of measurement.
    pub(crate) fn sizes(&self) -> Vec<u64> {
        let mut sizes: Vec<u64> = self.rounds.iter().flatten().map(|window| window.size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// Returns the CPU time per file over the rounds, in nanoseconds.
    pub(crate) fn ns_per_file(&self, method: SendMethod, size: u64) -> Option<Spread> {
        Spread::of(self.rounds.iter().filter_map(|round| Some(find(round, method, size)?.ns_per_file())))
    }

    /// Returns the CPU time divided by that of sends from memory, within each round.
    pub(crate) fn of_memory(&self, method: SendMethod, size: u64) -> Option<Spread> {
        let pairs = self.rounds.iter().filter_map(|round| {
            let base = find(round, SendMethod::Memory, size)?;
            Some((find(round, method, size)?.ns_per_file(), base.ns_per_file()))
        });
        Spread::of_ratios(pairs)
    }

    /// Returns the length from which on a method takes less CPU time than sends from memory.
    pub(crate) fn crossover(&self, method: SendMethod) -> Option<u64> {
        let sizes = self.sizes();
        let is_cheaper = |size: &&u64| self.of_memory(method, **size).is_some_and(|ratio| ratio.median < 1.0);
        sizes.iter().rev().take_while(is_cheaper).last().copied()
    }
}

fn find(round: &[SweepWindow], method: SendMethod, size: u64) -> Option<&SweepWindow> {
    round.iter().find(|window| (window.method, window.size) == (method, size))
}

#[cfg(test)]
impl SweepSeries {
    /// Returns a series in which sendfile takes this share of the time of sends from memory, by length.
    pub(crate) fn example(shares: &[(u64, f64)]) -> SweepSeries {
        let window =
            |method, size, cpu_ns| SweepWindow { method, size, files: 10, cpu_ns, elapsed_ns: 2 * cpu_ns };
        let windows = shares.iter().flat_map(|(size, share)| {
            let sendfile = (1_000_000.0 * share) as u64;
            [window(SendMethod::Memory, *size, 1_000_000), window(SendMethod::SendFile, *size, sendfile)]
        });
        SweepSeries { link: SweepLink::Veth, rounds: vec![windows.collect()] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crossover_is_where_all_longer_files_are_cheaper() {
        type Shares = &'static [(u64, f64)];
        #[rustfmt::skip]
        let cases: &[(&str, Shares, Option<u64>)] = &[
            // case       share of memory's time by length                    crossover
            ("in between", &[(1, 2.0), (4, 1.1), (16, 0.9), (64, 0.5)],       Some(16)),
            ("always",     &[(1, 0.9), (4, 0.8)],                             Some(1)),
            ("never",      &[(1, 0.9), (4, 1.0)],                             None),
            ("exception",  &[(1, 0.9), (4, 1.2), (16, 0.7)],                  Some(16)),
        ];
        for (name, shares, want) in cases {
            assert_eq!(SweepSeries::example(shares).crossover(SendMethod::SendFile), *want, "{name}");
        }
    }
}
