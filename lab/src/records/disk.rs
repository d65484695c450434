//! The record of random reads from a disk, by the length of its queue.

use serde::{Deserialize, Serialize};

use super::machine::MachineInfo;
use crate::stats::Spread;

/// All numbers of an experiment on random reads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct DiskRecord {
    /// The command that repeats the experiment.
    pub(crate) command: String,
    pub(crate) machine: MachineInfo,
    /// Name and version of the program that reads.
    pub(crate) program: String,
    /// Bytes of the file.
    pub(crate) file_len: u64,
    /// How long each window reads.
    pub(crate) seconds: u32,
    /// Reads at once, in the order of the table.
    pub(crate) depths: Vec<u32>,
    /// One window for each of them in each round.
    pub(crate) rounds: Vec<Vec<DiskWindow>>,
}

/// Reads with one length of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct DiskWindow {
    /// Reads at once.
    pub(crate) depth: u32,
    /// Reads per second.
    pub(crate) rate: f64,
    /// Times that half of the reads, and 99 of 100, did not exceed.
    pub(crate) p50_ns: u64,
    pub(crate) p99_ns: u64,
    /// CPU time of the reader, as a share of a core.
    pub(crate) cpu_share: f64,
    /// How much of the time the disk had something to do, if the kernel counts it.
    pub(crate) disk_share: Option<f64>,
}

impl DiskRecord {
    /// Returns the spread of a number with one length of the queue.
    pub(crate) fn spread(&self, depth: u32, number: impl Fn(&DiskWindow) -> Option<f64>) -> Option<Spread> {
        let windows = self.rounds.iter().flatten().filter(|window| window.depth == depth);
        Spread::of(windows.filter_map(number))
    }

    /// Returns the spread of the ratio between the rate with one length of the queue and that with the first, within each round.
    pub(crate) fn gain(&self, depth: u32) -> Option<Spread> {
        let first = *self.depths.first()?;
        let rate = |round: &[DiskWindow], depth| {
            round.iter().find(|window| window.depth == depth).map(|window| window.rate)
        };
        let pairs = self.rounds.iter().filter_map(|round| Some((rate(round, depth)?, rate(round, first)?)));
        Spread::of_ratios(pairs)
    }
}
