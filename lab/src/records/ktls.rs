//! The record of kernel TLS: instructions and system calls of responses, and of ways to send a file, inside a virtual machine.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::machine::MachineInfo;
use super::send_method::SendMethod;

/// All numbers of an experiment with kernel TLS.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct KernelTlsRecord {
    /// The command that repeats the experiment.
    pub(crate) command: String,
    /// The machine that emulated the other.
    pub(crate) machine: MachineInfo,
    pub(crate) inside: InsideRecord,
}

/// The numbers of the virtual machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct InsideRecord {
    /// Release of its kernel.
    pub(crate) kernel: String,
    pub(crate) responses: Vec<ResponseCost>,
    pub(crate) sends: Vec<SendCost>,
}

/// The part of a system that seals the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Sealing {
    /// None: clear text.
    Clear,
    /// The server.
    Server,
    Kernel,
}

impl Sealing {
    pub(crate) const ALL: [Sealing; 3] = [Sealing::Clear, Sealing::Server, Sealing::Kernel];
}

impl fmt::Display for Sealing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Sealing::Clear => "clear text",
            Sealing::Server => "TLS in the server",
            Sealing::Kernel => "TLS in the kernel",
        })
    }
}

/// The cost of some responses of tarpon on one connection, its work in the kernel included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ResponseCost {
    pub(crate) engine: String,
    pub(crate) sealing: Sealing,
    /// Bytes of content in each response.
    pub(crate) size: u64,
    pub(crate) requests: u32,
    /// Instructions of all requests.
    pub(crate) instructions: u64,
    /// Requests whose system calls were counted, apart from those above.
    pub(crate) counted_requests: u32,
    pub(crate) system_calls: u64,
}

impl ResponseCost {
    pub(crate) fn instructions_per_request(&self) -> f64 {
        self.instructions as f64 / f64::from(self.requests)
    }

    pub(crate) fn system_calls_per_request(&self) -> f64 {
        self.system_calls as f64 / f64::from(self.counted_requests)
    }
}

/// The cost of sending a file some times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SendCost {
    pub(crate) method: SendMethod,
    /// Whether the kernel sealed the bytes.
    pub(crate) is_sealed: bool,
    /// Bytes of the file.
    pub(crate) size: u64,
    pub(crate) files: u32,
    /// `None`: the kernel refused the method.
    pub(crate) cost: Option<SendTotal>,
}

/// Sums over all files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SendTotal {
    pub(crate) instructions: u64,
    pub(crate) system_calls: u64,
}

impl SendCost {
    /// Returns a sum for each KiB.
    pub(crate) fn per_kib(&self, sum: fn(SendTotal) -> u64) -> Option<f64> {
        let kib = self.size as f64 / 1024.0 * f64::from(self.files);
        self.cost.map(|cost| sum(cost) as f64 / kib)
    }
}
