//! The machine of a measurement.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The machine, and the time of the measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct MachineInfo {
    /// Release of the kernel.
    pub(crate) kernel: String,
    /// Name of the processor.
    pub(crate) processor: String,
    /// Cores that the lab may use.
    pub(crate) core_count: usize,
    /// TCP congestion control.
    pub(crate) congestion_control: Option<String>,
    /// Start of the measurement, as `2026-01-31T12:00:00Z`.
    pub(crate) start_time: String,
}

impl fmt::Display for MachineInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kernel = self.kernel.split('-').next().unwrap_or_default();
        let date = self.start_time.split('T').next().unwrap_or_default();
        write!(f, "Linux {kernel}, {}, {} cores, {date}", self.processor, self.core_count)
    }
}

#[cfg(test)]
impl MachineInfo {
    /// Returns a machine for tests.
    pub(crate) fn example() -> MachineInfo {
        MachineInfo {
            kernel: "6.18.1-generic".into(),
            processor: "A Processor".into(),
            core_count: 2,
            congestion_control: Some("reno".into()),
            start_time: "2026-01-01T00:00:00Z".into(),
        }
    }
}
