//! The record of server starts.

use serde::{Deserialize, Serialize};

use super::machine::MachineInfo;
use super::memory::MemoryUse;
use super::round::MeasuredServer;
use super::server::PeerServer;
use crate::stats::Spread;

/// All numbers of an experiment on server starts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StartRecord {
    /// The command that repeats the experiment.
    pub(crate) command: String,
    pub(crate) machine: MachineInfo,
    pub(crate) isolated: bool,
    /// Pages of the generated site.
    pub(crate) files: u32,
    /// Bytes of all pages.
    pub(crate) bytes: u64,
    pub(crate) servers: Vec<MeasuredServer>,
    /// One window per server in each round.
    pub(crate) rounds: Vec<Vec<StartWindow>>,
}

/// One start of one server.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StartWindow {
    pub(crate) server: PeerServer,
    /// From before the process exists to the last byte of its first response.
    pub(crate) first_response_ns: u64,
    pub(crate) memory_at_first_response: MemoryUse,
    /// Different pages requested after the first response.
    pub(crate) requests: u32,
    pub(crate) memory_after_requests: MemoryUse,
}

impl StartRecord {
    /// Returns the spread of a number of one server over all rounds.
    pub(crate) fn spread(&self, server: PeerServer, number: impl Fn(&StartWindow) -> u64) -> Option<Spread> {
        let windows = self.rounds.iter().flatten().filter(|window| window.server == server);
        Spread::of(windows.map(|window| number(window) as f64))
    }
}
