//! A share of a processor: a control group whose processes may run for a part of the time.
//!
//! A server that has half of a core is its own limit where the load generator would be otherwise.

use super::control_group::{CgroupController, CgroupVersion, ControlGroup};
use crate::error::LabError;

/// A control group with a limit on processor time.
pub(crate) struct CpuQuota(ControlGroup);

/// How long a period is, in microseconds. In each, the processes run for their share of it, and then wait for the next: the shorter, the less
/// work piles up during the wait.
const PERIOD_US: u32 = 5_000;

impl CpuQuota {
    /// Creates a control group without processes, which together get this share of one processor.
    pub(crate) fn new(share: f64) -> Result<CpuQuota, LabError> {
        let failed = |error: LabError| format!("cannot limit the processor time: {error}");
        let group = ControlGroup::new(CgroupController { one: "cpu", two: "cpu" }).map_err(failed)?;
        let quota_us = (f64::from(PERIOD_US) * share) as u32;
        let written = match group.version() {
            CgroupVersion::One => group
                .write("cpu.cfs_period_us", &PERIOD_US.to_string())
                .and_then(|()| group.write("cpu.cfs_quota_us", &quota_us.to_string())),
            CgroupVersion::Two => group.write("cpu.max", &format!("{quota_us} {PERIOD_US}")),
        };
        written.map_err(failed)?;
        Ok(CpuQuota(group))
    }

    /// Moves processes with all their threads into the group.
    pub(crate) fn add(&self, processes: &[u32]) -> Result<(), LabError> {
        processes.iter().try_for_each(|process| self.0.add(*process))
    }
}
