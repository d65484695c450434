//! CPU times of one window, and the rule that rejects a window.

use serde::{Deserialize, Serialize};

/// How one core was used during a window, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct CpuTimes {
    pub(crate) elapsed_ns: u64,
    /// CPU time of all threads of the server.
    pub(crate) server_ns: u64,
    /// CPU time of the client.
    pub(crate) client_ns: u64,
    /// Time during which the core was busy with any task.
    pub(crate) busy_ns: u64,
    /// Time that the hypervisor took from the core.
    pub(crate) steal_ns: u64,
    /// Busy and stolen time of all other cores together. No rule rejects it. Old records of cold reads lack it.
    #[serde(default)]
    pub(crate) other_cores_ns: u64,
}

impl CpuTimes {
    /// Returns the share of the window in which the core ran neither server nor client, or was stolen.
    pub(crate) fn other_share(&self) -> f64 {
        let own_ns = self.server_ns + self.client_ns;
        (self.busy_ns.saturating_sub(own_ns) + self.steal_ns) as f64 / self.elapsed_ns as f64
    }
}

/// The limit on [`CpuTimes::other_share`], fixed before any race: a window above it is dirty, and so is its round. The kernel
/// reports core time in ticks of 10 ms: one tick at either end is one percent of two seconds.
pub(crate) const OTHER_SHARE_MAX: f64 = OTHER_PERCENT_MAX as f64 / 100.0;

/// The same, in percent.
pub(crate) const OTHER_PERCENT_MAX: u16 = 3;

/// The same limit for a server that forks a process for each connection: kernel threads clean up after these processes, and
/// their time counts as that of other processes.
pub(crate) const OTHER_SHARE_MAX_FORK: f64 = 0.10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_share_excludes_server_and_client() {
        #[rustfmt::skip]
        let cases = [
            // case             busy, steal, share
            ("no others",        900,   0,   0.0),
            ("a tick too few",   890,   0,   0.0),
            ("other processes",  950,   0,   0.05),
            ("stolen",           900,  20,   0.02),
            ("both",             950,  20,   0.07),
        ];
        for (name, busy_ns, steal_ns, want) in cases {
            let (elapsed_ns, server_ns, client_ns) = (1000, 500, 400);
            let cpu = CpuTimes { elapsed_ns, server_ns, client_ns, busy_ns, steal_ns, other_cores_ns: 0 };
            assert!((cpu.other_share() - want).abs() < 1e-9, "{name}");
        }
    }
}
